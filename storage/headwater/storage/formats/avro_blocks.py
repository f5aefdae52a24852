"""The frame of an Avro file: a header, then blocks of rows, each compressed by itself.

Source: the Avro specification's section on object container files.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import cramjam
import pyarrow as pa

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.types.data_type import Json

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = [
    "CODECS",
    "MALFORMED",
    "OPTION_CODECS",
    "ROW_COUNT",
    "Block",
    "BlockReader",
    "Codec",
    "block",
    "compressed",
    "header",
    "varint",
    "with_metadata",
]

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_BUFFER_BYTES = 1 << 20

ROW_COUNT = b"headwater.row-count"
"""An entry of the header of files that Headwater writes as a whole: how many rows they have.

Avro keeps no count, so that a file cut off between two blocks would pass for a shorter one. Other
readers pass over entries that they do not know.
"""

# The last entry of the header: the CRC-32 of the others, in hexadecimal digits.
_CHECKSUM = b"headwater.crc32"


@dataclass(frozen=True)
class Codec:
    """A compression.

    Attributes:
        name: The name in a file's header.
        compress: Takes the bytes and the level of ``zstandard``.
        expand: The other way round.
    """

    name: str
    compress: Callable[[bytes, int], bytes]
    expand: Callable[[bytes], bytes]


def _deflate(data: bytes, level: int) -> bytes:
    work = zlib.compressobj(wbits=-15)
    return work.compress(data) + work.flush()


def _zstandard(data: bytes, level: int) -> bytes:
    # Nothing else in an Avro file tells a changed value; every decompressor looks at the checksum.
    parameter = zstd.CompressionParameter
    return zstd.compress(
        data, options={parameter.compression_level: level, parameter.checksum_flag: 1}
    )


def _snappy(data: bytes, level: int) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")


def _from_snappy(data: bytes) -> bytes:
    expanded = bytes(cramjam.snappy.decompress_raw(data[:-4]))
    if zlib.crc32(expanded).to_bytes(4, "big") != data[-4:]:
        raise ValueError("the checksum is wrong")
    return expanded


CODECS: Mapping[str, Codec] = {
    each.name: each
    for each in (
        Codec("null", lambda data, level: data, lambda data: data),
        Codec("deflate", _deflate, lambda data: zlib.decompress(data, wbits=-15)),
        Codec("snappy", _snappy, _from_snappy),
        Codec("bzip2", lambda data, level: bz2.compress(data), bz2.decompress),
        Codec("xz", lambda data, level: lzma.compress(data), lzma.decompress),
        Codec("zstandard", _zstandard, zstd.decompress),
    )
}
"""All that this Headwater reads and writes, by their names."""

OPTION_CODECS: Mapping[str, Codec] = {
    "zstd": CODECS["zstandard"],
    "none": CODECS["null"],
    "uncompressed": CODECS["null"],
    **CODECS,
}
"""The same by the names that options give them."""

MALFORMED = (
    ValueError,
    EOFError,
    OSError,
    zlib.error,
    lzma.LZMAError,
    zstd.ZstdError,
    cramjam.DecompressionError,
)
"""The errors of the decompressors for bytes that are not what they say."""


def varint(number: int) -> bytes:
    """A whole number as Avro writes one."""
    rest = (number << 1) ^ (number >> 63)
    digits = bytearray()
    while rest > 0x7F:
        digits.append(rest & 0x7F | 0x80)
        rest >>= 7
    digits.append(rest)
    return bytes(digits)


def _text(data: bytes) -> bytes:
    return varint(len(data)) + data


def header(schema: Mapping[str, Json], codec: str, sync: bytes) -> bytes:
    """The header of a file.

    Args:
        schema: The rows' schema.
        codec: The name of the blocks' codec.
        sync: 16 bytes that end each block.
    """
    document = json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode()
    entries = {b"avro.schema": document, b"avro.codec": codec.encode()}
    return _head(entries) + sync


def _head(entries: Mapping[bytes, bytes]) -> bytes:
    """A header but for its sync marker, with its checksum."""
    others = {key: value for key, value in entries.items() if key != _CHECKSUM}
    whole = {**others, _CHECKSUM: _checksum(others)}
    return _MAGIC + varint(len(whole)) + _encoded(whole) + varint(0)


def _encoded(entries: Mapping[bytes, bytes]) -> bytes:
    return b"".join(_text(key) + _text(value) for key, value in entries.items())


def _checksum(entries: Mapping[bytes, bytes]) -> bytes:
    return b"%08x" % zlib.crc32(_encoded(entries))


def with_metadata(data: bytes, key: bytes, value: bytes) -> bytes:
    """A file's content with one more entry in its header, which other readers pass over."""
    reader = BlockReader(data, "")
    return _head({**reader.metadata, key: value}) + data[reader.start - _SYNC_BYTES :]


def compressed(data: bytes, codec: Codec, level: int) -> bytes:
    """The content of a file that is not compressed, compressed block by block.

    Args:
        data: The file's content.
        codec: The codec.
        level: Used by ``zstandard`` alone.
    """
    reader = BlockReader(data, "")
    sync = data[reader.start - _SYNC_BYTES : reader.start]
    parts = [_head({**reader.metadata, b"avro.codec": codec.name.encode()}), sync]
    parts += [
        block(each.row_count, codec.compress(each.data, level), sync) for each in reader.blocks()
    ]
    return b"".join(parts)


