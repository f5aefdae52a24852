"""Policies behind a Paimon REST server."""

from __future__ import annotations

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.policies import Policy, PolicyType, check_filter, check_identity
from headwater.catalog.wire.policies import (
    CreatePolicyRequest,
    DropPolicyRequest,
    ListPoliciesResponse,
    PolicyModel,
)
from headwater.catalog.wire.tables import Empty
from headwater.client.requests import Requests, paging, table_path
from headwater.storage.errors import NotFound, ResourceType

__all__ = ["RestPolicies"]


class RestPolicies:
    """Implements `headwater.catalog.model.policies.Policies` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def list(
        self,
        identifier: Identifier,
        *,
        type: PolicyType | None = None,
        principal: str | None = None,
        column: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[Policy]:
        """The policies of a table."""
        check_filter(type, principal, column)
        params = paging(max_results, page_token, type=type, principal=principal, column=column)
        answer = self._requests.get(ListPoliciesResponse, params, *_path(identifier))
        return answer.page().map(PolicyModel.policy)

    def create(self, identifier: Identifier, policy: Policy) -> None:
        """Record a policy."""
        self._requests.post(Empty, CreatePolicyRequest.of(policy), *_path(identifier))

    def drop(
        self,
        identifier: Identifier,
        type: PolicyType,
        principal: str,
        column: str | None = None,
        *,
        ignore_if_not_exists: bool = False,
    ) -> None:
        """Drop a policy; NotFound (POLICY)."""
        check_identity(type, principal, column)
        body = DropPolicyRequest(type=type, principal=principal, column=column)
        try:
            self._requests.post(Empty, body, *_path(identifier), "drop")
        except NotFound as error:
            if not ignore_if_not_exists or error.resource_type is not ResourceType.POLICY:
                raise


def _path(identifier: Identifier) -> tuple[str, ...]:
    return *table_path(identifier), "policies"
