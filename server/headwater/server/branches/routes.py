"""Branches: lines of schemas and snapshots beside a table's own."""

from __future__ import annotations

from headwater.catalog.wire.branches import (
    CreateBranchRequest,
    ForwardBranchRequest,
    RenameBranchRequest,
)
from headwater.catalog.wire.tables import Empty, ListBranchesResponse
from headwater.server.dependencies import CatalogOf, Segment, TableName
from headwater.server.error_responses import failures
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(
    prefix="/v1/{prefix}/databases/{database}/tables/{table}/branches", tags=["branch"]
)


@router.get("", summary="List branches", responses=failures("no table", "unsupported"))
def list_branches(catalog: CatalogOf, name: TableName) -> ListBranchesResponse:
    """The names in order, without `main`."""
    return ListBranchesResponse(branches=list(catalog.branches.list(name)))


@router.post(
    "",
    summary="Create a branch",
    responses=failures("no table", "no tag", "no snapshot", "branch exists", "busy", "unsupported"),
)
def create_branch(catalog: CatalogOf, name: TableName, body: CreateBranchRequest) -> Empty:
    """The branch starts with the table's schemas and the snapshot that `fromTag` names.

    Without a tag it starts empty, or at `fromSnapshot`, which is Headwater's addition.
    """
    catalog.branches.create(
        name, body.branch, from_tag=body.from_tag, from_snapshot=body.from_snapshot
    )
    return Empty()


@router.delete(
    "/{branch}",
    summary="Drop a branch",
    responses=failures("no table", "no branch", "busy", "unsupported"),
)
def drop_branch(catalog: CatalogOf, name: TableName, branch: Segment) -> Empty:
    """Drops its schemas, snapshots and tags; data files stay until they expire."""
    catalog.branches.drop(name, branch)
    return Empty()


@router.post(
    "/{branch}/rename",
    summary="Rename a branch",
    responses=failures("no table", "no branch", "branch exists", "busy", "unsupported"),
)
def rename_branch(
    catalog: CatalogOf, name: TableName, branch: Segment, body: RenameBranchRequest
) -> Empty:
    """Its files move with it."""
    catalog.branches.rename(name, branch, body.to_branch)
    return Empty()


@router.post(
    "/{branch}/forward",
    summary="Fast-forward the main branch",
    responses=failures("no table", "no branch", "busy", "unsupported"),
)
def forward_branch(
    catalog: CatalogOf, name: TableName, branch: Segment, body: ForwardBranchRequest
) -> Empty:
    """Makes the branch's latest snapshot the table's.

    Their common history stays; the table's own snapshots and tags after it are deleted. A branch
    without a snapshot changes nothing.
    """
    catalog.branches.fast_forward(name, branch)
    return Empty()
