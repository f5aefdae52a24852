"""Tables of a database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated
from urllib.parse import quote_plus, unquote_plus

from fastapi import APIRouter, Query

from headwater.catalog.identifier import Identifier
from headwater.catalog.protocol import Catalog, TableInfo
from headwater.catalog.wire import (
    AlterTableRequest,
    AuthTableQueryRequest,
    AuthTableQueryResponse,
    CreateTableRequest,
    Empty,
    GetTableResponse,
    IdentifierModel,
    ListTableDetailsResponse,
    ListTablesGloballyResponse,
    ListTablesResponse,
    RenameTableRequest,
)
from headwater.server.dependencies import CatalogOf, PageOf, Segment, TableName
from headwater.server.failures import failures
from headwater.storage.errors import Invalid, NotFound, ResourceType, Unsupported
from headwater.storage.schema import Schema
from headwater.storage.schema_change import schema_change_from_json

__all__ = ["router"]

router = APIRouter(prefix="/v1/{prefix}", tags=["table"])

# How many names are asked for at a time when a listing runs over several databases.
_STEP = 100

DatabasePattern = Annotated[
    str | None,
    Query(alias="databaseNamePattern", description="A SQL LIKE pattern of database names."),
]
NamePattern = Annotated[
    str | None, Query(alias="tableNamePattern", description="A SQL LIKE pattern of names.")
]
TableType = Annotated[
    str | None,
    Query(alias="tableType", description="Only tables of this type (option `type`); all if empty."),
]


@router.get(
    "/databases/{database}/tables",
    summary="List tables",
    responses=failures("no database"),
)
def list_tables(
    catalog: CatalogOf,
    database: Segment,
    page: PageOf,
    pattern: NamePattern = None,
    table_type: TableType = None,
) -> ListTablesResponse:
    """Table names in order, by pages. A page narrowed by type may be short, and not the last."""
    found = catalog.list_tables(
        database,
        pattern=pattern or None,
        max_results=page.max_results,
        page_token=page.page_token,
    )
    names = list(found.items)
    if table_type:
        tables = _present(catalog, database, names)
        names = [info.identifier.name for info in tables if _type_of(info) == table_type.lower()]
    return ListTablesResponse(tables=names, next_page_token=found.next_token)


@router.get(
    "/databases/{database}/table-details",
    summary="List tables with their schemas",
    responses=failures("no database"),
)
def list_table_details(
    catalog: CatalogOf,
    database: Segment,
    page: PageOf,
    pattern: NamePattern = None,
    table_type: TableType = None,
) -> ListTableDetailsResponse:
    """As `List tables`, each with what `Get a table` says."""
    found = catalog.list_tables(
        database,
        pattern=pattern or None,
        max_results=page.max_results,
        page_token=page.page_token,
    )
    details = [
        GetTableResponse.of(info)
        for info in _present(catalog, database, found.items)
        if not table_type or _type_of(info) == table_type.lower()
    ]
    return ListTableDetailsResponse(table_details=details, next_page_token=found.next_token)


@router.get(
    "/tables",
    summary="List tables of all databases",
    responses=failures(),
)
def list_tables_globally(
    catalog: CatalogOf,
    page: PageOf,
    database_pattern: DatabasePattern = None,
    pattern: NamePattern = None,
) -> ListTablesGloballyResponse:
    """Names in order of database and table, by pages."""
    after = _parse_place(page.page_token)
    found: list[Identifier] = []
    for identifier in _all_tables(catalog, database_pattern or None, pattern or None, after):
        if len(found) == page.max_results:
            return ListTablesGloballyResponse(
                tables=[IdentifierModel.of(item) for item in found],
                next_page_token=_place(found[-1]),
            )
        found.append(identifier)
    return ListTablesGloballyResponse(tables=[IdentifierModel.of(item) for item in found])


def _place(identifier: Identifier) -> str:
    return f"{quote_plus(identifier.database)}/{quote_plus(identifier.name)}"


def _parse_place(token: str | None) -> Identifier | None:
    if token is None:
        return None
    database, slash, name = token.partition("/")
    if not slash:
        raise Invalid(f"page token '{token}' is not one that this listing gave out")
    return Identifier(unquote_plus(database), unquote_plus(name))


def _all_tables(
    catalog: Catalog, database_pattern: str | None, pattern: str | None, after: Identifier | None
) -> Iterator[Identifier]:
    if after is not None:
        yield from _tables_of(catalog, after.database, pattern, after.name)
    token = None if after is None else after.database
    while True:
        databases = catalog.list_databases(
            pattern=database_pattern, max_results=_STEP, page_token=token
        )
        for database in databases.items:
            yield from _tables_of(catalog, database, pattern, None)
        token = databases.next_token
        if token is None:
            return


def _tables_of(
    catalog: Catalog, database: str, pattern: str | None, after: str | None
) -> Iterator[Identifier]:
    token = after
    while True:
        try:
            tables = catalog.list_tables(
                database, pattern=pattern, max_results=_STEP, page_token=token
            )
        except NotFound:
            return  # dropped since it was listed
        for name in tables.items:
            yield Identifier(database, name)
        token = tables.next_token
        if token is None:
            return


def _present(catalog: Catalog, database: str, names: Iterable[str]) -> Iterator[TableInfo]:
    for name in names:
        try:
            yield catalog.get_table(Identifier(database, name))
        except NotFound:
            continue  # dropped since it was listed


def _type_of(info: TableInfo) -> str:
    return info.schema.options.get("type", "table").lower()


@router.post(
    "/databases/{database}/tables",
    summary="Create a table",
    responses=failures("no database", "table exists", "unsupported"),
)
def create_table(catalog: CatalogOf, database: Segment, body: CreateTableRequest) -> Empty:
    """Makes `schema/schema-0` on storage and nothing else beside it."""
    if body.identifier.database != database:
        raise Invalid(
            f"the path names database '{database}', the body '{body.identifier.database}'"
        )
    catalog.create_table(body.identifier.identifier(), Schema.from_json(body.table_schema))
    return Empty()


@router.post(
    "/tables/rename",
    summary="Rename a table",
    responses=failures("no database", "no table", "table exists"),
)
def rename_table(catalog: CatalogOf, body: RenameTableRequest) -> Empty:
    """Another name, and another database if so asked; the id and the files stay."""
    catalog.rename_table(body.source.identifier(), body.destination.identifier())
    return Empty()


@router.get(
    "/databases/{database}/tables/{table}", summary="Get a table", responses=failures("no table")
)
def get_table(catalog: CatalogOf, name: TableName) -> GetTableResponse:
    """The table with its latest schema. `path` stands outside the schema's options."""
    return GetTableResponse.of(catalog.get_table(name))


