"""Some of the rows of a file, by their positions: those that its indexes do not exclude."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from headwater.storage.types.arrow_numbers import arrow_values

__all__ = ["RowSelection"]


@dataclass(frozen=True, eq=False)
class RowSelection:
    """The rows of a file that are wanted.

    Attributes:
        positions: Their positions in the file, from 0, ascending.
    """

    positions: npt.NDArray[np.int64]

    @staticmethod
    def of(rows: BitMap) -> RowSelection:
        """The rows of a bitmap."""
        return RowSelection(np.frombuffer(rows.to_array(), np.uint32).astype(np.int64))

    def __len__(self) -> int:
        """The number of wanted rows."""
        return len(self.positions)

    def within(self, other: RowSelection) -> RowSelection:
        """Those that another selection has, too."""
        found = np.intersect1d(self.positions, other.positions, assume_unique=True)
        return RowSelection(found)

    def without(self, positions: npt.NDArray[np.int64]) -> RowSelection:
        """Those that are not at some positions, which are ascending."""
        if not len(positions):
            return self
        return RowSelection(np.setdiff1d(self.positions, positions, assume_unique=True))

    def any_between(self, start: int, stop: int) -> bool:
        """True if a row from `start` to before `stop` is wanted."""
        first, last = np.searchsorted(self.positions, [start, stop])
        return bool(first < last)

    def of_batch(self, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """The wanted rows of a batch that begins at a position, in their order."""
        first, last = np.searchsorted(self.positions, [start, start + batch.num_rows])
        if last - first == batch.num_rows:
            return batch
        if not batch.num_columns:
            return batch.slice(0, int(last - first))
        return batch.take(arrow_values(self.positions[first:last] - start))
