"""Range bitmaps: a sorted dictionary of a column's values, and the bits of the rows' codes in it.

Source: ``RangeBitmap.java``, ``BitSliceIndexBitmap.java``, ``ChunkedDictionary.java``,
``FixedLengthChunk.java``, ``VariableLengthChunk.java``, ``spec/fileindex.mdx``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from headwater.storage.index.file_index.keys import (
    Distinct,
    Key,
    binary_content,
    distinct_keys,
    greedy_starts,
    key_bytes,
    key_width,
    read_key,
)
from headwater.storage.index.file_index.positions import all_rows, read_bitmap, written_bitmap
from headwater.storage.schema.file_indexes import FileIndex
from headwater.storage.types.atomic_type import AtomicType, Root

__all__ = ["RangeBitmapReader", "range_bitmap_body"]

_VERSION = 1
_NUMBER = struct.Struct(">i")
# A chunk of such a column holds one key.
_UNCHUNKED = (Root.BOOLEAN, Root.TINYINT, Root.SMALLINT)


def range_bitmap_body(index: FileIndex, data_type: AtomicType, column: pa.Array) -> bytes:
    """The range bitmap of a file's column, as the setting ``chunk-size``."""
    chunk = index.size("chunk-size", "0 b" if data_type.root in _UNCHUNKED else "16 kb")
    distinct = distinct_keys(column, data_type)
    keys = key_bytes(distinct.keys, data_type)
    dictionary = _dictionary(keys, chunk, key_width(data_type))
    ends = [keys[0].as_py(), keys[-1].as_py()] if len(keys) else []
    head = struct.pack(">bii", _VERSION, distinct.row_count, len(keys)) + b"".join(ends)
    head += _NUMBER.pack(len(dictionary))
    return b"".join([_NUMBER.pack(len(head)), head, dictionary, _slices(distinct)])


def _dictionary(keys: pa.Array, limit: int, width: int | None) -> bytes:
    """The keys in chunks: the first of each in the chunk's head, the others behind all heads."""
    data, ends = binary_content(keys)
    starts = greedy_starts(ends[1:], limit, free_first=True)
    chunks: list[bytes] = []
    bodies: list[bytes] = []
    written = 0
    for start, stop in zip(starts, [*starts[1:], len(keys)], strict=False):
        others = data[ends[start + 1] : ends[stop]]
        count = stop - start - 1
        offsets = b""
        if width is None:
            offsets = (ends[start + 1 : stop] - ends[start + 1]).astype(">i4").tobytes()
        sizes = (len(offsets), len(others)) if width is None else (len(others), width)
        chunks.append(
            struct.pack(">b", _VERSION)
            + data[ends[start] : ends[start + 1]]
            + struct.pack(">iiiii", start, written, count, *sizes)
        )
        bodies += [offsets, others]
        written += len(offsets) + len(others)
    places = np.cumsum([0, *map(len, chunks)])
    head = struct.pack(">biii", _VERSION, len(chunks), 4 * len(chunks), int(places[-1]))
    table = places[:-1].astype(">i4").tobytes()
    return b"".join([_NUMBER.pack(len(head)), head, table, *chunks, *bodies])


def _slices(found: Distinct) -> bytes:
    """The rows that have a key, and for bitmap bit of the codes the rows where it is set."""
    count = max(1, (len(found.keys) - 1).bit_length()) if len(found.keys) else 64
    present = written_bitmap(BitMap(found.rows))
    slices = [
        written_bitmap(BitMap(found.rows[(found.codes >> np.int64(bit)) & 1 == 1]))
        for bit in range(count)
    ]
    places: list[int] = []
    start = 0
    for bitmap in slices:
        places += [start, len(bitmap)]
        start += len(bitmap)
    head = struct.pack(">bbii", _VERSION, count, len(present), 8 * count)
    head += struct.pack(f">{2 * count}i", *places)
    return b"".join([_NUMBER.pack(len(head)), head, present, *slices])


class RangeBitmapReader:
    """Asks a range bitmap.

    Args:
        body: The index.
        data_type: The type of the values in the file.

    Attributes:
        row_count: The file's rows.

    Raises:
        ValueError, struct.error: The body is not such an index.
    """

    def __init__(self, body: bytes, data_type: AtomicType) -> None:
        start, head = _head(body, 0)
        version, self.row_count, self._keys = struct.unpack_from(">bii", head)
        _check_version(version)
        (length,) = _NUMBER.unpack_from(head, len(head) - _NUMBER.size)
        self._dictionary = _Dictionary(body, start, data_type) if self._keys else None
        self._codes = _Codes(body, start + length, self.row_count)

    def nulls(self) -> BitMap:
        """The rows that are null."""
        if self._dictionary is None:
            return all_rows(self.row_count)
        return all_rows(self.row_count) - self._codes.present()

    def among(self, keys: Sequence[Key]) -> BitMap:
        """The rows with one of the keys."""
        matching = BitMap()
        if self._dictionary is None:
            return matching
        for key in set(keys):
            code, is_there = self._dictionary.find(key)
            if is_there:
                matching |= self._codes.equal(code)
        return matching

    def above(self, key: Key, *, inclusive: bool) -> BitMap | None:
        """The rows with greater keys."""
        if self._dictionary is None:
            return BitMap()
        code, is_there = self._dictionary.find(key)
        return self._codes.above(code if is_there and not inclusive else code - 1)

    def content(self) -> tuple[list[Key], npt.NDArray[np.int64]]:
        """All keys, and for each row the position of its key in them; -1 where it is null."""
        if self._dictionary is None:
            return [], np.full(self.row_count, -1, np.int64)
        keys = self._dictionary.keys()
        if len(keys) != self._keys:
            raise ValueError(f"{len(keys)} values; expected {self._keys}")
        return keys, self._codes.numbers()


