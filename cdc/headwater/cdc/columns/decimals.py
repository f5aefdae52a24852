"""Decimals packed as big-endian groups of nine digits, as MySQL's DECIMAL, to Arrow's decimals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.columns.gather import WORD_BYTES, Cells, Nulls, new_values, unsigned_integers
from headwater.cdc.columns.gather import validity_bitmap as _validity

# How many bytes a group of so many digits takes.
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_MAX_INT64_DIGITS = 18
_MAX_DECIMAL128_DIGITS = 38
_LOW_32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)


def digit_groups(precision: int, scale: int) -> list[tuple[int, int]]:
    """The (bytes, digits) of each group of a packed decimal, the first one first."""
    whole, whole_rest = divmod(precision - scale, 9)
    fraction, fraction_rest = divmod(scale, 9)
    digits = [whole_rest, *[9] * (whole + fraction), fraction_rest]
    return [(_GROUP_BYTES[count], count) for count in digits if count]


def packed_decimal_width(precision: int, scale: int) -> int:
    """How many bytes a packed decimal takes."""
    return sum(width for width, _ in digit_groups(precision, scale))


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """The Arrow type of a decimal: ``decimal128`` up to 38 digits, else ``decimal256``."""
    make = pa.decimal128 if precision <= _MAX_DECIMAL128_DIGITS else pa.decimal256
    return make(precision, scale)


def decimal_column(cells: Cells, nulls: Nulls, precision: int, scale: int) -> pa.Array:
    """Read packed decimals.

    The first bit is set in values that are not negative; a negative value has all bits inverted.

    Returns:
        An array of ``decimal128(precision, scale)``, or ``decimal256`` beyond 38 digits.
    """
    negative = cells.read("u1") < 0x80
    groups = _group_values(cells, negative, precision, scale)
    words: npt.NDArray[np.int64] | npt.NDArray[np.uint32]
    if precision <= _MAX_INT64_DIGITS:
        words = _short_decimal(groups, negative)
    else:
        limbs = 4 if precision <= _MAX_DECIMAL128_DIGITS else 8
        words = _long_decimal(groups, negative, limbs)
    type_ = decimal_type(precision, scale)
    return pa.Array.from_buffers(type_, cells.rows, [_validity(nulls), pa.py_buffer(words)])


def _group_values(
    cells: Cells,
    negative: npt.NDArray[np.bool_],
    precision: int,
    scale: int,
) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
    """The magnitude of each group of digits, with 10 to the power of its digits."""
    flip = negative * _ALL_BITS if negative.any() else None
    position, is_first = 0, True
    for groups in _words(digit_groups(precision, scale)):
        width = sum(size for size, _ in groups)
        word = unsigned_integers(cells.at(position), width, "big")
        position += width
        if is_first:
            word ^= np.uint64(1 << (8 * width - 1))
        if flip is not None:
            word ^= flip
        left = width
        for size, digits in groups:
            left -= size
            # Bits before the group are of others, or were inverted.
            yield 10**digits, word >> np.uint64(8 * left) & np.uint64((1 << 8 * size) - 1)
        is_first = False


def _words(groups: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Groups of digits that are read together."""
    word: list[tuple[int, int]] = []
    for group in groups:
        if sum(size for size, _ in word) + group[0] > WORD_BYTES:
            yield word
            word = []
        word.append(group)
    yield word


def _short_decimal(
    groups: Iterator[tuple[int, npt.NDArray[np.uint64]]], negative: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    total: npt.NDArray[np.int64] = next(groups)[1].view(np.int64)
    for power, group in groups:
        total *= power
        total += group.view(np.int64)
    words = new_values(2 * len(total), np.int64).reshape(-1, 2)
    if negative.any():
        total = np.where(negative, -total, total)
    words[:, 0] = total
    np.right_shift(total, 63, out=words[:, 1])
    return words


def _long_decimal(
    groups: Iterator[tuple[int, npt.NDArray[np.uint64]]],
    negative: npt.NDArray[np.bool_],
    limb_count: int,
) -> npt.NDArray[np.uint32]:
    """Add up groups in words of 32 bits, the lowest first."""
    rows = len(negative)
    limbs = [np.zeros(rows, np.uint64) for _ in range(limb_count)]
    for power, group in groups:
        carry = group
        for index in range(limb_count):
            carry = limbs[index] * np.uint64(power) + carry
            limbs[index] = carry & _LOW_32
            carry = carry >> _32
    flip = np.where(negative, _LOW_32, np.uint64(0))
    carry = negative.astype(np.uint64)
    words = np.empty((rows, limb_count), np.uint32)
    for index in range(limb_count):
        limb = (limbs[index] ^ flip) + carry
        words[:, index] = limb & _LOW_32
        carry = limb >> _32
    return words
