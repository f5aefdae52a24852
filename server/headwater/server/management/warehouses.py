"""The warehouses that the server has, and those of them that are managed at run time."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends

from headwater.catalog.model.warehouses import WarehouseInfo
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.wire.tables import Empty
from headwater.catalog.wire.warehouses import (
    AddWarehouseRequest,
    ListWarehousesResponse,
    SetWarehouseRequest,
    WarehouseModel,
)
from headwater.server.dependencies import PageOf, Segment, ServicesOf
from headwater.server.error_responses import failures
from headwater.server.managed_catalogs import ManagedCatalogs
from headwater.server.management.bounds import check_bounds
from headwater.server.resource_router import ResourceRouter
from headwater.storage.errors import AlreadyExists, Unsupported

__all__ = ["router"]

router = ResourceRouter(
    prefix="/management/v1/warehouses",
    tags=["management"],
)


async def _managed(services: ServicesOf) -> ManagedCatalogs:
    if services.managed is None:
        raise Unsupported("this server has no database in which warehouses could be managed")
    return services.managed


Managed: TypeAlias = Annotated[ManagedCatalogs, Depends(_managed)]


@router.get("", summary="List warehouses", responses=failures("no manager", "unsupported"))
def list_warehouses(managed: Managed, page: PageOf) -> ListWarehousesResponse:
    """The warehouses in the database, by name, without those that the server was started with.

    Options that may be secret are shown as `***`.
    """
    found = managed.warehouses.list(**page)
    return ListWarehousesResponse(
        warehouses=[WarehouseModel.of(info) for info in found.items],
        next_page_token=found.next_token,
    )


@router.post(
    "",
    summary="Add a warehouse",
    responses=failures("no manager", "not allowed", "warehouse exists", "unsupported"),
)
def add_warehouse(
    managed: Managed, services: ServicesOf, body: AddWarehouseRequest
) -> WarehouseModel:
    """Every server on the database serves it at once.

    It must lie in one of the server's `allowed_locations`, and its endpoint, if it has one, must be
    among the `allowed_endpoints`.
    """
    if body.name in services.catalogs:
        raise AlreadyExists(
            f"this server was started with a warehouse '{body.name}'; choose another name"
        )
    check_bounds(services.settings, body.location, body.options)
    started_with = {
        name: catalog.location
        for name, catalog in services.catalogs.items()
        if isinstance(catalog, SqlCatalog)
    }
    return WarehouseModel.of(
        managed.warehouses.add(body.name, body.location, body.options, beside=started_with)
    )


@router.get(
    "/{warehouse}",
    summary="Get a warehouse",
    responses=failures("no manager", "no warehouse", "unsupported"),
)
def get_warehouse(managed: Managed, warehouse: Segment) -> WarehouseModel:
    """Options that may be secret are shown as `***`."""
    return WarehouseModel.of(managed.warehouses.get(warehouse))


@router.post(
    "/{warehouse}",
    summary="Change a warehouse's options",
    responses=failures("no manager", "not allowed", "no warehouse", "unsupported"),
)
def set_warehouse(
    managed: Managed, services: ServicesOf, warehouse: Segment, body: SetWarehouseRequest
) -> WarehouseModel:
    """The other servers on the database follow within five seconds."""

    def check(info: WarehouseInfo) -> None:
        check_bounds(services.settings, info.location, info.options)

    info = managed.warehouses.set(warehouse, body.updates, body.removals, check=check)
    managed.forget(warehouse)
    return WarehouseModel.of(info)


@router.delete(
    "/{warehouse}",
    summary="Remove a warehouse",
    responses=failures("no manager", "no warehouse", "warehouse in use", "unsupported"),
)
def remove_warehouse(managed: Managed, warehouse: Segment) -> Empty:
    """It must be empty. The other servers of the database stop serving it within five seconds."""
    managed.warehouses.remove(warehouse)
    managed.forget(warehouse)
    return Empty()
