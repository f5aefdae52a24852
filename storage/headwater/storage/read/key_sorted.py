"""Rows of files that are sorted by columns other than the key, put in the order of their keys.

Only the columns that a merge asks for are sorted: the keys and row numbers for a compaction that
marks rows, the columns read for a query that includes level 0. What does not fit into memory goes
to the local disk. Where only a few keys are looked up, most rows need not be sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.manifest.data_file import DataFile
from headwater.storage.merge.rules import MergeRules
from headwater.storage.rows.external_sort import BATCH_ROWS, sorted_batches
from headwater.storage.rows.gather import kept_rows
from headwater.storage.rows.ordering import RowOrder
from headwater.storage.types.arrow_numbers import numpy_mask

__all__ = ["MOST_FEW_KEYS", "FewKeys", "key_sorted"]

MOST_FEW_KEYS = 1 << 16
"""The most keys to look for one by one: each batch that is searched hashes all of them again."""


def key_sorted(
    files: Sequence[DataFile],
    read: Callable[[DataFile, int], Iterator[pa.RecordBatch]],
    rules: MergeRules,
    memory_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """The rows of some files in the order of their keys.

    Args:
        files: The files.
        read: Gives the rows of one file, about so many at a time, with the columns of the key and
            the same others for each file.
        rules: The rules of the table.
        memory_bytes: Bytes of rows held at a time; sorting takes about three times as much.

    Raises:
        Unavailable: The local disk is full.
    """
    yield from sorted_batches(_Rows(files, read), _Key(rules), memory_bytes)


class FewKeys:
    """Finds rows whose key may be one of a few.

    Args:
        rules: The rules of the table.
        rows: Rows with the keys.
    """

    def __init__(self, rules: MergeRules, rows: Iterable[pa.RecordBatch]) -> None:
        self._values: dict[str, pa.Array] = {}
        held = list(rows)
        for name in rules.keys if held else ():
            values = pa.chunked_array([batch.column(name) for batch in held])
            # Floats that are equal in the order of keys may have different hashes.
            if not pa.types.is_floating(values.type):
                self._values[name] = pc.unique(values)

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows whose key may be one of them.

        Args:
            rows: Rows with the columns of the key, and maybe more.
        """
        mask = np.ones(rows.num_rows, np.bool_)
        for name, values in self._values.items():
            column = rows.column(name)
            mask &= numpy_mask(pc.is_in(column, values.cast(column.type)))
        return kept_rows(rows, mask)


@dataclass(frozen=True)
class _Key:
    """A `RowKey`: that of a table."""

    rules: MergeRules

    @property
    def order(self) -> RowOrder:
        return self.rules.key_order

    @property
    def columns(self) -> Sequence[str]:
        return self.rules.keys

    def arrays(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        return [rows.column(name) for name in self.rules.keys]


@dataclass(frozen=True)
class _Rows:
    """A `RowSource`: the rows of files."""

    files: Sequence[DataFile]
    of_file: Callable[[DataFile, int], Iterator[pa.RecordBatch]]

    @property
    def row_count(self) -> int:
        return sum(file.row_count for file in self.files)

    def read(
        self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        for file in self.files:
            for rows in self.of_file(file, batch_rows):
                yield rows if columns is None else rows.select(columns)
