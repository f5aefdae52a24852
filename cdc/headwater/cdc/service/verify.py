"""The comparison of followed tables with their source, while both change or stand still.

A table of the lake is as the source was at the end of a batch, and the source is read at a later
position. Keys that differ are looked up in the log between the two; what still differs is real.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain
from threading import Lock

import polars as pl
import pyarrow as pa

from headwater.catalog.table.table import Table
from headwater.cdc.kafka.positions import TopicPosition
from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.log_rows import LogRows
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import BatchPlan, PipelineState, TablePhase, TableState
from headwater.cdc.pipeline.targets import Targets
from headwater.cdc.service.compared_ranges import (
    PIECE_KEYS,
    SHOWN_KEYS,
    RangeComparison,
    compare_ranges,
    key_pieces,
    new_comparison,
)
from headwater.cdc.service.sources import Address, SourceKind, open_source, source_kind
from headwater.cdc.service.topic_comparison import TopicTable, compare_with_topics
from headwater.cdc.sink.appended_rows import APPENDED_KIND, row_weights
from headwater.cdc.sink.multisets import MultisetComparison
from headwater.cdc.sink.row_mapping import RowMapping
from headwater.cdc.source.key_ranges import KeyRange
from headwater.cdc.source.log_batches import LogBatch
from headwater.cdc.source.positions import Position
from headwater.cdc.source.reads import ConsistentRead
from headwater.cdc.source.source import Source
from headwater.client.lake import Lake
from headwater.storage.errors import (
    Conflict,
    HeadwaterError,
    Invalid,
    NotFound,
    Unsupported,
)
from headwater.storage.jobs.executor import Executor
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["TableVerdict", "verify"]

# Tables that tasks compare at once.
_TABLES_AT_ONCE = 4
# A table that changes all the time is looked at again for the keys that differ.
_ATTEMPTS = 5
# Tables that are compared with topics at once; each has files of its own.
_TABLES_OF_TOPICS = 8
_MEMORY_BYTES = 64 << 20
_NO_KEYS = pa.table({"difference": pa.array([], pa.string())})


@dataclass(frozen=True)
class TableVerdict:
    """What the comparison of a table told.

    Attributes:
        table: The source's table.
        source_rows, lake_rows: How many rows each side has.
        differences: The keys that differ, at most 10,000, with a column ``difference``; of a table
            without a key, the rows.
        problem: Why the table could not be compared; None if it was.
    """

    table: TableName
    source_rows: int
    lake_rows: int
    differences: pa.Table
    problem: str | None = None

    @property
    def is_equal(self) -> bool:
        """Whether the lake's table is the source's."""
        return self.problem is None and self.differences.num_rows == 0


def verify(
    lake: Lake, address: Address, settings: PipelineSettings, executor: Executor | None = None
) -> Iterator[TableVerdict]:
    """Compare the tables of a pipeline with their source.

    Args:
        lake: The lake.
        address: The source.
        settings: The pipeline's.
        executor: Runs tasks that compare rows, of some tables at once; None does all the work in
            this process.

    Raises:
        NotFound: The pipeline has no state in the lake.
        Unavailable: The source or the lake is not there.
        Unsupported: The source is Kafka, and its topics do not have all messages, or tasks are to
            be run elsewhere.
    """
    state = PipelineState.open(lake, settings.target, settings.name)
    plan = state.plan()
    if plan is None:
        raise NotFound(
            f"pipeline '{settings.name}' has not run into database {settings.target}; name one "
            "that has: headwater cdc status"
        )
    names = [
        TableName.from_escaped(escaped)
        for escaped in sorted(plan.tables)
        if plan.tables[escaped].phase is not TablePhase.GONE
    ]
    pipeline = _Pipeline(lake, address, settings, state, executor, Lock())
    if source_kind(settings.source) is SourceKind.KAFKA:
        if executor is not None:
            raise Unsupported(
                "the source is Kafka, whose topics are not compared with Spark; leave --spark out"
            )
        with closing(open_source(address, settings)) as source:
            for begin in range(0, len(names), _TABLES_OF_TOPICS):
                part = names[begin : begin + _TABLES_OF_TOPICS]
                yield from _compared_with_topics(pipeline, source, part)
        return
    if executor is None:
        with closing(open_source(address, settings)) as source:
            for name in names:
                yield _Verification(pipeline, source, name).verdict()
        return

    def verdict(name: TableName) -> TableVerdict:
        with closing(open_source(address, settings)) as source:
            return _Verification(pipeline, source, name).verdict()

    with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
        yield from pool.map(verdict, names)


def _compared_with_topics(
    pipeline: _Pipeline, source: Source, names: Sequence[TableName]
) -> Iterator[TableVerdict]:
    """Compare tables with what the messages of topics leave of them."""
    tables: dict[TableName, TopicTable] = {}
    problems: dict[TableName, str] = {}
    for name in names:
        try:
            whole, base, state = _Verification(pipeline, source, name).opened()
        except Conflict as error:
            problems[name] = error.message
            continue
        if state.is_appended:
            problems[name] = (
                f"table {name} has no key and is appended to, so that its rows cannot be compared "
                "with messages; compare the lake with the database behind the connector"
            )
            continue
        assert isinstance(base, TopicPosition)
        tables[name] = TopicTable(whole, base)
    for name, problem in problems.items():
        yield TableVerdict(name, 0, 0, _NO_KEYS, problem)
    for name, result in compare_with_topics(source, pipeline.settings, tables):
        keys = _NO_KEYS if result.keys is None else result.keys
        yield TableVerdict(name, result.source_rows, result.lake_rows, keys, result.problem)


@dataclass(frozen=True)
class _Pipeline:
    """What the comparisons of all tables share.

    Attributes:
        lake, address, settings, executor: See `verify`.
        state: The pipeline's.
        log: Held by who reads the log: a slot has one reader.
    """

    lake: Lake
    address: Address
    settings: PipelineSettings
    state: PipelineState
    executor: Executor | None
    log: Lock


class _Verification:
    """The comparison of one table."""

    def __init__(self, pipeline: _Pipeline, source: Source, name: TableName) -> None:
        self._pipeline, self._source, self._name = pipeline, source, name
        self._settings, self._state = pipeline.settings, pipeline.state
        self._counts = (0, 0)

    def verdict(self) -> TableVerdict:
        """Compare the table, and again the keys that differ."""
        problem, keys, among = "", _NO_KEYS, None
        has_more = False
        for _ in range(_ATTEMPTS):
            try:
                keys = self._differing(among)
            except Conflict as error:
                problem = error.message
                continue
            problem = ""
            if among is None:
                has_more = keys.num_rows >= SHOWN_KEYS
            if keys.num_rows:
                among = keys
            elif has_more:
                # These were changes that the lake did not have yet. Others are to be found.
                among = None
                problem = (
                    f"table {self._name} changes too much; compare again when the pipeline has "
                    "caught up"
                )
            else:
                break
        return TableVerdict(self._name, *self._counts, keys.slice(0, SHOWN_KEYS), problem or None)

    def _differing(self, among: pa.Table | None) -> pa.Table:
        """The keys that differ, among some or all.

        Raises:
            Conflict: The table is being read again, or its columns change.
        """
        whole, base, state = self.opened()
        if state.is_appended:
            with self._pipeline.log:
                return self._differing_rows(whole, base)
        pieces, left = [], [whole]
        if among is not None:
            pieces, left = [among], []
        elif self._pipeline.executor is not None:
            pieces, left = self._compared_by_tasks(self._pipeline.executor, whole, base)
        differing = _NO_KEYS
        with self._source.consistent_read(base) as read:
            read.check(whole.source_table)
            for keys in chain(pieces, *(self._compared(read, part) for part in left)):
                if keys.num_rows:
                    still = self._looked_up(read, whole, keys, base)
                    differing = pa.concat_tables([differing, still], promote_options="default")
                if differing.num_rows >= SHOWN_KEYS:
                    break
        return differing

    def opened(self) -> tuple[RangeComparison, Position, TableState]:
        """The table of the lake, the position that it has, and its state.

        Raises:
            Conflict: The table is being read again, or its columns change.
        """
        plan = self._state.plan()
        assert plan is not None
        state = plan.tables.get(self._name.escaped)
        if state is None or state.phase is not TablePhase.STREAMING:
            phase = "gone" if state is None else f"{state.phase}: {state.reason or _why(state)}"
            raise Conflict(f"table {self._name} cannot be compared yet: {phase}")
        source_table = state.source_table(self._name)
        targets = Targets(self._pipeline.lake, self._settings)
        try:
            table = targets.own(state.target, self._name)
            mapping = targets.mapping(state.target, source_table)
        except (Invalid, NotFound) as error:
            raise Conflict(error.message) from error
        # With the columns that the table has now: a snapshot by its number has those of its time.
        names = [APPENDED_KIND] if state.is_appended else []
        names += (column.name for column in mapping.target.columns)
        scan = table.scan(columns=names, where=mapping.where)
        base = self._base(scan.snapshot, table, plan)
        whole = RangeComparison(
            address=self._pipeline.address,
            settings=self._settings,
            base=str(base),
            source_table=source_table,
            mapping=mapping,
            scan=scan,
            part=KeyRange(),
        )
        return whole, base, state

    def _base(self, latest: Snapshot | None, table: Table, plan: BatchPlan) -> Position:
        """The position that the table has at its latest snapshot."""
        user = self._settings.user(self._name)
        for snapshot in table.snapshots() if latest is not None else ():
            properties = snapshot.properties
            is_seen = latest is not None and snapshot.id <= latest.id
            if is_seen and snapshot.commit_user == user and "cdc.position" in properties:
                if snapshot.commit_identifier >= plan.number:
                    return self._source.parse(properties["cdc.position"])
                break
        return self._source.parse(plan.start or plan.end)

    def _compared_by_tasks(
        self, executor: Executor, whole: RangeComparison, base: Position
    ) -> tuple[list[pa.Table], list[RangeComparison]]:
        """The keys that tasks find to differ, and the ranges in which these are too many."""
        pieces: list[pa.Table] = []
        left: list[RangeComparison] = []
        with self._source.consistent_read(base) as read:
            read.check(whole.source_table)
            ranges = list(whole.ranges(read))
        self._counts = (0, 0)
        for result in compare_ranges(executor, whole, ranges):
            source_rows, lake_rows = self._counts
            self._counts = (source_rows + result.source_rows, lake_rows + result.lake_rows)
            if result.keys is None:
                left.append(replace(whole, part=result.part))
            else:
                pieces.append(result.keys)
        batches = chain.from_iterable(keys.to_batches() for keys in pieces)
        return list(key_pieces(batches, whole.mapping.target, PIECE_KEYS)), left

    def _compared(self, read: ConsistentRead, part: RangeComparison) -> Iterator[pa.Table]:
        """The keys of a range that differ."""
        with new_comparison(part) as comparison:
            result = part.run(comparison, read)
            if self._pipeline.executor is None:
                self._counts = (result.source_rows, result.lake_rows)
            yield from key_pieces(result.batches(), part.mapping.target, PIECE_KEYS)

    def _differing_rows(self, whole: RangeComparison, base: Position) -> pa.Table:
        """The rows of a table without a key that both sides do not have equally often.

        Raises:
            Conflict: The table changes too fast to be read, or in a way that was not followed yet.
        """
        schema, mapping = whole.schema, whole.mapping
        memory, bad_dates = self._settings.memory_bytes, self._settings.bad_dates
        log = self._source.open_log(base, memory, lambda name: name == self._name)
        with closing(log) as reader, ExitStack() as stack:
            reader.follow({self._name: mapping.source.id})
            batch = reader.read_until(self._source.position())
            self._check_followed(batch)
            read = stack.enter_context(self._source.exact_read(reader, batch, whole.source_table))
            self._check_followed(batch)
            comparison = stack.enter_context(MultisetComparison(schema, memory_bytes=_MEMORY_BYTES))
            for rows in whole.scan.to_batches():
                weights = row_weights(rows.column(APPENDED_KIND))
                comparison.add_lake(rows.select(schema.names), weights)
            for rows in self._decoded(mapping, batch):
                weights = row_weights(rows.column(ROW_KIND_COLUMN))
                comparison.add_lake(rows.select(schema.names), weights)
            for rows in read.rows(mapping.source, KeyRange(), bad_dates):
                comparison.add_source(mapping.rows(rows))
            result = comparison.differences()
            self._counts = (result.source_rows, result.lake_rows)
            return next(key_pieces(result.batches(), mapping.target, SHOWN_KEYS))

    def _looked_up(
        self, read: ConsistentRead, whole: RangeComparison, keys: pa.Table, base: Position
    ) -> pa.Table:
        """Those of the keys that differ from what the log makes of the lake's rows."""
        schema, mapping, settled = whole.schema, whole.mapping, read.settled()
        names = list(mapping.target.primary_key)
        wanted = pl.DataFrame(keys.select(names))
        rows: list[pl.DataFrame] = []
        for batch in whole.scan.to_batches():
            frame = pl.DataFrame(pa.table(batch.cast(schema)))
            rows.append(frame.join(wanted, on=names, how="semi"))
        kept = pl.concat(rows) if rows else pl.DataFrame(schema.empty_table())
        kept = kept.with_columns(pl.lit(0, pl.Int8).alias(ROW_KIND_COLUMN))
        if not base.contains(settled):
            # One row of the log does not mend a key that the lake has several times.
            doubled = kept.filter(kept.select(names).is_duplicated()).select(names)
            parts = [kept.clear()]
            with self._pipeline.log:
                for batch in self._logged(mapping, base, settled):
                    frame = pl.DataFrame(pa.table(batch))
                    frame = frame.join(doubled, on=names, how="anti", maintain_order="left")
                    parts.append(frame.join(wanted, on=names, how="semi", maintain_order="left"))
            changed = pl.concat(parts).unique(names, keep="last", maintain_order=True)
            kept = pl.concat([kept.join(changed, on=names, how="anti"), changed])
        kept = kept.filter(pl.col(ROW_KIND_COLUMN).is_in([0, 2])).drop(ROW_KIND_COLUMN)
        with new_comparison(whole) as comparison:
            comparison.add_lake(kept.to_arrow().cast(schema).to_batches())
            key = list(mapping.source.primary_key)
            source_keys = wanted.select(key).unique().to_arrow().cast(keys.select(key).schema)
            source_rows = read.rows_of_keys(mapping.source, source_keys, self._settings.bad_dates)
            for batch in map(mapping.rows, source_rows):
                # Its row may have another key in the lake by now, which is not looked up.
                frame = pl.DataFrame(pa.table(batch)).join(wanted, on=names, how="semi")
                comparison.add_source(frame.to_arrow().cast(schema).to_batches())
            return next(key_pieces(comparison.differences().batches(), mapping.target, SHOWN_KEYS))

    def _logged(
        self, mapping: RowMapping, base: Position, settled: Position
    ) -> Iterator[pa.RecordBatch]:
        """The table's rows in the log between two positions.

        Raises:
            Conflict: A statement about the table is between them.
        """
        memory = self._settings.memory_bytes
        log = self._source.open_log(base, memory, lambda name: name == self._name)
        with closing(log) as reader:
            reader.follow({self._name: mapping.source.id})
            batch = reader.read_until(settled)
            self._check_followed(batch)
            yield from self._decoded(mapping, batch)

    def _check_followed(self, batch: LogBatch) -> None:
        """Check that a batch has rows of the table only, which the lake's can be brought to."""
        if batch.changes or batch.rereads or batch.xa or batch.faults:
            raise Conflict(
                f"table {self._name} changed at the source in a way that the pipeline has not "
                "followed yet; run the pipeline and compare again"
            )

    def _decoded(self, mapping: RowMapping, batch: LogBatch) -> Iterator[pa.RecordBatch]:
        """The table's rows in a batch; Conflict if the log does not have them."""
        runs = batch.rows.get(self._name, ())
        log_rows = LogRows(
            mapping.source,
            runs,
            self._settings.bad_dates,
            keeps_before=True,
            identity=mapping.identity,
        )
        try:
            log_rows.check()
            yield from map(mapping.rows, log_rows.batches())
        except HeadwaterError as error:
            raise Conflict(error.message) from error
        if log_rows.unclear_keys:
            raise Conflict(
                f"table {self._name}: a session wrote parts of rows only, which the pipeline "
                "has not read yet; run the pipeline and compare again"
            )


def _why(state: TableState) -> str:
    """Why a table without a reason cannot be compared."""
    if state.backlog is None:
        return "not all read"
    return f"its rows are those of '{state.backlog.after}'"
