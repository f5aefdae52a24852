"""The comparison of followed tables with what the messages of their topics leave.

The topics are read from their beginnings up to the position that each table of the lake has, and
what the messages of a key leave is compared with its row. A compacted topic may lack messages of
keys that come again behind that position: such keys are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.ddl import Truncate
from headwater.cdc.kafka.positions import TopicPosition
from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.log_rows import LogRows
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.service.compared_ranges import (
    PIECE_KEYS,
    SHOWN_KEYS,
    RangeComparison,
    key_pieces,
    new_comparison,
)
from headwater.cdc.sink.comparison import Difference
from headwater.cdc.sink.folded_rows import FoldedRows
from headwater.cdc.source.log_batches import LogBatch
from headwater.cdc.source.source import Source
from headwater.storage.errors import HeadwaterError

__all__ = ["TopicDifferences", "TopicTable", "compare_with_topics"]

_MEMORY_BYTES = 128 << 20
_MIN_MEMORY_BYTES = 4 << 20


@dataclass(frozen=True)
class TopicTable:
    """A table of the lake that is compared.

    Attributes:
        whole: The table, and how rows of messages become its rows.
        base: The position that it has.
    """

    whole: RangeComparison
    base: TopicPosition


@dataclass(frozen=True)
class TopicDifferences:
    """What the comparison of a table told.

    Attributes:
        source_rows, lake_rows: How many rows the messages leave, and how many the lake has.
        keys: The keys that differ, see `key_pieces`.
        problem: Why it could not be compared; None if it was.
    """

    source_rows: int
    lake_rows: int
    keys: pa.Table | None
    problem: str | None = None


def compare_with_topics(
    source: Source, settings: PipelineSettings, tables: Mapping[TableName, TopicTable]
) -> Iterator[tuple[TableName, TopicDifferences]]:
    """Compare tables with what the messages of their topics leave.

    The topics are read once for all of these tables.

    Args:
        source: The topics.
        settings: The pipeline's.
        tables: The tables.

    Raises:
        Conflict, NotFound: The topics are not those that were read.
        Unsupported: The topics do not have all messages any more, or the pipeline did not begin
            with the first.
    """
    with _Topics(source, settings, tables) as topics:
        topics.read()
        for name in tables:
            yield name, topics.compared(name)


class _Topics:
    """The rows that messages leave of some tables."""

    def __init__(
        self, source: Source, settings: PipelineSettings, tables: Mapping[TableName, TopicTable]
    ) -> None:
        from headwater.cdc.kafka.source import KafkaSource

        assert isinstance(source, KafkaSource)
        self._source, self._settings, self._tables = source, settings, tables
        self._problems: dict[TableName, str] = {}
        memory = max(_MEMORY_BYTES // max(len(tables), 1), _MIN_MEMORY_BYTES)
        self._folded = {
            name: FoldedRows(table.whole.mapping.target.primary_key, memory)
            for name, table in tables.items()
        }
        self._stack = ExitStack()

    def __enter__(self) -> _Topics:
        for folded in self._folded.values():
            self._stack.enter_context(folded)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self) -> None:
        """Read the messages up to the position of each table."""
        bases = {str(table.base): table.base for table in self._tables.values()}
        # Positions of one pipeline follow each other.
        stops = sorted(bases.values(), key=lambda base: sum(base.partitions().values()))
        if not stops:
            return
        position = beginning = self._source.beginning(
            stops[-1],
            "tables cannot be compared",
            "compare the lake with the database behind the connector",
        )
        for stop in stops:
            names = [name for name, table in self._tables.items() if table.base.contains(stop)]
            for batch in self._batches(position, stop, names):
                self._fold(batch)
            position = beginning.moved(stop.partitions())

    def _batches(
        self, start: TopicPosition, stop: TopicPosition, names: list[TableName]
    ) -> Iterator[LogBatch]:
        """Batches between two positions, with rows of some tables."""
        wanted = frozenset(names)
        reader = self._source.open_log(
            start, self._settings.memory_bytes, lambda name: name in wanted
        )
        with closing(reader):
            reader.follow(
                dict.fromkeys(names), lambda name: self._tables[name].whole.mapping.source
            )
            yield from reader.batches_until(stop)

    def _fold(self, batch: LogBatch) -> None:
        for change in batch.changes:
            if isinstance(change, Truncate):
                for name in change.tables:
                    self._folded[name].clear()
        self._problems |= batch.faults
        for name in batch.rows.keys() - self._problems.keys():
            try:
                for rows in self._decoded(name, batch):
                    self._folded[name].add(rows)
            except HeadwaterError as error:
                self._problems[name] = error.message

    def _decoded(self, name: TableName, batch: LogBatch) -> Iterator[pa.RecordBatch]:
        """The changes of a table in a batch, as rows of the lake."""
        mapping = self._tables[name].whole.mapping
        log_rows = LogRows(
            mapping.source,
            batch.rows[name],
            self._settings.bad_dates,
            keeps_before=True,
            identity=mapping.identity,
        )
        log_rows.check()
        yield from map(mapping.rows, log_rows.batches())

    def compared(self, name: TableName) -> TopicDifferences:
        """Compare a table."""
        if name in self._problems:
            return TopicDifferences(0, 0, None, self._problems[name])
        table = self._tables[name]
        whole = table.whole
        is_compacted = self._source.has_compacted(table.base)
        with new_comparison(whole) as comparison:
            comparison.add_lake(batch.cast(whole.schema) for batch in whole.rows.to_batches())
            comparison.add_source(self._folded[name].rows())
            result = comparison.differences()
            differing: list[pa.Table] = []
            for piece in key_pieces(result.batches(), whole.mapping.target, PIECE_KEYS):
                keys = piece
                if is_compacted and piece.num_rows:
                    # No message behind the table's position lets it have a key twice.
                    is_doubled = pc.equal(piece["difference"], str(Difference.DUPLICATE_IN_LAKE))
                    others = piece.filter(pc.invert(is_doubled))
                    keys = self._unchanged(name, others) if others.num_rows else others
                    keys = pa.concat_tables([piece.filter(is_doubled), keys])
                differing.append(keys)
                if sum(part.num_rows for part in differing) >= SHOWN_KEYS:
                    break
            keys = pa.concat_tables(differing).slice(0, SHOWN_KEYS)
            return TopicDifferences(result.source_rows, result.lake_rows, keys)

    def _unchanged(self, name: TableName, keys: pa.Table) -> pa.Table:
        """Those of some keys that no message behind the table's position has."""
        table = self._tables[name]
        names = list(table.whole.mapping.target.primary_key)
        left = pl.DataFrame(keys)
        end = self._source.position()
        # Topics that appeared since have messages that are behind it, too.
        known = table.base.topics.keys()
        end = TopicPosition(end.cluster, {at: end.topics[at] for at in known & end.topics.keys()})
        for batch in self._batches(table.base, end, [name]):
            if any(isinstance(change, Truncate) for change in batch.changes):
                return keys.slice(0, 0)
            for rows in self._decoded(name, batch) if name in batch.rows else ():
                changed = pl.DataFrame(pa.table(rows)).select(names)
                left = left.join(changed, on=names, how="anti", maintain_order="left")
        return left.to_arrow().cast(keys.schema)
