"""A sorted run as it is merged, and the rows of it that are merged at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from headwater.storage.merge.engine import Mask
from headwater.storage.rows.gather import kept_rows
from headwater.storage.rows.ordering import Comparable

__all__ = ["ROW_NUMBER", "RunPart", "SortedRun"]

ROW_NUMBER = "\0row number"
"""A column that tells the rows of all files apart that are looked up."""


@dataclass(frozen=True)
class SortedRun:
    """Files whose rows are sorted by key and whose keys are distinct.

    Attributes:
        name: The run in error messages.
        read: Gives the rows in batches of about so many rows and so many bytes. A batch holds the
            key columns, the wanted ones and the inputs of the merge engine; when `needs_age` is
            true also `MergeRules.age_columns`; when not, ``_VALUE_KIND`` may be left out of a batch
            in which no row retracts.
        row_count: Rows.
        min_sequence: The smallest sequence number.
        max_sequence: The greatest.
        rank: A run of lower rank is older than those of higher rank, whatever their sequence
            numbers.
        keys_only: Whether the rows take part without being returned: batches hold the keys alone,
            and a key whose oldest row is here is left out of the result. Its rank is its own.
        level: The level of the files.
        looked_up: Whether only those rows take part whose key is on level 0, too.
        numbers_only: Whether even those are not merged, but only told of as superseded: batches
            hold the keys and `ROW_NUMBER`.
        kept: Leaves out rows, which `ROW_NUMBER` tells apart, before they are merged; they are
            superseded all the same. None leaves out none.
    """

    name: str
    read: Callable[[int, int], Iterator[pa.RecordBatch]]
    row_count: int
    min_sequence: int
    max_sequence: int
    rank: int = 0
    keys_only: bool = False
    level: int = 0
    looked_up: bool = False
    numbers_only: bool = False
    kept: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None


@dataclass
class RunPart:
    """The rows of one run in one key range; `keys` is empty when it is the only run."""

    run: SortedRun
    batch: pa.RecordBatch
    keys: Comparable

    def only(self, mask: Mask) -> RunPart:
        """Some of the rows."""
        return RunPart(self.run, kept_rows(self.batch, mask), self.keys[mask])
