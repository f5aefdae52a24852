"""Permissions: granted, listed and revoked."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from headwater.catalog.model.permissions import PermissionTarget, check_access
from headwater.catalog.wire.permissions import (
    GrantModel,
    ListPermissionsResponse,
    RevokePermissionRequest,
    parse_target_type,
)
from headwater.catalog.wire.tables import Empty
from headwater.server.dependencies import CatalogOf, PageOf
from headwater.server.error_responses import Failure, failures
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(prefix="/v1/{prefix}/permissions", tags=["permission"])

_TARGETS = ("no database", "no table", "no view", "no function")
_NOT_ASKED = Failure(
    "columns without authorization",
    409,
    "table sales.orders: a permission on columns needs option 'query-auth.enabled' to be true, or "
    "readers do not ask which they may select; set it first",
    "TABLE",
    "orders",
)

_Name = Annotated[str | None, Query()]


@router.get("", summary="List permissions", responses=failures(*_TARGETS))
def list_permissions(
    catalog: CatalogOf,
    page: PageOf,
    resource_type: Annotated[
        str,
        Query(
            alias="resourceType",
            description="CATALOG, CATALOG_ALL, DATABASE, DATABASE_ALL, TABLE, COLUMN, VIEW or "
            "FUNCTION; the names that identify it are required, and no others are allowed.",
        ),
    ],
    database: _Name = None,
    table: _Name = None,
    function: _Name = None,
    view: _Name = None,
    principal: Annotated[
        str | None, Query(description="Only this principal's permissions.")
    ] = None,
    access: Annotated[str | None, Query(description="Only permissions for this access.")] = None,
) -> ListPermissionsResponse:
    """The unexpired grants on exactly this resource, by principal and access.

    It needs `GRANT` on the resource, unless `principal` is the caller or a group of the caller's.
    """
    target = PermissionTarget(parse_target_type(resource_type), database, table, function, view)
    found = catalog.permissions.list(
        target,
        # As pypaimon does: a blank filter is none.
        principal=principal if principal and principal.strip() else None,
        access=check_access(target, access) if access and access.strip() else None,
        **page,
    )
    return ListPermissionsResponse.of(found.map(GrantModel.of))


@router.post(
    "/grant",
    summary="Grant a permission",
    responses=failures(*_TARGETS, "no column", _NOT_ASKED),
)
def grant_permission(catalog: CatalogOf, body: GrantModel) -> Empty:
    """It replaces one with the same resource, access and principal, and holds at once.

    The principal is the name of a token, or `group:` and the name of a group. The grant follows a
    renamed resource, and is deleted once the resource is dropped for good.
    """
    catalog.permissions.grant(body.grant())
    return Empty()


@router.post("/revoke", summary="Revoke a permission", responses=failures(*_TARGETS))
def revoke_permission(catalog: CatalogOf, body: RevokePermissionRequest) -> Empty:
    """Not an error if there is none. Other servers of the database follow within ten seconds."""
    target = body.resource.target()
    catalog.permissions.revoke(target, check_access(target, body.access), body.principal)
    return Empty()
