"""The tables, views and system tables that SHOW and DESCRIBE tell of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewInfo
from headwater.catalog.table.table import Table
from headwater.spark.names import quoted
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.ddl.partitions import matching_partitions
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.view_columns import SchemaMode, schema_mode
from headwater.spark.types import paimon_schema
from headwater.storage.errors import NotFound, ResourceType
from headwater.storage.types.data_type import DataField, from_arrow

__all__ = ["Found", "partition_details", "present_fields", "table_or_view"]

Found: TypeAlias = Table | ViewInfo | tuple[DataField, ...]
"""A table, a view, or the columns of a system table."""


def table_or_view(context: SqlContext, identifier: Identifier) -> Found:
    """A table, a view where there is no such table, or the columns of a system table.

    Raises:
        NotFound: There is none of them.
    """
    if identifier.system_table is not None:
        arrow = context.catalog.system_table(str(identifier)).schema
        return tuple(
            DataField(number, field.name, from_arrow(field.type, field.nullable))
            for number, field in enumerate(arrow)
        )
    try:
        return context.catalog.table(str(identifier))
    except NotFound as error:
        if error.resource_type is not ResourceType.TABLE:
            raise
        view = context.view(identifier)
        if view is None:
            raise
        return view


def present_fields(context: SqlContext, found: Found) -> tuple[DataField, ...]:
    """The columns; those of a view whose types follow its query's as they are now."""
    if isinstance(found, Table):
        return found.schema.fields
    if not isinstance(found, ViewInfo):
        return found
    fields = [
        DataField(column.id, column.name, column.data_type, column.description)
        for column in found.schema.columns
    ]
    mode = schema_mode(found)
    if not mode.evolves:
        return tuple(fields)
    view = found.identifier
    query = f"SELECT * FROM {quoted(view.database)}.{quoted(view.name)}"
    schema = query_frame(query, context).schema
    present = paimon_schema(schema).fields
    if mode is SchemaMode.EVOLUTION:
        comments = [field.metadata.get("comment") for field in schema]
    else:
        comments = [field.description for field in fields]
    return tuple(
        replace(field, description=comment)
        for field, comment in zip(present, comments, strict=True)
    )


def partition_details(
    context: SqlContext, table: Table, partition: Mapping[str, str | None]
) -> list[tuple[str, str]]:
    """The name and the value of each thing that is told of one partition.

    Raises:
        Invalid: The table has no partitions.
        NotFound: There is no such partition.
    """
    (matching,) = matching_partitions(context, table, [partition])
    if len(partition) < len(table.schema.partition_keys) or not matching:
        texts = {key: "null" if value is None else value for key, value in partition.items()}
        name = "/".join(f"{key}={text}" for key, text in texts.items())
        raise NotFound(
            f"table {table.name} has no partition {name}; name all of its columns, "
            f"{', '.join(table.schema.partition_keys)}",
            resource_type=ResourceType.PARTITION,
            resource_name=name,
        )
    (found,) = matching.values()
    numbers = {
        "fileCount": found.file_count,
        "fileSizeInBytes": found.file_size_in_bytes,
        "lastFileCreationTime": found.last_file_creation_time,
        "recordCount": found.record_count,
    }
    parameters = {key: number for key, number in numbers.items() if number >= 0}
    rows, size, files = (
        "UNKNOWN" if number < 0 else str(number)
        for number in (found.record_count, found.file_size_in_bytes, found.file_count)
    )
    return [
        ("Partition Values", f"[{_listed(found.spec)}]"),
        *([("Partition Parameters", f"{{{_listed(parameters)}}}")] if parameters else []),
        ("Partition Statistics", f"{rows} rows, {size} bytes, {files} files"),
    ]


def _listed(pairs: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in pairs.items())
