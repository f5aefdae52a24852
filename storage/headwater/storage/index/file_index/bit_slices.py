"""Bit-slice indexes (``bsi``): the bits of whole numbers, positive and negative apart.

Paimon took range bitmaps in their place. Source: ``BitSliceIndexBitmapFileIndex.java``,
``BitSliceIndexRoaringBitmap.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from headwater.storage.index.file_index.keys import Key, key_numbers
from headwater.storage.index.file_index.positions import all_rows, read_bitmap, written_bitmap
from headwater.storage.types.atomic_type import AtomicType

__all__ = ["BitSliceReader", "bit_slice_body"]

_VERSION = 1
_MIN_LONG = -(2**63)
# The cookies of roaring bitmaps with and without runs, and the containers up to which one with
# runs has no table of offsets.
_RUN_COOKIE, _COOKIE = 12347, 12346
_FEW_CONTAINERS = 4
_MAX_IN_ARRAY = 4096


def bit_slice_body(data_type: AtomicType, column: pa.Array) -> bytes | None:
    """The index of a file's column; None if it holds -2**63, whose absolute value does not fit."""
    rows = np.flatnonzero(np.asarray(column.is_valid())).astype(np.uint32)
    numbers = key_numbers(column, data_type).astype(np.int64)[rows]
    if len(numbers) and numbers.min() == _MIN_LONG:
        return None
    parts = [struct.pack(">bi", _VERSION, len(column))]
    for part in (numbers >= 0, numbers < 0):
        parts.append(struct.pack(">?", bool(part.any())))
        if part.any():
            parts.append(_slices(rows[part], np.abs(numbers[part])))
    return b"".join(parts)


def _slices(rows: npt.NDArray[np.uint32], numbers: npt.NDArray[np.int64]) -> bytes:
    greatest = int(numbers.max())
    count = greatest.bit_length()
    slices = [
        written_bitmap(BitMap(rows[(numbers >> np.int64(bit)) & 1 == 1])) for bit in range(count)
    ]
    # Java's least number is 0, whatever the column holds.
    head = struct.pack(">bqq", _VERSION, 0, greatest)
    return b"".join([head, written_bitmap(BitMap(rows)), struct.pack(">i", count), *slices])


class BitSliceReader:
    """Asks a bit-slice index.

    Args:
        body: The index.
        data_type: The type of the values in the file.

    Attributes:
        row_count: The file's rows.

    Raises:
        ValueError, struct.error: The body is not such an index.
    """

    def __init__(self, body: bytes, data_type: AtomicType) -> None:
        version, self.row_count = struct.unpack_from(">bi", body)
        if version > _VERSION:
            raise ValueError(f"version {version}; Headwater reads {_VERSION}")
        at = struct.calcsize(">bi")
        self._positive, at = _Magnitudes.read(body, at, self.row_count)
        self._negative, at = _Magnitudes.read(body, at, self.row_count)

    def nulls(self) -> BitMap:
        """The rows that are null."""
        return all_rows(self.row_count) - self._positive.present - self._negative.present

    def among(self, keys: Sequence[Key]) -> BitMap:
        """The rows with one of the keys."""
        matching = BitMap()
        for key in set(keys):
            number = int(key)
            side = self._positive if number >= 0 else self._negative
            matching |= side.equal(abs(number))
        return matching

    def above(self, key: Key, *, inclusive: bool) -> BitMap | None:
        """The rows with greater keys."""
        least = int(key) + (not inclusive)
        if least >= 0:
            return self._positive.from_(least)
        # Of two negative numbers the one with the smaller magnitude is greater.
        beyond = self._negative.from_(1 - least)
        return self._positive.present | (self._negative.present - beyond)

    def content(self) -> tuple[list[Key], npt.NDArray[np.int64]]:
        """All keys, and for each row the position of its key in them; -1 where it is null."""
        codes = np.full(self.row_count, -1, np.int64)
        positive, negative = (
            side.numbers(self.row_count) for side in (self._positive, self._negative)
        )
        rows = np.sort(np.concatenate([positive[0], negative[0]]))
        numbers = positive[1] - negative[1]
        keys, codes[rows] = np.unique(numbers[rows], return_inverse=True)
        return keys.tolist(), codes


