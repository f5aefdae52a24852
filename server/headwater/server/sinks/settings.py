"""The sinks that the settings name."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.server.settings import ServerSettings
from headwater.server.sinks.delivery import Sink
from headwater.server.sinks.file_sink import FileSink
from headwater.server.sinks.webhook_sink import WebhookSink
from headwater.storage.runtime import Runtime

__all__ = ["sinks_of"]


def sinks_of(settings: ServerSettings, runtime: Runtime) -> Sequence[Sink]:
    """The sinks of the settings; raises Invalid for a file that cannot be written."""
    sinks: list[Sink] = []
    if settings.event_file is not None:
        file = FileSink(settings.event_file.absolute(), settings.event_source)
        file.check()
        sinks.append(file)
    if settings.event_webhook is not None:
        secret = settings.event_webhook_secret
        sinks.append(
            WebhookSink(
                settings.event_webhook.get_secret_value(),
                settings.event_source,
                runtime,
                secret=None if secret is None else secret.get_secret_value(),
                batch=settings.event_webhook_batch,
            )
        )
    return sinks
