"""`SqlCatalog`: one warehouse, its pointers in a SQL database, its files on storage."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headwater.catalog.model.tables import TableInfo
from headwater.catalog.sql.admin.access import SqlAccess
from headwater.catalog.sql.admin.labels import SqlLabels
from headwater.catalog.sql.admin.permissions import SqlPermissions
from headwater.catalog.sql.admin.policies import SqlPolicies
from headwater.catalog.sql.admin.temporary_keys import NoTemporaryKeys
from headwater.catalog.sql.admin.warehouses import Warehouses
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.engine import SqlDatabase, database_exists, open_engine
from headwater.catalog.sql.database.schema_state import (
    check_revision,
    create_missing_tables,
    no_tables,
)
from headwater.catalog.sql.events.feed import EventFeed, WarehouseEvents
from headwater.catalog.sql.history.branches import SqlBranches
from headwater.catalog.sql.history.consumers import SqlConsumers
from headwater.catalog.sql.history.expired_history import ExpiredHistory
from headwater.catalog.sql.history.partitions import SqlPartitions
from headwater.catalog.sql.history.references import SqlReferences
from headwater.catalog.sql.history.snapshots import SqlSnapshots
from headwater.catalog.sql.history.tags import SqlTags
from headwater.catalog.sql.objects.functions import SqlFunctions
from headwater.catalog.sql.objects.views import SqlViews
from headwater.catalog.sql.operation import Operation
from headwater.catalog.sql.outbox.outbox import Outbox, RepairReport
from headwater.catalog.sql.tables.bulk_reads import BulkReads
from headwater.catalog.sql.tables.databases import SqlDatabases
from headwater.catalog.sql.tables.dropped_tables import SqlDroppedTables
from headwater.catalog.sql.tables.external_schemas import ExternalSchemas
from headwater.catalog.sql.tables.places import make_warehouse_folder
from headwater.catalog.sql.tables.protection import SqlProtection
from headwater.catalog.sql.tables.reconcile import SqlReconciler
from headwater.catalog.sql.tables.tables import SqlTables
from headwater.storage.errors import HeadwaterError, Invalid
from headwater.storage.files.access import FileAccess
from headwater.storage.files.location import Place, parse_location
from headwater.storage.files.open_files import open_file_access, open_table_files
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

__all__ = ["SqlCatalog"]

_LOG = logging.getLogger(__name__)


class SqlCatalog:
    """A `headwater.catalog.model.catalog.Catalog` that answers from a SQL database.

    Safe to use from several threads, and on one database from several processes. Make one with
    `open`.

    Args:
        context: The warehouse, its database and its storage.
        storage_options: The options with which file access reaches the warehouse.
        history_millis: As for `open`.

    Attributes:
        access: Tells the rights of principals; a catalog itself asks nobody.
        bulk: Reads several tables at once.
        operation: Maintenance: sweeps, backlog and health.
    """

    def __init__(
        self,
        context: CatalogContext,
        storage_options: Mapping[str, str],
        history_millis: int | None = None,
    ) -> None:
        self._context = context
        self._storage_options = dict(storage_options)
        self._history_millis = history_millis
        self._is_embedded = False
        # Catalogs of the same warehouse by patience, which share the connections.
        self._by_patience = {self.patience: self}
        self._outbox = Outbox(context)
        external = ExternalSchemas(context)
        self.dropped_tables = SqlDroppedTables(context, self._outbox)
        self.databases = SqlDatabases(context, self._outbox, self.dropped_tables)
        self.snapshots = SqlSnapshots(context, self._outbox)
        self.tables = SqlTables(
            context, self._outbox, external, self.snapshots, self.dropped_tables
        )
        self.tags = SqlTags(context, self._outbox, self.snapshots)
        self.branches = SqlBranches(context, self._outbox, self.snapshots)
        self.references = SqlReferences(context, self._outbox)
        self.partitions = SqlPartitions(context, self._outbox)
        self.consumers = SqlConsumers(context, self._outbox)
        self.views = SqlViews(context)
        self.functions = SqlFunctions(context)
        self.permissions = SqlPermissions(context)
        self.access = SqlAccess(context)
        self.policies = SqlPolicies(context)
        self.labels = SqlLabels(context)
        self.protection = SqlProtection(context)
        self.reconciler = SqlReconciler(
            context, self._outbox, self.databases, self.tables, self.snapshots
        )
        self.temporary_keys = NoTemporaryKeys()
        self.bulk = BulkReads(context)
        self.events = WarehouseEvents(EventFeed(context.database), context.warehouse)
        history = ExpiredHistory(context, history_millis)
        self.operation = Operation(context, self._outbox, self.dropped_tables, history)

    def __repr__(self) -> str:
        # Not the database's URL, which may hold a password.
        return f"SqlCatalog(location={self.location!r}, warehouse={self.warehouse!r})"

    @staticmethod
    def open(
        database_url: str,
        *,
        warehouse: str,
        location: str,
        storage_options: Mapping[str, str] | None = None,
        runtime: Runtime = SYSTEM_RUNTIME,
        create: bool = False,
        files: FileAccess | None = None,
        undrop_millis: int = 0,
        history_millis: int | None = None,
        external_locations: Sequence[str] | None = None,
    ) -> SqlCatalog:
        """Open a warehouse, and repair what a crash left half done.

        Args:
            database_url: ``sqlite:///path/to/file.db`` or ``postgresql://user@host/database``.
            warehouse: The warehouse's name; several may share a database.
            location: The location of its tables: a URI or a local path.
            storage_options: Options of file access, such as endpoint and credentials.
            runtime: Clock and names.
            create: Make the catalog's tables in a database that has none.
            files: The file access; by default the one that reaches `location`.
            undrop_millis: How long a dropped table can be restored, in ms; 0 deletes it at once.
            history_millis: How long the rows of snapshots are kept at least, in ms, expired ones
                included; None is for ever.
            external_locations: The places outside `location` where external tables' schema files
                may be read and written; None is all of them.

        Raises:
            Invalid: The URL or the location is malformed, or the location overlaps another
                warehouse's or an external table's, or the database has no tables or those of
                another revision: upgrade it first (`headwater.migrations.upgrade`).
            Unavailable: The database did not answer.
        """
        if not create and not database_exists(database_url):
            raise no_tables()
        database = SqlDatabase(open_engine(database_url), runtime)
        try:
            catalog = SqlCatalog.on(
                database.shared(),
                warehouse=warehouse,
                location=location,
                storage_options=storage_options,
                files=files,
                undrop_millis=undrop_millis,
                history_millis=history_millis,
                external_locations=external_locations,
            )
            if create:
                create_missing_tables(database)
            check_revision(database)
            Warehouses(database, database.runtime).claim({warehouse: catalog.location})
            catalog.begin()
            # SQLite has no server that could be out of reach.
            catalog._is_embedded = not database.is_sqlite
        except BaseException:
            database.close()
            raise
        return catalog

    @staticmethod
    def on(
        database: SqlDatabase,
        *,
        warehouse: str,
        location: str,
        storage_options: Mapping[str, str] | None = None,
        files: FileAccess | None = None,
        undrop_millis: int = 0,
        history_millis: int | None = None,
        external_locations: Sequence[str] | None = None,
        is_managed: bool = False,
        watch_files: Callable[[FileAccess, str], FileAccess] | None = None,
    ) -> SqlCatalog:
        """A warehouse on a database that others use, too, and that has its tables already.

        It asks neither database nor storage. The caller that opened the database closes it.

        Args:
            database: The database, with the clock.
            warehouse, location, storage_options, files, undrop_millis, history_millis,
                external_locations: As for
                `open`.
            is_managed: Whether it is one of `Warehouses`, and can be removed.
            watch_files: Given the file access and the warehouse's name, a file access to use
                instead, which tells of its calls.

        Raises:
            Invalid: The name or the location is malformed.
        """
        if not warehouse or "/" in warehouse:
            raise Invalid(f"'{warehouse}' is not a warehouse name: it is empty or has a slash")
        location = parse_location(location)
        options = dict(storage_options or {})
        files = open_file_access(location, options, root=location) if files is None else files
        if watch_files is not None:
            files = watch_files(files, warehouse)
        places = None
        if external_locations is not None:
            places = tuple(Place.of(each) for each in external_locations)
        context = CatalogContext(
            database.shared(),
            files,
            database.runtime,
            warehouse,
            location,
            undrop_millis,
            places,
            is_managed,
        )
        return SqlCatalog(context, options, history_millis)

    @property
    def warehouse(self) -> str:
        """The warehouse's name."""
        return self._context.warehouse

    @property
    def is_remote(self) -> bool:
        """False: it works in this process."""
        return False

    @property
    def runtime(self) -> Runtime:
        """Clock and names: for tables, too."""
        return self._context.runtime

    @property
    def location(self) -> str:
        """The warehouse's URI, without a trailing slash."""
        return self._context.location

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The options with which file access reaches the warehouse; never log them."""
        return self._storage_options

    def table_files(self, info: TableInfo) -> FileAccess:
        """Access to a table's files, with the warehouse's storage options."""
        return open_table_files(
            info.path, self._storage_options, root=None if info.is_external else info.path
        )

    @property
    def patience(self) -> float:
        """How long a request waits for a database server out of reach, in seconds."""
        return self._context.database.patience

    def patient(self, seconds: float) -> SqlCatalog:
        """The same catalog with another patience, if a program embeds it.

        A server's own has none: its clients wait.
        """
        if seconds not in self._by_patience and self._is_embedded:
            database = self._context.database.patient(seconds)
            patient = SqlCatalog(
                replace(self._context, database=database),
                self._storage_options,
                self._history_millis,
            )
            patient._is_embedded, patient._by_patience = True, self._by_patience
            self._by_patience.setdefault(seconds, patient)
        return self._by_patience.get(seconds, self)

    def begin(self) -> None:
        """Make a new warehouse's folder and marker, and repair what a crash left half done.

        Storage that does not answer keeps nobody from beginning: it may do so later.
        """
        try:
            make_warehouse_folder(self._context)
            self._outbox.marker.require()
        except HeadwaterError as error:
            _LOG.warning("warehouse %s: %s", self.warehouse, error)
        self.repair()

    def repair(self) -> RepairReport:
        """Make storage follow every decision that a crash left open."""
        return self._outbox.repair()

    def close(self) -> None:
        """Give back connections."""
        self._context.database.close()
