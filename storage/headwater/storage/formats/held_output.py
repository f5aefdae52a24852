"""The destination of a file whose end is changed before it is written."""

from __future__ import annotations

import io
import zlib
from typing import cast

import pyarrow as pa

__all__ = ["HeldOutput"]


class HeldOutput(io.RawIOBase):
    """Passes bytes on, up to the end of a file, which it keeps.

    Args:
        sink: The file.
        summed: Sum up the bytes that are passed on.

    Attributes:
        passed: The number of bytes passed on.
        crc: Their CRC-32, if they are summed up.
    """

    def __init__(self, sink: pa.NativeFile, *, summed: bool = False) -> None:
        super().__init__()
        self._sink = sink
        self._summed = summed
        self._held: list[bytes] | None = None
        self.passed = 0
        self.crc = 0

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Bytes so far."""
        return self.passed + sum(map(len, self._held or ()))

    def write(self, data: object, /) -> int:
        """Pass bytes on, or keep them."""
        content = memoryview(cast("bytes", data))
        if self._held is not None:
            self._held.append(bytes(content))
            return content.nbytes
        self.passed += content.nbytes
        if self._summed:
            self.crc = zlib.crc32(content, self.crc)
        self._sink.write(content)
        return content.nbytes

    def hold(self) -> None:
        """Keep what is written from now on."""
        self._held = []

    def held(self) -> bytes:
        """The bytes that were kept."""
        return b"".join(self._held or ())
