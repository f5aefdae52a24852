"""Rows as their changes leave them: the last change of each key counts, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pyarrow as pa

from headwater.cdc.sink.divided_rows import DividedRows
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.rows.kinds import RowKind

__all__ = ["FoldedRows"]

_KEPT = (RowKind.INSERT, RowKind.UPDATE_AFTER)
# Rows are copied as they are gathered.
_COPIES = 4


class FoldedRows:
    """Changes of rows by their key, in their order.

    Args:
        key: The names of the key's columns.
        memory_bytes: How much memory they take at most.
    """

    def __init__(self, key: Sequence[str], memory_bytes: int) -> None:
        self._key, self._memory_bytes = key, memory_bytes
        self._folder = TemporaryDirectory(prefix="headwater-folded-")
        self._clears = 0
        self._rows = self._empty()

    def _empty(self) -> DividedRows:
        folder = Path(self._folder.name, str(self._clears))
        return DividedRows(folder, list(self._key), self._memory_bytes // _COPIES)

    def __enter__(self) -> FoldedRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()
        self._folder.cleanup()

    def add(self, changes: pa.RecordBatch) -> None:
        """Add changes, whose kinds are in the column `ROW_KIND_COLUMN`."""
        if changes.num_rows:
            self._rows.add(pa.table(changes))

    def clear(self) -> None:
        """Forget all rows: the table was emptied."""
        self._rows.close()
        self._clears += 1
        self._rows = self._empty()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Take out the rows that are left, in no order and without their kinds."""
        names = [f"key {number}" for number in range(len(self._key))]
        for part in self._rows.parts():
            keys = pl.DataFrame(part.select(self._key).rename_columns(names)).with_row_index("row")
            last = keys.unique(names, keep="last").get_column("row").to_numpy()
            kinds = part.column(ROW_KIND_COLUMN).to_numpy()
            left = last[np.isin(kinds[last], _KEPT)]
            yield from part.take(pa.array(left)).drop_columns([ROW_KIND_COLUMN]).to_batches()
