"""Paimon's data types as Spark's, and Arrow batches in the exact form Spark expects.

TIMESTAMP is Spark's TIMESTAMP_NTZ and TIMESTAMP_LTZ its TIMESTAMP. Spark keeps microseconds: a
column of more than six fractional digits is read if none of its values needs them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyspark.sql.types as st
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import to_arrow_schema

from headwater.spark.names import quoted
from headwater.storage.errors import Unsupported
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
    refuse_kept,
)

__all__ = [
    "conform",
    "nullable_type",
    "paimon_schema",
    "spark_arrow_schema",
    "spark_schema",
    "spark_type",
    "sql_type_text",
]

_PLAIN: dict[Root, st.DataType] = {
    Root.BOOLEAN: st.BooleanType(),
    Root.TINYINT: st.ByteType(),
    Root.SMALLINT: st.ShortType(),
    Root.INT: st.IntegerType(),
    Root.BIGINT: st.LongType(),
    Root.FLOAT: st.FloatType(),
    Root.DOUBLE: st.DoubleType(),
    Root.CHAR: st.StringType(),
    Root.VARCHAR: st.StringType(),
    Root.BINARY: st.BinaryType(),
    Root.VARBINARY: st.BinaryType(),
    Root.BLOB: st.BinaryType(),
    Root.DATE: st.DateType(),
    Root.TIMESTAMP: st.TimestampNTZType(),
    Root.TIMESTAMP_LTZ: st.TimestampType(),
}


def spark_type(data_type: DataType) -> st.DataType:
    """The Spark type that holds a Paimon type."""
    match data_type:
        case AtomicType(root=Root.DECIMAL):
            return st.DecimalType(data_type.precision, data_type.scale)
        case AtomicType(root=Root.TIME):
            return st.TimeType(data_type.precision)
        case AtomicType():
            return _PLAIN[data_type.root]
        case ArrayType() | VectorType():
            return st.ArrayType(spark_type(data_type.element))
        case MapType():
            return st.MapType(spark_type(data_type.key), spark_type(data_type.value))
        case MultisetType():
            return st.MapType(spark_type(data_type.element), st.IntegerType())
        case VariantType():
            return st.VariantType()
        case RowType():
            return spark_schema(data_type.fields)


def sql_type_text(data_type: st.DataType) -> str:
    """A type as Spark's SQL reads it, whatever TIMESTAMP means in the session."""
    match data_type:
        case st.TimestampType():
            return "timestamp_ltz"
        case st.ArrayType():
            return f"array<{sql_type_text(data_type.elementType)}>"
        case st.MapType():
            return f"map<{sql_type_text(data_type.keyType)},{sql_type_text(data_type.valueType)}>"
        case st.StructType():
            parts = (f"{quoted(each.name)}:{sql_type_text(each.dataType)}" for each in data_type)
            return f"struct<{','.join(parts)}>"
    return data_type.simpleString()


def spark_schema(fields: Sequence[DataField]) -> st.StructType:
    """Columns as a Spark schema.

    All of them may be null, as Spark has it for every file source: its generated code would read
    a null of a column declared otherwise as zero.

    Raises:
        Unsupported: Headwater does not read a column's type.
    """
    for item in fields:
        refuse_kept(item)
    return st.StructType(
        [
            st.StructField(
                item.name,
                spark_type(item.type),
                nullable=True,
                metadata={"comment": item.description} if item.description else None,
            )
            for item in fields
        ]
    )


def spark_arrow_schema(schema: st.StructType) -> pa.Schema:
    """The Arrow schema that Spark checks a Python data source's batches against."""
    return to_arrow_schema(schema, timezone="UTC")


def paimon_schema(schema: st.StructType) -> Schema:
    """A Spark schema as one that a table can be created with.

    Raises:
        Unsupported: A column's type has no Paimon type.
    """
    try:
        arrow = spark_arrow_schema(schema)
    except PySparkTypeError as error:
        raise Unsupported(f"Arrow has no such type: {error}") from error
    fields = [
        # Paimon keeps milliseconds of a time of day.
        field.with_type(pa.time32("ms")) if pa.types.is_time(field.type) else field
        for field in arrow
    ]
    return Schema.from_arrow(pa.schema(fields))


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the columns of `schema`, by name, in its types.

    Raises:
        Unsupported: A value does not fit Spark's type.
    """
    # A tag in a field's metadata is all that tells Spark a VARIANT from a struct.
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    columns: list[pa.Array] = []
    for field in schema:
        column = batch.column(field.name)
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except pa.ArrowInvalid as error:
                raise Unsupported(
                    f"column '{field.name}' has values of type {column.type} that Spark's "
                    f"{field.type} cannot hold ({error}); leave the column out"
                ) from error
        columns.append(column)
    if not columns:
        return batch.select([])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def nullable_type(data_type: st.DataType) -> st.DataType:
    """A type whose fields, elements and values may be null, however deep they are."""
    match data_type:
        case st.StructType(fields=fields):
            return st.StructType(
                [st.StructField(each.name, nullable_type(each.dataType)) for each in fields]
            )
        case st.ArrayType(elementType=element):
            return st.ArrayType(nullable_type(element))
        case st.MapType(keyType=key, valueType=value):
            return st.MapType(key, nullable_type(value))
    return data_type
