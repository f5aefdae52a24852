"""The tables, views and system tables that SHOW and DESCRIBE tell of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.partitions import PartitionInfo
from headwater.catalog.model.views import ViewInfo
from headwater.catalog.table.table import Table
from headwater.spark.names import quoted
from headwater.spark.source.format_table import is_format_table
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.ddl.partitions import matching_partitions
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.view_columns import SchemaMode, schema_mode
from headwater.spark.types import paimon_schema
from headwater.storage.errors import NotFound, ResourceType
from headwater.storage.snapshot.table_statistics import TableStatistics, read_statistics
from headwater.storage.types.data_type import DataField, from_arrow

__all__ = [
    "Found",
    "one_partition",
    "partition_details",
    "partition_numbers",
    "present_fields",
    "table_or_view",
    "table_statistics",
]

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


def table_statistics(table: Table) -> TableStatistics | None:
    """The statistics that ANALYZE TABLE computed; None where there are none."""
    snapshot = None if is_format_table(table) else table.latest_snapshot()
    return None if snapshot is None else read_statistics(table.storage, snapshot)


def one_partition(
    context: SqlContext, table: Table, partition: Mapping[str, str | None]
) -> PartitionInfo:
    """The partition that a statement names.

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
    (info,) = matching.values()
    return info


def partition_numbers(partition: PartitionInfo) -> dict[str, int]:
    """The numbers that are known of a partition."""
    numbers = {
        "fileCount": partition.file_count,
        "fileSizeInBytes": partition.file_size_in_bytes,
        "lastFileCreationTime": partition.last_file_creation_time,
        "recordCount": partition.record_count,
    }
    return {key: number for key, number in numbers.items() if number >= 0}


def partition_details(partition: PartitionInfo) -> list[tuple[str, str]]:
    """The name and the value of each thing that is shown of a partition."""
    parameters = partition_numbers(partition)
    rows, size, files = (
        str(parameters.get(key, "UNKNOWN"))
        for key in ("recordCount", "fileSizeInBytes", "fileCount")
    )
    return [
        ("Partition Values", f"[{_listed(partition.spec)}]"),
        *([("Partition Parameters", f"{{{_listed(parameters)}}}")] if parameters else []),
        ("Partition Statistics", f"{rows} rows, {size} bytes, {files} files"),
    ]


def _listed(pairs: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in pairs.items())
