"""Partition expiry as commits that drop partitions."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.jobs.job import until_no_conflict
from headwater.storage.maintenance.partition_expiry import (
    ExpiredPartitions,
    PartitionRetention,
    expired_partitions,
)
from headwater.storage.rows.partition import partition_spec
from headwater.storage.table_storage import SnapshotPointer, TableStorage

__all__ = ["expire_partitions"]


def expire_partitions(
    storage: TableStorage,
    pointer: SnapshotPointer,
    retention: PartitionRetention,
    *,
    dry_run: bool = False,
) -> ExpiredPartitions:
    """Drop the partitions whose time is over, in one commit, or so many a commit as is asked for.

    A partition that somebody else changes meanwhile is looked at again.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        retention: The partitions to keep.
        dry_run: Drop nothing, and only tell the outcome.

    Raises:
        CorruptData: A manifest is missing or malformed; nothing was dropped.
        Invalid: The formatter is not one that Headwater reads.
        Conflict: Other commits changed the partitions each time.
        OutcomeUnknown: A commit may have happened.
    """

    def attempt() -> ExpiredPartitions:
        base = pointer.latest()
        if base is None:
            return ExpiredPartitions(dry_run)
        going, without = expired_partitions(storage, base, retention)
        if not dry_run:
            for at in range(0, len(going), retention.batch):
                dropped = frozenset(going[at : at + retention.batch])
                commit = TableCommit(storage, pointer, storage.runtime.new_uuid())
                commit.overwrite(
                    [], PartitionFilter(storage, dropped), unchanged_since=base.identity
                )
        return ExpiredPartitions(dry_run, _specs(storage, going), _specs(storage, without))

    return until_no_conflict(storage.schema.table_options.commit_max_retries, attempt)


def _specs(storage: TableStorage, partitions: Sequence[bytes]) -> tuple[dict[str, str], ...]:
    return tuple(dict(partition_spec(storage, partition)) for partition in partitions)
