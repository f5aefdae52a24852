"""Write to a table from Spark's tasks, and commit once on the driver.

`headwater.spark.write.save` does so in the user's process, and Spark in processes of its own, for
a data source. A task writes files and hands a description of them to the driver, which commits all
of them as one snapshot, or deletes them when a task failed finally. A task that fails here deletes
what it wrote. One that Spark ends (its input failed, the job was given up) leaves files that no
snapshot names.

Tasks of plain ``df.write`` and of streams get their rows in no order. Where buckets follow from the
key alone, each task writes to all of them. With dynamic buckets tasks only leave their rows in
files, and the commit places them, see `headwater.storage.jobs.staged`.

Spark asks a data source to delete the files whenever a write fails, even when the commit's answer
was lost and the files may be part of the table. It has the messages of all tasks only once the
commit began, and a commit that certainly did not happen has deleted its files by itself. So files
are deleted on request only when the message of a task is missing.

A streaming query commits as the user ``spark-<query id>`` with the number of its batch, so that a
batch that Spark repeats after a crash is found in the table's history and left alone. The query's
id lives in its checkpoint: a new checkpoint is a new user.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyspark.sql.types as st
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from headwater.spark.char_types import is_text_in_task, stored_batch
from headwater.spark.options import WriteOptions
from headwater.spark.write.column_case import batch_as_named
from headwater.spark.write.column_check import check_batch, no_rows
from headwater.spark.write.narrow_rows import WideRow, narrow_rows
from headwater.spark.write.numbered_batches import is_batch_written
from headwater.storage.commit.table_commit import BATCH_IDENTIFIER, TableCommit
from headwater.storage.errors import HeadwaterError, Invalid, Unavailable
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.jobs.staged import commit_staged, needs_staging, staging_writer
from headwater.storage.jobs.write import TASK_RANGE, WritePlan
from headwater.storage.maintenance.row_changes import LosingRows
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.rows.partition import static_partition
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.values import arrow_scalar
from headwater.storage.write.table_writer import CommitMessage, TableWriter

if TYPE_CHECKING:
    from headwater.catalog.table.table import Table

__all__ = ["BatchWriter", "StreamWriter", "WrittenFiles", "task_outcome"]

# Who commits for a data source has no session.
_THIS_PROCESS = LocalExecutor()
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):
    """The files that a task wrote.

    Attributes:
        writer: Names the batch write, or the streaming query, that the task belongs to.
        messages: The files of each bucket.
    """

    writer: str
    messages: tuple[CommitMessage, ...]


@dataclass(frozen=True)
class _Target:
    """The part of a write that its tasks know; no connection to the catalog.

    Attributes:
        plan: The write.
        clustered: As in `WriteOptions`.
        writer: Names the batch write.
        stages: Whether tasks leave their rows for the commit to place.
    """

    plan: WritePlan
    clustered: bool
    writer: str
    stages: bool = False

    @staticmethod
    def from_options(options: WriteOptions, table: Table, *, is_stream: bool) -> _Target:
        if _stages(options, table.storage):
            plan = _plan(options, table.storage, is_stream)
            return _Target(plan, False, table.storage.runtime.new_uuid(), stages=True)
        plan = _plan(options, table.storage, is_stream).upon(table.pointer.latest())
        if plan.states is not None and not table.schema.partition_keys:
            # One look for all tasks. With partitions each task looks up those it meets.
            plan.states.load([EMPTY_ROW])
        return _Target(plan, options.clustered, table.storage.runtime.new_uuid())

    def write(self, batches: Iterable[pa.RecordBatch]) -> WrittenFiles:
        """Write a task's rows; deletes its files when that fails."""
        task = TaskContext.get()
        assert task is not None
        first = 0 if self.clustered else task.partitionId() * TASK_RANGE
        name = task.getLocalProperty(_QUERY_ID) or self.writer
        rows = 0
        with self.plan.storage.reporting_drop(), self._writer(first) as writer:
            for batch in batches:
                rows += batch.num_rows
                if rows > TASK_RANGE and not (self.clustered or self.stages):
                    raise Invalid(
                        f"table {self.plan.storage.name}: one task got more than {TASK_RANGE:,} "
                        "rows; write with SparkLake.write, which spreads rows by bucket"
                    )
                named = batch_as_named(batch, self.plan.storage.schema)
                # Rows that were brought to their buckets are as they are stored.
                if self.clustered:
                    writer.write(named)
                else:
                    writer.write(self._stored(named), pads=not is_text_in_task())
            return WrittenFiles(name, tuple(writer.finish()))

    def check(self, rows: st.StructType) -> None:
        """Refuse rows whose columns do not fit the table; raises Invalid."""
        storage = self.plan.storage
        check_batch(self._stored(no_rows(rows, storage)), storage)

    def _stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as they are stored, with the columns that they lack of a partition replaced."""
        storage, replaced = self.plan.storage, self.plan.replaced
        partition = (None if replaced is None else replaced.partition) or {}
        for name, value in static_partition(storage, partition).items():
            if name not in batch.schema.names:
                scalar = arrow_scalar(value, storage.schema.column(name).type)
                batch = batch.append_column(name, pa.repeat(scalar, batch.num_rows))
        return stored_batch(batch, storage.schema)

    def _writer(self, first: int) -> TableWriter:
        if self.stages:
            return staging_writer(self.plan.storage)
        return self.plan.writer(first, is_alone=False)


def _stages(options: WriteOptions, storage: TableStorage) -> bool:
    """Whether tasks cannot place their rows, as each would give the same new key a bucket."""
    return not options.clustered and needs_staging(storage)


def _plan(options: WriteOptions, storage: TableStorage, is_stream: bool) -> WritePlan:
    return WritePlan(
        storage,
        options.replacement(storage.schema),
        None if options.unchanged_since is None else options.unchanged_since.identity,
        is_stream=is_stream,
        compacts=options.compacts,
    )


class _Writer:
    """The common part of batch and stream writers.

    Spark makes the writer of a data source on the driver, pickles it for its tasks, and unpickles
    (or makes) it in another process on the driver to commit. What the tasks need is looked up when
    it is pickled, or before.

    Args:
        options: The write's.
        open_table: Makes a new handle of the table, in this process; None reaches the catalog of
            the options.
        rows: The columns of the rows, to be checked when the write is planned.
    """

    _is_stream: ClassVar = False

    def __init__(
        self,
        options: WriteOptions,
        open_table: Callable[[], Table] | None = None,
        *,
        rows: st.StructType | None = None,
    ) -> None:
        self._options = options
        self._rows = rows
        self._open_in_session = open_table
        self._target: _Target | None = None

    def plan(self) -> None:
        """Look up what the tasks need; raises Invalid where columns do not fit the table."""
        if self._target is None:
            table = self._open_table()
            # The commit must not reach a table that takes the name meanwhile.
            self._options = replace(self._options, table_id=table.info.id)
            target = _Target.from_options(self._options, table, is_stream=self._is_stream)
            if self._rows is not None:
                target.check(self._rows)
            self._target = target

    def nothing(self) -> WrittenFiles:
        """The message of a task without rows."""
        self.plan()
        assert self._target is not None
        return WrittenFiles(self._target.writer, ())

    def __getstate__(self) -> dict[str, object]:
        self.plan()
        return {**self.__dict__, "_open_in_session": None}

    def _open_table(self) -> Table:
        return (self._open_in_session or self._options.open)()

    def _write(self, batches: Iterable[pa.RecordBatch]) -> WrittenFiles:
        assert self._target is not None
        return self._target.write(batches)

    def _delete(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete what tasks wrote, unless a commit may have made it part of the table."""
        files = _Files.from_messages(messages)
        if files is not None and None in messages:
            table = self._open_table()
            TableCommit(table.storage, table.pointer, files.writer).abort(files.messages)


