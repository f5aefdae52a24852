"""Rows of a table as an HTTP answer: an Arrow stream, made batch by batch in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO

import anyio
import pyarrow as pa
from anyio import to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headwater.catalog.model.access import RowStream
from headwater.catalog.wire.reads import ARROW_STREAM, metadata_of
from headwater.server.read_slots import ReadSlots
from headwater.server.thread_shares import give_back_place

__all__ = ["RowResponse"]


class RowResponse(Response):
    """The answer: what `open_rows` gives, until it ends or the client leaves.

    Errors that come before the first byte are answered as any other's. One that comes later ends
    the connection, so that the client does not take a part for the whole.

    Args:
        open_rows: Chooses the rows, in a thread.
        slots: The reads that may run at a time.
    """

    media_type = ARROW_STREAM

    def __init__(self, open_rows: Callable[[], RowStream], slots: ReadSlots) -> None:
        super().__init__()
        self._open_rows = open_rows
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # Its threads are those of reads, and it may wait long for its turn.
        give_back_place(scope)
        failure: Exception | None = None
        async with self._slots.turn():
            async with anyio.create_task_group() as tasks:

                async def leave() -> None:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    tasks.cancel_scope.cancel()

                tasks.start_soon(leave)
                failure = await self._answered(send)
                tasks.cancel_scope.cancel()
            if failure is not None:
                raise failure

    async def _answered(self, send: Send) -> Exception | None:
        """Send the answer; an error is returned, as a group of tasks would wrap it."""
        threads = self._slots.threads
        chunks: Iterator[bytes] | None = None
        try:
            rows = await to_thread.run_sync(self._open_rows, limiter=threads)
            chunks = _chunks(rows)
            # The first one before the answer begins: planning may fail.
            chunk = await to_thread.run_sync(next, chunks, None, limiter=threads)
            headers = [(b"content-type", ARROW_STREAM.encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while chunk is not None:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = await to_thread.run_sync(next, chunks, None, limiter=threads)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except Exception as error:  # noqa: BLE001  # given on whole
            return error
        finally:
            if chunks is not None:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(_close, chunks, limiter=threads)
        return None


def _chunks(rows: RowStream) -> Iterator[bytes]:
    """The bytes of an Arrow stream: the schema with the first batch, then each batch."""
    buffer = BytesIO()
    with pa.ipc.new_stream(buffer, rows.schema.with_metadata(metadata_of(rows))) as writer:
        for batch in rows.batches:
            writer.write_batch(batch)
            yield _taken(buffer)
    yield _taken(buffer)


def _taken(buffer: BytesIO) -> bytes:
    found = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return found


def _close(chunks: Iterator[bytes]) -> None:
    close = getattr(chunks, "close", None)
    if close is not None:
        close()
