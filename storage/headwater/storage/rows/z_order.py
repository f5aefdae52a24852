"""Places of rows on the Z-order curve, as Paimon's sort compaction computes them.

Each column becomes bytes that compare as its values do, and the bits of all columns are
interleaved, the highest first. Rows with neighbouring places have like values in every column.
Source: ``ZIndexer.java``, ``ZOrderByteUtils.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Unsupported
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataType

__all__ = [
    "Bytes",
    "double_bits",
    "integers",
    "interleaved_bits",
    "leading_bytes",
    "unscaled_words",
    "z_order",
]

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""A row of bytes for each row of data; they compare as unsigned bytes."""

_WIDTH = 8
_SIGN = np.uint64(1 << 63)
_TEXT = frozenset({Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY})
_WHOLE = frozenset(
    {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DATE, Root.TIME, Root.TIMESTAMP,
     Root.TIMESTAMP_LTZ}
)  # fmt: skip


def z_order(arrays: Sequence[pa.Array], types: Sequence[DataType], text_bytes: int) -> Bytes:
    """The places of rows on the curve through some columns.

    Null comes first. The bytes are those of Paimon, but for DECIMAL: Paimon takes the first bytes
    of a number however long it is, so that 1, 256 and 65536 are neighbours and no file could be
    left out. Here they compare as the numbers do; no reader depends on it.

    Args:
        arrays: The columns, without chunks.
        types: Their types.
        text_bytes: The bytes of text and binary values that count.

    Raises:
        Unsupported: A column's type has no place on the curve.
    """
    columns = [
        _ordered_bytes(array, kind, text_bytes) for array, kind in zip(arrays, types, strict=True)
    ]
    return interleaved_bits(columns)


def interleaved_bits(columns: Sequence[Bytes]) -> Bytes:
    """The bits of several columns in turns, the highest of each first.

    A column that has no more bits is passed over.

    Args:
        columns: The bytes of each column; a row for each row of data.
    """
    longest = max(column.shape[1] for column in columns)
    parts = [
        _interleaved([column[:, at] for column in columns if column.shape[1] > at])
        for at in range(longest)
    ]
    return np.concatenate(parts, axis=1)


def _interleaved(columns: Sequence[Bytes]) -> Bytes:
    """The bits of one byte of each column in turns."""
    count = len(columns)
    if count > _WIDTH:
        bits = [np.unpackbits(column[:, None], axis=1) for column in columns]
        return np.packbits(np.stack(bits, axis=2).reshape(len(columns[0]), -1), axis=1)
    spread = _spread_bits(count)
    words = spread[columns[0]]
    for at, column in enumerate(columns[1:], 1):
        words |= spread[column] >> np.uint64(at)
    return words.astype(">u8").view(np.uint8).reshape(-1, _WIDTH)[:, _WIDTH - count :]


@cache
def _spread_bits(count: int) -> npt.NDArray[np.uint64]:
    """Each byte's bits with room for those of other columns after each, as a number."""
    values = np.arange(256, dtype=np.uint64)
    found = np.zeros(256, np.uint64)
    for bit in range(8):
        place = np.uint64((bit + 1) * count - 1)
        found |= ((values >> np.uint64(bit)) & np.uint64(1)) << place
    return found


def integers(array: pa.Array) -> npt.NDArray[np.int64]:
    """Whole numbers, days, and times in milliseconds; 0 for null."""
    values = array
    if pa.types.is_date(array.type):
        values = array.cast(pa.int32())
    elif pa.types.is_temporal(array.type):
        values = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
    numbers: npt.NDArray[np.int64] = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(
        zero_copy_only=False
    )
    if pa.types.is_timestamp(array.type) or pa.types.is_time(array.type):
        # Floor division, as times before 1970 are negative.
        match array.type.unit:
            case "s":
                return numbers * 1000
            case "us":
                return numbers // 1000
            case "ns":
                return numbers // 1_000_000
    return numbers


def double_bits(array: pa.Array) -> npt.NDArray[np.uint64]:
    """The bits of floating-point numbers as of DOUBLE; there is one NaN. 0 for null."""
    numbers = pc.fill_null(array.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    bits = numbers.view(np.uint64)
    return np.where(np.isnan(numbers), np.uint64(0x7FF8 << 48), bits)


def unscaled_words(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """The higher and the lower half of DECIMAL values' unscaled numbers; arbitrary for null."""
    wide = array.cast(pa.decimal128(38, array.type.scale))
    buffer = wide.buffers()[1]
    words = np.frombuffer(buffer, "<u8", 2 * len(wide), 16 * wide.offset).reshape(len(wide), 2)
    return words[:, 1].astype(np.int64), words[:, 0].astype(np.uint64)


def leading_bytes(array: pa.Array, width: int) -> Bytes:
    """The first bytes of text or binary values, with zeros after those that have fewer."""
    out = np.zeros((len(array), width), np.uint8)
    if len(array) == 0:
        return out
    plain = array.cast(pa.binary()) if pa.types.is_string(array.type) else array
    plain = pc.binary_slice(pc.fill_null(plain, b""), 0, width)
    _, places, data = plain.buffers()
    offsets = np.frombuffer(places, np.int32, len(plain) + 1, 4 * plain.offset).astype(np.int64)
    total = int(offsets[-1] - offsets[0])
    if total:
        rows = np.repeat(np.arange(len(plain)), np.diff(offsets))
        # Of each byte its place in its value.
        columns = np.arange(offsets[0], offsets[-1]) - offsets[:-1][rows]
        out[rows, columns] = np.frombuffer(data, np.uint8, total, int(offsets[0]))
    return out


def _ordered_bytes(array: pa.Array, kind: DataType, text_bytes: int) -> Bytes:
    match kind:
        case AtomicType(root=root) if root in _TEXT:
            return leading_bytes(array, text_bytes)  # Nulls are zeros already.
        case AtomicType(root=Root.BOOLEAN):
            flags = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
            bits = flags.astype(np.uint64) * np.uint64(0x81 << 56)
        case AtomicType(root=root) if root in _WHOLE:
            bits = integers(array).view(np.uint64) ^ _SIGN
        case AtomicType(root=Root.FLOAT | Root.DOUBLE):
            bits = double_bits(array)
            # A shift by 31 as in Paimon, where 63 would do: the order of the lowest bits is lost.
            bits = bits ^ ((bits.view(np.int64) >> 31).view(np.uint64) | _SIGN)
        case AtomicType(root=Root.DECIMAL, precision=precision):
            bits = _decimal_bits(array, precision)
        case _:
            raise Unsupported(
                f"a column of type {kind} has no place on a Z-order curve; leave it out of the "
                "columns to sort by"
            )
    if array.null_count:
        valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
        bits = np.where(valid, bits, np.uint64(0))
    ordered: Bytes = bits.astype(">u8").view(np.uint8).reshape(len(array), _WIDTH)
    return ordered


def _decimal_bits(array: pa.Array, precision: int) -> npt.NDArray[np.uint64]:
    """The highest 64 bits that numbers of so many digits can have."""
    if array.null_count == len(array):
        return np.zeros(len(array), np.uint64)
    high, low = unscaled_words(array)
    spare = max(0, (10**precision).bit_length() + 1 - 64)
    if spare == 0:
        return low ^ _SIGN
    top = high.view(np.uint64) << np.uint64(64 - spare)
    return (top | (low >> np.uint64(spare))) ^ _SIGN
