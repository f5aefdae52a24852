"""Reconciling: the database and storage are compared table by table, and made to agree.

They differ where one of them was restored from a backup, where files were lost, and where others
wrote without asking the catalog. What storage has and the database does not know is taken over,
what the database knows and storage lost is written again if it is whole, and given up only if the
caller says so. Every change is made by the same method as any other, under the same locks, so
that servers may go on meanwhile, and a crash in between leaves less to do.

Source: ``RepairAction.java``, whose catalogs take storage's word.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.branches import branch_of, check_branch_name
from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import all_pages
from headwater.catalog.model.reconcile import Finding, Reconciliation, Step, Watch
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import BranchRow
from headwater.catalog.sql.events.record import record_event
from headwater.catalog.sql.history.snapshots import SqlSnapshots
from headwater.catalog.sql.outbox.mirror_files import numbered_files
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.claimed_places import find_overlap
from headwater.catalog.sql.queries.lookup import (
    TableRecord,
    find_table,
    has_tables,
    lock_branch,
    read_table,
    table_busy,
    table_not_found,
)
from headwater.catalog.sql.tables.databases import SqlDatabases
from headwater.catalog.sql.tables.places import find_database, table_claim
from headwater.catalog.sql.tables.reconcile_branch import BranchReconciler
from headwater.catalog.sql.tables.reconcile_mode import Mode
from headwater.catalog.sql.tables.register import insert_branch, read_branch
from headwater.catalog.sql.tables.tables import SqlTables
from headwater.storage.errors import NotFound, Unavailable
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.maintenance.reachable import branch_names
from headwater.storage.schema.table_type import TableType, table_type

__all__ = ["SqlReconciler"]

_DATABASE_SUFFIX = ".db"
# The folders of others come with their first files.
_WITH_FILES = [kind for kind in TableType if kind.has_snapshots]


class SqlReconciler:
    """Implements `headwater.catalog.model.reconcile.Reconciler`.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Makes storage follow what was decided before.
        databases: The databases.
        tables: The tables, which registers those that are found.
        snapshots: Commits snapshots.
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
        self._branches = BranchReconciler(context, outbox, snapshots)

    def reconcile(
        self,
        database: str | None = None,
        table: str | None = None,
        *,
        apply: bool = False,
        accept_losses: bool = False,
        watch: Watch | None = None,
    ) -> Reconciliation:
        """Compare tables with their files, one after another."""
        mode = Mode(apply, accept_losses)
        self._require_warehouse()
        if apply:
            self._outbox.marker.accept()
        findings: list[Finding] = []
        if database is None:
            findings += self._new_databases(mode)
            names = all_pages(lambda token: self._databases.list(page_token=token))
        else:
            names = [database]
        for name in names:
            findings += self._of_database(name, table, mode, watch)
        return Reconciliation(
            tuple(each for each in findings if each.refused is None),
            tuple(each for each in findings if each.refused is not None),
        )

    def _require_warehouse(self) -> None:
        """Refuse a warehouse whose disk is not mounted; all would seem to be lost in it.

        Raises:
            Unavailable: Its directory is missing, or has nothing in it though it had tables.
        """
        context = self._context
        context.files.check_directory(context.location)
        with context.database.read() as connection:
            holds_tables = has_tables(connection, context.warehouse, _WITH_FILES)
        if holds_tables and not context.files.folders(context.location):
            raise Unavailable(
                f"{context.location} is empty, though the catalog has tables there: mount it, or "
                "restore its files"
            )

    def _new_databases(self, mode: Mode) -> Iterator[Finding]:
        """Directories of the warehouse that are named as databases are, with tables in them."""
        home = self._context.location
        known = set(all_pages(lambda token: self._databases.list(page_token=token)))
        for folder in self._context.files.folders(home):
            name = folder.removesuffix(_DATABASE_SUFFIX)
            if name == folder or name in known or not self._tables_in(f"{home}/{folder}"):
                continue
            create = partial(self._databases.create, name, None)
            yield mode.tried(Identifier(name, "*"), "database", Step.ADOPT, create)
            if not mode.apply:
                for table in self._tables_in(f"{home}/{folder}"):
                    yield Finding(Identifier(name, table), "table")

    def _of_database(
        self, database: str, table: str | None, mode: Mode, watch: Watch | None
    ) -> Iterator[Finding]:
        with self._context.database.read() as connection:
            _, home = find_database(connection, self._context, database)
        known = set[str]()
        for info in self._known(database, table):
            known.add(info.identifier.table)
            if not info.is_external and table_type(info.schema.options).has_snapshots:
                if watch is not None:
                    watch(info.identifier)
                yield from self._of_table(info.identifier, mode)
        new = [table] if table is not None else self._context.files.folders(home)
        unknown = [name for name in new if self._is_new_table(f"{home}/{name}")]
        if table is not None and not known and not unknown:
            raise table_not_found(Identifier(database, table))
        for name in unknown:
            identifier, path = Identifier(database, name), f"{home}/{name}"
            if watch is not None:
                watch(identifier)
            register = partial(self._tables.register, identifier, path)
            yield mode.tried(identifier, "table", Step.ADOPT, register)

    def _known(self, database: str, table: str | None) -> Iterator[TableInfo]:
        if table is None:
            yield from all_pages(
                lambda token: self._tables.list_details(database, page_token=token)
            )
            return
        with suppress(NotFound):
            yield self._tables.get(Identifier(database, table))

    def _tables_in(self, home: str) -> list[str]:
        folders = self._context.files.folders(home)
        return [name for name in folders if self._is_new_table(f"{home}/{name}")]

    def _is_new_table(self, path: str) -> bool:
        """Whether the catalog has no table of a directory, not even a dropped one."""
        schemas = self._context.files.list(TableLayout(path).schema_directory)
        if not numbered_files(schemas, "schema-"):
            return False
        claim = table_claim(self._context, "", path, is_external=False)
        with self._context.database.read() as connection:
            return find_overlap(connection, claim) is None

    def _of_table(self, identifier: Identifier, mode: Mode) -> Iterator[Finding]:
        main = read_table(self._context, identifier)
        if main.snapshot_id and not self._has_directory(main):
            yield self._without_directory(identifier, mode)
            return
        yield from self._branches.reconcile(identifier, mode)
        main = read_table(self._context, identifier)
        with self._context.database.read() as connection:
            known = set(
                connection.execute(
                    select(BranchRow.branch).where(BranchRow.table_id == main.id)
                ).scalars()
            )
        for branch in sorted(known - {MAIN_BRANCH}):
            yield from self._branches.reconcile(branch_of(identifier, branch), mode)
        for branch in sorted(branch_names(self._context.files, main.path) - known):
            layout = TableLayout(main.path, branch)
            if not numbered_files(self._context.files.list(layout.schema_directory), "schema-"):
                continue  # what is left of one that was dropped
            adopt = partial(self._adopt_branch, main, branch)
            yield mode.tried(identifier, f"branch {branch}", Step.ADOPT, adopt)

    def _has_directory(self, main: TableRecord) -> bool:
        return any(True for _ in self._context.files.walk(main.path))

    def _without_directory(self, identifier: Identifier, mode: Mode) -> Finding:
        drop = partial(self._tables.drop, identifier)
        loss = "storage has no file of the table: restore its directory, or let it be dropped"
        return mode.given_up(identifier, "table", loss, drop)

    def _adopt_branch(self, main: TableRecord, branch: str) -> None:
        check_branch_name(branch, is_new=False)
        forked = read_branch(self._context, main.identifier, TableLayout(main.path, branch))

        def work(connection: Connection) -> None:
            lock_branch(connection, main.id, MAIN_BRANCH)
            if find_table(connection, self._context, main.identifier).is_pending:
                raise table_busy(main.identifier)
            insert_branch(connection, self._context, main.identifier, main.id, branch, forked)
            subject = Subject.table(main.identifier, main.id)
            details = {"step": "adopt", "what": f"branch {branch}"}
            record_event(connection, self._context, EventType.RECONCILE_TABLE, subject, details)

        try:
            self._context.database.write(work)
        except IntegrityError as error:
            raise table_busy(main.identifier) from error
