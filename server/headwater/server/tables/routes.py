"""Tables of a database."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from headwater.catalog.model.branches import branch_of
from headwater.catalog.model.principal import current_principal
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.wire.signed_requests import (
    SignTableRequestsRequest,
    SignTableRequestsResponse,
)
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
from headwater.server.column_rights import refuse_hidden_columns
from headwater.server.dependencies import (
    CatalogOf,
    DatabasePattern,
    ExpectedTableId,
    PageOf,
    Segment,
    ServicesOf,
    TableName,
)
from headwater.server.error_responses import Failure, failures
from headwater.server.file_rights import may_write_files, refuse_withheld_files
from headwater.server.request_signing import CHANGES, RequestSigning, can_sign
from headwater.server.resource_router import ResourceRouter
from headwater.storage.errors import Forbidden, NotFound, ResourceType, Unsupported
from headwater.storage.files.layout import MAIN_BRANCH
from headwater.storage.schema.change import schema_change_from_json
from headwater.storage.schema.table_schema import Schema

__all__ = ["router"]

router = ResourceRouter(prefix="/v1/{prefix}", tags=["table"])

_WITHHELD = Failure(
    "files withheld",
    403,
    "policies restrict what you see of table sales.orders, and a token for the files of "
    "sales.orders would show all of it; read rows with POST …/tables/orders/read",
)

NamePattern = Annotated[
    str | None, Query(alias="tableNamePattern", description="A SQL LIKE pattern of names.")
]
TableType = Annotated[
    str | None,
    Query(alias="tableType", description="Only tables of this `type` (an option); empty for all."),
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
    tables = catalog.tables.list(
        database, pattern=pattern or None, table_type=table_type or None, **page
    )
    return ListTablesResponse.of(tables)


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
    """Like `List tables`, with the details of `Get a table` for each."""
    tables = catalog.tables.list_details(
        database, pattern=pattern or None, table_type=table_type or None, **page
    )
    return ListTableDetailsResponse.of(tables.map(GetTableResponse.of))


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
    """Names ordered by database and table, in pages."""
    tables = catalog.tables.list_globally(
        database_pattern=database_pattern or None, pattern=pattern or None, **page
    )
    return ListTablesGloballyResponse.of(tables.map(IdentifierModel.of))


@router.get("/tables/id/{tableId}", summary="Get a table by its id", responses=failures("no table"))
def get_table_by_id(catalog: CatalogOf, table_id: TableId) -> GetTableResponse:
    """The table with an id, whatever its present name."""
    return GetTableResponse.of(catalog.tables.get_by_id(table_id))


@router.post(
    "/databases/{database}/tables",
    summary="Create a table",
    responses=failures("no database", "not read", "table exists", "unsupported"),
)
def create_table(catalog: CatalogOf, database: Segment, body: CreateTableRequest) -> Empty:
    """Writes `schema/schema-0` and no other file."""
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
    """Adds a table whose files exist already to the catalog.

    Outside the warehouse it becomes an external table; the server reads only the locations named by
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
def rename_table(
    catalog: CatalogOf, body: RenameTableRequest, table_id: ExpectedTableId = None
) -> Empty:
    """Changes the name, and optionally the database; the id and the files stay."""
    source = body.source.identifier().with_table_id(table_id)
    catalog.tables.rename(source, body.destination.identifier())
    return Empty()


@router.get(
    "/databases/{database}/tables/{table}", summary="Get a table", responses=failures("no table")
)
def get_table(catalog: CatalogOf, name: TableName) -> GetTableResponse:
    """The table with its latest schema. `path` is not among the schema's options."""
    return GetTableResponse.of(catalog.tables.get(name))


@router.post(
    "/databases/{database}/tables/{table}",
    summary="Change a table's schema",
    responses=failures("no table", "no column", "column exists", "unsupported"),
)
def alter_table(catalog: CatalogOf, name: TableName, body: AlterTableRequest) -> Empty:
    """Applies all changes or none; they make one new version of the schema."""
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
    """Sets a new schema and removes all data, in one step.

    The id, the location and earlier snapshots stay.
    """
    catalog.tables.replace(name, Schema.from_json(body.table_schema))
    return Empty()


