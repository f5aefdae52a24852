"""A write of rows: what its tasks must know of the table, and the commit of what they wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.storage.capabilities import unsupported_mode
from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import BATCH_IDENTIFIER, TableCommit
from headwater.storage.errors import Invalid
from headwater.storage.jobs.after_commit import after_commit
from headwater.storage.jobs.compact import compact_written, may_be_due
from headwater.storage.jobs.executor import Executor
from headwater.storage.jobs.job import commit_or_delete
from headwater.storage.options import MergeEngine
from headwater.storage.predicate.filter import Predicate
from headwater.storage.rows.ingest import TabularData
from headwater.storage.rows.partition import static_partition
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import to_arrow
from headwater.storage.types.values import arrow_scalar
from headwater.storage.write.assign.assigner import Assigner
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.cross_partition_writer import Overwritten
from headwater.storage.write.new_writer import new_writer
from headwater.storage.write.table_writer import CommitMessage, TableWriter

__all__ = ["TASK_RANGE", "Replacement", "WritePlan", "with_partition", "write_rows"]

TASK_RANGE = 1 << 28
"""How many sequence numbers of a bucket each of the tasks has that write rows in no order.

So no two files of a commit claim the same, and a task writes at most as many rows.
"""


@dataclass(frozen=True)
class Replacement:
    """The rows that an overwrite replaces.

    Attributes:
        partition: Those of the partitions with these values of some or all partition columns,
            whether there are new rows for them or not.
        dynamic: Without `partition`: only those of the partitions that there are new rows for.
            None takes the option ``dynamic-partition-overwrite``; a table without partitions is
            replaced whole.
        where: In place of both, a condition on partition columns: those of the partitions that
            fulfil it, whether there are new rows for them or not.
    """

    partition: Mapping[str, object] | None = None
    dynamic: bool | None = None
    where: Predicate | None = None

    def partitions(
        self, storage: TableStorage, messages: Sequence[CommitMessage]
    ) -> PartitionFilter | None:
        """The partitions whose rows go; None when no rows go."""
        fixed = self.fixed_partitions(storage)
        if fixed is not None:
            return fixed
        within = [message for message in messages if not message.is_beside]
        return PartitionFilter.from_messages(storage, within) if within else None

    def fixed_partitions(self, storage: TableStorage) -> PartitionFilter | None:
        """The partitions whose rows go, whatever is written; None when new rows decide it."""
        if self.where is not None:
            return PartitionFilter.where(storage, self.where)
        if self.partition is not None:
            return PartitionFilter.static(storage, self.partition)
        dynamic = self.dynamic
        if dynamic is None:
            dynamic = storage.schema.table_options.dynamic_partition_overwrite
        if dynamic and storage.schema.partition_keys:
            return None
        return PartitionFilter.whole_table(storage)


@dataclass(frozen=True)
class WritePlan:
    """A write of rows; it pickles.

    Attributes:
        storage: The table.
        replaced: For an overwrite, the rows that go.
        unchanged_since: Refuse to commit when a later snapshot changed rows of the same buckets,
            or this one was rolled back.
        states: The buckets that rows are added to; None when their rows are replaced and no keys
            are looked up in others.
        is_stream: Whether the write is one of a stream's many.
        compacts: False if the compaction that is due after the commit is left to the caller.
        is_merged: Whether rows with the same ``upsert-key`` as new ones are taken away.

    Raises:
        Unsupported: Rows would be added beside those with the same ``upsert-key``.
    """

    storage: TableStorage
    replaced: Replacement | None = None
    unchanged_since: SnapshotIdentity | None = None
    states: BucketStates | None = None
    is_stream: bool = False
    compacts: bool = True
    is_merged: bool = False

    def __post_init__(self) -> None:
        if self.replaced is not None or self.is_merged:
            return
        if keys := self.storage.schema.table_options.upsert_keys:
            raise unsupported_mode(
                "appends by upsert-key",
                f"table {self.storage.name} has upsert-key={','.join(keys)}",
            )

    def upon(self, base: Snapshot | None) -> WritePlan:
        """The plan for writers, which add to what a snapshot holds, or look up keys in it."""
        if self.replaced is not None and not self._looks_beside:
            return self
        return replace(self, states=BucketStates(self.storage, base))

    def writer(
        self, first: int = 0, *, is_alone: bool = True, assigner: Assigner | None = None
    ) -> TableWriter:
        """A writer of some of the rows.

        Args:
            first: Added to the sequence numbers, so that writers that share a bucket share none.
            is_alone: False if other writers of the same commit have rows, too.
            assigner: Finds the rows' buckets; None is the one that the table's options ask for.
        """
        return new_writer(
            self.storage,
            self.states,
            first=first,
            is_alone=is_alone,
            is_stream=self.is_stream,
            overwritten=self._overwritten(is_alone),
            assigner=assigner,
        )

    def _overwritten(self, is_alone: bool) -> Overwritten | None:
        """The partitions that an overwrite replaces, where others may have the same keys."""
        if self.replaced is None or self.states is None:
            return None
        fixed = self.replaced.fixed_partitions(self.storage)
        engine = self.storage.schema.table_options.merge_engine
        if not is_alone and engine is not MergeEngine.DEDUPLICATE:
            raise unsupported_mode(
                "shared overwrite across partitions",
                f"table {self.storage.name} has merge-engine={engine}",
            )
        return Overwritten(None if fixed is None else fixed.includes)

    @property
    def retries(self) -> int:
        """The number of times that a write starts over after a conflict.

        Where keys are looked up, writers that add any get in each other's way.
        """
        options = self.storage.schema.table_options
        looks_up = options.bucket == -1 and bool(self.storage.schema.primary_keys)
        if self.replaced is not None:
            looks_up = self._looks_beside
        return options.commit_max_retries if looks_up else 0

    @property
    def _looks_beside(self) -> bool:
        """Whether it is an overwrite whose keys may be in partitions that stay."""
        if self.replaced is None or not self.storage.schema.crosses_partitions:
            return False
        fixed = self.replaced.fixed_partitions(self.storage)
        return fixed is None or not fixed.is_whole

    def commit(
        self,
        commit: TableCommit,
        messages: Sequence[CommitMessage],
        executor: Executor,
        *,
        identifier: int = BATCH_IDENTIFIER,
        properties: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> Snapshot | None:
        """Commit what writers wrote, or delete it if that certainly did not happen.

        The compaction that is due then, if any, is a commit of its own, see `compact_written`.

        Args:
            commit: Commits to the table.
            messages: From all writers.
            executor: Runs the compaction.
            identifier: The commit user's number of this commit.
            properties: Free properties of the snapshot.
            allow_empty: Whether to make a snapshot when there is nothing to write or to replace.

        Returns:
            The snapshot with the rows; None when there was nothing to write or to replace.

        Raises:
            Invalid: The rows lie outside the partitions that they replace.
            Conflict: Other commits changed the same buckets, or were faster each time.
            OutcomeUnknown: The commit may have happened; its files are kept.
        """

        def work() -> tuple[Snapshot | None, bool]:
            # Before the commit, as it reads options: what they refuse is not to be committed.
            due = may_be_due(self.storage, self.states, messages, identifier)
            return committed(), due

        def committed() -> Snapshot | None:
            replaced, since = self.replaced, self.unchanged_since
            partitions = None if replaced is None else replaced.partitions(self.storage, messages)
            if partitions is not None:
                return commit.overwrite(
                    messages,
                    partitions,
                    identifier=identifier,
                    properties=properties,
                    unchanged_since=since,
                )
            if replaced is not None and not allow_empty:
                return None
            return commit.commit(
                messages,
                identifier=identifier,
                properties=properties,
                allow_empty=allow_empty,
                unchanged_since=since,
            )

        written, is_due = commit_or_delete(commit, messages, work)
        if written is not None and is_due:
            with after_commit(self.storage.name, written, "Compacting"):
                self.compact_written(commit, messages, executor, identifier)
        return written

    def compact_written(
        self,
        commit: TableCommit,
        messages: Sequence[CommitMessage],
        executor: Executor,
        identifier: int = BATCH_IDENTIFIER,
    ) -> None:
        """Do the compaction that a commit of messages has made due, see `compact_written`."""
        if self.compacts:
            buckets = {(each.partition, each.bucket) for each in messages if each.new_files}
            # As in Paimon an overwrite has no changelog.
            tells = self.replaced is None
            compact_written(commit, buckets, executor, identifier, tells_lookups=tells)


def write_rows(
    plan: WritePlan, data: TabularData, row_kinds: pa.Array | pa.ChunkedArray | None = None
) -> list[CommitMessage]:
    """Write rows in this process; a ``RecordBatchReader`` is read batch by batch.

    Raises:
        Invalid: The data does not fit the table; nothing is written.
    """
    with plan.writer() as writer:
        if isinstance(data, pa.RecordBatchReader):
            if row_kinds is not None:
                raise Invalid("give the row kinds of a stream as its column _ROW_KIND")
            for batch in data:
                writer.write(batch, pads=True)
        else:
            writer.write(data, row_kinds, pads=True)
        return writer.finish()


def with_partition(
    storage: TableStorage, table: pa.Table, partition: Mapping[str, object]
) -> pa.Table:
    """The rows with the partition columns that they lack."""
    for name, value in static_partition(storage, partition).items():
        if name not in table.column_names:
            data_type = storage.schema.column(name).type
            scalar = arrow_scalar(value, data_type)
            constant = pa.repeat(scalar, table.num_rows).cast(to_arrow(data_type))
            table = table.append_column(name, constant)
    return table
