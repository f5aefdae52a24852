"""Tables behind a Paimon REST server."""

from __future__ import annotations

from dataclasses import replace

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.tables import TableInfo, dropped_table
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
    ReplaceTableRequest,
)
from headwater.client.named_objects import ObjectShape, RestNamedObjects
from headwater.client.requests import (
    TABLE_DEFAULT_PREFIX,
    Requests,
    paging,
    without_prefix,
)
from headwater.storage.errors import ResourceType
from headwater.storage.schema.change import SchemaChange
from headwater.storage.schema.table_schema import Schema

__all__ = ["RestTables"]

_TABLE = ObjectShape(
    kind=ResourceType.TABLE,
    names=ListTablesResponse,
    details=ListTableDetailsResponse,
    everywhere=ListTablesGloballyResponse,
    answer=GetTableResponse,
    info=GetTableResponse.info,
    create=CreateTableRequest.of,
    alter=AlterTableRequest.of,
    replace=ReplaceTableRequest.of,
)


class RestTables(RestNamedObjects[Schema, SchemaChange, TableInfo, GetTableResponse]):
    """Implements `headwater.catalog.model.tables.Tables` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        super().__init__(requests, _TABLE)

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
        return self._list(database, params)

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
        return self._list_details(database, params)

    def create(
        self, identifier: Identifier, schema: Schema, *, ignore_if_exists: bool = False
    ) -> None:
        """Create a table; Invalid when the schema is not allowed."""
        super().create(identifier, self._with_defaults(schema), ignore_if_exists=ignore_if_exists)

    def _with_defaults(self, schema: Schema) -> Schema:
        defaults = without_prefix(self._requests.connected().options, TABLE_DEFAULT_PREFIX)
        return replace(schema, options={**defaults, **schema.options})

    def get(self, identifier: Identifier) -> TableInfo:
        """A table; NotFound (TABLE)."""
        info = super().get(identifier)
        # Servers other than Headwater do not read the header with the id.
        if identifier.table_id not in (None, info.id):
            raise dropped_table(identifier)
        return info

    def get_by_id(self, table_id: str) -> TableInfo:
        """The table with an id, whatever its name is; NotFound (TABLE)."""
        answer = self._requests.get(GetTableResponse, None, "tables", "id", table_id)
        return answer.info(answer.database or "")

    def replace(self, identifier: Identifier, schema: Schema) -> None:
        """Give a table another schema and no data; its id and history stay."""
        super().replace(identifier, self._with_defaults(schema))

    def register(self, identifier: Identifier, path: str) -> None:
        """Give the table whose files are at a path a name; it is external outside the warehouse."""
        body = RegisterTableRequest(identifier=IdentifierModel.of(identifier), path=path)
        self._requests.post(Empty, body, "databases", identifier.database, "register")

    def rename(self, source: Identifier, destination: Identifier) -> None:
        """Give a table another name, and another database if so asked."""
        self._rename(source, destination)
