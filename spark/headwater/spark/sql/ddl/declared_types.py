"""The columns that a table gets of a frame's, some of which Spark knows to be CHAR or VARCHAR."""

from __future__ import annotations

from dataclasses import replace

import pyspark.sql.types as st

from headwater.spark.char_types import TYPE_KEY
from headwater.spark.sql.ddl.column_types import BINARY_COLLATION, read_type
from headwater.spark.sql.statement import Statement, read_words
from headwater.spark.types import paimon_schema
from headwater.storage.errors import Unsupported
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import ArrayType, DataType, MapType, RowType

__all__ = ["table_schema"]


def table_schema(schema: st.StructType) -> Schema:
    """A Spark schema as one that a table can be created with, as Spark creates its own tables.

    Raises:
        Unsupported: A column's type has no Paimon type, or it has a collation.
    """
    for column in schema.fields:
        collation = _collation(column.dataType)
        if collation is not None:
            raise Unsupported(
                f"column '{column.name}' has the collation {collation}, and Paimon's STRING has "
                f"none; write {column.name} COLLATE {BINARY_COLLATION} in the query"
            )
    created = paimon_schema(schema)
    declared = {column.name: column.metadata.get(TYPE_KEY) for column in schema.fields}
    fields = [
        field
        if (text := declared[field.name]) is None
        else replace(field, type=_declared(field.type, _type(text)))
        for field in created.fields
    ]
    return replace(created, fields=tuple(fields))


def _collation(data_type: st.DataType) -> str | None:
    """A collation of strings in a type that is not that of all strings; None if it has none."""
    match data_type:
        case st.StringType():
            return None if data_type.collation == BINARY_COLLATION else data_type.collation
        case st.ArrayType():
            return _collation(data_type.elementType)
        case st.MapType():
            return _collation(data_type.keyType) or _collation(data_type.valueType)
        case st.StructType():
            collations = (_collation(field.dataType) for field in data_type)
            return next((name for name in collations if name is not None), None)
    return None


def _type(text: str) -> DataType:
    return read_type(Statement(text, read_words(text)))


def _declared(kind: DataType, told: DataType) -> DataType:
    """A type with the lengths of another that differs in these alone."""
    match kind, told:
        case AtomicType(), AtomicType():
            if kind.root is told.root or told.length:
                return replace(kind, root=told.root, length=told.length)
        case ArrayType(), ArrayType():
            return replace(kind, element=_declared(kind.element, told.element))
        case MapType(), MapType():
            key, value = _declared(kind.key, told.key), _declared(kind.value, told.value)
            return replace(kind, key=key, value=value)
        case RowType(), RowType():
            fields = [
                replace(own, type=_declared(own.type, other.type))
                for own, other in zip(kind.fields, told.fields, strict=True)
            ]
            return replace(kind, fields=tuple(fields))
    return kind
