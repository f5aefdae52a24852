"""Tables of a database."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from headwater.catalog.model.data_token import client_storage_options
from headwater.catalog.wire.tables import (
    AlterTableRequest,
    AuthTableQueryRequest,
    AuthTableQueryResponse,
    CreateTableRequest,
    Empty,
    GetTableResponse,
    GetTableTokenResponse,
    IdentifierModel,
    ListTableDetailsResponse,
    ListTablesGloballyResponse,
    ListTablesResponse,
    RegisterTableRequest,
    RenameTableRequest,
    ReplaceTableRequest,
)
from headwater.server.dependencies import (
    CatalogOf,
    DatabasePattern,
    PageOf,
    Segment,
    ServicesOf,
    TableName,
)
from headwater.server.error_responses import failures
from headwater.storage.errors import NotFound, ResourceType, Unsupported
from headwater.storage.schema.change import schema_change_from_json
from headwater.storage.schema.table_schema import Schema

__all__ = ["router"]

router = APIRouter(prefix="/v1/{prefix}", tags=["table"])

NamePattern = Annotated[
    str | None, Query(alias="tableNamePattern", description="A SQL LIKE pattern of names.")
]
TableType = Annotated[
    str | None,
    Query(alias="tableType", description="Only tables of this type (option `type`); all if empty."),
]
TableId = Annotated[Segment, Path(alias="tableId", description="A table's `id`.")]


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
    """Table names in order, by pages."""
    found = catalog.tables.list(
        database, pattern=pattern or None, table_type=table_type or None, **page
    )
    return ListTablesResponse.of(found)


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
    found = catalog.tables.list_details(
        database, pattern=pattern or None, table_type=table_type or None, **page
    )
    return ListTableDetailsResponse.of(found.map(GetTableResponse.of))


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
    found = catalog.tables.list_globally(
        database_pattern=database_pattern or None, pattern=pattern or None, **page
    )
    return ListTablesGloballyResponse.of(found.map(IdentifierModel.of))


@router.get("/tables/id/{tableId}", summary="Get a table by its id", responses=failures("no table"))
def get_table_by_id(catalog: CatalogOf, table_id: TableId) -> GetTableResponse:
    """The table that has an id, whatever its name is now."""
    return GetTableResponse.of(catalog.tables.get_by_id(table_id))


@router.post(
    "/databases/{database}/tables",
    summary="Create a table",
    responses=failures("no database", "not read", "table exists", "unsupported"),
)
def create_table(catalog: CatalogOf, database: Segment, body: CreateTableRequest) -> Empty:
    """Makes `schema/schema-0` on storage and nothing else beside it."""
    catalog.tables.create(
        body.identifier.identifier_in(database), Schema.from_json(body.table_schema)
    )
    return Empty()


@router.post(
    "/databases/{database}/register",
    summary="Register a table",
    responses=failures("no database", "not read", "table exists", "unsupported"),
)
def register_table(catalog: CatalogOf, database: Segment, body: RegisterTableRequest) -> Empty:
    """A table whose files are on storage gets a name.

    Outside the warehouse it is an external table; the server reads there only if it is told so by
    `HEADWATER_EXTERNAL_LOCATIONS`. Inside it, where a table of that database lies,
    it becomes the catalog's own, with its history and branches.
    """
    catalog.tables.register(body.identifier.identifier_in(database), body.path)
    return Empty()


@router.post(
    "/tables/rename",
    summary="Rename a table",
    responses=failures("no database", "no table", "table exists"),
)
def rename_table(catalog: CatalogOf, body: RenameTableRequest) -> Empty:
    """Another name, and another database if so asked; the id and the files stay."""
    catalog.tables.rename(body.source.identifier(), body.destination.identifier())
    return Empty()


@router.get(
    "/databases/{database}/tables/{table}", summary="Get a table", responses=failures("no table")
)
def get_table(catalog: CatalogOf, name: TableName) -> GetTableResponse:
    """The table with its latest schema. `path` stands outside the schema's options."""
    return GetTableResponse.of(catalog.tables.get(name))


@router.post(
    "/databases/{database}/tables/{table}",
    summary="Change a table's schema",
    responses=failures("no table", "no column", "column exists", "unsupported"),
)
def alter_table(catalog: CatalogOf, name: TableName, body: AlterTableRequest) -> Empty:
    """All changes or none; they make one new version of the schema."""
    changes = [schema_change_from_json(change) for change in body.changes]
    try:
        catalog.tables.alter(name, changes)
    except NotFound as error:
        if error.resource_type in (ResourceType.TABLE, ResourceType.COLUMN):
            raise
        # Paimon's Java client takes any other kind of 404 for success.
        raise NotFound(
            error.message, resource_type=ResourceType.TABLE, resource_name=name.name
        ) from error
    return Empty()


@router.post(
    "/databases/{database}/tables/{table}/replace",
    summary="Replace a table",
    responses=failures("no table", "unsupported"),
)
def replace_table(catalog: CatalogOf, name: TableName, body: ReplaceTableRequest) -> Empty:
    """Another schema and no data, in one step; the id, the place and earlier snapshots stay."""
    catalog.tables.replace(name, Schema.from_json(body.table_schema))
    return Empty()


@router.delete(
    "/databases/{database}/tables/{table}",
    summary="Drop a table",
    responses=failures("no table", "protected"),
)
def drop_table(catalog: CatalogOf, name: TableName) -> Empty:
    """Drops its files, too, unless the table is external.

    Where dropped tables are kept for a while, the files stay until then.
    """
    catalog.tables.drop(name)
    return Empty()


@router.post(
    "/databases/{database}/tables/{table}/auth",
    summary="Ask what a query may see of a table",
    responses=failures("no table", "no column"),
)
def auth_table_query(
    catalog: CatalogOf, name: TableName, body: AuthTableQueryRequest
) -> AuthTableQueryResponse:
    """Every caller with a token sees all rows and columns: no filters, no masks."""
    info = catalog.tables.get(name)
    info.schema.columns(body.select or ())
    return AuthTableQueryResponse(filter=[], column_masking={})


@router.get(
    "/databases/{database}/tables/{table}/token",
    summary="Get a token for a table's files",
    responses=failures("no table", "unsupported"),
)
def get_table_token(
    services: ServicesOf, catalog: CatalogOf, name: TableName
) -> GetTableTokenResponse:
    """The warehouse's storage options, where the operator lets clients have them.

    Otherwise 501: `/v1/config` hands out what the operator put into the client options.
    """
    info = catalog.tables.get(name)
    seconds = services.settings.data_token_seconds
    if seconds is None:
        raise Unsupported(
            "this server hands out no data tokens; do not set data-token.enabled, and give the "
            "client its own storage credentials, or start the server with "
            "HEADWATER_DATA_TOKEN_SECONDS"
        )
    if info.is_external:
        raise Unsupported(
            f"table {name} is external: the warehouse's credentials are not for {info.path}; give "
            "the client its own"
        )
    return GetTableTokenResponse(
        token=client_storage_options(catalog.storage_options),
        expires_at_millis=services.runtime.now_millis() + seconds * 1000,
    )
