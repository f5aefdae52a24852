"""The rows of one key range by key: which rows share a key with others.

Rows are numbered across the parts of the range, part after part. Looking the few up in the many
costs what the few cost; nothing but keys is compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from headwater.storage.merge.engine import Indices, Mask
from headwater.storage.rows.ordering import Comparable, argsort, concatenate

__all__ = [
    "groups_of_rows",
    "picked_among",
    "picked_of_groups",
    "picked_rows",
    "shared_keys",
    "shared_out",
    "sort_groups",
]

# Where a greater share of rows is wanted, sorting the keys of all is faster.
_LOOKED_UP_SHARE = 8


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


def sort_groups(firsts: Indices, age: Sequence[Comparable]) -> Indices:
    """The positions of grouped rows, those of each group sorted by age.

    Args:
        firsts: The position of each group's first row.
        age: Numbers that are greater for newer rows, the most significant first; where all are
            equal, the later row is the newer.
    """
    sizes = np.diff(np.append(firsts, len(age[0])))
    groups = np.repeat(np.arange(len(firsts)), sizes)
    return np.lexsort((*reversed(age), groups))


def picked_of_groups(firsts: Indices, age: Sequence[Comparable], *, newest: bool) -> Indices:
    """The position of the newest, or the oldest, row of each group; otherwise `sort_groups`."""
    at = np.arange(len(age[0]))
    starts, ends = firsts, np.append(firsts[1:], len(at))
    extreme = np.maximum if newest else np.minimum
    for numbers in age:
        values = numbers[at]
        stays = values == np.repeat(extreme.reduceat(values, starts), ends - starts)
        at = at[stays]
        ends = np.cumsum(np.add.reduceat(stays, starts, dtype=np.int64))
        starts = np.concatenate([[0], ends[:-1]])
        if len(at) == len(firsts):
            break
    return at[ends - 1] if newest else at[starts]


def picked_rows(parts: Sequence[Comparable], *, newest: bool) -> list[Mask] | None:
    """Masks of the rows of each part that are their key's newest, or oldest; None when all are.

    Args:
        parts: As for `shared_keys`, at least two.
        newest: True for the newest rows, False for the oldest.
    """
    base = max(range(len(parts)), key=lambda at: len(parts[at]))
    if len(parts[base]) * 2 < sum(len(keys) for keys in parts):
        keys = concatenate(parts)
        order = np.argsort(keys, kind="stable")
        in_order = _ends(keys[order]) if newest else _begins(keys[order])
        if in_order.all():
            return None
        picked = np.empty(len(keys), np.bool_)
        picked[order] = in_order
        return shared_out(picked, parts)
    great, others = parts[base], [keys for at, keys in enumerate(parts) if at != base]
    before = sum(len(keys) for keys in parts[:base])
    keys = concatenate(others)
    order = np.argsort(keys, kind="stable")
    chosen = order[_ends(keys[order]) if newest else _begins(keys[order])]
    found, met = _found(great, keys[chosen])
    wins = (chosen >= before) == newest
    of_great = np.ones(len(great), np.bool_)
    of_great[found[met & wins]] = False
    of_others = np.zeros(len(keys), np.bool_)
    of_others[chosen[wins | ~met]] = True
    masks = shared_out(of_others, others)
    masks.insert(base, of_great)
    return masks


def picked_among(
    parts: Sequence[Comparable], wanted: Sequence[Mask], *, newest: bool
) -> list[Mask]:
    """Masks of the wanted rows of each part that are their key's newest, or oldest, of all rows.

    Few wanted rows are looked up one by one: most keys are then compared with no other.

    Args:
        parts: As for `shared_keys`, at least two.
        wanted: Masks of the wanted rows of each part.
        newest: As for `picked_rows`.
    """
    total = sum(len(keys) for keys in parts)
    if sum(int(np.count_nonzero(mask)) for mask in wanted) * _LOOKED_UP_SHARE > total:
        picked = picked_rows(parts, newest=newest)
        if picked is None:
            return list(wanted)
        return [mask & own for mask, own in zip(picked, wanted, strict=True)]
    masks: list[Mask] = []
    for at, (keys, mask) in enumerate(zip(parts, wanted, strict=True)):
        rows = np.flatnonzero(mask)
        for other in parts[at + 1 :] if newest else parts[:at]:
            if len(rows) and len(other):
                rows = rows[~_found(other, keys[rows])[1]]
        picked_here = np.zeros(len(keys), np.bool_)
        picked_here[rows] = True
        masks.append(picked_here)
    return masks


def shared_out(mask: Mask, parts: Sequence[Comparable]) -> list[Mask]:
    """A mask of all parts' rows as one for each part."""
    ends = itertools.accumulate(len(keys) for keys in parts)
    return [mask[end - len(keys) : end] for keys, end in zip(parts, ends, strict=True)]


def _found(great: Comparable, distinct: Comparable) -> tuple[Indices, Mask]:
    """The places of keys in a great part, and a mask of those that it has."""
    found = np.searchsorted(great, distinct)
    found[found == len(great)] = 0
    return found, great[found] == distinct


def _ends(ordered: Comparable) -> Mask:
    """A mask of the sorted keys that differ from the one after."""
    ends = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=ends[:-1])
    return ends


def _begins(ordered: Comparable) -> Mask:
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
    found, met = _found(great, distinct)
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
