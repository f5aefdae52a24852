"""Partition expiry as commits that drop partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import OutcomeUnknown, TableCommit
from headwater.storage.errors import Conflict, HeadwaterError, Invalid
from headwater.storage.index.manifest import index_entries
from headwater.storage.jobs.job import until_no_conflict
from headwater.storage.maintenance.chain_expiry import ExpiredChains, expired_chains
from headwater.storage.maintenance.partition_expiry import (
    ExpiredPartitions,
    PartitionRetention,
    expired_partitions,
)
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
    hold: Callable[[TableStorage, Snapshot], AbstractContextManager[None]],
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
        hold: Keeps the files of a branch's snapshot, which the changes may come back from.
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
            with nullcontext() if deltas.base is None else hold(deltas.storage, deltas.base):
                _drop(whole, deltas, expired, retention)
        dropped = sorted({*expired.whole, *expired.deltas})
        return ExpiredPartitions(
            dry_run, _specs(storage, dropped), _specs(storage, expired.without_time)
        )

    return until_no_conflict(storage.schema.table_options.commit_max_retries, attempt)


def _drop(
    whole: _Branch, deltas: _Branch, expired: ExpiredChains, retention: PartitionRetention
) -> None:
    dropped: list[Snapshot] = []
    try:
        for snapshot in deltas.drop(expired.deltas, retention.batch, in_chain=False):
            dropped.append(snapshot)
        # At once: with some of them gone, the changes could not come back.
        list(whole.drop(expired.whole, len(expired.whole)))
    except OutcomeUnknown:
        raise
    except HeadwaterError as error:
        deltas.bring_back(dropped, expired.deltas[: len(dropped) * retention.batch])
        if isinstance(error, Invalid):
            # The partition on which later changes build was dropped, or such changes came.
            raise Conflict(error.message) from error
        raise


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
        for start in range(0, len(partitions), batch):
            dropped = frozenset(partitions[start : start + batch])
            commit = TableCommit(self.storage, self.pointer, user, in_chain=in_chain)
            yield commit.overwrite(
                [],
                PartitionFilter(self.storage, dropped),
                unchanged_since=self.base.identity,
            )

    def bring_back(self, drops: Sequence[Snapshot], partitions: Sequence[bytes]) -> None:
        """Add partitions that some commits dropped again; an error is logged.

        The caller keeps the files of the base.
        """
        if not drops:
            return
        try:
            commit = TableCommit(
                self.storage, self.pointer, self.storage.runtime.new_uuid(), in_chain=False
            )
            # Of no kind that streams would take for new rows.
            commit.commit(
                self._messages(frozenset(partitions)),
                kind=CommitKind.OVERWRITE,
                unchanged_since=drops[-1].identity,
            )
        except HeadwaterError as error:
            _LOG.warning(
                "table %s: partitions of branch %s, dropped by snapshots %s, could not be brought "
                "back: %s; roll the branch back to snapshot %d, if later partitions build on a "
                "full partition before them",
                self.storage.name,
                self.storage.layout.branch,
                ", ".join(str(drop.id) for drop in drops),
                error,
                drops[0].id - 1,
            )

    def _messages(self, partitions: Collection[bytes]) -> list[CommitMessage]:
        """The files and indexes of the base in some partitions, to be added."""
        assert self.base is not None
        entries = (
            entry
            for entry in live_entries(self.storage, self.base)
            if entry.partition in partitions
        )
        indexes = by_bucket(index_entries(self.storage, self.base))
        return [
            CommitMessage(
                *bucket,
                files[0].total_buckets,
                new_files=tuple(entry.file for entry in files),
                new_index_files=tuple(entry.index_file for entry in indexes.get(bucket, ())),
            )
            for bucket, files in by_bucket(entries).items()
        ]


def _branch(storage: TableStorage, pointers: BranchPointers, name: str) -> _Branch:
    pointer = pointers.of_branch(name)
    latest = pointer.latest()
    if latest is not None:
        storage = storage.on_branch(name, latest.schema_id)
    return _Branch(storage, pointer, latest)


def _specs(storage: TableStorage, partitions: Sequence[bytes]) -> tuple[dict[str, str], ...]:
    return tuple(dict(partition_spec(storage, partition)) for partition in partitions)
