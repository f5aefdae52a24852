"""Parameters shared by the management API's routes."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from headwater.catalog.model.catalog import Catalog
from headwater.server.dependencies import Segment, ServicesOf
from headwater.storage.errors import Forbidden

__all__ = ["ManagedCatalog", "require_manager"]


async def _catalog(services: ServicesOf, warehouse: Segment) -> Catalog:
    return await services.catalog(warehouse)


ManagedCatalog: TypeAlias = Annotated[Catalog, Depends(_catalog)]


async def require_manager(services: ServicesOf, request: Request) -> None:
    """Refuse a caller whose token does not open the management of warehouses.

    A server without any tokens serves this machine alone, and lets whoever is on it manage, too.

    Raises:
        Forbidden: The token is another.
        Unavailable: The database had to be asked about the token and did not answer.
    """
    if services.tokens is None:
        return
    _, _, token = request.headers.get("authorization", "").partition(" ")
    if not await services.tokens.may_manage(token.strip()):
        raise Forbidden(
            "this token does not let its caller manage warehouses; use one of --management-token "
            "(HEADWATER_MANAGEMENT_TOKENS) or of 'headwater token create NAME --management'"
        )
