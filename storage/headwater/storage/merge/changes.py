"""The changes that a merge of sorted runs makes to what a table had: its changelog.

Each key whose row changes is told once: added (``+I``), updated (``-U`` and ``+U``, one after the
other), or deleted (``-D``). Source: ``FullChangelogMergeFunctionWrapper.java``,
``LookupChangelogMergeFunctionWrapper.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.merge.engine import Indices, Mask
from headwater.storage.merge.key_ranges import key_ranges
from headwater.storage.merge.rules import MergeRules
from headwater.storage.merge.runs import WINDOW_BYTES, RangeMerge, lowest_levels, needs_age
from headwater.storage.merge.sorted_run import ROW_NUMBER, RunPart, SortedRun
from headwater.storage.rows.gather import take_rows
from headwater.storage.rows.kinds import RowKind
from headwater.storage.rows.ordering import Comparable, concatenate
from headwater.storage.types.arrow_numbers import arrow_values, numpy_mask, numpy_values
from headwater.storage.types.nested_arrays import holds_maps, ordered_maps

__all__ = ["MergedRange", "equal_rows", "merge_changes"]

_ABSENT = -1


@dataclass(frozen=True)
class MergedRange:
    """The rows of a key range.

    Attributes:
        rows: The merged rows, sorted by key, those that retract among them.
        changes: The changes that they make, sorted by key; None when they are not wanted.
    """

    rows: pa.RecordBatch
    changes: pa.RecordBatch | None


def merge_changes(
    runs: Sequence[SortedRun],
    rules: MergeRules,
    columns: Sequence[str],
    *,
    old_level: int | None,
    compared: Collection[str] | None,
    told: bool = True,
    superseded: Callable[[Indices], None] | None = None,
    batch_rows: int = 65536,
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[MergedRange]:
    """Merge sorted runs, and tell what changes.

    Args:
        runs: The runs. Of those that are `looked_up` only the rows count whose keys are on level
            0, too.
        rules: The table's rules for merging.
        columns: The table's columns, ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``.
        old_level: The level of the rows that were there; None takes, for the keys of level 0, the
            row on the lowest level above it, and tells nothing of other keys.
        compared: Columns; a row that has the same values in all of them has not changed. None
            tells of every row that another was merged with.
        told: False if the changes are not wanted.
        superseded: Told the `ROW_NUMBER` of each row that was looked up and has been merged, for
            the row merged takes its place.
        batch_rows: As in `merge_runs`.
        window_bytes: As in `merge_runs`.

    Raises:
        CorruptData: As `merge_runs`.
    """
    merge = RangeMerge(
        rules,
        columns,
        needs_age(runs, rules),
        keep_deletes=True,
        ordered=True,
        merges_new_keys=old_level is None,
    )
    for parts in key_ranges(runs, rules, batch_rows, window_bytes, with_keys=True):
        if old_level is None:
            fresh_keys = _distinct([part for part in parts if part.run.level == 0])
            parts = lowest_levels(_looked_up(parts, fresh_keys, superseded))
            old = [part for part in parts if part.run.level > 0]
        else:
            old = [part for part in parts if part.run.level == old_level]
            fresh_keys = _distinct([part for part in parts if part.run.level != old_level])
        parts = [part for part in parts if len(part.keys)]
        if not parts:
            continue
        keys = _distinct(parts)
        at = 0
        for rows in merge(parts):
            own = keys[at : at + rows.num_rows]
            at += rows.num_rows
            changed = np.flatnonzero(_among(own, fresh_keys))
            changes = _changes(rows, own, changed, old, compared) if told else None
            yield MergedRange(rows, changes)
        assert at == len(keys)


def _looked_up(
    parts: Sequence[RunPart], fresh_keys: Comparable, superseded: Callable[[Indices], None] | None
) -> list[RunPart]:
    """The rows to merge: of those that are looked up the ones with keys of level 0."""
    found: list[RunPart] = []
    for part in parts:
        run = part.run
        if run.looked_up:
            part = part.only(_among(part.keys, fresh_keys))
            if superseded is not None and len(part.keys):
                superseded(_numbers(part.batch))
            if run.kept is not None:
                kept = _numbers(run.kept(part.batch))
                part = part.only(np.isin(_numbers(part.batch), kept, assume_unique=True))
        if not run.numbers_only:
            found.append(part)
    return found


def _numbers(batch: pa.RecordBatch) -> Indices:
    numbers: Indices = batch.column(ROW_NUMBER).to_numpy()
    return numbers


def _changes(
    rows: pa.RecordBatch,
    keys: Comparable,
    changed: Indices,
    old: Sequence[RunPart],
    compared: Collection[str] | None,
) -> pa.RecordBatch:
    """The changes of some rows.

    Args:
        rows: Merged rows.
        keys: Their keys.
        changed: The positions of rows that may have changed.
        old: The rows that were there.
        compared: As in `merge_changes`.
    """
    before, place = _found(old, keys[changed], rows.schema)
    kinds = numpy_values(rows.column(KIND_FIELD.name))[changed]
    adds = (kinds & 1) == 0
    # A row that retracts was none.
    was = (numpy_values(before.column(KIND_FIELD.name)) & 1) == 0
    there = place != _ABSENT
    there[there] = was[place[there]]
    told = adds | there
    both = np.flatnonzero(adds & there)
    if compared is not None and len(both):
        same = equal_rows(before, place[both], rows, changed[both], compared)
        told[both[same]] = False
    # The old row of each change, then the new one.
    has_old, has_new = told & there, told & adds
    order = np.concatenate([np.flatnonzero(has_old) * 2, np.flatnonzero(has_new) * 2 + 1])
    sources = np.concatenate([place[has_old], before.num_rows + changed[has_new]])
    change_kinds = np.concatenate(
        [
            np.where(adds, RowKind.UPDATE_BEFORE, RowKind.DELETE)[has_old],
            np.where(there, RowKind.UPDATE_AFTER, RowKind.INSERT)[has_new],
        ]
    )
    sorting = np.argsort(order)
    taken = take_rows([before, rows], sources[sorting].astype(np.int64))
    at = taken.schema.get_field_index(KIND_FIELD.name)
    told_kinds = arrow_values(change_kinds[sorting].astype(np.int8))
    return taken.set_column(at, taken.schema.field(at), told_kinds)


def _found(
    old: Sequence[RunPart], keys: Comparable, schema: pa.Schema
) -> tuple[pa.RecordBatch, Indices]:
    """The old rows of some keys, and for each key the position of its row among them."""
    place = np.full(len(keys), _ABSENT, np.int64)
    picked: list[pa.RecordBatch] = []
    count = 0
    for part in old:
        if not len(part.keys):
            continue
        at = np.searchsorted(part.keys, keys)
        at[at == len(part.keys)] = 0
        met = part.keys[at] == keys
        rows = part.batch.take(arrow_values(at[met]))
        place[met] = count + np.arange(rows.num_rows)
        count += rows.num_rows
        if KIND_FIELD.name not in rows.schema.names:
            kinds = arrow_values(np.zeros(rows.num_rows, np.int8))
            rows = rows.append_column(KIND_FIELD.name, kinds)
        picked.append(pa.RecordBatch.from_arrays(rows.select(schema.names).columns, schema=schema))
    if not picked:
        # Arrow loads pandas, some 40 MiB, to make rows of Python's values, even of none.
        columns = [pa.nulls(0, each.type) for each in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema), place
    return pa.concat_batches(picked), place


def equal_rows(
    one: pa.RecordBatch,
    ones: Indices,
    other: pa.RecordBatch,
    others: Indices,
    columns: Collection[str],
) -> Mask:
    """A mask of the pairs of rows that have the same values in some columns.

    Args:
        one: Some rows.
        ones: The position of each pair's first row in `one`.
        other: Some rows.
        others: The position of each pair's second row in `other`.
        columns: The columns.
    """
    same = np.ones(len(ones), np.bool_)
    for name in columns:
        left = one.column(name).take(arrow_values(ones))
        right = other.column(name).take(arrow_values(others))
        same &= _equal_values(left, right)
    return same


def _equal_values(left: pa.Array, right: pa.Array) -> Mask:
    if pa.types.is_nested(left.type):
        # Here, as most tables have no nested columns.
        import polars as pl

        equal = pl.Series(left).eq_missing(pl.Series(right))
        mask: Mask = equal.to_numpy().astype(np.bool_)
        unlike = np.flatnonzero(~mask)
        if len(unlike) and holds_maps(left.type):
            # The entries of a map have no order.
            pairs = [ordered_maps(side.take(arrow_values(unlike))) for side in (left, right)]
            again = pl.Series(pairs[0]).eq_missing(pl.Series(pairs[1]))
            mask[unlike] = again.to_numpy()
        return mask
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    equal_values = pc.or_(pc.fill_null(pc.equal(left, right), False), both_null)
    return numpy_mask(equal_values)


def _distinct(parts: Sequence[RunPart]) -> Comparable:
    """The keys of some parts, sorted."""
    if not parts:
        return np.empty(0, np.int64)
    keys = np.sort(concatenate([part.keys for part in parts]), kind="stable")
    begins = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=begins[1:])
    return keys[begins]


def _among(keys: Comparable, others: Comparable) -> Mask:
    """A mask of the keys that are among sorted others."""
    if not len(others):
        return np.zeros(len(keys), np.bool_)
    at = np.searchsorted(others, keys)
    at[at == len(others)] = 0
    found: Mask = others[at] == keys
    return found
