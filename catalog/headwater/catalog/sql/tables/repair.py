"""Repair: the catalog takes over what other writers left on storage without asking it.

What there is on storage is compared with what the database says, table by table, in the order in
which one thing needs another: branches, then their schemas, then their snapshots. A snapshot is
taken over as if it were committed now, with the same look at what it is built on, so that a crash
or a commit in between leaves a history that a repair goes on with. Nothing on storage is changed.

Where storage has another snapshot or schema than the database under one number, there are two
histories, and neither is chosen. Source: ``RepairAction.java``, whose catalogs take storage's word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from sqlalchemy import insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.branches import branch_of, check_branch_name
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import all_pages
from headwater.catalog.model.repair import Adoption, RepairFinding
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.sql.admin.policies import refuse_policies_broken_by
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import BranchRow, SchemaRow, SnapshotRow, TableRow
from headwater.catalog.sql.history.manifest_sizes import insert_measured, measure
from headwater.catalog.sql.history.snapshot_reads import settled_table
from headwater.catalog.sql.history.snapshots import SqlSnapshots
from headwater.catalog.sql.history.statistics import read_schema
from headwater.catalog.sql.outbox.mirror_files import numbered_files
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.audit import updated
from headwater.catalog.sql.queries.claimed_places import find_overlap
from headwater.catalog.sql.queries.lookup import (
    TableRecord,
    find_table,
    lock_branch,
    read_table,
    table_busy,
    table_not_found,
)
from headwater.catalog.sql.tables.databases import SqlDatabases
from headwater.catalog.sql.tables.external_schemas import read_schema_file
from headwater.catalog.sql.tables.places import find_database, table_claim
from headwater.catalog.sql.tables.register import insert_branch, read_branch
from headwater.catalog.sql.tables.tables import SqlTables
from headwater.catalog.table.display import time_text
from headwater.storage.commit.entries import partition_statistics
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    CorruptData,
    Forbidden,
    Invalid,
    NotFound,
    Unsupported,
)
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.maintenance.reachable import branch_names, delta_entries
from headwater.storage.schema.table_type import table_type
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import Fate, TableStorage

__all__ = ["SqlRepair"]

_DATABASE_SUFFIX = ".db"
_REFUSALS = (AlreadyExists, Conflict, CorruptData, Forbidden, Invalid, NotFound, Unsupported)


class SqlRepair:
    """Implements `headwater.catalog.model.repair.Repair`.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Makes storage follow what was decided before.
        databases: The databases.
        tables: The tables, which registers those that are found.
        snapshots: The one door for commits.
    """

    def __init__(
        self,
        context: CatalogContext,
        outbox: Outbox,
        databases: SqlDatabases,
        tables: SqlTables,
        snapshots: SqlSnapshots,
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._databases = databases
        self._tables = tables
        self._snapshots = snapshots

    def adopt(
        self, database: str | None = None, table: str | None = None, *, dry_run: bool = False
    ) -> Adoption:
        """Take over tables, branches, schemas and snapshots that the catalog does not know."""
        found: list[RepairFinding] = []
        if database is None:
            found += self._new_databases(dry_run)
            names = all_pages(lambda token: self._databases.list(page_token=token))
        else:
            names = [database]
        for name in names:
            found += self._of_database(name, table, dry_run)
        return Adoption(
            tuple(each for each in found if each.refused is None),
            tuple(each for each in found if each.refused is not None),
        )

    # Databases and tables ---------------------------------------------------------------------

    def _new_databases(self, dry_run: bool) -> Iterator[RepairFinding]:
        """Directories of the warehouse that are named as databases are, with tables in them."""
        home = self._context.location
        known = set(all_pages(lambda token: self._databases.list(page_token=token)))
        for folder in self._context.files.folders(home):
            name = folder.removesuffix(_DATABASE_SUFFIX)
            if name == folder or name in known or not self._tables_in(f"{home}/{folder}"):
                continue
            create = partial(self._databases.create, name, None)
            yield self._tried(Identifier(name, "*"), "database", dry_run, create)
            if dry_run:
                for each in self._tables_in(f"{home}/{folder}"):
                    yield RepairFinding(Identifier(name, each), "table")

    def _of_database(
        self, database: str, table: str | None, dry_run: bool
    ) -> Iterator[RepairFinding]:
        with self._context.database.read() as connection:
            _, home = find_database(connection, self._context, database)
        known: dict[str, TableInfo] = {}
        if table is not None:
            with suppress(NotFound):
                known[table] = self._tables.get(Identifier(database, table))
        else:
            infos = all_pages(lambda token: self._tables.list_details(database, page_token=token))
            known = {info.identifier.table: info for info in infos}
        for info in known.values():
            if not info.is_external and table_type(info.schema.options).has_snapshots:
                yield from self._of_table(info.identifier, dry_run)
        new = [table] if table is not None else self._context.files.folders(home)
        unknown = [name for name in new if self._is_new_table(f"{home}/{name}")]
        if table is not None and not known and not unknown:
            raise table_not_found(Identifier(database, table))
        for name in unknown:
            identifier, path = Identifier(database, name), f"{home}/{name}"
            register = partial(self._tables.register, identifier, path)
            yield self._tried(identifier, "table", dry_run, register)

    def _tables_in(self, home: str) -> list[str]:
        folders = self._context.files.folders(home)
        return [name for name in folders if self._is_new_table(f"{home}/{name}")]

    def _is_new_table(self, path: str) -> bool:
        """True for a table's directory that the catalog knows nothing of, not even dropped."""
        schemas = self._context.files.list(TableLayout(path).schema_directory)
        if not numbered_files(schemas, "schema-"):
            return False
        claim = table_claim(self._context, "", path, is_external=False)
        with self._context.database.read() as connection:
            return find_overlap(connection, claim) is None

    def _tried(
        self,
        identifier: Identifier,
        what: str,
        dry_run: bool,
        adopt: Callable[[], object],
    ) -> RepairFinding:
        """Take one thing over; what the catalog refuses is not taken over, and others may be."""
        if not dry_run:
            try:
                adopt()
            except _REFUSALS as error:
                return RepairFinding(identifier, what, error.message)
        return RepairFinding(identifier, what)

    # One table --------------------------------------------------------------------------------

    def _of_table(self, identifier: Identifier, dry_run: bool) -> Iterator[RepairFinding]:
        yield from self._of_branch(identifier, dry_run)
        main = read_table(self._context, identifier)
        with self._context.database.read() as connection:
            known = set(
                connection.execute(
                    select(BranchRow.branch).where(BranchRow.table_id == main.id)
                ).scalars()
            )
        for branch in sorted(known - {MAIN_BRANCH}):
            yield from self._of_branch(branch_of(identifier, branch), dry_run)
        for branch in sorted(branch_names(self._context.files, main.path) - known):
            layout = TableLayout(main.path, branch)
            if not numbered_files(self._context.files.list(layout.schema_directory), "schema-"):
                continue  # what is left of one that was dropped
            yield self._tried(
                identifier,
                f"branch {branch}",
                dry_run,
                partial(self._adopt_branch, main, branch),
            )

    def _adopt_branch(self, main: TableRecord, branch: str) -> None:
        check_branch_name(branch)
        found = read_branch(self._context, main.identifier, TableLayout(main.path, branch))

        def work(connection: Connection) -> None:
            lock_branch(connection, main.id, MAIN_BRANCH)
            if find_table(connection, self._context, main.identifier).is_pending:
                raise table_busy(main.identifier)
            insert_branch(connection, self._context, main.identifier, main.id, branch, found)

        try:
            self._context.database.write(work)
        except IntegrityError as error:
            raise table_busy(main.identifier) from error

    def _of_branch(self, identifier: Identifier, dry_run: bool) -> Iterator[RepairFinding]:
        """The schemas of a branch, then its snapshots; after what is refused, nothing later."""
        try:
            record = settled_table(self._context, self._outbox, identifier)
        except Conflict:
            yield self._stuck(read_table(self._context, identifier))
            return
        latest = record.schema_id
        schemas = self._later(record.layout.schema_directory, "schema-", latest)
        for schema_id in schemas:
            refused = self._schema_obstacle(record, schema_id, latest)
            if refused is None:
                adopt = partial(self._adopt_schema, identifier, schema_id)
                finding = self._tried(identifier, f"schema {schema_id}", dry_run, adopt)
            else:
                finding = RepairFinding(identifier, f"schema {schema_id}", refused)
            yield finding
            if finding.refused is not None:
                return
            latest = schema_id
        record = read_table(self._context, identifier)
        later = self._later(record.layout.snapshot_directory, "snapshot-", record.snapshot_id)
        if later and record.snapshot_id == 0 and later[0] > 1:
            # The first ones have expired: only the latest can be read, as when one is registered.
            yield self._tried(
                identifier,
                f"snapshot {later[-1]}",
                dry_run,
                partial(self._adopt_first, record, later[-1]),
            )
            return
        before = self._snapshot_known(record) if later and record.snapshot_id else None
        for number in later:
            finding = self._of_snapshot(record, before, number, latest, dry_run)
            yield finding
            if finding.refused is not None:
                return
            before = self._snapshot_file(record.layout, number)

    def _later(self, directory: str, prefix: str, number: int) -> list[int]:
        found = numbered_files(self._context.files.list(directory), prefix)
        return [each for each in found if each > number]

    # Schemas ----------------------------------------------------------------------------------

    def _schema_obstacle(self, record: TableRecord, schema_id: int, latest: int) -> str | None:
        """The reason not to take a schema over; None when it follows the latest."""
        if schema_id != latest + 1:
            return f"schema {latest + 1} is missing on storage, so this follows nothing"
        if latest != record.schema_id:
            return None
        with self._context.database.read() as connection:
            known = read_schema(connection, record)
        try:
            there = read_schema_file(self._context.files, record.identifier, record.layout, latest)
        except NotFound:
            return f"schema {latest}, the catalog's latest, is gone from storage"
        if json.loads(known.to_json()) != json.loads(there.to_json()):
            return (
                f"there are two histories: schema {latest} on storage, of "
                f"{time_text(there.time_millis)}, is not the catalog's, of "
                f"{time_text(known.time_millis)}; neither is chosen. To keep the catalog's, move "
                f"the files of schema {latest} and later ones away"
            )
        return None

    def _adopt_schema(self, identifier: Identifier, schema_id: int) -> None:
        seen = read_table(self._context, identifier)
        found = read_schema_file(self._context.files, identifier, seen.layout, schema_id)

        def work(connection: Connection) -> None:
            lock_branch(connection, seen.id, seen.branch)
            if find_table(connection, self._context, identifier) != seen:
                raise table_busy(identifier)
            if seen.branch == MAIN_BRANCH:
                refuse_policies_broken_by(connection, seen.id, identifier, found)
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

        self._context.database.write(work)

    # Snapshots --------------------------------------------------------------------------------

    def _of_snapshot(
        self,
        record: TableRecord,
        before: Snapshot | None,
        number: int,
        schema_id: int,
        dry_run: bool,
    ) -> RepairFinding:
        identifier, what = record.identifier, f"snapshot {number}"
        refused = self._obstacle(record, before, number, schema_id)
        if refused is not None:
            return RepairFinding(identifier, what, refused)
        return self._tried(
            identifier, what, dry_run, partial(self._adopt_snapshot, record, before, number)
        )

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
        if before is not None and before.id == record.snapshot_id:
            try:
                there = self._snapshot_file(record.layout, before.id)
            except NotFound:
                return (
                    f"{_named(before)}, the catalog's latest, is gone from storage, so it cannot "
                    f"be told that {_named(snapshot)} follows it"
                )
            if json.loads(there.to_json()) != json.loads(before.to_json()):
                return _fork(before, there, number)
        if snapshot.schema_id > schema_id:
            return f"{_named(snapshot)} needs schema {snapshot.schema_id}, which is missing"
        return None

    def _adopt_snapshot(self, record: TableRecord, before: Snapshot | None, number: int) -> None:
        snapshot = self._snapshot_file(record.layout, number)
        with self._context.database.read() as connection:
            schema = read_schema(
                connection, find_table(connection, self._context, record.identifier)
            )
        storage = TableStorage(
            str(record.identifier),
            record.layout,
            self._context.files,
            schema,
            self._context.runtime,
        )
        entries = delta_entries(storage, snapshot.delta_manifest_list)
        if entries is None:
            raise CorruptData(
                f"a manifest of {_named(snapshot)} is gone, so its rows cannot be counted"
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
        """Take over the latest snapshot of a branch of which the catalog knows none."""
        snapshot = self._snapshot_file(seen.layout, number)
        measured = measure(self._context, seen, snapshot)

        def work(connection: Connection) -> None:
            lock_branch(connection, seen.id, seen.branch)
            record = find_table(connection, self._context, seen.identifier)
            if record != seen:
                raise table_busy(seen.identifier)
            insert_measured(connection, self._context, record, snapshot, measured)
            connection.execute(
                update(BranchRow)
                .where(BranchRow.table_id == record.id, BranchRow.branch == record.branch)
                .values(snapshot_id=snapshot.id, snapshot_uuid=snapshot.uuid)
            )

        self._context.database.write(work)

    def _stuck(self, record: TableRecord) -> RepairFinding:
        """The snapshot, or the schema, that was decided on where something else is on storage."""
        number = self._outbox.stuck_snapshot(record.id, record.branch)
        if number is None:
            return RepairFinding(
                record.identifier,
                f"schema {record.schema_id}",
                "storage has another one; move its file away, and the catalog writes its own",
            )
        decided = self._snapshot_known(replace(record, snapshot_id=number))
        there = self._snapshot_file(record.layout, number)
        return RepairFinding(record.identifier, f"snapshot {number}", _fork(decided, there, number))

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


def _named(snapshot: Snapshot) -> str:
    moment = time_text(snapshot.time_millis)
    return f"snapshot {snapshot.id} (uuid {snapshot.uuid}, of {moment}, by {snapshot.commit_user})"


def _fork(ours: Snapshot, theirs: Snapshot, number: int) -> str:
    return (
        f"there are two histories: the catalog has {_named(ours)}, and storage has "
        f"{_named(theirs)}; neither is chosen. To keep the catalog's, move the files of snapshot "
        f"{min(number, ours.id)} and later ones away; to keep the other, register its files as a "
        "table of its own"
    )
