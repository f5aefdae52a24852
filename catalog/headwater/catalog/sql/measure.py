"""Sizes read from a snapshot's own manifests, for one whose sizes the database does not know."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import insert, select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.context import CatalogContext
from headwater.catalog.sql.lookup import TableRecord
from headwater.catalog.sql.models import SnapshotRow
from headwater.catalog.sql.statistics import Sizes, apply_statistics, read_schema
from headwater.storage.commit_entries import partition_statistics
from headwater.storage.scan import live_entries
from headwater.storage.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics, TableStorage

__all__ = ["insert_measured", "knows_snapshot", "measure_unknown"]


def knows_snapshot(connection: Connection, record: TableRecord, snapshot: Snapshot) -> bool:
    """Whether the database has this very snapshot, and so its sizes."""
    row = connection.execute(
        select(
            SnapshotRow.uuid,
            SnapshotRow.commit_user,
            SnapshotRow.commit_identifier,
            SnapshotRow.commit_kind,
        ).where(
            SnapshotRow.table_id == record.id,
            SnapshotRow.branch == record.branch,
            SnapshotRow.snapshot_id == snapshot.id,
        )
    ).one_or_none()
    if row is None:
        return False
    # A tag that another engine made is the same snapshot in other words.
    return tuple(row) == (
        snapshot.uuid,
        snapshot.commit_user,
        snapshot.commit_identifier,
        snapshot.commit_kind.value,
    )


def measure_unknown(
    context: CatalogContext, record: TableRecord, snapshot: Snapshot
) -> Sequence[PartitionStatistics] | None:
    """What each partition of a snapshot holds, by its manifests; None if the database knows it.

    It reads all of the snapshot's manifests.

    Raises:
        CorruptData: A manifest is missing or malformed: the snapshot cannot be read.
    """
    with context.database.read() as connection:
        if knows_snapshot(connection, record, snapshot):
            return None
        schema = read_schema(connection, record)
    storage = TableStorage(
        str(record.identifier), record.layout, context.files, schema, context.runtime
    )
    return partition_statistics(storage, live_entries(storage, snapshot))


def insert_measured(
    connection: Connection,
    context: CatalogContext,
    record: TableRecord,
    snapshot: Snapshot,
    measured: Sequence[PartitionStatistics],
) -> None:
    """Insert a measured snapshot's row and partitions; the branch must have neither."""
    sizes = Sizes().plus(measured)
    row = {
        "table_id": record.id,
        "branch": record.branch,
        "snapshot_id": snapshot.id,
        "uuid": snapshot.uuid,
        "document": snapshot.to_json(),
        "commit_user": snapshot.commit_user,
        "commit_identifier": snapshot.commit_identifier,
        "commit_kind": snapshot.commit_kind.value,
        "record_count": sizes.record_count,
        "file_size_in_bytes": sizes.file_size_in_bytes,
        "file_count": sizes.file_count,
        "last_file_creation_time": sizes.last_file_creation_time,
        # What it changed is not known; nothing earlier can be rolled back to by statistics.
        "statistics": "[]",
    }
    connection.execute(insert(SnapshotRow), row)
    apply_statistics(connection, context, record, measured)
