"""Registering tables that are on storage already.

A table outside the warehouse becomes an external one: its files go on telling its snapshots. A
table inside it, such as one of a catalog that was nothing but files, becomes the catalog's own,
with its history and branches: from then on the catalog decides, so other writers must have stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import insert
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import BranchRow, SchemaRow, TableRow
from headwater.catalog.sql.events.record import record_event
from headwater.catalog.sql.history.manifest_sizes import insert_measured
from headwater.catalog.sql.outbox.mirror_files import numbered_files
from headwater.catalog.sql.queries.audit import created
from headwater.catalog.sql.queries.claimed_places import claim, lock_places, refuse_overlap
from headwater.catalog.sql.queries.lookup import find_table
from headwater.catalog.sql.queries.names import check_table_name
from headwater.catalog.sql.tables.data_places import (
    DataOwner,
    DataPlace,
    claim_data_places,
    find_data_places,
    named_options,
)
from headwater.catalog.sql.tables.external_schemas import (
    no_table_there,
    read_schema_file,
)
from headwater.catalog.sql.tables.places import (
    check_external_path,
    find_database,
    is_in_warehouse,
    refuse_taken_name,
    table_claim,
    table_location,
)
from headwater.catalog.sql.tables.reads import TableReads
from headwater.storage.commit.entries import partition_statistics
from headwater.storage.errors import Conflict, Invalid
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.files.location import Place
from headwater.storage.maintenance.reachable import branch_names
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.path_options import check_path_options
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.schema.table_type import table_type
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics, TableStorage

__all__ = ["FoundBranch", "Registrations", "insert_branch", "read_branch"]

_ATTEMPTS = 3


@dataclass(frozen=True)
class FoundBranch:
    """A branch as its files have it.

    Attributes:
        schemas: In the order of their ids; at least one.
        latest: The latest snapshot; None for none.
        measured: The sizes of its partitions.
    """

    schemas: tuple[TableSchema, ...]
    latest: Snapshot | None
    measured: tuple[PartitionStatistics, ...]


class Registrations(TableReads):
    """Names for tables whose files are there already; arguments as for `TableReads`."""

    def register(self, identifier: Identifier, path: str) -> None:
        """Give the table whose files are at a path a name.

        Raises:
            NotFound: There is no such database (DATABASE).
            AlreadyExists: The name is taken (TABLE).
            Invalid: No table is there, or it overlaps the place of something else.
            Forbidden: It is outside the warehouse, and not where this catalog may read.
        """
        check_table_name(identifier)
        location = table_location(identifier, path)
        if is_in_warehouse(self._context, location):
            location, branches = self._adopted(identifier, location)
        else:
            check_external_path(self._context, identifier, location)
            wanted = table_claim(self._context, "", location, is_external=True)
            with self._context.database.read() as connection:
                refuse_overlap(connection, wanted, f"table {identifier}")
            schema = self._external.latest(identifier, location)
            if schema is None:
                raise no_table_there(identifier, location)
            branches = {MAIN_BRANCH: FoundBranch((schema,), None, ())}
        schemas = [schema for found in branches.values() for schema in found.schemas]
        for schema in schemas:
            check_path_options(schema.options)
        options = named_options(schemas)
        data = find_data_places(self._context, identifier, options, are_checked=False)
        for _ in range(_ATTEMPTS):
            try:
                self._context.database.write(
                    lambda connection: self._insert_found(
                        connection, identifier, location, branches, data
                    )
                )
            except IntegrityError:
                continue  # The name or the place was taken just now: looking again tells which.
            return
        raise Conflict(f"table {identifier} is being created and dropped by others; retry")

    def _adopted(
        self, identifier: Identifier, location: str
    ) -> tuple[str, Mapping[str, FoundBranch]]:
        """The table's location as the catalog writes it, and its branches."""
        with self._context.database.read() as connection:
            _, home = find_database(connection, self._context, identifier.database)
        if Place.of(location).parent != Place.of(home):
            raise Invalid(
                f"table {identifier}: {location} is in the warehouse, where tables of database "
                f"{identifier.database} lie directly in {home}; move the files there, or register "
                "the table in the database that they belong to"
            )
        location = f"{home}/{location.rpartition('/')[2]}"
        # Nothing is read of what is somebody else's: the answer would tell of it.
        wanted = table_claim(self._context, "", location, is_external=False)
        with self._context.database.read() as connection:
            refuse_overlap(connection, wanted, f"table {identifier}")
        names = {MAIN_BRANCH, *branch_names(self._context.files, location)}
        return location, {
            name: read_branch(self._context, identifier, TableLayout(location, name))
            for name in sorted(names)
        }

    def _insert_found(
        self,
        connection: Connection,
        identifier: Identifier,
        location: str,
        branches: Mapping[str, FoundBranch],
        data: Sequence[DataPlace],
    ) -> None:
        context = self._context
        is_external = not is_in_warehouse(context, location)
        table_id = context.runtime.new_uuid()
        wanted = table_claim(context, table_id, location, is_external=is_external)
        lock_places(connection)
        database_id, _ = find_database(connection, context, identifier.database)
        refuse_taken_name(connection, database_id, identifier)
        refuse_overlap(connection, wanted, f"table {identifier}")
        now = context.runtime.now_millis()
        table = {
            "id": table_id,
            "database_id": database_id,
            "name": identifier.table,
            "path": location,
            "is_external": is_external,
            "kind": table_type(branches[MAIN_BRANCH].schemas[-1].options).value,
            **created(now),
        }
        connection.execute(insert(TableRow), table)
        claim(connection, wanted)
        owner = DataOwner(identifier, table_id, location, is_external)
        claim_data_places(connection, context, owner, data)
        for name, found in branches.items():
            insert_branch(connection, context, identifier, table_id, name, found)
        record_event(
            connection, context, EventType.REGISTER_TABLE, Subject.table(identifier, table_id)
        )


