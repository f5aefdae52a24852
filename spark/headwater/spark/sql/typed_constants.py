"""Values of Spark's types, written as constants of SQL of exactly these types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyspark.sql.types as st
from pyspark.sql import functions as sf

from headwater.spark.sql.constants import Constants, SqlConstant, session_constants
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.names import string_literal
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.types import sql_type_text
from headwater.storage.errors import Invalid

__all__ = ["typed_constants"]

# Types whose text is read as exactly the same value, and what stands before it.
_WRITTEN_AS_TEXT: Mapping[type[st.DataType], str] = {
    st.DateType: "DATE ",
    st.TimestampNTZType: "TIMESTAMP_NTZ ",
    st.TimeType: "TIME ",
}
_INTERVALS = (st.YearMonthIntervalType, st.DayTimeIntervalType)
# A constant of one of these types would be of another, if its value were all that is known.
_SIZED: Mapping[type[st.DataType], Callable[[Any], object]] = {
    st.ByteType: np.int8,
    st.ShortType: np.int16,
    st.LongType: np.int64,
    st.FloatType: np.float32,
}


def typed_constants(expressions: Sequence[str], context: SqlContext) -> list[SqlConstant]:
    """The values of constant expressions, as Spark computes them, with their types.

    A decimal has as many digits as its value, as in Spark.

    Args:
        expressions: The expressions.
        context: The user's.

    Raises:
        Invalid: A value is of a type without constants.
        AnalysisException: An expression is not a constant.
    """
    constants = session_constants(context.session.spark)
    columns = (f"({text}) AS c{at}" for at, text in enumerate(expressions))
    frame = query_frame(f"SELECT {', '.join(columns)}", replace(context))
    fields = frame.schema.fields
    for field, text in zip(fields, expressions, strict=True):
        _check_type(field.dataType, f"the value of {text}", is_within=False)
    texts = [
        sf.col(field.name).cast("string").alias(field.name)
        if isinstance(field.dataType, (*_WRITTEN_AS_TEXT, *_INTERVALS))
        else sf.to_json(field.name).alias(field.name)
        if isinstance(field.dataType, st.VariantType)
        # A dict would not keep the order of the keys.
        else sf.map_entries(field.name).alias(field.name)
        if isinstance(field.dataType, st.MapType)
        else sf.col(field.name)
        for field in fields
    ]
    (row,) = frame.select(*texts).collect()
    return [
        SqlConstant(_written(value, field.dataType, constants, f"the value of {text}"))
        for value, field, text in zip(row, fields, expressions, strict=True)
    ]


def _check_type(data_type: st.DataType, what: str, *, is_within: bool) -> None:
    """Reject types that have no constants, or none within other values; raises Invalid."""
    without = isinstance(data_type, st.CalendarIntervalType)
    if is_within and isinstance(data_type, st.VariantType | st.YearMonthIntervalType):
        without = True
    if without:
        raise Invalid(
            f"{what}: SQL has no constant of {data_type.simpleString()} here; pass it as text"
        )
    match data_type:
        case st.ArrayType(elementType=element):
            _check_type(element, what, is_within=True)
        case st.MapType(keyType=key_type, valueType=value_type):
            _check_type(key_type, what, is_within=True)
            _check_type(value_type, what, is_within=True)
        case st.StructType(fields=fields):
            for field in fields:
                _check_type(field.dataType, what, is_within=True)
        case _:
            pass


def _written(value: Any, data_type: st.DataType, constants: Constants, what: str) -> str:
    if value is None:
        is_void = isinstance(data_type, st.NullType)
        return "NULL" if is_void else f"CAST(NULL AS {sql_type_text(data_type)})"
    for kind, prefix in _WRITTEN_AS_TEXT.items():
        if isinstance(data_type, kind) and isinstance(value, str):
            return f"{prefix}{string_literal(value)}"
    match data_type:
        case st.YearMonthIntervalType() | st.DayTimeIntervalType() if isinstance(value, str):
            return value
        case st.VariantType():
            return f"parse_json({constants.constant(value, what)})"
        case st.ArrayType(elementType=element):
            items = ", ".join(_written(item, element, constants, what) for item in value)
            return f"CAST(array({items}) AS {sql_type_text(data_type)})"
        case st.MapType(keyType=key_type, valueType=value_type):
            pairs = ", ".join(
                f"{_written(key, key_type, constants, what)}, "
                f"{_written(item, value_type, constants, what)}"
                for key, item in (value.items() if isinstance(value, dict) else value)
            )
            return f"CAST(map({pairs}) AS {sql_type_text(data_type)})"
        case st.StructType(fields=fields):
            members = ", ".join(
                f"{string_literal(field.name)}, {_written(item, field.dataType, constants, what)}"
                for item, field in zip(value, fields, strict=True)
            )
            return f"CAST(named_struct({members}) AS {sql_type_text(data_type)})"
        case st.TimestampNTZType():
            return f"TIMESTAMP_NTZ '{value.isoformat(' ')}'"
        case st.TimeType():
            return f"TIME '{value.isoformat()}'"
        case st.StringType() if data_type != st.StringType():
            return f"CAST({constants.constant(value, what)} AS {sql_type_text(data_type)})"
    sized = _SIZED.get(type(data_type))
    return constants.constant(value if sized is None else sized(value), what)
