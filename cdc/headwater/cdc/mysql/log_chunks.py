"""The log's bytes as they come, read ahead by a thread, and kept on disk when they are many."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event, Thread
from time import monotonic

from headwater.cdc.mysql.log_stream import LogChunk, LogPiece, LogStream
from headwater.cdc.source.disk_buffer import DiskBuffer
from headwater.storage.errors import HeadwaterError

__all__ = ["LogChunks"]

_READ_AHEAD = 16
_WAKE_SECONDS = 0.2


class LogChunks:
    """Whole events of a stream, whose bytes a thread reads ahead.

    Events are cut by their reader: threads that both run Python wait for each other.

    Bytes of rows are kept until their batch is committed. A transaction may have more of them than
    there is memory: beyond `memory_bytes` what comes is written to files, and read from there.

    Args:
        stream: The stream; it is closed with this.
        source: Its name in messages.
        memory_bytes: How many bytes of rows of a batch are kept in memory.

    Attributes:
        source: Its name in messages.
        kept: How many bytes of rows are kept; their reader counts them.
        held: How many bytes the rows of the transaction that is read hold, with what is between
            them; their reader counts them.
    """

    def __init__(self, stream: LogStream, source: str, memory_bytes: int = 256 << 20) -> None:
        self.source = source
        # Cut, and not read yet.
        self._chunks: Iterator[LogChunk] = iter(())
        self._stream, self._memory_bytes = stream, memory_bytes
        self.kept = self.held = 0
        # Events as they come, which are needed until their transaction is read, and a batch's rows.
        self._event_buffer, self._row_buffer = DiskBuffer(), DiskBuffer()
        self._closing = Event()
        self._queue: queue.Queue[LogPiece | Exception] = queue.Queue(_READ_AHEAD)
        self._thread = Thread(target=self._read_ahead, name="cdc-log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the stream and its thread."""
        self._closing.set()
        self._stream.interrupt()
        self._thread.join()
        self._stream.close()
        self._close_buffers()

    def store(self, data: memoryview) -> memoryview:
        """Keep bytes of rows until their batch is committed."""
        return data if self.kept < self._memory_bytes else self._row_buffer.store(data)

    def store_events(self, data: memoryview) -> memoryview:
        """Keep bytes of events until their transaction is read."""
        return self._event_buffer.store(data) if self._is_full else data

    def released(self) -> None:
        """Note that nothing of what came before is kept."""
        self.kept = self.held = 0
        self._close_buffers()

    def next(self, deadline: float | None, should_end: Callable[[], bool]) -> LogChunk | None:
        """The next events; None at the deadline, when it should end, or at the end of the log.

        Args:
            deadline: By the monotonic clock, in seconds; None waits.
            should_end: Asked several times a second.

        Raises:
            CorruptData, NotFound, Unavailable: As `LogStream.chunks`.
        """
        while True:
            for chunk in self._chunks:
                return self._stored(chunk)
            if self.ended:
                return None
            wait = _WAKE_SECONDS if deadline is None else deadline - monotonic()
            try:
                item = self._queue.get(timeout=max(0.0, min(_WAKE_SECONDS, wait)))
            except queue.Empty:
                if should_end() or (deadline is not None and monotonic() >= deadline):
                    return None
                continue
            if isinstance(item, Exception):
                raise item
            self._chunks = self._stream.cut(item)

    @property
    def _is_full(self) -> bool:
        return self.kept + self.held >= self._memory_bytes

    def _stored(self, chunk: LogChunk) -> LogChunk:
        if not self._is_full:
            return chunk
        data = self._event_buffer.store(chunk.data[chunk.start : chunk.end])
        return LogChunk(data, 0, len(data), chunk.gap)

    @property
    def ended(self) -> bool:
        """Whether the log has ended."""
        return self._stream.ended

    def _close_buffers(self) -> None:
        self._event_buffer.close()
        self._row_buffer.close()

    def _read_ahead(self) -> None:
        try:
            for piece in self._stream.pieces():
                self._put(piece)
                if self._closing.is_set():
                    return
        except (HeadwaterError, OSError, ValueError) as error:
            # Closing the stream ends it with an error, which nobody waits for.
            self._put(error)

    def _put(self, item: LogPiece | Exception) -> None:
        while not self._closing.is_set():
            with suppress(queue.Full):
                self._queue.put(item, timeout=_WAKE_SECONDS)
                return
