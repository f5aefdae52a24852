"""From names to rows, and the errors about names that lead nowhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from sqlalchemy import exists, or_, select
from sqlalchemy.engine import Connection

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.tables import dropped_table
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import (
    BranchRow,
    DatabaseRow,
    OutboxRow,
    SchemaRow,
    SnapshotRow,
    TableRow,
)
from headwater.catalog.sql.database.prepared import Prepared, keyed, numbered, padded
from headwater.catalog.sql.queries.named_tables import about_tables, place_values
from headwater.storage.errors import Conflict, NotFound, ResourceType, Unsupported
from headwater.storage.files.layout import MAIN_BRANCH, TableLayout
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.schema.table_type import TableType

__all__ = [
    "Head",
    "TableRecord",
    "database_not_found",
    "find_database_id",
    "find_snapshot_document",
    "find_table",
    "find_tables",
    "has_tables",
    "latest_schema",
    "lock_branch",
    "lock_branches",
    "read_table",
    "require_table",
    "table_not_found",
]


@dataclass(frozen=True)
class TableRecord:
    """A table and branch as the database has it at one instant.

    Attributes:
        identifier: The requested identifier, bound to the id.
        id: The table's UUID.
        path: Its URI.
        is_external: Whether its files are not the catalog's.
        kind: Its type.
        branch: The branch.
        schema_id: The latest schema's version.
        snapshot_id: The latest snapshot; 0 for none.
        snapshot_uuid: Its uuid, if it has one.
        is_pending: Whether a decision about it is not applied to storage yet.
        references_version: Grows with every change of the table's references.
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
    references_version: int

    @property
    def layout(self) -> TableLayout:
        """The layout of its files."""
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


@cache
def _finding(count: int) -> Prepared:
    is_pending = exists().where(
        OutboxRow.table_id == BranchRow.table_id, OutboxRow.branch == BranchRow.branch
    )
    return about_tables(
        count,
        (
            TableRow.id,
            TableRow.path,
            TableRow.is_external,
            TableRow.kind,
            BranchRow.schema_id,
            BranchRow.snapshot_id,
            BranchRow.snapshot_uuid,
            is_pending.label("is_pending"),
            TableRow.references_version,
        ),
    )


@cache
def _locking(count: int) -> Prepared:
    return Prepared(
        select(
            BranchRow.table_id,
            BranchRow.schema_id,
            BranchRow.snapshot_id,
            BranchRow.snapshot_uuid,
        )
        .where(or_(*keyed(count, table=BranchRow.table_id, branch=BranchRow.branch)))
        # Several are always taken in this order, so that no two transactions wait for each other.
        .order_by(BranchRow.table_id)
        .with_for_update()
    )


@dataclass(frozen=True)
class Head:
    """The head of a branch whose lock is held.

    Attributes:
        schema_id: The latest schema's version.
        snapshot_id: The latest snapshot; 0 for none.
        snapshot_uuid: Its uuid, if it has one.
    """

    schema_id: int
    snapshot_id: int
    snapshot_uuid: str | None


def find_tables(
    connection: Connection, context: CatalogContext, identifiers: Sequence[Identifier]
) -> Sequence[TableRecord | None]:
    """Look tables and branches up by their names, in one statement; None for what is not there.

    The identifier of a record is bound to the id of the table that has the name.
    """
    count, names = place_values([(name.database, name.table, name.branch) for name in identifiers])
    records: list[TableRecord | None] = [None] * len(identifiers)
    rows = _finding(count).run(connection, warehouse=context.warehouse, **names)
    for row in rows:
        if row.place < len(identifiers) and _is_plain(identifiers[row.place]):
            records[row.place] = TableRecord(
                identifier=identifiers[row.place].with_table_id(row.id),
                id=row.id,
                path=row.path,
                is_external=bool(row.is_external),
                kind=TableType(row.kind),
                branch=identifiers[row.place].branch,
                schema_id=row.schema_id,
                snapshot_id=row.snapshot_id,
                snapshot_uuid=row.snapshot_uuid,
                is_pending=bool(row.is_pending),
                references_version=row.references_version,
            )
    return records


