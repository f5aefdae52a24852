"""The JSON about consumers, and the leases of those who move them. See `…catalog.wire`."""

from __future__ import annotations

from pydantic import Field

from headwater.catalog.model.consumers import ConsumerInfo, ConsumerLag, ConsumerLease
from headwater.catalog.wire.examples import example
from headwater.catalog.wire.tables import Listed, WireModel

__all__ = [
    "ConsumerLeaseModel",
    "ConsumerModel",
    "LeaseConsumerRequest",
    "ListConsumersResponse",
    "ResetConsumerRequest",
]


class ConsumerModel(WireModel):
    """A saved position; all but its first two fields are Headwater's addition.

    Attributes:
        consumer_id: The name readers use.
        next_snapshot: The first snapshot not yet consumed.
        updated_at: The time of its last move, milliseconds since the epoch.
        lag_snapshots: Snapshots not yet consumed.
        lag_records: The rows in them that a stream has yet to read; null if unknown.
        lag_millis: The time since the oldest of them was committed; null if unknown.
        rolled_back: True if the last snapshot that it consumed is no longer part of the table's
            history: reset it to go on.
        full_read: True if its reader still reads all rows of the next snapshot, with which it
            began, and not yet changes.
    """

    model_config = example(
        {
            "consumerId": "billing",
            "nextSnapshot": 9,
            "updatedAt": 1767225600000,
        }
    )

    consumer_id: str
    next_snapshot: int
    updated_at: int | None = None
    lag_snapshots: int | None = None
    lag_records: int | None = None
    lag_millis: int | None = None
    rolled_back: bool = False
    full_read: bool = False

    @staticmethod
    def of(info: ConsumerInfo) -> ConsumerModel:
        """The wire form."""
        return ConsumerModel(
            consumer_id=info.consumer_id,
            next_snapshot=info.next_snapshot,
            updated_at=info.updated_at,
            lag_snapshots=None if info.lag is None else info.lag.snapshots,
            lag_records=None if info.lag is None else info.lag.records,
            lag_millis=None if info.lag is None else info.lag.millis,
            rolled_back=info.is_rolled_back,
            full_read=info.full_read,
        )

    def info(self) -> ConsumerInfo:
        """The consumer."""
        lag: ConsumerLag | None = None
        if self.lag_snapshots is not None:
            lag = ConsumerLag(self.lag_snapshots, self.lag_records, self.lag_millis)
        return ConsumerInfo(
            self.consumer_id,
            self.next_snapshot,
            self.updated_at,
            lag,
            self.rolled_back,
            self.full_read,
        )


class ListConsumersResponse(Listed[ConsumerModel]):
    """Saved positions."""

    model_config = example(
        {
            "consumers": [
                {
                    "consumerId": "billing",
                    "nextSnapshot": 9,
                    "updatedAt": 1767225600000,
                    "lagSnapshots": 2,
                    "lagRecords": 240,
                    "lagMillis": 61000,
                    "rolledBack": False,
                    "fullRead": False,
                },
            ],
            "nextPageToken": None,
        }
    )

    items: list[ConsumerModel] | None = Field(default=None, alias="consumers")


class ResetConsumerRequest(WireModel):
    """``POST …/consumers/reset``; null deletes the consumer."""

    model_config = example({"consumerId": "billing", "nextSnapshotId": 3})

    consumer_id: str
    next_snapshot_id: int | None = None
    # Other servers do not know these, and are not told of them unless they count.
    full_read: bool = Field(default=False, exclude_if=lambda full_read: not full_read)
    owner: str | None = Field(default=None, exclude_if=lambda owner: owner is None)
    force: bool = Field(default=False, exclude_if=lambda force: not force)


class LeaseConsumerRequest(WireModel):
    """``POST …/consumers/lease``, an addition of Headwater's; null gives the lease back."""

    model_config = example({"consumerId": "billing", "owner": "job-7f3a", "leaseMillis": 30000})

    consumer_id: str
    owner: str
    lease_millis: int | None = None
    renew: bool = False


class ConsumerLeaseModel(WireModel):
    """The lease in force; without an owner nobody has it."""

    model_config = example(
        {"consumerId": "billing", "owner": "job-7f3a", "expiresAt": 1767225630000}
    )

    consumer_id: str
    owner: str | None = None
    expires_at: int | None = None

    @staticmethod
    def of(consumer_id: str, lease: ConsumerLease | None) -> ConsumerLeaseModel:
        """The wire form."""
        if lease is None:
            return ConsumerLeaseModel(consumer_id=consumer_id)
        return ConsumerLeaseModel(
            consumer_id=consumer_id, owner=lease.owner, expires_at=lease.expires_at
        )

    def lease(self) -> ConsumerLease | None:
        """The lease."""
        if self.owner is None or self.expires_at is None:
            return None
        return ConsumerLease(self.consumer_id, self.owner, self.expires_at)
