"""A checksum of an ORC file, in its footer, where other readers pass over it.

ORC itself has none, so that a changed value may pass for another one. The last entry of the
footer's user metadata is the CRC-32 of all bytes of the file before the footer, of the footer as it
is without the entry, and of what follows it. Source: ORC's specification, ``orc_proto.proto``.
"""

from __future__ import annotations

import zlib

import pyarrow as pa

from headwater.storage.errors import CorruptData
from headwater.storage.formats.held_output import HeldOutput
from headwater.storage.formats.orc_messages import written
from headwater.storage.formats.orc_tail import FOOTER_LENGTH, OrcTail, in_chunks

__all__ = ["check_orc", "write_with_checksum"]

_ENTRY = b"headwater.crc32"
_USER_METADATA, _NAME, _VALUE = 5, 1, 2
_CRC_BYTES = 4
_READ_BYTES = 1 << 22


def _entry(crc: int) -> bytes:
    value = crc.to_bytes(_CRC_BYTES, "big")
    return written({_USER_METADATA: [written({_NAME: [_ENTRY], _VALUE: [value]})]})


def write_with_checksum(sink: pa.NativeFile, output: HeldOutput, path: str) -> None:
    """Write the end of a file, with a checksum in its footer.

    Args:
        sink: The file.
        output: Has kept the end, and summed up what is before it.
        path: The file's name, for errors.
    """
    held = output.held()
    tail = OrcTail(pa.BufferReader(held), path, output.passed)
    stripes, footer = memoryview(held)[: tail.footer_at], tail.footer_bytes
    # What follows the footer says how long it is.
    length = len(in_chunks(footer + _entry(0), tail.kind_of_codec, tail.chunk_bytes))
    end = tail.end_with({FOOTER_LENGTH: [length]})
    crc = zlib.crc32(end, zlib.crc32(footer, zlib.crc32(stripes, output.crc)))
    sink.write(stripes)
    sink.write(in_chunks(footer + _entry(crc), tail.kind_of_codec, tail.chunk_bytes))
    sink.write(end)


def check_orc(tail: OrcTail) -> None:
    """Compare all bytes of a file with its checksum, if it has one.

    Args:
        tail: The file's tail.

    Raises:
        CorruptData: They differ.
    """
    footer, size = tail.footer_bytes, len(_entry(0))
    if footer[-size:-_CRC_BYTES] != _entry(0)[:-_CRC_BYTES]:
        return
    crc = 0
    for start in range(0, tail.footer_at, _READ_BYTES):
        crc = zlib.crc32(tail.content(start, min(start + _READ_BYTES, tail.footer_at)), crc)
    crc = zlib.crc32(tail.end_with({}), zlib.crc32(footer[:-size], crc))
    if footer[-size:] != _entry(crc):
        raise CorruptData(f"file {tail.path} is damaged: its checksum is another")
