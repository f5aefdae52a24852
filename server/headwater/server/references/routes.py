"""References of tables, serialised with deletions of their files."""

from __future__ import annotations

from headwater.catalog.wire.references import (
    CommitDeletionRequest,
    CommitDeletionResponse,
    ReferencesModel,
)
from headwater.catalog.wire.tables import Empty
from headwater.server.dependencies import CatalogOf, Segment, TableName
from headwater.server.error_responses import failures
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(
    prefix="/v1/{prefix}/databases/{database}/tables/{table}", tags=["deletion"]
)


@router.get(
    "/references",
    summary="Get the version of references",
    responses=failures("no table", "busy", "unsupported"),
)
def get_references(catalog: CatalogOf, name: TableName) -> ReferencesModel:
    """The version, and the deletion that is not finished.

    Tags, branches and consumers of all of the table's branches, rollbacks and deletions raise it.
    """
    return ReferencesModel.from_references(catalog.references.state(name))


@router.post(
    "/deletions",
    summary="Commit a deletion",
    responses=failures("no table", "busy", "unsupported"),
)
def commit_deletion(
    catalog: CatalogOf, name: TableName, body: CommitDeletionRequest
) -> CommitDeletionResponse:
    """Deletes snapshots, changelogs, tags and consumers of a branch, if no reference has changed.

    The caller planned from the files as they were at `version` which other files go with them,
    and deletes those afterwards. That a reference has changed, or another deletion is open, is a
    result and not an error: plan again. The same request may be repeated.
    """
    success = catalog.references.commit_deletion(name, body.deletion())
    return CommitDeletionResponse(success=success)


@router.delete(
    "/deletions/{deletion}",
    summary="Finish a deletion",
    responses=failures("no table", "unsupported"),
)
def finish_deletion(catalog: CatalogOf, name: TableName, deletion: Segment) -> Empty:
    """The caller has deleted its files; not an error if it is not open."""
    catalog.references.finish_deletion(name, deletion)
    return Empty()
