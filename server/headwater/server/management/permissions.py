"""Overviews of permissions: who sees a thing, and what somebody sees."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from headwater.catalog.model.permissions import PermissionTarget
from headwater.catalog.wire.permissions import (
    HolderModel,
    ListHoldersResponse,
    ListSeenTablesResponse,
    SeenTableModel,
    parse_target_type,
)
from headwater.server.dependencies import PageOf
from headwater.server.error_responses import failures
from headwater.server.management.dependencies import ManagedCatalog
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(
    prefix="/management/v1/warehouses/{warehouse}/permissions", tags=["management"]
)

_Name = Annotated[str | None, Query()]


@router.get(
    "/who",
    summary="List who has rights on a thing",
    responses=failures("no database", "no table", "no view", "no function"),
)
def list_holders(
    catalog: ManagedCatalog,
    page: PageOf,
    resource_type: Annotated[
        str,
        Query(
            alias="resourceType",
            description="CATALOG, DATABASE, TABLE, VIEW or FUNCTION; the names that identify it "
            "are required, and no others are allowed.",
        ),
    ],
    database: _Name = None,
    table: _Name = None,
    function: _Name = None,
    view: _Name = None,
) -> ListHoldersResponse:
    """By grants on it and on what it is in, or as an owner; groups are not taken apart.

    It needs `GRANT` on the thing. Callers whose tokens ask no permission are not listed. A page may
    be short and still not be the last.
    """
    target = PermissionTarget(parse_target_type(resource_type), database, table, function, view)
    found = catalog.permissions.who(target, **page)
    return ListHoldersResponse(
        holders=[HolderModel.of(each) for each in found.items], next_page_token=found.next_token
    )


@router.get("/of", summary="List the tables that a principal sees", responses=failures())
def list_seen_tables(
    catalog: ManagedCatalog,
    page: PageOf,
    principal: Annotated[str, Query(description="The principal, or a group as `group:NAME`.")],
) -> ListSeenTablesResponse:
    """By its own grants, those of its groups that the catalog keeps, and as an owner.

    It needs `GRANT` on everything in the catalog, unless it is about the caller.
    """
    found = catalog.permissions.of(principal, **page)
    return ListSeenTablesResponse(
        tables=[SeenTableModel.of(each) for each in found.items], next_page_token=found.next_token
    )
