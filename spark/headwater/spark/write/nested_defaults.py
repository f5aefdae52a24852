"""Defaults of columns of nested types: expressions of Spark's, as ``CREATE TABLE`` keeps them.

Those of other types are text that is cast, which storage reads itself.
"""

from __future__ import annotations

from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headwater.spark.names import quoted
from headwater.spark.types import spark_type
from headwater.storage.errors import Invalid
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import DataField

__all__ = ["nested_default", "with_another_column", "with_nested_defaults"]


def nested_default(field: DataField, table: str) -> Column:
    """The default of a column of a nested type.

    Args:
        field: The column, which has a default.
        table: The table's name in error messages.

    Raises:
        Invalid: Its text is no expression of Spark's.
    """
    text = field.default_value or "NULL"
    try:
        return sf.expr(text).cast(spark_type(field.type))
    except ParseException:
        raise Invalid(
            f"table {table}, column '{field.name}': the default {text} is no expression that Spark "
            "reads; change it with ALTER COLUMN … SET DEFAULT"
        ) from None


def with_nested_defaults(rows: DataFrame, schema: TableSchema, table: str) -> DataFrame:
    """Rows with the defaults of nested columns in the places of nulls and of missing columns.

    Args:
        rows: Rows for a table; its columns may be missing.
        schema: The table's schema.
        table: Its name in error messages.

    Raises:
        Invalid: As `nested_default`.
    """
    for field in schema.fields:
        if field.default_value is None or isinstance(field.type, AtomicType):
            continue
        value = nested_default(field, table)
        if field.name in rows.columns:
            filled = sf.coalesce(sf.col(quoted(field.name)), value)
            rows = rows.withColumn(field.name, filled)
        else:
            rows = with_another_column(rows, field.name, value)
    return rows


def with_another_column(rows: DataFrame, name: str, value: Column) -> DataFrame:
    """Rows with one more column; `withColumn` would take the place of one in another case."""
    return rows.select("*", value.alias(name))
