"""The columns that the keys of each map get in a file.

In a map that has no more keys than there are columns every key gets one; in a larger one some keys
overflow. The entries of a row come in the order of their keys' numbers, except under the policy
``plain``, which takes them in the order of the map.

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

# After so many rows in which all keys have columns, those that follow are looked at all at once: to
# change over costs as much as some dozen rows.
_CALM_ROWS = 128
# Entries that are looked at, in either way, before the next ones are: twice as many each time.
_FEW_ENTRIES = 1 << 11


class Placement(Protocol):
    """The places of the keys in one file, whose rows are placed in their order."""

    def columns(self, owners: Integers, numbers: Integers) -> Integers:
        """The column of each entry; `NO_COLUMN` where it overflows.

        Args:
            owners: The row of each entry, ascending.
            numbers: The number of its key, which no other entry of the row has.
        """
        ...


def placement(policy: KeyPlacement, columns: int) -> Placement:
    """The policy's placement in a file with so many columns."""
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
    """A key keeps its column until another key needs one and takes the least recently used."""

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
        at, entries, evicts = 0, len(owners), False
        while at < len(owners):
            stop = _whole_rows(owners, at, entries)
            if evicts:
                end = at + self._with_evictions(owners[at:stop], numbers[at:stop], found[at:stop])
            else:
                end = at + self._until_full(owners[at:stop], numbers[at:stop])
                found[at:end] = self._column_of[numbers[at:end]]
                # The last of a column's entries counts: later assignments go over earlier ones.
                self._used[found[at:end]] = owners[at:end] + self._rows
            at, entries = end, 2 * entries
            if end < stop:
                evicts, entries = not evicts, _FEW_ENTRIES
        self._rows += int(owners[-1]) + 1
        return found

    def _make_room(self, number: int) -> None:
        if number >= len(self._column_of):
            more = np.full(max(number + 1, len(self._column_of)), NO_COLUMN, np.int64)
            self._column_of = np.concatenate([self._column_of, more])

    def _until_full(self, owners: Integers, numbers: Integers) -> int:
        """Give unused columns to new keys, up to the first row that lacks one.

        Returns:
            The number of entries before that row.
        """
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

    def _with_evictions(self, owners: Integers, numbers: Integers, found: Integers) -> int:
        """Place rows that take columns from keys, up to where a number of rows took none.

        Which column is the least recently used one, only the rows before tell: this alone goes
        row by row. It comes to it where a file has more keys than columns.

        Returns:
            The number of entries that got their places in `found`.
        """
        column_of: dict[int, int] = {key: at for at, key in enumerate(self._key_of)}
        order = np.lexsort((np.arange(len(self._key_of)), self._used[: len(self._key_of)]))
        # From the least recently used one on; of those used last in one row, from the first on.
        recent: OrderedDict[int, int] = OrderedDict((at, self._key_of[at]) for at in order.tolist())
        used: list[int] = self._used.tolist()
        firsts = np.flatnonzero(np.diff(owners, prepend=-1))
        of_rows = zip((owners[firsts] + self._rows).tolist(), firsts.tolist(), strict=True)
        every = numbers.tolist()
        calm = 0
        for (row, start), (_, end) in pairwise(chain(of_rows, [(0, len(every))])):
            keys = every[start:end]
            taken = [column_of.get(key, NO_COLUMN) for key in keys]
            wanting = taken.count(NO_COLUMN)
            calm = 0 if wanting else calm + 1
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
            found[start:end] = taken
            if calm == _CALM_ROWS:
                break
        self._used[:] = used
        self._key_of = [recent[at] for at in range(len(recent))]
        self._column_of[:] = NO_COLUMN
        self._column_of[self._key_of] = np.arange(len(self._key_of))
        return end


def _whole_rows(owners: Integers, start: int, count: int) -> int:
    """The end of the row that has the last of so many entries from one on."""
    last = min(start + count, len(owners)) - 1
    return int(np.searchsorted(owners, owners[last], side="right"))
