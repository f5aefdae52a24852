"""Consumers behind a Paimon REST server."""

from __future__ import annotations

from headwater.catalog.model.consumers import ConsumerInfo, ConsumerLease
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import Page
from headwater.catalog.wire.consumers import (
    ConsumerLeaseModel,
    ConsumerModel,
    LeaseConsumerRequest,
    ListConsumersResponse,
    ResetConsumerRequest,
)
from headwater.catalog.wire.tables import (
    Empty,
)
from headwater.client.requests import (
    Requests,
    paging,
    table_path,
)

__all__ = ["RestConsumers"]


class RestConsumers:
    """Implements `headwater.catalog.model.consumers.Consumers` over HTTP.

    Args:
        requests: Speaks to the server.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def list(
        self,
        identifier: Identifier,
        *,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> Page[ConsumerInfo]:
        """The saved positions."""
        params = paging(max_results, page_token)
        answer = self._requests.get(
            ListConsumersResponse, params, *table_path(identifier), "consumers", of=identifier
        )
        return answer.page().map(ConsumerModel.info)

    def reset(
        self,
        identifier: Identifier,
        consumer_id: str,
        next_snapshot: int | None,
        *,
        full_read: bool = False,
        owner: str | None = None,
        force: bool = False,
    ) -> None:
        """Move a consumer (creating it if need be); None deletes it."""
        body = ResetConsumerRequest(
            consumer_id=consumer_id,
            next_snapshot_id=next_snapshot,
            full_read=full_read,
            owner=owner,
            force=force,
        )
        # A move by the owner of the lease ends where it is, however often it is sent.
        is_owner = owner is not None
        path = (*table_path(identifier), "consumers", "reset")
        self._requests.post(Empty, body, *path, of=identifier, is_repeatable=is_owner)

    def lease(
        self,
        identifier: Identifier,
        consumer_id: str,
        owner: str,
        millis: int,
        *,
        renew: bool = False,
    ) -> ConsumerLease | None:
        """Take the right to move a consumer, or have it last longer."""
        body = LeaseConsumerRequest(
            consumer_id=consumer_id, owner=owner, lease_millis=millis, renew=renew
        )
        return self._lease(identifier, body).lease()

    def release(self, identifier: Identifier, consumer_id: str, owner: str) -> None:
        """Give a lease back; without waiting for a server, as it runs out by itself."""
        body = LeaseConsumerRequest(consumer_id=consumer_id, owner=owner)
        RestConsumers(self._requests.patient(0))._lease(identifier, body)

    def _lease(self, identifier: Identifier, body: LeaseConsumerRequest) -> ConsumerLeaseModel:
        path = (*table_path(identifier), "consumers", "lease")
        return self._requests.post(
            ConsumerLeaseModel, body, *path, of=identifier, is_repeatable=True
        )
