"""The columns that a table gets of a frame's, some of which Spark knows to be CHAR or VARCHAR."""

from __future__ import annotations

from dataclasses import replace

import pyspark.sql.types as st

from headwater.spark.char_types import TYPE_KEY
from headwater.spark.sql.ddl.column_types import read_type
from headwater.spark.sql.statement import Statement, read_words
from headwater.spark.types import paimon_schema
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import ArrayType, DataType, MapType, RowType

__all__ = ["table_schema"]


def table_schema(schema: st.StructType) -> Schema:
    """A Spark schema as one that a table can be created with, as Spark creates its own tables.

    Raises:
        Unsupported: A column's type has no Paimon type.
    """
    found = paimon_schema(schema)
    told = {each.name: each.metadata.get(TYPE_KEY) for each in schema.fields}
    fields = [
        field
        if (text := told[field.name]) is None
        else replace(field, type=_declared(field.type, _type(text)))
        for field in found.fields
    ]
    return replace(found, fields=tuple(fields))


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
