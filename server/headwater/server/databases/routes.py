"""Databases."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from headwater.catalog.wire.databases import (
    AlterDatabaseRequest,
    AlterDatabaseResponse,
    CreateDatabaseRequest,
    GetDatabaseResponse,
    ListDatabasesResponse,
)
from headwater.catalog.wire.tables import Empty, without_nulls
from headwater.server.dependencies import CatalogOf, PageOf, Segment
from headwater.server.error_responses import failures
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(prefix="/v1/{prefix}/databases", tags=["database"])


@router.get("", summary="List databases", responses=failures())
def list_databases(
    catalog: CatalogOf,
    page: PageOf,
    pattern: Annotated[
        str | None,
        Query(alias="databaseNamePattern", description="A SQL LIKE pattern of names."),
    ] = None,
) -> ListDatabasesResponse:
    """Database names in order, by pages."""
    return ListDatabasesResponse.of(catalog.databases.list(pattern=pattern or None, **page))


@router.post("", summary="Create a database", responses=failures("database exists"))
def create_database(catalog: CatalogOf, body: CreateDatabaseRequest) -> Empty:
    """No database exists until it is created, not even `default`."""
    catalog.databases.create(body.name, without_nulls(body.options))
    return Empty()


@router.get("/{database}", summary="Get a database", responses=failures("no database"))
def get_database(catalog: CatalogOf, database: Segment) -> GetDatabaseResponse:
    """The database with its options."""
    return GetDatabaseResponse.of(catalog.databases.get(database))


@router.post(
    "/{database}", summary="Set and remove a database's options", responses=failures("no database")
)
def alter_database(
    catalog: CatalogOf, database: Segment, body: AlterDatabaseRequest
) -> AlterDatabaseResponse:
    """Removing an option that is not set is no error; the answer lists it as missing."""
    updates = without_nulls(body.updates)
    removals = [key for key in body.removals or () if key not in updates]
    before = catalog.databases.get(database).options
    catalog.databases.alter(database, updates, removals)
    return AlterDatabaseResponse(
        removed=[key for key in removals if key in before],
        updated=list(updates),
        missing=[key for key in removals if key not in before],
    )


@router.delete(
    "/{database}", summary="Drop a database", responses=failures("no database", "protected")
)
def drop_database(catalog: CatalogOf, database: Segment) -> Empty:
    """Also drops every table, view and function in it; clients that do not want that check first.

    Tables can be restored if the server keeps dropped tables; views and functions cannot.
    """
    catalog.databases.drop(database)
    return Empty()
