"""The comparison of a table's rows with the source's, by ranges of its key that tasks compare.

Each key is in one range, and is compared by one task: rows of one snapshot of the lake with those
of the source at a position of the task's own, which is not before the snapshot's. Keys that differ
have to be looked up in the log between both, wherever they were compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.catalog.table.scan import Scan
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.service.sources import Address, open_source
from headwater.cdc.sink.comparison import Comparison, Differences
from headwater.cdc.sink.row_mapping import RowMapping, row_schema
from headwater.cdc.source.key_ranges import Bound, KeyRange
from headwater.cdc.source.reads import ConsistentRead
from headwater.storage.jobs.executor import Executor
from headwater.storage.predicate.tree import And, Operator, Predicate
from headwater.storage.predicate.tree import Comparison as Condition
from headwater.storage.types.data_type import to_arrow

__all__ = [
    "PIECE_KEYS",
    "SHOWN_KEYS",
    "ComparedRange",
    "RangeComparison",
    "compare_ranges",
    "key_pieces",
    "new_comparison",
]

SHOWN_KEYS = 10_000
"""How many of the keys that differ a comparison tells."""

PIECE_KEYS = 100_000
"""How many of the keys that differ are looked up in the log at once."""

_MEMORY_BYTES = 64 << 20
# More keys that differ are not sent, but found again by who wants them.
_MAX_KEYS = 10_000
# The results of so many ranges are in memory at once.
_RANGES_AT_ONCE = 64


@dataclass(frozen=True)
class RangeComparison:
    """A task: the comparison of a range. It pickles without a connection to the catalog.

    Attributes:
        address: The source.
        settings: The pipeline's.
        base: The position of the lake's rows.
        source_table: The table as the source has it.
        mapping: How its rows become rows of the lake.
        scan: All rows of the lake.
        part: The range.
    """

    address: Address
    settings: PipelineSettings
    base: str
    source_table: SourceTable
    mapping: RowMapping
    scan: Scan
    part: KeyRange

    @property
    def schema(self) -> pa.Schema:
        """The columns of both sides."""
        target = self.mapping.target
        return row_schema(target).remove(len(target.columns))

    @property
    def rows(self) -> Scan:
        """The lake's rows of the range."""
        bounds: Sequence[tuple[Operator, Bound | None]]
        bounds = (">", self.part.after), ("<=", self.part.until)
        conditions: list[Predicate] = [
            Condition(self.mapping.target.primary_key[0], sign, int(bound[0]))
            for sign, bound in bounds
            if bound is not None
        ]
        if not conditions:
            return self.scan
        if self.scan.predicate is not None:
            conditions.append(self.scan.predicate)
        return self.scan.narrowed(self.scan.columns, And(tuple(conditions)))

    def ranges(self, read: ConsistentRead) -> Iterator[KeyRange]:
        """The ranges of the table that both sides can read.

        That takes a key of one column of integers, which the source and the lake put in the same
        order; another table is one range.
        """
        key = self.source_table.primary_key
        types = [
            to_arrow(column.type)
            for table in (self.source_table, self.mapping.source, self.mapping.target)
            for column in table.columns
            if column.name in key
        ]
        is_divisible = len(key) == 1 and list(key) == list(self.mapping.target.primary_key)
        if not is_divisible or not all(map(pa.types.is_integer, types)):
            return iter([KeyRange()])
        return read.key_ranges(self.source_table, self.settings.task_rows)

    def run(self, comparison: Comparison, read: ConsistentRead) -> Differences:
        """Compare the range with what a read of the source sees."""
        comparison.add_lake(batch.cast(self.schema) for batch in self.rows.to_batches())
        bad_dates = self.settings.bad_dates
        rows = read.rows(self.mapping.source, self.part, bad_dates)
        comparison.add_source(map(self.mapping.rows, rows))
        return comparison.differences()


@dataclass(frozen=True)
class ComparedRange:
    """The result of a task.

    Attributes:
        part: The range.
        source_rows, lake_rows: How many rows each side has.
        keys: The keys that differ; None if they are more than a result has.
    """

    part: KeyRange
    source_rows: int
    lake_rows: int
    keys: pa.Table | None


def compare_ranges(
    executor: Executor, table: RangeComparison, ranges: Sequence[KeyRange]
) -> Iterator[ComparedRange]:
    """Compare ranges by an executor's tasks.

    Args:
        executor: Runs the tasks.
        table: The comparison of the table.
        ranges: Its ranges.

    Raises:
        Conflict: The table has other columns.
        Unavailable: The source or the lake cannot be reached.
    """
    for begin in range(0, len(ranges), _RANGES_AT_ONCE):
        parts = ranges[begin : begin + _RANGES_AT_ONCE]
        yield from executor.run(_compared, [replace(table, part=part) for part in parts])


def new_comparison(table: RangeComparison) -> Comparison:
    """A comparison of the table's rows."""
    key = list(table.mapping.target.primary_key)
    return Comparison(key, table.schema, memory_bytes=_MEMORY_BYTES)


def key_pieces(
    batches: Iterable[pa.RecordBatch], table: SourceTable, rows: int
) -> Iterator[pa.Table]:
    """Keys that differ, or rows of a table without a key, in pieces of so many rows.

    The last piece has what is left. Without rows there is an empty one.
    """
    columns = {column.name: column for column in table.columns}
    fields = [(name, to_arrow(columns[name].type)) for name in table.primary_key or columns]
    schema = pa.schema([*fields, ("difference", pa.string())])
    gathered, count, is_first = list[pa.RecordBatch](), 0, True
    for batch in batches:
        begin = 0
        while begin < batch.num_rows:
            part = batch.slice(begin, rows - count).cast(schema)
            gathered.append(part)
            begin, count = begin + part.num_rows, count + part.num_rows
            if count == rows:
                yield pa.Table.from_batches(gathered, schema)
                gathered, count, is_first = [], 0, False
    if gathered or is_first:
        yield pa.Table.from_batches(gathered, schema)


def _compared(task: RangeComparison) -> ComparedRange:
    """Compare a range; the work of a task."""
    with (
        closing(open_source(task.address, task.settings)) as source,
        source.consistent_read(source.parse(task.base)) as read,
        new_comparison(task) as comparison,
    ):
        read.check(task.source_table)
        differences = task.run(comparison, read)
        keys = None
        if sum(differences.counts.values()) <= _MAX_KEYS:
            (keys,) = key_pieces(differences.batches(), task.mapping.target, _MAX_KEYS)
        return ComparedRange(task.part, differences.source_rows, differences.lake_rows, keys)
