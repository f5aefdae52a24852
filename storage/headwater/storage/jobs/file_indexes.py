"""File indexes for the data files of a table that are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import run_job
from headwater.storage.maintenance.file_indexes import (
    IndexTask,
    plan_file_indexes,
    run_file_indexes,
)
from headwater.storage.predicate.filter import Predicate
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["rewrite_file_indexes"]


def rewrite_file_indexes(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    *,
    partition: Mapping[str, object] | None = None,
    where: Predicate | None = None,
    rebuild: bool = False,
) -> Snapshot | None:
    """Make the indexes of data files those that the table's options ask for; a file is a task.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the tasks.
        partition: Only partitions with these values.
        where: Only partitions that fulfil this condition.
        rebuild: Whether to build every index from the rows.

    Raises:
        Invalid: Both `partition` and `where` are given, or `where` is not about partitions.
        Unsupported: The table cannot be written, or Headwater does not write such an index.
        Conflict, OutcomeUnknown: As `run_job`.
    """
    wanted = PartitionFilter.asked_for(storage, partition, where)
    return run_job(_IndexRewrite(storage, wanted, rebuild), pointer, executor)


@dataclass(frozen=True)
class _IndexRewrite:
    storage: TableStorage
    wanted: PartitionFilter
    rebuild: bool

    @property
    def retries(self) -> int:
        return self.storage.schema.table_options.commit_max_retries

    def plan(self, base: Snapshot) -> list[IndexTask]:
        tasks = plan_file_indexes(self.storage, base, self.wanted, rebuild=self.rebuild)
        return sorted(tasks, key=lambda task: -task.size)

    def run(self, task: IndexTask) -> list[CommitMessage]:
        message = run_file_indexes(self.storage, task, rebuild=self.rebuild)
        return [] if message is None else [message]

    def commit(
        self, commit: TableCommit, messages: Sequence[CommitMessage], base: Snapshot
    ) -> Snapshot | None:
        return commit.commit(messages)
