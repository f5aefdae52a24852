"""The job that sorts an append table's rows: all of them, or what incremental clustering picks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.own_history import BATCH_IDENTIFIER
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.compaction.clustering import plan_clustering
from headwater.storage.compaction.sort import SortTask, plan_sort, run_sort
from headwater.storage.compaction.sort_key import SortKey
from headwater.storage.maintenance.partition_expiry import past_partitions
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["SortJob"]


@dataclass(frozen=True)
class SortJob:
    """Sorts rows; a bucket, or a partition without buckets, is a task.

    Attributes:
        storage: The table.
        key: The order; None is that of the table's incremental clustering.
        full: Clustering: sort all rows together; else only what is due.
        wanted: The partitions; all without it.
        buckets: Clustering: only these buckets.
        leaves_past: True if partitions that expire next are left alone.
        identifier: The number of the commit.
        retries: The number of times that it is planned again after a conflict.
    """

    storage: TableStorage
    key: SortKey | None = None
    full: bool = False
    wanted: PartitionFilter | None = None
    buckets: Collection[tuple[bytes, int]] | None = None
    leaves_past: bool = False
    identifier: int = BATCH_IDENTIFIER
    retries: int = 0

    def plan(self, base: Snapshot) -> list[SortTask]:
        """The tasks, the longest first."""
        if self.key is None:
            tasks = plan_clustering(
                self.storage, base, full=self.full, wanted=self.wanted, buckets=self.buckets
            )
        else:
            wanted = self.wanted or PartitionFilter.whole_table(self.storage)
            tasks = plan_sort(self.storage, base, self.key, wanted)
        if self.leaves_past:
            past = past_partitions(self.storage, (task.partition for task in tasks))
            tasks = [task for task in tasks if task.partition not in past]
        return sorted(tasks, key=lambda task: -task.size)

    def run(self, task: SortTask) -> Sequence[CommitMessage]:
        """Sort the rows of a task."""
        return [run_sort(self.storage, task)]

    def commit(
        self, commit: TableCommit, messages: Sequence[CommitMessage], base: Snapshot
    ) -> Snapshot | None:
        """Replace the files, as a COMPACT snapshot: streams are told of no change."""
        return commit.commit(messages, identifier=self.identifier)
