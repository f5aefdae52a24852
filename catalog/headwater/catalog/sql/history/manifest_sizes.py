"""Sizes read from a snapshot's own manifests, for one whose sizes the database does not know."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from sqlalchemy import insert, select
from sqlalchemy.engine import Connection

from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import SnapshotRow
from headwater.catalog.sql.history.branch_history import forgotten_up_to
from headwater.catalog.sql.history.statistics import (
    Sizes,
    apply_statistics,
    read_schema,
    snapshot_row,
)
from headwater.catalog.sql.queries.lookup import TableRecord, read_table
from headwater.storage.commit.entries import partition_statistics
from headwater.storage.errors import Conflict, CorruptData
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics, TableStorage

__all__ = ["Recorded", "insert_measured", "measure", "recorded"]


class Recorded(Enum):
    """The kinds of row that the database may have under a snapshot's number.

    After `THE_SAME_BEFORE_GAPS` rows of later snapshots may be missing: what they changed cannot be
    added up.
    """

    NOTHING = auto()
    THE_SAME = auto()
    THE_SAME_BEFORE_GAPS = auto()
    ANOTHER = auto()


def recorded(connection: Connection, record: TableRecord, snapshot: Snapshot) -> Recorded:
    """Look for this very snapshot, and so its sizes, in the database."""
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
        return Recorded.NOTHING
    # A tag that another engine made is the same snapshot in other words.
    is_same = tuple(row) == (
        snapshot.uuid,
        snapshot.commit_user,
        snapshot.commit_identifier,
        snapshot.commit_kind.value,
    )
    if not is_same:
        return Recorded.ANOTHER
    forgotten = forgotten_up_to(connection, record.id, record.branch)
    return Recorded.THE_SAME if snapshot.id > forgotten else Recorded.THE_SAME_BEFORE_GAPS


def measure(
    context: CatalogContext, record: TableRecord, snapshot: Snapshot
) -> Sequence[PartitionStatistics]:
    """The sizes of each partition of a snapshot, by its manifests, all of which are read.

    Raises:
        Conflict: The table was changed since `record` was read, and the snapshot may have gone.
        CorruptData: A manifest is missing or malformed: the snapshot cannot be read.
    """
    with context.database.read() as connection:
        schema = read_schema(connection, record)
    storage = TableStorage(
        str(record.identifier), record.layout, context.files, schema, context.runtime
    )
    try:
        return partition_statistics(storage, live_entries(storage, snapshot))
    except CorruptData as error:
        now = read_table(context, record.identifier)
        if (now.id, now.snapshot_id, now.snapshot_uuid) == (
            record.id,
            record.snapshot_id,
            record.snapshot_uuid,
        ):
            raise
        raise Conflict(
            f"table {record.identifier} was changed meanwhile; look, then retry"
        ) from error


def insert_measured(
    connection: Connection,
    context: CatalogContext,
    record: TableRecord,
    snapshot: Snapshot,
    measured: Sequence[PartitionStatistics],
) -> None:
    """Insert a measured snapshot's row and partitions; the branch must have neither."""
    # What it changed is not known; nothing earlier can be rolled back to by statistics.
    row = snapshot_row(record, snapshot, Sizes().plus(measured), [])
    connection.execute(insert(SnapshotRow), row)
    apply_statistics(connection, context, record, measured)
