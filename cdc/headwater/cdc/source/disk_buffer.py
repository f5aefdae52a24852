"""Bytes of a log that do not fit into memory, in temporary files."""

from __future__ import annotations

import mmap
import tempfile
from threading import Lock
from typing import IO

__all__ = ["DiskBuffer"]

_FILE_BYTES = 64 << 20
# A file is larger where there are many before it, as their number is limited.
_GROWTH = 8


class DiskBuffer:
    """Appends bytes to temporary files, a file for many of them.

    Each file is mapped once. It is deleted when nothing of it is in use any more. Several threads
    may use the same buffer, as those that write tables do.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._file: IO[bytes] | None = None
        self._view = memoryview(b"")
        # How many bytes of the last file are in use, and how many all files may have.
        self._used = self._total = 0

    def store(self, data: bytes | bytearray | memoryview) -> memoryview:
        """Write bytes.

        Args:
            data: The bytes.

        Returns:
            The same bytes, read-only, where they are in a file.
        """
        with self._lock:
            if self._file is None or self._used + len(data) > len(self._view):
                self._file = self._begun_file(len(data))
            # Not through the mapping, where a full disk would be a signal that ends the process.
            self._file.write(data)
            self._file.flush()
            start = self._used
            self._used += len(data)
            return self._view[start : self._used]

    def close(self) -> None:
        """Begin another file for what comes next; what was written stays as long as it is used."""
        with self._lock:
            self._close_file()
            self._total = 0

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._view, self._used = None, memoryview(b""), 0

    def _begun_file(self, min_bytes: int) -> IO[bytes]:
        self._close_file()
        size = max(min_bytes, _FILE_BYTES, self._total // _GROWTH)
        file = tempfile.TemporaryFile()  # noqa: SIM115
        # It has a hole where nothing is written yet.
        file.truncate(size)
        self._view = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
        self._total += size
        return file
