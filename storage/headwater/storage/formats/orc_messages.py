"""Protocol Buffers and compressed parts, as far as the tail of an ORC file needs them.

A message is read into its fields by number, without a schema: what is not known stays as it is
when the message is written again. Source: ORC's specification, ``orc_proto.proto``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import cramjam

from headwater.storage.formats.avro_blocks import CODECS

__all__ = ["Message", "expand", "message", "signed", "unpacked", "varint", "written"]

Message: TypeAlias = Mapping[int, list[int | bytes]]
"""The values of each field: whole numbers, and the bytes of all else."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def varint(number: int) -> bytes:
    """A whole number that is not negative."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _number(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number does not end")
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return number, at


def message(data: bytes) -> Message:
    """Read a message; raises ValueError when the bytes are none."""
    fields: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        value: int | bytes
        if key & 7 == _VARINT:
            value, at = _number(data, at)
        else:
            sizes = {_FIXED64: 8, _FIXED32: 4}
            if key & 7 == _BYTES:
                size, at = _number(data, at)
            elif key & 7 in sizes:
                size = sizes[key & 7]
            else:
                raise ValueError("a field is of an unknown kind")
            if at + size > len(data):
                raise ValueError("a field does not end")
            value, at = data[at : at + size], at + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def written(fields: Message) -> bytes:
    """The bytes of a message that has whole numbers, texts and messages in it."""
    parts: list[bytes] = []
    for number, values in fields.items():
        for value in values:
            if isinstance(value, int):
                parts += [varint(number << 3 | _VARINT), varint(value)]
            else:
                parts += [varint(number << 3 | _BYTES), varint(len(value)), value]
    return b"".join(parts)


def signed(number: int) -> int:
    """A whole number of either sign that was written as ``sint64``."""
    return number >> 1 ^ -(number & 1)


def unpacked(values: list[int | bytes]) -> Iterator[int]:
    """The numbers of a repeated field, whether they are packed or not."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        at = 0
        while at < len(value):
            number, at = _number(value, at)
            yield number


def expand(data: bytes, kind: int, chunk_bytes: int) -> bytes:
    """Undo the compression of a part of a file: chunks with 3 bytes of header each.

    Args:
        data: The part.
        kind: The number of the codec in ``CompressionKind``.
        chunk_bytes: The most bytes that a chunk holds.

    Raises:
        NotImplementedError: The codec is not supported; the message names it.
        Exception: One of `MALFORMED` of ``avro_blocks`` when the bytes are bad.
    """
    if kind == 0:
        return data
    parts: list[bytes] = []
    at = 0
    while at < len(data):
        if at + 3 > len(data):
            raise ValueError("a chunk does not end")
        header = int.from_bytes(data[at : at + 3], "little")
        at += 3
        chunk = data[at : at + (header >> 1)]
        if len(chunk) < header >> 1:
            raise ValueError("a chunk does not end")
        at += len(chunk)
        parts.append(chunk if header & 1 else _expand_chunk(chunk, kind, chunk_bytes))
    return b"".join(parts)


def _expand_chunk(chunk: bytes, kind: int, chunk_bytes: int) -> bytes:
    match kind:
        case 1:
            return zlib.decompress(chunk, wbits=-15)
        case 2:
            return bytes(cramjam.snappy.decompress_raw(chunk))
        case 4:
            room = bytearray(chunk_bytes)
            size = cramjam.lz4.decompress_block_into(chunk, room, output_len=chunk_bytes)
            return bytes(room[:size])
        case 5:
            return CODECS["zstandard"].expand(chunk)
    names = {3: "lzo", 6: "brotli"}
    raise NotImplementedError(names.get(kind, f"codec {kind}"))
