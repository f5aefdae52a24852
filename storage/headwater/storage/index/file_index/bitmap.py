"""Bitmap indexes: the rows of each value. Versions 1 and 2.

A value's offset leads to its bitmap; of a value with one row it is -1 less that row. Version 2 has
the values in order, in blocks of ``index-block-size``, and the blocks' first values before them.
Source: ``BitmapFileIndex.java``, ``BitmapFileIndexMeta.java``, ``BitmapFileIndexMetaV2.java``.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from headwater.storage.index.file_index.keys import (
    Distinct,
    Integers,
    Key,
    distinct_keys,
    entry_bytes,
    greedy_starts,
    key_bytes,
    map_order,
    read_key,
)
from headwater.storage.index.file_index.positions import read_bitmap, written_bitmap
from headwater.storage.schema.file_indexes import FileIndex
from headwater.storage.types.atomic_type import AtomicType

__all__ = ["BitmapReader", "bitmap_body"]

_NUMBER = struct.Struct(">i")


def bitmap_body(index: FileIndex, data_type: AtomicType, column: pa.Array) -> bytes:
    """The bitmap index of a file's column, as the settings ``version`` and ``index-block-size``."""
    version = index.number("version", 2)
    distinct = distinct_keys(column, data_type)
    nulls = BitMap(distinct.nulls)
    null_bytes = written_bitmap(nulls)
    order = map_order(distinct, data_type)
    bitmaps, lengths = _bitmaps(distinct)
    body_start = len(null_bytes) if len(nulls) > 1 else 0
    sizes = np.where(lengths < 0, 0, lengths)[order]
    offsets = np.empty(len(order), np.int64)
    offsets[order] = body_start + np.cumsum(sizes) - sizes
    offsets = np.where(lengths < 0, -1 - distinct.first, offsets)
    head = struct.pack(">bii?", version, distinct.row_count, len(order), bool(nulls))
    if nulls:
        head += _NUMBER.pack(-1 - nulls.min() if len(nulls) == 1 else 0)
    keys = key_bytes(distinct.keys, data_type)
    if version == 1:
        entries, _ = entry_bytes(keys.take(pa.array(order)), offsets[order])
    else:
        head += _NUMBER.pack(len(null_bytes)) if nulls else b""
        limit = index.size("index-block-size", "16 kb")
        entries = _blocks(keys, offsets, lengths, limit)
    body = [null_bytes] if len(nulls) > 1 else []
    return b"".join([head, entries, *body, *(bitmaps[at] for at in order.tolist())])


def _bitmaps(found: Distinct) -> tuple[list[bytes], Integers]:
    """The bitmap of each key, and its length; of a key with one row empty and -1."""
    order = np.argsort(found.codes, kind="stable")
    rows = found.rows[order]
    counts = np.bincount(found.codes, minlength=len(found.keys))
    ends = np.cumsum(counts)
    bitmaps = [b""] * len(counts)
    lengths = np.full(len(counts), -1, np.int64)
    for code in np.flatnonzero(counts > 1).tolist():
        bitmaps[code] = written_bitmap(BitMap(rows[ends[code] - counts[code] : ends[code]]))
        lengths[code] = len(bitmaps[code])
    return bitmaps, lengths


def _blocks(keys: pa.Array, offsets: Integers, lengths: Integers, limit: int) -> bytes:
    """The blocks of version 2, after the list of their first keys."""
    data, ends = entry_bytes(keys, offsets, lengths)
    starts = greedy_starts(ends[1:], limit - _NUMBER.size)
    stops = [*starts[1:], len(keys)]
    blocks = [
        _NUMBER.pack(stop - start) + data[ends[start] : ends[stop]]
        for start, stop in zip(starts, stops, strict=False)
    ]
    sizes = np.array([len(block) for block in blocks], np.int64)
    first, _ = entry_bytes(keys.take(pa.array(starts, pa.int64())), np.cumsum(sizes) - sizes)
    head = [_NUMBER.pack(len(blocks)), first, _NUMBER.pack(int(sizes.sum()))]
    return b"".join([*head, *blocks])


