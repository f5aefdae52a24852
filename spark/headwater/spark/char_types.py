"""Types of CHAR and VARCHAR beside Spark's, which has one type of text; see `char_columns`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as st
from pyspark import TaskContext

from headwater.spark.names import quoted
from headwater.spark.option_values import is_true
from headwater.spark.types import spark_type
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from headwater.storage.types.type_parts import atomic_parts

__all__ = [
    "AS_TEXT",
    "FILLS",
    "TYPE_KEY",
    "declared_schema",
    "holds",
    "is_bounded",
    "is_char",
    "is_text_in_task",
    "stored_batch",
    "type_text",
    "with_types",
]

TYPE_KEY = "__CHAR_VARCHAR_TYPE_STRING"
"""The entry of a column's metadata by which Spark knows its type."""
AS_TEXT = "spark.sql.legacy.charVarcharAsString"
"""The setting by which CHAR and VARCHAR are plain text to a session."""
FILLS = "spark.sql.readSideCharPadding"
"""The setting by which a session fills up what CHAR holds when it is read; true by default."""


def is_char(kind: DataType) -> bool:
    """Whether a type is CHAR."""
    return isinstance(kind, AtomicType) and kind.root is Root.CHAR


def is_bounded(kind: DataType) -> bool:
    """Whether a type is CHAR or VARCHAR of a length, or holds one."""
    return holds(kind, (Root.CHAR, Root.VARCHAR))


def holds(kind: DataType, roots: Sequence[Root]) -> bool:
    """Whether a type is text of a length with one of these roots, or holds one."""
    return any(part.root in roots and part.length < MAX_LENGTH for part in atomic_parts(kind))


def type_text(kind: DataType) -> str:
    """A type as Spark's parser reads it."""
    match kind:
        case AtomicType(root=Root.CHAR):
            return f"char({kind.length})"
        case AtomicType(root=Root.VARCHAR) if kind.length < MAX_LENGTH:
            return f"varchar({kind.length})"
        case ArrayType():
            return f"array<{type_text(kind.element)}>"
        case MapType():
            return f"map<{type_text(kind.key)},{type_text(kind.value)}>"
        case MultisetType():
            return f"map<{type_text(kind.element)},int>"
        case RowType():
            inner = ",".join(f"{quoted(each.name)}:{type_text(each.type)}" for each in kind.fields)
            return f"struct<{inner}>"
    result: st.DataType = spark_type(kind)
    return result.simpleString()


def declared_schema(schema: st.StructType, fields: Sequence[DataField]) -> st.StructType:
    """A schema by which Spark itself knows a table's columns of CHAR and VARCHAR."""
    there = {each.name: each.dataType for each in schema.fields}
    bounded = [each for each in fields if is_bounded(each.type)]
    return with_types(
        schema,
        {each.name: each.type for each in bounded if there.get(each.name) == spark_type(each.type)},
    )


def with_types(schema: st.StructType, kinds: Mapping[str, DataType]) -> st.StructType:
    """A schema with the types by which Spark knows some of its columns, by name."""
    if not kinds:
        return schema
    return st.StructType(
        [
            st.StructField(
                field.name,
                field.dataType,
                field.nullable,
                {**field.metadata, TYPE_KEY: type_text(kinds[field.name])}
                if field.name in kinds
                else field.metadata,
            )
            for field in schema.fields
        ]
    )


def stored_batch(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Rows for a table, as they are stored, as `with_stored_values` gives them.

    In a task it follows the session's settings.

    Args:
        batch: The rows.
        schema: The table's; columns of nested types are left alone.
    """
    if is_text_in_task():
        return batch
    names = set(batch.schema.names)
    for field in schema.fields:
        kind = field.type
        if not (isinstance(kind, AtomicType) and is_bounded(kind) and field.name in names):
            continue
        column = batch.column(field.name)
        if not _is_string(column.type):
            continue
        too_long = pc.greater(pc.utf8_length(column), kind.length)
        if pc.any(too_long).as_py():
            trimmed = pc.utf8_length(pc.utf8_rtrim(column, characters=" "))
            cut = pc.and_(too_long, pc.less_equal(trimmed, kind.length))
            column = pc.if_else(cut, pc.utf8_slice_codeunits(column, 0, kind.length), column)
        if kind.root is Root.CHAR:
            column = pc.utf8_rpad(column, width=kind.length, padding=" ")
        batch = _with_column(batch, field.name, column)
    return batch


def is_text_in_task() -> bool:
    """Whether CHAR and VARCHAR are plain text to the session of this task's query."""
    task = TaskContext.get()
    return is_true(None if task is None else task.getLocalProperty(AS_TEXT), default=False)


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _with_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), column)
