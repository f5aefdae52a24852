"""Dropped tables that can be restored."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from headwater.catalog.wire.management import (
    DroppedTableModel,
    ListDroppedTablesResponse,
    RestoreTableRequest,
    RestoreTableResponse,
)
from headwater.catalog.wire.tables import Empty, IdentifierModel
from headwater.server.dependencies import PageOf, Segment
from headwater.server.error_responses import failures
from headwater.server.management.dependencies import ManagedCatalog
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(
    prefix="/management/v1/warehouses/{warehouse}/dropped-tables", tags=["management"]
)


@router.get("", summary="List dropped tables", responses=failures())
def list_dropped_tables(
    catalog: ManagedCatalog,
    page: PageOf,
    database: Annotated[
        str | None, Query(description="Only tables of this database, which may be dropped itself.")
    ] = None,
) -> ListDroppedTablesResponse:
    """The tables that can be restored, by database, name and id, in pages."""
    found = catalog.dropped_tables.list(database=database or None, **page)
    return ListDroppedTablesResponse(
        dropped_tables=[DroppedTableModel.of(info) for info in found.items],
        next_page_token=found.next_token,
    )


@router.post(
    "/{table_id}/restore",
    summary="Restore a dropped table",
    responses=failures("no table", "no database", "table exists"),
)
def restore_table(
    catalog: ManagedCatalog, table_id: Segment, body: RestoreTableRequest
) -> RestoreTableResponse:
    """Brings the table back as it was, under its old name or a new one."""
    destination = None if body.destination is None else body.destination.identifier()
    restored = catalog.dropped_tables.restore(table_id, destination)
    return RestoreTableResponse(identifier=IdentifierModel.of(restored))


@router.delete("/{table_id}", summary="Purge a dropped table", responses=failures("no table"))
def purge_table(catalog: ManagedCatalog, table_id: Segment) -> Empty:
    """Deletes it for good, with its files unless it is external."""
    catalog.dropped_tables.purge(table_id)
    return Empty()
