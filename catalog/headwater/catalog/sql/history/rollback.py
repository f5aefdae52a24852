"""Rollback: an earlier snapshot becomes the latest, and what came after it goes away."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql.database.models import BranchRow, PartitionRow, SnapshotRow
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.history.branch_history import delete_branch_rows
from headwater.catalog.sql.history.manifest_sizes import (
    Recorded,
    insert_measured,
    measure,
    recorded,
)
from headwater.catalog.sql.history.references import (
    MAX_ATTEMPTS,
    raise_version,
    reference_table,
)
from headwater.catalog.sql.history.snapshot_reads import SnapshotReads, snapshot_not_found
from headwater.catalog.sql.history.statistics import apply_statistics
from headwater.catalog.sql.outbox.action import Action
from headwater.catalog.sql.outbox.stale import marks
from headwater.catalog.sql.queries.lookup import TableRecord, find_table, lock_branch, table_busy
from headwater.storage.errors import Conflict, NotFound, ResourceType
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import read_tag_file
from headwater.storage.table_storage import PartitionStatistics
from headwater.storage.types.data_type import Json

__all__ = ["Rollbacks", "reversed_statistics"]


class Rollbacks(SnapshotReads):
    """Ways back in the history of tables; arguments as for `SnapshotReads`."""

    def rollback_to_snapshot(
        self, identifier: Identifier, snapshot_id: int, from_snapshot: int | None = None
    ) -> None:
        """Make an earlier snapshot the latest; NotFound (SNAPSHOT), Conflict."""

        def target_of(record: TableRecord) -> Snapshot:
            target = self.kept(record, snapshot_id)
            if target is None:
                raise snapshot_not_found(identifier, str(snapshot_id))
            return target

        self._roll_back(identifier, target_of, from_snapshot)

    def rollback_to_tag(
        self, identifier: Identifier, tag: str, from_snapshot: int | None = None
    ) -> None:
        """Make a tag's snapshot the latest, even an expired one; NotFound (TAG), Conflict."""

        def target_of(record: TableRecord) -> Snapshot:
            existing = None
            if tag and "/" not in tag:
                existing = read_tag_file(self._context.files, record.layout, tag)
            if existing is None or not 0 < existing.snapshot.id <= record.snapshot_id:
                raise NotFound(
                    f"table {identifier} has no tag '{tag}' on a snapshot of its history",
                    resource_type=ResourceType.TAG,
                    resource_name=tag,
                )
            return existing.snapshot

        self._roll_back(identifier, target_of, from_snapshot)

    def _roll_back(
        self,
        identifier: Identifier,
        target_of: Callable[[TableRecord], Snapshot],
        from_snapshot: int | None,
    ) -> None:
        expected = from_snapshot
        for _ in range(MAX_ATTEMPTS):
            seen = reference_table(self._context, self._outbox, identifier)
            expected = seen.snapshot_id if expected is None else expected
            target = target_of(seen)
            _expect(seen, expected)
            if self._decide_rollback(seen, target, expected):
                done = f"table {identifier} is rolled back"
                self._outbox.finish(seen.id, seen.branch, done)
                return
        raise table_busy(identifier)

    def _decide_rollback(self, seen: TableRecord, target: Snapshot, expected: int) -> bool:
        """Decide a rollback; False if references changed since they were read."""
        with self._context.database.read() as connection:
            is_known = _is_in_history(connection, seen, target)
        measured = None if is_known else measure(self._context, seen, target)

        def work(connection: Connection) -> bool:
            lock_branch(connection, seen.id, seen.branch)
            record = find_table(connection, self._context, seen.identifier)
            if record.id != seen.id:
                raise Conflict(f"another table is now named {seen.identifier}; look, then retry")
            _expect(record, expected)
            if record.is_pending or not raise_version(connection, seen):
                return False
            self._take_back(connection, record, target, measured)
            return True

        return self._context.database.write(work)

    def _take_back(
        self,
        connection: Connection,
        record: TableRecord,
        target: Snapshot,
        measured: Sequence[PartitionStatistics] | None,
    ) -> None:
        here = (SnapshotRow.table_id == record.id, SnapshotRow.branch == record.branch)
        later = connection.execute(
            select(SnapshotRow.snapshot_id, SnapshotRow.document).where(
                *here, SnapshotRow.snapshot_id > target.id
            )
        )
        removed = marks((number, document) for number, document in later)
        is_known = _is_in_history(connection, record, target)
        if not is_known and measured is None:
            raise Conflict(f"table {record.identifier} was changed meanwhile; look, then retry")
        if is_known:
            changes = reversed_statistics(connection, record, target.id)
            apply_statistics(connection, self._context, record, changes)
        connection.execute(delete(SnapshotRow).where(*here, SnapshotRow.snapshot_id > target.id))
        if not is_known and measured is not None:
            connection.execute(
                delete(SnapshotRow).where(*here, SnapshotRow.snapshot_id == target.id)
            )
            delete_branch_rows(connection, record.id, record.branch, (PartitionRow,))
            insert_measured(connection, self._context, record, target, measured)
        connection.execute(
            update(BranchRow)
            .where(BranchRow.table_id == record.id, BranchRow.branch == record.branch)
            .values(snapshot_id=target.id, snapshot_uuid=target.uuid)
        )
        self._outbox.add(
            connection,
            Action.ROLLBACK,
            record.id,
            record.branch,
            number=target.id,
            document=removed,
        )
        subject = Subject.table(record.identifier, record.id)
        details = {"snapshot": target.id, **of_branch(record.branch)}
        record_event(connection, self._context, EventType.ROLLBACK_TABLE, subject, details)


def _is_in_history(connection: Connection, record: TableRecord, target: Snapshot) -> bool:
    """False for one before those that the database knows all; Conflict for another's number."""
    known = recorded(connection, record, target)
    if known is Recorded.ANOTHER:
        raise Conflict(
            f"table {record.identifier}: snapshot {target.id} is not the one that was asked "
            "for: that one was rolled back before",
            resource_type=ResourceType.SNAPSHOT,
            resource_name=str(target.id),
        )
    return known is Recorded.THE_SAME


def _expect(record: TableRecord, snapshot_id: int) -> None:
    if record.snapshot_id != snapshot_id:
        # pypaimon looks for these first words.
        raise Conflict(
            f"Latest snapshot {record.snapshot_id} is not {snapshot_id}: others changed table "
            f"{record.identifier}; nothing was rolled back",
            resource_type=ResourceType.SNAPSHOT,
            resource_name=str(record.snapshot_id),
        )


def reversed_statistics(
    connection: Connection, record: TableRecord, after: int
) -> list[PartitionStatistics]:
    """Statistics that take back the changes of all snapshots after one."""
    later = connection.execute(
        select(SnapshotRow.statistics).where(
            SnapshotRow.table_id == record.id,
            SnapshotRow.branch == record.branch,
            SnapshotRow.snapshot_id > after,
        )
    ).scalars()
    return [_reverse(item) for text in later for item in json.loads(text)]


def _reverse(document: dict[str, Json]) -> PartitionStatistics:
    def number(name: str) -> int:
        value = document[name]
        assert isinstance(value, int)
        return value

    spec = document["spec"]
    assert isinstance(spec, dict)
    return PartitionStatistics(
        spec={key: str(value) for key, value in spec.items()},
        record_count=-number("recordCount"),
        file_size_in_bytes=-number("fileSizeInBytes"),
        file_count=-number("fileCount"),
        last_file_creation_time=0,
        total_buckets=number("totalBuckets"),
    )