def _head(body: bytes, at: int) -> tuple[int, bytes]:
    """The head that has its length before it, and the position after it."""
    (length,) = _NUMBER.unpack_from(body, at)
    stop = at + _NUMBER.size + length
    if length < 0 or stop > len(body):
        raise ValueError(f"a head of {length} bytes at {at} is beyond the end")
    return stop, body[at + _NUMBER.size : stop]


def _check_version(version: int) -> None:
    if version > _VERSION:
        raise ValueError(f"version {version}; Headwater reads {_VERSION}")


@dataclass(frozen=True)
class _Chunk:
    first: Key
    code: int
    count: int
    keys: int
    offsets: int | None


class _Dictionary:
    """The sorted keys."""

    def __init__(self, body: bytes, at: int, data_type: AtomicType) -> None:
        self._body, self._type = body, data_type
        self._table, head = _head(body, at)
        version, self._count, table_size, chunks_size = struct.unpack(">biii", head)
        _check_version(version)
        self._chunks = self._table + table_size
        self._bodies = self._chunks + chunks_size

    def _chunk(self, number: int) -> _Chunk:
        (offset,) = _NUMBER.unpack_from(self._body, self._table + 4 * number)
        at = self._chunks + offset
        _check_version(self._body[at])
        first, at = read_key(self._body, at + 1, self._type)
        code, start, count, size, _ = struct.unpack_from(">iiiii", self._body, at)
        keys = self._bodies + start
        if key_width(self._type) is not None:
            return _Chunk(first, code, count, keys, None)
        return _Chunk(first, code, count, keys + size, keys)

    def _key(self, chunk: _Chunk, number: int) -> Key:
        if chunk.offsets is None:
            at = number * (key_width(self._type) or 0)
        else:
            (at,) = _NUMBER.unpack_from(self._body, chunk.offsets + 4 * number)
        return read_key(self._body, chunk.keys + at, self._type)[0]

    def find(self, key: Key) -> tuple[int, bool]:
        """The code of a key and True; without it that of the next greater one, and False."""
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            if _is_below(key, self._chunk(middle).first):
                high = middle
            else:
                low = middle + 1
        if low == 0:
            return 0, False
        chunk = self._chunk(low - 1)
        if chunk.first == key:
            return chunk.code, True
        low, high = 0, chunk.count
        while low < high:
            middle = (low + high) // 2
            if _is_below(self._key(chunk, middle), key):
                low = middle + 1
            else:
                high = middle
        is_there = low < chunk.count and self._key(chunk, low) == key
        return chunk.code + 1 + low, is_there

    def keys(self) -> list[Key]:
        """All keys, each at the position that is its code."""
        keys: list[Key] = []
        for number in range(self._count):
            chunk = self._chunk(number)
            if chunk.code != len(keys):
                raise ValueError(f"chunk {number} begins with value {chunk.code}, not {len(keys)}")
            keys += [chunk.first, *(self._key(chunk, at) for at in range(chunk.count))]
        return keys


def _is_below(one: Key, other: Key) -> bool:
    return one < other  # type: ignore[operator]


class _Codes:
    """The code of each row, bit by bit."""

    def __init__(self, body: bytes, at: int, row_count: int) -> None:
        self._body, self._rows = body, row_count
        start, head = _head(body, at)
        version, self._count, present, _ = struct.unpack_from(">bbii", head)
        _check_version(version)
        self._present = start, present
        places = struct.unpack_from(f">{2 * self._count}i", head, struct.calcsize(">bbii"))
        first = start + present
        self._slices = [
            (first + at, length) for at, length in zip(places[::2], places[1::2], strict=True)
        ]

    def _read(self, place: tuple[int, int]) -> BitMap:
        start, length = place
        if start < 0 or length < 0 or start + length > len(self._body):
            raise ValueError(f"a bitmap of {length} bytes at {start} is beyond the end")
        return read_bitmap(self._body[start : start + length], self._rows)

    def present(self) -> BitMap:
        """The rows that have a code."""
        return self._read(self._present)

    def numbers(self) -> npt.NDArray[np.int64]:
        """The code of each row; -1 where a row has no code."""
        codes = np.full(self._rows, -1, np.int64)
        codes[self.present().to_array()] = 0
        for bit, place in enumerate(self._slices):
            codes[self._read(place).to_array()] += np.int64(1) << np.int64(bit)
        return codes

    def equal(self, code: int) -> BitMap:
        """The rows with a code."""
        matching = self.present()
        for bit, place in enumerate(self._slices):
            if (code >> bit) & 1:
                matching &= self._read(place)
            else:
                matching -= self._read(place)
        return matching

    def above(self, code: int) -> BitMap:
        """The rows with greater codes."""
        present = self.present()
        if code < 0:
            return present
        if code >> len(self._slices):
            return BitMap()
        greater = BitMap()
        # From the lowest bit: a row is greater by this bit, or equal in it and greater below.
        for bit, place in enumerate(self._slices):
            rows = self._read(place)
            greater = greater & rows if (code >> bit) & 1 else greater | rows
        return greater & present
