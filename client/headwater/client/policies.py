"""Policies behind a Paimon REST server."""

from __future__ import annotations

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.policies import Policy, PolicyType, check_filter
from headwater.catalog.wire.policies import CreatePolicyRequest, ListPoliciesResponse
from headwater.catalog.wire.tables import Empty
from headwater.client.requests import Requests, paging, table_path

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
        page = self._requests.get(ListPoliciesResponse, params, *_path(identifier))
        policies = tuple(item.policy() for item in page.policies or ())
        return Page(policies, page.next_page_token or None)

    def create(self, identifier: Identifier, policy: Policy) -> None:
        """Record a policy."""
        self._requests.post(Empty, CreatePolicyRequest.of(policy), *_path(identifier))


def _path(identifier: Identifier) -> tuple[str, ...]:
    return *table_path(identifier), "policies"