class BitmapReader:
    """Asks a bitmap index.

    Args:
        body: The index.
        data_type: The type of the values in the file.

    Attributes:
        row_count: The file's rows.

    Raises:
        ValueError, struct.error: The body is not such an index.
    """

    def __init__(self, body: bytes, data_type: AtomicType) -> None:
        version, self.row_count, self._keys, has_nulls = struct.unpack_from(">bii?", body)
        if version not in (1, 2):
            raise ValueError(f"version {version}; Headwater reads 1 and 2")
        self._body, self._type = body, data_type
        at = struct.calcsize(">bii?")
        self._null_place: tuple[int, int] | None = None
        if has_nulls:
            (offset,) = _NUMBER.unpack_from(body, at)
            at += _NUMBER.size
            length = -1
            if version == 2:
                (length,) = _NUMBER.unpack_from(body, at)
                at += _NUMBER.size
            self._null_place = offset, length
        self._blocks: list[tuple[Key, int]] | None = None
        self._entries: dict[Key, tuple[int, int]] = {}
        if version == 2:
            self._blocks, at = self._block_list(at)
        else:
            at = self._read_entries(at, self._keys, self._entries, with_lengths=False)
        self._start = at

    def _block_list(self, at: int) -> tuple[list[tuple[Key, int]], int]:
        (count,) = _NUMBER.unpack_from(self._body, at)
        at += _NUMBER.size
        blocks: list[tuple[Key, int]] = []
        for _ in range(count):
            key, at = read_key(self._body, at, self._type)
            (offset,) = _NUMBER.unpack_from(self._body, at)
            at += _NUMBER.size
            blocks.append((key, offset))
        (size,) = _NUMBER.unpack_from(self._body, at)
        at += _NUMBER.size
        if size < 0 or at + size > len(self._body):
            raise ValueError(f"blocks of {size} bytes are beyond the end")
        self._first_block = at
        return blocks, at + size

    def _read_entries(
        self, at: int, count: int, into: dict[Key, tuple[int, int]], *, with_lengths: bool
    ) -> int:
        for _ in range(count):
            key, at = read_key(self._body, at, self._type)
            (offset,) = _NUMBER.unpack_from(self._body, at)
            at += _NUMBER.size
            length = -1
            if with_lengths:
                (length,) = _NUMBER.unpack_from(self._body, at)
                at += _NUMBER.size
            into[key] = offset, length
        return at

    def _place(self, key: Key) -> tuple[int, int] | None:
        if self._blocks is None:
            return self._entries.get(key)
        number = bisect_right(self._blocks, key, key=lambda block: block[0]) - 1
        return None if number < 0 else self._block(self._blocks[number]).get(key)

    def _block(self, block: tuple[Key, int]) -> dict[Key, tuple[int, int]]:
        """The entries of a block of version 2."""
        at = self._first_block + block[1]
        (count,) = _NUMBER.unpack_from(self._body, at)
        entries: dict[Key, tuple[int, int]] = {}
        self._read_entries(at + _NUMBER.size, count, entries, with_lengths=True)
        return entries

    def _rows(self, place: tuple[int, int] | None) -> BitMap:
        if place is None:
            return BitMap()
        offset, length = place
        if offset < 0:
            if -1 - offset >= self.row_count:
                raise ValueError(f"row {-1 - offset} of {self.row_count}")
            return BitMap([-1 - offset])
        start = self._start + offset
        # Version 1 does not say how long a bitmap is; it says so itself.
        stop = len(self._body) if length < 0 else start + length
        return read_bitmap(self._body[start:stop], self.row_count)

    def nulls(self) -> BitMap:
        """The rows that are null."""
        return self._rows(self._null_place)

    def among(self, keys: Sequence[Key]) -> BitMap:
        """The rows with one of the keys."""
        matching = BitMap()
        for key in set(keys):
            matching |= self._rows(self._place(key))
        return matching

    def above(self, key: Key, *, inclusive: bool) -> BitMap | None:
        """None: the index keeps no order."""
        return None

    def content(self) -> tuple[list[Key], Integers]:
        """All keys, and for each row the position of its key in them; -1 where it is null."""
        places: dict[Key, tuple[int, int]] = dict(self._entries)
        for block in self._blocks or ():
            entries = self._block(block)
            if next(iter(entries), None) != block[0] or not places.keys().isdisjoint(entries):
                raise ValueError(f"the block at {block[1]} is not that of its first value")
            places |= entries
        if len(places) != self._keys:
            raise ValueError(f"{len(places)} values; expected {self._keys}")
        codes = np.full(self.row_count, -1, np.int64)
        for number, place in enumerate(places.values()):
            codes[self._rows(place).to_array()] = number
        return list(places), codes
