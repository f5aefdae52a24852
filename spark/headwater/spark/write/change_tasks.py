"""Write changes of rows in Spark's tasks, and commit them once from the driver.

In a primary-key table changes are rows with a kind, brought together by bucket and sorted by key,
so that two changes of one key stand side by side; where they cannot be told by writing rows, each
task rewrites the files of some buckets. In an append table each task takes the rows of
some files out of them, and adds the rows' new versions as new files. See `tasks` for whose files
are deleted when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from headwater.spark.options import WriteOptions
from headwater.spark.row_change import MATCHED, Repeats, RowChange, RowCounts
from headwater.spark.write.column_changes import ColumnChanges, splits_of_ranges
from headwater.spark.write.keyed_changes import KeyedChanges, count_kinds
from headwater.spark.write.rewrite import BucketRewrites
from headwater.storage.commit.message_files import delete_message_files
from headwater.storage.commit.table_commit import BATCH_IDENTIFIER, TableCommit
from headwater.storage.commit.vector_messages import released_vectors
from headwater.storage.errors import Invalid
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.jobs.job import commit_or_delete
from headwater.storage.jobs.write import TASK_RANGE, WritePlan
from headwater.storage.maintenance.row_changes import moved_rows_writer
from headwater.storage.maintenance.taken_rows import TakenRows, messages_of_taken
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.positioned_rows import FILE_COLUMN, POSITION_COLUMN, RowIds
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.rows.ordering import sorted_distinct
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.scan.split import Split
from headwater.storage.snapshot.snapshot import (
    CommitKind,
    CommitOperation,
    Snapshot,
    SnapshotIdentity,
)
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.table_writer import CommitMessage, TableWriter

if TYPE_CHECKING:
    from headwater.catalog.table.table import Table

__all__ = ["ChangeWriter", "ChangedFiles"]

_THIS_PROCESS = LocalExecutor()
_OPERATIONS: Mapping[str, CommitOperation] = {
    "UPDATE": CommitOperation.UPDATE,
    "DELETE": CommitOperation.DELETE,
    "MERGE": CommitOperation.MERGE,
    "REPLACE": CommitOperation.OVERWRITE,
}
"""The operations of changes; the commits of others are writes and overwrites by themselves."""
_PLACES = [ROW_KIND_COLUMN, FILE_COLUMN, POSITION_COLUMN]


@dataclass(frozen=True)
class ChangedFiles(WriterCommitMessage):
    """A task's changes.

    Attributes:
        added: Its new files.
        taken: The rows that it takes out of files of an append table.
        rewritten: The files of a primary-key table that it rewrote.
        counts: The rows that it changes.
    """

    added: tuple[CommitMessage, ...]
    taken: tuple[TakenRows, ...]
    rewritten: tuple[CommitMessage, ...]
    counts: RowCounts

    def messages(self, base: Snapshot | None) -> list[CommitMessage]:
        """All files that it wrote, upon a snapshot."""
        taken = [] if base is None else [part.message(base.identity) for part in self.taken]
        return [*self.added, *self.rewritten, *taken]


@dataclass(frozen=True)
class _Target:
    """The part of a change that its tasks know.

    Attributes:
        plan: The write of new rows.
        change: The change.
        base: The snapshot that the rows were read in.
        splits: Of an append table, a split for each file whose rows may be taken.
        clustered: As in `WriteOptions`.
    """

    plan: WritePlan
    change: RowChange
    clustered: bool
    base: Snapshot | None
    splits: Mapping[str, Split]
    buckets: BucketRewrites

    @property
    def storage(self) -> TableStorage:
        """The table."""
        return self.plan.storage

    def write(self, batches: Iterable[pa.RecordBatch]) -> ChangedFiles:
        """Write a task's changes; deletes its files when that fails."""
        keyed = bool(self.storage.schema.primary_keys)
        task = TaskContext.get()
        assert task is not None
        first = 0 if self.clustered else task.partitionId() * TASK_RANGE
        taken: list[TakenRows] = []
        rewritten: list[CommitMessage] = []
        columns: list[CommitMessage] = []
        try:
            with self.plan.writer(first, is_alone=False) as writer, ExitStack() as opened:
                moved: TableWriter | None = None
                if self.storage.schema.table_options.tracks_rows:
                    moved = opened.enter_context(moved_rows_writer(self.storage, self.base))
                if self.change.is_plain:
                    counts = _write_plain(batches, writer)
                elif keyed:
                    changes = KeyedChanges(self.storage, self.change)
                    if self.change.rewrites:
                        self.buckets.write(changes.distinct(batches), writer, rewritten)
                    else:
                        changes.write(batches, writer)
                    counts = changes.counts
                elif self.storage.schema.table_options.evolves_columns:
                    assert self.base is not None or not self.splits
                    changes_of = ColumnChanges(self.storage, self.change, self.base, self.splits)
                    counts = changes_of.write(batches, writer, columns, taken)
                else:
                    positions: dict[str, list[npt.NDArray[np.int64]]] = {}
                    counts = self._write_positioned(batches, writer, moved, positions)
                    counts = self._take(positions, taken, counts)
                kept = [] if moved is None else moved.finish()
                added = [*columns, *writer.finish(), *kept]
                return ChangedFiles(tuple(added), tuple(taken), tuple(rewritten), counts)
        except BaseException:
            if self.base is not None:
                rewritten += [part.message(self.base.identity) for part in taken]
            for message in (*rewritten, *columns):
                delete_message_files(self.storage, message)
            raise

    def _write_positioned(
        self,
        batches: Iterable[pa.RecordBatch],
        writer: TableWriter,
        moved: TableWriter | None,
        positions: dict[str, list[npt.NDArray[np.int64]]],
    ) -> RowCounts:
        """Write new rows and new versions of rows; note the positions of those that go.

        With row tracking `moved` writes the new versions, which keep their ids.
        """
        counts = RowCounts()
        ids = RowIds(self.storage, self.splits)
        for batch in batches:
            kinds = batch.column(ROW_KIND_COLUMN)
            counts = counts.plus(count_kinds(kinds))
            placed = batch.filter(pc.is_valid(batch.column(FILE_COLUMN)))
            files = placed.column(FILE_COLUMN).dictionary_encode()
            numbers = files.indices.to_numpy()
            places = placed.column(POSITION_COLUMN).to_numpy()
            order = np.argsort(numbers, kind="stable")
            ends = np.searchsorted(numbers[order], np.arange(len(files.dictionary) + 1))
            stays = pc.equal(placed.column(ROW_KIND_COLUMN), MATCHED).to_numpy(zero_copy_only=False)
            # A row that stays is told of all the same, so that one matched twice is noticed.
            signed = np.where(stays, -places - 1, places)[order]
            for number, name in enumerate(files.dictionary.to_pylist()):
                in_file = signed[ends[number] : ends[number + 1]]
                positions.setdefault(name, []).append(in_file)
            new = batch.filter(pc.is_in(kinds, pa.array(["+I", "+U"])))
            if moved is not None:
                placed = new.filter(pc.is_valid(new.column(FILE_COLUMN)))
                new = new.filter(pc.is_null(new.column(FILE_COLUMN)))
                if placed.num_rows:
                    moved.write(placed.drop_columns(_PLACES), row_ids=ids.of(placed))
            if new.num_rows:
                writer.write(new.drop_columns(_PLACES))
        return counts

    def _take(
        self,
        positions: Mapping[str, Sequence[npt.NDArray[np.int64]]],
        taken: list[TakenRows],
        counts: RowCounts,
    ) -> RowCounts:
        """Take rows out of files; the counts without rows that several rows delete."""
        storage = self.storage
        buckets: dict[tuple[bytes, int], TakenRows] = {}
        for name, parts in positions.items():
            signed = np.concatenate(parts)
            places = np.where(signed < 0, -signed - 1, signed)
            repeated = len(places) - len(sorted_distinct(places))
            if repeated and self.change.repeats is Repeats.REFUSED:
                raise Invalid(
                    f"table {storage.name}: several rows of the source match one row, at "
                    f"{repeated} places of the file {name}; make the source's rows distinct"
                )
            counts = replace(counts, deleted=counts.deleted - repeated)
            gone = signed[signed >= 0]
            if not len(gone):
                continue
            split = self.splits[name]
            bucket = (split.partition, split.bucket)
            if bucket not in buckets:
                buckets[bucket] = TakenRows.of(split)
                taken.append(buckets[bucket])
            files = BucketFiles(
                storage, split.directory, split.partition_values, split.deletion_files
            )
            (file,) = split.files
            buckets[bucket].take(
                storage, file, files.open(file), DeletionVector.from_positions(gone)
            )
        return counts


