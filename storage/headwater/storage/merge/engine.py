"""The interface of a merge engine: groups of rows of equal keys in, rows or computed columns out.

Source: ``MergeFunction.java``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Indices", "Kinds", "Mask", "MergeEngine", "PickingEngine", "RowGroups"]

Indices: TypeAlias = npt.NDArray[np.int64]
Kinds: TypeAlias = npt.NDArray[np.int8]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RowGroups:
    """Rows in groups of equal keys.

    The groups stand one after another, in no particular order; the rows of a group are sorted by
    age, the newest last.

    Attributes:
        row_count: The rows of all groups.
        firsts: The position of each group's first, oldest row.
        gather: Columns of these rows by name: the keys, ``_VALUE_KIND``, and what the engine
            asked for with `MergeEngine.inputs`. Nothing is copied before it is called.
    """

    row_count: int
    firsts: Indices
    gather: Callable[[Sequence[str]], pa.RecordBatch]

    @property
    def lasts(self) -> Indices:
        """The position of each group's last, newest row."""
        return np.append(self.firsts[1:], self.row_count) - 1

    @property
    def sizes(self) -> Indices:
        """The number of rows of each group."""
        return np.diff(np.append(self.firsts, self.row_count))


class MergeEngine(ABC):
    """The rule by which the rows of one key become one row.

    An engine is stateless. It sees the rows of a key range at a time, and all rows of a key
    together, unless they are still to be merged with others later. Then the merged row stands for
    them: neighbours in age are merged, never rows with others of an age between theirs, and a
    merged row that retracts is kept until no older rows of its key are left. With rows that
    retract this may still give another result than merging all at once, unless
    `merges_retractions_partially`.

    It does not see keys with one row, which stays as it is (``ReducerMergeFunctionWrapper.java``),
    but for rows of level 0 in a compaction that looks older rows up (``LookupMergeFunction.java``).

    Attributes:
        takes_retractions: True if ``-U`` and ``-D`` rows may be merged; if not, they are refused.
        compacted_rows_first: True if rows above level 0 count as older than all of level 0,
            whatever their sequence numbers.
        merges_retractions_partially: True if rows that retract may be merged with each other, and
            with newer rows, before they meet the older rows of their key.
    """

    takes_retractions: bool = True
    compacted_rows_first: bool = False
    merges_retractions_partially: bool = False

    def refused_kinds(self, kinds: Kinds) -> str | None:
        """Say why rows of some kinds must not be written.

        Args:
            kinds: The rows' kinds, as they stand in ``_VALUE_KIND``.

        Returns:
            The reason, which names options to set; None when the rows may be written.
        """
        if self.takes_retractions or not (retracting := int((kinds & 1).sum())):
            return None
        return (
            f"rows stay for good, but {retracting} rows are of kind -U or -D; set 'ignore-delete' "
            "to drop them"
        )

    def inputs(self, columns: Sequence[str]) -> Sequence[str]:
        """The columns that must be read to compute some of the result's.

        Args:
            columns: The wanted columns of the result, without key, partition and system columns.

        Returns:
            Columns of the table, and ``_SEQUENCE_NUMBER`` if it counts.
        """
        return ()

    @abstractmethod
    def merge(self, groups: RowGroups, columns: Sequence[str]) -> Indices | pa.RecordBatch:
        """Merge each group into one row.

        Args:
            groups: At least one group.
            columns: The wanted columns of the result, without key, partition and system columns.

        Returns:
            The position of the row that stays, for each group; or the merged rows, one for each
            group in the groups' order, with the wanted columns, of the types they have in the
            table, and ``_VALUE_KIND``. The key and the newest row's sequence number are added.
        """


class PickingEngine(MergeEngine):
    """An engine that keeps one row of each key as it is, by its age alone.

    Attributes:
        newest: True if that is the newest row of the key, False if it is the oldest.
    """

    newest: bool
    merges_retractions_partially = True

    def merge(self, groups: RowGroups, columns: Sequence[str]) -> Indices:
        """The newest, or the oldest, row of each group."""
        return groups.lasts if self.newest else groups.firsts
