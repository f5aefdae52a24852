"""A table's rows, or the changes between snapshots, with the kind of each as a column."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import cached_property, partial

import pyarrow as pa

from headwater.catalog.table.scan import BATCH_ROWS, Changes, Rows
from headwater.storage.errors import Invalid
from headwater.storage.predicate.filter import Predicate
from headwater.storage.read.prefetch import BatchRead
from headwater.storage.read.split import split_reads
from headwater.storage.scan.split import Split
from headwater.storage.system_tables.changes import (
    audit_log_schema,
    binlog_schema,
    in_lists,
    packed,
    with_row_kind_first,
)
from headwater.storage.types.padded_text import padded_batch

__all__ = ["AuditLog", "Binlog"]


class AuditLog(Rows):
    """The rows of splits after a column ``rowkind``; rows of a snapshot that retract included.

    With the table option ``table-read.sequence-number.enabled`` a column ``_SEQUENCE_NUMBER``
    follows the row kind.

    Args:
        rows: The rows, whose splits, columns and predicate are taken.

    Raises:
        Invalid: Sequence numbers are wanted of a table without a primary key, which has none.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        schema = rows.storage.schema
        self.sequence_numbers = schema.table_options.reads_sequence_numbers
        if self.sequence_numbers and not schema.primary_keys:
            raise Invalid(
                f"table {rows.storage.name}: rows without a primary key have no sequence numbers; "
                "leave table-read.sequence-number.enabled out"
            )
        super().__init__(rows.storage, rows.columns, rows.predicate, row_kinds=True)
        self.schema = audit_log_schema(schema, rows.columns, sequence_numbers=self.sequence_numbers)

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> AuditLog:
        """The same rows, with these columns and by this predicate over the table's own."""
        return AuditLog(self._rows.narrowed(self._own(columns), predicate))

    def _own(self, columns: Sequence[str] | None) -> list[str] | None:
        if columns is None:
            return None
        return [name for name in columns if name in self.storage.schema.field_by_name]

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """The splits to be read; those of changes one after another."""
        return self._rows.splits

    def split_reads(self, split: Split, *, batch_rows: int = BATCH_ROWS) -> Iterator[BatchRead]:
        """The rows of one split in parts that may be read at the same time."""
        for read in self._audited(split, batch_rows):
            yield partial(self._of, read, self.schema)

    def _audited(self, split: Split, batch_rows: int) -> Iterator[BatchRead]:
        return split_reads(
            self._rows.storage_of(split),
            split,
            columns=self.columns,
            predicate=self.predicate,
            row_kinds=True,
            keep_deletes=True,
            sequence_numbers=self.sequence_numbers,
            batch_rows=batch_rows,
        )

    def _of(self, read: BatchRead, schema: pa.Schema) -> Generator[pa.RecordBatch]:
        for batch in read():
            yield with_row_kind_first(padded_batch(batch, self.storage.schema.fields), schema)

    def count(self) -> int:
        """The number of rows, retracting ones included."""
        return sum(batch.num_rows for batch in self.to_batches())


class Binlog(AuditLog):
    """Like the audit log, with both sides of an update in one row.

    Each column is a list: of the value before and the one after in a change of kind ``+U`` that one
    of kind ``-U`` precedes, else of one value. The rows of a snapshot, which may have these kinds
    too, are not two sides of anything (``BinlogTable.java``).

    Args:
        rows: The rows, whose splits and columns are taken.

    Raises:
        Invalid: As `AuditLog`.
    """

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self._flat = self.schema
        self.schema = binlog_schema(
            self.storage.schema, self.columns, sequence_numbers=self.sequence_numbers
        )

    def narrowed(self, columns: Sequence[str] | None, predicate: Predicate | None) -> Binlog:
        """The same rows with these columns.

        The predicate is left to the caller: it speaks of lists, and a row that it leaves out
        may be one side of an update.
        """
        return Binlog(self._rows.narrowed(self._own(columns), self._rows.predicate))

    def split_reads(self, split: Split, *, batch_rows: int = BATCH_ROWS) -> Iterator[BatchRead]:
        """The rows of one split; those of changes in one part: two may be sides of one update."""
        reads = self._audited(split, batch_rows)
        if split.streaming or isinstance(self._rows, Changes):
            yield partial(self._packed, tuple(reads))
            return
        for read in reads:
            yield partial(self._in_lists, read)

    def _packed(self, reads: Sequence[BatchRead]) -> Generator[pa.RecordBatch]:
        flat = (batch for read in reads for batch in self._of(read, self._flat))
        yield from packed(flat, self.schema)

    def _in_lists(self, read: BatchRead) -> Generator[pa.RecordBatch]:
        for batch in self._of(read, self._flat):
            yield in_lists(batch, self.schema)