def _write_plain(batches: Iterable[pa.RecordBatch], writer: TableWriter) -> RowCounts:
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        writer.write(batch)
    return RowCounts(inserted=rows)


class ChangeWriter(DataSourceArrowWriter):
    """Writes one change of rows as one commit.

    Args:
        options: With `change`.
        open_table: Makes a new handle of the table, in this process.
    """

    def __init__(self, options: WriteOptions, open_table: Callable[[], Table]) -> None:
        self._options = options
        self._open_table: Callable[[], Table] | None = open_table
        self._target: _Target | None = None

    def plan(self) -> None:
        """Look up what the tasks need."""
        if self._target is None:
            self._target = self._planned()

    def nothing(self) -> ChangedFiles:
        """The message of a task without rows."""
        return ChangedFiles((), (), (), RowCounts())

    def __getstate__(self) -> dict[str, object]:
        # Tasks reach no catalog.
        self.plan()
        return {**self.__dict__, "_open_table": None}

    def _table(self) -> Table:
        assert self._open_table is not None
        return self._open_table()

    @property
    def _change(self) -> RowChange:
        assert self._options.change is not None
        return self._options.change

    def _plan(self, storage: TableStorage) -> WritePlan:
        options = self._options
        is_merged = not self._change.is_plain
        replaced = options.replacement(storage.schema)
        return WritePlan(storage, replaced, compacts=False, is_merged=is_merged)

    def _planned(self) -> _Target:
        table = self._table()
        storage, base = table.storage, self._options.unchanged_since
        plan = self._plan(storage).upon(table.pointer.latest())
        splits: dict[str, Split] = {}
        text = self._change.predicate
        predicate = None if text is None else parse_predicate(text, storage.schema)
        buckets = BucketRewrites(storage, {})
        if base is not None and self._change.rewrites:
            buckets = BucketRewrites.of(storage, base, predicate)
        if base is not None and not storage.schema.primary_keys and not self._change.is_plain:
            evolves = storage.schema.table_options.evolves_columns
            for split in plan_snapshot(storage, base, predicate=predicate).splits:
                if evolves:
                    splits |= splits_of_ranges(split)
                    continue
                for file in split.files:
                    own = split.deletion_files.get(file.file_name)
                    vectors = {} if own is None else {file.file_name: own}
                    splits[file.file_name] = replace(split, files=(file,), deletion_files=vectors)
        if plan.states is not None and not storage.schema.partition_keys:
            # One look for all tasks. With partitions each task looks up those it meets.
            plan.states.load([EMPTY_ROW])
        return _Target(plan, self._change, self._options.clustered, base, splits, buckets)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ChangedFiles:
        """Write a task's changes."""
        assert self._target is not None
        return self._target.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what all tasks wrote, if they wrote anything."""
        done = [message for message in messages if isinstance(message, ChangedFiles)]
        counts = RowCounts()
        for changed in done:
            counts = counts.plus(changed.counts)
        added = [message for changed in done for message in changed.added]
        table = self._table()
        user, number = self._options.numbered or (self._change.writer, BATCH_IDENTIFIER)
        operation = _OPERATIONS.get(self._change.operation)
        commit = TableCommit(table.storage, table.pointer, user, operation=operation)
        properties = self._change.properties(counts)
        if self._options.numbered and commit.has_committed(number):
            # Another writer took the number.
            commit.abort(added)
            return
        if self._change.is_plain:
            self._plan(table.storage).commit(
                commit, added, _THIS_PROCESS, identifier=number, properties=properties
            )
        else:
            self._commit_changes(commit, done, properties)
        table.keep_up(written={message.partition for message in added})

    def _commit_changes(
        self,
        commit: TableCommit,
        done: Sequence[ChangedFiles],
        properties: Mapping[str, str],
    ) -> None:
        storage, base = commit.storage, self._options.unchanged_since
        since = SnapshotIdentity.of(base)
        messages = [message for each in done for message in each.added]
        if storage.schema.table_options.bucket == POSTPONE_BUCKET:
            # Rows that wait are in no bucket by which another commit could be told to meet them.
            messages = [replace(message, searched_snapshot=since) for message in messages]
        taken = [part for each in done for part in each.taken]
        rewritten = [message for each in done for message in each.rewritten]
        if taken or rewritten:
            assert base is not None
            try:
                messages += messages_of_taken(storage, base, taken)
                messages += [*rewritten, *released_vectors(storage, base, rewritten)]
            except BaseException:
                commit.abort([message for each in done for message in each.messages(base)])
                raise
        if not messages:
            return
        kind = CommitKind.OVERWRITE if taken or rewritten else None
        serial = self._change.is_serial or bool(storage.schema.primary_keys)
        commit_or_delete(
            commit,
            messages,
            lambda: commit.commit(
                messages,
                kind=kind,
                properties=properties,
                unchanged_since=since if serial else None,
            ),
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete what tasks wrote, unless a commit may have made it part of the table."""
        done = [message for message in messages if isinstance(message, ChangedFiles)]
        if not done or None not in messages:
            return
        base = self._options.unchanged_since
        files = [message for each in done for message in each.messages(base)]
        table = self._table()
        TableCommit(table.storage, table.pointer, self._change.writer).abort(files)
