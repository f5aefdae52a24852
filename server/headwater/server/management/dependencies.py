"""What the management API's routes take from a request."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends

from headwater.catalog.model.catalog import Catalog
from headwater.server.dependencies import Segment, ServicesOf

__all__ = ["ManagedCatalog"]


async def _catalog(services: ServicesOf, warehouse: Segment) -> Catalog:
    return await services.catalog(warehouse)


ManagedCatalog: TypeAlias = Annotated[Catalog, Depends(_catalog)]
