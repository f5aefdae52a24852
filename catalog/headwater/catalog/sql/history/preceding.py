"""The state of a branch before a snapshot is added to it: sizes, totals, uuids in use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from sqlalchemy import bindparam, case, or_, select
from sqlalchemy.engine import Connection
from sqlalchemy.orm import aliased

from headwater.catalog.sql.database.models import SnapshotRow
from headwater.catalog.sql.database.prepared import Prepared, keyed, numbered, padded
from headwater.catalog.sql.history.statistics import Sizes
from headwater.catalog.sql.history.stream_counts import COUNT_COLUMNS, StreamCounts
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["Preceding", "preceding"]


@dataclass(frozen=True)
class Preceding:
    """The state of a branch before a snapshot is added.

    Attributes:
        sizes: The branch's sizes.
        counts: Its running totals; None where nobody counted.
        with_uuid: The number of the snapshot that has the new one's uuid; None if none has it.
    """

    sizes: Sizes = field(default_factory=Sizes)
    counts: StreamCounts | None = None
    with_uuid: int | None = None


def preceding(
    connection: Connection, added: Sequence[tuple[str, str, Snapshot]]
) -> Mapping[str, Preceding]:
    """The state of branches, by their tables' ids, before a snapshot is added to each.

    Args:
        connection: In the transaction that holds the branches' locks.
        added: The id of each table, all different, the branch, and the snapshot, whose number is
            one more than that of the branch's latest.
    """
    found: dict[str, Preceding] = defaultdict(Preceding)
    if not added:
        return found
    names: Sequence[Mapping[str, str | int | None]] = [
        {"table": table_id, "branch": branch, "number": snapshot.id - 1, "uuid": snapshot.uuid}
        for table_id, branch, snapshot in padded(added)
    ]
    rows = _snapshots(len(names)).run(connection, **numbered(names))
    for table_id, with_uuid, records, size, files, newest, *counts in rows:
        sizes = Sizes(records, size, files, newest)
        found[table_id] = Preceding(sizes, StreamCounts.of(*counts), with_uuid)
    return found


@cache
def _snapshots(count: int) -> Prepared:
    """The sizes as of snapshots of different tables, and a snapshot that has a certain uuid."""
    snapshots = keyed(
        count,
        table=SnapshotRow.table_id,
        branch=SnapshotRow.branch,
        number=SnapshotRow.snapshot_id,
    )
    uuid = case(*((one, bindparam(f"uuid_{at}")) for at, one in enumerate(snapshots)))
    same = aliased(SnapshotRow)
    # Not the greatest number: for that SQLite would walk the history from its end, not the index.
    with_uuid = (
        select(same.snapshot_id)
        .where(
            same.table_id == SnapshotRow.table_id,
            same.branch == SnapshotRow.branch,
            same.uuid == uuid,
        )
        .limit(1)
    )
    return Prepared(
        select(
            SnapshotRow.table_id,
            with_uuid.scalar_subquery(),
            SnapshotRow.record_count,
            SnapshotRow.file_size_in_bytes,
            SnapshotRow.file_count,
            SnapshotRow.last_file_creation_time,
            *COUNT_COLUMNS,
        ).where(or_(*snapshots))
    )
