"""New rows with the table's names for their columns and fields, which may differ in case."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.spark.names import columns_by_name
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)

__all__ = ["batch_as_named", "frame_as_named"]


def frame_as_named(rows: DataFrame, schema: TableSchema) -> DataFrame:
    """Rows with the table's names for their columns; fields of structs keep theirs."""
    names = _own_names(list(schema.field_by_name), rows.columns)
    return rows if names == rows.columns else rows.toDF(*names)


def batch_as_named(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Rows with the table's names for their columns, and for fields of structs, however deep.

    A name means the column that is written so or, failing that, the one that differs in case.
    """
    wanted = _schema(batch.schema, schema.fields)
    if wanted.equals(_schema(batch.schema, ())):
        return batch
    # Only names differ, so that no value is copied.
    columns = [column.view(field.type) for column, field in zip(batch.columns, wanted, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _own_names(own: Sequence[str], given: Sequence[str]) -> list[str]:
    found = {other: name for name, other in columns_by_name(own, given).items()}
    return [found.get(name, name) for name in given]


def _schema(given: pa.Schema, own: Sequence[DataField]) -> pa.Schema:
    return pa.schema(_fields(list(given), own))


def _fields(given: Sequence[pa.Field], own: Sequence[DataField]) -> list[pa.Field]:
    types = {field.name: field.type for field in own}
    names = _own_names(list(types), [field.name for field in given])
    return [_field(field, name, types.get(name)) for name, field in zip(names, given, strict=True)]


def _field(given: pa.Field, name: str, own: DataType | None) -> pa.Field:
    # A field that is NOT NULL is null all the same where its struct is.
    return pa.field(name, _type(given.type, own), metadata=given.metadata)


def _type(given: pa.DataType, own: DataType | None) -> pa.DataType:
    if pa.types.is_struct(given):
        return pa.struct(_fields(list(given), own.fields if isinstance(own, RowType) else ()))
    if pa.types.is_list(given):
        element = own.element if isinstance(own, ArrayType) else None
        return pa.list_(_field(given.value_field, given.value_field.name, element))
    if pa.types.is_map(given):
        match own:
            case MapType(key=key, value=value):
                return _map(given, key, value)
            case MultisetType(element=element):
                return _map(given, element, None)
        return _map(given, None, None)
    return given


def _map(given: pa.MapType, key: DataType | None, value: DataType | None) -> pa.DataType:
    item = given.item_field
    keys = given.key_field.with_type(_type(given.key_type, key))
    return pa.map_(keys, _field(item, item.name, value), keys_sorted=given.keys_sorted)
