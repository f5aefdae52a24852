"""A file that events are appended to, one CloudEvent a line."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headwater.catalog.model.events import Event
from headwater.server.sinks.cloud_events import encode_event
from headwater.storage.errors import Invalid, Unavailable

__all__ = ["FileSink"]

_BLOCK = 65_536


class FileSink:
    """Appends to a file, and flushes it to the disk before it says that the events are there.

    The file may be renamed at any time: the next events go to a new one of its name. Whoever
    appends holds a lock on it, of the kind of `flock`.

    Args:
        path: The file.
        source: The CloudEvents attribute.
    """

    name = "file"

    def __init__(self, path: Path, source: str) -> None:
        self._path = path
        self._source = source

    def check(self) -> None:
        """Refuse a file that cannot be appended to; raises Invalid."""
        try:
            with self._opened():
                pass
        except OSError as error:
            raise Invalid(
                f"setting 'event_file': {self._path} cannot be written: {error.strerror or error}"
            ) from error

    def deliver(self, events: Sequence[Event], advance: Callable[[int], None]) -> None:
        """Append events, all or none; see `headwater.server.sinks.delivery.Sink`."""
        lines = b"".join(encode_event(event, self._source) + b"\n" for event in events)
        try:
            with self._opened() as file:
                # With the lock, nobody else writes until this is written; before, somebody may
                # have, if this process was paused.
                advance(events[0].offset - 1)
                end = _end_of_lines(file)
                os.ftruncate(file, end)
                try:
                    _write(file, lines)
                    os.fsync(file)
                except OSError:
                    os.ftruncate(file, end)
                    raise
        except OSError as error:
            raise Unavailable(
                f"{self._path} cannot be written: {error.strerror or error}"
            ) from error
        advance(events[-1].offset)

    def close(self) -> None:
        """Give back what is open: nothing is, between two deliveries."""

    @contextmanager
    def _opened(self) -> Iterator[int]:
        is_new = not self._path.exists()
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if is_new:
                _flush_folder(self._path.parent)
            yield file
        finally:
            os.close(file)


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _end_of_lines(file: int) -> int:
    """The size of a file without a last line that somebody did not write to its end."""
    end = os.fstat(file).st_size
    while end:
        start = max(end - _BLOCK, 0)
        block = os.pread(file, end - start, start)
        newline = block.rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _flush_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