@router.post(
    "/databases/{database}/tables/{table}",
    summary="Change a table's schema",
    responses=failures("no table", "no column", "column exists", "unsupported"),
)
def alter_table(catalog: CatalogOf, name: TableName, body: AlterTableRequest) -> Empty:
    """All changes or none; they make one new version of the schema."""
    changes = [schema_change_from_json(change) for change in body.changes]
    try:
        catalog.alter_table(name, changes)
    except NotFound as error:
        if error.resource_type in (ResourceType.TABLE, ResourceType.COLUMN):
            raise
        # Paimon's Java client takes any other kind of 404 for success.
        raise NotFound(
            error.message, resource_type=ResourceType.TABLE, resource_name=name.name
        ) from error
    return Empty()


@router.delete(
    "/databases/{database}/tables/{table}", summary="Drop a table", responses=failures("no table")
)
def drop_table(catalog: CatalogOf, name: TableName) -> Empty:
    """Drops its files, too, unless the table is external."""
    catalog.drop_table(name)
    return Empty()


@router.post(
    "/databases/{database}/tables/{table}/auth",
    summary="Ask what a query may see of a table",
    responses=failures("no table", "no column"),
)
def auth_table_query(
    catalog: CatalogOf, name: TableName, body: AuthTableQueryRequest
) -> AuthTableQueryResponse:
    """Whoever got past the server's door sees all rows and columns: no filters, no masks."""
    info = catalog.get_table(name)
    info.schema.columns(body.select or ())
    return AuthTableQueryResponse(filter=[], column_masking={})


@router.get(
    "/databases/{database}/tables/{table}/token",
    summary="Get a token for a table's files",
    responses=failures("no table", "unsupported"),
)
def get_table_token(catalog: CatalogOf, name: TableName) -> Empty:
    """Not done: `/v1/config` hands out what the operator put into the client options."""
    catalog.get_table(name)
    raise Unsupported(
        "this server hands out no data tokens; do not set data-token.enabled, and give the client "
        "its own storage credentials"
    )