class _Magnitudes:
    """Numbers that are not negative, bit by bit."""

    def __init__(self, present: BitMap, slices: Sequence[BitMap], least: int) -> None:
        self.present = present
        self._slices = slices
        self._least = least

    @staticmethod
    def read(body: bytes, at: int, row_count: int) -> tuple[_Magnitudes, int]:
        """The part that begins there, and the position after it."""
        (is_there,) = struct.unpack_from(">?", body, at)
        at += 1
        if not is_there:
            return _Magnitudes(BitMap(), (), 0), at
        version, least, _ = struct.unpack_from(">bqq", body, at)
        if version > _VERSION:
            raise ValueError(f"version {version}; Headwater reads {_VERSION}")
        present, at = _bitmap(body, at + struct.calcsize(">bqq"), row_count)
        (count,) = struct.unpack_from(">i", body, at)
        at += 4
        slices: list[BitMap] = []
        for _ in range(count):
            rows, at = _bitmap(body, at, row_count)
            slices.append(rows)
        return _Magnitudes(present, slices, least), at

    def numbers(self, row_count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """The rows that have a number, and the numbers of all rows; 0 where a row has no number."""
        present = np.array(self.present.to_array(), np.uint32)
        numbers = np.zeros(row_count, np.int64)
        numbers[present] = self._least
        for bit, rows in enumerate(self._slices):
            numbers[rows.to_array()] += np.int64(1) << np.int64(bit)
        return present, numbers

    def equal(self, number: int) -> BitMap:
        """The rows with a number."""
        return self.from_(number) - self.from_(number + 1)

    def from_(self, number: int) -> BitMap:
        """The rows with at least a number."""
        below = number - self._least - 1
        if below < 0:
            return self.present
        if below >> len(self._slices):
            return BitMap()
        greater = BitMap()
        for bit, rows in enumerate(self._slices):
            greater = greater & rows if (below >> bit) & 1 else greater | rows
        return greater & self.present


def _bitmap(body: bytes, at: int, row_count: int) -> tuple[BitMap, int]:
    stop = at + _bitmap_size(body, at)
    if stop > len(body):
        raise ValueError(f"a bitmap at {at} is beyond the end")
    return read_bitmap(body[at:stop], row_count), stop


def _bitmap_size(body: bytes, begin: int) -> int:
    """The bytes of a roaring bitmap, from its own head (its specification is RoaringFormatSpec)."""
    cookie: int
    count: int
    (cookie,) = struct.unpack_from("<I", body, begin)
    at = begin + 4
    runs = np.zeros(0, np.bool_)
    if cookie & 0xFFFF == _RUN_COOKIE:
        count = (cookie >> 16) + 1
        width = (count + 7) // 8
        flags = np.frombuffer(body, np.uint8, width, at)
        runs = np.unpackbits(flags, bitorder="little")[:count] == 1
        at += width
    elif cookie == _COOKIE:
        (count,) = struct.unpack_from("<I", body, at)
        at += 4
    else:
        raise ValueError(f"a bitmap that begins with {cookie}")
    heads = np.frombuffer(body, "<u2", 2 * count, at).reshape(-1, 2)
    at += 4 * count
    if not len(runs) or count >= _FEW_CONTAINERS:
        at += 4 * count
    for container in range(count):
        size = int(heads[container, 1]) + 1
        if len(runs) and runs[container]:
            (pairs,) = struct.unpack_from("<H", body, at)
            at += 2 + 4 * pairs
        else:
            at += 2 * size if size <= _MAX_IN_ARRAY else 8192
    return at - begin
