"""Hive's hash of a bucket key, for tables whose buckets are to be those of a Hive table.

The hash of a row is a polynomial in 31 of its values' hashes, as is that of text and of bytes.
All arithmetic is that of 32 bits, wrapping around.

Source: ``HiveBucketFunction.java``, ``HiveHasher.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.options import BucketFunction
from headwater.storage.rows.binary_row import plain_array
from headwater.storage.schema.bucket_key import check_bucket_function
from headwater.storage.types.arrow_numbers import Words, decimal_words, plain_numbers
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataType

__all__ = ["hive_hashes"]

Hashes: TypeAlias = npt.NDArray[np.uint32]

# Rows hashed at once: a byte of text takes 28 bytes meanwhile.
_CHUNK = 32_768
_BASE = np.uint32(31)
_BYTES = (Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_TEN = np.uint64(10)


def hive_hashes(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Hashes:
    """The hash of each row; a null value's is 0.

    Args:
        columns: The columns of the key, all of one length.
        types: Their types.

    Raises:
        Invalid: A column is not of its type, or of one that the function does not take.
    """
    check_bucket_function(BucketFunction.HIVE, types)
    rows = len(columns[0])
    hashes = np.empty(rows, np.uint32)
    for start in range(0, rows, _CHUNK):
        hashes[start : start + _CHUNK] = _of_rows([c.slice(start, _CHUNK) for c in columns], types)
    return hashes


def _of_rows(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Hashes:
    hashes = np.zeros(len(columns[0]), np.uint32)
    for column, data_type in zip(columns, types, strict=True):
        if not isinstance(data_type, AtomicType):
            raise Invalid(f"a column of type {data_type} cannot be part of a key")
        array = plain_array(column, data_type)
        values = _of_values(array, data_type)
        if array.null_count:
            values = np.where(array.is_null().to_numpy(zero_copy_only=False), np.uint32(0), values)
        hashes = hashes * _BASE + values
    return hashes


def _of_values(array: pa.Array, data_type: AtomicType) -> Hashes:
    """The hash of each value; anything where it is null."""
    root = data_type.root
    if root in _BYTES:
        return _of_bytes(array)
    if root is Root.DECIMAL:
        return _of_decimals(*decimal_words(array), data_type.scale)
    numbers = plain_numbers(array.cast(pa.int8()) if root is Root.BOOLEAN else array)
    if root is Root.BIGINT:
        return _folded(numbers.astype(np.int64).view(np.uint64))
    if root is Root.FLOAT:
        return _bits(numbers.astype(np.float32)).view(np.uint32)
    if root is Root.DOUBLE:
        return _folded(_bits(numbers.astype(np.float64)).view(np.uint64))
    return numbers.astype(np.int64).astype(np.uint32)


def _folded(words: Words) -> Hashes:
    """``Long.hashCode``: the two halves of 64 bits."""
    return (words ^ (words >> _HALF)).astype(np.uint32)


def _bits(numbers: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """The numbers with one zero and one NaN, as Java's ``floatToIntBits`` has it."""
    numbers = np.where(numbers == 0, numbers.dtype.type(0), numbers)
    return np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers)


def _of_bytes(array: pa.Array) -> Hashes:
    """The polynomial of each value's bytes, which are signed numbers."""
    rows = len(array)
    offsets = np.frombuffer(array.buffers()[1], np.int64, rows + 1, array.offset * 8)
    begin, end = int(offsets[0]), int(offsets[-1])
    data = array.buffers()[2]
    if data is None or begin == end:
        return np.zeros(rows, np.uint32)
    sizes = np.diff(offsets)
    powers = np.ones(max(int(sizes.max()), 1), np.uint32)
    np.cumprod(np.full(len(powers) - 1, _BASE), dtype=np.uint32, out=powers[1:])
    last = np.repeat(offsets[1:], sizes) - 1
    terms = np.frombuffer(data, np.int8)[begin:end].astype(np.uint32)
    terms *= powers[last - np.arange(begin, end)]
    # Differences of sums that wrap around are right all the same.
    sums = np.zeros(end - begin + 1, np.uint32)
    np.cumsum(terms, dtype=np.uint32, out=sums[1:])
    return sums[offsets[1:] - begin] - sums[offsets[:-1] - begin]


def _of_decimals(low: Words, high: Words, scale: int) -> Hashes:
    """``BigDecimal.hashCode`` of each number without its trailing zeros after the point."""
    negative = high.view(np.int64) < 0
    low, high = _magnitude(low, high, negative)
    # Four digits of 32 bits, the highest first, so that a product of two fits a word.
    parts = [high >> _HALF, high & _LOW, low >> _HALF, low & _LOW]
    scales = np.full(len(low), scale, np.uint32)
    shorter = np.ones(len(low), np.bool_)
    for _ in range(scale):
        quotients, rest = _tenth(parts)
        shorter &= rest == 0
        if not shorter.any():
            break
        parts = [np.where(shorter, new, old) for new, old in zip(quotients, parts, strict=True)]
        scales -= shorter
    hashes = np.zeros(len(low), np.uint32)
    for part in parts:
        hashes = hashes * _BASE + part.astype(np.uint32)
    hashes = np.where(negative, np.uint32(0) - hashes, hashes)
    zero = (low | high) == 0
    return np.where(zero, np.uint32(0), hashes * _BASE + scales)


def _magnitude(low: Words, high: Words, negative: npt.NDArray[np.bool_]) -> tuple[Words, Words]:
    """The absolute value of 128-bit numbers."""
    flipped = ~low + np.uint64(1)
    return (
        np.where(negative, flipped, low),
        np.where(negative, ~high + (flipped == 0), high),
    )


def _tenth(parts: Sequence[Words]) -> tuple[list[Words], Words]:
    """A tenth of each number, and what is left over."""
    rest: Words = np.zeros_like(parts[0])
    quotients: list[Words] = []
    for part in parts:
        whole = (rest << _HALF) | part
        quotients.append(whole // _TEN)
        rest = whole % _TEN
    return quotients, rest
