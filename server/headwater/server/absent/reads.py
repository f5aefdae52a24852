"""Reads of things that cannot exist here yet; that there are none is the true answer.

Flink and Spark ask for views and functions on ordinary paths, such as a table that is not found.
"""

from __future__ import annotations

from fastapi import APIRouter

from headwater.catalog.wire import (
    Empty,
    ListFunctionDetailsResponse,
    ListFunctionsGloballyResponse,
    ListFunctionsResponse,
    ListViewDetailsResponse,
    ListViewsGloballyResponse,
    ListViewsResponse,
)
from headwater.server.dependencies import CatalogOf, Segment
from headwater.server.failures import failures
from headwater.storage.errors import NotFound, ResourceType

__all__ = ["router"]

router = APIRouter(prefix="/v1/{prefix}", tags=["not here yet"])


@router.get("/databases/{database}/views", summary="List views", responses=failures("no database"))
def list_views(catalog: CatalogOf, database: Segment) -> ListViewsResponse:
    """There are none."""
    catalog.get_database(database)
    return ListViewsResponse(views=[])


@router.get(
    "/databases/{database}/view-details",
    summary="List views with their schemas",
    responses=failures("no database"),
)
def list_view_details(catalog: CatalogOf, database: Segment) -> ListViewDetailsResponse:
    """There are none."""
    catalog.get_database(database)
    return ListViewDetailsResponse(view_details=[])


@router.get("/views", summary="List views of all databases", responses=failures())
def list_views_globally(catalog: CatalogOf) -> ListViewsGloballyResponse:
    """There are none."""
    return ListViewsGloballyResponse(views=[])


@router.get(
    "/databases/{database}/views/{view}", summary="Get a view", responses=failures("no view")
)
def get_view(catalog: CatalogOf, database: Segment, view: Segment) -> Empty:
    """There is none."""
    raise NotFound(
        f"view {database}.{view} does not exist; this server keeps no views yet",
        resource_type=ResourceType.VIEW,
        resource_name=view,
    )


@router.get(
    "/databases/{database}/functions", summary="List functions", responses=failures("no database")
)
def list_functions(catalog: CatalogOf, database: Segment) -> ListFunctionsResponse:
    """There are none."""
    catalog.get_database(database)
    return ListFunctionsResponse(functions=[])


@router.get(
    "/databases/{database}/function-details",
    summary="List functions with their definitions",
    responses=failures("no database"),
)
def list_function_details(catalog: CatalogOf, database: Segment) -> ListFunctionDetailsResponse:
    """There are none."""
    catalog.get_database(database)
    return ListFunctionDetailsResponse(function_details=[])


@router.get("/functions", summary="List functions of all databases", responses=failures())
def list_functions_globally(catalog: CatalogOf) -> ListFunctionsGloballyResponse:
    """There are none."""
    return ListFunctionsGloballyResponse(functions=[])


@router.get(
    "/databases/{database}/functions/{function}",
    summary="Get a function",
    responses=failures("no function"),
)
def get_function(catalog: CatalogOf, database: Segment, function: Segment) -> Empty:
    """There is none."""
    raise NotFound(
        f"function {database}.{function} does not exist; this server keeps no functions yet",
        resource_type=ResourceType.FUNCTION,
        resource_name=function,
    )
