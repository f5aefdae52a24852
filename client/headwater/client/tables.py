"""Tables behind a Paimon REST server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.tables import TableInfo
from headwater.catalog.wire.tables import (
    AlterTableRequest,
    CreateTableRequest,
    Empty,
    GetTableResponse,
    IdentifierModel,
    ListTableDetailsResponse,
    ListTablesGloballyResponse,
    ListTablesResponse,
    RegisterTableRequest,
    RenameTableRequest,
    ReplaceTableRequest,
)
from headwater.client.requests import (
    TABLE_DEFAULT_PREFIX,
    Requests,
    paging,
    table_path,
    without_prefix,
)
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType
from headwater.storage.schema.change import SchemaChange, schema_change_json
from headwater.storage.schema.table_schema import Schema

__all__ = ["RestTables"]


class RestTables:
    """Implements `headwater.catalog.model.tables.Tables` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def list(
        self,
        database: str,
        *,
        pattern: str | None = None,
        table_type: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[str]:
        """Table names."""
        params = paging(max_results, page_token, tableNamePattern=pattern, tableType=table_type)
        page = self._requests.get(ListTablesResponse, params, "databases", database, "tables")
        return Page(tuple(page.tables or ()), page.next_page_token or None)

    def list_details(
        self,
        database: str,
        *,
        pattern: str | None = None,
        table_type: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[TableInfo]:
        """Tables with their latest schemas."""
        params = paging(max_results, page_token, tableNamePattern=pattern, tableType=table_type)
        page = self._requests.get(
            ListTableDetailsResponse, params, "databases", database, "table-details"
        )
        tables = tuple(item.info(database) for item in page.table_details or ())
        return Page(tables, page.next_page_token or None)

    def list_globally(
        self,
        *,
        database_pattern: str | None = None,
        pattern: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Identifier]:
        """The tables of all databases."""
        params = paging(
            max_results,
            page_token,
            databaseNamePattern=database_pattern,
            tableNamePattern=pattern,
        )
        page = self._requests.get(ListTablesGloballyResponse, params, "tables")
        tables = tuple(item.identifier() for item in page.tables or ())
        return Page(tables, page.next_page_token or None)

    def create(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a table; Invalid when the schema is not allowed."""
        body = CreateTableRequest(
            identifier=IdentifierModel.of(identifier), schema=self._with_defaults(schema).to_json()
        )
        try:
            self._requests.post(Empty, body, "databases", identifier.database, "tables")
        except AlreadyExists:
            if not ignore_if_exists:
                raise

    def _with_defaults(self, schema: Schema) -> Schema:
        defaults = without_prefix(self._requests.connected().options, TABLE_DEFAULT_PREFIX)
        return replace(schema, options={**defaults, **schema.options})

    def get(self, identifier: Identifier) -> TableInfo:
        """A table with its latest schema; NotFound (TABLE)."""
        answer = self._requests.get(GetTableResponse, None, *table_path(identifier))
        return answer.info(identifier.database)

    def get_by_id(self, table_id: str) -> TableInfo:
        """The table with an id, whatever its name is; NotFound (TABLE)."""
        answer = self._requests.get(GetTableResponse, None, "tables", "id", table_id)
        return answer.info(answer.database or "")

    def alter(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> None:
        """Apply changes, all or none; one new schema version."""
        body = AlterTableRequest(changes=[schema_change_json(change) for change in changes])
        self._requests.post(Empty, body, *table_path(identifier))

    def replace(self, identifier: Identifier, schema: Schema) -> None:
        """Give a table another schema and no data; its id and history stay."""
        body = ReplaceTableRequest(schema=self._with_defaults(schema).to_json())
        self._requests.post(Empty, body, *table_path(identifier), "replace")

    def register(self, identifier: Identifier, path: str) -> None:
        """Give the table whose files are at a path a name; it is external outside the warehouse."""
        body = RegisterTableRequest(identifier=IdentifierModel.of(identifier), path=path)
        self._requests.post(Empty, body, "databases", identifier.database, "register")

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Give a table another name, and another database if so asked."""
        body = RenameTableRequest(
            source=IdentifierModel.of(source), destination=IdentifierModel.of(destination)
        )
        self._requests.post(Empty, body, "tables", "rename")

    def drop(self, identifier: Identifier, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table and, unless it is external, its files."""
        try:
            self._requests.delete(*table_path(identifier))
        except NotFound as error:
            if not ignore_if_not_exists or error.resource_type is not ResourceType.TABLE:
                raise
