"""The columns of a view when its tables have changed: the schema modes of Spark's views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyspark.sql.types as st
from pyspark.errors import AnalysisException

from headwater.catalog.model.views import ViewInfo
from headwater.spark.errors import unlogged_errors
from headwater.spark.names import quoted
from headwater.spark.session import is_connect, is_set
from headwater.spark.source.needs import stand_in
from headwater.spark.source.table_read import Relation, char_columns
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.names import string_literal
from headwater.spark.sql.query.function_calls import ANSI, SessionFunction
from headwater.spark.sql.query.named_frames import query_over
from headwater.spark.types import nullable_type, paimon_schema, spark_type, sql_type_text
from headwater.storage.errors import Invalid, Unsupported

__all__ = [
    "SCHEMA_MODE",
    "SchemaMode",
    "can_up_cast",
    "chosen_columns",
    "mode_option",
    "schema_mode",
]

SCHEMA_MODE = "view.schemaMode"
"""The option that keeps a view's mode, named as Spark names it; without it, COMPENSATION."""


class SchemaMode(StrEnum):
    """How the columns of a view follow those of its query."""

    BINDING = "BINDING"
    """They keep their types; the view is an error where the query's do not up-cast to them."""
    COMPENSATION = "COMPENSATION"
    """They keep their types, to which the query's values are cast as ANSI has it."""
    TYPE_EVOLUTION = "TYPE EVOLUTION"
    """They keep their names and have the query's types."""
    EVOLUTION = "EVOLUTION"
    """They are the query's."""

    @property
    def evolves(self) -> bool:
        """Whether the types that the catalog keeps may be out of date."""
        return self in (SchemaMode.TYPE_EVOLUTION, SchemaMode.EVOLUTION)


def schema_mode(view: ViewInfo) -> SchemaMode:
    """The mode of a view.

    Raises:
        Invalid: The catalog keeps one that does not exist.
    """
    mode = view.schema.options.get(SCHEMA_MODE, SchemaMode.COMPENSATION)
    try:
        return SchemaMode(mode)
    except ValueError:
        raise Invalid(
            f"view {view.identifier}: its option '{SCHEMA_MODE}' is '{mode}', expected one of "
            f"{', '.join(SchemaMode)}; ALTER VIEW {view.identifier} WITH SCHEMA COMPENSATION"
        ) from None


def mode_option(mode: SchemaMode) -> dict[str, str]:
    """The options that keep a mode: none for the one that a view has without any."""
    return {} if mode is SchemaMode.COMPENSATION else {SCHEMA_MODE: mode.value}


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query with places for tables.

    Attributes:
        text: The query.
        relations: The tables of all places of the statement.
        first: The first place that it has.
        functions: The functions to be made before it.
    """

    text: str
    relations: Sequence[Relation]
    first: int
    functions: Sequence[SessionFunction]


def chosen_columns(view: ViewInfo, query: QueryText, context: SqlContext) -> str:
    """What a view selects of its query, whose columns have the view's names already.

    Args:
        view: The view; its mode keeps types.
        query: Its query.
        context: The user's.

    Raises:
        Invalid: A type has changed that the view is bound to.
        Unsupported: Values of a type within another cannot be cast exactly in this session.
    """
    schema = _query_schema(query, context)
    columns = view.schema.columns
    if schema is None or len(schema) != len(columns):
        return "*"  # Spark's error is that of the whole query.
    types = [
        (spark_type(column.data_type), field) for column, field in zip(columns, schema, strict=True)
    ]
    if all(_is_kept(kept, field) for kept, field in types):
        return "*"
    is_ansi = is_set(context.session.spark, ANSI)
    return ", ".join(
        quoted(column.name)
        if _is_kept(kept, field)
        else _cast(view, column.name, field.dataType, kept, is_ansi=is_ansi)
        for column, (kept, field) in zip(columns, types, strict=True)
    )


def _query_schema(query: QueryText, context: SqlContext) -> st.StructType | None:
    """The columns of a query over tables; None if Spark refuses it."""
    spark, first = context.session.spark, query.first
    relations = query.relations[first:]
    schemas = [char_columns(spark, each).schema(each.schema) for each in relations]
    frames = [
        spark.createDataFrame([], schema) if is_connect(spark) else stand_in(spark, at, schema)
        for at, schema in enumerate(schemas, first)
    ]
    names = [each.name for each in relations]
    try:
        with unlogged_errors():
            functions = query.functions
            frame = query_over(spark, query.text, names, frames, first=first, functions=functions)
            return frame.schema
    except AnalysisException:
        return None


def _is_kept(kept: st.DataType, field: st.StructField) -> bool:
    """Whether a column of a query has the type that the catalog keeps of it."""
    if nullable_type(field.dataType) == nullable_type(kept):
        return True
    try:
        (stored,) = paimon_schema(st.StructType([field])).fields
    except Unsupported:
        return False
    # The catalog has no other type for it, as for times with microseconds.
    return nullable_type(spark_type(stored.type)) == nullable_type(kept)


def _cast(
    view: ViewInfo, name: str, present: st.DataType, kept: st.DataType, *, is_ansi: bool
) -> str:
    """A column of a view's query in the type that the view keeps."""
    column, type_text = quoted(name), sql_type_text(kept)
    up_casts = can_up_cast(present, kept)
    if not up_casts and schema_mode(view) is SchemaMode.BINDING:
        raise Invalid(
            f"view {view.identifier}: its column '{name}' is {kept.simpleString()}, and the "
            f"query's is {present.simpleString()} now, which does not up-cast to it; make the view "
            f"again, or ALTER VIEW {view.identifier} WITH SCHEMA TYPE EVOLUTION"
        )
    if up_casts or is_ansi:
        return f"CAST({column} AS {type_text}) AS {column}"
    if isinstance(kept, st.ArrayType | st.MapType | st.StructType):
        raise Unsupported(
            f"view {view.identifier}: its column '{name}' is {kept.simpleString()}, and the "
            f"query's is {present.simpleString()} now; values are cast only with {ANSI} = true"
        )
    # Another CAST would change values that the type cannot hold.
    failure = f"view {view.identifier}: a value of '{name}' is not a {kept.simpleString()}"
    failed = f"CASE WHEN {column} IS NOT NULL THEN raise_error({string_literal(failure)}) END"
    return f"coalesce(try_cast({column} AS {type_text}), CAST({failed} AS {type_text})) AS {column}"


