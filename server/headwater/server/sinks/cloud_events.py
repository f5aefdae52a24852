"""Events as CloudEvents 1.0, in JSON.

Specification: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md and, for the
JSON, ``formats/json-format.md`` beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from headwater.catalog.model.events import Event
from headwater.catalog.table.display import time_text
from headwater.catalog.wire.events import EventModel

__all__ = ["BATCH_TYPE", "EVENT_TYPE", "cloud_event", "encode_batch", "encode_event"]

EVENT_TYPE = "application/cloudevents+json"
"""The content type of one event."""

BATCH_TYPE = "application/cloudevents-batch+json"
"""The content type of several in a JSON array."""

_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def cloud_event(event: Event, source: str) -> dict[str, object]:
    """An event in the JSON format.

    Args:
        event: The event.
        source: The CloudEvents attribute: with `id`, the offset, it tells events apart.
    """
    subject = event.subject
    names = (event.warehouse, subject.database, subject.name)
    found: dict[str, object] = {
        "specversion": "1.0",
        "id": str(event.offset),
        "source": source,
        "type": f"headwater.{event.type.value}",
        "time": time_text(event.at),
        "datacontenttype": "application/json",
        "data": EventModel.of(event).model_dump(mode="json", by_alias=True),
    }
    about = "/".join(name for name in names if name)
    if about:
        found["subject"] = about
    if subject.id:
        # Events of a key are to stay in order where they are passed on.
        found["partitionkey"] = subject.id
    return found


def encode_event(event: Event, source: str) -> bytes:
    """One event, in a line."""
    return _ENCODE(cloud_event(event, source)).encode()


def encode_batch(events: Sequence[Event], source: str) -> bytes:
    """Several, as a JSON array."""
    return _ENCODE([cloud_event(event, source) for event in events]).encode()
