"""Rows of a table as a Polars lazy frame, whose columns and filters reach the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from headwater.storage.predicate.polars_form import from_polars
from headwater.storage.predicate.tree import And, Predicate
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.table_storage import TableStorage

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Narrowable", "frame_of", "lazy_frame"]

_BATCH_ROWS = 65536


class Narrowable(Protocol):
    """Rows that can be read again, with fewer columns and by a narrower predicate."""

    schema: pa.Schema
    storage: TableStorage
    predicate: Predicate | None

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> Narrowable:
        """The same, with these columns and by this predicate."""
        ...

    def to_batches(self, *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows in batches of about so many rows."""
        ...


def frame_of(rows: pa.Table) -> pl.DataFrame:
    """Arrow rows as a Polars frame."""
    # Here, as programs without Polars need not wait for it.
    import polars as pl

    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def lazy_frame(rows: Narrowable) -> pl.LazyFrame:
    """Rows as a lazy frame, which reads them each time it is collected.

    Polars says which columns a query needs and what it filters by: only these columns are read, and
    only files that may hold such rows. What the filter says is left to Polars in the end.
    """
    from polars.io.plugins import register_io_source

    empty = frame_of(rows.schema.empty_table())
    types = dict(zip(empty.columns, empty.dtypes, strict=True))

    def source(
        columns: list[str] | None,
        filtered_by: pl.Expr | None,
        row_limit: int | None,
        batch_rows: int | None,
    ) -> Iterator[pl.DataFrame]:
        wanted = rows.schema.names if columns is None else columns
        asked = [] if filtered_by is None else filtered_by.meta.root_names()
        read = [name for name in dict.fromkeys([*wanted, *asked]) if name != ROW_KIND_COLUMN]
        pushed = None
        # Polars counts up to the limit before it filters.
        if filtered_by is not None and row_limit is None:
            pushed = from_polars(filtered_by, rows.storage.schema, types)
        predicates = tuple(part for part in (rows.predicate, pushed) if part is not None)
        narrowed = rows.narrowed(read, And(predicates) if predicates else None)
        left = row_limit
        for batch in narrowed.to_batches(batch_rows=batch_rows or _BATCH_ROWS):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            frame = frame_of(pa.Table.from_batches([batch]))
            if filtered_by is not None:
                frame = frame.filter(filtered_by)
            yield frame.select(wanted)
            if left == 0:
                return

    return register_io_source(
        source, schema=empty.schema, is_pure=True, explain_name=rows.storage.name
    )
