"""Policies behind a Paimon REST server."""

from __future__ import annotations

from headwater.catalog.model.access import ALL_OF_IT, TableAccess
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.model.policies import Policy, PolicyType, check_filter, check_identity
from headwater.catalog.wire.policies import (
    CreatePolicyRequest,
    DropPolicyRequest,
    ListPoliciesResponse,
    PolicyModel,
)
from headwater.catalog.wire.tables import AuthTableQueryRequest, AuthTableQueryResponse, Empty
from headwater.client.requests import Requests, paging, table_path
from headwater.client.row_reader import RestRowReader
from headwater.storage.errors import Forbidden, NotFound, ResourceType
from headwater.storage.predicate.restriction import Restriction

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
        answer = self._requests.get(ListPoliciesResponse, params, *_path(identifier), of=identifier)
        return answer.page().map(PolicyModel.policy)

    def access(self, identifier: Identifier) -> TableAccess:
        """The part of a table, or of a branch of it, that the caller is shown."""
        path = (*table_path(identifier), "auth")
        reader = RestRowReader(self._requests, identifier)
        try:
            answer = self._requests.post(
                AuthTableQueryResponse,
                AuthTableQueryRequest(),
                *path,
                of=identifier,
                is_repeatable=True,
            )
        except Forbidden:
            # Not all columns may be read; the server knows which.
            return TableAccess(reader=reader)
        # What is empty says nothing (`TableQueryAuthResult.java`).
        filters = tuple(text for text in answer.filter or () if text)
        masks = {name: text for name, text in (answer.column_masking or {}).items() if text}
        restriction = Restriction(filters, masks)
        if not restriction:
            return ALL_OF_IT
        return TableAccess(restriction, reader)

    def create(self, identifier: Identifier, policy: Policy) -> None:
        """Create a policy."""
        self._requests.post(
            Empty, CreatePolicyRequest.of(policy), *_path(identifier), of=identifier
        )

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
            self._requests.post(Empty, body, *_path(identifier), "drop", of=identifier)
        except NotFound as error:
            if not ignore_if_not_exists or error.resource_type is not ResourceType.POLICY:
                raise


def _path(identifier: Identifier) -> tuple[str, ...]:
    return *table_path(identifier), "policies"
