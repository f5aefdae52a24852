"""The rows of one key range by key: which rows share a key with others.

Rows are numbered across the parts of the range, part after part. Looking the few up in the many
costs what the few cost; nothing but keys is compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headwater.storage.merge.engine import Indices
from headwater.storage.rows.ordering import Comparable, argsort, concatenate

__all__ = ["groups_of_rows", "shared_keys", "sort_groups"]

_Mask = npt.NDArray[np.bool_]


def shared_keys(parts: Sequence[Comparable]) -> tuple[Indices, Indices]:
    """The rows whose key occurs in more than one part.

    Args:
        parts: The keys of each part, sorted and distinct, the oldest part first.

    Returns:
        The rows' numbers in groups of equal keys, the oldest row of each group first; and the
        position of each group's first row.
    """
    total = sum(len(keys) for keys in parts)
    base = max(range(len(parts)), key=lambda at: len(parts[at]), default=0)
    if len(parts) < 2:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if len(parts[base]) * 2 < total:
        keys = concatenate(parts)
        # Sorted runs end to end are what a merge sort is best at.
        return _shared(keys, np.argsort(keys, kind="stable"))
    return _looked_up(parts, base)


def groups_of_rows(keys: Comparable, order: Indices | None = None) -> tuple[Indices, Indices]:
    """All rows in groups of equal keys, in the keys' order.

    Args:
        keys: The rows' keys, in any order.
        order: The rows' numbers from the oldest to the newest; None when they stand so.

    Returns:
        The rows' numbers, sorted by key and age; and the position of each group's first row.
    """
    order = argsort(keys) if order is None else order[argsort(keys[order])]
    return order, np.flatnonzero(_begins(keys[order]))


def sort_groups(firsts: Indices, newness: Comparable, ranks: Indices) -> Indices:
    """The positions of grouped rows, those of each group sorted by age.

    Args:
        firsts: The position of each group's first row.
        newness: Greater for newer rows of one rank; where equal, the later row is the newer.
        ranks: Each row's rank, which decides before `newness` does.
    """
    sizes = np.diff(np.append(firsts, len(newness)))
    groups = np.repeat(np.arange(len(firsts)), sizes)
    by_age = np.argsort(newness, kind="stable")
    return by_age[np.lexsort((ranks[by_age], groups[by_age]))]


def _begins(ordered: Comparable) -> _Mask:
    """A mask of the sorted keys that differ from the one before."""
    begins = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins


def _shared(keys: Comparable, order: Indices) -> tuple[Indices, Indices]:
    begins = _begins(keys[order])
    shared = ~begins
    shared[:-1] |= ~begins[1:]
    return order[shared], np.flatnonzero(begins[shared])


def _looked_up(parts: Sequence[Comparable], base: int) -> tuple[Indices, Indices]:
    """Look the rows of the other parts up in a great one."""
    great = parts[base]
    before = sum(len(keys) for keys in parts[:base])
    others = [keys for at, keys in enumerate(parts) if at != base]
    keys = concatenate(others)
    order = np.argsort(keys, kind="stable")
    begins = _begins(keys[order])
    starts = np.flatnonzero(begins)
    distinct = keys[order[starts]]
    found = np.searchsorted(great, distinct)
    found[found == len(great)] = 0
    met = great[found] == distinct
    counts = np.diff(np.append(starts, len(keys)))
    sizes = counts + met
    shared = sizes > 1
    firsts = np.cumsum(sizes[shared]) - sizes[shared]
    rows = np.empty(int(sizes[shared].sum()), np.int64)
    # Each other row's place: that of its group, its own among the others, and one for an older
    # row of the great part.
    group = np.cumsum(begins) - 1
    kept = shared[group]
    group = group[kept]
    numbers = order[kept]
    newer = numbers >= before
    place = np.flatnonzero(kept) - starts[group]
    target = np.cumsum(shared)[group] - 1
    rows[firsts[target] + place + (newer & met[group])] = numbers + newer * len(great)
    older = np.bincount(group[~newer], minlength=len(met))[met]
    rows[firsts[np.cumsum(shared)[met] - 1] + older] = found[met] + before
    return rows, firsts
