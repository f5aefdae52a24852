"""Bloom filters: the values that a file certainly does not hold.

The body is the number of hash functions (4 bytes, big-endian) and the bits, the lowest of each byte
first. Source: ``BloomFilterFileIndex.java``, ``BloomFilter64.java``, ``FastHash.java``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.index.file_index.keys import (
    Numbers,
    key_numbers,
    literal_numbers,
)
from headwater.storage.schema.file_indexes import FileIndex
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.values import StorageValue

__all__ = ["BloomFilterBuilder", "BloomFilterReader"]

_Hashes: TypeAlias = npt.NDArray[np.int64]

_BYTES = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)
# Rows hashed at once: their hashes stay in the processor's cache.
_CHUNK = 32_768
# A filter has log2(1 / fpp) functions, a few more if it is tiny; no double is below 2 ** -1074.
_MAX_FUNCTIONS = 1100


class BloomFilterBuilder:
    """Builds the filter of one column in one file.

    Args:
        index: The index and its settings ``items`` and ``fpp``.
        data_type: The type of the values.

    Raises:
        Invalid: The settings make a filter of more bits than Java can count.
    """

    def __init__(self, index: FileIndex, data_type: AtomicType) -> None:
        items, share = index.number("items", 1_000_000), index.share("fpp", 0.1)
        wanted = int(-items * math.log(share) / (math.log(2) * math.log(2)))
        bits = wanted + 8 - wanted % 8
        if bits >= 2**31:
            raise Invalid(
                f"option '{index.option('items')}': a filter for {items} items at an error rate of "
                f"{share} needs {bits} bits, more than the {2**31 - 1} there can be"
            )
        # Java rounds halves up.
        self._functions = max(1, math.floor(bits / items * math.log(2) + 0.5))
        self._bits = np.zeros(bits, np.bool_)
        self._type = data_type

    def add(self, column: pa.Array) -> None:
        """Take in the values of the next rows."""
        hashes = _column_hashes(column.drop_null(), self._type)
        for start in range(0, len(hashes), _CHUNK):
            for place in _places(hashes[start : start + _CHUNK], self._functions, len(self._bits)):
                self._bits[place] = True

    def finish(self) -> bytes:
        """The body."""
        return (
            struct.pack(">i", self._functions)
            + np.packbits(self._bits, bitorder="little").tobytes()
        )


class BloomFilterReader:
    """Asks a filter.

    Args:
        body: The filter.
        data_type: The type of the values in the file.

    Raises:
        ValueError: The body is not a filter.
    """

    def __init__(self, body: bytes, data_type: AtomicType) -> None:
        if len(body) < 5:
            raise ValueError(f"a bloom filter of {len(body)} bytes")
        (self._functions,) = struct.unpack_from(">i", body)
        if not 1 <= self._functions <= _MAX_FUNCTIONS:
            raise ValueError(f"a bloom filter with {self._functions} hash functions")
        self._bits = np.frombuffer(body, np.uint8, offset=4)
        self._type = data_type

    def may_hold(self, values: Sequence[StorageValue]) -> bool:
        """True unless the file holds none of the values."""
        return bool(self._has(_literal_hashes(tuple(values), self._type)).any())

    def holds(self, column: pa.Array) -> npt.NDArray[np.bool_]:
        """Whether the file may hold each value of a column without nulls."""
        hashes = _column_hashes(column, self._type)
        parts = [hashes[start : start + _CHUNK] for start in range(0, len(hashes), _CHUNK)]
        return np.concatenate([np.zeros(0, np.bool_), *map(self._has, parts)])

    def _has(self, hashes: _Hashes) -> npt.NDArray[np.bool_]:
        has = np.ones(len(hashes), np.bool_)
        for place in _places(hashes, self._functions, len(self._bits) * 8):
            has &= (self._bits[place >> 3] >> (place & 7).astype(np.uint8)) & 1 != 0
        return has


def _places(hashes: _Hashes, functions: int, bits: int) -> Sequence[npt.NDArray[np.int32]]:
    """The bits of the values, function by function."""
    low = hashes.astype(np.int32)
    high = (hashes >> np.int64(32)).astype(np.int32)
    places = []
    for number in range(1, functions + 1):
        combined = low + np.int32(number) * high
        # A negative number has all its bits flipped.
        combined ^= combined >> np.int32(31)
        places.append(combined % np.int32(bits))
    return places


def _column_hashes(column: pa.Array, data_type: AtomicType) -> _Hashes:
    if data_type.root not in _BYTES:
        return _number_hashes(key_numbers(column, data_type))
    # Here, as most processes neither write nor ask a bloom filter of texts.
    import polars as pl
    import polars_hash

    frame = pl.DataFrame({"values": pl.from_arrow(column)})
    hashes: npt.NDArray[np.uint64] = (
        frame.select(polars_hash.col("values").nchash.xxhash64()).to_series().to_numpy()
    )
    return hashes.view(np.int64)


@lru_cache(maxsize=16)
def _literal_hashes(values: tuple[StorageValue, ...], data_type: AtomicType) -> _Hashes:
    """The hashes of what a condition looks for: those of one condition for all files."""
    if any(isinstance(value, float) and value == 0 for value in values):
        # The zeros are one value, with a hash each.
        values = (*values, 0.0, -0.0)
    if data_type.root not in _BYTES:
        return _number_hashes(literal_numbers(values, data_type))
    arrow = pa.binary() if isinstance(values[0], bytes) else pa.string()
    return _column_hashes(pa.array(values, arrow), data_type)


def _number_hashes(numbers: Numbers) -> _Hashes:
    """Thomas Wang's hash of 64-bit integers; floating-point numbers are taken by their bits."""
    if numbers.dtype.kind == "f":
        canonical = np.where(np.isnan(numbers), np.nan, numbers).astype(numbers.dtype)
        numbers = canonical.view(np.int32 if numbers.itemsize == 4 else np.int64)
    key = numbers.astype(np.int64)
    key = ~key + (key << np.int64(21))
    key ^= key >> np.int64(24)
    key = key + (key << np.int64(3)) + (key << np.int64(8))
    key ^= key >> np.int64(14)
    key = key + (key << np.int64(2)) + (key << np.int64(4))
    key ^= key >> np.int64(28)
    hashes: _Hashes = key + (key << np.int64(31))
    return hashes
