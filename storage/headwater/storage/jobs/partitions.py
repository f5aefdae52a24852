"""Partition expiry as commits that drop partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.jobs.job import until_no_conflict
from headwater.storage.maintenance.chain_expiry import expired_chains
from headwater.storage.maintenance.partition_expiry import (
    ExpiredPartitions,
    PartitionRetention,
    expired_partitions,
)
from headwater.storage.rows.partition import partition_spec
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.chain import Chain
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import BranchPointers, SnapshotPointer, TableStorage

__all__ = ["expire_chain_partitions", "expire_partitions"]


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
            _Branch(storage, pointer, base).drop(going, retention.batch)
        return ExpiredPartitions(dry_run, _specs(storage, going), _specs(storage, without))

    return until_no_conflict(storage.schema.table_options.commit_max_retries, attempt)


def expire_chain_partitions(
    storage: TableStorage,
    pointers: BranchPointers,
    chain: Chain,
    retention: PartitionRetention,
    *,
    dry_run: bool = False,
) -> ExpiredPartitions:
    """Drop the partitions of a chain table's two branches whose time is over.

    First the changes go, then the whole partitions before the last one whose time is over, so that
    every partition which stays reads the same.

    Args:
        storage: The table, or one of its branches.
        pointers: The authority on the branches' latest snapshots.
        chain: The table's chain.
        retention: The partitions to keep; `PartitionRetention.limit` counts the whole partitions of
            a chain.
        dry_run: Drop nothing, and only tell the outcome.

    Returns:
        Each partition once, whichever branch it goes from.

    Raises:
        CorruptData, Invalid, Conflict, OutcomeUnknown: As `expire_partitions`.
    """

    def attempt() -> ExpiredPartitions:
        whole, deltas = (_branch(storage, pointers, name) for name in chain.branches)
        expired = expired_chains(storage, chain, whole.partitions(), deltas.partitions(), retention)
        if not dry_run:
            deltas.drop(expired.deltas, retention.batch)
            # With changes the whole partitions of the same values have been dropped.
            gone = frozenset(expired.deltas)
            whole.drop([each for each in expired.whole if each not in gone], retention.batch)
        dropped = sorted({*expired.whole, *expired.deltas})
        return ExpiredPartitions(
            dry_run, _specs(storage, dropped), _specs(storage, expired.without_time)
        )

    return until_no_conflict(storage.schema.table_options.commit_max_retries, attempt)


@dataclass(frozen=True)
class _Branch:
    """A branch as of a snapshot.

    Attributes:
        storage: The branch; another one of the table where there is no snapshot.
        pointer: The authority on its snapshots.
        base: Its latest snapshot; None without one.
    """

    storage: TableStorage
    pointer: SnapshotPointer
    base: Snapshot | None

    def partitions(self) -> frozenset[bytes]:
        """The partitions that have files, serialised."""
        if self.base is None:
            return frozenset()
        return frozenset(entry.partition for entry in live_entries(self.storage, self.base))

    def drop(self, partitions: Sequence[bytes], batch: int) -> None:
        """Drop partitions, so many a commit; raises Conflict if they changed since the base."""
        if self.base is None:
            return
        for at in range(0, len(partitions), batch):
            dropped = frozenset(partitions[at : at + batch])
            commit = TableCommit(self.storage, self.pointer, self.storage.runtime.new_uuid())
            commit.overwrite(
                [], PartitionFilter(self.storage, dropped), unchanged_since=self.base.identity
            )


def _branch(storage: TableStorage, pointers: BranchPointers, name: str) -> _Branch:
    pointer = pointers.of_branch(name)
    latest = pointer.latest()
    if latest is not None:
        storage = storage.on_branch(name, latest.schema_id)
    return _Branch(storage, pointer, latest)


def _specs(storage: TableStorage, partitions: Sequence[bytes]) -> tuple[dict[str, str], ...]:
    return tuple(dict(partition_spec(storage, partition)) for partition in partitions)