@dataclass(frozen=True)
class _Files:
    """The files that the tasks of one commit wrote.

    Attributes:
        writer: Names the batch write or the streaming query.
        messages: A description of the files.
    """

    writer: str
    messages: list[CommitMessage]

    @property
    def partitions(self) -> set[bytes]:
        """The partitions that they lie in, serialised."""
        return {message.partition for message in self.messages}

    @staticmethod
    def from_messages(messages: Sequence[WriterCommitMessage | None]) -> _Files | None:
        """None when no task wrote anything."""
        written = [message for message in messages if isinstance(message, WrittenFiles)]
        if not written:
            return None
        return _Files(written[0].writer, [each for one in written for each in one.messages])


def task_outcome(
    writer: DataSourceArrowWriter,
    names: Sequence[str],
    marked: bool,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """A task's message and no error, or no message and an error that a repetition would not mend.

    Args:
        writer: The writer, after `plan`.
        names: The names that the columns of the batches are to have.
        marked: Whether the last column tells of wide rows, see `with_wide_marked`.
        batches: The task's rows.

    Returns:
        One row with both, pickled, in the column ``outcome``.
    """
    message: WriterCommitMessage | None = None
    failure: HeadwaterError | LosingRows | WideRow | None = None
    try:
        named = (batch.rename_columns(names) for batch in batches)
        message = writer.write(narrow_rows(named) if marked else named)
    except Unavailable:
        raise
    except (HeadwaterError, LosingRows, WideRow) as error:
        failure = error
    done = pickle.dumps((message, failure))
    yield pa.record_batch([pa.array([done], pa.binary())], names=["outcome"])


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes one batch as one commit."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write a task's rows."""
        return self._write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what all tasks wrote."""
        files = _Files.from_messages(messages)
        if files is not None:
            table = self._open_table()
            user, identifier = self._options.numbered or (files.writer, BATCH_IDENTIFIER)
            operation = self._options.operation
            commit = TableCommit(table.storage, table.pointer, user, operation=operation)
            if self._options.numbered and commit.has_committed(identifier):
                # Another run of the batch came first.
                commit.abort(files.messages)
                return
            plan = _plan(self._options, table.storage, self._is_stream)
            if _stages(self._options, table.storage):
                commit_staged(plan, commit, files.messages, _THIS_PROCESS, identifier=identifier)
            else:
                plan.commit(commit, files.messages, _THIS_PROCESS, identifier=identifier)
            table.keep_up(written=files.partitions)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete what tasks wrote, as another failed."""
        self._delete(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes each micro-batch as one commit, exactly once for one checkpoint."""

    _is_stream = True

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write a task's rows."""
        return self._write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the batch, unless an earlier run of the query did.

        Raises:
            Invalid: A later batch of the query has been written: its checkpoint is an older one.
        """
        files = _Files.from_messages(messages)
        if files is None:
            return
        table = self._open_table()
        commit = TableCommit(table.storage, table.pointer, f"spark-{files.writer}")
        plan = _plan(self._options, table.storage, self._is_stream)
        stages = _stages(self._options, table.storage)
        try:
            is_repeated = is_batch_written(commit, table.name, files.writer, batchId)
        except Invalid:
            commit.abort(files.messages)
            raise
        if not is_repeated:
            if stages:
                commit_staged(plan, commit, files.messages, _THIS_PROCESS, identifier=batchId)
            else:
                plan.commit(commit, files.messages, _THIS_PROCESS, identifier=batchId)
            table.keep_up(at_end=False)
            return
        commit.abort(files.messages)
        if not stages:
            # The earlier run may have ended before it compacted.
            plan.compact_written(commit, files.messages, _THIS_PROCESS, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Delete what tasks wrote, as another failed."""
        self._delete(messages)
