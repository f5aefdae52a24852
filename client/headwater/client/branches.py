"""Branches behind a Paimon REST server."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.wire.branches import (
    CreateBranchRequest,
    ForwardBranchRequest,
    RenameBranchRequest,
)
from headwater.catalog.wire.tables import Empty, ListBranchesResponse
from headwater.client.requests import Requests, table_path

__all__ = ["RestBranches"]


class RestBranches:
    """Implements `headwater.catalog.model.branches.Branches` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def list(self, identifier: Identifier) -> Sequence[str]:
        """The names, without ``main``."""
        path = (*table_path(identifier), "branches")
        return self._requests.get(ListBranchesResponse, None, *path, of=identifier).branches or ()

    def create(
        self,
        identifier: Identifier,
        branch: str,
        *,
        from_tag: str | None = None,
        from_snapshot: int | None = None,
    ) -> None:
        """Begin a branch."""
        body = CreateBranchRequest(branch=branch, from_tag=from_tag, from_snapshot=from_snapshot)
        self._requests.post(Empty, body, *table_path(identifier), "branches", of=identifier)

    def rename(self, identifier: Identifier, branch: str, new_name: str) -> None:
        """Give a branch another name."""
        body = RenameBranchRequest(to_branch=new_name)
        path = (*table_path(identifier), "branches", branch, "rename")
        self._requests.post(Empty, body, *path, of=identifier)

    def fast_forward(self, identifier: Identifier, branch: str) -> None:
        """Make the table hold what a branch of it holds."""
        path = (*table_path(identifier), "branches", branch, "forward")
        self._requests.post(Empty, ForwardBranchRequest(), *path, of=identifier)

    def drop(self, identifier: Identifier, branch: str) -> None:
        """Drop a branch."""
        self._requests.delete(*table_path(identifier), "branches", branch, of=identifier)
