"""Look-ups of several tables in one statement, for a server that is asked for many at a time.

Each is by the same indexes as alone. Only the plain case is told: what is not there, or waits for
storage, or is a branch, or an external table, is left to the ordinary reads, which know what to do
and what to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from sqlalchemy import exists, literal_column, or_

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import (
    BranchRow,
    OutboxRow,
    SchemaRow,
    SnapshotRow,
    TableRow,
)
from headwater.catalog.sql.database.prepared import Prepared
from headwater.catalog.sql.outbox.action import SCHEMA_ACTIONS
from headwater.catalog.sql.queries.named_tables import about_tables, place_values
from headwater.catalog.sql.tables.reads import SCHEMA_OF_BRANCH, TABLE_COLUMNS
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["MOST_AT_ONCE", "BulkReads", "StoredSnapshot", "StoredTable"]

V = TypeVar("V")

MOST_AT_ONCE = 32
"""The number of look-ups that one statement takes."""


@dataclass(frozen=True)
class StoredTable:
    """A table with its latest schema, as the database has it; see `TableInfo`.

    Its fields after `identifier` are those of `TABLE_COLUMNS`, in their order.

    Attributes:
        document: The schema's JSON.
    """

    identifier: Identifier
    id: str
    path: str
    is_external: bool
    owner: str | None
    created_at: int
    created_by: str | None
    updated_at: int
    updated_by: str | None
    document: str

    def info(self) -> TableInfo:
        """The same, its schema read."""
        return TableInfo(
            id=self.id,
            identifier=self.identifier,
            path=self.path,
            is_external=self.is_external,
            schema=TableSchema.from_json(self.document, f"the schema of table {self.identifier}"),
            owner=self.owner,
            created_at=self.created_at,
            created_by=self.created_by,
            updated_at=self.updated_at,
            updated_by=self.updated_by,
        )


@dataclass(frozen=True)
class StoredSnapshot:
    """A table's latest snapshot, as the database has it; see `SnapshotInfo`.

    Attributes:
        document: The snapshot's JSON.
    """

    document: str
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int


@dataclass(frozen=True)
class _Look(Generic[V]):
    """A way to look things of one kind up.

    Attributes:
        statement: For so many of them: their places among those asked for, whether storage has yet
            to follow, the table's id, and columns.
        read: Makes one from its name, its table's id and its columns; None for what needs a closer
            look.
    """

    statement: Callable[[int], Prepared]
    read: Callable[[Identifier, str, Sequence[Any]], V | None]

    def found(
        self, identifiers: Sequence[Identifier], rows: Iterable[Sequence[Any]]
    ) -> Sequence[V | None]:
        """The things found; None for one that was not, waits for storage, or is another table's."""
        values_read: list[V | None] = [None] * len(identifiers)
        for at, is_pending, table_id, *values in rows:
            if is_pending or at >= len(identifiers):
                continue
            if identifiers[at].table_id in (None, table_id):
                values_read[at] = self.read(identifiers[at], table_id, values)
        return values_read


class BulkReads:
    """Reads of one warehouse's tables.

    Args:
        context: The warehouse, its database and its storage.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._context = context

    def tables(self, identifiers: Sequence[Identifier]) -> Sequence[StoredTable | None]:
        """Each table whose schema file is on storage; None for what needs a closer look.

        Raises:
            Unavailable: The database did not answer.
        """
        return self._look(_TABLES, identifiers)

    async def tables_soon(self, identifiers: Sequence[Identifier]) -> Sequence[StoredTable | None]:
        """Likewise, for an event loop."""
        return await self._look_soon(_TABLES, identifiers)

    def latest_snapshots(
        self, identifiers: Sequence[Identifier]
    ) -> Sequence[StoredSnapshot | None]:
        """Each table's latest snapshot whose file is on storage; None for what needs a closer look.

        Raises:
            Unavailable: The database did not answer.
        """
        return self._look(_SNAPSHOTS, identifiers)

    async def latest_snapshots_soon(
        self, identifiers: Sequence[Identifier]
    ) -> Sequence[StoredSnapshot | None]:
        """Likewise, for an event loop."""
        return await self._look_soon(_SNAPSHOTS, identifiers)

    def _look(self, look: _Look[V], identifiers: Sequence[Identifier]) -> Sequence[V | None]:
        statement, values = self._question(look, identifiers)
        with self._context.database.read() as connection:
            return look.found(identifiers, statement.run(connection, **values))

    async def _look_soon(
        self, look: _Look[V], identifiers: Sequence[Identifier]
    ) -> Sequence[V | None]:
        reads = self._context.database.async_reads()
        if reads is None:
            return await asyncio.to_thread(self._look, look, identifiers)
        statement, values = self._question(look, identifiers)
        return look.found(identifiers, await reads.rows(statement, **values))

    def _question(
        self, look: _Look[V], identifiers: Sequence[Identifier]
    ) -> tuple[Prepared, Mapping[str, str]]:
        count, names = place_values(
            [(name.database, name.name, MAIN_BRANCH) for name in identifiers]
        )
        return look.statement(count), {"warehouse": self._context.warehouse, **names}


@cache
def _tables(count: int) -> Prepared:
    pending = exists().where(
        OutboxRow.table_id == BranchRow.table_id,
        OutboxRow.branch == BranchRow.branch,
        or_(*(OutboxRow.action == literal_column(f"'{action}'") for action in SCHEMA_ACTIONS)),
    )
    columns = (pending.label("is_pending"), *TABLE_COLUMNS)
    return about_tables(count, columns, [(SchemaRow, SCHEMA_OF_BRANCH)])


@cache
def _snapshots(count: int) -> Prepared:
    pending = exists().where(
        OutboxRow.table_id == BranchRow.table_id, OutboxRow.branch == BranchRow.branch
    )
    columns = (
        pending.label("is_pending"),
        TableRow.id,
        SnapshotRow.document,
        SnapshotRow.record_count,
        SnapshotRow.file_size_in_bytes,
        SnapshotRow.file_count,
        SnapshotRow.last_file_creation_time,
    )
    latest = (
        (SnapshotRow.table_id == BranchRow.table_id)
        & (SnapshotRow.branch == BranchRow.branch)
        & (SnapshotRow.snapshot_id == BranchRow.snapshot_id)
    )
    # External tables have none here: nothing is ever committed to them.
    return about_tables(count, columns, [(SnapshotRow, latest)])


def _stored_table(
    identifier: Identifier, table_id: str, values: Sequence[Any]
) -> StoredTable | None:
    path, is_external, *others = values
    if is_external:
        return None  # Its files tell its schema.
    return StoredTable(identifier, table_id, path, False, *others)


_TABLES = _Look(_tables, _stored_table)
_SNAPSHOTS = _Look(_snapshots, lambda _name, _id, values: StoredSnapshot(*values))
