"""Partitions' names as Spark shows them, whatever the names of their directories."""

from __future__ import annotations

from collections.abc import Collection

from headwater.catalog.table.table import Table
from headwater.spark.condition_text import is_moment
from headwater.spark.sql.context import SqlContext
from headwater.spark.write.partition_moments import moment_texts
from headwater.storage.files.layout import escape_path_name
from headwater.storage.options import TableOptions
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField
from headwater.storage.types.values import StorageValue, partition_text, units_per_second

__all__ = ["shown_partitions"]

_READABLE = TableOptions({"partition.legacy-name": "false"})


def shown_partitions(
    context: SqlContext, table: Table, partitions: Collection[tuple[StorageValue, ...]]
) -> list[str]:
    """The names of partitions: ``dt=2026-01-01/hh=null``; moments are in the session's zone.

    Args:
        context: The user's.
        table: The table.
        partitions: Their values, in the order of the partition columns.
    """
    columns = [
        _moments(context, field, values)
        if is_moment(table.schema, field.name)
        else [_text(value, field) for value in values]
        for field, values in zip(
            table.schema.partition_fields, zip(*partitions, strict=True), strict=False
        )
    ]
    keys = [escape_path_name(key) for key in table.schema.partition_keys]
    return [
        "/".join(f"{key}={escape_path_name(text)}" for key, text in zip(keys, texts, strict=True))
        for texts in zip(*columns, strict=True)
    ]


def _moments(context: SqlContext, field: DataField, values: Collection[StorageValue]) -> list[str]:
    assert isinstance(field.type, AtomicType)
    unit = units_per_second(field.type)
    known = sorted({value for value in values if isinstance(value, int)})
    micros = [value * 10**6 // unit for value in known]
    texts = dict(zip(known, moment_texts(context.session.spark, micros), strict=True))
    return [texts[value] if isinstance(value, int) else "null" for value in values]


def _text(value: StorageValue, field: DataField) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    text = partition_text(value, field, _READABLE)
    is_local = isinstance(field.type, AtomicType) and field.type.root is Root.TIMESTAMP
    # A directory's name has as many digits as the type.
    return text.rstrip("0").rstrip(".") if is_local and "." in text else text