_NUMBERS: Sequence[type[st.DataType]] = (
    st.ByteType, st.ShortType, st.IntegerType, st.LongType, st.FloatType, st.DoubleType,
)  # fmt: skip
_DIGITS: Mapping[type[st.DataType], int] = {
    st.ByteType: 3, st.ShortType: 5, st.IntegerType: 10, st.LongType: 20,
}  # fmt: skip
_INSTANTS = frozenset({
    (st.DateType, st.TimestampType), (st.DateType, st.TimestampNTZType),
    (st.TimestampType, st.TimestampNTZType), (st.TimestampNTZType, st.TimestampType),
    (st.LongType, st.TimestampType), (st.TimestampType, st.LongType),
})  # fmt: skip


def can_up_cast(present: st.DataType, kept: st.DataType) -> bool:
    """Whether all values of a type are values of another, as Spark has it (``UpCastRule``).

    Nulls do not count: they are values of all columns of a view.
    """
    match present, kept:
        case st.NullType(), _:
            return True
        case st.ArrayType(elementType=one), st.ArrayType(elementType=other):
            return can_up_cast(one, other)
        case st.MapType(), st.MapType():
            return can_up_cast(present.keyType, kept.keyType) and can_up_cast(
                present.valueType, kept.valueType
            )
        case st.StructType(fields=fields), st.StructType(fields=others):
            pairs = zip(fields, others, strict=False)
            return len(fields) == len(others) and all(
                can_up_cast(one.dataType, other.dataType) for one, other in pairs
            )
        case st.VariantType() | st.ArrayType() | st.MapType() | st.StructType(), _:
            return present == kept
        case _, st.StringType():
            return True
        case st.DecimalType(), st.DecimalType():
            return _digits_fit(present.precision, present.scale, kept)
        case st.DecimalType(), _:
            return present.scale == 0 and present.precision < _DIGITS.get(type(kept), 0)
        case _, st.DecimalType():
            digits = _DIGITS.get(type(present))
            return digits is not None and _digits_fit(digits, 0, kept)
    if type(present) in _NUMBERS and type(kept) in _NUMBERS:
        return _NUMBERS.index(type(present)) <= _NUMBERS.index(type(kept))
    return present == kept or (type(present), type(kept)) in _INSTANTS


def _digits_fit(precision: int, scale: int, kept: st.DecimalType) -> bool:
    return kept.scale >= scale and kept.precision - kept.scale >= precision - scale
