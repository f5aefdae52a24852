"""Snapshots that the database knows and storage lost: written again, or given up.

The database has the text of each snapshot's file. While everything that it names is there, storage
gets the file back. What is not there any more is lost: then the table goes back to the latest
snapshot that storage has whole, if the caller accepts that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sqlalchemy import update
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.reconcile import Finding, Step
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import BranchRow, PartitionRow, SnapshotRow
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.history.branch_history import delete_branch_rows
from headwater.catalog.sql.history.references import raise_version
from headwater.catalog.sql.history.snapshots import SqlSnapshots
from headwater.catalog.sql.outbox.mirror_files import put_snapshot
from headwater.catalog.sql.queries.lookup import (
    TableRecord,
    find_snapshot_document,
    find_table,
    lock_branch,
    read_table,
    table_busy,
)
from headwater.catalog.sql.tables.reconcile_mode import Mode
from headwater.storage.maintenance.snapshot_check import first_damage
from headwater.storage.snapshot.files import read_snapshot_file
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import list_tag_files
from headwater.storage.table_storage import TableStorage

__all__ = ["LostSnapshots"]


class LostSnapshots:
    """Deals with the latest snapshots of branches that storage lost.

    Args:
        context: The warehouse, its database and its storage.
        snapshots: Rolls tables back.
    """

    def __init__(self, context: CatalogContext, snapshots: SqlSnapshots) -> None:
        self._context = context
        self._snapshots = snapshots

    def findings(
        self, record: TableRecord, storage: TableStorage, there: Sequence[int], mode: Mode
    ) -> Iterator[Finding]:
        """Write a branch's snapshots up to its latest again, or give them up.

        Args:
            record: The branch, whose latest snapshot has no file.
            storage: Its files.
            there: The snapshots before it that have one, ascending.
            mode: The licence.
        """
        # Where none is left, there are no ids between which one may not be missing.
        first = there[-1] + 1 if there else record.snapshot_id
        for number in range(first, record.snapshot_id + 1):
            document = self._document(record, number)
            loss = f"the catalog does not know snapshot {number}, and storage has lost it"
            if document is not None:
                snapshot = Snapshot.from_json(document, f"snapshot {number}")
                # Before its files are looked at: what deletes them raises the version.
                seen = read_table(self._context, record.identifier)
                damage = first_damage(storage, snapshot)
                if damage is None:
                    write = partial(self._write, seen, number, document)
                    yield mode.tried(record.identifier, f"snapshot {number}", Step.WRITE, write)
                    continue
                loss = f"storage has lost it: {damage}"
            kept = number - 1 if number > first else None
            yield self._given_up(record, storage, loss, number, there, kept, mode)
            return

    def _given_up(
        self,
        record: TableRecord,
        storage: TableStorage,
        loss: str,
        number: int,
        there: Sequence[int],
        written: int | None,
        mode: Mode,
    ) -> Finding:
        last = record.snapshot_id
        what = f"snapshot {number}" if number == last else f"snapshots {number} to {last}"
        target = written or self._last_whole(storage, there)
        if there and target is None:
            refused = f"{loss}; no earlier snapshot is whole either: restore the table's files"
            return Finding(record.identifier, what, Step.GIVE_UP, refused)
        tags = [
            tag.name
            for tag in list_tag_files(self._context.files, record.layout)
            if tag.snapshot.id > (target or 0)
        ]
        if tags:
            refused = (
                f"{loss}; tag '{tags[0]}' holds a snapshot that would be given up, too: roll the "
                "table back to it ('headwater table rollback --tag'), or delete it"
            )
            return Finding(record.identifier, what, Step.GIVE_UP, refused)
        if target is None:
            back = "let the table begin again, without rows,"
            change = partial(self._begin_anew, record)
        else:
            back = f"go back to snapshot {target}"
            change = partial(self._snapshots.rollback_to_snapshot, record.identifier, target, last)
        return mode.given_up(
            record.identifier, what, f"{loss}. Restore its files, or {back}", change
        )

    def _last_whole(self, storage: TableStorage, there: Sequence[int]) -> int | None:
        for number in reversed(there):
            snapshot = read_snapshot_file(storage.files, storage.layout, number)
            if snapshot is not None and first_damage(storage, snapshot) is None:
                return number
        return None

    def _document(self, record: TableRecord, number: int) -> str | None:
        with self._context.database.read() as connection:
            return find_snapshot_document(connection, record.id, record.branch, number)

    def _write(self, seen: TableRecord, number: int, document: str) -> None:
        def work(connection: Connection) -> None:
            self._locked(connection, seen)
            put_snapshot(self._context.files, seen.layout, number, document)
            self._recorded(connection, seen, Step.WRITE, f"snapshot {number}")

        self._context.database.write(work)

    def _begin_anew(self, seen: TableRecord) -> None:
        def work(connection: Connection) -> None:
            self._locked(connection, seen)
            delete_branch_rows(connection, seen.id, seen.branch, (SnapshotRow, PartitionRow))
            connection.execute(
                update(BranchRow)
                .where(BranchRow.table_id == seen.id, BranchRow.branch == seen.branch)
                .values(snapshot_id=0, snapshot_uuid=None, forgotten_snapshot_id=0)
            )
            # They may be left of the snapshots that are gone, and the first commit would heed them.
            for hint in (seen.layout.latest_hint, seen.layout.earliest_hint):
                self._context.files.delete(hint)
            self._recorded(connection, seen, Step.GIVE_UP, "all snapshots")

        self._context.database.write(work)

    def _recorded(self, connection: Connection, record: TableRecord, step: Step, what: str) -> None:
        subject = Subject.table(record.identifier, record.id)
        details = {"step": step.value, "what": what, **of_branch(record.branch)}
        record_event(connection, self._context, EventType.RECONCILE_TABLE, subject, details)

    def _locked(self, connection: Connection, seen: TableRecord) -> None:
        """Lock the branch; raises Conflict when it is not what it was."""
        lock_branch(connection, seen.id, seen.branch)
        record = find_table(connection, self._context, seen.identifier)
        if (record.id, record.snapshot_id, record.snapshot_uuid) != (
            seen.id,
            seen.snapshot_id,
            seen.snapshot_uuid,
        ) or not raise_version(connection, seen):
            raise table_busy(seen.identifier)
