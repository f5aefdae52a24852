"""The comparison of followed tables with their source, while both change or stand still.

A table of the lake is as the source was at the end of a batch, and the source is read at a later
position. Keys that differ are looked up in the log between the two; what still differs is real.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from headwater.catalog.table.scan import Scan
from headwater.catalog.table.table import Table
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.pipeline.log_rows import LogRows
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import BatchPlan, PipelineState, TablePhase, TableState
from headwater.cdc.pipeline.targets import Targets
from headwater.cdc.service.sources import Address, open_source
from headwater.cdc.sink.appended_rows import APPENDED_KIND, row_weights
from headwater.cdc.sink.comparison import Comparison
from headwater.cdc.sink.multisets import MultisetComparison
from headwater.cdc.sink.row_mapping import RowMapping, row_schema
from headwater.cdc.source.key_ranges import KeyRange
from headwater.cdc.source.log_batches import LogBatch
from headwater.cdc.source.positions import Position
from headwater.cdc.source.reads import ConsistentRead
from headwater.cdc.source.source import Source
from headwater.client.lake import Lake
from headwater.storage.errors import Conflict, HeadwaterError, Invalid, NotFound
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.data_type import to_arrow

__all__ = ["TableVerdict", "verify"]

_SHOWN_KEYS = 10_000
# A table that changes all the time is looked at again for the keys that differ.
_ATTEMPTS = 5
_MEMORY_BYTES = 64 << 20


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


def verify(lake: Lake, address: Address, settings: PipelineSettings) -> Iterator[TableVerdict]:
    """Compare the tables of a pipeline with their source.

    Args:
        lake: The lake.
        address: The source.
        settings: The pipeline's.

    Raises:
        NotFound: The pipeline has no state in the lake.
        Unavailable: The source or the lake is not there.
    """
    state = PipelineState.open(lake, settings.target, settings.name)
    plan = state.plan()
    if plan is None:
        raise NotFound(
            f"pipeline '{settings.name}' has not run into database {settings.target}; name one "
            "that has: headwater cdc status"
        )
    with closing(open_source(address, settings)) as source:
        for escaped in sorted(plan.tables):
            name = TableName.from_escaped(escaped)
            if plan.tables[escaped].phase is not TablePhase.GONE:
                yield _Verification(lake, source, settings, state, name).verdict()


class _Verification:
    """The comparison of one table."""

    def __init__(
        self,
        lake: Lake,
        source: Source,
        settings: PipelineSettings,
        state: PipelineState,
        name: TableName,
    ) -> None:
        self._lake, self._source, self._settings = lake, source, settings
        self._state, self._name = state, name
        self._counts = (0, 0)

    def verdict(self) -> TableVerdict:
        """Compare the table, and again the keys that differ."""
        problem, keys = "", pa.table({"difference": pa.array([], pa.string())})
        is_compared = False
        for _ in range(_ATTEMPTS):
            try:
                keys = self._differing(keys if is_compared else None)
            except Conflict as error:
                problem = error.message
                continue
            is_compared, problem = True, ""
            if not keys.num_rows:
                break
        return TableVerdict(self._name, *self._counts, keys.slice(0, _SHOWN_KEYS), problem or None)

    def _differing(self, among: pa.Table | None) -> pa.Table:
        """The keys that differ, among some or all.

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
        targets = Targets(self._lake, self._settings)
        try:
            mapping = targets.mapping(state.target, source_table)
        except Invalid as error:
            raise Conflict(error.message) from error
        table = targets.open(state.target)
        # With the columns that the table has now: a snapshot by its number has those of its time.
        kinds = [APPENDED_KIND] if state.is_appended else []
        scan = table.scan(columns=[*kinds, *_schema(mapping).names], where=mapping.where)
        base = self._base(scan.snapshot, table, plan)
        if state.is_appended:
            return self._differing_rows(source_table, mapping, scan, base)
        with self._source.consistent_read(base) as read:
            read.check(source_table)
            keys = among
            if keys is None:
                keys = self._all(read, scan, mapping)
            if not keys.num_rows:
                return keys
            settled = read.settled()
            return self._looked_up(read, scan, mapping, keys, base, settled)

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

    def _all(self, read: ConsistentRead, scan: Scan, mapping: RowMapping) -> pa.Table:
        schema = _schema(mapping)
        with self._comparison(mapping, schema) as comparison:
            comparison.add_lake(batch.cast(schema) for batch in scan.to_batches())
            bad_dates = self._settings.bad_dates
            rows = read.rows(mapping.source, KeyRange(), bad_dates)
            comparison.add_source(map(mapping.rows, rows))
            result = comparison.differences()
            self._counts = (result.source_rows, result.lake_rows)
            return _collected(result.batches(), mapping.target)

    def _differing_rows(
        self, source_table: SourceTable, mapping: RowMapping, scan: Scan, base: Position
    ) -> pa.Table:
        """The rows of a table without a key that both sides do not have equally often.

        Raises:
            Conflict: The table changes too fast to be read, or in a way that was not followed yet.
        """
        schema = _schema(mapping)
        memory, bad_dates = self._settings.memory_bytes, self._settings.bad_dates
        log = self._source.open_log(base, memory, lambda name: name == self._name)
        with closing(log) as reader, ExitStack() as stack:
            reader.follow({self._name: mapping.source.id})
            batch = reader.read_until(self._source.position())
            self._check_followed(batch)
            read = stack.enter_context(self._source.exact_read(reader, batch, source_table))
            self._check_followed(batch)
            comparison = stack.enter_context(MultisetComparison(schema, memory_bytes=_MEMORY_BYTES))
            for rows in scan.to_batches():
                weights = row_weights(rows.column(APPENDED_KIND))
                comparison.add_lake(rows.select(schema.names), weights)
            for rows in self._decoded(mapping, batch):
                weights = row_weights(rows.column(ROW_KIND_COLUMN))
                comparison.add_lake(rows.select(schema.names), weights)
            for rows in read.rows(mapping.source, KeyRange(), bad_dates):
                comparison.add_source(mapping.rows(rows))
            result = comparison.differences()
            self._counts = (result.source_rows, result.lake_rows)
            return _collected(result.batches(), mapping.target)

    def _looked_up(
        self,
        read: ConsistentRead,
        scan: Scan,
        mapping: RowMapping,
        keys: pa.Table,
        base: Position,
        settled: Position,
    ) -> pa.Table:
        """Those of the keys that differ from what the log makes of the lake's rows."""
        schema = _schema(mapping)
        names = list(mapping.target.primary_key)
        wanted = pl.DataFrame(keys.select(names))
        rows: list[pl.DataFrame] = []
        for batch in scan.to_batches():
            frame = pl.DataFrame(pa.table(batch.cast(schema)))
            rows.append(frame.join(wanted, on=names, how="semi"))
        kept = pl.concat(rows) if rows else pl.DataFrame(schema.empty_table())
        kept = kept.with_columns(pl.lit(0, pl.Int8).alias(ROW_KIND_COLUMN))
        if not base.contains(settled):
            parts = [kept]
            for batch in self._logged(mapping, base, settled):
                frame = pl.DataFrame(pa.table(batch))
                parts.append(frame.join(wanted, on=names, how="semi", maintain_order="left"))
            kept = pl.concat(parts).unique(names, keep="last", maintain_order=True)
        kept = kept.filter(pl.col(ROW_KIND_COLUMN).is_in([0, 2])).drop(ROW_KIND_COLUMN)
        with self._comparison(mapping, schema) as comparison:
            comparison.add_lake(kept.to_arrow().cast(schema).to_batches())
            key = list(mapping.source.primary_key)
            source_keys = wanted.select(key).unique().to_arrow().cast(keys.select(key).schema)
            source_rows = read.rows_of_keys(mapping.source, source_keys, self._settings.bad_dates)
            for batch in map(mapping.rows, source_rows):
                # Its row may have another key in the lake by now, which is not looked up.
                frame = pl.DataFrame(pa.table(batch)).join(wanted, on=names, how="semi")
                comparison.add_source(frame.to_arrow().cast(schema).to_batches())
            return _collected(comparison.differences().batches(), mapping.target)

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

    def _comparison(self, mapping: RowMapping, schema: pa.Schema) -> Comparison:
        return Comparison(list(mapping.target.primary_key), schema, memory_bytes=_MEMORY_BYTES)


def _why(state: TableState) -> str:
    """Why a table without a reason cannot be compared."""
    if state.backlog is None:
        return "not all read"
    return f"its rows are those of '{state.backlog.after}'"


def _schema(mapping: RowMapping) -> pa.Schema:
    return row_schema(mapping.target).remove(len(mapping.target.columns))


def _collected(batches: Iterator[pa.RecordBatch], table: SourceTable) -> pa.Table:
    """The keys that differ, or rows without a key, so many as are shown at most."""
    kept: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        kept.append(batch)
        count += batch.num_rows
        if count >= _SHOWN_KEYS:
            break
    columns = {column.name: column for column in table.columns}
    names = table.primary_key or list(columns)
    fields = [(name, to_arrow(columns[name].type)) for name in names]
    schema = pa.schema([*fields, ("difference", pa.string())])
    return pa.Table.from_batches([batch.cast(schema) for batch in kept], schema).slice(
        0, _SHOWN_KEYS
    )