@router.delete(
    "/databases/{database}/tables/{table}",
    summary="Drop a table",
    responses=failures("no table", "protected"),
)
def drop_table(catalog: CatalogOf, name: TableName) -> Empty:
    """Also deletes its files, unless the table is external.

    If the server keeps dropped tables, the files stay until the table is purged.
    """
    catalog.tables.drop(name)
    return Empty()


@router.post(
    "/databases/{database}/tables/{table}/auth",
    summary="Get the row filters and column masks for a query",
    responses=failures("no table", "no column"),
)
def auth_table_query(
    catalog: CatalogOf, name: TableName, body: AuthTableQueryRequest
) -> AuthTableQueryResponse:
    """Refused (403) unless the caller may select all of the columns; no columns are all columns.

    The answer is the policies that restrict the caller, or a group that it belongs to. All filters
    hold together. A column that several masks meet is null. With `select`, only masks of those
    columns are answered; without it, all are.
    """
    info = catalog.tables.get(name)
    schema = info.schema
    schema.columns(body.select or ())
    restriction = catalog.policies.access(info.identifier).restriction
    if name.branch != MAIN_BRANCH or info.is_external:
        # Policies and permissions are of the table's own columns, which a branch can change, and
        # another engine, whose change has just been seen.
        present = catalog.tables.get(branch_of(info.identifier, MAIN_BRANCH)).schema
        restriction.check(str(name), present, schema)
        refuse_hidden_columns(catalog, name, present, [schema], body.select or None)
    masks = restriction.masks or {}
    wanted = masks if body.select is None else restriction.masked(body.select)
    return AuthTableQueryResponse(
        filter=list(restriction.filters),
        column_masking={each: masks[each] for each in sorted(wanted)},
    )


@router.get(
    "/databases/{database}/tables/{table}/token",
    summary="Get a token for a table's files",
    responses=failures("no table", "unsupported", _WITHHELD),
)
def get_table_token(
    services: ServicesOf, catalog: CatalogOf, name: TableName
) -> GetTableTokenResponse:
    """Short-lived credentials for the files of this table alone, if the operator gives them out.

    They are good for writing if the caller may write. Otherwise 501; clients use the client options
    that `/v1/config` returns. Callers who are shown only a part of the table are answered 403.
    """
    info = catalog.tables.get(name)
    refuse_withheld_files(catalog, info.identifier)
    if services.data_tokens is None:
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
    caller = current_principal()
    token = services.data_tokens.token(
        info.path,
        catalog.storage_options,
        caller="anybody" if caller is None else caller.name,
        may_write=may_write_files(catalog, name),
    )
    return GetTableTokenResponse(token=dict(token.options), expires_at_millis=token.expires_at)


@router.post(
    "/databases/{database}/tables/{table}/sign",
    summary="Sign requests to a table's files",
    responses=failures("no table", "unsupported", _WITHHELD),
)
def sign_table_requests(
    services: ServicesOf, catalog: CatalogOf, name: TableName, body: SignTableRequestsRequest
) -> SignTableRequestsResponse:
    """Requests to the object store as URLs, each good for one file and for a while.

    An addition of Headwater's, for stores without a security token service. The files are those
    below the table's directory; what changes files is for callers who may write to the table. LIST
    is a GET of the bucket's list, for one folder of the table. CREATE, PART, COMPLETE and ABORT are
    the steps of S3's multipart upload of one file.
    """
    info = catalog.tables.get(name)
    refuse_withheld_files(catalog, info.identifier)
    seconds = services.settings.signed_request_seconds
    if seconds is None or not can_sign(catalog) or not isinstance(catalog, SqlCatalog):
        raise Unsupported(
            "this server signs no requests to the files of this warehouse: it does so if it is "
            "started with HEADWATER_SIGNED_REQUEST_SECONDS, for warehouses in an S3-compatible "
            "store that name no role for data tokens (s3.sts.role-arn)"
        )
    if info.is_external:
        raise Unsupported(
            f"table {name} is external: the warehouse's credentials are not for {info.path}; give "
            "the client its own"
        )
    may_write = may_write_files(catalog, name)
    if not may_write and any(asked.method in CHANGES for asked in body.requests):
        raise Forbidden(f"you may read the files of table {name}, but not write or delete any")
    now = services.runtime.now_millis()
    signing = RequestSigning(info.path, catalog.storage_options, seconds)
    return SignTableRequestsResponse(
        requests=[signing.sign(asked, now) for asked in body.requests],
        expires_at_millis=now + seconds * 1000,
    )
