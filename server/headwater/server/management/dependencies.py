"""Parameters shared by the management API's routes."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from headwater.catalog.model.catalog import Catalog
from headwater.server.dependencies import Principals, Segment, ServicesOf
from headwater.storage.errors import Unsupported

__all__ = ["ManagedCatalog", "PrincipalsOf"]


async def _catalog(services: ServicesOf, warehouse: Segment, request: Request) -> Catalog:
    return await services.catalog_for(request, warehouse)


ManagedCatalog: TypeAlias = Annotated[Catalog, Depends(_catalog)]


async def _principals(services: ServicesOf) -> Principals:
    if services.principals is None:
        raise Unsupported("this server has no database in which tokens could be managed")
    return services.principals


PrincipalsOf: TypeAlias = Annotated[Principals, Depends(_principals)]
