"""Look-ups of several tables in one statement, for a server that is asked for many at a time.

Each is by the same indexes as alone. Only the plain case is told: what is not there, or waits for
storage, or is a branch, is left to the ordinary reads, which know what to do and what to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, exists, literal_column, or_, select, union_all

from headwater.catalog.identifier import Identifier
from headwater.catalog.protocol import TableInfo
from headwater.catalog.sql.context import CatalogContext
from headwater.catalog.sql.models import (
    BranchRow,
    DatabaseRow,
    OutboxRow,
    SchemaRow,
    SnapshotRow,
    TableRow,
)
from headwater.catalog.sql.outbox import SCHEMA_ACTIONS
from headwater.catalog.sql.prepared import Prepared
from headwater.storage.layout import MAIN_BRANCH
from headwater.storage.schema import TableSchema

__all__ = ["MOST_AT_ONCE", "BulkReads", "StoredSnapshot", "StoredTable"]

MOST_AT_ONCE = 32
"""How many look-ups one statement takes."""


@dataclass(frozen=True)
class StoredTable:
    """A table with its latest schema, as the database has it; see `TableInfo`.

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


class BulkReads:
    """Reads of one warehouse's tables.

    Args:
        context: Where and with what.
    """

    def __init__(self, context: CatalogContext) -> None:
        self._context = context

    def tables(self, identifiers: Sequence[Identifier]) -> Sequence[StoredTable | None]:
        """Each table whose schema file is on storage; None for what needs a closer look.

        Raises:
            Unavailable: The database did not answer.
        """
        found: list[StoredTable | None] = [None] * len(identifiers)
        with self._context.database.read() as connection:
            rows = _tables(len(identifiers)).run(connection, **self._names(identifiers))
            for at, is_pending, table_id, path, is_external, *values in rows:
                if not is_pending:
                    place = (table_id, path, bool(is_external))
                    found[at] = StoredTable(identifiers[at], *place, *values)
        return found

    def latest_snapshots(
        self, identifiers: Sequence[Identifier]
    ) -> Sequence[StoredSnapshot | None]:
        """Each table's latest snapshot whose file is on storage; None for what needs a closer look.

        Raises:
            Unavailable: The database did not answer.
        """
        found: list[StoredSnapshot | None] = [None] * len(identifiers)
        with self._context.database.read() as connection:
            rows = _snapshots(len(identifiers)).run(connection, **self._names(identifiers))
            for at, is_pending, *values in rows:
                if not is_pending:
                    found[at] = StoredSnapshot(*values)
        return found

    def _names(self, identifiers: Sequence[Identifier]) -> Mapping[str, str]:
        names = {"warehouse": self._context.warehouse}
        for at, identifier in enumerate(identifiers):
            names[f"database_{at}"] = identifier.database
            names[f"table_{at}"] = identifier.name
        return names


@cache
def _tables(count: int) -> Prepared:
    pending = exists().where(
        OutboxRow.table_id == BranchRow.table_id,
        OutboxRow.branch == BranchRow.branch,
        or_(*(OutboxRow.action == literal_column(f"'{action}'") for action in SCHEMA_ACTIONS)),
    )
    columns = (
        pending.label("is_pending"),
        TableRow.id,
        TableRow.path,
        TableRow.is_external,
        TableRow.owner,
        TableRow.created_at,
        TableRow.created_by,
        TableRow.updated_at,
        TableRow.updated_by,
        SchemaRow.document,
    )
    schema = (
        (SchemaRow.table_id == BranchRow.table_id)
        & (SchemaRow.branch == BranchRow.branch)
        & (SchemaRow.schema_id == BranchRow.schema_id)
    )
    return _union(
        [
            _named(select(literal_column(str(at)), *columns), at).join(SchemaRow, schema)
            for at in range(count)
        ]
    )


@cache
def _snapshots(count: int) -> Prepared:
    pending = exists().where(
        OutboxRow.table_id == BranchRow.table_id, OutboxRow.branch == BranchRow.branch
    )
    columns = (
        pending.label("is_pending"),
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
    return _union(
        [
            _named(select(literal_column(str(at)), *columns), at).join(SnapshotRow, latest)
            for at in range(count)
        ]
    )


def _union(queries: Sequence[Select[*tuple[Any, ...]]]) -> Prepared:
    return Prepared(union_all(*queries) if len(queries) > 1 else queries[0])


def _named(query: Select[*tuple[Any, ...]], at: int) -> Select[*tuple[Any, ...]]:
    return (
        query.select_from(DatabaseRow)
        .join(TableRow, TableRow.database_id == DatabaseRow.id)
        .join(BranchRow, BranchRow.table_id == TableRow.id)
        .where(
            DatabaseRow.warehouse == bindparam("warehouse"),
            DatabaseRow.name == bindparam(f"database_{at}"),
            TableRow.name == bindparam(f"table_{at}"),
            BranchRow.branch == literal_column(f"'{MAIN_BRANCH}'"),
        )
    )
