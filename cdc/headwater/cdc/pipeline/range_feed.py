"""Rows of a table's ranges of keys, read while its changes are collected."""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from threading import Event, Lock, Thread
from typing import TypeAlias, TypeVar

import pyarrow as pa

from headwater.cdc.model.tables import SourceTable
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.source.key_ranges import Bound, KeyRange
from headwater.cdc.source.positions import Position, union
from headwater.cdc.source.reads import RowReader
from headwater.cdc.source.source import Source
from headwater.storage.errors import Conflict, Unavailable

__all__ = ["FeedResult", "RangeFeed"]

# Of each range that is read.
_QUEUED_BATCHES = 4
_WAKE_SECONDS = 0.2

_Item = TypeVar("_Item")
_RangeRows: TypeAlias = "queue.Queue[pa.RecordBatch | None]"
"""The rows of a range; None ends them."""


@dataclass(frozen=True)
class FeedResult:
    """How far a feed came.

    Attributes:
        until: The upper bound of the ranges that were read; an empty bound for all, None for none.
        settled: A position that has all that was seen; None if nothing was read.
        rows: How many rows were read.
    """

    until: Bound | None
    settled: Position | None
    rows: int


class RangeFeed:
    """Reads ranges of a table by threads, until it is told to end.

    Rows come in the order of the ranges, whichever thread reads them: the lake's writer need not
    sort rows whose keys it orders as the source does.

    Args:
        source: The source.
        table: The table as the source has it; it is not read if it has another shape meanwhile.
        lake_table: The same, with the types that its columns have in the lake.
        after: The upper bound of the range that was read last.
        seen: The position that every range must have seen at least.
        settings: The pipeline's.
        until: Where to end: a range that an earlier process read; None reads until `finish`.
        keep: Columns whose values are kept in memory.

    Attributes:
        kept: The values of these columns of the rows that were read.
    """

    def __init__(
        self,
        source: Source,
        table: SourceTable,
        lake_table: SourceTable,
        after: Bound | None,
        seen: Position,
        settings: PipelineSettings,
        *,
        until: Bound | None = None,
        keep: Sequence[str] = (),
    ) -> None:
        self._keep, self.kept = list(keep), list[pa.RecordBatch]()
        self._source, self._table, self._lake_table = source, table, lake_table
        self._seen, self._settings = seen, settings
        self._closing, self._aborted = Event(), Event()
        # The ranges in their order; each thread ends with a None.
        self._begun: queue.Queue[_RangeRows | None] = queue.Queue()
        self._lock = Lock()
        self._error: Exception | None = None
        self._until = after if after else None
        self._reached_end = False
        # The range that failed first in the order of keys, and the bound before it.
        self._failed: tuple[int, Bound | None] | None = None
        self._given = 0
        self._settled: Position | None = None
        self._rows = 0
        self._is_planned = until is not None
        self._ranges = self._divide(after or None, until)
        count = settings.readers
        self._running = count
        self._threads = [
            Thread(target=self._run, name=f"cdc-range-{index}", daemon=True)
            for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_done(self) -> bool:
        """Whether all ranges are read, or none can be for now."""
        return self._running == 0

    def finish(self) -> None:
        """Begin no further range."""
        self._closing.set()

    def abort(self) -> None:
        """Stop, whatever is read."""
        self._closing.set()
        self._aborted.set()
        for thread in self._threads:
            thread.join()
        self._end_division()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, until the feed has ended.

        Raises:
            HeadwaterError: What ended it.
        """
        ended = 0
        while ended < len(self._threads):
            rows = self._take(self._begun)
            if rows is None:
                ended += 1
                continue
            while (batch := self._take(rows)) is not None:
                yield batch
        if self._error is not None:
            raise self._error

    def _take(self, items: queue.Queue[_Item]) -> _Item:
        while True:
            with suppress(queue.Empty):
                return items.get(timeout=_WAKE_SECONDS)
            if self._aborted.is_set():
                raise Unavailable(f"ranges of {self._table.name} were given up")

    def result(self) -> FeedResult:
        """How far it came; waits for its threads, whose rows somebody must take."""
        for thread in self._threads:
            thread.join()
        self._end_division()
        until = self._until
        if self._failed is not None:
            until = self._failed[1]
        elif self._reached_end:
            until = ()
        return FeedResult(until, self._settled, self._rows)

    def _end_division(self) -> None:
        """End the transaction that divides the table, which keeps others from changing it."""
        # A writer that fails does so while another thread waits for the result.
        with self._lock:
            self._ranges.close()

    # Threads ----------------------------------------------------------------------------------

    def _divide(self, after: Bound | None, until: Bound | None) -> Generator[KeyRange]:
        if until is not None:
            # What an earlier process read is read as one range: nobody waits for its end.
            yield KeyRange(after, until or None)
            return
        with self._source.consistent_read(self._seen) as read:
            yield from read.key_ranges(self._table, self._settings.range_rows, after)

    def _run(self) -> None:
        try:
            # A table that is another one than expected is read in one of the next batches.
            with suppress(Conflict), ExitStack() as stack:
                # One connection for all of the thread's ranges, if it gets any.
                connect = cache(lambda: stack.enter_context(self._source.row_reader()))
                while self._read_next(connect):
                    pass
        except Exception as error:  # noqa: BLE001 - it is raised by `batches`
            self._error = self._error or error
        finally:
            self._closing.set()
            self._begun.put(None)
            with self._lock:
                self._running -= 1

    def _read_next(self, connect: Callable[[], RowReader]) -> bool:
        """Read a range; whether there may be more."""
        with self._lock:
            if self._closing.is_set():
                return False
            try:
                part = next(self._ranges)
            except BaseException:
                # Another thread would find no more ranges, as if there were none.
                self._closing.set()
                raise
            rows: _RangeRows = queue.Queue(_QUEUED_BATCHES)
            self._begun.put(rows)
            number, before = self._given, self._until
            self._given, self._until = number + 1, part.until
            if part.until is None or self._is_planned:
                # No thread looks for a range after the last one.
                self._closing.set()
        try:
            self._read(part, rows, connect())
        except BaseException:
            # Those that other threads read after it are read again.
            with self._lock:
                self._closing.set()
                if self._failed is None or number < self._failed[0]:
                    self._failed = number, before
            raise
        finally:
            self._put(rows, None)
        if part.until is None:
            self._reached_end = True
        return True

    def _read(self, part: KeyRange, rows: _RangeRows, reader: RowReader) -> None:
        with reader.consistent_read(self._seen) as read:
            read.check(self._table)
            for batch in read.rows(self._lake_table, part, self._settings.bad_dates):
                with self._lock:
                    self._rows += batch.num_rows
                if self._keep:
                    self.kept.append(batch.select(self._keep))
                if not self._put(rows, batch):
                    raise Unavailable(f"ranges of {self._table.name} were given up")
            settled = read.settled()
        with self._lock:
            self._settled = union(self._settled, settled)

    def _put(self, rows: _RangeRows, batch: pa.RecordBatch | None) -> bool:
        while not self._aborted.is_set():
            with suppress(queue.Full):
                rows.put(batch, timeout=_WAKE_SECONDS)
                return True
        return False
