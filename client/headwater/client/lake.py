"""The catalog as a program uses it: names as text, whole lists, table handles."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Self

import pyarrow as pa

from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.databases import DatabaseInfo
from headwater.catalog.model.events import ANY_EVENT, EventFilter, EventPage
from headwater.catalog.model.identifier import SYSTEM_DATABASE, Identifier
from headwater.catalog.model.page import all_pages
from headwater.catalog.model.principal import Scope
from headwater.catalog.model.reconcile import Reconciliation, Watch
from headwater.catalog.model.temporary_keys import TemporaryKey
from headwater.catalog.table.display import Display
from headwater.catalog.table.system_table import SystemTable, system_table_of
from headwater.catalog.table.table import Table
from headwater.client.cdc import ChangeDataCapture, change_data_capture
from headwater.client.inspect import LakeInspect
from headwater.storage.errors import (
    AlreadyExists,
    HeadwaterError,
    Invalid,
    NotFound,
    ResourceType,
)
from headwater.storage.files.layout import TableLayout
from headwater.storage.files.location import new_folder
from headwater.storage.jobs.clone import clone_files
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.change import SchemaChange, check_changes
from headwater.storage.schema.given import given_names, given_options
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.write.creation import refuse_unwritable

__all__ = ["Lake"]


@checks_arguments
class Lake:
    """A warehouse: its databases and tables. Made by `headwater.client.connect`.

    Tables are named ``database.table``. It is a context manager, and pickles as its catalog does.

    Args:
        catalog: The catalog beneath.
        runtime: Clock and names for the tables' commits.

    Attributes:
        runtime: The same.
    """

    def __init__(self, catalog: Catalog, runtime: Runtime = SYSTEM_RUNTIME) -> None:
        self._catalog = catalog
        self.runtime = runtime

    def __repr__(self) -> str:
        return str(self._display())

    def _repr_html_(self) -> str:
        """The form that notebooks show."""
        return self._display().html()

    def _display(self) -> Display:
        return Display(f"Lake {self._catalog.warehouse}", {"catalog": repr(self._catalog)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def catalog(self) -> Catalog:
        """The catalog beneath, for calls that have no shorthand here."""
        return self._catalog

    @property
    def warehouse(self) -> str:
        """The warehouse's name."""
        return self._catalog.warehouse

    @property
    def cdc(self) -> ChangeDataCapture:
        """Databases that are followed into this lake: ``lake.cdc.mysql(...)``.

        Raises:
            Unsupported: A package that it needs is not installed.
        """
        return change_data_capture(self)

    def close(self) -> None:
        """Give back connections."""
        self._catalog.close()

    def events(
        self,
        *,
        after: int = 0,
        limit: int = 100,
        only: EventFilter = ANY_EVENT,
        all_warehouses: bool = False,
    ) -> EventPage:
        """The change feed: who did what to which object, from where, in the order of the commits.

        Args:
            after: The offset to go on after; 0 begins with the oldest event that is kept.
            limit: The size of a page, at most 1000.
            only: Conditions that the events meet.
            all_warehouses: Whether to read those of all warehouses; needs a token that manages.

        Raises:
            Forbidden: The token does not administer.
            NotFound: Events after the offset were deleted, as their retention had ended.
        """
        return self._catalog.events.read(
            after=after, limit=limit, only=only, all_warehouses=all_warehouses
        )

    def temporary_key(
        self,
        *,
        lifetime: timedelta | None = None,
        scopes: Collection[Scope] | None = None,
        warehouses: Collection[str] | None = None,
    ) -> TemporaryKey:
        """An access key that can do no more than the token of this connection, and ends with it.

        It is for Paimon's clients (``token.provider=dlf``): its `document` is what they read from
        ``dlf.token-path``.

        Arguments and errors are those of `TemporaryKeys.create`; embedded catalogs are Unsupported.
        """
        return self._catalog.temporary_keys.create(
            lifetime=lifetime, scopes=scopes, warehouses=warehouses
        )

    # Databases

    def list_databases(self, pattern: str | None = None) -> list[str]:
        """The names of all databases, or of those that match a SQL LIKE pattern."""
        return all_pages(
            lambda token: self._catalog.databases.list(pattern=pattern, page_token=token)
        )

    def create_database(
        self, name: str, options: Mapping[str, str] | None = None, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a database; AlreadyExists when there is one, unless that is to be ignored."""
        self._catalog.databases.create(name, options, ignore_if_exists=ignore_if_exists)

    def get_database(self, name: str) -> DatabaseInfo:
        """A database; NotFound when it does not exist."""
        return self._catalog.databases.get(name)

    def alter_database(
        self,
        name: str,
        *,
        updates: Mapping[str, str] | None = None,
        removals: Sequence[str] = (),
    ) -> None:
        """Set and remove a database's options."""
        self._catalog.databases.alter(name, updates or {}, removals)

    def drop_database(
        self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False
    ) -> None:
        """Drop a database.

        Args:
            name: The database.
            cascade: Drop its tables, views and functions, too.
            ignore_if_not_exists: Do nothing when the database does not exist.

        Raises:
            Invalid: It holds something, and `cascade` is not set.
            NotFound: The database does not exist.
        """
        try:
            if not cascade:
                self._refuse_to_drop_contents(name)
            self._catalog.databases.drop(name)
        except NotFound as error:
            if not ignore_if_not_exists or error.resource_type is not ResourceType.DATABASE:
                raise

    def _refuse_to_drop_contents(self, database: str) -> None:
        catalog = self._catalog
        for kind, names in (
            ("tables", catalog.tables.list),
            ("views", catalog.views.list),
            ("functions", catalog.functions.list),
        ):
            present = names(database, max_results=1).items
            if present:
                raise Invalid(
                    f"database {database} has {kind}, {database}.{present[0]} for one; drop them "
                    "first, or drop the database with cascade (cascade=True, --cascade)"
                )

    # Tables

    def list_tables(self, database: str, pattern: str | None = None) -> list[str]:
        """The names of all tables of a database, or of those that match a SQL LIKE pattern."""
        return all_pages(
            lambda token: self._catalog.tables.list(database, pattern=pattern, page_token=token)
        )

    def create_table(
        self,
        name: str,
        schema: pa.Schema | Schema,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
        for_another_engine: bool = False,
    ) -> Table:
        """Create a table.

        Args:
            name: ``database.table``.
            schema: Its columns: an Arrow schema, or Headwater's own, to which the other arguments
                are added.
            primary_keys: Column names; none makes an append table.
            partition_keys: Column names.
            options: Paimon's table options, such as ``bucket``.
            comment: A description of the table.
            ignore_if_exists: Give the existing table, whatever its schema, when the name is taken.
            for_another_engine: Create the table even if Headwater's own engine could not write it.

        Raises:
            AlreadyExists: The name is taken.
            Invalid: The schema is not allowed.
            NotFound: The database does not exist.
            Unsupported: A column's type has no Paimon type, or Headwater could not write the table.
        """
        identifier = Identifier.parse(name)
        wanted = _schema(name, schema, primary_keys, partition_keys, options, comment)
        if not for_another_engine:
            refuse_unwritable(name, wanted)
        self._catalog.tables.create(identifier, wanted, ignore_if_exists=ignore_if_exists)
        return self.table(name)

    def replace_table(
        self,
        name: str,
        schema: pa.Schema | Schema,
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
        for_another_engine: bool = False,
    ) -> Table:
        """Replace a table's schema and remove its rows; its id and history stay.

        Args:
            name: ``database.table``.
            schema, primary_keys, partition_keys, options, comment: As for `create_table`.
            for_another_engine: Replace the table even if Headwater's own engine could not write
                what it becomes.

        Raises:
            Invalid: The schema is not allowed.
            NotFound: The table does not exist.
            Unsupported: A column's type has no Paimon type, Headwater could not write the table,
                or it is one that cannot be replaced, such as an external table.
        """
        identifier = Identifier.parse(name)
        wanted = _schema(name, schema, primary_keys, partition_keys, options, comment)
        if not for_another_engine:
            refuse_unwritable(name, wanted)
        self._catalog.tables.replace(identifier, wanted)
        return self.table(name)

    def table(self, name: str, *, table_id: str | None = None) -> Table:
        """A handle to read and write a table.

        The handle is of this table alone: once it is dropped, its operations raise NotFound, also
        when another table has its name.

        Args:
            name: ``database.table``.
            table_id: The table's id (``Table.info.id``); None takes whichever has the name.

        Raises:
            NotFound: It does not exist, or another table has the name.
            Invalid: It is a system table: `system_table` reads it.
        """
        identifier = Identifier.parse(name)
        if identifier.database == SYSTEM_DATABASE or identifier.system_table is not None:
            raise Invalid(
                f"{name} is a system table, which is only read: Lake.system_table reads it"
            )
        info = self._catalog.tables.get(identifier.with_table_id(table_id))
        return Table(self._catalog, info, self.runtime)

    def system_table(self, name: str) -> SystemTable:
        """A system table by its name: ``sales.orders$snapshots``, ``sys.tables``.

        Raises:
            NotFound: The table, or the system table, does not exist.
            Unsupported: It is one that Headwater does not have.
        """
        identifier = Identifier.parse(name)
        if identifier.database == SYSTEM_DATABASE:
            return self.inspect.system_table(identifier)
        info = self._catalog.tables.get(identifier.without_system_table)
        return system_table_of(identifier, Table(self._catalog, info, self.runtime).inspect)

    @property
    def inspect(self) -> LakeInspect:
        """The warehouse's system tables: ``lake.inspect.tables()`` and so on."""
        return LakeInspect(self._catalog, self.runtime)

    def table_exists(self, name: str) -> bool:
        """Whether there is a table of this name."""
        try:
            self._catalog.tables.get(Identifier.parse(name))
        except NotFound as error:
            if error.resource_type in (ResourceType.TABLE, ResourceType.DATABASE):
                return False
            raise
        return True

    def alter_table(self, name: str, *changes: SchemaChange) -> Table:
        """Apply changes to a table's schema, all or none, and give its new handle.

        Raises:
            AlreadyExists: A column to be added exists.
            Invalid: A change is not allowed.
            NotFound: The table or a column does not exist.
        """
        identifier = Identifier.parse(name)
        check_changes(name, changes)
        self._catalog.tables.alter(identifier, changes)
        return self.table(name)

    def register_table(self, name: str, path: str | os.PathLike[str]) -> Table:
        """Give the table whose files are at a path a name, and give its handle.

        Outside the warehouse it becomes an external table, inside it one of the catalog's own.

        Raises:
            AlreadyExists: The name is taken.
            Forbidden: The server does not read at that path.
            Invalid: No table is there, or it has another name already.
            NotFound: The database does not exist.
        """
        self._catalog.tables.register(Identifier.parse(name), os.fspath(path))
        return self.table(name)

    def reconcile(
        self,
        name: str | None = None,
        *,
        apply: bool = False,
        accept_losses: bool = False,
        watch: Watch | None = None,
    ) -> Reconciliation:
        """Compare the catalog's database with storage, and make them agree.

        They differ where one of them was restored from a backup, where files were lost, and where
        writers did not ask the catalog, such as a client whose catalog is nothing but files; such
        writers must have stopped. What storage has and the catalog does not know is taken over:
        databases, tables, branches, schemas and snapshots, in this order. What the catalog knows
        and storage lost is written again while all that it names is there. Tags and consumers are
        on storage alone. No file is deleted or written over, unless losses are accepted.

        Where storage has another snapshot or schema than the catalog under one number, neither is
        chosen: that is among what is refused, with both named.

        Args:
            name: ``database`` or ``database.table``; None is the whole warehouse.
            apply: Make them agree; else only say what would be done.
            accept_losses: Give up what storage has lost, too: a table goes back to the latest
                snapshot that storage has whole, and one without any file is dropped.
            watch: Is called with each table before it is compared.

        Raises:
            NotFound: The database or table exists neither in the catalog nor on storage.
            Unavailable: The warehouse's directory is missing or empty.
            Unsupported: The catalog is reached through a server.
        """
        database, dot, table = (name or "").partition(".")
        if dot and "$" in table:
            raise Invalid(f"{name}: a table is reconciled with all of its branches; name the table")
        return self._catalog.reconciler.reconcile(
            database or None,
            table or None,
            apply=apply,
            accept_losses=accept_losses,
            watch=watch,
        )

    def clone_table(
        self,
        source: Table,
        name: str,
        *,
        tag: str | None = None,
        snapshot_id: int | None = None,
    ) -> Table:
        """Make a table of another one's snapshot, from this lake or from another; its handle.

        All files of the snapshot are copied, and their sizes checked, so that neither table depends
        on the other. The clone has all schemas, and the snapshot as its only one. It lies in a
        directory that no other table ever has. If its copying fails, the directory is deleted; a
        clone that is killed, or whose name was taken meanwhile, leaves it, and no catalog knows it.

        Args:
            source: The table.
            name: The clone's name.
            tag: Clone what this tag names; unless given, the latest snapshot.
            snapshot_id: Clone this snapshot.

        Raises:
            AlreadyExists: There is a table of that name.
            NotFound: The database, tag or snapshot does not exist.
            Invalid: Both are given.
            CorruptData: A file of the snapshot is missing, or has another size than it says.
            Unsupported: Some of the table's files lie outside its directory.
        """
        if tag is not None and snapshot_id is not None:
            raise Invalid("give at most one of tag and snapshot_id")
        identifier = Identifier.parse(name)
        try:
            self._catalog.tables.get(identifier)
        except NotFound:
            pass
        else:
            raise AlreadyExists(
                f"table {name} exists",
                resource_type=ResourceType.TABLE,
                resource_name=identifier.table,
            )
        snapshot: Snapshot | None
        if tag is not None:
            snapshot = source.tag(tag).snapshot
        elif snapshot_id is not None:
            snapshot = source.snapshot(snapshot_id)
        else:
            snapshot = source.latest_snapshot()
        database = self._catalog.databases.get(identifier.database)
        id_ = self.runtime.new_uuid()
        folder = new_folder(identifier.table, id_).removesuffix(f"-{id_}")
        location = f"{database.location.rstrip('/')}/{folder}-{id_}"
        # No data token is for a table that is not there yet.
        place = replace(source.info, identifier=identifier, path=location, is_external=True)
        files = self._catalog.table_files(place)
        try:
            clone_files(source.storage, snapshot, files, TableLayout(location))
        except HeadwaterError:
            files.delete_tree(location)
            raise
        return self.register_table(name, location)

    def rename_table(self, source: str, destination: str) -> None:
        """Give a table another name, in another database if so asked.

        Raises:
            AlreadyExists: The name is taken.
            NotFound: The table or the database does not exist.
        """
        self._catalog.tables.rename(Identifier.parse(source), Identifier.parse(destination))

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table and, unless it is external, its files."""
        self._catalog.tables.drop(Identifier.parse(name), ignore_if_not_exists=ignore_if_not_exists)


def _schema(
    name: str,
    schema: pa.Schema | Schema,
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
    options: Mapping[str, str] | None,
    comment: str | None,
) -> Schema:
    if isinstance(schema, Schema):
        return replace(
            schema,
            primary_keys=given_names(primary_keys, "primary_keys") or schema.primary_keys,
            partition_keys=given_names(partition_keys, "partition_keys") or schema.partition_keys,
            options=given_options({**schema.options, **(options or {})}),
            comment=schema.comment if comment is None else comment,
        )
    if isinstance(schema, pa.Schema):
        return Schema.from_arrow(
            schema,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
            comment=comment,
        )
    raise Invalid(f"table {name}: the schema must be a pyarrow.Schema, not {type(schema).__name__}")
