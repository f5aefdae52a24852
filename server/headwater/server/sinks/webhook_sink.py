"""A web hook that events are posted to, as CloudEvents."""

from __future__ import annotations

import hmac
from asyncio import new_event_loop, timeout
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

import httpx

from headwater.catalog.model.events import Event
from headwater.server.sinks.cloud_events import (
    BATCH_TYPE,
    EVENT_TYPE,
    encode_batch,
    encode_event,
)
from headwater.storage.errors import Unavailable
from headwater.storage.runtime import Runtime

__all__ = ["WebhookSink"]

_TIMEOUT_SECONDS = 10.0
_LONGEST_ANSWER = 65_536
_OK, _REDIRECTION = 200, 300


class WebhookSink:
    """Posts events to a URL: one at a time in structured mode, or several in batch mode.

    Only an answer of 2xx says that they are there. Redirections are not followed, and proxies of
    the environment not used: the events go where the settings say, and nowhere else.

    Requests are signed as https://www.standardwebhooks.com says, if there is a secret: the header
    ``webhook-signature`` is ``v1,`` and the Base64 of the HMAC-SHA256 of ``webhook-id``,
    ``webhook-timestamp`` and the body, with dots between.

    Args:
        url: The URL.
        source: The CloudEvents attribute.
        runtime: The clock.
        secret: The key of the signatures; None for none.
        batch: The most events of a request; 1 posts each by itself.
    """

    name = "webhook"

    def __init__(
        self, url: str, source: str, runtime: Runtime, *, secret: str | None, batch: int
    ) -> None:
        self._url = url
        self._source = source
        self._runtime = runtime
        self._secret = None if secret is None else secret.encode()
        self._batch = batch
        # Of the thread that delivers: asynchronous for the sake of a limit for the whole answer.
        self._loop = new_event_loop()
        self._client = httpx.AsyncClient(
            timeout=_TIMEOUT_SECONDS, follow_redirects=False, trust_env=False
        )

    def deliver(self, events: Sequence[Event], advance: Callable[[int], None]) -> None:
        """Post events; see `headwater.server.sinks.delivery.Sink`."""
        for start in range(0, len(events), self._batch):
            some = events[start : start + self._batch]
            self._post(some)
            advance(some[-1].offset)

    def close(self) -> None:
        """Give back connections."""
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()

    def _post(self, events: Sequence[Event]) -> None:
        if self._batch == 1:
            body, content_type = encode_event(events[0], self._source), EVENT_TYPE
        else:
            body, content_type = encode_batch(events, self._source), BATCH_TYPE
        # The same if the same events are posted again.
        message_id = f"{self._source}:{events[0].offset}-{events[-1].offset}"
        headers = {"content-type": content_type, "webhook-id": message_id}
        if self._secret is not None:
            seconds = str(self._runtime.now_millis() // 1000)
            headers["webhook-timestamp"] = seconds
            signed = b".".join((message_id.encode(), seconds.encode(), body))
            digest = hmac.digest(self._secret, signed, sha256)
            headers["webhook-signature"] = f"v1,{b64encode(digest).decode()}"
        try:
            status = self._loop.run_until_complete(self._answered(body, headers))
        except TimeoutError as error:
            raise Unavailable(
                f"the receiver of events did not answer within {_TIMEOUT_SECONDS} s"
            ) from error
        except httpx.HTTPError as error:
            raise Unavailable(
                f"the receiver of events did not answer: {type(error).__name__}: {error}"
            ) from error
        if not _OK <= status < _REDIRECTION:
            raise Unavailable(f"the receiver of events answered {status}")

    async def _answered(self, body: bytes, headers: Mapping[str, str]) -> int:
        """The status of the answer, all of whose head comes in time."""
        request = self._client.build_request("POST", self._url, content=body, headers=headers)
        # For the whole head: one that comes byte by byte must not go on for ever.
        async with timeout(_TIMEOUT_SECONDS):
            answer = await self._client.send(request, stream=True)
        try:
            # The status alone says if the events are there. The rest is read so that the connection
            # serves the next request, too; if it breaks off, another one does.
            with suppress(httpx.HTTPError, TimeoutError):
                async with timeout(_TIMEOUT_SECONDS):
                    await _read_end(answer)
        finally:
            await answer.aclose()
        return answer.status_code


async def _read_end(answer: httpx.Response) -> None:
    """Read a short answer to its end."""
    size = 0
    async for chunk in answer.aiter_raw():
        size += len(chunk)
        if size > _LONGEST_ANSWER:
            return
