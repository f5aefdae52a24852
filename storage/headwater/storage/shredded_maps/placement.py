"""The columns in which the keys of each map lie.

A map that has no more keys than there are columns gives each of them one; of a larger one some keys
overflow. Rows come sorted by the numbers of their keys, but for those placed as they come.

Source: ``PlainMapSharedShreddingColumnAllocator.java``,
``SequentialMapSharedShreddingColumnAllocator.java``, ``LruMapSharedShreddingColumnAllocator.java``.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain, islice, pairwise
from typing import Protocol

import numpy as np

from headwater.storage.options import KeyPlacement
from headwater.storage.types.arrow_numbers import Integers

__all__ = ["NO_COLUMN", "Placement", "placement"]

NO_COLUMN = -1


class Placement(Protocol):
    """The places of the keys in one file, rows of which come one after the other."""

    def columns(self, owners: Integers, numbers: Integers) -> Integers:
        """The column of each entry; `NO_COLUMN` where it overflows.

        Args:
            owners: The row of each entry, ascending.
            numbers: The number of its key, which no other entry of the row has.
        """
        ...


def placement(policy: KeyPlacement, columns: int) -> Placement:
    """The places of keys in a file with so many columns."""
    return _Recent(columns) if policy is KeyPlacement.LRU else _Leading(columns)


class _Leading:
    """The first keys of a row take the first columns."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def columns(self, owners: Integers, numbers: Integers) -> Integers:
        firsts = np.searchsorted(owners, owners)
        ranks = np.arange(len(owners)) - firsts
        return np.where(ranks < self._columns, ranks, NO_COLUMN)


class _Recent:
    """A key keeps its column until another needs it, which takes the least recently used one."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        # By key, and by column; a column gets its first key in their order.
        self._column_of = np.full(1 << 8, NO_COLUMN, np.int64)
        self._key_of: list[int] = []
        self._used = np.zeros(columns, np.int64)
        self._rows = 0

    def columns(self, owners: Integers, numbers: Integers) -> Integers:
        if not len(owners):
            return owners
        self._make_room(int(numbers.max()))
        found = np.full(len(owners), NO_COLUMN, np.int64)
        end = self._until_full(owners, numbers)
        found[:end] = self._column_of[numbers[:end]]
        # The last of a column's entries counts: later assignments go over earlier ones.
        self._used[found[:end]] = owners[:end] + self._rows
        if end < len(owners):
            found[end:] = self._with_evictions(owners[end:], numbers[end:])
        self._rows += int(owners[-1]) + 1
        return found

    def _make_room(self, number: int) -> None:
        if number >= len(self._column_of):
            more = np.full(max(number + 1, len(self._column_of)), NO_COLUMN, np.int64)
            self._column_of = np.concatenate([self._column_of, more])

    def _until_full(self, owners: Integers, numbers: Integers) -> int:
        """Give columns that were never used to new keys; the entries of the rows that it serves."""
        missing = np.flatnonzero(self._column_of[numbers] == NO_COLUMN)
        if not len(missing):
            return len(owners)
        keys, firsts = np.unique(numbers[missing], return_index=True)
        order = np.argsort(firsts, kind="stable")
        keys, firsts = keys[order], missing[firsts[order]]
        room = self._columns - len(self._key_of)
        end = len(owners)
        if len(keys) > room:
            # The whole row that needs one more.
            end = int(np.searchsorted(owners, owners[firsts[room]]))
            keys = keys[firsts < end]
        self._column_of[keys] = np.arange(len(self._key_of), len(self._key_of) + len(keys))
        self._key_of += keys.tolist()
        return end

    def _with_evictions(self, owners: Integers, numbers: Integers) -> list[int]:
        """The columns of rows from the first on that takes a column from a key.

        Which column is the least recently used one, only the rows before tell: this alone goes
        row by row. It comes to it where a file has more keys than columns.
        """
        column_of: dict[int, int] = {key: at for at, key in enumerate(self._key_of)}
        order = np.lexsort((np.arange(len(self._key_of)), self._used[: len(self._key_of)]))
        # From the least recently used one on; of those used last in one row, from the first on.
        recent: OrderedDict[int, int] = OrderedDict((at, self._key_of[at]) for at in order.tolist())
        used: list[int] = self._used.tolist()
        firsts = np.flatnonzero(np.diff(owners, prepend=-1))
        of_rows = zip((owners[firsts] + self._rows).tolist(), firsts.tolist(), strict=True)
        every = numbers.tolist()
        found: list[int] = []
        for (row, start), (_, end) in pairwise(chain(of_rows, [(0, len(every))])):
            keys = every[start:end]
            taken = [column_of.get(key, NO_COLUMN) for key in keys]
            wanting = taken.count(NO_COLUMN)
            if wanting:
                own = set(taken)
                free = list(range(len(recent), min(len(recent) + wanting, self._columns)))
                if len(free) < wanting:
                    evictable = (column for column in recent if column not in own)
                    free += islice(evictable, wanting - len(free))
                missing = [at for at, column in enumerate(taken) if column == NO_COLUMN]
                for at, column in zip(missing, free, strict=False):
                    column_of.pop(recent.get(column, NO_COLUMN), None)
                    taken[at] = column
                    recent[column] = keys[at]
                    column_of[keys[at]] = column
            for column in sorted(taken):
                if column != NO_COLUMN:
                    recent.move_to_end(column)
                    used[column] = row
            found += taken
        self._used[:] = used
        self._key_of = [recent[at] for at in range(len(recent))]
        self._column_of[:] = NO_COLUMN
        self._column_of[self._key_of] = np.arange(len(self._key_of))
        return found
