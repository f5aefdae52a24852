"""Commits, snapshots, rollback."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headwater.catalog.sql.tables.bulk_reads import StoredSnapshot
from headwater.catalog.wire.history import (
    CommitTableRequest,
    CommitTableResponse,
    GetLastCommitResponse,
    GetTableSnapshotResponse,
    GetVersionSnapshotResponse,
    ListSnapshotsResponse,
    RollbackSchemaRequest,
    RollbackTableRequest,
    SnapshotInstant,
    snapshot_from_wire,
)
from headwater.catalog.wire.tables import Empty
from headwater.server.answers import snapshot_text
from headwater.server.authorization import authorize
from headwater.server.dependencies import (
    CatalogOf,
    PageOf,
    Segment,
    ServicesOf,
    TableName,
    require_table,
)
from headwater.server.error_responses import failures
from headwater.server.json_text import BodyText, Raw, json_response, member_text
from headwater.server.large_bodies import BodyRoute
from headwater.server.resource_router import ResourceRouter
from headwater.storage.errors import Invalid, NotFound, ResourceType

__all__ = ["router"]


class _TableFirst(BodyRoute):
    """A route that says that its table does not exist before it says what is wrong with a body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The ordinary handler, and a look for the table where that finds fault."""
        handle = super().get_route_handler()

        async def look_first(request: Request) -> Response:
            try:
                return await handle(request)
            except (HTTPException, RequestValidationError, Invalid):
                # Before whatever is asked of the table: the caller may not even see it.
                await authorize(request)
                await require_table(request)
                raise

        return look_first


router = ResourceRouter(
    prefix="/v1/{prefix}/databases/{database}/tables/{table}",
    tags=["snapshot"],
    route_class=_TableFirst,
)


@router.post("/commit", summary="Commit a snapshot", responses=failures("no table", "unsupported"))
def commit_table(
    services: ServicesOf,
    catalog: CatalogOf,
    name: TableName,
    body: CommitTableRequest,
    text: BodyText,
) -> CommitTableResponse:
    """Makes the snapshot the latest, if its base is still the latest.

    A conflict is not an error: the answer is `{"success": false}`. After a 5xx the outcome is
    unknown; retry with the same snapshot and the same uuid.
    """
    with services.metrics.committing(catalog.warehouse) as commit:
        answer = catalog.snapshots.commit(
            name,
            body.table_id,
            snapshot_from_wire(member_text(text, "snapshot")),
            body.base_snapshot_uuid,
            [item.statistics() for item in body.statistics or ()],
        )
        success = answer.decided()
        commit.outcome = "success" if success else "conflict"
    return CommitTableResponse(success=success)


@router.get(
    "/snapshot",
    summary="Get the latest snapshot",
    responses=failures("no table", "no snapshot", "unsupported"),
    response_model=GetTableSnapshotResponse,
)
def get_table_snapshot(catalog: CatalogOf, name: TableName) -> Response:
    """The latest snapshot, with the table's sizes.

    A table without any snapshot answers 404 with the resource type `SNAPSHOT`.
    """
    info = catalog.snapshots.latest(name)
    if info is None:
        raise NotFound(
            f"table {name} has no snapshot yet",
            resource_type=ResourceType.SNAPSHOT,
            resource_name="LATEST",
        )
    stored = StoredSnapshot(
        info.snapshot.to_json(),
        info.record_count,
        info.file_size_in_bytes,
        info.file_count,
        info.last_file_creation_time,
    )
    return Response(snapshot_text(stored), media_type="application/json")


@router.get(
    "/snapshots",
    summary="List snapshots",
    responses=failures("no table", "unsupported"),
    response_model=ListSnapshotsResponse,
)
def list_snapshots(catalog: CatalogOf, name: TableName, page: PageOf) -> Response:
    """The snapshots that still exist, newest first, by pages."""
    found = catalog.snapshots.list(name, **page)
    texts = [Raw(item.to_json()) for item in found.items]
    return json_response({"snapshots": texts, "nextPageToken": found.next_token})


@router.get(
    "/snapshots/{version}",
    summary="Get a snapshot",
    responses=failures("no table", "no snapshot", "unsupported"),
    response_model=GetVersionSnapshotResponse,
)
def get_version_snapshot(catalog: CatalogOf, name: TableName, version: Segment) -> Response:
    """One snapshot, by its id, a tag's name, `EARLIEST` or `LATEST`."""
    return json_response({"snapshot": Raw(catalog.snapshots.get(name, version).to_json())})


@router.get(
    "/commits/{user}",
    summary="Get the number of a user's last commit",
    responses=failures("no table", "unsupported"),
)
def get_last_commit(catalog: CatalogOf, name: TableName, user: Segment) -> GetLastCommitResponse:
    """Of commits that the user numbered, also when their snapshots have expired.

    A job that was away for long learns by it which of its commits it must not repeat, and a new one
    that it has none, without reading the table's snapshots.
    """
    return GetLastCommitResponse.of(catalog.snapshots.commits_of(name, user))


@router.post(
    "/rollback",
    summary="Roll a table back",
    responses=failures("no table", "no snapshot", "no tag", "moved on", "unsupported"),
)
def rollback_table(catalog: CatalogOf, name: TableName, body: RollbackTableRequest) -> Empty:
    """Makes an earlier snapshot the latest; later snapshots and their tags are deleted.

    With `fromSnapshot`, only if that is still the latest.
    """
    if isinstance(body.instant, SnapshotInstant):
        catalog.snapshots.rollback_to_snapshot(name, body.instant.snapshot_id, body.from_snapshot)
    else:
        catalog.snapshots.rollback_to_tag(name, body.instant.tag_name, body.from_snapshot)
    return Empty()


@router.post(
    "/rollback-schema",
    summary="Roll a table's schema back",
    responses=failures("no table", "schema in use", "unsupported"),
)
def rollback_schema(catalog: CatalogOf, name: TableName, body: RollbackSchemaRequest) -> Empty:
    """Makes an earlier schema the latest, if no snapshot, tag or changelog needs a later one."""
    catalog.snapshots.rollback_schema(name, body.schema_id)
    return Empty()
