"""Partitions: what each holds, whether it is done."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from headwater.catalog.model.page import Page
from headwater.catalog.wire.partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DropPartitionsRequest,
    DropPartitionsResponse,
    ListPartitionsByFilterRequest,
    ListPartitionsResponse,
    PartitionModel,
    PartitionSpecsRequest,
)
from headwater.catalog.wire.tables import Empty
from headwater.server.dependencies import CatalogOf, PageOf, TableName, page_size
from headwater.server.error_responses import Failure, failures
from headwater.server.file_rights import refuse_hidden_partitions
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(
    prefix="/v1/{prefix}/databases/{database}/tables/{table}/partitions", tags=["partition"]
)

_RESTRICTED = Failure(
    "policies restrict",
    403,
    "policies restrict what you see of table sales.orders, and its partitions tell of all rows",
)


@router.get(
    "",
    summary="List partitions",
    responses=failures("no table", "no partitions here", _RESTRICTED),
)
def list_partitions(
    catalog: CatalogOf,
    name: TableName,
    page: PageOf,
    pattern: Annotated[
        str | None,
        Query(
            alias="partitionNamePattern",
            description="A LIKE pattern over names such as `dt=2026-01-01/hour=5`.",
        ),
    ] = None,
) -> ListPartitionsResponse:
    """The partitions ordered by name, in pages; not for callers whom policies restrict."""
    refuse_hidden_partitions(catalog, name)
    found = catalog.partitions.list(name, pattern=pattern or None, **page)
    return ListPartitionsResponse.of(found.map(PartitionModel.of))


@router.post(
    "",
    summary="Create partitions",
    responses=failures("no table", "partition exists", "no partitions here", _RESTRICTED),
)
def create_partitions(
    catalog: CatalogOf, name: TableName, body: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Registers partitions and records their statistics, all of them or none.

    Not for callers whom policies restrict: the answer tells which exist.
    """
    refuse_hidden_partitions(catalog, name)
    reported = body.partition_statistics
    statistics = None if reported is None else [item.statistics() for item in reported]
    result = catalog.partitions.create(
        name,
        body.partition_specs,
        ignore_if_exists=body.ignore_if_exists is not False,
        statistics=statistics,
        replace_statistics=body.replace_statistics,
    )
    return CreatePartitionsResponse.of(result)


@router.post(
    "/drop",
    summary="Drop partitions",
    responses=failures("no table", "no partition", "no partitions here", _RESTRICTED),
)
def drop_partitions(
    catalog: CatalogOf, name: TableName, body: DropPartitionsRequest
) -> DropPartitionsResponse:
    """Removes partitions from the catalog; the client deletes their files.

    Not for callers whom policies restrict: the answer tells which exist.
    """
    refuse_hidden_partitions(catalog, name)
    result = catalog.partitions.drop(
        name,
        body.partition_specs,
        ignore_if_not_exists=body.ignore_if_not_exists is not False,
    )
    return DropPartitionsResponse.of(result)


@router.post(
    "/mark",
    summary="Mark partitions as done",
    responses=failures("no table", "no partitions here"),
)
def mark_done_partitions(catalog: CatalogOf, name: TableName, body: PartitionSpecsRequest) -> Empty:
    """Registers those that do not exist yet."""
    catalog.partitions.mark_done(name, body.specs)
    return Empty()


@router.post(
    "/list-by-names",
    summary="List partitions by name",
    responses=failures("no table", "no partitions here", _RESTRICTED),
)
def list_partitions_by_names(
    catalog: CatalogOf, name: TableName, body: PartitionSpecsRequest
) -> ListPartitionsResponse:
    """Those of up to 1000 given partitions that exist, in one page.

    Not for callers whom policies restrict.
    """
    refuse_hidden_partitions(catalog, name)
    found = Page(catalog.partitions.list_by_names(name, body.specs))
    return ListPartitionsResponse.of(found.map(PartitionModel.of))


@router.post(
    "/list-by-filter",
    summary="List partitions by filter",
    responses=failures("no table", "no partitions here", _RESTRICTED),
)
def list_partitions_by_filter(
    catalog: CatalogOf, name: TableName, body: ListPartitionsByFilterRequest
) -> ListPartitionsResponse:
    """Partitions that may match a predicate, by pages.

    Some may not match: evaluate the predicate again. A page may be empty and still have a token for
    the next. Not for callers whom policies restrict.
    """
    refuse_hidden_partitions(catalog, name)
    found = catalog.partitions.list_by_filter(
        name,
        body.filter,
        pattern=body.partition_name_pattern or None,
        max_results=page_size(body.max_results),
        page_token=body.page_token or None,
    )
    return ListPartitionsResponse.of(found.map(PartitionModel.of))
