"""Rows of a table as a Polars lazy frame, whose columns and filters reach the files.

Polars passes a resolver the filters as expressions. It serialises them for a plain Python source,
which fails where they call functions that cannot be pickled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source
from polars.lazyframe.resolver import FilterExpr, LazyFrameResolver, ResolvedLazyFrameProps

from headwater.storage.predicate.polars_form import from_polars
from headwater.storage.predicate.tree import And, Predicate
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.table_storage import TableStorage

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
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def lazy_frame(rows: Narrowable) -> pl.LazyFrame:
    """Rows as a lazy frame, which reads them each time it is collected.

    Polars reports which columns a query needs and what it filters by: only these columns are read,
    and only files that may hold such rows. Polars evaluates the filters on the rows that are read,
    so they may call Python functions.
    """
    return _Resolver(rows).lazy()


class _Resolver(LazyFrameResolver):
    """A lazy frame's scan of rows that can be narrowed."""

    def __init__(self, rows: Narrowable) -> None:
        self._rows = rows
        self._schema = frame_of(rows.schema.empty_table()).schema

    def schema(self) -> dict[str, pl.DataType]:
        """The columns' types."""
        return dict(self._schema)

    def cse_eq(self, other: object) -> bool:
        """Whether a query may read the rows once for both scans."""
        return isinstance(other, _Resolver) and other._rows is self._rows

    def resolve_lazyframe(
        self,
        *,
        projection: list[str] | None,
        limit: int | None,
        filters: list[FilterExpr],
        filter_columns: list[str],
        filter_drop_columns_idx: int | None,
        existing_resolved_version_key: str | None,
    ) -> tuple[pl.LazyFrame, ResolvedLazyFrameProps]:
        """A frame of the requested rows, with all the filters applied."""
        names = self._rows.schema.names if projection is None else projection
        source = _Source(
            self._rows, self._schema, tuple(names), limit, tuple(part.expr for part in filters)
        )
        frame = register_io_source(
            source.read,
            schema={name: self._schema[name] for name in names},
            is_pure=True,
            explain_name=self._rows.storage.name,
        )
        return frame, ResolvedLazyFrameProps(applied_filters=range(len(filters)))


@dataclass(frozen=True)
class _Source:
    """Rows of some columns, by some filters.

    Attributes:
        rows: All the rows.
        types: Their columns' types.
        names: The columns.
        limit: How many rows to filter; None for all.
        filters: Conditions, all of which must be true.
    """

    rows: Narrowable
    types: pl.Schema
    names: Sequence[str]
    limit: int | None
    filters: Sequence[pl.Expr]

    def read(
        self,
        columns: list[str] | None,
        filtered_by: pl.Expr | None,
        row_limit: int | None,
        batch_rows: int | None,
    ) -> Iterator[pl.DataFrame]:
        """The rows, with fewer columns, by another filter, or fewer of them."""
        names = self.names if columns is None else columns
        batches = self._filtered(names, filtered_by, row_limit, batch_rows or _BATCH_ROWS)
        left = row_limit
        for frame in batches:
            # Polars counts up to this limit before it filters by its own filter.
            part = frame if left is None else frame.head(left)
            left = None if left is None else left - part.height
            if filtered_by is not None:
                part = part.filter(filtered_by)
            yield part.select(names)
            if left == 0:
                return

    def _filtered(
        self,
        names: Sequence[str],
        filtered_by: pl.Expr | None,
        row_limit: int | None,
        batch_rows: int,
    ) -> Iterator[pl.DataFrame]:
        """The rows by `filters`, with the columns that `read` needs."""
        own = () if filtered_by is None else (filtered_by,)
        needed = [name for part in (*self.filters, *own) for name in part.meta.root_names()]
        columns = [name for name in dict.fromkeys([*names, *needed]) if name != ROW_KIND_COLUMN]
        # A limit counts rows before they are filtered.
        pushed = self.filters if self.limit is None else ()
        if self.limit is None and row_limit is None:
            pushed = (*pushed, *own)
        translated = (from_polars(part, self.rows.storage.schema, self.types) for part in pushed)
        predicates = tuple(part for part in (self.rows.predicate, *translated) if part is not None)
        narrowed = self.rows.narrowed(columns, And(predicates) if predicates else None)
        left = self.limit
        for batch in narrowed.to_batches(batch_rows=batch_rows):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            frame = frame_of(pa.Table.from_batches([batch]))
            for part in self.filters:
                frame = frame.filter(part)
            yield frame
            if left == 0:
                return
