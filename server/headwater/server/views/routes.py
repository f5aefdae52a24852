"""Views: queries with a name."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.wire.tables import Empty, IdentifierModel, RenameTableRequest
from headwater.catalog.wire.views import (
    AlterViewRequest,
    CreateViewRequest,
    GetViewResponse,
    ListViewDetailsResponse,
    ListViewsGloballyResponse,
    ListViewsResponse,
    ReplaceViewRequest,
)
from headwater.server.dependencies import CatalogOf, DatabasePattern, PageOf, Segment
from headwater.server.error_responses import failures
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(prefix="/v1/{prefix}", tags=["view"])

_NamePattern = Annotated[
    str | None, Query(alias="viewNamePattern", description="A SQL LIKE pattern of names.")
]


@router.get("/databases/{database}/views", summary="List views", responses=failures("no database"))
def list_views(
    catalog: CatalogOf, database: Segment, page: PageOf, pattern: _NamePattern = None
) -> ListViewsResponse:
    """View names in order, by pages."""
    found = catalog.views.list(database, pattern=pattern or None, **page)
    return ListViewsResponse.of(found)


@router.get(
    "/databases/{database}/view-details",
    summary="List views with their schemas",
    responses=failures("no database"),
)
def list_view_details(
    catalog: CatalogOf, database: Segment, page: PageOf, pattern: _NamePattern = None
) -> ListViewDetailsResponse:
    """Views in the order of their names, by pages."""
    found = catalog.views.list_details(database, pattern=pattern or None, **page)
    return ListViewDetailsResponse.of(found.map(GetViewResponse.of))


@router.get("/views", summary="List views of all databases", responses=failures())
def list_views_globally(
    catalog: CatalogOf,
    page: PageOf,
    database_pattern: DatabasePattern = None,
    pattern: _NamePattern = None,
) -> ListViewsGloballyResponse:
    """Views in the order of database and name, by pages."""
    found = catalog.views.list_globally(
        database_pattern=database_pattern or None, pattern=pattern or None, **page
    )
    return ListViewsGloballyResponse.of(found.map(IdentifierModel.of))


@router.post(
    "/databases/{database}/views",
    summary="Create a view",
    responses=failures("no database", "view exists"),
)
def create_view(catalog: CatalogOf, database: Segment, body: CreateViewRequest) -> Empty:
    """Keeps its queries as they are; no query is run or checked.

    Views and tables have name spaces of their own.
    """
    catalog.views.create(body.identifier.identifier_in(database), body.view_schema.view_schema())
    return Empty()


@router.post(
    "/views/rename",
    summary="Rename a view",
    responses=failures("no database", "no view", "view exists"),
)
def rename_view(catalog: CatalogOf, body: RenameTableRequest) -> Empty:
    """Another name, and another database if so asked; the id stays."""
    catalog.views.rename(body.source.identifier(), body.destination.identifier())
    return Empty()


@router.get(
    "/databases/{database}/views/{view}", summary="Get a view", responses=failures("no view")
)
def get_view(catalog: CatalogOf, database: Segment, view: Segment) -> GetViewResponse:
    """The view with its queries."""
    return GetViewResponse.of(catalog.views.get(Identifier(database, view)))


@router.post(
    "/databases/{database}/views/{view}",
    summary="Change a view",
    responses=failures("no view", "no dialect", "dialect exists"),
)
def alter_view(
    catalog: CatalogOf, database: Segment, view: Segment, body: AlterViewRequest
) -> Empty:
    """All changes or none, each upon what the one before left."""
    changes = [item.change() for item in body.changes]
    catalog.views.alter(Identifier(database, view), changes)
    return Empty()


@router.post(
    "/databases/{database}/views/{view}/replace",
    summary="Replace a view",
    responses=failures("no view"),
)
def replace_view(
    catalog: CatalogOf, database: Segment, view: Segment, body: ReplaceViewRequest
) -> Empty:
    """Other columns and queries in one step: a reader finds the old view or the new one.

    The id, the owner and the permissions stay. Headwater's own, not Paimon's.
    """
    catalog.views.replace(
        Identifier(database, view),
        body.view_schema.view_schema(),
        keep_properties=body.keep_properties,
    )
    return Empty()


@router.delete(
    "/databases/{database}/views/{view}", summary="Drop a view", responses=failures("no view")
)
def drop_view(catalog: CatalogOf, database: Segment, view: Segment) -> Empty:
    """The tables it speaks of stay."""
    catalog.views.drop(Identifier(database, view))
    return Empty()
