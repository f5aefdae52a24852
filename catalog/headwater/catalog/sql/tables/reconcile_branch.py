"""One branch reconciled: its schemas, then its snapshots.

A snapshot that storage has and the database does not know is taken over as if it were committed
now, with the same look at what it is built on. Where both have another snapshot, or schema, under
one number, there are two histories, and neither is chosen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from sqlalchemy import insert, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.reconcile import Finding, Step
from headwater.catalog.sql.admin.column_permissions import follow_columns
from headwater.catalog.sql.admin.policies import refuse_policies_broken_by
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import (
    BranchRow,
    PartitionRow,
    SchemaRow,
    SnapshotRow,
    TableRow,
)
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.history.branch_history import delete_branch_rows
from headwater.catalog.sql.history.manifest_sizes import insert_measured, measure
from headwater.catalog.sql.history.snapshot_reads import settled_table
from headwater.catalog.sql.history.snapshots import SqlSnapshots
from headwater.catalog.sql.history.statistics import read_schema
from headwater.catalog.sql.outbox.mirror_files import numbered_files, put
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.outbox.stale import StorageAhead
from headwater.catalog.sql.queries.audit import updated
from headwater.catalog.sql.queries.lookup import (
    TableRecord,
    find_table,
    lock_branch,
    read_table,
    table_busy,
)
from headwater.catalog.sql.tables.external_schemas import read_schema_file
from headwater.catalog.sql.tables.lineage import (
    builds_on,
    fork_sentence,
    named_snapshot,
    two_histories,
)
from headwater.catalog.sql.tables.lost_snapshots import LostSnapshots
from headwater.catalog.sql.tables.reconcile_mode import Mode
from headwater.catalog.table.display import time_text
from headwater.storage.commit.entries import partition_statistics
from headwater.storage.errors import Conflict, CorruptData, NotFound
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.maintenance.reachable import delta_entries
from headwater.storage.maintenance.snapshot_check import first_damage
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import Fate, TableStorage

__all__ = ["BranchReconciler"]


class BranchReconciler:
    """Reconciles branches of tables.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Makes storage follow what was decided before.
        snapshots: The one door for commits.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox, snapshots: SqlSnapshots) -> None:
        self._context = context
        self._outbox = outbox
        self._snapshots = snapshots
        self._lost = LostSnapshots(context, snapshots)

    def reconcile(self, identifier: Identifier, mode: Mode) -> Iterator[Finding]:
        """Compare a branch with its files; after what is refused, nothing later of it is tried."""
        try:
            yield from self._reconcile(identifier, mode)
        except CorruptData as error:
            yield Finding(identifier, "files", Step.GIVE_UP, error.message)

    def _reconcile(self, identifier: Identifier, mode: Mode) -> Iterator[Finding]:
        record: TableRecord | None = None
        while record is None:
            try:
                record = settled_table(self._context, self._outbox, identifier)
            except Conflict as error:
                seen = read_table(self._context, identifier)
                if not isinstance(error.__cause__, StorageAhead):
                    yield self._stuck(seen)
                    return
                # A decision of a database that was restored: what it asks for was done, and more.
                forget = partial(self._outbox.forget_oldest, seen.id, seen.branch)
                finding = mode.tried(identifier, error.__cause__.what, Step.FORGET, forget)
                yield finding
                if finding.refused is not None:
                    return
                if not mode.apply:
                    record = replace(seen, is_pending=False)
        for finding in self._of_schemas(record, mode):
            yield finding
            if finding.refused is not None:
                return
        if mode.apply:
            record = read_table(self._context, identifier)
        schemas = numbered_files(
            self._context.files.list(record.layout.schema_directory), "schema-"
        )
        yield from self._of_snapshots(record, max([record.schema_id, *schemas]), mode)

    # Snapshots --------------------------------------------------------------------------------

    def _of_snapshots(self, record: TableRecord, schema_id: int, mode: Mode) -> Iterator[Finding]:
        files, layout, head = self._context.files, record.layout, record.snapshot_id
        there = numbered_files(files.list(layout.snapshot_directory), "snapshot-")
        later = [number for number in there if number > head]
        reason = two_histories(self._context, record, there)
        if reason is not None:
            number = later[0] if later else head
            yield Finding(record.identifier, f"snapshot {number}", Step.ADOPT, reason)
            return
        if head and head not in there:
            earlier = [number for number in there if number < head]
            known = self._snapshot_known(record)
            storage = self._storage(record)
            is_whole = first_damage(storage, known) is None
            if later and is_whole:
                # If it went with a rollback, what it names is still there.
                is_whole = builds_on(storage, self._snapshot_file(layout, later[0]), known)
            if not later or is_whole:
                # Where others follow it, it alone is written again.
                before_it = [] if later else earlier
                for finding in self._lost.findings(record, storage, before_it, mode):
                    yield finding
                    if finding.refused is not None:
                        return
                if not later:
                    return
            elif earlier:
                reason = (
                    f"{named_snapshot(known)} is gone from storage, though storage has earlier and "
                    "later ones; restore its file"
                )
                yield Finding(record.identifier, f"snapshot {head}", Step.ADOPT, reason)
                return
            else:
                # It and all before it have expired since the database was backed up.
                yield self._adopted_alone(record, later[-1], mode)
                yield from self._damage(record, later[-1])
                return
        if later and head == 0 and later[0] > 1:
            # The first ones have expired: only the latest can be read, as when one is registered.
            yield self._adopted_alone(record, later[-1], mode)
            yield from self._damage(record, later[-1])
            return
        before = self._snapshot_known(record) if later and head else None
        for number in later:
            finding = self._of_snapshot(record, before, number, schema_id, mode)
            yield finding
            if finding.refused is not None:
                return
            before = self._snapshot_file(layout, number)
        if later or head in there:
            yield from self._damage(record, later[-1] if later else head)

    def _damage(self, record: TableRecord, number: int) -> Iterator[Finding]:
        """The finding about a latest snapshot that cannot be read."""
        try:
            snapshot = self._snapshot_file(record.layout, number)
        except NotFound:
            return  # another one is the latest by now
        damage = first_damage(self._storage(record), snapshot)
        if damage is None or self._has_moved_on(record, number):
            return
        reason = (
            f"{damage}; restore the file, or roll the table back to a snapshot that is whole "
            "('headwater fsck' tells which)"
        )
        yield Finding(record.identifier, f"snapshot {number}", Step.GIVE_UP, reason)

    def _has_moved_on(self, record: TableRecord, number: int) -> bool:
        """True if a commit, or an expiry after it, came while the snapshot was looked at."""
        return read_table(self._context, record.identifier).snapshot_id > number

    def _storage(self, record: TableRecord) -> TableStorage:
        with self._context.database.read() as connection:
            schema = read_schema(connection, record)
        return TableStorage(
            str(record.identifier),
            record.layout,
            self._context.files,
            schema,
            self._context.runtime,
        )

    def _adopted_alone(self, record: TableRecord, number: int, mode: Mode) -> Finding:
        adopt = partial(self._adopt_first, record, number)
        return mode.tried(record.identifier, f"snapshot {number}", Step.ADOPT, adopt)

    # Schemas ----------------------------------------------------------------------------------

    def _of_schemas(self, record: TableRecord, mode: Mode) -> Iterator[Finding]:
        """The schemas that storage lost, then those that the database does not know."""
        directory = record.layout.schema_directory
        there = numbered_files(self._context.files.list(directory), "schema-")
        identifier, latest = record.identifier, record.schema_id
        for schema_id, document in self._schemas_known(record).items():
            if schema_id not in there:
                write = partial(self._write_schema, record, schema_id, document)
                yield mode.tried(identifier, f"schema {schema_id}", Step.WRITE, write)
        for schema_id in (each for each in there if each > record.schema_id):
            refused = self._schema_obstacle(record, schema_id, latest)
            if refused is not None:
                yield Finding(identifier, f"schema {schema_id}", Step.ADOPT, refused)
                return
            adopt = partial(self._adopt_schema, identifier, schema_id)
            yield mode.tried(identifier, f"schema {schema_id}", Step.ADOPT, adopt)
            latest = schema_id
        if latest == record.schema_id and latest in there:
            refused = self._other_schema(record)
            if refused is not None:
                yield Finding(identifier, f"schema {latest}", Step.ADOPT, refused)

    def _schemas_known(self, record: TableRecord) -> dict[int, str]:
        with self._context.database.read() as connection:
            rows = connection.execute(
                select(SchemaRow.schema_id, SchemaRow.document)
                .where(
                    SchemaRow.table_id == record.id,
                    SchemaRow.branch == record.branch,
                    SchemaRow.schema_id <= record.schema_id,
                )
                .order_by(SchemaRow.schema_id)
            )
            return {row.schema_id: row.document for row in rows}

    def _write_schema(self, seen: TableRecord, schema_id: int, document: str) -> None:
        def work(connection: Connection) -> None:
            lock_branch(connection, seen.id, seen.branch)
            record = find_table(connection, self._context, seen.identifier)
            if (record.id, record.schema_id) != (seen.id, seen.schema_id):
                raise table_busy(seen.identifier)
            put(self._context.files, seen.layout.schema(schema_id), document)
            self._recorded(connection, seen, Step.WRITE, f"schema {schema_id}")

        self._context.database.write(work)

    def _schema_obstacle(self, record: TableRecord, schema_id: int, latest: int) -> str | None:
        """The reason not to take a schema over; None when it follows the latest."""
        if schema_id != latest + 1:
            return f"schema {latest + 1} is missing on storage, so this follows nothing"
        if latest != record.schema_id:
            return None
        return self._other_schema(record)

    def _other_schema(self, record: TableRecord) -> str | None:
        """The reason not to go on when storage has another latest schema than the database."""
        latest = record.schema_id
        with self._context.database.read() as connection:
            known = read_schema(connection, record)
        try:
            there = read_schema_file(self._context.files, record.identifier, record.layout, latest)
        except NotFound:
            return None  # it is written again
        if _json(known) == _json(there):
            return None
        return (
            f"there are two histories: schema {latest} on storage, of "
            f"{time_text(there.time_millis)}, is not the catalog's, of "
            f"{time_text(known.time_millis)}; neither is chosen. To keep the catalog's, move "
            f"the files of schema {latest} and later ones away"
        )

    def _adopt_schema(self, identifier: Identifier, schema_id: int) -> None:
        seen = read_table(self._context, identifier)
        found = read_schema_file(self._context.files, identifier, seen.layout, schema_id)

        def work(connection: Connection) -> None:
            lock_branch(connection, seen.id, seen.branch)
            if find_table(connection, self._context, identifier) != seen:
                raise table_busy(identifier)
            if seen.branch == MAIN_BRANCH:
                refuse_policies_broken_by(connection, seen.id, identifier, found)
                before = read_schema(connection, seen)
                follow_columns(connection, self._context, (seen.id, identifier), before, found)
            here = {"table_id": seen.id, "branch": seen.branch}
            document = {"schema_id": found.id, "document": found.to_json()}
            connection.execute(insert(SchemaRow), {**here, **document})
            connection.execute(
                update(BranchRow)
                .where(BranchRow.table_id == seen.id, BranchRow.branch == seen.branch)
                .values(schema_id=found.id)
            )
            now = self._context.runtime.now_millis()
            connection.execute(
                update(TableRow).where(TableRow.id == seen.id).values(**updated(now))
            )
            self._recorded(connection, seen, Step.ADOPT, f"schema {schema_id}")

        self._context.database.write(work)

    def _of_snapshot(
        self,
        record: TableRecord,
        before: Snapshot | None,
        number: int,
        schema_id: int,
        mode: Mode,
    ) -> Finding:
        identifier, what = record.identifier, f"snapshot {number}"
        refused = self._obstacle(record, before, number, schema_id)
        if refused is not None:
            return Finding(identifier, what, Step.ADOPT, refused)
        adopt = partial(self._adopt_snapshot, record, before, number)
        return mode.tried(identifier, what, Step.ADOPT, adopt)

    def _obstacle(
        self, record: TableRecord, before: Snapshot | None, number: int, schema_id: int
    ) -> str | None:
        """The reason not to take a snapshot over; None when it follows the one before."""
        last = record.snapshot_id if before is None else before.id
        if number != last + 1:
            return (
                f"snapshot {last + 1} is missing on storage, so it is not known what this follows"
            )
        snapshot = self._snapshot_file(record.layout, number)
        if snapshot.schema_id > schema_id:
            return f"{named_snapshot(snapshot)} needs schema {snapshot.schema_id}, which is missing"
        return None

    def _adopt_snapshot(self, record: TableRecord, before: Snapshot | None, number: int) -> None:
        snapshot = self._snapshot_file(record.layout, number)
        storage = self._storage(read_table(self._context, record.identifier))
        entries = delta_entries(storage, snapshot.delta_manifest_list)
        if entries is None:
            raise CorruptData(
                f"a manifest of {named_snapshot(snapshot)} is gone, so its rows cannot be counted"
            )
        answer = self._snapshots.commit(
            record.identifier,
            record.id,
            snapshot,
            None if before is None else before.uuid,
            partition_statistics(storage, entries),
        )
        if answer.fate is Fate.REFUSED:
            raise table_busy(record.identifier)
        answer.decided()

    def _adopt_first(self, seen: TableRecord, number: int) -> None:
        """Take over the latest snapshot of a branch of whose others nothing is on storage."""
        snapshot = self._snapshot_file(seen.layout, number)
        measured = measure(self._context, seen, snapshot)

        def work(connection: Connection) -> None:
            lock_branch(connection, seen.id, seen.branch)
            record = find_table(connection, self._context, seen.identifier)
            if record != seen:
                raise table_busy(seen.identifier)
            delete_branch_rows(connection, record.id, record.branch, (PartitionRow,))
            insert_measured(connection, self._context, record, snapshot, measured)
            connection.execute(
                update(BranchRow)
                .where(BranchRow.table_id == record.id, BranchRow.branch == record.branch)
                .values(
                    snapshot_id=snapshot.id,
                    snapshot_uuid=snapshot.uuid,
                    forgotten_snapshot_id=snapshot.id - 1,
                )
            )
            self._recorded(connection, seen, Step.ADOPT, f"snapshot {number}")

        self._context.database.write(work)

    def _recorded(self, connection: Connection, record: TableRecord, step: Step, what: str) -> None:
        subject = Subject.table(record.identifier, record.id)
        details = {"step": step.value, "what": what, **of_branch(record.branch)}
        record_event(connection, self._context, EventType.RECONCILE_TABLE, subject, details)

    def _stuck(self, record: TableRecord) -> Finding:
        """The snapshot, or the schema, that was decided on where something else is on storage."""
        number = self._outbox.stuck_snapshot(record.id, record.branch)
        if number is None:
            return Finding(
                record.identifier,
                f"schema {record.schema_id}",
                Step.WRITE,
                "storage has another one; move its file away, and the catalog writes its own",
            )
        decided = self._snapshot_known(replace(record, snapshot_id=number))
        there = self._snapshot_file(record.layout, number)
        reason = fork_sentence(decided, there, number)
        return Finding(record.identifier, f"snapshot {number}", Step.WRITE, reason)

    def _snapshot_known(self, record: TableRecord) -> Snapshot:
        """The branch's latest snapshot, as the catalog has it."""
        with self._context.database.read() as connection:
            document = connection.execute(
                select(SnapshotRow.document).where(
                    SnapshotRow.table_id == record.id,
                    SnapshotRow.branch == record.branch,
                    SnapshotRow.snapshot_id == record.snapshot_id,
                )
            ).scalar_one()
        return Snapshot.from_json(document, f"snapshot {record.snapshot_id} of {record.identifier}")

    def _snapshot_file(self, layout: TableLayout, number: int) -> Snapshot:
        path = layout.snapshot(number)
        return Snapshot.from_json(self._context.files.read(path), path)


def _json(schema: TableSchema) -> object:
    found: object = json.loads(schema.to_json())
    return found
