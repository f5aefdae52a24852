"""Numbers for the rows of several files, by which those that are superseded are found again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import pyarrow as pa

from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.merge.engine import Indices
from headwater.storage.merge.sorted_run import ROW_NUMBER
from headwater.storage.read.data_file_reader import DataFileReader
from headwater.storage.rows.ordering import sorted_distinct

__all__ = ["RowNumbering"]


@dataclass
class RowNumbering:
    """The numbers of the rows of files that are looked up.

    Attributes:
        files: The files; their rows, deleted ones included, are numbered one file after another.
        numbers_only: Whether the rows are not merged, so that their keys and numbers are enough.
    """

    files: Sequence[DataFile]
    numbers_only: bool
    _superseded: list[Indices] = field(default_factory=list)

    def __post_init__(self) -> None:
        counts = (file.row_count for file in self.files)
        self._firsts = dict(
            zip(
                (file.file_name for file in self.files), accumulate(counts, initial=0), strict=False
            )
        )

    def rows(
        self, file: DataFile, opened: DataFileReader, columns: Sequence[str], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file that are not deleted, with `ROW_NUMBER` after the columns."""
        first = self._firsts[file.file_name]
        for start, batch in opened.positions(columns, None, batch_rows):
            numbers = pa.array(np.arange(first + start, first + start + batch.num_rows))
            numbered = pa.RecordBatch.from_arrays(
                [*batch.columns, numbers], names=[*columns, ROW_NUMBER]
            )
            yield opened.deletion_vector.without(numbered, start)

    def superseded(self, numbers: Indices) -> None:
        """Note rows that others take the place of."""
        self._superseded.append(numbers)

    def vectors(self) -> dict[str, DeletionVector]:
        """The rows noted, by the names of their files."""
        if not self._superseded:
            return {}
        numbers = sorted_distinct(np.concatenate(self._superseded))
        vectors: dict[str, DeletionVector] = {}
        for file in self.files:
            first = self._firsts[file.file_name]
            low, high = np.searchsorted(numbers, [first, first + file.row_count])
            if low < high:
                vectors[file.file_name] = DeletionVector(numbers[low:high] - first)
        return vectors
