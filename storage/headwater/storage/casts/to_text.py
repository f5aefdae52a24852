"""Columns as text, as Java's Paimon writes their values.

Source: the rules named ``…ToStringCastRule`` in ``org.apache.paimon.casting``,
``DateTimeUtils.java``, ``BinaryStringUtils.java``.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.casts.decimals import decimal_text
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.arrow_numbers import Integers, arrow_numbers, plain_numbers
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import MAX_LENGTH, ArrayType, DataType, MapType, RowType
from headwater.storage.types.float_text import float_texts
from headwater.storage.types.local_time import local_seconds
from headwater.storage.types.nested_arrays import list_with, map_entries
from headwater.storage.types.values import units_per_second

__all__ = ["cast_to_text", "sized_text"]

_STRING = AtomicType(Root.VARCHAR, length=MAX_LENGTH)
_INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_DAY_MILLIS = 86_400_000
_FIRST_DAY, _LAST_DAY = -719_528, 2_932_896  # of the years 0 and 9999


def cast_to_text(
    array: pa.Array, stored: DataType, wanted: AtomicType, zone: dt.tzinfo
) -> pa.Array:
    """A column as text.

    Args:
        array: Values of `stored`, in its Arrow form.
        stored: Any type but MULTISET, VARIANT and BLOB.
        wanted: A CHAR or VARCHAR; as in Java, numbers, booleans and text are cut and padded to its
            length, bytes and nested values are not.
        zone: In which TIMESTAMP_LTZ is written.

    Raises:
        Invalid: Bytes are not UTF-8; a date is outside the years 0 to 9999.
        Unsupported: A nested value holds one that Paimon writes no text for.
    """
    match stored:
        case ArrayType():
            return _array_text(array, stored, zone)
        case MapType():
            return _map_text(array, stored, zone)
        case RowType():
            return _row_text(array, stored, zone)
        case AtomicType():
            return _atomic_text(array, stored, wanted, zone)
    raise Unsupported(f"{stored} has no text")


def _atomic_text(
    array: pa.Array, stored: AtomicType, wanted: AtomicType, zone: dt.tzinfo
) -> pa.Array:
    match stored.root:
        case Root.CHAR | Root.VARCHAR:
            return sized_text(array, wanted)
        case Root.BOOLEAN:
            return sized_text(pc.if_else(array, "true", "false"), wanted)
        case Root.FLOAT | Root.DOUBLE:
            return sized_text(float_texts(array), wanted)
        case Root.DECIMAL:
            return sized_text(decimal_text(array), wanted)
        case Root.BINARY | Root.VARBINARY:
            try:
                return array.cast(pa.string())
            except pa.ArrowInvalid:
                raise Invalid(f"bytes that are not UTF-8 are no value of {wanted}") from None
        case Root.DATE:
            return _date_text(plain_numbers(array).astype(np.int64), array)
        case Root.TIME:
            return _time_text(array, stored.precision)
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return _timestamp_text(array, stored, zone)
        case root if root in _INTEGERS:
            return sized_text(array.cast(pa.string()), wanted)
    raise Unsupported(f"{stored} has no text")


def sized_text(texts: pa.Array, wanted: AtomicType) -> pa.Array:
    """Text cut to a CHAR's or VARCHAR's characters, and padded with spaces to a CHAR's."""
    if wanted.length < MAX_LENGTH:
        texts = pc.utf8_slice_codeunits(texts, 0, wanted.length)
    if wanted.root is Root.CHAR:
        texts = pc.utf8_rpad(texts, width=wanted.length, padding=" ")
    return texts


def _date_text(days: Integers, like: pa.Array) -> pa.Array:
    if ((days < _FIRST_DAY) | (days > _LAST_DAY)).any():
        raise Invalid("a date outside the years 0 to 9999 has no text that Paimon could read")
    return arrow_numbers(days.astype(np.int32), like, pa.date32()).cast(pa.string())


def _clock_text(seconds: Integers, like: pa.Array) -> pa.Array:
    texts = arrow_numbers(seconds.astype(np.int32), like, pa.time32("s")).cast(pa.string())
    return texts


def _time_text(array: pa.Array, precision: int) -> pa.Array:
    millis = plain_numbers(array).astype(np.int64) % _DAY_MILLIS
    clock = _clock_text(millis // 1000, array)
    if precision == 0:
        return clock
    digits = arrow_numbers(millis % 1000, array, pa.int64()).cast(pa.string())
    digits = pc.utf8_lpad(digits, width=3, padding="0")
    digits = pc.replace_substring_regex(digits, "0{1,2}$", "")
    return pc.binary_join_element_wise(clock, pc.utf8_slice_codeunits(digits, 0, precision), ".")


def _timestamp_text(array: pa.Array, stored: AtomicType, zone: dt.tzinfo) -> pa.Array:
    units = units_per_second(stored)
    ticks = plain_numbers(array).astype(np.int64)
    seconds, fraction = ticks // units, ticks % units * (10**9 // units)
    if stored.root is Root.TIMESTAMP_LTZ:
        seconds = local_seconds(seconds, zone)
    date = _date_text(seconds // 86_400, array)
    texts = pc.binary_join_element_wise(date, _clock_text(seconds % 86_400, array), " ")
    digits = arrow_numbers(fraction, array, pa.int64()).cast(pa.string())
    digits = pc.utf8_lpad(digits, width=9, padding="0")
    if stored.precision < 9:
        # Zeros go as far as the precision; digits beyond it stay.
        digits = pc.replace_substring_regex(digits, f"0{{0,{9 - stored.precision}}}$", "")
    with_fraction = pc.binary_join_element_wise(texts, digits, ".")
    return pc.if_else(pc.equal(digits, ""), texts, with_fraction)


# Nested values ----------------------------------------------------------------------------------


def _item_text(array: pa.Array, stored: DataType, zone: dt.tzinfo) -> pa.Array:
    return pc.fill_null(cast_to_text(array, stored, _STRING, zone), "null")


def _listed(array: pa.Array, items: pa.Array, opening: str, closing: str) -> pa.Array:
    lists = list_with(array, items, pa.list_(pa.string()))
    return _enclosed(pc.binary_join(lists, ", "), opening, closing)


def _enclosed(texts: pa.Array, opening: str, closing: str) -> pa.Array:
    return pc.binary_join_element_wise(opening, texts, closing, "")


def _array_text(array: pa.Array, stored: ArrayType, zone: dt.tzinfo) -> pa.Array:
    return _listed(array, _item_text(array.flatten(), stored.element, zone), "[", "]")


def _map_text(array: pa.Array, stored: MapType, zone: dt.tzinfo) -> pa.Array:
    keys, values = map_entries(array)
    keys, values = _item_text(keys, stored.key, zone), _item_text(values, stored.value, zone)
    return _listed(array, pc.binary_join_element_wise(keys, values, " -> "), "{", "}")


def _row_text(array: pa.Array, stored: RowType, zone: dt.tzinfo) -> pa.Array:
    fields = [
        _item_text(array.field(at), child.type, zone) for at, child in enumerate(stored.fields)
    ]
    texts = _enclosed(pc.binary_join_element_wise(*fields, ", "), "{", "}")
    return pc.if_else(array.is_valid(), texts, None)
