"""Policies: created, listed and dropped."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from headwater.catalog.wire.policies import (
    CreatePolicyRequest,
    DropPolicyRequest,
    ListPoliciesResponse,
    PolicyModel,
    parse_policy_type,
)
from headwater.catalog.wire.tables import Empty
from headwater.server.dependencies import CatalogOf, PageOf, TableName
from headwater.server.error_responses import Failure, failures
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(
    prefix="/v1/{prefix}/databases/{database}/tables/{table}/policies", tags=["policy"]
)

_EXISTS = Failure(
    "policy exists",
    409,
    "table sales.orders has policy ROW_FILTER:group:analysts already; drop it first",
    "POLICY",
    "ROW_FILTER:group:analysts",
)
_NOT_ASKED = Failure(
    "no authorization",
    409,
    "table sales.orders: a policy needs option 'query-auth.enabled' to be true",
    "TABLE",
    "orders",
)

_RESTRICTED = Failure(
    "policies restrict",
    403,
    "policies restrict what you see of table sales.orders; somebody whom none restricts lists and "
    "changes them",
)
_MISSING = Failure(
    "no policy",
    404,
    "table sales.orders has no policy COLUMN_MASKING:group:support:phone",
    "POLICY",
    "COLUMN_MASKING:group:support:phone",
)


@router.get("", summary="List policies", responses=failures("no table", _RESTRICTED))
def list_policies(
    catalog: CatalogOf,
    name: TableName,
    page: PageOf,
    type: Annotated[
        str | None, Query(description="Only policies of this kind: ROW_FILTER or COLUMN_MASKING.")
    ] = None,
    principal: Annotated[str | None, Query(description="Only this principal's policies.")] = None,
    column: Annotated[
        str | None, Query(description="Only masks of this column; needs type COLUMN_MASKING.")
    ] = None,
) -> ListPoliciesResponse:
    """The row filters and column masks of this table.

    Callers whom one restricts list only those of their own name or of one of their groups.
    """
    found = catalog.policies.list(
        name,
        type=None if _is_blank(type) else parse_policy_type(type or ""),
        # A blank filter is none, as for permissions.
        principal=None if _is_blank(principal) else principal,
        column=None if _is_blank(column) else column,
        **page,
    )
    return ListPoliciesResponse.of(found.map(lambda policy: PolicyModel.of(name, policy)))


@router.post(
    "",
    summary="Create a policy",
    responses=failures("no table", "no column", _EXISTS, _NOT_ASKED, _RESTRICTED),
)
def create_policy(catalog: CatalogOf, name: TableName, body: CreatePolicyRequest) -> Empty:
    """Restricts what one principal, or the members of one group, see of the table.

    A principal has at most one row filter on a table and one mask on a column; to replace one, drop
    it first. The table's option `query-auth.enabled` must be true. The policy follows a renamed
    table, and is deleted once the table is dropped for good. Not for callers whom a policy of the
    table restricts.
    """
    catalog.policies.create(name, body.policy())
    return Empty()


@router.post(
    "/drop", summary="Drop a policy", responses=failures("no table", _MISSING, _RESTRICTED)
)
def drop_policy(catalog: CatalogOf, name: TableName, body: DropPolicyRequest) -> Empty:
    """Its principal sees more from now on. Not for callers whom a policy of the table restricts."""
    column = None if _is_blank(body.column) else body.column
    catalog.policies.drop(name, parse_policy_type(body.type), body.principal, column)
    return Empty()


def _is_blank(text: str | None) -> bool:
    return text is None or not text.strip()
