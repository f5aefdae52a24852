"""Schema rollback: an earlier version of a schema becomes the latest, if no later one is in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import delete, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql.admin.column_permissions import follow_columns
from headwater.catalog.sql.admin.policies import refuse_policies_broken_by
from headwater.catalog.sql.database.models import BranchRow, SchemaRow, TableRow
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.history.references import (
    MAX_ATTEMPTS,
    raise_version,
    reference_table,
)
from headwater.catalog.sql.history.snapshot_reads import SnapshotReads
from headwater.catalog.sql.history.statistics import read_schema
from headwater.catalog.sql.outbox.action import Action
from headwater.catalog.sql.outbox.held_files import held_files
from headwater.catalog.sql.outbox.stale import marks_of_files
from headwater.catalog.sql.queries.audit import updated
from headwater.catalog.sql.queries.lookup import TableRecord, find_table, lock_branch, table_busy
from headwater.storage.errors import Conflict, Invalid
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.snapshot.changelog import changelog_file_ids, read_changelog_file
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import list_tag_files

__all__ = ["SchemaRollbacks"]


class SchemaRollbacks(SnapshotReads):
    """Ways back to earlier schemas (``SchemaManager.java``); arguments as for `SnapshotReads`."""

    def rollback_schema(self, identifier: Identifier, schema_id: int) -> None:
        """Make an earlier schema the latest; Invalid, Conflict."""
        for _ in range(MAX_ATTEMPTS):
            record = reference_table(self._context, self._outbox, identifier)
            self._refuse_used(record, schema_id)
            if self._context.database.write(partial(self._decide, seen=record, target=schema_id)):
                done = f"table {identifier} is rolled back to schema {schema_id}"
                self._outbox.finish(record.id, record.branch, done)
                return
        raise table_busy(identifier)

    def _refuse_used(self, record: TableRecord, schema_id: int) -> None:
        used = {snapshot.schema_id for snapshot in self._referring(record)}
        later = sorted(number for number in used if number > schema_id)
        if later:
            # Paimon's own words, which its clients' tests look for.
            raise Conflict(
                f"Cannot rollback to schema {schema_id} of table {record.identifier}, schema "
                f"{later[0]} is still referenced by snapshots/tags/changelogs; roll the table back "
                "or let them expire first"
            )

    def _referring(self, record: TableRecord) -> Sequence[Snapshot]:
        files, layout = self._context.files, record.layout
        referring = list(self.list(record.identifier).items)
        # Those that go meanwhile refer to schemas that stay for no reason, which does no harm.
        referring += [tag.snapshot for tag in list_tag_files(files, layout)]
        for number in changelog_file_ids(files, layout):
            changelog = read_changelog_file(files, layout, number)
            if changelog is not None:
                referring.append(changelog)
        return referring

    def _decide(self, connection: Connection, seen: TableRecord, target: int) -> bool:
        """False when the table changed since it was looked at."""
        lock_branch(connection, seen.id, seen.branch)
        record = find_table(connection, self._context, seen.identifier)
        if record != seen or not raise_version(connection, seen):
            return False
        here = (SchemaRow.table_id == record.id, SchemaRow.branch == record.branch)
        known = connection.execute(
            select(SchemaRow.schema_id).where(*here, SchemaRow.schema_id == target)
        ).one_or_none()
        if known is None:
            raise Invalid(
                f"table {record.identifier} has no schema {target}; its latest is "
                f"{record.schema_id}"
            )
        if target == record.schema_id:
            return True
        if record.branch == MAIN_BRANCH:
            schema = read_schema(connection, replace(record, schema_id=target))
            refuse_policies_broken_by(connection, record.id, record.identifier, schema)
            before, table = read_schema(connection, record), (record.id, record.identifier)
            follow_columns(connection, self._context, table, before, schema)
        connection.execute(delete(SchemaRow).where(*here, SchemaRow.schema_id > target))
        connection.execute(
            update(BranchRow)
            .where(BranchRow.table_id == record.id, BranchRow.branch == record.branch)
            .values(schema_id=target)
        )
        now = self._context.runtime.now_millis()
        connection.execute(update(TableRow).where(TableRow.id == record.id).values(**updated(now)))
        self._outbox.add(
            connection,
            Action.SCHEMA_ROLLBACK,
            record.id,
            record.branch,
            number=target,
            document=marks_of_files(
                held_files(connection, self._context.files),
                record.layout.schema_directory,
                "schema-",
                target,
            ),
        )
        subject = Subject.table(record.identifier, record.id)
        details = {"schema": target, **of_branch(record.branch)}
        record_event(connection, self._context, EventType.ROLLBACK_SCHEMA, subject, details)
        return True
