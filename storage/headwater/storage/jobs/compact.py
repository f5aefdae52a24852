"""Compaction of a table, or of some of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.compaction.plan import CompactionTask, plan_compaction
from headwater.storage.compaction.postponed import (
    PostponedTask,
    plan_postponed,
    run_postponed,
)
from headwater.storage.compaction.rewrite import run_compaction
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import run_job
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["compact_table"]

_RETRIES = 2


def compact_table(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    *,
    partition: Mapping[str, object] | None = None,
    full: bool = True,
) -> Snapshot | None:
    """Rewrite files into fewer; a bucket, or a group of an append table's files, is a task.

    Postponed rows are first brought into buckets, as a commit of its own.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the tasks.
        partition: Only partitions with these values.
        full: Compact all there is; else only what is due.

    Raises:
        Unsupported: The table cannot be compacted.
        Conflict, OutcomeUnknown: As `run_job`.
    """
    wanted = PartitionFilter.static(storage, partition or {})
    spread: Snapshot | None = None
    if storage.schema.table_options.bucket == POSTPONE_BUCKET:
        spread = run_job(_Spreading(storage, wanted), pointer, executor)
    return run_job(_Compaction(storage, wanted, full), pointer, executor) or spread


@dataclass(frozen=True)
class _Spreading:
    """Brings postponed rows into buckets; a partition is a task."""

    storage: TableStorage
    wanted: PartitionFilter

    @property
    def retries(self) -> int:
        return self.storage.schema.table_options.commit_max_retries

    def plan(self, base: Snapshot) -> list[PostponedTask]:
        tasks = plan_postponed(self.storage, base)
        chosen = [task for task in tasks if self.wanted.includes(task.partition)]
        return sorted(chosen, key=lambda task: -task.size)

    def run(self, task: PostponedTask) -> Sequence[CommitMessage]:
        return run_postponed(self.storage, task)

    def commit(
        self, commit: TableCommit, messages: Sequence[CommitMessage], base: Snapshot
    ) -> Snapshot | None:
        # Rows that others add to the buckets meanwhile would have the same sequence numbers.
        return commit.commit(messages, unchanged_since=base.id)


@dataclass(frozen=True)
class _Compaction:
    storage: TableStorage
    wanted: PartitionFilter
    full: bool
    retries: int = _RETRIES

    def plan(self, base: Snapshot) -> list[CompactionTask]:
        tasks = plan_compaction(self.storage, base, full=self.full)
        chosen = [task for task in tasks if self.wanted.includes(task.partition)]
        return sorted(chosen, key=lambda task: -task.size)

    def run(self, task: CompactionTask) -> list[CommitMessage]:
        message = run_compaction(self.storage, task)
        return [] if message is None else [message]

    def commit(
        self, commit: TableCommit, messages: Sequence[CommitMessage], base: Snapshot
    ) -> Snapshot | None:
        return commit.commit(messages)
