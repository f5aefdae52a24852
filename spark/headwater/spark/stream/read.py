"""Follow a table's changes in a streaming query.

An offset is a `StreamPosition`: the snapshot that the query wants next. A batch is the full read
that a new query may start with, or the changes of all snapshots up to the latest.

With a consumer id the position is saved in the catalog, where it outlives the checkpoint and holds
back snapshot expiry, from the full read on. It moves only when Spark says that a batch is done:
Spark tells a source so by `commit`, but for a batch that no other follows only by asking for
offsets after it. The query holds the consumer from its first question to its end, so that no other
query moves it.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as st
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from headwater.catalog.table.audit_log import AuditLog
from headwater.catalog.table.scan import Rows
from headwater.spark.connection import Connection
from headwater.spark.options import ReadOptions
from headwater.spark.source.batch_read import SplitsPartition, pack_splits
from headwater.spark.stream_options import ExpiredStart, SchemaChange
from headwater.spark.types import conform, spark_arrow_schema
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, ResourceType
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.scan.split import ScanPlan, Split
from headwater.storage.scan.stream import (
    StreamPosition,
    after,
    bounded_end,
    check_history,
    earliest_changes,
    from_consumer,
    latest_full,
    reading_from,
    starting_position,
)
from headwater.storage.scan.stream_batches import (
    BatchLimits,
    StreamBatches,
    end_before_schema_change,
)
from headwater.storage.schema.read_start import ReadStart
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.system_tables.changes import ROW_KIND
from headwater.storage.types.data_type import Json

if TYPE_CHECKING:
    from headwater.catalog.table.consumer import Consumer
    from headwater.catalog.table.consumer_hold import ConsumerHold
    from headwater.catalog.table.table import Table

__all__ = ["POLICIES", "MovesPartition", "StreamReader"]

# Spark asks for news a hundred times a second; the catalog is asked again after so long.
_POLL_SECONDS = 0.1
_ALL_ROWS = 2**63 - 1
_RETRACTIONS = pa.array(["-U", "-D"])
_BEGIN = "begin"
"""The key of every offset but the first: says where the query began."""
_TABLE = "table"
"""The key of every offset but the first: the table's id."""
POLICIES = "policies"
"""The key of an offset that says by which policies the rows before it were shown."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table's changes, batch by batch.

    Spark makes one on the driver, which lives as long as the query and plans, and another whose
    `read` it sends to its tasks.

    Args:
        connection: The catalog's.
        options: The options of the read.
        table: The table. The stream keeps its present columns, whatever becomes of them.
        schema: The frame's schema.
        view: The system table that shows the changes; None for those of the table itself.
    """

    def __init__(
        self,
        connection: Connection,
        options: ReadOptions,
        table: Table,
        schema: st.StructType,
        view: type[AuditLog] | None = None,
    ) -> None:
        storage = table.storage
        names = schema.fieldNames()
        kinds = ROW_KIND_COLUMN in names and ROW_KIND_COLUMN not in storage.schema.field_by_name
        where = options.where
        predicate = None if where is None else parse_predicate(where, storage.schema)
        if view is not None:
            self._rows: Rows = view(Rows(storage, None, predicate))
        else:
            columns = [name for name in names if not (kinds and name == ROW_KIND_COLUMN)]
            self._rows = Rows(storage, columns, predicate, row_kinds=kinds)
        self._kind = ROW_KIND_COLUMN if view is None else ROW_KIND
        self._schema = schema
        self._options = options
        self._bound = table.with_options(options.start).schema.table_options.bounded_watermark
        self._parallelism = connection.parallelism
        self._table: Table | None = table
        self._identifier = table.identifier
        self._initial: StreamPosition | None = None
        self._target: StreamPosition | None = None
        self._last: Snapshot | None = None
        self._batches = StreamBatches(storage, predicate)
        # The end of the last batch that was not empty, as a monotonic time in seconds.
        self._triggered: float | None = None
        self._polled: float | None = None
        self._hold: ConsumerHold | None = None
        # The consumer's position as this query knows it.
        self._saved: StreamPosition | None = None

    def __getstate__(self) -> dict[str, object]:
        # Tasks read files; they have no business with the catalog.
        return {**self.__dict__, "_table": None, "_hold": None, "_batches": None}

    # On the driver ----------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Json]:
        """The start of a query without a checkpoint."""
        if self._initial is None:
            self._hold_consumer()
            self._initial = self._start()
        return self._offset(self._initial)

    def prepareForTriggerAvailableNow(self) -> None:
        """Choose the last snapshot of a query that ends when it has caught up."""
        self._hold_consumer()
        self._last = self._newest()
        self._target = after(self._last)

    def latestOffset(self, start: Mapping[str, object], limit: ReadLimit) -> dict[str, Json]:
        """The end of the next batch.

        Args:
            start: The end of the last one, which is now done.
            limit: `ReadAllAvailable` when the query's trigger lets no limit count.

        Raises:
            NotFound: The table was dropped, or another has its name since the last batch.
        """
        self._check_table(start)
        self._hold_consumer()
        position = self._position(start)
        options = self._options.stream
        is_limited = (options.limits or options.least) and not isinstance(limit, ReadAllAvailable)
        if not position.changes:
            # The full read makes batches of its own, whose splits need no order.
            self._done(position)
            newest = self._newest()
            end = self._before_schema_change(position, position.following, newest)
        else:
            end, newest = self._end(position)
        if is_limited:
            end = self._limited(position, end, newest)
        told = self._offset(end)
        # Spark takes an offset that is written otherwise for news.
        is_news = end != position or end.known != position.known
        if _BEGIN in start:
            told[_BEGIN] = StreamPosition.from_json(start[_BEGIN]).to_json()
        elif is_news:
            told[_BEGIN] = position.to_json()
        if is_news or _TABLE in start:
            told[_TABLE] = self._identifier.table_id
        return told

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit that Spark passes unless the query's trigger has all rows read at once."""
        if self._options.stream.limits is None and self._options.stream.least is None:
            return ReadAllAvailable()
        # Spark has one limit at a time; what counts is in the options.
        return ReadMaxRows(_ALL_ROWS)

    def _limited(
        self, position: StreamPosition, end: StreamPosition, newest: Snapshot | None
    ) -> StreamPosition:
        """The end of a batch within its limits; its beginning while it is to wait for rows."""
        limits = self._options.stream.limits or BatchLimits()
        if not position.changes:
            check_history(self._rows.storage, position, newest)
        end, rows = self._batches.end_within(position, end, newest, limits)
        least, now = self._options.stream.least, self._rows.storage.runtime.monotonic()
        # A query that ends when it has caught up would wait for ever.
        if least is not None and self._target is None and self._triggered is not None:
            waited = (now - self._triggered) * 1000
            if rows < least[0] and waited < least[1]:
                return position
        if rows:
            self._triggered = now
        return end

    def _end(self, position: StreamPosition) -> tuple[StreamPosition, Snapshot | None]:
        """The end of all changes that there are, or that the query wants; the newest snapshot."""
        known = self._target is not None and self._bound is None
        newest = self._last if known else self._newest()
        check_history(self._rows.storage, position, newest)
        self._done(position)
        end = position if newest is None else max(position, after(newest))
        if self._target is not None:
            end = max(position, self._target)
        if self._bound is not None:
            end = bounded_end(self._rows.storage, position, end, newest, self._bound)
        return self._before_schema_change(position, end, newest), newest

    def _before_schema_change(
        self, position: StreamPosition, end: StreamPosition, newest: Snapshot | None
    ) -> StreamPosition:
        """The end, or what comes before a snapshot with other columns than the stream's."""
        if self._options.stream.schema_change is not SchemaChange.STOP or end <= position:
            return end
        storage, columns = self._rows.storage, self._options.columns
        return end_before_schema_change(storage, position, end, newest, columns)

    def partitions(
        self, start: Mapping[str, object], end: Mapping[str, object]
    ) -> list[InputPartition]:
        """The splits of a batch, packed for its tasks.

        Spark does not keep where a query begins. When it repeats the first batch, it asks
        `initialOffset` again, which knows of later commits by then.
        """
        self._check_table(end)
        self._hold_consumer()
        first, last = self._position(start), self._position(end)
        if _BEGIN in end and _BEGIN not in start:
            first = StreamPosition.from_json(end[_BEGIN])
        return self._planned(first, last) if first < last else []

    def _planned(self, first: StreamPosition, last: StreamPosition) -> list[InputPartition]:
        """The partitions of the batch between two positions."""
        rows = self._rows
        newest = self._catalog_table().pointer.latest()
        plans = list(self._batches.plans(first, last, newest))
        options = rows.storage.schema.table_options
        if rows.row_kinds and rows.storage.schema.crosses_partitions:
            changes = [[split for split in plan.splits if split.streaming] for plan in plans]
            free = [[split] for plan in plans for split in plan.splits if not split.streaming]
            moves: list[InputPartition] = [MovesPartition(changes, first)] if any(changes) else []
        else:
            free, moves = _in_order(plans, bool(self._rows.storage.schema.primary_keys)), []
        packed = pack_splits(free, options, self._parallelism) if free else []
        return [*moves, *(BatchPartition(each, first) for each in packed)]

    def commit(self, end: Mapping[str, object]) -> None:
        """Take note that a batch is done."""
        self._done(self._position(end))

    def _check_table(self, offset: Mapping[str, object]) -> None:
        """Check that an offset is of this table; those of earlier releases do not tell.

        Raises:
            NotFound: It is of another that had the name before.
        """
        if offset.get(_TABLE) not in (None, self._identifier.table_id):
            # Tasks import this module.
            from headwater.catalog.model.tables import dropped_table

            raise dropped_table(
                self._identifier,
                "start the query with a new checkpoint, from a full read, to follow that one",
            )

    def _position(self, offset: Mapping[str, object]) -> StreamPosition:
        """The position that an offset of Spark's tells."""
        if POLICIES in offset:
            raise Invalid(
                f"table {self._rows.storage.name}: policies restricted what this query was shown "
                "when its checkpoint was written, and restrict nothing now: start it with a new "
                "checkpoint, from a full read, to see all rows"
            )
        return StreamPosition.from_json(offset)

    def _offset(self, position: StreamPosition) -> dict[str, Json]:
        """The offset, for Spark, that tells a position."""
        return position.to_json()

    def _catalog_table(self) -> Table:
        assert self._table is not None
        return self._table

    def _newest(self) -> Snapshot | None:
        """The latest snapshot; waits if the catalog was asked just now."""
        runtime = self._rows.storage.runtime
        if self._polled is not None:
            early = self._polled + _POLL_SECONDS - runtime.monotonic()
            if 0 < early <= _POLL_SECONDS:
                runtime.sleep(early)
        self._polled = runtime.monotonic()
        return self._catalog_table().pointer.latest()

    def _start(self) -> StreamPosition:
        newest = self._catalog_table().pointer.latest()
        if self._hold is None:
            return self._there(newest, lambda: self._asked(newest))
        saved = None if self._options.stream.ignores_progress else self._consumer().position()
        if saved is not None:
            return self._there(newest, lambda: self._resumed(newest, saved))
        while True:
            position = self._there(newest, partial(self._asked, newest))
            # From now on expiry waits for this reader.
            self._move(position)
            newest = self._catalog_table().pointer.latest()
            try:
                self._resumed(newest, position)
            except NotFound as error:
                # The snapshot expired before the consumer could hold it.
                if error.resource_type is not ResourceType.SNAPSHOT:
                    raise
            else:
                return position

    def _there(
        self, newest: Snapshot | None, start: Callable[[], StreamPosition]
    ) -> StreamPosition:
        """A start, or what the query wants instead if it has expired."""
        try:
            return start()
        except NotFound as error:
            if error.resource_type is not ResourceType.SNAPSHOT:
                raise
            match self._options.stream.expired_start:
                case ExpiredStart.FAIL:
                    raise
                case ExpiredStart.EARLIEST:
                    return self._earliest(newest)
                case ExpiredStart.LATEST_FULL:
                    return latest_full(newest) or after(newest)

    def _resumed(self, newest: Snapshot | None, saved: StreamPosition) -> StreamPosition:
        """The position at which a consumer left off."""
        return from_consumer(self._rows.storage, newest, saved, self._start_option())

    def _earliest(self, newest: Snapshot | None) -> StreamPosition:
        """The position of the earliest changes there are."""
        return earliest_changes(self._rows.storage, newest)

    def _asked(self, newest: Snapshot | None) -> StreamPosition:
        """The position at which the options start a new query."""
        return starting_position(self._rows.storage, newest, self._start_option())

    def _start_option(self) -> ReadStart:
        asked = self._catalog_table().with_options(self._options.start)
        return ReadStart.of(asked.schema.options)

    def _done(self, position: StreamPosition) -> None:
        """Save the position, before which everything is durably done."""
        if self._hold is None:
            return
        if self._saved is None and not self._options.stream.ignores_progress:
            self._saved = self._consumer().saved
        if self._saved is None or self._saved < position.whole:
            self._move(position)

    def _move(self, position: StreamPosition) -> None:
        if self._hold is not None:
            self._hold.advance(position.snapshot_id, full_read=not position.changes)
            self._saved = position.whole

    # The consumer -----------------------------------------------------------------------------

    def _consumer(self) -> Consumer:
        consumer_id = self._options.stream.consumer_id
        assert consumer_id is not None
        return self._catalog_table().consumer(consumer_id)

    def _hold_consumer(self) -> None:
        """Keep other queries from the consumer; a query that lost it to another ends here."""
        if self._options.stream.consumer_id is None:
            return
        if self._hold is None:
            hold = self._consumer().hold(self._options.stream.lease)
            hold.take()
            hold.keep()
            self._hold = hold
            _end_in_order()
        self._hold.check()

    def stop(self) -> None:
        """Let other queries have the consumer at once, as this one ends."""
        if self._hold is not None:
            # A lease that cannot be given back now runs out.
            with suppress(HeadwaterError):
                self._hold.release()

    # In tasks ---------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task's splits."""
        if not isinstance(partition, BatchPartition):
            return
        arrow = spark_arrow_schema(self._schema)
        with reading_from(self._rows.storage, partition.start):
            for batch in self._batches_of(partition):
                yield conform(batch, arrow)

    def _batches_of(self, partition: BatchPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, MovesPartition):
            for splits in partition.snapshots:
                for retracts in (True, False):
                    for split in splits:
                        for batch in self._rows.read_split(split):
                            is_wanted = pc.is_in(batch.column(self._kind), _RETRACTIONS)
                            if not retracts:
                                is_wanted = pc.invert(is_wanted)
                            chosen = batch.filter(is_wanted)
                            if chosen.num_rows:
                                yield chosen
            return
        for split in partition.splits:
            yield from self._rows.read_split(split)


