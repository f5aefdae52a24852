"""Consumers: saved positions in a table's history."""

from __future__ import annotations

from headwater.catalog.wire.consumers import (
    ConsumerLeaseModel,
    ConsumerModel,
    LeaseConsumerRequest,
    ListConsumersResponse,
    ResetConsumerRequest,
)
from headwater.catalog.wire.tables import Empty
from headwater.server.dependencies import CatalogOf, PageOf, TableName
from headwater.server.error_responses import failures
from headwater.server.resource_router import ResourceRouter

__all__ = ["router"]

router = ResourceRouter(
    prefix="/v1/{prefix}/databases/{database}/tables/{table}/consumers", tags=["consumer"]
)


@router.get(
    "",
    summary="List consumers",
    responses=failures("no table", "unsupported"),
)
def list_consumers(catalog: CatalogOf, name: TableName, page: PageOf) -> ListConsumersResponse:
    """Every saved position and its lag, including those that other engines moved, in pages.

    A consumer that has not moved for the table's `consumer.expiration-time` is not listed.
    """
    return ListConsumersResponse.of(catalog.consumers.list(name, **page).map(ConsumerModel.of))


@router.post(
    "/reset",
    summary="Move or delete a consumer",
    responses=failures("no table", "no snapshot", "consumer in use", "unsupported"),
)
def reset_consumer(catalog: CatalogOf, name: TableName, body: ResetConsumerRequest) -> Empty:
    """Creates the consumer if it does not exist; without `nextSnapshotId`, deletes it.

    With `fullRead` a query that goes on from there reads all rows of the snapshot first, and not
    its changes.

    A consumer that a reader has leased is moved by that reader alone, which gives its name as
    `owner`; `force` takes the lease away from it.
    """
    catalog.consumers.reset(
        name,
        body.consumer_id,
        body.next_snapshot_id,
        full_read=body.full_read,
        owner=body.owner,
        force=body.force,
    )
    return Empty()


@router.post(
    "/lease",
    summary="Take, renew or give back the right to move a consumer",
    responses=failures("no table", "unsupported"),
)
def lease_consumer(
    catalog: CatalogOf, name: TableName, body: LeaseConsumerRequest
) -> ConsumerLeaseModel:
    """Answers the lease in force, which is another reader's as long as that one renews its own.

    Without `leaseMillis` the lease is given back. With `renew` it is not taken anew.
    """
    if body.lease_millis is None:
        catalog.consumers.release(name, body.consumer_id, body.owner)
        return ConsumerLeaseModel(consumer_id=body.consumer_id)
    lease = catalog.consumers.lease(
        name, body.consumer_id, body.owner, body.lease_millis, renew=body.renew
    )
    return ConsumerLeaseModel.of(body.consumer_id, lease)
