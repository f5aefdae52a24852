"""The schemas of external tables, as the table's files have them, whichever engine wrote those.

The database keeps what was seen last, for lists and for places that this catalog does not reach.
A change is decided by who first puts the next file, as without a catalog: no file of
another engine is ever overwritten, and no crash leaves anything to repair. Source:
``SchemaManager.commitChanges``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from headwater.catalog.model.branches import check_branch_name
from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import current_name
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.sql.admin.column_permissions import follow_columns, refuse_unasked_columns
from headwater.catalog.sql.admin.policies import refuse_policies_broken_by
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import BranchRow, SchemaRow, TableRow
from headwater.catalog.sql.events.record import of_branch, record_event
from headwater.catalog.sql.outbox.mirror_files import numbered_files
from headwater.catalog.sql.queries.lookup import lock_branch
from headwater.catalog.sql.tables.data_places import (
    DataOwner,
    claim_data_places,
    find_data_places,
    note_data_places,
)
from headwater.catalog.sql.tables.places import check_readable, is_readable
from headwater.storage.errors import (
    Conflict,
    HeadwaterError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
)
from headwater.storage.files.access import FileAccess
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.schema.change import SchemaChange
from headwater.storage.schema.evolution import apply_changes
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.schema.table_type import table_type
from headwater.storage.snapshot.files import snapshot_file_ids
from headwater.storage.types.data_type import DataField

__all__ = [
    "ExternalSchemas",
    "has_own_schemas",
    "no_table_there",
    "read_schema_file",
    "refuse_other_schema",
]

_LOG = logging.getLogger(__name__)

_PATH = "path"
_OWNER = "owner"
_PREFIX = "schema-"
_ATTEMPTS = 5


def has_own_schemas(info: TableInfo) -> bool:
    """Whether the files of a table, and not the catalog, have its schema."""
    return info.is_external and table_type(info.schema.options).has_snapshots


def no_table_there(identifier: Identifier, location: str) -> Invalid:
    """The error about a place without a table."""
    return Invalid(
        f"table {identifier}: no table at {location}, which lacks the file schema/schema-0"
    )


def read_schema_file(
    files: FileAccess, identifier: Identifier, layout: TableLayout, schema_id: int
) -> TableSchema:
    """A schema from its file, without the table's place, which is told beside it.

    Raises:
        NotFound: The file does not exist.
        CorruptData: It is not a schema.
        Unsupported: It says that the table is of a type that has no schema files.
    """
    path = layout.schema(schema_id)
    schema = TableSchema.from_json(files.read(path), path)
    options = {key: value for key, value in schema.options.items() if key != _PATH}
    if not table_type(options).has_snapshots:
        raise Unsupported(
            f"table {identifier}: {layout.location} says that it is of type {table_type(options)}, "
            "which has no schema files; create it instead"
        )
    return replace(schema, options=options)


def refuse_other_schema(identifier: Identifier, asked: Schema, found: TableSchema) -> None:
    """Refuse to create a table at a place where one with another schema is.

    What is left out is as the files have it (``SchemaManager.checkSchemaForExternalTable``).

    Raises:
        Invalid: Columns, keys or an option differ.
    """
    for what, wanted, there in (
        ("columns", _shape(asked.fields), _shape(found.fields)),
        ("partition keys", asked.partition_keys, found.partition_keys),
        ("primary keys", asked.primary_keys, found.primary_keys),
    ):
        if wanted and wanted != there:
            raise Invalid(
                f"table {identifier}: the existing table has the {what} "
                f"{', '.join(map(str, there)) or 'none'}, not {', '.join(map(str, wanted))}; leave "
                "the columns and keys out to take them from its files"
            )
    for key, value in asked.options.items():
        if key != _OWNER and found.options.get(key) != value:
            raise Invalid(
                f"table {identifier}: option '{key}' of the existing table is "
                f"{found.options.get(key)!r}, not {value!r}; leave it out, and change it afterwards"
            )


def _shape(fields: Sequence[DataField]) -> tuple[str, ...]:
    """Columns without their ids."""
    return tuple(f"`{field.name}` {field.type}" for field in fields)


class ExternalSchemas:
    """The schemas of one warehouse's external tables.

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._context = context

    def latest(self, identifier: Identifier, location: str) -> TableSchema | None:
        """The newest schema that the files at a place tell; None without a schema file.

        Raises:
            CorruptData: It is not a schema.
            Unsupported: No file access reaches the place, or no Paimon table is there.
            Forbidden, Unavailable: The place cannot be read.
        """
        check_readable(self._context, identifier, location)
        return self._newest(identifier, TableLayout(location))

    def refreshed(self, info: TableInfo) -> TableInfo:
        """The table with the newest schema that its files tell, which the catalog remembers.

        What the catalog remembers is all there is where it may not read, and where nobody has
        written a schema file yet. Else it costs a listing and a file, as a catalog that is nothing
        but files.

        Raises:
            CorruptData: The newest file is not a schema.
            Forbidden, Unavailable: The place cannot be read.
        """
        if not has_own_schemas(info) or not is_readable(self._context, info.path):
            return info
        try:
            self._context.files_at(info.path)
        except Unsupported:
            return info  # Out of reach, and always so: the table was created with its columns.
        newest = self._newest(info.identifier, TableLayout(info.path))
        if newest is None or newest == info.schema:
            return info
        return self._remember(info, newest, by=None)

    def branch(self, main: TableInfo, identifier: Identifier) -> TableInfo | None:
        """A branch of an external table as its files tell it; None when it does not exist."""
        if not has_own_schemas(main) or not is_readable(self._context, main.path):
            return None
        try:
            # Of a branch that is in its files alone, the name leads to them: not out of them.
            check_branch_name(identifier.branch, is_new=False)
        except Invalid:
            return None
        newest = self._newest(identifier, TableLayout(main.path, identifier.branch))
        return None if newest is None else replace(main, identifier=identifier, schema=newest)

    def alter(self, info: TableInfo, changes: Sequence[SchemaChange]) -> bool:
        """Put the next schema file; False when the table has another schema by now.

        Raises:
            NotFound, AlreadyExists, Invalid: A change is not allowed.
            Forbidden: This catalog may not write at that place, or storage refuses.
            OutcomeUnknown: Storage did not answer.
        """
        identifier = info.identifier
        check_readable(self._context, identifier, info.path)
        layout = TableLayout(info.path, identifier.branch)
        files = self._context.files_at(info.path)
        newest = self._newest(identifier, layout)
        if newest is not None and newest != info.schema:
            return False
        following = apply_changes(
            info.schema,
            changes,
            now_millis=self._context.runtime.now_millis(),
            has_snapshots=bool(snapshot_file_ids(files, layout)),
        )
        if following is info.schema:
            return True
        if _PATH in following.options:
            raise Invalid(f"table {identifier}: option 'path' cannot be changed")
        if identifier.branch == MAIN_BRANCH:
            with self._context.database.read() as connection:
                refuse_policies_broken_by(connection, info.id, identifier, following)
                table = (info.id, identifier)
                refuse_unasked_columns(connection, self._context, table, info.schema, following)
        self._claim_data_places(info, following)
        if newest is None and not self._put(identifier, layout, info.schema):
            return False
        if not self._put(identifier, layout, following):
            return False
        self._remember(info, following, by=current_name())
        self._recorded(info, following)
        return True

    def _recorded(self, info: TableInfo, following: TableSchema) -> None:
        """Leave an event of a change, which is done: its file is the truth."""
        subject = Subject.table(info.identifier, info.id)
        details = {"schema": following.id, **of_branch(info.identifier.branch)}

        def work(connection: Connection) -> None:
            lock_branch(connection, info.id, MAIN_BRANCH)
            record_event(connection, self._context, EventType.ALTER_TABLE, subject, details)

        try:
            self._context.database.write(work)
        except HeadwaterError as error:
            _LOG.warning("table %s: its new schema got no event: %s", info.identifier, error)

    def begin(self, identifier: Identifier, location: str, schema: TableSchema) -> None:
        """Put the first schema file of a new table.

        Raises:
            Conflict: Another engine made a table there at the same time.
            OutcomeUnknown: Storage did not answer.
        """
        if not self._put(identifier, TableLayout(location), schema):
            raise Conflict(
                f"table {identifier}: another engine is making a table at {location}; look, then "
                "register it"
            )

    def _claim_data_places(self, info: TableInfo, following: TableSchema) -> None:
        """Claim what a new schema names, which a schema that is not written after all leaves."""
        context = self._context
        before = info.schema.options
        data = find_data_places(context, info.identifier, following.options, before)
        owner = DataOwner(info.identifier, info.id, info.path, is_external=True)
        if data:
            context.database.write(
                lambda connection: claim_data_places(connection, context, owner, data)
            )

    def _newest(self, identifier: Identifier, layout: TableLayout) -> TableSchema | None:
        files = self._context.files_at(layout.location)
        for _ in range(_ATTEMPTS):
            ids = numbered_files(files.list(layout.schema_directory), _PREFIX)
            if not ids:
                return None
            try:
                return read_schema_file(files, identifier, layout, ids[-1])
            except NotFound:
                continue  # taken back by another engine since we looked
        raise Conflict(f"table {identifier}: others keep changing its schema; retry")

    def _put(self, identifier: Identifier, layout: TableLayout, schema: TableSchema) -> bool:
        """False when there is another file of that number."""
        files, path = self._context.files_at(layout.location), layout.schema(schema.id)
        document = schema.to_json().encode()
        try:
            # The same file is there where the answer to a first try was lost.
            return files.write_if_absent(path, document) or files.read(path) == document
        except NotFound:
            return False
        except Unavailable as error:
            raise OutcomeUnknown(
                f"table {identifier}: whether {path} was written is not known: {error.message}; "
                "look at the table, then repeat it if need be"
            ) from error

    def _remember(self, info: TableInfo, found: TableSchema, by: str | None) -> TableInfo:
        """The table with that schema; the files are the truth, so nothing is lost with a note."""
        now = replace(info, schema=found, updated_at=found.time_millis, updated_by=by)
        if info.identifier.branch != MAIN_BRANCH:
            return now
        context = self._context
        try:
            context.database.write(lambda connection: _store(connection, context, info, now))
        except (HeadwaterError, IntegrityError) as error:
            _LOG.warning("table %s: its new schema is not noted: %s", info.identifier, error)
        return now