class BatchPartition(SplitsPartition):
    """Splits of a stream's batch.

    Args:
        splits: The splits.
        start: The beginning of the batch.
    """

    def __init__(self, splits: Sequence[Split], start: StreamPosition) -> None:
        super().__init__(splits)
        self.start = start


class MovesPartition(BatchPartition):
    """The changes of keys that move between partitions, all of a batch.

    A key that moves is deleted in one bucket and added in another: what a snapshot retracts comes
    before what it adds.

    Args:
        snapshots: The splits of each snapshot, in order.
        start: The beginning of the batch.
    """

    def __init__(self, snapshots: Sequence[Sequence[Split]], start: StreamPosition) -> None:
        super().__init__([split for splits in snapshots for split in splits], start)
        self.snapshots = tuple(tuple(splits) for splits in snapshots)


def _end_in_order() -> None:
    """Have Spark's way to end this process, a signal, end it by way of `StreamReader.stop`."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, _: FrameType | None) -> None:
    # Spark sends it twice, and the second must not interrupt what the first begins.
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _in_order(plans: Sequence[ScanPlan], has_keys: bool) -> list[list[Split]]:
    """Splits that must be read one after another, together.

    The changes of a bucket must not overtake each other from snapshot to snapshot. A table without
    keys and buckets promises no order; dynamic buckets of keys are not counted in files.
    """
    changes = [split for plan in plans for split in plan.splits if split.streaming]
    counts: dict[bytes, set[int]] = {}
    for split in changes:
        counts.setdefault(split.partition, set()).add(split.total_buckets)
    buckets: dict[tuple[bytes, int], list[Split]] = {}
    free: list[list[Split]] = []
    for plan in plans:
        for split in plan.splits:
            if split.streaming and (has_keys or split.total_buckets > 0):
                # Buckets that were rescaled meanwhile share keys.
                bucket = split.bucket if len(counts[split.partition]) == 1 else -1
                buckets.setdefault((split.partition, bucket), []).append(split)
            else:
                free.append([split])
    return [*buckets.values(), *free]
