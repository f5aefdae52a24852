"""Typed columns as variants, value by value of the least size (``GenericVariantBuilder.java``)."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.variants.layout import Bytes, Numbers, end_to_end

__all__ = ["encoded"]

_SHORT_TEXT = 63
_TRUE, _FALSE, _INT1, _DOUBLE, _DECIMAL4, _DATE, _TIMESTAMP, _LOCAL, _FLOAT = (
    1, 2, 3, 7, 8, 11, 12, 13, 14,
)  # fmt: skip
_BINARY, _TEXT, _TIME, _NANOS, _LOCAL_NANOS, _UUID = 15, 16, 17, 18, 19, 20


def encoded(array: pa.Array) -> pa.Array:
    """The variants of a column's values, as LARGE_BINARY; null for null.

    Raises:
        ValueError: Variants hold no values of that type.
    """
    kind = array.type
    if pa.types.is_boolean(kind):
        return pc.if_else(array, _header(_TRUE), _header(_FALSE))
    if pa.types.is_integer(kind) and not pa.types.is_unsigned_integer(kind):
        return _integers(array)
    if pa.types.is_float32(kind):
        return _fixed(array, _FLOAT, pa.float32())
    if pa.types.is_float64(kind):
        return _fixed(array, _DOUBLE, pa.float64())
    if pa.types.is_decimal(kind):
        return _decimals(array)
    if pa.types.is_date32(kind):
        return _fixed(array, _DATE, pa.int32())
    if pa.types.is_timestamp(kind):
        return _timestamps(array)
    if pa.types.is_time(kind):
        return _fixed(array.cast(pa.time64("us")), _TIME, pa.int64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(array.cast(pa.large_string()).cast(pa.large_binary()))
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return _with_heads(array.cast(pa.large_binary()), _header(_UUID))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        plain = array.cast(pa.large_binary())
        return _with_heads(plain, _long_heads(plain, _BINARY))
    raise ValueError(f"variants hold no values of type {kind}")


def _header(number: int) -> pa.Scalar:
    return pa.scalar(bytes([number << 2]), pa.large_binary())


def _with_heads(bodies: pa.Array, heads: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(heads, bodies, pa.scalar(b"", pa.large_binary()))


def _long_heads(bodies: pa.Array, number: int) -> pa.Array:
    lengths = pc.fill_null(pc.binary_length(bodies), 0).to_numpy(zero_copy_only=False)
    table = np.empty((len(bodies), 5), np.uint8)
    table[:, 0] = number << 2
    table[:, 1:] = lengths.astype("<i4").view(np.uint8).reshape(-1, 4)
    return _rows(table, np.full(len(bodies), 5), None)


def _texts(bodies: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.binary_length(bodies), 0)
    short = pc.less_equal(lengths, _SHORT_TEXT)
    numbers = pc.min_element_wise(lengths, _SHORT_TEXT).to_numpy(zero_copy_only=False)
    table = (numbers.astype(np.uint8) << 2 | 1).reshape(-1, 1)
    heads = _rows(table, np.ones(len(bodies), np.int64), None)
    return _with_heads(bodies, pc.if_else(short, heads, _long_heads(bodies, _TEXT)))


def _integers(array: pa.Array) -> pa.Array:
    numbers = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    wide = sum(
        ((numbers < -(1 << bits)) | (numbers >= 1 << bits)).astype(np.int64) for bits in (7, 15, 31)
    )
    table = np.empty((len(array), 9), np.uint8)
    table[:, 0] = (_INT1 + wide) << 2
    table[:, 1:] = numbers.astype("<i8").view(np.uint8).reshape(-1, 8)
    return _rows(table, 1 + (1 << np.asarray(wide)), array)


def _fixed(array: pa.Array, number: int, storage: pa.DataType) -> pa.Array:
    plain = pc.fill_null(array.view(storage), 0).to_numpy(zero_copy_only=False)
    width = storage.bit_width // 8
    table = np.empty((len(array), 1 + width), np.uint8)
    table[:, 0] = number << 2
    table[:, 1:] = plain.view(np.uint8).reshape(-1, width)
    return _rows(table, np.full(len(array), 1 + width), array)


def _timestamps(array: pa.Array) -> pa.Array:
    is_zoned = array.type.tz is not None
    if array.type.unit == "ns":
        return _fixed(array, _NANOS if is_zoned else _LOCAL_NANOS, pa.int64())
    micros = array.cast(pa.timestamp("us", array.type.tz))
    return _fixed(micros, _TIMESTAMP if is_zoned else _LOCAL, pa.int64())


def _decimals(array: pa.Array) -> pa.Array:
    scale = array.type.scale
    if scale < 0:
        raise ValueError(f"variants hold no values of type {array.type}")
    words = array.cast(pa.decimal128(38, scale))
    words = pc.fill_null(words, pa.scalar(Decimal(0), words.type))
    raw = np.frombuffer(words.buffers()[1], np.uint8)
    raw = raw[words.offset * 16 : (words.offset + len(words)) * 16].reshape(-1, 16)
    low, high = np.ascontiguousarray(raw).view("<i8").reshape(-1, 2).T
    # The least of the three sizes whose digits are enough.
    is_long = high == low >> 63
    small = is_long & (low > -(10**9)) & (low < 10**9) & (scale <= 9)
    middle = is_long & (low > -(10**18)) & (low < 10**18) & (scale <= 18)
    sizes = np.where(small, 0, np.where(middle, 1, 2))
    table = np.empty((len(array), 18), np.uint8)
    table[:, 0] = (_DECIMAL4 + sizes) << 2
    table[:, 1] = scale
    table[:, 2:] = raw
    return _rows(table, 2 + (4 << sizes), array)


def _rows(table: Bytes, lengths: Numbers, nulls_of: pa.Array | None) -> pa.Array:
    """The first so many bytes of each row; null where the other array is."""
    there: npt.NDArray[np.bool_] | None = None
    if nulls_of is not None and nulls_of.null_count:
        there = nulls_of.is_valid().to_numpy(zero_copy_only=False)
        lengths = np.where(there, lengths, 0)
    made = end_to_end(table[np.arange(table.shape[1]) < lengths[:, None]], lengths)
    if there is None:
        return made
    return pc.if_else(pa.array(there), made, pa.scalar(None, pa.large_binary()))
