"""Flags that refuse to drop a database or a table."""

from __future__ import annotations

from headwater.catalog.wire.management import ProtectionModel
from headwater.server.dependencies import Segment, TableName
from headwater.server.error_responses import failures
from headwater.server.management.dependencies import ManagedCatalog
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(
    prefix="/management/v1/warehouses/{warehouse}/databases/{database}", tags=["management"]
)


@router.get(
    "/protection",
    summary="Get the protection of a database",
    responses=failures("no database"),
)
def get_database_protection(catalog: ManagedCatalog, database: Segment) -> ProtectionModel:
    """True if dropping it is refused."""
    return ProtectionModel(protected=catalog.protection.is_database_protected(database))


@router.post(
    "/protection",
    summary="Set or remove the protection of a database",
    responses=failures("no database"),
)
def set_database_protection(
    catalog: ManagedCatalog, database: Segment, body: ProtectionModel
) -> ProtectionModel:
    """A protected database cannot be dropped; its tables can, unless protected themselves."""
    catalog.protection.protect_database(database, body.protected)
    return body


@router.get(
    "/tables/{table}/protection",
    summary="Get the protection of a table",
    responses=failures("no table"),
)
def get_table_protection(catalog: ManagedCatalog, name: TableName) -> ProtectionModel:
    """True if dropping it is refused."""
    return ProtectionModel(protected=catalog.protection.is_table_protected(name))


@router.post(
    "/tables/{table}/protection",
    summary="Set or remove the protection of a table",
    responses=failures("no table"),
)
def set_table_protection(
    catalog: ManagedCatalog, name: TableName, body: ProtectionModel
) -> ProtectionModel:
    """A protected table cannot be dropped, nor can the database that holds it."""
    catalog.protection.protect_table(name, body.protected)
    return body
