"""Ranges of a table's keys that tasks of an executor read and write to the lake."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from threading import Event

import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.pipeline.null_dates import check_null_dates
from headwater.cdc.pipeline.range_feed import FeedResult
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.sink.row_mapping import RowMapping, row_schema, with_kind
from headwater.cdc.source.key_ranges import Bound, KeyRange
from headwater.cdc.source.positions import Position, union
from headwater.cdc.source.reads import RemoteReads
from headwater.cdc.source.source import Source
from headwater.storage.errors import Conflict, Unavailable
from headwater.storage.jobs.executor import ParallelExecutor
from headwater.storage.jobs.stepped_write import SteppedWrite, TaskFiles, TaskWrite
from headwater.storage.rows.kinds import RowKind

__all__ = ["TaskFeed"]


@dataclass(frozen=True)
class _RangeTask:
    """A range that a task reads and writes; it pickles.

    Attributes:
        number: Its place among those of its step.
        part: The range.
        reads: Connects to the source.
        table: The table as the source has it.
        mapping: How its rows become the lake's.
        seen: The position that must be seen at least.
        bad_dates: What to do with dates that the lake does not have.
        keep: Columns whose values come back.
        write: Writes to the lake.
    """

    number: int
    part: KeyRange
    reads: RemoteReads
    table: SourceTable
    mapping: RowMapping
    seen: Position
    bad_dates: BadDates
    keep: tuple[str, ...]
    write: TaskWrite


@dataclass(frozen=True)
class _RangeOutcome:
    """What a task has read and written.

    Attributes:
        number: As in the task.
        files: The files.
        settled: A position that has all that was seen.
        kept: The values of the columns to keep.
        is_whole: Whether all of the range was read; the table is another one meanwhile otherwise.
    """

    number: int
    files: TaskFiles
    settled: Position | None
    kept: tuple[pa.RecordBatch, ...]
    is_whole: bool


class _RangeRead:
    """The rows of a task's range, and what is known of them when all are read."""

    def __init__(self, task: _RangeTask) -> None:
        self._task = task
        self.kept: list[pa.RecordBatch] = []
        self.settled: Position | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows; fewer if the table is another one than expected."""
        task = self._task
        mapping = task.mapping
        schema = row_schema(mapping.source)
        with (
            suppress(Conflict),
            task.reads.row_reader() as reader,
            reader.consistent_read(task.seen) as read,
        ):
            read.check(task.table)
            for batch in read.rows(mapping.source, task.part, task.bad_dates):
                if task.keep:
                    self.kept.append(batch.select(list(task.keep)))
                rows = mapping.rows(with_kind(batch, RowKind.INSERT, schema))
                yield check_null_dates(rows, mapping.source, task.bad_dates)
            self.settled = read.settled()


def _read_range(task: _RangeTask) -> _RangeOutcome:
    """Read a range, and write its rows."""
    read = _RangeRead(task)
    files = task.write.write(read.batches())
    return _RangeOutcome(
        task.number, files, read.settled, tuple(read.kept), read.settled is not None
    )


class TaskFeed:
    """Reads ranges of a table by tasks, as many at a time as run at once, until it is told to end.

    It does what a `RangeFeed` does, but the tasks write the rows, too.

    Args:
        source: The source.
        table: The table as the source has it; it is not read if it has another shape meanwhile.
        mapping: How its rows become the lake's.
        after: The upper bound of the range that was read last.
        seen: The position that every range must have seen at least.
        settings: The pipeline's.
        executor: Runs the tasks.
        until: Where to end: a range that an earlier process read; None reads until `finish`.
        keep: Columns whose values are kept in memory.

    Attributes:
        kept: The values of these columns of the rows that were read.
    """

    def __init__(
        self,
        source: Source,
        table: SourceTable,
        mapping: RowMapping,
        after: Bound | None,
        seen: Position,
        settings: PipelineSettings,
        executor: ParallelExecutor,
        *,
        until: Bound | None = None,
        keep: Sequence[str] = (),
    ) -> None:
        self.kept = list[pa.RecordBatch]()
        self._keep = tuple(keep)
        self._source, self._table, self._mapping = source, table, mapping
        self._seen, self._settings, self._executor = seen, settings, executor
        self._after, self._planned = after or None, until
        self._closing, self._aborted, self._ended = Event(), Event(), Event()
        self._until = self._after
        self._settled: Position | None = None
        self._rows = 0

    @property
    def is_done(self) -> bool:
        """Whether all ranges are read, or none can be for now."""
        return self._ended.is_set()

    def finish(self) -> None:
        """Begin no further tasks."""
        self._closing.set()

    def abort(self) -> None:
        """Stop when the tasks have ended that run."""
        self._closing.set()
        self._aborted.set()
        # Nobody needs the result; or the writer has failed before it began.
        self._ended.set()

    def result(self) -> FeedResult:
        """How far it came; waits for its tasks."""
        self._ended.wait()
        return FeedResult(self._until, self._settled, self._rows)

    def write(self, steps: SteppedWrite) -> None:
        """Read ranges, and write their rows, until it is told to end.

        Raises:
            HeadwaterError: A task failed.
            Unavailable: It was given up.
        """
        try:
            with closing(self._divide()) as ranges:
                while self._write_step(steps, ranges):
                    pass
        finally:
            self._ended.set()
        if self._aborted.is_set():
            raise Unavailable(f"ranges of {self._table.name} were given up")

    def _divide(self) -> Generator[KeyRange]:
        # A table that is another one than expected is read in one of the next batches.
        with suppress(Conflict), self._source.consistent_read(self._seen) as read:
            yield from read.key_ranges(
                self._table, self._settings.task_rows, self._after, self._planned or None
            )

    def _write_step(self, steps: SteppedWrite, ranges: Iterator[KeyRange]) -> bool:
        """Let tasks read the next ranges; whether there may be more."""
        is_planned = self._planned is not None
        if self._aborted.is_set() or (self._closing.is_set() and not is_planned):
            return False
        parts = list(islice(ranges, self._executor.at_once))
        if not parts:
            return False
        reads = self._source.remote_reads()
        writes = steps.tasks(len(parts), len(parts) * self._settings.task_rows)
        tasks = [
            _RangeTask(
                number,
                part,
                reads,
                self._table,
                self._mapping,
                self._seen,
                self._settings.bad_dates,
                self._keep,
                write,
            )
            for number, (part, write) in enumerate(zip(parts, writes, strict=True))
        ]
        whole: set[int] = set()
        for outcome in self._executor.run(_read_range, tasks):
            steps.add(outcome.files)
            self._rows += outcome.files.rows
            self.kept += outcome.kept
            if outcome.is_whole:
                whole.add(outcome.number)
            if outcome.settled is not None:
                self._settled = union(self._settled, outcome.settled)
        for number, part in enumerate(parts):
            if number not in whole:
                # It, and those after it, are read again.
                return False
            self._until = part.until or ()
        return True