def find_table(
    connection: Connection, context: CatalogContext, identifier: Identifier
) -> TableRecord:
    """Look a table and branch up; raises NotFound (TABLE)."""
    return require_table(identifier, find_tables(connection, context, [identifier])[0])


def require_table(identifier: Identifier, record: TableRecord | None) -> TableRecord:
    """The table that an identifier means, given what has its name.

    Raises:
        NotFound: Nothing has the name, or another table has it than the one that is meant (TABLE).
    """
    if record is None:
        raise table_not_found(identifier)
    if identifier.table_id not in (None, record.id):
        raise dropped_table(identifier)
    return record


def read_table(context: CatalogContext, identifier: Identifier) -> TableRecord:
    """Look a table and branch up; raises NotFound (TABLE)."""
    with context.database.read() as connection:
        return find_table(connection, context, identifier)


def latest_schema(connection: Connection, table_id: str, identifier: Identifier) -> TableSchema:
    """The latest schema of a table's main branch; NotFound (TABLE)."""
    document = connection.execute(
        select(SchemaRow.document)
        .join(
            BranchRow,
            (BranchRow.table_id == SchemaRow.table_id)
            & (BranchRow.branch == SchemaRow.branch)
            & (BranchRow.schema_id == SchemaRow.schema_id),
        )
        .where(BranchRow.table_id == table_id, BranchRow.branch == MAIN_BRANCH)
    ).scalar_one_or_none()
    if document is None:
        raise table_not_found(identifier)
    return TableSchema.from_json(document, f"the schema of {identifier}")


def find_snapshot_document(
    connection: Connection, table_id: str, branch: str, snapshot_id: int
) -> str | None:
    """The text of a snapshot in a branch's history, expired or not; None when it is not there."""
    return connection.execute(
        select(SnapshotRow.document).where(
            SnapshotRow.table_id == table_id,
            SnapshotRow.branch == branch,
            SnapshotRow.snapshot_id == snapshot_id,
        )
    ).scalar_one_or_none()


def lock_branch(connection: Connection, table_id: str, branch: str) -> None:
    """Take the lock that is needed to change a branch or its files.

    On SQLite the write transaction itself is that lock.
    """
    lock_branches(connection, [(table_id, branch)])


def lock_branches(connection: Connection, places: Sequence[tuple[str, str]]) -> Mapping[str, Head]:
    """Take the locks of branches of different tables, and see their heads, by the table's id.

    Args:
        connection: A connection in a write transaction.
        places: Tables' ids, each once, and the branches.
    """
    names = [{"table": table_id, "branch": branch} for table_id, branch in padded(places)]
    rows = _locking(len(names)).run(connection, **numbered(names))
    return {table_id: Head(*head) for table_id, *head in rows}


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


def table_busy(identifier: Identifier) -> Conflict:
    """The error about a table that others keep changing between looking at it and deciding."""
    return Conflict(f"table {identifier} is being changed by others; retry")


def database_not_found(name: str) -> NotFound:
    """The error about a database that does not exist."""
    return NotFound(
        f"database {name} does not exist",
        resource_type=ResourceType.DATABASE,
        resource_name=name,
    )


def has_tables(
    connection: Connection, warehouse: str, kinds: Collection[TableType] = tuple(TableType)
) -> bool:
    """Whether a warehouse has tables of some kinds in its folder."""
    tables = (
        select(TableRow.id)
        .join(DatabaseRow, DatabaseRow.id == TableRow.database_id)
        .where(
            DatabaseRow.warehouse == warehouse,
            TableRow.is_external.is_(False),
            TableRow.kind.in_([kind.value for kind in kinds]),
        )
        .limit(1)
    )
    return connection.execute(tables).first() is not None


def find_database_id(connection: Connection, context: CatalogContext, name: str) -> str:
    """A database's id; raises NotFound (DATABASE)."""
    database_id = connection.execute(
        select(DatabaseRow.id).where(
            DatabaseRow.warehouse == context.warehouse, DatabaseRow.name == name
        )
    ).scalar_one_or_none()
    if database_id is None:
        raise database_not_found(name)
    return database_id
