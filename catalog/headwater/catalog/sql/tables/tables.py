"""Tables: how they are made, changed, renamed and dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.sql.admin.column_permissions import follow_columns, refuse_unasked_columns
from headwater.catalog.sql.admin.policies import refuse_policies_broken_by, refuse_unasked_readers
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import (
    BranchRow,
    SchemaRow,
    TableRow,
)
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.history.snapshots import SqlSnapshots
from headwater.catalog.sql.outbox.action import Action
from headwater.catalog.sql.outbox.mirror_files import PlaceTaken
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.audit import created, updated
from headwater.catalog.sql.queries.claimed_places import (
    Claim,
    claim,
    find_overlap,
    lock_places,
    overlap_error,
    refuse_overlap,
)
from headwater.catalog.sql.queries.lookup import TableRecord, find_table, table_busy
from headwater.catalog.sql.queries.names import check_table_name
from headwater.catalog.sql.tables.data_places import (
    DataOwner,
    claim_data_places,
    find_data_places,
)
from headwater.catalog.sql.tables.dropped_tables import SqlDroppedTables
from headwater.catalog.sql.tables.external_schemas import (
    ExternalSchemas,
    has_own_schemas,
    no_table_there,
    refuse_other_schema,
)
from headwater.catalog.sql.tables.places import (
    check_external_path,
    find_database,
    is_in_warehouse,
    is_readable,
    refuse_taken_name,
    table_claim,
    table_location,
)
from headwater.catalog.sql.tables.protection import refuse_protected
from headwater.catalog.sql.tables.register import Registrations
from headwater.catalog.sql.tables.replace import Replacements
from headwater.catalog.sql.tables.rows import drop_table_rows, lock_table
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    HeadwaterError,
    Invalid,
    NotFound,
    ResourceType,
    Unsupported,
)
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.files.location import new_folder
from headwater.storage.options import is_true
from headwater.storage.schema.chain import CHAIN_BRANCH_OPTIONS, chain_of
from headwater.storage.schema.change import SchemaChange, SetOption
from headwater.storage.schema.evolution import apply_changes
from headwater.storage.schema.other_branch import OTHER_BRANCH_OPTIONS, other_branch
from headwater.storage.schema.path_options import check_path_options
from headwater.storage.schema.rules import new_table_schema
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.schema.table_type import TableType, table_type

__all__ = ["SqlTables"]

_PATH = "path"
_ALTER_ATTEMPTS = 10
_CREATE_ATTEMPTS = 3


class SqlTables(Replacements, Registrations):
    """Implements `headwater.catalog.model.tables.Tables`.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Writes schema files, deletes dropped tables' files.
        external: Knows and changes the schemas of external tables.
        snapshots: The history of the tables.
        dropped: Keeps dropped tables that can be restored.
    """

    def __init__(
        self,
        context: CatalogContext,
        outbox: Outbox,
        external: ExternalSchemas,
        snapshots: SqlSnapshots,
        dropped: SqlDroppedTables,
    ) -> None:
        super().__init__(context, outbox, external, snapshots)
        self._dropped = dropped

    def create(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a table; its schema file is on storage when this returns.

        Where the server may not write, an external table's is not: its writers have to put it.
        """
        check_table_name(identifier)
        options = dict(schema.options)
        external = options.pop(_PATH, None)
        schema = replace(schema, options=options)
        path: str | None = None
        found: TableSchema | None = None
        if external is not None:
            path = table_location(identifier, external)
            try:
                self._check_place(identifier, path)
            except AlreadyExists:
                if ignore_if_exists:
                    return
                raise
            found = self._found(identifier, schema, path)
        now = self._context.runtime.now_millis()
        first = found or new_table_schema(schema, now)
        check_path_options(first.options)
        if path is not None:
            _check_external(identifier, first)
        table_id = self._insert_table(identifier, first, path, ignore_if_exists)
        if table_id is None:
            return
        try:
            if path is None:
                self._outbox.settle(table_id, MAIN_BRANCH)
            elif (
                found is None
                and table_type(first.options).has_snapshots
                and is_readable(self._context, path)
            ):
                self._external.begin(identifier, path, first)
        except HeadwaterError:
            # Nothing half done: without its schema file the table must not stay. Other decisions
            # cannot be taken back like this, and wait for storage to follow (`Outbox.finish`).
            self._sql.write(partial(self._take_back, identifier, table_id))
            raise

    def _take_back(self, identifier: Identifier, table_id: str, connection: Connection) -> None:
        """Undo a creation, of which there is an event already."""
        drop_table_rows(connection, self._outbox, table_id)
        details = {"reason": "storage refused the files of the new table"}
        subject = Subject.table(identifier, table_id)
        record_event(connection, self._context, EventType.DROP_TABLE, subject, details)

    def _check_place(self, identifier: Identifier, path: str) -> None:
        """Refuse a name or a place that is taken, before anything is looked for at the place."""
        check_external_path(self._context, identifier, path)
        with self._sql.read() as connection:
            database_id, _ = find_database(connection, self._context, identifier.database)
            refuse_taken_name(connection, database_id, identifier)
            wanted = table_claim(self._context, "", path, is_external=True)
            refuse_overlap(connection, wanted, f"table {identifier}")

    def _found(self, identifier: Identifier, schema: Schema, path: str) -> TableSchema | None:
        """The schema of a table that is at a place already, which the one that is asked for fits.

        Its columns may be left out, as by Paimon's own client: the files tell them.
        """
        is_without_columns = not schema.fields
        if not table_type(schema.options).has_snapshots:
            return None
        if not is_without_columns and not is_readable(self._context, path):
            return None
        try:
            found = self._external.latest(identifier, path)
        except Unsupported:
            if is_without_columns:
                raise
            return None
        if found is None:
            if is_without_columns:
                raise no_table_there(identifier, path)
            return None
        asked = schema
        if not is_without_columns:
            asked = new_table_schema(schema, found.time_millis).to_schema()
        refuse_other_schema(identifier, asked, found)
        return found

    def _insert_table(
        self,
        identifier: Identifier,
        schema: TableSchema,
        external_path: str | None,
        ignore_if_exists: bool,
    ) -> str | None:
        """The new table's id; None when the table exists and that is no error."""
        for _ in range(_CREATE_ATTEMPTS):
            try:
                return self._insert_once(identifier, schema, external_path)
            except AlreadyExists:
                if ignore_if_exists:
                    return None
                raise
            except IntegrityError:
                # The name or the directory was taken, or the database dropped, since we looked:
                # looking again tells which.
                continue
        raise Conflict(f"table {identifier} is being created and dropped by others; retry")

    def _insert_once(
        self, identifier: Identifier, schema: TableSchema, external_path: str | None
    ) -> str:
        if external_path is None:
            self._outbox.marker.require()
        table_id = self._context.runtime.new_uuid()
        database_id, path, wanted = self._find_place(identifier, table_id, external_path)
        now = self._context.runtime.now_millis()
        data = find_data_places(self._context, identifier, schema.options)
        owner = DataOwner(identifier, table_id, path, external_path is not None)
        kind = table_type(schema.options)
        if kind is TableType.OBJECT and external_path is None:
            # Its files are whatever lies there, and the programs that put them there look first.
            self._context.files.make_directory(path)

        def work(connection: Connection) -> None:
            if external_path is not None:
                lock_places(connection)
                refuse_overlap(connection, wanted, f"table {identifier}")
            table = {
                "id": table_id,
                "database_id": database_id,
                "name": identifier.table,
                "path": path,
                "is_external": external_path is not None,
                "kind": kind.value,
                **created(now),
            }
            connection.execute(insert(TableRow), table)
            branch = {"table_id": table_id, "branch": MAIN_BRANCH}
            connection.execute(
                insert(BranchRow), {**branch, "schema_id": schema.id, "snapshot_id": 0}
            )
            connection.execute(
                insert(SchemaRow),
                {**branch, "schema_id": schema.id, "document": schema.to_json()},
            )
            claim(connection, wanted)
            claim_data_places(connection, self._context, owner, data)
            if external_path is None and kind.has_snapshots:
                self._outbox.add(connection, Action.SCHEMA, table_id, MAIN_BRANCH)
            subject = Subject.table(identifier, table_id)
            record_event(connection, self._context, EventType.CREATE_TABLE, subject)

        self._sql.write(work)
        return table_id

    def _find_place(
        self, identifier: Identifier, table_id: str, external_path: str | None
    ) -> tuple[str, str, Claim]:
        """The database of a new table, the table's directory, and the claim of that.

        Raises:
            AlreadyExists, NotFound: The name is taken, or there is no such database.
            Invalid: The directory is outside the warehouse, or is another's.
        """
        with self._sql.read() as connection:
            database_id, location = find_database(connection, self._context, identifier.database)
            refuse_taken_name(connection, database_id, identifier)
            path = external_path or f"{location}/{new_folder(identifier.table, table_id)}"
            wanted = table_claim(
                self._context, table_id, path, is_external=external_path is not None
            )
            other = find_overlap(connection, wanted)
        if external_path is None:
            if not is_in_warehouse(self._context, path):
                raise Invalid(f"table {identifier}: {path} is outside the warehouse")
            if other is not None and not wanted.place.holds(other.place):
                raise overlap_error(f"table {identifier}", wanted, other)
            if other is not None or next(self._context.files.walk(path), None) is not None:
                # A renamed table's files, or somebody's: leave them and take a fresh directory.
                path = f"{path}-{table_id}"
                wanted = table_claim(self._context, table_id, path, is_external=False)
        return database_id, path, wanted

    def alter(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> None:
        """Apply changes, all or none; the new schema file is on storage when this returns."""
        for _ in range(_ALTER_ATTEMPTS):
            info = self.get(identifier)
            if has_own_schemas(info):
                if self._external.alter(info, changes):
                    return
                continue
            try:
                self._outbox.settle(info.id, identifier.branch)
            except PlaceTaken as error:
                # A schema's file must not wait behind a snapshot's that cannot be written.
                raise Conflict(f"table {identifier} cannot be changed: {error.message}") from error
            if self._alter_once(identifier, info, changes):
                changed = f"the schema of table {identifier} is changed"
                self._outbox.finish(info.id, identifier.branch, changed)
                return
        raise table_busy(identifier)

    def _alter_once(
        self, identifier: Identifier, info: TableInfo, changes: Sequence[SchemaChange]
    ) -> bool:
        """False when another change, or a first snapshot, came in between."""
        now = self._context.runtime.now_millis()
        before = info.schema.options
        options = {
            **before,
            **{each.key: each.value for each in changes if isinstance(each, SetOption)},
        }
        data = find_data_places(self._context, identifier, options, before)
        owner = DataOwner(identifier, info.id, info.path, info.is_external)

        def work(connection: Connection) -> bool:
            record = find_table(connection, self._context, identifier)
            if record.id != info.id or record.schema_id != info.schema.id:
                return False
            following = apply_changes(
                info.schema, changes, now_millis=now, has_snapshots=record.snapshot_id > 0
            )
            if following is info.schema:
                return True
            if _PATH in following.options:
                raise Invalid(f"table {identifier}: option 'path' cannot be changed")
            changed = update(BranchRow).where(
                BranchRow.table_id == record.id,
                BranchRow.branch == record.branch,
                BranchRow.schema_id == info.schema.id,
            )
            if record.snapshot_id == 0:
                changed = changed.where(BranchRow.snapshot_id == 0)
            if connection.execute(changed.values(schema_id=following.id)).rowcount != 1:
                return False
            _check_other_branch(connection, record, identifier, before, following)
            table = (record.id, identifier)
            if record.branch == MAIN_BRANCH:
                refuse_policies_broken_by(connection, record.id, identifier, following)
                follow_columns(connection, self._context, table, info.schema, following)
            else:
                refuse_unasked_readers(connection, record.id, identifier, info.schema, following)
                refuse_unasked_columns(connection, self._context, table, info.schema, following)
            claim_data_places(connection, self._context, owner, data)
            connection.execute(
                insert(SchemaRow),
                {
                    "table_id": record.id,
                    "branch": record.branch,
                    "schema_id": following.id,
                    "document": following.to_json(),
                },
            )
            connection.execute(
                update(TableRow).where(TableRow.id == record.id).values(**updated(now))
            )
            if record.kind.has_snapshots:
                self._outbox.add(
                    connection, Action.SCHEMA, record.id, record.branch, number=following.id
                )
            subject, details = Subject.table(identifier, record.id), of_branch(record.branch)
            details["schema"] = following.id
            record_event(connection, self._context, EventType.ALTER_TABLE, subject, details)
            return True

        return self._sql.write(work)

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Give a table another name; its files stay where they are, valid for every reader."""
        check_table_name(destination)

        def work(connection: Connection) -> None:
            table_id = self._main(connection, source)
            lock_table(connection, table_id)
            if self._main(connection, source) != table_id:
                # Dropped and kept meanwhile, it must not come back by another name.
                raise Conflict(f"table {source} is being dropped and created again; retry")
            database_id, _ = find_database(connection, self._context, destination.database)
            refuse_taken_name(connection, database_id, destination)
            connection.execute(
                update(TableRow)
                .where(TableRow.id == table_id)
                .values(
                    database_id=database_id,
                    name=destination.table,
                    **updated(self._context.runtime.now_millis()),
                )
            )
            subject, to = Subject.table(source, table_id), {"to": str(destination)}
            record_event(connection, self._context, EventType.RENAME_TABLE, subject, to)

        try:
            self._sql.write(work)
        except IntegrityError:
            # Lost a race for the name or the database: looking again gives the error.
            try:
                self._sql.write(work)
            except IntegrityError as error:
                raise Conflict(f"{destination} is being created and dropped; retry") from error

    def drop(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table; its files, too, unless it is external or can be restored."""
        self._outbox.marker.require()
        place = self._dropped.place() if self._dropped.are_kept else None

        def work(connection: Connection) -> str:
            table_id = self._main(connection, identifier)
            lock_table(connection, table_id)
            # Renamed, or dropped and created again, before the locks were taken.
            if self._main(connection, identifier) != table_id:
                raise Conflict(f"table {identifier} is being dropped and created again; retry")
            is_protected = connection.execute(
                select(TableRow.is_protected).where(TableRow.id == table_id)
            ).scalar_one()
            refuse_protected(ResourceType.TABLE, identifier, is_protected)
            if place is None:
                drop_table_rows(connection, self._outbox, table_id)
            else:
                self._dropped.put_away(connection, place, table_id, identifier)
            subject = Subject.table(identifier, table_id)
            record_event(connection, self._context, EventType.DROP_TABLE, subject)
            return table_id

        try:
            table_id = self._sql.write(work)
        except NotFound:
            if ignore_if_not_exists:
                return
            raise
        if place is None:
            self._outbox.finish(table_id, MAIN_BRANCH, f"table {identifier} is dropped")

    def _main(self, connection: Connection, identifier: Identifier) -> str:
        if identifier.branch != MAIN_BRANCH:
            raise Invalid(f"{identifier} names a branch; name the table itself")
        return find_table(connection, self._context, identifier).id


def _check_other_branch(
    connection: Connection,
    record: TableRecord,
    identifier: Identifier,
    before: Mapping[str, str],
    schema: TableSchema,
) -> None:
    """Refuse options that name a branch which is not there (SchemaValidation.java)."""
    options = OTHER_BRANCH_OPTIONS + CHAIN_BRANCH_OPTIONS
    if all(before.get(key) == schema.options.get(key) for key in options):
        return
    other = other_branch(str(identifier), record.branch, schema)
    chain = chain_of(record.branch, schema)
    named = [] if other is None else [other[0]]
    if chain is not None:
        named += [chain.snapshot_branch, chain.delta_branch]
    for branch in named:
        found = select(BranchRow.branch).where(
            BranchRow.table_id == record.id, BranchRow.branch == branch
        )
        if connection.execute(found).first() is None:
            raise Invalid(
                f"table {identifier} has no branch '{branch}', which one of {', '.join(options)} "
                "names; create it first"
            )


def _check_external(identifier: Identifier, schema: TableSchema) -> None:
    # CatalogUtils.validateCatalogManagedFormatTablePartitions
    in_catalog = is_true(schema.options, "metastore.partitioned-table")
    if in_catalog and table_type(schema.options) is TableType.FORMAT:
        raise Invalid(
            f"table {identifier}: the catalog keeps the partitions ('metastore.partitioned-table') "
            "of format tables whose files are its own; leave option 'path' or this one out"
        )
