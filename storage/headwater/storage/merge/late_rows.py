"""Aggregate functions over rows some of which come late: with older sequence fields.

A late row counts as older than all that are there: ``agg`` is called with its operands exchanged
(``FieldAggregator.aggReversed``), so that functions for which the order counts see it first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.storage.merge.engine import Indices, Mask
from headwater.storage.merge.field_aggregates import (
    AggregateFunction,
    FirstNonNullValue,
    GroupedColumn,
    LastFunction,
)
from headwater.storage.merge.sequence_order import sizes_of

__all__ = ["Steps", "first_positions", "merge_steps"]


@dataclass(frozen=True)
class Steps:
    """The calls by which a column's values become one value for each group, in their order.

    Attributes:
        values: The value that each brings in.
        firsts: The position of each group's first call; no group is empty.
        retracts: A mask of those that take the value back.
        late: A mask of those whose row comes late.
        base: A mask of those that put their value in place of what is there.
    """

    values: pa.Array
    firsts: Indices
    retracts: Mask
    late: Mask
    base: Mask

    def of_groups(self, chosen: Mask) -> Steps:
        """The calls of some groups."""
        sizes = sizes_of(self.firsts, len(self.late))
        kept = np.repeat(chosen, sizes)
        sizes = sizes[chosen]
        return Steps(
            self.values.filter(pa.array(kept)),
            np.cumsum(sizes) - sizes,
            self.retracts[kept],
            self.late[kept],
            self.base[kept],
        )


def merge_steps(
    function: AggregateFunction, steps: Steps, *, reverses: bool, stepwise: bool = False
) -> pa.Array:
    """One value for each group.

    Args:
        function: The function; not one that keeps a first value.
        steps: The calls; a base only begins a group.
        reverses: True if late rows count as the oldest.
        stepwise: True to make all calls one after another.
    """
    if stepwise:
        return _folded(function, steps)
    merged = _merged(function, steps, reverses and bool(steps.late.any()))
    alone = steps.base[steps.firsts] & (sizes_of(steps.firsts, len(steps.late)) == 1)
    if not alone.any():
        return merged
    # Where nothing is added, not even the function's own form is given to what is there.
    kept = steps.values.take(pa.array(steps.firsts[alone]))
    return _replaced(merged, alone, kept)


def _merged(function: AggregateFunction, steps: Steps, reverses: bool) -> pa.Array:
    if not reverses:
        begun = steps.base[steps.firsts]
        retracts = steps.retracts if steps.retracts.any() else None
        return function.merge(
            GroupedColumn(steps.values, steps.firsts, retracts, begun if begun.any() else None)
        )
    has_late = np.logical_or.reduceat(steps.late, steps.firsts)
    if isinstance(function, LastFunction) and not steps.retracts.any():
        return _merged(function, _oldest_first(steps), False)
    folded = _folded(function, steps.of_groups(has_late))
    if has_late.all():
        return folded
    others = _merged(function, steps.of_groups(~has_late), False)
    order = np.empty(len(has_late), np.int64)
    order[has_late] = np.arange(len(folded))
    order[~has_late] = len(folded) + np.arange(len(others))
    return pa.concat_arrays([folded, others]).take(pa.array(order))


def _oldest_first(steps: Steps) -> Steps:
    """The calls of each group, those of late rows before the others, the latest of all first."""
    places = np.arange(len(steps.late))
    groups = np.repeat(np.arange(len(steps.firsts)), sizes_of(steps.firsts, len(places)))
    order = np.lexsort((np.where(steps.late, -places, places), ~steps.late, groups))
    return Steps(
        steps.values.take(pa.array(order)),
        steps.firsts,
        steps.retracts,
        np.zeros(len(places), np.bool_),
        np.zeros(len(places), np.bool_),
    )


def _folded(function: AggregateFunction, steps: Steps) -> pa.Array:
    """The calls made one after another, those of all groups side by side."""
    sizes = sizes_of(steps.firsts, len(steps.late))
    # The groups with the most calls come first: those that go on are a beginning of the others.
    by_size = np.argsort(-sizes, kind="stable")
    firsts, sizes = steps.firsts[by_size], sizes[by_size]
    first = steps.values.take(pa.array(firsts))
    begun = steps.base[firsts]
    held = first
    retracts: Mask | None
    if not begun.all():
        retracts = steps.retracts[firsts] if steps.retracts[firsts].any() else None
        nothing = np.zeros(len(first), np.bool_)
        held = function.merge(GroupedColumn(first, np.arange(len(first)), retracts, nothing))
        if begun.any():
            held = _replaced(held, begun, first.filter(pa.array(begun)))
    finished: list[pa.Array] = []
    for place in range(1, int(sizes.max())):
        going = int(np.searchsorted(-sizes, -place))
        finished.append(held.slice(going))
        at = firsts[:going] + place
        pairs = _pairs(held.slice(0, going), steps.values.take(pa.array(at)), steps.late[at])
        retracts = None
        if steps.retracts[at].any():
            retracts = np.zeros(2 * going, np.bool_)
            retracts[1::2] = steps.retracts[at]
        column = GroupedColumn(
            pairs, np.arange(0, 2 * going, 2), retracts, np.ones(going, np.bool_)
        )
        held = function.merge(column)
    results = pa.concat_arrays([held, *reversed(finished)])
    places = np.empty(len(by_size), np.int64)
    places[by_size] = np.arange(len(by_size))
    return results.take(pa.array(places))


def _pairs(held: pa.Array, added: pa.Array, exchanged: Mask) -> pa.Array:
    """The values of two arrays in turn, those of some pairs exchanged."""
    count = len(held)
    order = np.empty(2 * count, np.int64)
    order[::2] = np.arange(count) + np.where(exchanged, count, 0)
    order[1::2] = np.arange(count) + np.where(exchanged, 0, count)
    return pa.concat_arrays([held, added]).take(pa.array(order))


def _replaced(values: pa.Array, mask: Mask, others: pa.Array) -> pa.Array:
    """The values, those of a mask replaced by others; of nested types, too."""
    order = np.arange(len(values))
    order[mask] = len(values) + np.arange(len(others))
    return pa.concat_arrays([values, others]).take(pa.array(order))


def first_positions(
    function: AggregateFunction,
    valid: Mask,
    firsts: Indices,
    late: Mask,
    base: Mask,
) -> Indices:
    """The calls whose value ``first_value`` or ``first_non_null_value`` keeps; -1 where none.

    A first value that was found is not looked for again, even if a row was removed since; a late
    row that comes after it takes its place, though it be null
    (``FieldFirstNonNullValueAgg.java``).

    Args:
        function: The function.
        valid: A mask of the calls whose value is not null.
        firsts: The position of each group's first call; no group is empty.
        late: A mask of those whose row comes late.
        base: A mask of those that put their value in place of what is there.
    """
    needs_value = isinstance(function, FirstNonNullValue)
    sizes = sizes_of(firsts, len(late))
    by_size = np.argsort(-sizes, kind="stable")
    ordered, sizes = firsts[by_size], sizes[by_size]
    kept = np.full(len(firsts), -1)
    found = np.zeros(len(firsts), np.bool_)
    for place in range(int(sizes.max())):
        going = int(np.searchsorted(-sizes, -place))
        at = ordered[:going] + place
        held, known = kept[:going], found[:going]
        there = (held >= 0) & valid[held]
        adds = ~base[at]
        begins = adds & ~late[at] & ~known & (valid[at] | (not needs_value))
        ends = adds & late[at] & ~known & (there | (not needs_value))
        takes = adds & late[at] & (known | (needs_value & ~there))
        held[base[at] | begins | takes] = at[base[at] | begins | takes]
        known |= begins | ends
    places = np.empty(len(by_size), np.int64)
    places[by_size] = np.arange(len(by_size))
    return kept[places]
