"""Groups of principals, which permissions name as ``group:NAME``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from headwater.catalog.wire.principals import (
    AddMemberRequest,
    ListMembershipsResponse,
    MembershipModel,
)
from headwater.catalog.wire.tables import Empty
from headwater.server.dependencies import PageOf, Segment
from headwater.server.error_responses import Failure, failures
from headwater.server.management.dependencies import PrincipalsOf
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(prefix="/management/v1/groups", tags=["management"])

_EXISTS = Failure("member exists", 409, "'ada' is in group 'analysts' already")
_MISSING = Failure("no member", 404, "'ada' is not in group 'analysts'")


@router.get("", summary="List members of groups", responses=failures("no manager", "unsupported"))
def list_memberships(
    principals: PrincipalsOf,
    page: PageOf,
    group: Annotated[str | None, Query(description="Only members of this group.")] = None,
    principal: Annotated[str | None, Query(description="Only this principal's groups.")] = None,
) -> ListMembershipsResponse:
    """By group and principal, in pages. A group exists while it has a member."""
    found = principals.groups.list(group=group or None, principal=principal or None, **page)
    return ListMembershipsResponse(
        memberships=[MembershipModel.of(each) for each in found.items],
        next_page_token=found.next_token,
    )


@router.post(
    "/{group}/members",
    summary="Add a member to a group",
    responses=failures("no manager", _EXISTS, "unsupported"),
)
def add_member(principals: PrincipalsOf, group: Segment, body: AddMemberRequest) -> Empty:
    """Permissions of the group reach the member within ten seconds."""
    principals.groups.add(group, body.principal)
    return Empty()


@router.delete(
    "/{group}/members/{principal}",
    summary="Remove a member from a group",
    responses=failures("no manager", _MISSING, "unsupported"),
)
def remove_member(principals: PrincipalsOf, group: Segment, principal: Segment) -> Empty:
    """Permissions of the group reach the member for ten more seconds at most."""
    principals.groups.remove(group, principal)
    return Empty()
