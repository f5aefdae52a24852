"""Bytes of a known number that are read wherever a reader asks for them."""

from __future__ import annotations

import io
from abc import abstractmethod

__all__ = ["RandomReads"]


class RandomReads(io.RawIOBase):
    """A file for Arrow, of which only the bytes of a range have to be given.

    Args:
        size: The number of bytes.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._at = 0

    @abstractmethod
    def range(self, start: int, end: int) -> bytes:
        """The bytes from `start`, below the size, to `end`, behind it by one at most."""

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Read on at another place, from the start, from here or from the end."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """The place of the next read."""
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes, or those that are left."""
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        if end <= self._at:
            return b""
        data = self.range(self._at, end)
        self._at += len(data)
        return data
