"""The system table of partitions (``PartitionsTable.java``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.storage.index.index_file import DELETION_VECTORS
from headwater.storage.index.manifest import index_entries
from headwater.storage.rows.partition import partition_values
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.system_tables.tables import (
    BIGINT,
    INT,
    STRING,
    TIMESTAMP,
    from_records,
    required,
)
from headwater.storage.system_tables.texts import flat_json, local_times, named_partitions
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.values import StorageValue

__all__ = ["PARTITIONS", "PartitionRecord", "deleted_record_counts", "partitions_table"]

PARTITIONS = pa.schema(
    [
        ("partition", STRING),
        required("record_count", BIGINT),
        required("file_size_in_bytes", BIGINT),
        required("file_count", BIGINT),
        ("last_update_time", TIMESTAMP),
        ("created_at", TIMESTAMP),
        ("created_by", STRING),
        ("updated_by", STRING),
        ("options", STRING),
        required("total_buckets", INT),
        required("done", pa.bool_()),
        ("deleted_record_count", BIGINT),
    ]
)


@dataclass(frozen=True)
class PartitionRecord:
    """A partition as whoever keeps it knows it; times are milliseconds since the epoch."""

    values: tuple[StorageValue, ...]
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    created_at: int | None
    created_by: str | None
    updated_by: str | None
    options: Mapping[str, str] | None
    total_buckets: int
    is_done: bool
    deleted_record_count: int | None = 0


def deleted_record_counts(
    storage: TableStorage, snapshot: Snapshot | None
) -> dict[tuple[StorageValue, ...], int | None]:
    """The rows that deletion vectors delete in each partition that has any.

    Args:
        storage: The table.
        snapshot: The snapshot; None for a table without one.

    Returns:
        By the values of the partition columns; None where a vector's rows are not counted.
    """
    found: dict[tuple[StorageValue, ...], int | None] = {}
    for entry in index_entries(storage, snapshot):
        if entry.index_file.index_type != DELETION_VECTORS:
            continue
        values = partition_values(storage, entry.partition)
        for vector in entry.index_file.vectors or ():
            known = found.get(values, 0)
            one = vector.cardinality
            found[values] = None if known is None or one is None else known + one
    return found


def partitions_table(storage: TableStorage, records: Sequence[PartitionRecord]) -> pa.Table:
    """`PARTITIONS`, by name."""
    zone = storage.runtime.time_zone
    names = named_partitions(storage, [record.values for record in records])
    changed = local_times((record.last_file_creation_time for record in records), zone)
    created = local_times((record.created_at for record in records), zone)
    rows = [
        (
            name,
            record.record_count,
            record.file_size_in_bytes,
            record.file_count,
            last_update_time,
            created_at,
            record.created_by,
            record.updated_by,
            None if record.options is None else flat_json(dict(record.options)),
            record.total_buckets,
            record.is_done,
            record.deleted_record_count,
        )
        for record, name, last_update_time, created_at in zip(
            records, names, changed, created, strict=True
        )
    ]
    return from_records(PARTITIONS, sorted(rows, key=lambda row: str(row[0])))
