"""Rows of a table's ranges of keys, read while its changes are collected."""

from __future__ import annotations

import queue
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread

import pyarrow as pa

from headwater.cdc.model.tables import SourceTable
from headwater.cdc.mysql.information_schema import check_definition
from headwater.cdc.mysql.key_ranges import Bound, KeyRange, key_ranges, read_range
from headwater.cdc.mysql.positions import Position, union
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.storage.errors import Conflict, Unavailable

__all__ = ["FeedResult", "RangeFeed"]

_QUEUED_BATCHES = 8
_WAKE_SECONDS = 0.2


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

    Rows that several threads read come in any order: their keys are different ones.

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
        source: MySQLSource,
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
        self._queue: queue.Queue[pa.RecordBatch | None] = queue.Queue(_QUEUED_BATCHES)
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
        self._end_ranges()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, until the feed has ended.

        Raises:
            HeadwaterError: What ended it.
        """
        ended = 0
        while ended < len(self._threads):
            try:
                batch = self._queue.get(timeout=_WAKE_SECONDS)
            except queue.Empty:
                if self._aborted.is_set():
                    raise Unavailable(f"ranges of {self._table.name} were given up") from None
                continue
            if batch is None:
                ended += 1
                continue
            yield batch
        if self._error is not None:
            raise self._error

    def result(self) -> FeedResult:
        """How far it came; waits for its threads, whose rows somebody must take."""
        for thread in self._threads:
            thread.join()
        self._end_ranges()
        until = self._until
        if self._failed is not None:
            until = self._failed[1]
        elif self._reached_end:
            until = ()
        return FeedResult(until, self._settled, self._rows)

    def _end_ranges(self) -> None:
        """End the transaction by which ranges are found, which keeps others from altering it."""
        # The part's thread may abort the feed while another one asks for its result.
        with self._lock:
            self._ranges.close()

    # Threads ----------------------------------------------------------------------------------

    def _divide(self, after: Bound | None, until: Bound | None) -> Generator[KeyRange]:
        if until is not None:
            # What an earlier process read is read as one range: nobody waits for its end.
            yield KeyRange(after, until or None)
            return
        with self._source.consistent_read(self._seen) as read:
            yield from key_ranges(
                read.server.connection,
                self._source.address,
                self._table,
                self._settings.range_rows,
                after,
            )

    def _run(self) -> None:
        try:
            # A table that is another one than expected is read in one of the next batches.
            with suppress(Conflict):
                while self._read_next():
                    pass
        except Exception as error:  # noqa: BLE001 - it is raised by `batches`
            self._error = self._error or error
        finally:
            self._closing.set()
            self._put(None)
            with self._lock:
                self._running -= 1

    def _read_next(self) -> bool:
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
            number, before = self._given, self._until
            self._given, self._until = number + 1, part.until
            if part.until is None or self._is_planned:
                # No thread looks for a range after the last one.
                self._closing.set()
        try:
            self._read(part)
        except BaseException:
            # Those that other threads read after it are read again.
            with self._lock:
                self._closing.set()
                if self._failed is None or number < self._failed[0]:
                    self._failed = number, before
            raise
        if part.until is None:
            self._reached_end = True
        return True

    def _read(self, part: KeyRange) -> None:
        source = self._source
        with source.consistent_read(self._seen) as read:
            check_definition(read.server, self._table)
            for batch in read_range(
                read.server.connection,
                source.address,
                self._lake_table,
                part,
                self._settings.bad_dates,
            ):
                self._rows += batch.num_rows
                if self._keep:
                    self.kept.append(batch.select(self._keep))
                if not self._put(batch):
                    return
            settled = read.settled()
        with self._lock:
            self._settled = union(self._settled, settled)

    def _put(self, batch: pa.RecordBatch | None) -> bool:
        while not self._aborted.is_set():
            with suppress(queue.Full):
                self._queue.put(batch, timeout=_WAKE_SECONDS)
                return True
        return False
