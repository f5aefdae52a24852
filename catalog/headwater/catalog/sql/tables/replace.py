"""Replacing a table: another schema, no data, the same id and history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, delete, insert, select, update
from sqlalchemy.engine import Connection

from headwater.catalog.model.events import EventType, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.sql.admin.column_permissions import follow_columns
from headwater.catalog.sql.admin.policies import refuse_policies_broken_by
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import BranchRow, PartitionRow, SchemaRow, TableRow
from headwater.catalog.sql.events.record import record_event
from headwater.catalog.sql.history.commit import Offer
from headwater.catalog.sql.history.snapshot_reads import settled_table
from headwater.catalog.sql.history.snapshots import SqlSnapshots
from headwater.catalog.sql.outbox.action import Action
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.audit import updated
from headwater.catalog.sql.queries.lookup import TableRecord, find_table, read_table, table_busy
from headwater.catalog.sql.tables.data_places import (
    DataOwner,
    DataPlace,
    claim_data_places,
    find_data_places,
)
from headwater.catalog.sql.tables.external_schemas import ExternalSchemas
from headwater.catalog.sql.tables.reads import TableReads
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Conflict, Invalid, Unsupported
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.files.location import Place
from headwater.storage.schema.rules import replacing_schema
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.schema.table_type import TableType, table_type
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics, TableStorage

__all__ = ["Replacements"]

_ATTEMPTS = 10


class _Moved(Conflict):
    """The table's schema, or its first snapshot, came in between."""


@dataclass(frozen=True)
class _Pointer:
    """Lets the snapshot that empties a table be decided together with the table's schema."""

    identifier: Identifier
    table_id: str
    snapshots: SqlSnapshots
    also: Callable[[Connection, TableRecord], None]

    def latest(self) -> Snapshot | None:
        found = self.snapshots.latest(self.identifier)
        return None if found is None else found.snapshot

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        base_uuid = None if base is None else base.uuid
        offer = Offer(self.identifier, self.table_id, snapshot, base_uuid, statistics)
        return self.snapshots.commits.commit(offer, self.also)

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        return self.snapshots.was_taken(self.identifier, snapshot)