def read_branch(
    context: CatalogContext, identifier: Identifier, layout: TableLayout
) -> FoundBranch:
    """A branch as its files have it.

    Raises:
        Invalid: It has no schema.
        CorruptData: A file is missing or malformed; the message names it.
    """
    files = context.files
    schemas = tuple(_schemas(files, identifier, layout))
    ids = numbered_files(files.list(layout.snapshot_directory), "snapshot-")
    if not ids:
        return FoundBranch(schemas, None, ())
    path = layout.snapshot(ids[-1])
    latest = Snapshot.from_json(files.read(path), path)
    storage = TableStorage(str(identifier), layout, files, schemas[-1], context.runtime)
    measured = partition_statistics(storage, live_entries(storage, latest))
    return FoundBranch(schemas, latest, tuple(measured))


def insert_branch(
    connection: Connection,
    context: CatalogContext,
    identifier: Identifier,
    table_id: str,
    branch: str,
    found: FoundBranch,
) -> None:
    """Insert a branch as its files have it; of its snapshots, only the latest is known."""
    here = {"table_id": table_id, "branch": branch}
    row = {
        **here,
        "schema_id": found.schemas[-1].id,
        "snapshot_id": found.latest.id if found.latest else 0,
        "snapshot_uuid": found.latest.uuid if found.latest else None,
        "created_at": context.runtime.now_millis(),
    }
    connection.execute(insert(BranchRow), row)
    connection.execute(
        insert(SchemaRow),
        [
            {**here, "schema_id": schema.id, "document": schema.to_json()}
            for schema in found.schemas
        ],
    )
    if found.latest is not None:
        record = find_table(connection, context, branch_of(identifier, branch))
        insert_measured(connection, context, record, found.latest, found.measured)


def _schemas(files: FileAccess, identifier: Identifier, layout: TableLayout) -> list[TableSchema]:
    """All versions, oldest first; at least one."""
    ids = numbered_files(files.list(layout.schema_directory), "schema-")
    if not ids:
        raise no_table_there(identifier, layout.branch_location)
    return [read_schema_file(files, identifier, layout, number) for number in ids]
