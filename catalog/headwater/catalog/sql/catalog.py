"""`SqlCatalog`: one warehouse, its pointers in a SQL database, its files on storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.catalog.model.branches import Branches
from headwater.catalog.model.catalog import (
    ConsumerInfo,
    DatabaseInfo,
    Page,
    SnapshotInfo,
    TableInfo,
    TagInfo,
)
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.partitions import Partitions
from headwater.catalog.sql.admin.permissions import SqlPermissions
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.engine import SqlDatabase, database_exists, open_engine
from headwater.catalog.sql.database.schema_state import (
    check_revision,
    create_missing_tables,
    no_tables,
)
from headwater.catalog.sql.history.branches import SqlBranches
from headwater.catalog.sql.history.commit import Commits, Offer
from headwater.catalog.sql.history.consumers import Consumers
from headwater.catalog.sql.history.partitions import SqlPartitions
from headwater.catalog.sql.history.rollback import Rollbacks
from headwater.catalog.sql.history.schema_rollback import SchemaRollbacks
from headwater.catalog.sql.history.snapshots import Snapshots
from headwater.catalog.sql.history.tags import Tags
from headwater.catalog.sql.objects.functions import SqlFunctions
from headwater.catalog.sql.objects.views import SqlViews
from headwater.catalog.sql.operation import Operation
from headwater.catalog.sql.outbox.outbox import Outbox, RepairReport
from headwater.catalog.sql.queries.names import normalised_location
from headwater.catalog.sql.tables.bulk_reads import BulkReads
from headwater.catalog.sql.tables.databases import Databases
from headwater.catalog.sql.tables.dropped_tables import DroppedTables
from headwater.catalog.sql.tables.external_schemas import ExternalSchemas
from headwater.catalog.sql.tables.protection import Protection
from headwater.catalog.sql.tables.reads import TableReads
from headwater.catalog.sql.tables.register import Registrations
from headwater.catalog.sql.tables.replace import Replacements
from headwater.catalog.sql.tables.tables import Tables
from headwater.storage.errors import Invalid
from headwater.storage.files.access import FileAccess
from headwater.storage.files.open_files import open_file_access
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.change import SchemaChange
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics

__all__ = ["SqlCatalog"]


class SqlCatalog:
    """A `headwater.catalog.model.catalog.Catalog` that answers from a SQL database.

    Safe to use from several threads, and on one database from several processes. Make one with
    `open`.

    Args:
        context: Where and with what.
        storage_options: What file access needs to reach the warehouse.
    """

    def __init__(self, context: CatalogContext, storage_options: Mapping[str, str]) -> None:
        self._context = context
        self._storage_options = dict(storage_options)
        self._outbox = Outbox(context)
        self.bulk = BulkReads(context)
        self._dropped_tables = DroppedTables(context, self._outbox)
        self._operation = Operation(context, self._outbox, self._dropped_tables)
        self._protection = Protection(context)
        self._databases = Databases(context, self._outbox, self._dropped_tables)
        external = ExternalSchemas(context)
        self._table_reads = TableReads(context, self._outbox, external)
        self._tables = Tables(
            context, self._outbox, self._table_reads, self._dropped_tables, external
        )
        self._registrations = Registrations(context, external)
        self.commits = Commits(context, self._outbox)
        self._snapshots = Snapshots(context, self._outbox)
        self._replacements = Replacements(
            context, self._outbox, self._table_reads, self._snapshots, self.commits
        )
        self._rollbacks = Rollbacks(context, self._outbox, self._snapshots)
        self._tags = Tags(context, self._outbox, self._snapshots)
        self._consumers = Consumers(context, self._outbox)
        self._views = SqlViews(context)
        self._functions = SqlFunctions(context)
        self._permissions = SqlPermissions(context)
        self._partitions = SqlPartitions(context, self._outbox)
        self._branches = SqlBranches(context, self._outbox, self._snapshots)
        self._schema_rollbacks = SchemaRollbacks(context, self._outbox, self._snapshots)

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
        external_locations: Sequence[str] | None = None,
    ) -> SqlCatalog:
        """Open a warehouse, and repair what a crash left half done.

        Args:
            database_url: ``sqlite:///path/to/file.db`` or ``postgresql://user@host/database``.
            warehouse: The warehouse's name; several may share a database.
            location: Where its tables are: a URI or a local path.
            storage_options: What file access needs, such as endpoint and credentials.
            runtime: Clock and names.
            create: Make the catalog's tables in a database that has none.
            files: The file access; by default the one that reaches `location`.
            undrop_millis: How long dropped tables can be restored; 0 deletes them at once.
            external_locations: The places outside `location` where external tables' schema files
                may be read and written; None is all of them.

        Raises:
            Invalid: The URL or the location is malformed, or the database has no tables or those
                of another revision: upgrade it first (`headwater.migrations.upgrade`).
            Unavailable: The database did not answer.
        """
        if not create and not database_exists(database_url):
            raise no_tables()
        database = SqlDatabase(open_engine(database_url), runtime)
        try:
            catalog = SqlCatalog.on(
                database,
                warehouse=warehouse,
                location=location,
                storage_options=storage_options,
                runtime=runtime,
                files=files,
                undrop_millis=undrop_millis,
                external_locations=external_locations,
            )
            if create:
                create_missing_tables(database)
            check_revision(database)
            catalog.repair()
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
        runtime: Runtime = SYSTEM_RUNTIME,
        files: FileAccess | None = None,
        undrop_millis: int = 0,
        external_locations: Sequence[str] | None = None,
        is_managed: bool = False,
    ) -> SqlCatalog:
        """A warehouse on a database that others use, too, and that has its tables already.

        It asks neither database nor storage. Whoever opened the database closes it.

        Args:
            database: The database.
            warehouse, location, storage_options, runtime, files, undrop_millis,
            external_locations: As for `open`.
            is_managed: Whether it is one of `Warehouses`, and can be removed.

        Raises:
            Invalid: The name or the location is malformed.
        """
        if not warehouse or "/" in warehouse:
            raise Invalid(f"'{warehouse}' is not a warehouse name: it is empty or has a slash")
        location = normalised_location(location)
        options = dict(storage_options or {})
        files = open_file_access(location, options) if files is None else files
        places = None
        if external_locations is not None:
            places = tuple(normalised_location(each).rstrip("/") for each in external_locations)
        context = CatalogContext(
            database, files, runtime, warehouse, location, undrop_millis, places, is_managed
        )
        return SqlCatalog(context, options)

    @property
    def warehouse(self) -> str:
        """The warehouse's name."""
        return self._context.warehouse

    @property
    def location(self) -> str:
        """The warehouse's URI, without a trailing slash."""
        return self._context.location

    @property
    def storage_options(self) -> Mapping[str, str]:
        """What file access needs to reach the warehouse; never log it."""
        return self._storage_options

    @property
    def branches(self) -> Branches:
        """The branches of tables."""
        return self._branches

    @property
    def partitions(self) -> Partitions:
        """The partitions of tables that keep them in the catalog."""
        return self._partitions

    @property
    def views(self) -> SqlViews:
        """The views."""
        return self._views

    @property
    def functions(self) -> SqlFunctions:
        """The functions."""
        return self._functions

    @property
    def permissions(self) -> SqlPermissions:
        """The grants: records, which nothing enforces."""
        return self._permissions

    def repair(self) -> RepairReport:
        """Make storage follow every decision that a crash left open."""
        return self._outbox.repair()

    @property
    def operation(self) -> Operation:
        """What whoever runs the warehouse needs."""
        return self._operation

    def close(self) -> None:
        """Give back connections."""
        self._context.database.close()

    @property
    def dropped_tables(self) -> DroppedTables:
        """Dropped tables that can be restored."""
        return self._dropped_tables

    @property
    def protection(self) -> Protection:
        """Flags that refuse drops."""
        return self._protection

    # Databases

    def list_databases(
        self,
        *,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Database names; all of them when `max_results` is None."""
        return self._databases.list(pattern, max_results, page_token)

    def create_database(
        self, name: str, options: Mapping[str, str] | None = None, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a database; an option ``location`` must lie in the warehouse."""
        self._databases.create(name, options or {}, ignore_if_exists)

    def get_database(self, name: str) -> DatabaseInfo:
        """A database; NotFound (DATABASE)."""
        return self._databases.get(name)

    def alter_database(
        self, name: str, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        """Set and remove options."""
        self._databases.alter(name, updates, removals)

    def drop_database(self, name: str) -> None:
        """Drop a database with all tables, views and functions in it."""
        self._databases.drop(name)

    # Tables

    def list_tables(
        self,
        database: str,
        *,
        pattern: str | None = None,
        table_type: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Table names; all of them when `max_results` is None."""
        return self._table_reads.list(database, pattern, table_type, max_results, page_token)

    def list_table_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        table_type: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[TableInfo]:
        """Tables with their latest schemas."""
        return self._table_reads.details(database, pattern, table_type, max_results, page_token)

    def list_tables_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """The tables of all databases."""
        return self._table_reads.list_globally(database_pattern, pattern, max_results, page_token)

    def create_table(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a table; an option ``path`` makes it external."""
        self._tables.create(identifier, schema, ignore_if_exists)

    def get_table(self, identifier: Identifier) -> TableInfo:
        """A table with its latest schema; NotFound (TABLE)."""
        return self._table_reads.get(identifier)

    def get_table_by_id(self, table_id: str) -> TableInfo:
        """The table with an id, whatever its name is; NotFound (TABLE)."""
        return self._table_reads.get_by_id(table_id)

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> None:
        """Apply changes, all or none; one new schema version."""
        self._tables.alter(identifier, changes)

    def replace_table(self, identifier: Identifier, schema: Schema) -> None:
        """Give a table another schema and no data; its id and history stay."""
        self._replacements.replace(identifier, schema)

    def register_table(self, identifier: Identifier, path: str) -> None:
        """Give the table whose files are at a path a name; it is external outside the warehouse."""
        self._registrations.register(identifier, path)

    def rename_table(self, source: Identifier, destination: Identifier) -> None:
        """Give a table another name; its path stays."""
        self._tables.rename(source, destination)

    def drop_table(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table and, unless it is external, its files."""
        self._tables.drop(identifier, ignore_if_not_exists)

    # Snapshots

    def commit_snapshot(
        self,
        identifier: Identifier,
        table_id: str | None,
        snapshot: Snapshot,
        base_uuid: str | None,
        statistics: Sequence[PartitionStatistics],
    ) -> bool:
        """Make `snapshot` the latest, if the latest still is the one with `base_uuid`."""
        offer = Offer(identifier, table_id, snapshot, base_uuid, statistics)
        return self.commits.commit(offer)

    def latest_snapshot(self, identifier: Identifier) -> SnapshotInfo | None:
        """The latest snapshot; None for a table without one. Its file is on storage."""
        return self._snapshots.latest(identifier)

    def get_snapshot(self, identifier: Identifier, version: str) -> Snapshot:
        """A snapshot by id, ``EARLIEST``, ``LATEST`` or tag name; NotFound (SNAPSHOT)."""
        return self._snapshots.get(identifier, version)

    def list_snapshots(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Snapshot]:
        """The snapshots that still exist, newest first."""
        return self._snapshots.list(identifier, max_results, page_token)

    def rollback_to_snapshot(
        self, identifier: Identifier, snapshot_id: int, from_snapshot: int | None = None
    ) -> None:
        """Make an earlier snapshot the latest; Conflict when `from_snapshot` is not the latest."""
        self._rollbacks.to_snapshot(identifier, snapshot_id, from_snapshot)

    def rollback_to_tag(
        self, identifier: Identifier, tag: str, from_snapshot: int | None = None
    ) -> None:
        """Likewise, to the snapshot that a tag names."""
        self._rollbacks.to_tag(identifier, tag, from_snapshot)

    def rollback_schema(self, identifier: Identifier, schema_id: int) -> None:
        """Make an earlier schema the latest; Invalid, Conflict."""
        self._schema_rollbacks.to_schema(identifier, schema_id)

    # Tags

    def create_tag(
        self,
        identifier: Identifier,
        tag: str,
        snapshot_id: int | None = None,
        *,
        retained_millis: int | None = None,
    ) -> None:
        """Name a snapshot (the latest when None); AlreadyExists (TAG)."""
        self._tags.create(identifier, tag, snapshot_id, retained_millis)

    def get_tag(self, identifier: Identifier, tag: str) -> TagInfo:
        """A tag; NotFound (TAG)."""
        return self._tags.get(identifier, tag)

    def list_tags(
        self,
        identifier: Identifier,
        *,
        prefix: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Tag names; all of them when `max_results` is None."""
        return self._tags.list(identifier, prefix, max_results, page_token)

    def delete_tag(self, identifier: Identifier, tag: str) -> None:
        """Delete a tag; NotFound (TAG)."""
        self._tags.delete(identifier, tag)

    # Consumers

    def list_consumers(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[ConsumerInfo]:
        """The saved positions; all of them when `max_results` is None."""
        return self._consumers.list(identifier, max_results, page_token)

    def reset_consumer(
        self, identifier: Identifier, consumer_id: str, next_snapshot: int | None
    ) -> None:
        """Move a consumer (creating it if need be); None deletes it."""
        self._consumers.reset(identifier, consumer_id, next_snapshot)
