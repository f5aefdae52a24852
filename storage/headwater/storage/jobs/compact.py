"""Compaction of a table, or of some of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.compaction.plan import CompactionTask, plan_compaction
from headwater.storage.compaction.rewrite import run_compaction
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
    return run_job(_Compaction(storage, wanted, full), pointer, executor)


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
