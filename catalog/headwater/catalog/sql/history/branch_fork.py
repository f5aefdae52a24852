"""The beginning of a branch: a snapshot, and what the database knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import true
from sqlalchemy.engine import Connection

from headwater.catalog.model.branches import branch_of
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import PartitionRow, SnapshotRow
from headwater.catalog.sql.history.branch_history import copy_rows
from headwater.catalog.sql.history.manifest_sizes import (
    Recorded,
    insert_measured,
    measure,
    recorded,
)
from headwater.catalog.sql.history.rollback import reversed_statistics
from headwater.catalog.sql.history.snapshot_reads import SnapshotReads, snapshot_not_found
from headwater.catalog.sql.history.statistics import apply_statistics
from headwater.catalog.sql.queries.lookup import TableRecord
from headwater.storage.errors import NotFound, ResourceType
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import read_tag_file
from headwater.storage.table_storage import PartitionStatistics

__all__ = ["Fork", "copy_fork", "find_fork"]


@dataclass(frozen=True)
class Fork:
    """The beginning of a new branch.

    Attributes:
        snapshot: The snapshot.
        tag_path: The file of the tag that names it; empty for none.
        measured: The statistics of its partitions, when the database does not have them.
    """

    snapshot: Snapshot
    tag_path: str
    measured: Sequence[PartitionStatistics] | None


def find_fork(
    context: CatalogContext,
    snapshots: SnapshotReads,
    record: TableRecord,
    tag: str | None,
    number: int | None,
) -> Fork | None:
    """The beginning of a branch with a tag or a snapshot; None for one without rows.

    Args:
        context: The warehouse, its database and its storage.
        snapshots: Says which snapshots exist.
        record: The table, or the branch, that it begins from.
        tag: The tag's name.
        number: The snapshot's id, where no tag is given.

    Raises:
        NotFound: There is no such tag (TAG) or snapshot (SNAPSHOT).
    """
    path = ""
    if tag is not None:
        tag_file = None
        if tag and "/" not in tag:
            tag_file = read_tag_file(context.files, record.layout, tag)
        if tag_file is None or not 0 < tag_file.snapshot.id <= record.snapshot_id:
            raise NotFound(
                f"table {record.identifier} has no tag '{tag}' on a snapshot of its history",
                resource_type=ResourceType.TAG,
                resource_name=tag,
            )
        snapshot, path = tag_file.snapshot, record.layout.tag(tag)
    elif number is not None:
        existing = snapshots.kept(record, number)
        if existing is None:
            raise snapshot_not_found(record.identifier, str(number))
        snapshot = existing
    else:
        return None
    with context.database.read() as connection:
        known = recorded(connection, record, snapshot)
    if known is Recorded.THE_SAME:
        return Fork(snapshot, path, None)
    return Fork(snapshot, path, measure(context, record, snapshot))


def copy_fork(
    connection: Connection, context: CatalogContext, record: TableRecord, branch: str, fork: Fork
) -> bool:
    """Give a branch the row of the snapshot it begins with, and what its partitions hold.

    Returns:
        False if the database no longer knows the snapshot as it did when the fork was found.
    """
    snapshot = fork.snapshot
    there = replace(
        record,
        identifier=branch_of(record.identifier, branch),
        branch=branch,
        schema_id=snapshot.schema_id,
        snapshot_id=snapshot.id,
    )
    if fork.measured is not None:
        insert_measured(connection, context, there, snapshot, fork.measured)
        return True
    if recorded(connection, record, snapshot) is not Recorded.THE_SAME:
        return False
    copy_rows(
        connection, SnapshotRow, record.id, record.branch, branch,
        SnapshotRow.snapshot_id == snapshot.id,
    )  # fmt: skip
    copy_rows(connection, PartitionRow, record.id, record.branch, branch, true())
    later = reversed_statistics(connection, record, snapshot.id)
    apply_statistics(connection, context, there, later)
    return True