def block(row_count: int, data: bytes, sync: bytes) -> bytes:
    """A block of rows, whose bytes are compressed already."""
    return varint(row_count) + varint(len(data)) + data + sync


@dataclass(frozen=True)
class Block:
    """A block as it stands in a file.

    Attributes:
        row_count: Rows.
        data: The rows, compressed.
    """

    row_count: int
    data: bytes


class BlockReader:
    """Reads a file block by block.

    Args:
        source: The file, read from its beginning, or its content.
        path: Its name, for errors.

    Attributes:
        schema_text: The schema of the rows, as the header has it.
        codec: The blocks' codec.
        metadata: The entries of the header.
        start: The place of the first block, bytes.
        position: The place after what was read last, bytes.

    Raises:
        CorruptData: The file is no Avro file, or ends in its header.
        Unsupported: It is compressed with a codec that is not supported.
    """

    def __init__(self, source: pa.NativeFile | bytes, path: str) -> None:
        self._source: io.BytesIO | pa.BufferedInputStream
        if isinstance(source, bytes):
            self._size = len(source)
            self._source = io.BytesIO(source)
        else:
            self._size = int(source.size())
            self._source = pa.BufferedInputStream(source, _BUFFER_BYTES)
        self._path = path
        self.position = 0
        if self._take(len(_MAGIC)) != _MAGIC:
            raise CorruptData(f"file {path} cannot be read: it is not an Avro file")
        metadata = self.metadata = self._metadata()
        self._sync = self._read(_SYNC_BYTES)
        self.start = self.position
        try:
            self.schema_text = metadata[b"avro.schema"]
            codec = metadata.get(b"avro.codec", b"null").decode()
        except (KeyError, ValueError) as error:
            raise self._has_no_schema() from error
        self._row_count = self._stated_rows(metadata.get(ROW_COUNT))
        if codec not in CODECS:
            raise Unsupported(f"file {path} is compressed with '{codec}', which is not supported")
        self.codec = CODECS[codec]

    @property
    def schema(self) -> Json:
        """The schema of the rows; raises CorruptData when the header's is not JSON."""
        try:
            schema: Json = json.loads(self.schema_text)
        except ValueError as error:
            raise self._has_no_schema() from error
        return schema

    def _has_no_schema(self) -> CorruptData:
        return CorruptData(f"file {self._path} cannot be read: its header has no schema")

    def _stated_rows(self, text: bytes | None) -> int | None:
        if text is None or text.isdigit():
            return None if text is None else int(text)
        raise CorruptData(
            f"file {self._path} cannot be read: its header has {ROW_COUNT.decode()} {text!r}"
        )

    def _metadata(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        while count := self._varint():
            if count < 0:
                # A number of bytes follows, which allows to skip them.
                count = -count
                self._varint()
            for _ in range(count):
                key = self._read(self._varint())
                found[key] = self._read(self._varint())
        checksum = found.pop(_CHECKSUM, None)
        if checksum not in (None, _checksum(found)):
            raise CorruptData(
                f"file {self._path} cannot be read: the checksum of its header is another"
            )
        return found

    def _read(self, size: int) -> bytes:
        # Before memory is taken for it.
        if not 0 <= size <= self._size:
            raise CorruptData(f"file {self._path} cannot be read: a length of {size} is impossible")
        data = self._take(size)
        if len(data) < size:
            raise CorruptData(f"file {self._path} cannot be read: it is cut off")
        return data

    def _take(self, size: int) -> bytes:
        data: bytes = self._source.read(size)
        self.position += len(data)
        return data

    def _varint(self, first: bytes = b"") -> int:
        number = shift = 0
        while shift < 70:
            (digit,) = first or self._read(1)
            first = b""
            number |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise CorruptData(f"file {self._path} cannot be read: a number of 10 bytes has no end")

    def blocks(self) -> Iterator[Block]:
        """The blocks after the header.

        Raises:
            CorruptData: The file ends in a block or before the last one, or the end of one is not
                where it should be.
        """
        total = 0
        while first := self._take(1):
            found = self._block(first)
            total += found.row_count
            yield found
        if self._row_count not in (None, total):
            raise CorruptData(
                f"file {self._path} cannot be read: it has {total} of {self._row_count} rows"
            )

    def block_at(self, place: int) -> Block:
        """The block at a place of a file that is given by its content.

        Raises:
            CorruptData: None is there.
        """
        self._source.seek(place)
        self.position = place
        return self._block(self._read(1))

    def _block(self, first: bytes) -> Block:
        rows, size = self._varint(first), self._varint()
        if rows < 0:
            raise CorruptData(f"file {self._path} cannot be read: a block of {rows} rows")
        data = self._read(size)
        if self._read(_SYNC_BYTES) != self._sync:
            raise CorruptData(f"file {self._path} cannot be read: a block's end is not marked")
        return Block(rows, data)

    def rows_of(self, found: Block) -> bytes:
        """A block's rows, decompressed.

        Raises:
            CorruptData: They cannot be.
        """
        try:
            return self.codec.expand(found.data)
        except MALFORMED as error:
            raise CorruptData(
                f"file {self._path} cannot be read: {self.codec.name}: {error}"
            ) from error