class Replacements(TableReads):
    """Another schema and no data for tables that exist (``AbstractCatalog.replaceTable``).

    Paimon empties the table first and then adds the schema; here one transaction does both, so
    that no crash leaves the old schema without its data.

    Args:
        context, outbox, external: As for `TableReads`.
        snapshots: Tells what a table holds, and commits the snapshot that empties it.
    """

    def __init__(
        self,
        context: CatalogContext,
        outbox: Outbox,
        external: ExternalSchemas,
        snapshots: SqlSnapshots,
    ) -> None:
        super().__init__(context, outbox, external)
        self._snapshots = snapshots

    def replace(self, identifier: Identifier, schema: Schema) -> None:
        """Give a table another schema and take its data out of sight.

        Raises:
            NotFound: There is no such table (TABLE).
            Invalid: The schema is not allowed, or moves the table.
            Unsupported: The table is external or not made of Paimon's files, or is partitioned in
                another way.
        """
        if identifier.branch != MAIN_BRANCH:
            raise Invalid(f"{identifier} names a branch; name the table itself")
        _refuse_kind(identifier, read_table(self._context, identifier).kind)
        for _ in range(_ATTEMPTS):
            record = settled_table(self._context, self._outbox, identifier)
            info = self.get(identifier)
            if info.id != record.id or info.schema.id != record.schema_id:
                continue
            following = self._following(identifier, info, schema)
            options = following.options
            data = find_data_places(self._context, identifier, options, info.schema.options)
            try:
                if record.snapshot_id > 0:
                    self._empty(identifier, info, following, data)
                else:
                    self._keep_empty(info, following, data)
            except _Moved:
                continue
            self._outbox.finish(info.id, MAIN_BRANCH, f"table {identifier} is replaced")
            return
        raise table_busy(identifier)

    def _following(self, identifier: Identifier, info: TableInfo, schema: Schema) -> TableSchema:
        options = dict(schema.options)
        # What Java's client gets to know of a table has its path, and may come back.
        path = options.pop("path", None)
        if path is not None and Place.of(path) != Place.of(info.path):
            raise Invalid(
                f"table {identifier}: option 'path' is '{path}', but a table that is replaced "
                f"stays at {info.path}; leave the option out"
            )
        kind = table_type(options)
        _refuse_kind(identifier, kind)
        now = self._context.runtime.now_millis()
        return replacing_schema(info.schema, replace(schema, options=options), now)

    def _empty(
        self,
        identifier: Identifier,
        info: TableInfo,
        following: TableSchema,
        data: Sequence[DataPlace],
    ) -> None:
        storage = TableStorage(
            str(identifier),
            TableLayout(info.path),
            self._context.files,
            info.schema,
            self._context.runtime,
        )

        def also(connection: Connection, record: TableRecord) -> None:
            self._set_schema(connection, info, following, data)
            # A partition without data, if it was made so, goes with the others.
            here = (PartitionRow.table_id == info.id, PartitionRow.branch == MAIN_BRANCH)
            connection.execute(delete(PartitionRow).where(*here))

        pointer = _Pointer(identifier, info.id, self._snapshots, also)
        user = f"replace-table-{self._context.runtime.new_uuid()}"
        TableCommit(storage, pointer, user).truncate()

    def _keep_empty(
        self, info: TableInfo, following: TableSchema, data: Sequence[DataPlace]
    ) -> None:
        def work(connection: Connection) -> None:
            if find_table(connection, self._context, info.identifier).id != info.id:
                raise _Moved(f"table {info.identifier} was changed meanwhile; retry")
            self._set_schema(connection, info, following, data, BranchRow.snapshot_id == 0)

        self._context.database.write(work)

    def _set_schema(
        self,
        connection: Connection,
        info: TableInfo,
        following: TableSchema,
        data: Sequence[DataPlace],
        *conditions: ColumnElement[bool],
    ) -> None:
        here = (BranchRow.table_id == info.id, BranchRow.branch == MAIN_BRANCH)
        changed = connection.execute(
            update(BranchRow)
            .where(*here, BranchRow.schema_id == info.schema.id, *conditions)
            .values(schema_id=following.id)
        )
        if changed.rowcount != 1:
            if self._is_done(connection, info, following):
                return
            raise _Moved(f"table {info.identifier} was changed meanwhile; retry")
        refuse_policies_broken_by(connection, info.id, info.identifier, following)
        follow_columns(
            connection,
            self._context,
            (info.id, info.identifier),
            info.schema,
            following,
            is_successor=False,
        )
        owner = DataOwner(info.identifier, info.id, info.path, info.is_external)
        claim_data_places(connection, self._context, owner, data)
        connection.execute(
            insert(SchemaRow),
            {
                "table_id": info.id,
                "branch": MAIN_BRANCH,
                "schema_id": following.id,
                "document": following.to_json(),
            },
        )
        values = {
            **updated(following.time_millis),
            "kind": table_type(following.options).value,
        }
        connection.execute(update(TableRow).where(TableRow.id == info.id).values(values))
        self._outbox.add(connection, Action.SCHEMA, info.id, MAIN_BRANCH, number=following.id)
        subject = Subject.table(info.identifier, info.id)
        details = {"schema": following.id}
        record_event(connection, self._context, EventType.REPLACE_TABLE, subject, details)

    def _is_done(self, connection: Connection, info: TableInfo, following: TableSchema) -> bool:
        """True if the answer to this very change was lost."""
        stored = connection.execute(
            select(SchemaRow.document).where(
                SchemaRow.table_id == info.id,
                SchemaRow.branch == MAIN_BRANCH,
                SchemaRow.schema_id == following.id,
            )
        ).scalar_one_or_none()
        return bool(stored == following.to_json())


def _refuse_kind(identifier: Identifier, kind: TableType) -> None:
    if not kind.has_snapshots:
        # The first words are Paimon's own, which its clients look for.
        kinds = f"{kind.value.replace('-', ' ')}s"
        raise Unsupported(
            f"replaceTable does not support {kinds}: drop table {identifier}, then create the other"
        )
