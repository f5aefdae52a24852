"""Comparison of a source's rows with the lake's where no key tells rows apart, in bounded memory.

Both sides have the same rows if they have each row equally often. A row is known by a digest of 128
bits of all its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.sink.divided_rows import DividedRows, read_batches

__all__ = ["MultisetComparison", "MultisetDifferences", "RowDifference"]

DEFAULT_MEMORY_BYTES = 256 << 20

_DIGEST_SEEDS = {"digest 1": 1, "digest 2": 2}
_DIGESTS = list(_DIGEST_SEEDS)
_SOURCE, _LAKE, _ROW = "in source", "in lake", "row"
_COUNTS = [_SOURCE, _LAKE]
# Rows are copied as they are gathered, and grouping needs several times their bytes.
_COPIES = 8


class RowDifference(StrEnum):
    """How often the sides have a row."""

    FEWER = "fewer in the lake than in the source"
    MORE = "more in the lake than in the source"


@dataclass(frozen=True)
class MultisetDifferences:
    """The result of a comparison.

    Attributes:
        source_rows: How many rows the source has.
        lake_rows: How many rows the lake has, without those that were taken back.
        counts: How many distinct rows have each difference; those that no row has are left out.
    """

    source_rows: int
    lake_rows: int
    counts: Mapping[RowDifference, int]
    _file: Path

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the distinct rows that differ, while the comparison is open.

        Yields:
            The columns and, as the last one, ``difference``; in no order.
        """
        if self.counts:
            yield from read_batches(self._file)


class MultisetComparison:
    """A comparison of two multisets of rows, each of which is read once and in any order.

    Values are equal as `headwater.cdc.sink.comparison.Comparison` has it.

    Args:
        schema: The columns of both sides.
        memory_bytes: How much memory the comparison takes at most, beside the batches that are
            added.
        directory: Where files are kept until it is closed; None takes the system's directory.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        directory: str | None = None,
    ) -> None:
        self._schema = schema
        # The columns' own names may be any.
        self._names = [str(number) for number in range(len(schema))]
        self._folder = TemporaryDirectory(prefix="headwater-comparison-", dir=directory)
        folder = Path(self._folder.name)
        self._rows = DividedRows(folder / "rows", _DIGESTS, memory_bytes // _COPIES)
        self._source_rows = self._lake_rows = 0

    def __enter__(self) -> MultisetComparison:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()
        self._folder.cleanup()

    def add_source(self, batch: pa.RecordBatch) -> None:
        """Add rows of the source, with the columns of the schema in its order."""
        self._source_rows += batch.num_rows
        self._add(batch, _SOURCE, pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows))

    def add_lake(self, batch: pa.RecordBatch, weights: pa.Array) -> None:
        """Add rows of the lake.

        Args:
            batch: The rows, with the columns of the schema in its order.
            weights: What each adds to the number of equal rows: 1, or -1 if it takes one back.
        """
        self._lake_rows += pc.sum(weights).as_py() or 0
        self._add(batch, _LAKE, weights)

    def differences(self) -> MultisetDifferences:
        """Compare the rows that were added; none may be added from then on."""
        file = Path(self._folder.name, "differences")
        difference = pa.field("difference", pa.string(), nullable=False)
        schema = self._schema.append(difference)
        counts: dict[RowDifference, int] = {}
        with pa.ipc.new_stream(str(file), schema) as writer:
            for part in self._rows.parts():
                rows = _grouped(part)
                for kind, differs in (
                    (RowDifference.FEWER, pc.less(rows[_LAKE], rows[_SOURCE])),
                    (RowDifference.MORE, pc.greater(rows[_LAKE], rows[_SOURCE])),
                ):
                    chosen = rows.filter(differs).select(self._names)
                    if not chosen.num_rows:
                        continue
                    counts[kind] = counts.get(kind, 0) + chosen.num_rows
                    kinds = pa.repeat(pa.scalar(str(kind), pa.string()), chosen.num_rows)
                    writer.write_table(pa.table([*chosen.columns, kinds], schema=schema))
        return MultisetDifferences(self._source_rows, self._lake_rows, counts, file)

    def _add(self, batch: pa.RecordBatch, side: str, weights: pa.Array) -> None:
        if not batch.num_rows:
            return
        columns = batch.cast(self._schema).columns
        frame = pl.DataFrame(pa.table(columns, self._names))
        digests = [frame.hash_rows(seed=seed).to_arrow() for seed in _DIGEST_SEEDS.values()]
        none = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        counts = [weights if side == name else none for name in _COUNTS]
        rows = pa.table([*digests, *counts, *columns], [*_DIGESTS, *_COUNTS, *self._names])
        # A table may have very many equal rows.
        self._rows.add(_grouped(rows))


def _grouped(rows: pa.Table) -> pa.Table:
    """The distinct rows, each with how often both sides have it."""
    frame = pl.DataFrame(rows.select([*_DIGESTS, *_COUNTS])).with_row_index(_ROW)
    groups = frame.group_by(_DIGESTS).agg(
        pl.col(_ROW).first(), *(pl.col(name).sum() for name in _COUNTS)
    )
    distinct = rows.take(groups.get_column(_ROW).to_arrow())
    for name in _COUNTS:
        at = distinct.column_names.index(name)
        distinct = distinct.set_column(at, name, groups.get_column(name).to_arrow())
    return distinct
