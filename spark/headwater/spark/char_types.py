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
    "declared_chars",
    "declared_schema",
    "filled_batch",
    "holds",
    "is_bounded",
    "is_char",
    "keeps_no_spaces",
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
    """True for CHAR."""
    return isinstance(kind, AtomicType) and kind.root is Root.CHAR


def is_bounded(kind: DataType) -> bool:
    """True for CHAR and VARCHAR of a length, and for what holds them."""
    return holds(kind, (Root.CHAR, Root.VARCHAR))


def holds(kind: DataType, roots: Sequence[Root]) -> bool:
    """True for text of a length whose type is one of these, and for what holds such."""
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
    found: st.DataType = spark_type(kind)
    return found.simpleString()


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
                each.name,
                each.dataType,
                each.nullable,
                {**each.metadata, TYPE_KEY: type_text(kinds[each.name])}
                if each.name in kinds
                else each.metadata,
            )
            for each in schema.fields
        ]
    )


def declared_chars(schema: st.StructType, fields: Sequence[DataField]) -> list[DataField]:
    """The columns of CHAR of a table that `declared_schema` told Spark of."""
    told = {each.name for each in schema.fields if TYPE_KEY in each.metadata}
    return [each for each in fields if each.name in told and is_char(each.type)]


def filled_batch(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """Rows whose columns of CHAR are filled up, as `CharColumns.read` gives them.

    In a task it follows the session's settings.

    Args:
        batch: The rows.
        fields: Columns of theirs; those of nested types are left alone.
    """
    if _of_task(AS_TEXT, default=False) or not _of_task(FILLS, default=True):
        return batch
    for each in fields:
        if isinstance(each.type, AtomicType) and is_char(each.type):
            filled = pc.utf8_rpad(batch.column(each.name), width=each.type.length, padding=" ")
            batch = _with_column(batch, each.name, filled)
    return batch


def keeps_no_spaces(schema: TableSchema, name: str) -> bool:
    """True for a column that files of ORC may hold, which keep no spaces at the end of CHAR."""
    return schema.table_options.may_write_orc and name not in schema.partition_keys


def stored_batch(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Rows for a table, as they are stored, as `with_stored_values` gives them.

    In a task it follows the session's settings.

    Args:
        batch: The rows.
        schema: The table's; columns of nested types are left alone.
    """
    if _of_task(AS_TEXT, default=False):
        return batch
    names = set(batch.schema.names)
    for each in schema.fields:
        kind = each.type
        if not (isinstance(kind, AtomicType) and is_bounded(kind) and each.name in names):
            continue
        column = batch.column(each.name)
        if not _is_string(column.type):
            continue
        too_long = pc.greater(pc.utf8_length(column), kind.length)
        if pc.any(too_long).as_py():
            trimmed = pc.utf8_length(pc.utf8_rtrim(column, characters=" "))
            cut = pc.and_(too_long, pc.less_equal(trimmed, kind.length))
            column = pc.if_else(cut, pc.utf8_slice_codeunits(column, 0, kind.length), column)
        if kind.root is Root.CHAR and keeps_no_spaces(schema, each.name):
            column = pc.utf8_rtrim(column, characters=" ")
        elif kind.root is Root.CHAR:
            column = pc.utf8_rpad(column, width=kind.length, padding=" ")
        batch = _with_column(batch, each.name, column)
    return batch


def _of_task(setting: str, *, default: bool) -> bool:
    """A setting of the session whose query the task at hand is of; it has those that were set."""
    task = TaskContext.get()
    value = None if task is None else task.getLocalProperty(setting)
    return is_true(value, default=default)


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _with_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), column)
