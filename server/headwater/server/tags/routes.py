"""Tags: snapshots with a name."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from headwater.catalog.wire.history import (
    CreateTagRequest,
    GetTagResponse,
    ListTagsResponse,
    RenameTagRequest,
    ReplaceTagRequest,
    parse_retention,
)
from headwater.catalog.wire.tables import Empty
from headwater.server.dependencies import CatalogOf, PageOf, Segment, TableName
from headwater.server.error_responses import failures
from headwater.server.json_text import Raw, json_response
from headwater.server.resource_router import ResourceRouter
from headwater.storage.errors import AlreadyExists

__all__ = ["router"]

router = ResourceRouter(
    prefix="/v1/{prefix}/databases/{database}/tables/{table}/tags", tags=["tag"]
)


@router.get(
    "",
    summary="List tags",
    responses=failures("no table", "unsupported"),
)
def list_tags(
    catalog: CatalogOf,
    name: TableName,
    page: PageOf,
    tag_prefix: Annotated[
        str | None, Query(alias="tagNamePrefix", description="A prefix of the names.")
    ] = None,
) -> ListTagsResponse:
    """Tag names in order, by pages."""
    return ListTagsResponse.of(catalog.tags.list(name, prefix=tag_prefix or None, **page))


@router.post(
    "",
    summary="Create a tag",
    responses=failures("no table", "no snapshot", "tag exists", "unsupported"),
)
def create_tag(catalog: CatalogOf, name: TableName, body: CreateTagRequest) -> Empty:
    """Tags a snapshot, by default the latest."""
    retained = None if body.time_retained is None else parse_retention(body.time_retained)
    try:
        catalog.tags.create(
            name,
            body.tag_name,
            body.snapshot_id,
            retained_millis=retained,
            snapshot_uuid=body.snapshot_uuid,
        )
    except AlreadyExists:
        if not body.ignore_if_exists:
            raise
    return Empty()


@router.get(
    "/{tag}",
    summary="Get a tag",
    responses=failures("no table", "no tag", "unsupported"),
    response_model=GetTagResponse,
)
def get_tag(catalog: CatalogOf, name: TableName, tag: Segment) -> Response:
    """The tagged snapshot, the tag's creation time and its retention."""
    info = catalog.tags.get(name, tag)
    document = GetTagResponse.of(info).model_dump(by_alias=True)
    return json_response({**document, "snapshot": Raw(info.snapshot.to_json())})


@router.post(
    "/{tag}/replace",
    summary="Replace a tag",
    responses=failures("no table", "no tag", "no snapshot", "busy", "unsupported"),
)
def replace_tag(
    catalog: CatalogOf, name: TableName, tag: Segment, body: ReplaceTagRequest
) -> Empty:
    """The tag names another snapshot, by default the latest.

    Files that only the tag kept stay until orphan files are removed.
    """
    retained = None if body.time_retained is None else parse_retention(body.time_retained)
    catalog.tags.replace(name, tag, body.snapshot_id, retained_millis=retained)
    return Empty()


@router.post(
    "/{tag}/rename",
    summary="Rename a tag",
    responses=failures("no table", "no tag", "tag exists", "busy", "unsupported"),
)
def rename_tag(catalog: CatalogOf, name: TableName, tag: Segment, body: RenameTagRequest) -> Empty:
    """Its snapshot and its retention stay."""
    catalog.tags.rename(name, tag, body.to_tag)
    return Empty()


@router.delete(
    "/{tag}",
    summary="Delete a tag",
    responses=failures("no table", "no tag", "busy", "unsupported"),
)
def delete_tag(catalog: CatalogOf, name: TableName, tag: Segment) -> Empty:
    """The snapshot's files stay until it expires, or until orphan files are removed."""
    catalog.tags.delete(name, tag)
    return Empty()
