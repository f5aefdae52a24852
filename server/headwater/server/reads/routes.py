"""Rows of a table, read by the server: filtered and masked as policies say."""

from __future__ import annotations

from functools import partial

from headwater.catalog.table.restricted_read import open_rows
from headwater.catalog.wire.reads import ARROW_STREAM, ReadTableRequest
from headwater.server.column_rights import refuse_hidden_columns
from headwater.server.dependencies import CatalogOf, ServicesOf, TableName
from headwater.server.error_responses import Failure, failures
from headwater.server.reads.row_response import RowResponse
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(
    prefix="/v1/{prefix}/databases/{database}/tables/{table}/read", tags=["table"]
)

_CHANGED_SCHEMA = Failure(
    "policy column differs",
    403,
    "table sales.orders: what you may see of it depends on column 'phone', which is not the same "
    "in schema 0 of the rows asked for; read the latest rows instead",
)
_CHANGED_POLICIES = Failure(
    "policies changed",
    409,
    "the policies of table sales.orders have changed since other parts of it were read; read it "
    "again",
)
_EXTERNAL = Failure(
    "external table",
    501,
    "table sales.orders is external, and the server does not read its files; read it with "
    "credentials of your own",
)


@router.post(
    "",
    summary="Read rows of a table",
    status_code=200,
    response_class=RowResponse,
    responses={
        **failures("no table", "no column", _CHANGED_SCHEMA, _CHANGED_POLICIES, _EXTERNAL),
        200: {"content": {ARROW_STREAM: {"schema": {"type": "string", "format": "binary"}}}},
    },
)
async def read_table(
    services: ServicesOf, catalog: CatalogOf, name: TableName, body: ReadTableRequest
) -> RowResponse:
    """The rows that the caller is shown, as an Arrow IPC stream.

    Row filters come first, then column masks; `where` sees masked values. The schema's metadata has
    the snapshot, the table's schema and a fingerprint of the policies. A stream without Arrow's
    end-of-stream mark broke off. Headwater's own, not Paimon's.
    """
    request = body.request()
    batch_rows = services.settings.read_batch_rows
    return RowResponse(
        partial(
            open_rows,
            catalog,
            name,
            request,
            batch_rows=batch_rows,
            check_columns=partial(refuse_hidden_columns, catalog, name),
        ),
        services.reads,
    )
