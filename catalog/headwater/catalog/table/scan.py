"""Reading a table: one snapshot, or the changes between two, as Arrow, Polars or pandas."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar, Literal, overload

import pyarrow as pa

from headwater.catalog.model.arguments import checks_arguments
from headwater.catalog.table.display import Display, time_text
from headwater.catalog.table.progress import progress_bar
from headwater.storage.errors import Invalid
from headwater.storage.predicate.filter import Predicate, to_sql
from headwater.storage.read.prefetch import BatchRead, prefetched
from headwater.storage.read.split import read_schema, read_split, split_reads
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.scan.split import ScanPlan, Split
from headwater.storage.schema.given import given_names
from headwater.storage.schema.read_start import IncrementalMode
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.padded_text import padded_batch

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["BATCH_ROWS", "Changes", "Rows", "Scan"]

BATCH_ROWS = 65536
"""Rows of a batch, about."""

# Rows of a batch where all of them are held in the end: each batch costs some work of its own.
_HELD_BATCH_ROWS = 4 * BATCH_ROWS
# What is read ahead of a consumer, as a share of the write buffer.
_AHEAD_SHARE = 4
# A consumer seldom keeps up with more; and each that merges holds the windows of a merge.
_MAX_STREAM_THREADS = 4


@checks_arguments
class Rows:
    """Splits to be read, and their rows as Arrow, Polars or pandas.

    It pickles without a connection to the catalog, so that Spark's executors can read its splits.

    Args:
        storage: The table, with the schema that the rows are to have.
        columns: The columns, in this order; None means all.
        predicate: Only rows for which it is true; None means all.
        row_kinds: Whether rows bear a column ``_ROW_KIND``.
    """

    is_served: ClassVar[bool] = False
    """Whether a server reads them, and the files are withheld."""
    pads_chars: bool = True
    """Whether CHAR values are padded to their length, which those in files may not be."""

    def __init__(
        self,
        storage: TableStorage,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        row_kinds: bool = False,
    ) -> None:
        self.storage = storage
        self.columns = None if columns is None else given_names(columns, "columns")
        self.predicate = predicate
        self.row_kinds = row_kinds
        self.schema: pa.Schema = read_schema(storage.schema, self.columns, row_kinds=row_kinds)

    def __repr__(self) -> str:
        return str(self._display())

    def _repr_html_(self) -> str:
        """The form that notebooks show."""
        return self._display().html()

    def _display(self) -> Display:
        predicate = self.predicate
        properties = {
            "of": self._origin(),
            "where": "" if predicate is None else to_sql(predicate, self.storage.schema),
        }
        columns = [(field.name, field.type) for field in self.schema]
        title = f"{type(self).__name__} of {self.storage.name}"
        return Display(title, properties, ("column", "Arrow type"), columns)

    def _origin(self) -> str:
        """The name of what the rows are read from, for people."""
        raise NotImplementedError

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """The splits to be read, each independently of the others."""
        raise NotImplementedError

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> Rows:
        """The same, with these columns and by this predicate."""
        raise NotImplementedError

    def storage_of(self, split: Split) -> TableStorage:
        """The table or branch that a split's files belong to."""
        return self.storage

    @property
    def storages(self) -> tuple[TableStorage, ...]:
        """The table, or the branches of it that are read as one."""
        return (self.storage,)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as a stream of Arrow's C interface, which DuckDB, Polars and pandas take.

        Each stream reads them again, batch by batch.
        """
        stream: object = self.to_reader().__arrow_c_stream__(requested_schema)
        return stream

    def read_split(self, split: Split, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        for read in self.split_reads(split, batch_rows=batch_rows):
            yield from read()

    def split_reads(self, split: Split, *, batch_rows: int = BATCH_ROWS) -> Iterator[BatchRead]:
        """The rows of one split in parts that may be read at the same time."""
        for read in split_reads(
            self.storage_of(split),
            split,
            columns=self.columns,
            predicate=self.predicate,
            row_kinds=self.row_kinds,
            batch_rows=batch_rows,
        ):
            yield partial(self._with_schema, read)

    def _with_schema(self, read: BatchRead) -> Generator[pa.RecordBatch]:
        for batch in read():
            if self.pads_chars:
                batch = padded_batch(batch, self.storage.schema.fields)
            # Without columns, a batch is a number of rows.
            if self.schema.names and batch.schema != self.schema:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
            else:
                yield batch

    def to_batches(self, *, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows in batches of about so many rows.

        Threads read ahead, up to a quarter of the table's ``write-buffer-size``; they end when the
        iterator does, or is closed. Memory is bounded by this, and by `batch_rows`.

        Raises:
            CorruptData: A file is missing or damaged; the message names it.
            Invalid: Batches are to have less than one row.
        """
        if batch_rows < 1:
            raise Invalid(f"a batch has 1 row at least, not {batch_rows}")
        ahead = self.storage.schema.table_options.write_buffer_size // _AHEAD_SHARE
        return self._batches(batch_rows, _MAX_STREAM_THREADS, ahead)

    def _batches(
        self, batch_rows: int, most_threads: int, most_bytes: int | None
    ) -> Generator[pa.RecordBatch]:
        splits = self.splits
        reads = (
            read for split in splits for read in self.split_reads(split, batch_rows=batch_rows)
        )
        threads = min(pa.cpu_count(), most_threads)
        few = min(batch_rows, BATCH_ROWS)
        if threads == 1 or sum(split.row_count for split in splits) <= few:
            for read in reads:
                yield from read()
        else:
            yield from prefetched(reads, threads=threads, most_bytes=most_bytes)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as an Arrow stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return pa.Table.from_batches(self._watched_batches(), schema=self.schema)

    def _watched_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, read by as many threads as there are cores: they are held all the same."""
        total = sum(split.row_count for split in self.splits)
        with progress_bar(f"{self.storage.name}: reading", total) as advance:
            for batch in self._batches(self._held_batch_rows, pa.cpu_count(), None):
                advance(batch.num_rows)
                yield batch

    @property
    def _held_batch_rows(self) -> int:
        # Of filtered rows few may stay, and Arrow decodes no 2 GiB of nested text into one batch.
        nested = any(pa.types.is_nested(field.type) for field in self.schema)
        return BATCH_ROWS if nested or self.predicate is not None else _HELD_BATCH_ROWS

    @overload
    def to_polars(self, *, lazy: Literal[False] = ...) -> pl.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> pl.LazyFrame: ...

    def to_polars(self, *, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """The rows as a Polars frame.

        Args:
            lazy: Read nothing yet, see `lazy`.
        """
        if lazy:
            return self.lazy()
        # Here, as programs without Polars need not wait for it.
        from headwater.catalog.table.lazy import frame_of

        return frame_of(self.to_arrow())

    def lazy(self) -> pl.LazyFrame:
        """The rows as a Polars lazy frame, which reads them each time it is collected.

        The columns that a query needs, and its filters, reach the files.
        """
        from headwater.catalog.table.lazy import lazy_frame

        return lazy_frame(self)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def count(self) -> int:
        """The number of rows; for files that need no merge, from the metadata."""
        total = 0
        for split in self.splits:
            if not split.is_counted or split.streaming or self.predicate is not None:
                rows = read_split(
                    self.storage_of(split),
                    split,
                    columns=[],
                    predicate=self.predicate,
                    row_kinds=self.row_kinds,
                )
                total += sum(batch.num_rows for batch in rows)
            else:
                total += split.row_count
        return total


class Scan(Rows):
    """The rows of a table as of one snapshot.

    The snapshot is chosen when the scan is made: reading it twice gives the same rows.

    Args:
        storage: The table, with the schema that the rows are to have.
        snapshot: The snapshot; None for a table without snapshots.
        columns: The columns, in this order; None means all.
        predicate: Only rows for which it is true; None means all.
        min_level: Only rows in files of this LSM level and above.
        created_since: Only rows in files made at or after this time, milliseconds since the
            epoch.
        for_change: Whether the rows are read to change them: also those that readers see only when
            a compaction has taken them up.
    """

    def __init__(
        self,
        storage: TableStorage,
        snapshot: Snapshot | None,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        min_level: int = 0,
        created_since: int | None = None,
        for_change: bool = False,
    ) -> None:
        super().__init__(storage, columns, predicate)
        self.snapshot = snapshot
        self.for_change = for_change
        self.min_level = min_level
        self.created_since = created_since

    def _origin(self) -> str:
        if self.snapshot is None:
            return "a table without snapshots"
        return f"snapshot {self.snapshot.id} of {time_text(self.snapshot.time_millis)}"

    @property
    def branches(self) -> str:
        """The words for the branch, or the branches, that are read."""
        return f"branch {self.storage.layout.branch}"

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> Scan:
        """The rows of the same snapshot, with these columns and by this predicate."""
        return Scan(
            self.storage,
            self.snapshot,
            columns,
            predicate,
            min_level=self.min_level,
            created_since=self.created_since,
            for_change=self.for_change,
        )

    def read_optimized(self) -> Scan:
        """The rows that need no merge: those on the highest LSM level of a primary-key table."""
        schema = self.storage.schema
        least = schema.table_options.highest_level if schema.primary_keys else 0
        return Scan(self.storage, self.snapshot, self.columns, self.predicate, min_level=least)

    @cached_property
    def plan(self) -> ScanPlan | None:
        """The plan of the read; None for a table without a snapshot."""
        if self.snapshot is None:
            return None
        return plan_snapshot(
            self.storage,
            self.snapshot,
            predicate=self.predicate,
            min_level=self.min_level,
            created_since=self.created_since,
            with_level_zero=self.for_change,
            merges_postponed=not self.for_change,
        )

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """The splits to be read, each independently of the others."""
        return () if self.plan is None else self.plan.splits


class Changes(Rows):
    """The changes that some snapshots made: rows with a column ``_ROW_KIND``, in commit order.

    Args:
        storage: The table.
        plans: The plans of the snapshots' changes, oldest first.
        columns: The columns, in this order; None means all.
        predicate: Only rows for which it is true; None means all.
        row_kinds: False for the rows that do not retract, without that column.
        source: The files that tell of them: delta, changelog, or those of two snapshots (diff).
    """

    def __init__(
        self,
        storage: TableStorage,
        plans: Sequence[ScanPlan],
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        *,
        row_kinds: bool = True,
        source: IncrementalMode = IncrementalMode.DELTA,
    ) -> None:
        super().__init__(storage, columns, predicate, row_kinds=row_kinds)
        self.plans = tuple(plans)
        self.source = source

    def _origin(self) -> str:
        ids = [plan.snapshot.id for plan in self.plans]
        return f"snapshots {ids[0]} to {ids[-1]}" if ids else "no snapshots"

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> Changes:
        """The same changes, with these columns and by this predicate."""
        return Changes(
            self.storage,
            self.plans,
            columns,
            predicate,
            row_kinds=self.row_kinds,
            source=self.source,
        )

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """The splits to be read, one after another to keep the order of changes."""
        return tuple(split for plan in self.plans for split in plan.splits)
