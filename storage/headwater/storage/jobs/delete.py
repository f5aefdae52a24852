"""Deletion of the rows that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.jobs.after_commit import after_commit
from headwater.storage.jobs.change import change_rows_of_table, check_change
from headwater.storage.jobs.compact import compact_since
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import run_job, until_no_conflict
from headwater.storage.jobs.waiting_rows import (
    admit_waiting_rows,
    make_up_for_compaction,
    refuse_waiting_rows,
)
from headwater.storage.maintenance.delete import DeletionTask, plan_deletion, run_deletion
from headwater.storage.maintenance.key_rewrite import (
    RewriteTask,
    plan_key_rewrite,
    rewrite_keys,
    rewrites_files,
)
from headwater.storage.maintenance.row_matchers import DeleteRows
from headwater.storage.predicate.filter import Predicate
from headwater.storage.snapshot.snapshot import CommitKind, CommitOperation, Snapshot
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
        Unsupported: The table cannot be written.
        Conflict, OutcomeUnknown: As `run_job`.
    """
    check_change(storage)
    if storage.schema.table_options.evolves_columns:
        return change_rows_of_table(
            storage,
            pointer,
            executor,
            predicate,
            lambda _: DeleteRows(storage, predicate),
            CommitOperation.DELETE,
            rewrites=False,
            is_serial=False,
        )
    rewrites = rewrites_files(storage, deletes=True)

    def attempt() -> Snapshot | None:
        admit_waiting_rows(storage, pointer, executor, predicate, rewrites=rewrites)
        return run_job(
            _Deletion(storage, predicate, rewrites),
            pointer,
            executor,
            operation=CommitOperation.DELETE,
        )

    retries = storage.schema.table_options.commit_max_retries
    deleted = until_no_conflict(retries, attempt)
    if deleted is None:
        make_up_for_compaction(storage, pointer, executor, predicate)
    else:
        with after_commit(storage.name, deleted, "Compacting"):
            compact_since(
                storage, pointer, executor, deleted.identity, inclusive=True, tells_overwrites=True
            )
    return deleted


@dataclass(frozen=True)
class _Deletion:
    storage: TableStorage
    predicate: Predicate
    rewrites: bool

    @property
    def retries(self) -> int:
        return 0

    def plan(self, base: Snapshot) -> Sequence[DeletionTask | RewriteTask]:
        refuse_waiting_rows(self.storage, base, self.predicate, rewrites=self.rewrites)
        tasks: Sequence[DeletionTask | RewriteTask]
        if self.rewrites:
            tasks = plan_key_rewrite(self.storage, base, self.predicate)
        else:
            tasks = plan_deletion(self.storage, base, self.predicate)
        return sorted(tasks, key=lambda task: -task.size)

    def run(self, task: DeletionTask | RewriteTask) -> list[CommitMessage]:
        if isinstance(task, DeletionTask):
            return run_deletion(self.storage, task, self.predicate)
        message = rewrite_keys(self.storage, task, DeleteRows(self.storage, self.predicate))
        return [] if message is None else [message]

    def commit(
        self, commit: TableCommit, messages: Sequence[CommitMessage], base: Snapshot
    ) -> Snapshot | None:
        keyed = bool(self.storage.schema.primary_keys)
        kind = CommitKind.OVERWRITE if self.rewrites or not keyed else None
        return commit.commit(messages, kind=kind, unchanged_since=base.identity if keyed else None)
