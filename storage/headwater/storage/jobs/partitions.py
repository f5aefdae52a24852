"""Partition expiry as commits that drop partitions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import OutcomeUnknown, TableCommit
from headwater.storage.errors import Conflict, HeadwaterError, Invalid
from headwater.storage.index.manifest import index_entries
from headwater.storage.jobs.job import until_no_conflict
from headwater.storage.maintenance.chain_expiry import expired_chains
from headwater.storage.maintenance.partition_expiry import (
    ExpiredPartitions,
    PartitionRetention,
    expired_partitions,
)
from headwater.storage.maintenance.reachable import delta_entries
from headwater.storage.rows.by_bucket import by_bucket
from headwater.storage.rows.partition import partition_spec
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.chain import Chain
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import BranchPointers, SnapshotPointer, TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["expire_chain_partitions", "expire_partitions"]

_LOG = logging.getLogger(__name__)


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
            list(_Branch(storage, pointer, base).drop(going, retention.batch))
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

    First the changes go, then, as one commit, the whole partitions before the last one whose time
    is over, so that every partition which stays reads the same. If that last one was dropped
    meanwhile, or anything else keeps the whole ones from going, the changes come back.

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
        if expired.whole and not dry_run:
            gone: list[Snapshot] = []
            try:
                for each in deltas.drop(expired.deltas, retention.batch, in_chain=False):
                    gone.append(each)
                # At once: with some of them gone, the changes could not come back.
                list(whole.drop(expired.whole, len(expired.whole)))
            except OutcomeUnknown:
                raise
            except HeadwaterError as error:
                deltas.bring_back(gone)
                if isinstance(error, Invalid):
                    # The partition on which later changes build was dropped, or such changes came.
                    raise Conflict(error.message) from error
                raise
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

    def drop(
        self, partitions: Sequence[bytes], batch: int, *, in_chain: bool = True
    ) -> Iterator[Snapshot]:
        """Drop partitions, so many a commit.

        Args:
            partitions: The partitions.
            batch: The number.
            in_chain: As for `TableCommit`.

        Returns:
            Each commit, once it is made.

        Raises:
            Conflict: They changed since the base.
        """
        if self.base is None:
            return
        user = self.storage.runtime.new_uuid()
        for at in range(0, len(partitions), batch):
            dropped = frozenset(partitions[at : at + batch])
            commit = TableCommit(self.storage, self.pointer, user, in_chain=in_chain)
            yield commit.overwrite(
                [],
                PartitionFilter(self.storage, dropped),
                unchanged_since=self.base.identity,
            )

    def bring_back(self, drops: Sequence[Snapshot]) -> None:
        """Add what some commits dropped again; an error is logged."""
        if not drops:
            return
        try:
            messages = [each for drop in drops for each in self._dropped(drop)]
            commit = TableCommit(
                self.storage, self.pointer, self.storage.runtime.new_uuid(), in_chain=False
            )
            # Of no kind that streams would take for new rows.
            commit.commit(messages, kind=CommitKind.OVERWRITE, unchanged_since=drops[-1].identity)
        except HeadwaterError as error:
            _LOG.warning(
                "table %s: partitions of branch %s, dropped by snapshots %s, could not be brought "
                "back: %s; roll the branch back to snapshot %d, if later partitions build on a "
                "whole partition before them",
                self.storage.name,
                self.storage.layout.branch,
                ", ".join(str(drop.id) for drop in drops),
                error,
                drops[0].id - 1,
            )

    def _dropped(self, drop: Snapshot) -> list[CommitMessage]:
        """The files and indexes that a commit dropped, to be added."""
        files = by_bucket(delta_entries(self.storage, drop.delta_manifest_list) or ())
        indexes = by_bucket(index_entries(self.storage, self.storage.snapshot(drop.id - 1)))
        return [
            CommitMessage(
                *bucket,
                entries[0].total_buckets,
                new_files=tuple(entry.file for entry in entries),
                new_index_files=tuple(each.index_file for each in indexes.get(bucket, ())),
            )
            for bucket, entries in files.items()
        ]


def _branch(storage: TableStorage, pointers: BranchPointers, name: str) -> _Branch:
    pointer = pointers.of_branch(name)
    latest = pointer.latest()
    if latest is not None:
        storage = storage.on_branch(name, latest.schema_id)
    return _Branch(storage, pointer, latest)


def _specs(storage: TableStorage, partitions: Sequence[bytes]) -> tuple[dict[str, str], ...]:
    return tuple(dict(partition_spec(storage, partition)) for partition in partitions)
