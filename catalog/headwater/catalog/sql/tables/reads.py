"""Reading tables: one by name or id, and lists of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Select, exists, select
from sqlalchemy.engine import Connection

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.sql.database.context import CatalogContext
from headwater.catalog.sql.database.models import (
    BranchRow,
    DatabaseRow,
    OutboxRow,
    SchemaRow,
    TableRow,
)
from headwater.catalog.sql.outbox.action import SCHEMA_ACTIONS
from headwater.catalog.sql.outbox.outbox import Outbox
from headwater.catalog.sql.queries.audit import audit_of
from headwater.catalog.sql.queries.listing import (
    list_globally,
    name_page,
    of_database,
    one_page,
)
from headwater.catalog.sql.queries.lookup import find_database_id, find_table, table_not_found
from headwater.catalog.sql.queries.possessions import sight
from headwater.catalog.sql.tables.external_schemas import ExternalSchemas
from headwater.storage.errors import NotFound, ResourceType
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["SCHEMA_OF_BRANCH", "TABLE_COLUMNS", "TableReads"]

TABLE_COLUMNS: Sequence[Any] = (
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
"""A table as the catalog shows it, with the schema in force."""
SCHEMA_OF_BRANCH = (
    (SchemaRow.table_id == BranchRow.table_id)
    & (SchemaRow.branch == BranchRow.branch)
    & (SchemaRow.schema_id == BranchRow.schema_id)
)
"""The condition for the schema in force among those of a branch."""
_KEYS_IN_ONE_QUERY = 500
_RENAME_ATTEMPTS = 3


class TableReads:
    """Reads the tables of one warehouse.

    Args:
        context: The warehouse, its database and its storage.
        outbox: Writes the schema file of a table before the table is shown.
        external: Knows the schemas of external tables.
    """

    def __init__(self, context: CatalogContext, outbox: Outbox, external: ExternalSchemas) -> None:
        self._context = context
        self._sql = context.database
        self._outbox = outbox
        self._external = external

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        table_type: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Names in their order; NotFound (DATABASE)."""
        with self._sql.read() as connection:
            query = self._names(
                connection,
                database,
                pattern,
                table_type,
                max_results,
                page_token,
                names_only=True,
            )
            names = connection.execute(query).scalars().all()
        return name_page(names, max_results)

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        table_type: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[TableInfo]:
        """As `list`, with what `get` tells of each.

        Of external tables it is what the catalog saw last: a list looks at no other place.
        """
        with self._sql.read() as connection:
            query = self._names(
                connection,
                database,
                pattern,
                table_type,
                max_results,
                page_token,
                names_only=False,
            )
            found = connection.execute(query.add_columns(TableRow.id)).all()
            page = name_page([row.name for row in found], max_results)
            names = {row.id: row.name for row in found[: len(page.items)]}
            tables, pending = self._infos(connection, database, names)
        for table_id in pending:
            self._outbox.settle(table_id, MAIN_BRANCH)
        if pending:
            with self._sql.read() as connection:
                tables, _ = self._infos(connection, database, names)
        return Page(tables, page.next_token)

    def list_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """The tables of all databases, in the order of database and name."""
        return list_globally(
            self._context,
            TableRow,
            database_pattern=database_pattern,
            pattern=pattern,
            max_results=max_results,
            token=page_token,
        )

    def get(self, identifier: Identifier) -> TableInfo:
        """A table with its latest schema, whose file is on storage; NotFound (TABLE)."""
        try:
            info, is_pending = self._read(identifier)
        except NotFound:
            branch = self._external_branch(identifier)
            if branch is None:
                raise
            return branch
        if is_pending:
            self._outbox.settle(info.id, identifier.branch)
            info, _ = self._read(identifier)
        return self._external.refreshed(info)

    def _external_branch(self, identifier: Identifier) -> TableInfo | None:
        """A branch of an external table, which its files alone know."""
        if branch_of(identifier, identifier.branch) != identifier:
            return None  # a system table's name
        if identifier.branch == MAIN_BRANCH:
            return None
        try:
            main, _ = self._read(branch_of(identifier, MAIN_BRANCH))
        except NotFound:
            return None
        return self._external.branch(main, identifier)

    def get_by_id(self, table_id: str) -> TableInfo:
        """The table with an id, whatever its name is; NotFound (TABLE)."""
        for _ in range(_RENAME_ATTEMPTS):
            with self._sql.read() as connection:
                row = connection.execute(
                    select(DatabaseRow.name, TableRow.name)
                    .join(TableRow, TableRow.database_id == DatabaseRow.id)
                    .where(
                        TableRow.id == table_id,
                        DatabaseRow.warehouse == self._context.warehouse,
                        # One that was dropped and can be restored is in a database of that kind.
                        DatabaseRow.name.not_like("%$%"),
                    )
                ).one_or_none()
            if row is None:
                break
            try:
                info = self.get(Identifier(*row))
            except NotFound:
                continue  # renamed or dropped since
            if info.id == table_id:
                return info
        raise NotFound(
            f"no table has the id {table_id}",
            resource_type=ResourceType.TABLE,
            resource_name=table_id,
        )

    def _names(
        self,
        connection: Connection,
        database: str,
        pattern: str | None,
        table_type: str | None,
        max_results: int | None,
        token: str | None,
        *,
        names_only: bool,
    ) -> Select[str]:
        """The query for a page of names and one more; see `Sight.shows_all` for `names_only`."""
        query = select(TableRow.name)
        index = [TableRow.database_id, TableRow.name]
        if table_type:
            # A type that does not exist here may in clients to come: no table has it.
            query = query.where(TableRow.kind == table_type.strip().lower())
            index = [TableRow.database_id, TableRow.kind, TableRow.name]
        database_id = find_database_id(connection, self._context, database)
        query = of_database(
            query,
            TableRow,
            database_id,
            sight(connection, self._context),
            names_only=names_only,
            index=index,
        )
        return one_page(
            query,
            TableRow.name,
            pattern=pattern,
            max_results=max_results,
            token=token,
            is_sqlite=self._sql.is_sqlite,
        )

    def _infos(
        self, connection: Connection, database: str, names: dict[str, str]
    ) -> tuple[tuple[TableInfo, ...], Sequence[str]]:
        """Tables by their ids, in the order given, and which of them wait for their schema file."""
        rows: dict[str, Row[tuple[object, ...]]] = {}
        pending: set[str] = set()
        ids = list(names)
        for at in range(0, len(ids), _KEYS_IN_ONE_QUERY):
            chunk = ids[at : at + _KEYS_IN_ONE_QUERY]
            query = _table_columns().where(TableRow.id.in_(chunk), BranchRow.branch == MAIN_BRANCH)
            rows.update((row.id, row) for row in connection.execute(query))
            # After the tables: whatever they show is followed by storage, or waits here.
            waiting = select(OutboxRow.table_id).where(
                OutboxRow.table_id.in_(chunk),
                OutboxRow.branch == MAIN_BRANCH,
                OutboxRow.action.in_(SCHEMA_ACTIONS),
            )
            pending.update(connection.execute(waiting).scalars())
        tables = tuple(
            _info(Identifier(database, name), rows[table_id])
            for table_id, name in names.items()
            if table_id in rows  # others were dropped since
        )
        return tables, [table_id for table_id in ids if table_id in pending]

    def _read(self, identifier: Identifier) -> tuple[TableInfo, bool]:
        with self._sql.read() as connection:
            record = find_table(connection, self._context, identifier)
            # Snapshots that wait for storage do not concern the schema.
            pending = exists().where(
                OutboxRow.table_id == BranchRow.table_id,
                OutboxRow.branch == BranchRow.branch,
                OutboxRow.action.in_(SCHEMA_ACTIONS),
            )
            row = connection.execute(
                _table_columns()
                .add_columns(pending.label("is_pending"))
                .where(TableRow.id == record.id, BranchRow.branch == record.branch)
            ).one_or_none()
        if row is None:  # dropped between the two look-ups
            raise table_not_found(identifier)
        return _info(identifier, row), bool(row.is_pending)


def _table_columns() -> Select[tuple[object, ...]]:
    """A table and branch as the catalog shows it; everything is found by a primary key."""
    query: Select[tuple[object, ...]] = select(*TABLE_COLUMNS)
    return query.join(BranchRow, BranchRow.table_id == TableRow.id).join(
        SchemaRow, SCHEMA_OF_BRANCH
    )


def _info(identifier: Identifier, row: Row[tuple[object, ...]]) -> TableInfo:
    return TableInfo(
        id=row.id,
        identifier=identifier,
        path=row.path,
        is_external=row.is_external,
        schema=TableSchema.from_json(row.document, f"the schema of table {identifier}"),
        **audit_of(row),
    )
