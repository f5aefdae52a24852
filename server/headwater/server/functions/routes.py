"""Functions: what engines call by name."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.wire.functions import (
    AlterFunctionRequest,
    CreateFunctionRequest,
    FunctionSpecModel,
    GetFunctionResponse,
    ListFunctionDetailsResponse,
    ListFunctionsGloballyResponse,
    ListFunctionsResponse,
)
from headwater.catalog.wire.tables import Empty, IdentifierModel
from headwater.server.dependencies import CatalogOf, DatabasePattern, PageOf, Segment
from headwater.server.error_responses import failures
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(prefix="/v1/{prefix}", tags=["function"])

_NamePattern = Annotated[
    str | None, Query(alias="functionNamePattern", description="A SQL LIKE pattern of names.")
]


@router.get(
    "/databases/{database}/functions", summary="List functions", responses=failures("no database")
)
def list_functions(
    catalog: CatalogOf, database: Segment, page: PageOf, pattern: _NamePattern = None
) -> ListFunctionsResponse:
    """Function names in order, by pages."""
    found = catalog.functions.list(database, pattern=pattern or None, **page)
    return ListFunctionsResponse.of(found)


@router.get(
    "/databases/{database}/function-details",
    summary="List functions with their definitions",
    responses=failures("no database"),
)
def list_function_details(
    catalog: CatalogOf, database: Segment, page: PageOf, pattern: _NamePattern = None
) -> ListFunctionDetailsResponse:
    """Functions in the order of their names, by pages."""
    found = catalog.functions.list_details(database, pattern=pattern or None, **page)
    return ListFunctionDetailsResponse.of(found.map(GetFunctionResponse.of_info))


@router.get("/functions", summary="List functions of all databases", responses=failures())
def list_functions_globally(
    catalog: CatalogOf,
    page: PageOf,
    database_pattern: DatabasePattern = None,
    pattern: _NamePattern = None,
) -> ListFunctionsGloballyResponse:
    """Functions in the order of database and name, by pages."""
    found = catalog.functions.list_globally(
        database_pattern=database_pattern or None, pattern=pattern or None, **page
    )
    return ListFunctionsGloballyResponse.of(found.map(IdentifierModel.of))


@router.post(
    "/databases/{database}/functions",
    summary="Create a function",
    responses=failures("no database", "function exists"),
)
def create_function(catalog: CatalogOf, database: Segment, body: CreateFunctionRequest) -> Empty:
    """Keeps its definitions as they are; none is run or checked.

    A name has letters, digits, `_`, `-` and `.`, and at least one letter.
    """
    catalog.functions.create(Identifier(database, body.name), body.spec())
    return Empty()


@router.get(
    "/databases/{database}/functions/{function}",
    summary="Get a function",
    responses=failures("no function"),
)
def get_function(catalog: CatalogOf, database: Segment, function: Segment) -> GetFunctionResponse:
    """The function with its definitions."""
    return GetFunctionResponse.of_info(catalog.functions.get(Identifier(database, function)))


@router.post(
    "/databases/{database}/functions/{function}",
    summary="Change a function",
    responses=failures("no function", "no definition", "definition exists"),
)
def alter_function(
    catalog: CatalogOf, database: Segment, function: Segment, body: AlterFunctionRequest
) -> Empty:
    """All changes or none, each upon what the one before left."""
    changes = [item.change() for item in body.changes]
    catalog.functions.alter(Identifier(database, function), changes)
    return Empty()


@router.post(
    "/databases/{database}/functions/{function}/replace",
    summary="Replace a function",
    responses=failures("no function"),
)
def replace_function(
    catalog: CatalogOf, database: Segment, function: Segment, body: FunctionSpecModel
) -> Empty:
    """Other parameters and definitions in one step: a caller finds the old ones or the new ones.

    The id, the owner and the permissions stay. Headwater's own, not Paimon's.
    """
    catalog.functions.replace(Identifier(database, function), body.spec())
    return Empty()


@router.delete(
    "/databases/{database}/functions/{function}",
    summary="Drop a function",
    responses=failures("no function"),
)
def drop_function(catalog: CatalogOf, database: Segment, function: Segment) -> Empty:
    """The files of its definitions stay."""
    catalog.functions.drop(Identifier(database, function))
    return Empty()
