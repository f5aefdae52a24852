"""Rebuild the hash indexes of dynamic buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.storage.capabilities import Operation
from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Invalid
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import run_job
from headwater.storage.maintenance.bucket_indexes import (
    IndexedPartition,
    has_hash_indexes,
    indexed_partitions,
    rebuild_indexes,
)
from headwater.storage.predicate.filter import Predicate
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["rebuild_bucket_indexes"]


def rebuild_bucket_indexes(
    storage: TableStorage,
    pointer: SnapshotPointer,
    executor: Executor,
    *,
    partition: Mapping[str, object] | None = None,
    where: Predicate | None = None,
) -> Snapshot | None:
    """Rebuild hash indexes that do not fit the keys of their buckets; a partition is a task.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        executor: Runs the tasks.
        partition: Only partitions with these values.
        where: Only partitions that fulfil this condition.

    Raises:
        CorruptData: A data file is missing or damaged, or a key has rows in several buckets.
        Invalid: The table has no hash indexes, both `partition` and `where` are set, or `where` is
            not about partitions.
        Unsupported: The table cannot be written.
        Conflict, OutcomeUnknown: As `run_job`.
    """
    storage.refuse(Operation.READ | Operation.WRITE)
    if not has_hash_indexes(storage.schema):
        raise Invalid(
            f"cannot rebuild hash indexes of table {storage.name}: it has none; only tables with "
            "'bucket' = -1 have them, whose primary key includes all partition columns"
        )
    wanted = PartitionFilter.asked_for(storage, partition, where)
    return run_job(_IndexRebuild(storage, wanted), pointer, executor)


@dataclass(frozen=True)
class _IndexRebuild:
    storage: TableStorage
    wanted: PartitionFilter

    @property
    def retries(self) -> int:
        return self.storage.schema.table_options.commit_max_retries

    def plan(self, base: Snapshot) -> list[IndexedPartition]:
        tasks = indexed_partitions(self.storage, base)
        chosen = self.wanted.chosen(task.partition for task in tasks)
        due = (task for task in tasks if task.partition in chosen)
        return sorted(due, key=lambda task: -task.size)

    def run(self, task: IndexedPartition) -> list[CommitMessage]:
        return rebuild_indexes(self.storage, task)

    def commit(
        self, commit: TableCommit, messages: Sequence[CommitMessage], base: Snapshot
    ) -> Snapshot | None:
        # A row that came meanwhile may have a key that the rebuilt index does not hold.
        return commit.commit(messages, unchanged_since=base.identity)
