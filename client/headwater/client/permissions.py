"""The grants of a catalog behind a server that keeps them."""

from __future__ import annotations

from headwater.catalog.model.page import Page
from headwater.catalog.model.permissions import (
    Access,
    Grant,
    Holder,
    PermissionTarget,
    SeenTable,
    check_principal,
)
from headwater.catalog.wire.permissions import (
    GrantModel,
    ListHoldersResponse,
    ListPermissionsResponse,
    ListSeenTablesResponse,
    PermissionResourceModel,
    RevokePermissionRequest,
)
from headwater.catalog.wire.tables import Empty
from headwater.client.requests import Requests, paging

__all__ = ["RestPermissions"]


class RestPermissions:
    """The grants of one warehouse (`headwater.catalog.model.permissions.Permissions`).

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def list(
        self,
        target: PermissionTarget,
        *,
        principal: str | None = None,
        access: Access | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Grant]:
        """The grants on exactly this target that have not ended, by principal and access."""
        if principal is not None:
            # An empty one would be no parameter at all.
            check_principal(principal)
        params = paging(
            max_results,
            page_token,
            resourceType=target.type,
            database=target.database,
            table=target.table,
            function=target.function,
            view=target.view,
            principal=principal,
            access=access,
        )
        answer = self._requests.get(ListPermissionsResponse, params, "permissions")
        return answer.page().map(GrantModel.grant)

    def who(
        self,
        target: PermissionTarget,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Holder]:
        """Everybody with a right on a thing; see the protocol."""
        params = paging(
            max_results,
            page_token,
            resourceType=target.type,
            database=target.database,
            table=target.table,
            function=target.function,
            view=target.view,
        )
        answer = self._requests.manage(
            "GET", ListHoldersResponse, "permissions", "who", params=params
        )
        holders = tuple(each.holder() for each in answer.holders)
        return Page(holders, answer.next_page_token)

    def of(
        self,
        principal: str,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[SeenTable]:
        """The tables that a principal sees; see the protocol."""
        check_principal(principal)
        params = paging(max_results, page_token, principal=principal)
        answer = self._requests.manage(
            "GET", ListSeenTablesResponse, "permissions", "of", params=params
        )
        return Page(tuple(each.seen() for each in answer.tables), answer.next_page_token)

    def grant(self, grant: Grant) -> None:
        """Record a grant, in place of one of the same target, access and principal."""
        self._requests.post(Empty, GrantModel.of(grant), "permissions", "grant")

    def revoke(self, target: PermissionTarget, access: Access, principal: str) -> None:
        """Take a grant back; it is no error when there is none."""
        body = RevokePermissionRequest(
            resource=PermissionResourceModel.of(target), access=access, principal=principal
        )
        self._requests.post(Empty, body, "permissions", "revoke")
