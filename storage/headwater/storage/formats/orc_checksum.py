"""A checksum of an ORC file, in its footer, where other readers pass over it.

ORC itself has none, so that a changed value may pass for another one. The last entry of the
footer's user metadata is the CRC-32 of all bytes of the file before the footer, of the footer as it
is without the entry, and of what follows it. Source: ORC's specification, ``orc_proto.proto``.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from itertools import starmap

import pyarrow as pa

from headwater.storage.errors import CorruptData
from headwater.storage.formats.held_output import HeldOutput
from headwater.storage.formats.orc_messages import written
from headwater.storage.formats.orc_tail import (
    FOOTER_LENGTH,
    METADATA_NAME,
    METADATA_VALUE,
    USER_METADATA,
    OrcTail,
    in_chunks,
)

__all__ = ["check_orc", "write_with_checksum"]

_ENTRY = b"headwater.crc32"
_CRC_BYTES = 4
_READ_BYTES = 1 << 22


def _entry(name: bytes, value: bytes) -> bytes:
    return written({USER_METADATA: [written({METADATA_NAME: [name], METADATA_VALUE: [value]})]})


def _sum(crc: int) -> bytes:
    return _entry(_ENTRY, crc.to_bytes(_CRC_BYTES, "big"))


def write_with_checksum(
    sink: pa.NativeFile, output: HeldOutput, path: str, entries: Mapping[bytes, bytes]
) -> None:
    """Write the end of a file, with a checksum in its footer.

    Args:
        sink: The file.
        output: Has kept the end, and summed up what is before it.
        path: The file's name, for errors.
        entries: Other user metadata for its footer.
    """
    held = output.held()
    tail = OrcTail(pa.BufferReader(held), path, output.passed)
    stripes = memoryview(held)[: tail.footer_at]
    footer = tail.footer_bytes + b"".join(starmap(_entry, entries.items()))
    # What follows the footer says how long it is.
    length = len(in_chunks(footer + _sum(0), tail.kind_of_codec, tail.chunk_bytes))
    end = tail.end_with({FOOTER_LENGTH: [length]})
    crc = zlib.crc32(end, zlib.crc32(footer, zlib.crc32(stripes, output.crc)))
    sink.write(stripes)
    sink.write(in_chunks(footer + _sum(crc), tail.kind_of_codec, tail.chunk_bytes))
    sink.write(end)


def check_orc(tail: OrcTail) -> None:
    """Compare all bytes of a file with its checksum, if it has one.

    Args:
        tail: The file's tail.

    Raises:
        CorruptData: They differ.
    """
    footer, size = tail.footer_bytes, len(_sum(0))
    if footer[-size:-_CRC_BYTES] != _sum(0)[:-_CRC_BYTES]:
        return
    crc = 0
    for start in range(0, tail.footer_at, _READ_BYTES):
        crc = zlib.crc32(tail.content(start, min(start + _READ_BYTES, tail.footer_at)), crc)
    crc = zlib.crc32(tail.end_with({}), zlib.crc32(footer[:-size], crc))
    if footer[-size:] != _sum(crc):
        raise CorruptData(f"file {tail.path} is damaged: its checksum is another")
