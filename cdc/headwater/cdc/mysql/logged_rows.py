"""Rows of a table as MySQL and MariaDB log them, to be decoded when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.mysql.log_values import log_values
from headwater.cdc.mysql.packed_rows import PackedRows
from headwater.cdc.mysql.rows import decode_rows
from headwater.cdc.mysql.table_map import TableShape
from headwater.cdc.mysql.values import DecodeOptions
from headwater.cdc.source.log_batches import LoggedRows

__all__ = ["MySQLRows"]

# MariaDB's hash of a unique key over long text, a column that only the log has.
_HIDDEN = "DB_ROW_HASH_"


@dataclass
class MySQLRows:
    """Rows of a table in one shape, in the order of the log."""

    shape: TableShape
    rows: PackedRows
    # Those that a session leaves out are read from the source.
    has_rows_before = True

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns that the log has."""
        names = (column.name for column in self.shape.columns)
        return [name for name in names if not name.startswith(_HIDDEN)]

    @property
    def size(self) -> int:
        """Their bytes in the log."""
        return self.rows.size

    def parts(self, size: int) -> Iterator[MySQLRows]:
        """The rows in parts of at least some bytes, in their order; no update is divided."""
        return (MySQLRows(self.shape, part) for part in self.rows.parts(size))

    def decoded(
        self, table: SourceTable, bad_dates: BadDates, changed: Sequence[str] = ()
    ) -> Iterator[LoggedRows]:
        """Decode the rows; see `TableRows.decoded`."""
        options = DecodeOptions.for_table(table, bad_dates)
        shapes = {column.name: column for column in self.shape.columns}
        names = [column.name for column in table.columns]
        for slab in self.rows.slabs():
            rows = decode_rows(self.shape, slab, options, tuple(changed))
            columns = [
                log_values(rows.rows.column(column.name), shapes[column.name], column, bad_dates)
                for column in table.columns
            ]
            yield LoggedRows(
                pa.Table.from_arrays(columns, names),
                rows.kinds,
                rows.column_sets,
                rows.column_set,
                rows.left_out,
            )
