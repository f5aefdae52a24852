"""The log's messages as they come, read ahead by a thread, and kept on disk when they are many."""

from __future__ import annotations

import queue
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from time import monotonic

from headwater.cdc.postgres.copy_messages import MessageChunk
from headwater.cdc.postgres.log_stream import LogStream
from headwater.cdc.postgres.packed_rows import SlabBytes
from headwater.cdc.source.disk_buffer import DiskBuffer
from headwater.storage.errors import HeadwaterError, Unavailable

__all__ = ["LogChunks"]

# Chunks of `CHUNK_BYTES` at most.
_READ_AHEAD = 32
_WAKE_SECONDS = 0.2


class LogChunks:
    """Messages of a stream, which a thread reads ahead.

    The thread also answers the server while its messages are not read: it does not wait for ever.

    Bytes of rows are kept until their batch is committed. A transaction may have more of them than
    there is memory: beyond `memory_bytes` they are written to files, and read from there.

    Args:
        stream: The stream; it is closed with this.
        source: Its name in messages.
        memory_bytes: How many bytes of rows of a batch are kept in memory.

    Attributes:
        source: Its name in messages.
        kept: How many bytes of rows are kept; their reader counts them.
    """

    def __init__(self, stream: LogStream, source: str, memory_bytes: int = 256 << 20) -> None:
        self.source = source
        self._stream, self._memory_bytes = stream, memory_bytes
        self.kept = 0
        self._buffer = DiskBuffer()
        self._closing = Event()
        self._queue: queue.Queue[MessageChunk | HeadwaterError | None] = queue.Queue(_READ_AHEAD)
        self._thread = Thread(target=self._read_ahead, name="cdc-log", daemon=True)
        self._thread.start()
        # Whether the end of the log was handed on.
        self.ended = False

    def close(self) -> None:
        """End the stream and its thread."""
        self._closing.set()
        self._thread.join()
        self._stream.close()
        self._buffer.close()

    def store(self, data: SlabBytes) -> SlabBytes:
        """Keep bytes of rows until their batch is committed."""
        return data if self.kept < self._memory_bytes else self._buffer.store(data)

    def released(self, kept: int) -> None:
        """Note how many bytes are kept of what came before."""
        self.kept = kept
        self._buffer.close()

    def received(self, lsn: int) -> None:
        """Note that the log was read until there."""
        self._stream.received(lsn)

    def confirm(self, lsn: int) -> None:
        """Let the server forget the log until there."""
        self._stream.confirm(lsn)

    def next(self, deadline: float | None, should_end: Callable[[], bool]) -> MessageChunk | None:
        """The next messages; None at the deadline, when it should end, or at the end of the log.

        Args:
            deadline: By the monotonic clock, in seconds; None waits.
            should_end: Asked several times a second.

        Raises:
            Forbidden, NotFound, Unavailable: As `LogStream.receive`.
        """
        while not self.ended:
            wait = _WAKE_SECONDS if deadline is None else deadline - monotonic()
            try:
                item = self._queue.get(timeout=max(0.0, min(_WAKE_SECONDS, wait)))
            except queue.Empty:
                if not self._thread.is_alive() and self._queue.empty():
                    raise Unavailable(
                        f"{self.source} is not read any more: the thread that reads it has ended; "
                        "start the pipeline again"
                    ) from None
                if should_end() or (deadline is not None and monotonic() >= deadline):
                    return None
                continue
            if isinstance(item, HeadwaterError):
                self._queue.put(item)
                raise item
            if item is not None:
                return item
            self.ended = True
        return None

    def _read_ahead(self) -> None:
        try:
            while not self._closing.is_set() and not self._stream.ended:
                chunk = self._stream.receive(_WAKE_SECONDS)
                self._stream.report()
                if chunk is not None:
                    self._put(chunk)
            self._put(None)
        except HeadwaterError as error:
            self._put(error)

    def _put(self, item: MessageChunk | HeadwaterError | None) -> None:
        while not self._closing.is_set():
            with suppress(queue.Full):
                self._queue.put(item, timeout=_WAKE_SECONDS)
                return
            if not isinstance(item, HeadwaterError):
                self._stream.report()
