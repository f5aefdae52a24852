"""Arrow columns as NumPy numbers and back, nulls kept apart.

NumPy's integers have no null, and Arrow's own way into NumPy makes floating-point numbers of
integers that do. Arrow's ways there and back also import pandas where it is installed, half a
second and 50 MB: the functions here that share memory go past them.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = [
    "Integers",
    "Words",
    "arrow_mask",
    "arrow_numbers",
    "arrow_values",
    "decimal_words",
    "low_words",
    "numpy_mask",
    "numpy_values",
    "plain_numbers",
    "shortest_decimals",
]

Integers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

_WORDS = {32: pa.int32(), 64: pa.int64()}


def numpy_values(array: pa.Array) -> npt.NDArray[np.integer]:
    """The integers of a column without nulls, sharing its memory."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize)


def arrow_values(numbers: npt.NDArray[np.integer]) -> pa.Array:
    """Integers as a column that shares their memory."""
    whole = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(whole.dtype), len(whole), [None, pa.py_buffer(whole)]
    )


def numpy_mask(array: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """A column of booleans without nulls."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.empty(0, np.bool_)
    first, skipped = divmod(array.offset, 8)
    octets = np.frombuffer(buffer, np.uint8)[first : first + (skipped + len(array) + 7) // 8]
    bits = np.unpackbits(octets, count=skipped + len(array), bitorder="little")
    return bits[skipped:].view(np.bool_)


def arrow_mask(mask: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    """Booleans as a column."""
    bits = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])


def plain_numbers(array: pa.Array) -> npt.NDArray[np.generic]:
    """The numbers of a column of numbers, dates, times or timestamps; 0 where it is null."""
    kind = array.type
    if pa.types.is_temporal(kind):
        array = array.view(_WORDS[kind.bit_width])
    if array.null_count:
        array = array.fill_null(0)
    numbers: npt.NDArray[np.generic] = array.to_numpy(zero_copy_only=False)
    return numbers


def arrow_numbers(
    numbers: npt.NDArray[np.generic], like: pa.Array, data_type: pa.DataType
) -> pa.Array:
    """Numbers as a column of `data_type`, null where `like` is."""
    mask = like.is_null().to_numpy(zero_copy_only=False) if like.null_count else None
    if pa.types.is_temporal(data_type):
        word = _WORDS[data_type.bit_width]
        return pa.array(numbers, word, mask=mask, from_pandas=False).view(data_type)
    return pa.array(numbers, data_type, mask=mask, from_pandas=False)


def low_words(decimals: pa.Array) -> Integers:
    """The lowest 64 bits of the unscaled numbers of a decimal128 column; 0 where it is null.

    They are the whole of a number of at most 18 digits, and what ``BigInteger.longValue`` gives.
    """
    if decimals.null_count:
        decimals = decimals.fill_null(0)
    return decimal_words(decimals)[0].view(np.int64).copy()


def decimal_words(decimals: pa.Array) -> tuple[Words, Words]:
    """The low and the high half of the unscaled numbers of a decimal128 column.

    Anything stands where it is null.
    """
    if not len(decimals):
        return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    words = np.frombuffer(decimals.buffers()[1], "<u8", 2 * (decimals.offset + len(decimals)))
    halves = words[2 * decimals.offset :].reshape(-1, 2)
    return halves[:, 0], halves[:, 1]


def shortest_decimals(low: Words, high: Words) -> tuple[Words, Words, Words]:
    """The shortest big-endian two's complement form of 128-bit numbers, as BigInteger has it.

    Returns:
        The sizes, and the first and the last 8 of 16 bytes that begin with so many of the number.
    """
    sign = (high.view(np.int64) >> 63).view(np.uint64)
    magnitude_low, magnitude_high = low ^ sign, high ^ sign
    size = np.ones(len(low), np.uint64)
    for count in range(1, 16):
        limit = np.uint64(1 << ((8 * count - 1) % 64))
        if count <= 8:
            size += (magnitude_high > 0) | (magnitude_low >= limit)
        else:
            size += magnitude_high >= limit
    shift = np.uint64(8) * (np.uint64(16) - size)
    # NumPy leaves shifts by 64 and more undefined: the halves are moved first, then the rest.
    far = shift >= 64
    rest = shift % np.uint64(64)
    upper, lower = np.where(far, low, high), np.where(far, np.uint64(0), low)
    carried = np.where(rest > 0, lower >> ((np.uint64(64) - rest) % np.uint64(64)), np.uint64(0))
    return size, ((upper << rest) | carried).byteswap(), (lower << rest).byteswap()
