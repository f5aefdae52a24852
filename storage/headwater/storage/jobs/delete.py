"""Deletion of the rows that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.jobs.compact import compact_since
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import run_job
from headwater.storage.maintenance.delete import DeletionTask, plan_deletion, run_deletion
from headwater.storage.predicate.filter import Predicate
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["delete_from_table"]


def delete_from_table(
    storage: TableStorage, pointer: SnapshotPointer, executor: Executor, predicate: Predicate
) -> Snapshot | None:
    """Delete the rows for which a filter is true; a bucket, or a split of it, is a task.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the tasks.
        predicate: The filter; rows for which it is null stay.

    Raises:
        Invalid: The table ignores deletes.
        Unsupported: The table cannot be written.
        Conflict, OutcomeUnknown: As `run_job`.
    """
    deleted = run_job(_Deletion(storage, predicate), pointer, executor)
    if deleted is not None:
        compact_since(storage, pointer, executor, deleted.id - 1)
    return deleted


@dataclass(frozen=True)
class _Deletion:
    storage: TableStorage
    predicate: Predicate

    @property
    def retries(self) -> int:
        return self.storage.schema.table_options.commit_max_retries

    def plan(self, base: Snapshot) -> list[DeletionTask]:
        tasks = plan_deletion(self.storage, base, self.predicate)
        return sorted(tasks, key=lambda task: -task.size)

    def run(self, task: DeletionTask) -> list[CommitMessage]:
        return run_deletion(self.storage, task, self.predicate)

    def commit(
        self, commit: TableCommit, messages: Sequence[CommitMessage], base: Snapshot
    ) -> Snapshot | None:
        if self.storage.schema.primary_keys:
            return commit.commit(messages, unchanged_since=base.id)
        return commit.commit(messages, kind=CommitKind.OVERWRITE)
