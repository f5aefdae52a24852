"""A checksum of a Parquet file's footer, before it, where no reader looks.

Pages have checksums of their own; the footer, which says where they are and between which values
they lie, has none. Between the last page and the footer a file may have any bytes.
"""

from __future__ import annotations

import zlib

import pyarrow as pa

from headwater.storage.errors import CorruptData
from headwater.storage.formats.held_output import HeldOutput

__all__ = ["check_footer", "write_with_checksum"]

_MARK = b"HWCRC32\x00"
_CRC_BYTES = 4
_LENGTH_BYTES = 4
_MAGIC = b"PAR1"
_END_BYTES = _LENGTH_BYTES + len(_MAGIC)


def write_with_checksum(sink: pa.NativeFile, output: HeldOutput) -> None:
    """Write the footer that was kept, and its checksum before it.

    Args:
        sink: The file.
        output: Has kept the footer and nothing else.
    """
    footer = output.held()
    sink.write(_MARK + zlib.crc32(footer).to_bytes(_CRC_BYTES, "big"))
    sink.write(footer)


def check_footer(source: pa.NativeFile, path: str) -> None:
    """Compare a file's footer with its checksum, if it has one.

    Args:
        source: The file.
        path: Its name, for the error.

    Raises:
        CorruptData: They differ.
    """
    size = int(source.size())
    end: bytes = source.read_at(_END_BYTES, size - _END_BYTES)
    length = int.from_bytes(end[:_LENGTH_BYTES], "little") + _END_BYTES
    start = size - length - len(_MARK) - _CRC_BYTES
    if start < 0:
        return
    found: bytes = source.read_at(size - start, start)
    if not found.startswith(_MARK):
        return
    crc = zlib.crc32(found[-length:]).to_bytes(_CRC_BYTES, "big")
    if found[len(_MARK) : -length] != crc:
        raise CorruptData(f"file {path} is damaged: the checksum of its footer is another")
