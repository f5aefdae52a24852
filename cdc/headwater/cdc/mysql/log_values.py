"""Columns decoded from the log, as the lake has them.

The values equal those that `lake_values` makes of a query's result, whatever the type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns import BadDates, bad_date
from headwater.cdc.columns.value_text import decimal_text, float_text, time_text
from headwater.cdc.model.tables import SourceColumn
from headwater.cdc.mysql.address_text import byte_matrix, inet4_text, inet6_text, uuid_text
from headwater.cdc.mysql.conversions import (
    Family,
    convert_checked,
    padded_bits,
    source_family,
    split_set,
)
from headwater.cdc.mysql.table_map import ColumnShape
from headwater.storage.errors import Invalid
from headwater.storage.types.data_type import to_arrow
from headwater.storage.types.padded_text import padded_array

_DAY_MICROS = 86_400_000_000
_YEAR_DIGITS = 4
# The characters of YYYY-MM-DD HH:MM:SS.
_SECOND_CHARACTERS = 19
_BIT_BYTES = 8
_ONE_BIT = pa.array([b"\x00", b"\x01"], pa.binary())

_Converter = Callable[[pa.Array], pa.Array]
_IsType = Callable[[pa.DataType], bool]
_LOG_TYPES: Mapping[Family, Sequence[_IsType]] = MappingProxyType(
    {
        Family.INTEGER: (pa.types.is_integer,),
        Family.YEAR: (pa.types.is_integer,),
        Family.BIT: (pa.types.is_boolean, pa.types.is_binary),
        Family.FLOAT: (pa.types.is_float32,),
        Family.DOUBLE: (pa.types.is_float64,),
        Family.DECIMAL: (pa.types.is_decimal,),
        Family.TEXT: (pa.types.is_string,),
        Family.SET: (pa.types.is_string,),
        **dict.fromkeys((Family.BYTES, Family.GEOMETRY), (pa.types.is_binary,)),
        **dict.fromkeys((Family.UUID, Family.INET4, Family.INET6), (pa.types.is_binary,)),
        Family.DATE: (pa.types.is_date32, pa.types.is_string),
        Family.DATETIME: (pa.types.is_timestamp, pa.types.is_string),
        Family.TIMESTAMP: (pa.types.is_timestamp, pa.types.is_string),
        Family.TIME: (pa.types.is_duration,),
    }
)


def log_values(
    values: pa.Array | pa.ChunkedArray,
    shape: ColumnShape,
    column: SourceColumn,
    bad_dates: BadDates = BadDates.FAIL,
) -> pa.Array:
    """Convert a column that was decoded from the log.

    Args:
        values: The values, in the type of `arrow_type`.
        shape: The column when they were written.
        column: The column as the information schema has it, and its type in the lake, which may be
            wider than that of the log.
        bad_dates: What to do with times that the lake does not have; dates are decoded with
            `DecodeOptions.bad_dates`.

    Returns:
        The values in the Arrow form of the column's type in the lake, CHAR padded as the lake has
        it; without a copy where the types are equal and there is one chunk.

    Raises:
        Invalid: The lake does not have a value; the column and the value are named. Or the values
            are not of the column's type.
        Unsupported: The lake's type does not hold values of the source's type.
    """
    convert = _converter(values.type, shape, column, bad_dates)
    chunks = [values] if isinstance(values, pa.Array) else values.chunks
    arrays = [
        padded_array(convert_checked(chunk, column, convert), column.type) for chunk in chunks
    ]
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.array([], to_arrow(column.type))


@lru_cache(maxsize=4096)
def _converter(
    type_: pa.DataType, shape: ColumnShape, column: SourceColumn, bad_dates: BadDates
) -> _Converter:
    family = source_family(column)
    target = to_arrow(column.type)
    if not any(is_type(type_) for is_type in _LOG_TYPES[family]):
        raise Invalid(
            f"cannot convert column '{column.name}': its values in the log are {type_}, and not of "
            f"type {column.source_type}; decode them with the column as it was when they were "
            "written"
        )
    if pa.types.is_string(target):
        return _text_converter(type_, family, shape)
    if pa.types.is_list(target):
        return partial(split_set, type_=target)
    if pa.types.is_time(target):
        return partial(_times, shape=shape, bad_dates=bad_dates, type_=target)
    if pa.types.is_binary(target):
        return _bytes_converter(type_, family, column)
    if type_ == target:
        return _same
    if pa.types.is_boolean(target):
        return _flags
    return partial(pc.cast, target_type=target)


def _text_converter(type_: pa.DataType, family: Family, shape: ColumnShape) -> _Converter:
    if pa.types.is_string(type_):
        return _same
    converters: dict[Family, _Converter] = {
        Family.YEAR: _year_text,
        Family.BIT: _bit_text,
        Family.FLOAT: float_text,
        Family.DOUBLE: float_text,
        Family.DECIMAL: decimal_text,
        Family.TIME: partial(time_text, digits=shape.length),
        Family.DATETIME: partial(_datetime_text, digits=shape.length),
        Family.TIMESTAMP: partial(_datetime_text, digits=shape.length),
        Family.UUID: uuid_text,
        Family.INET4: inet4_text,
        Family.INET6: inet6_text,
    }
    return converters.get(family, partial(pc.cast, target_type=pa.string()))


def _bytes_converter(type_: pa.DataType, family: Family, column: SourceColumn) -> _Converter:
    if family is not Family.BIT:
        return _same if pa.types.is_binary(type_) else partial(pc.cast, target_type=pa.binary())
    if pa.types.is_boolean(type_):
        return lambda values: padded_bits(_ONE_BIT.take(pc.cast(values, pa.int8())), column)
    return partial(padded_bits, column=column)


def _same(values: pa.Array) -> pa.Array:
    return values


def _flags(values: pa.Array) -> pa.Array:
    return pc.not_equal(values, 0)


def _year_text(values: pa.Array) -> pa.Array:
    return pc.utf8_lpad(pc.cast(values, pa.string()), _YEAR_DIGITS, "0")


def _bit_text(values: pa.Array) -> pa.Array:
    """The number that bits are."""
    if pa.types.is_boolean(values.type):
        return pc.cast(pc.cast(values, pa.int8()), pa.string())
    matrix = byte_matrix(values)
    words = np.zeros((len(values), _BIT_BYTES), np.uint8)
    words[:, _BIT_BYTES - matrix.shape[1] :] = matrix
    numbers = pa.array(words.view(">u8")[:, 0].astype(np.uint64))
    text = pc.cast(numbers, pa.string())
    return pc.if_else(values.is_null(), None, text) if values.null_count else text


def _datetime_text(values: pa.Array, digits: int) -> pa.Array:
    text = pc.cast(pc.cast(values, pa.timestamp("us")), pa.string())
    return pc.utf8_slice_codeunits(text, 0, _SECOND_CHARACTERS + (digits + 1 if digits else 0))


def _times(
    values: pa.Array, shape: ColumnShape, bad_dates: BadDates, type_: pa.DataType
) -> pa.Array:
    micros = pc.cast(values, pa.int64())
    is_bad = pc.or_(pc.less(micros, 0), pc.greater_equal(micros, _DAY_MICROS))
    if pc.any(is_bad).as_py():
        if bad_dates is BadDates.FAIL:
            first = values.filter(is_bad).slice(0, 1)
            raise bad_date(shape.name, time_text(first, shape.length)[0].as_py())
        micros = pc.if_else(is_bad, None, micros)
    return pc.cast(pc.cast(pc.divide(micros, 1000), pa.int32()), type_)
