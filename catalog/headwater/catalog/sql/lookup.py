"""From names to rows, and the errors about names that lead nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, exists, select
from sqlalchemy.engine import Connection

from headwater.catalog.identifier import Identifier
from headwater.catalog.protocol import Page
from headwater.catalog.sql.context import CatalogContext
from headwater.catalog.sql.models import BranchRow, DatabaseRow, OutboxRow, TableRow
from headwater.catalog.sql.prepared import Prepared
from headwater.storage.errors import NotFound, ResourceType, Unsupported
from headwater.storage.layout import TableLayout
from headwater.storage.table_type import TableType

__all__ = [
    "TableRecord",
    "database_not_found",
    "find_table",
    "lock_branch",
    "name_page",
    "read_table",
    "table_not_found",
]


@dataclass(frozen=True)
class TableRecord:
    """A table and branch as the database has it at one moment.

    Attributes:
        identifier: What was asked for.
        id: The table's UUID.
        path: Its URI.
        is_external: Whether its files are not the catalog's.
        kind: Its type.
        branch: The branch.
        schema_id: The latest schema's version.
        snapshot_id: The latest snapshot; 0 for none.
        snapshot_uuid: Its uuid, if it has one.
        is_pending: Whether storage has yet to follow a decision about it.
    """

    identifier: Identifier
    id: str
    path: str
    is_external: bool
    kind: TableType
    branch: str
    schema_id: int
    snapshot_id: int
    snapshot_uuid: str | None
    is_pending: bool

    @property
    def layout(self) -> TableLayout:
        """Where its files are."""
        return TableLayout(self.path, self.branch)

    def require_managed(self) -> None:
        """Refuse an external table, whose snapshots its own files decide; raises Unsupported."""
        if self.is_external:
            raise Unsupported(
                f"table {self.identifier} is external: its snapshots are in its files at "
                f"{self.path}, the catalog neither keeps nor commits them",
                resource_type=ResourceType.TABLE,
                resource_name=str(self.identifier),
            )

    def require_snapshots(self) -> None:
        """Refuse a table whose snapshots the catalog does not keep; raises Unsupported."""
        self.require_managed()
        if not self.kind.has_snapshots:
            raise Unsupported(
                f"table {self.identifier} is of type {self.kind}: it has no snapshots, its files "
                f"are in {self.path}",
                resource_type=ResourceType.TABLE,
                resource_name=str(self.identifier),
            )


_FIND_TABLE = Prepared(
    select(
        TableRow.id,
        TableRow.path,
        TableRow.is_external,
        TableRow.kind,
        BranchRow.schema_id,
        BranchRow.snapshot_id,
        BranchRow.snapshot_uuid,
        exists()
        .where(OutboxRow.table_id == BranchRow.table_id, OutboxRow.branch == BranchRow.branch)
        .label("is_pending"),
    )
    .join(DatabaseRow, TableRow.database_id == DatabaseRow.id)
    .join(BranchRow, BranchRow.table_id == TableRow.id)
    .where(
        DatabaseRow.warehouse == bindparam("warehouse"),
        DatabaseRow.name == bindparam("database"),
        TableRow.name == bindparam("table"),
        BranchRow.branch == bindparam("branch"),
    )
)
_LOCK_BRANCH = Prepared(
    select(BranchRow.snapshot_id)
    .where(BranchRow.table_id == bindparam("table"), BranchRow.branch == bindparam("branch"))
    .with_for_update()
)


def find_table(
    connection: Connection, context: CatalogContext, identifier: Identifier
) -> TableRecord:
    """Look a table and branch up; raises NotFound (TABLE)."""
    row = _FIND_TABLE.run(
        connection,
        warehouse=context.warehouse,
        database=identifier.database,
        table=identifier.table,
        branch=identifier.branch,
    ).one_or_none()
    if row is None or not _is_plain(identifier):
        raise table_not_found(identifier)
    return TableRecord(
        identifier=identifier,
        id=row.id,
        path=row.path,
        is_external=bool(row.is_external),
        kind=TableType(row.kind),
        branch=identifier.branch,
        schema_id=row.schema_id,
        snapshot_id=row.snapshot_id,
        snapshot_uuid=row.snapshot_uuid,
        is_pending=bool(row.is_pending),
    )


def read_table(context: CatalogContext, identifier: Identifier) -> TableRecord:
    """Look a table and branch up; raises NotFound (TABLE)."""
    with context.database.read() as connection:
        return find_table(connection, context, identifier)


def lock_branch(connection: Connection, table_id: str, branch: str) -> None:
    """Take the lock that whoever changes a branch, or its files, must hold.

    On SQLite the write transaction itself is that lock.
    """
    _LOCK_BRANCH.run(connection, table=table_id, branch=branch)


def _is_plain(identifier: Identifier) -> bool:
    # "t$snapshots" is a system table, which clients make up from the table itself.
    return identifier.name == identifier.table or (
        identifier.name == f"{identifier.table}$branch_{identifier.branch}"
    )


def table_not_found(identifier: Identifier) -> NotFound:
    """The error about a table that does not exist.

    It is about the table even when its database is missing: clients know no other answer.
    """
    return NotFound(
        f"table {identifier} does not exist",
        resource_type=ResourceType.TABLE,
        resource_name=str(identifier),
    )


def database_not_found(name: str) -> NotFound:
    """The error about a database that does not exist."""
    return NotFound(
        f"database {name} does not exist",
        resource_type=ResourceType.DATABASE,
        resource_name=name,
    )


def name_page(names: Sequence[str], max_results: int | None) -> Page[str]:
    """A page of names, from a query for one more than it may hold."""
    if max_results is None or len(names) <= max_results:
        return Page(tuple(names))
    return Page(tuple(names[:max_results]), names[max_results - 1])