def _store(
    connection: Connection, context: CatalogContext, before: TableInfo, now: TableInfo
) -> None:
    lock_branch(connection, before.id, MAIN_BRANCH)
    schema, document = now.schema, now.schema.to_json()
    here = (BranchRow.table_id == before.id, BranchRow.branch == MAIN_BRANCH)
    seen = connection.execute(select(BranchRow.schema_id).where(*here)).scalar_one_or_none()
    if seen != before.schema.id:
        return  # dropped, or somebody noted what they saw
    row = {"table_id": before.id, "branch": MAIN_BRANCH, "schema_id": schema.id}
    this = (
        SchemaRow.table_id == before.id,
        SchemaRow.branch == MAIN_BRANCH,
        SchemaRow.schema_id == schema.id,
    )
    # There is one of that number, and another, where an engine took a schema back.
    if connection.execute(select(SchemaRow.schema_id).where(*this)).one_or_none() is None:
        connection.execute(insert(SchemaRow), {**row, "document": document})
    else:
        connection.execute(update(SchemaRow).where(*this).values(document=document))
    connection.execute(update(BranchRow).where(*here).values(schema_id=schema.id))
    table = (before.id, before.identifier)
    follow_columns(connection, context, table, before.schema, schema, may_refuse=False)
    updated = {"updated_at": now.updated_at, "updated_by": now.updated_by}
    connection.execute(update(TableRow).where(TableRow.id == before.id).values(**updated))
    owner = DataOwner(now.identifier, now.id, now.path, is_external=True)
    note_data_places(connection, context, owner, schema.options)
