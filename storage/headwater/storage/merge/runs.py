"""The merge of sorted runs, a key range at a time.

Within a range, rows whose key no other run has stay as they are; the merge engine is given the
others. Nothing but keys is compared, and what stays is filtered column by column, so that merging
a few upserts into a large run costs what the upserts cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.merge.engine import Indices, Mask, PickingEngine, RowGroups
from headwater.storage.merge.groups import (
    groups_of_rows,
    picked_among,
    picked_of_groups,
    picked_rows,
    shared_keys,
    shared_out,
    sort_groups,
)
from headwater.storage.merge.key_ranges import key_ranges
from headwater.storage.merge.rules import MergeRules, added_rows
from headwater.storage.merge.sorted_run import RunPart, SortedRun
from headwater.storage.rows.gather import gather, kept_rows, take_rows
from headwater.storage.rows.ordering import Comparable, concatenate, words
from headwater.storage.types.arrow_numbers import arrow_values, numpy_mask

__all__ = ["WINDOW_BYTES", "RangeMerge", "lowest_levels", "merge_runs", "needs_age"]

WINDOW_BYTES = 32 * 1024**2
"""The approximate size of the rows held of all runs, unless something else is asked for."""


def needs_age(runs: Sequence[SortedRun], rules: MergeRules) -> bool:
    """True if rows must be compared one by one, or a newer run's rows are newer as a whole."""
    if rules.sequence_fields:
        return True
    compared = [run for run in runs if not (run.keys_only or run.numbers_only)]
    ordered = sorted(compared, key=lambda run: (run.rank, run.min_sequence))
    return any(
        older.rank == newer.rank and older.max_sequence >= newer.min_sequence
        for older, newer in pairwise(ordered)
    )


def merge_runs(
    runs: Sequence[SortedRun],
    rules: MergeRules,
    columns: Sequence[str],
    *,
    keep_deletes: bool = False,
    ordered: bool = False,
    wanted: Callable[[pa.RecordBatch], Mask] | None = None,
    batch_rows: int = 65536,
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs into distinct keys.

    Args:
        runs: The runs. Sequence numbers tell which is newer; where they are equal, the later.
        rules: The table's rules for merging.
        columns: The columns of the result; ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND`` may be among
            them when every run's batches hold them.
        keep_deletes: Keep the keys whose merged row retracts, with that row.
        ordered: Sort the result by key, within and across batches.
        wanted: A hint: a mask of the rows of the result that are wanted, by the result's columns.
        batch_rows: Rows of all runs that are held, about; runs with more rows have a larger share.
        window_bytes: Bytes of all rows that are held, about.

    Raises:
        CorruptData: A run is not sorted by key, or holds a key twice; or it holds retracting
            rows, which the merge engine refuses.
    """
    by_age = needs_age(runs, rules)
    merge = RangeMerge(rules, columns, by_age, keep_deletes, ordered, wanted=wanted)
    for parts in key_ranges(runs, rules, batch_rows, window_bytes):
        yield from merge(parts)


@dataclass
class RangeMerge:
    """The merge of the rows of one key range.

    Attributes:
        merges_new_keys: True if the engine merges a row of level 0 also where it is its key's
            only one, as it does when older rows are looked up (``LookupMergeFunction.java``).
        wanted: As in `merge_runs`.
    """

    rules: MergeRules
    columns: Sequence[str]
    by_age: bool
    keep_deletes: bool
    ordered: bool
    merges_new_keys: bool = False
    wanted: Callable[[pa.RecordBatch], Mask] | None = None

    def __call__(self, parts: Sequence[RunPart]) -> Iterator[pa.RecordBatch]:
        """The merged rows.

        Args:
            parts: The rows of each run, the oldest run first.
        """
        if self.rules.lowest_level_counts:
            parts = lowest_levels(parts)
        keys = [part.keys for part in parts]
        engine = self.rules.engine
        picking = engine if isinstance(engine, PickingEngine) else None
        if picking is not None and not self.by_age and len(parts) > 1:
            if self.wanted is None:
                picked = picked_rows(keys, newest=picking.newest)
            else:
                # A row that such an engine picks is as it was: what it is judged by is known now.
                wanted = [
                    np.zeros(len(part.keys), np.bool_)
                    if part.run.keys_only
                    else self.wanted(part.batch)
                    for part in parts
                ]
                picked = picked_among(keys, wanted, newest=picking.newest)
            yield from self._result(parts, picked)
            return
        if self.merges_new_keys and picking is None:
            rows, firsts = _shared_or_new_keys(parts)
        else:
            rows, firsts = shared_keys(keys)
        if not len(firsts):
            yield from self._result(parts, None)
            return
        if picking is not None:
            age = self._age(parts, rows)
            staying = rows[picked_of_groups(firsts, age, newest=picking.newest)]
            yield from self._result(parts, _masks(parts, rows, staying))
            return
        if self.by_age:
            rows = rows[sort_groups(firsts, self._age(parts, rows))]
        merged = self.rules.merge(
            RowGroups(len(rows), firsts, lambda names: _pick(parts, rows, names)), self.columns
        )
        if isinstance(merged, pa.RecordBatch):
            yield from self._result(parts, _masks(parts, rows), merged, rows[firsts])
        else:
            yield from self._result(parts, _masks(parts, rows, rows[merged]))

    def _age(self, parts: Sequence[RunPart], rows: Indices) -> list[Comparable]:
        """Numbers that are greater for newer rows, the most significant first."""
        sizes = [part.batch.num_rows for part in parts]
        ranks = [part.run.rank for part in parts]
        if all(part.run.keys_only for part in parts):
            return [np.repeat(ranks, sizes)[rows]]
        if len(set(ranks)) == 1:
            return words(self.rules.newness(_pick(parts, rows, self.rules.age_columns)))
        keys_only = np.repeat([part.run.keys_only for part in parts], sizes)[rows]
        compared = np.flatnonzero(~keys_only)
        known = self.rules.newness(_pick(parts, rows[compared], self.rules.age_columns))
        newness = np.zeros(len(rows), known.dtype)
        newness[compared] = known
        return [np.repeat(ranks, sizes)[rows], *words(newness)]

    def _result(
        self,
        parts: Sequence[RunPart],
        stays: Sequence[Mask] | None,
        merged: pa.RecordBatch | None = None,
        merged_rows: Indices | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that stay as they are, run by run, and the merged ones.

        Args:
            parts: The rows of each run.
            stays: Masks of the rows of each that stay as they are; None means all.
            merged: Rows that take the place of others.
            merged_rows: A row of the same key for each of `merged`.
        """
        batches: list[pa.RecordBatch] = []
        keys: list[Comparable] = []
        for at, part in enumerate(parts):
            if not part.run.keys_only:
                mask = None if stays is None else stays[at]
                self._add(part.batch, part.keys, mask, batches, keys)
        if merged is not None:
            assert merged_rows is not None
            every = concatenate([part.keys for part in parts])
            self._add(merged, every[merged_rows] if len(every) else every, None, batches, keys)
        if self.ordered and len(batches) > 1:
            # Sorted runs end to end are what a merge sort is best at.
            yield from gather(batches, np.argsort(concatenate(keys), kind="stable"))
        else:
            yield from batches

    def _add(
        self,
        batch: pa.RecordBatch,
        own_keys: Comparable,
        mask: Mask | None,
        batches: list[pa.RecordBatch],
        keys: list[Comparable],
    ) -> None:
        """Add the rows of a batch that stay, and their keys."""
        added = None if self.keep_deletes else added_rows(batch)
        if added is not None:
            own: Mask = numpy_mask(added)
            mask = own if mask is None else mask & own
        batch = batch.select(self.columns)
        if mask is not None:
            batch = kept_rows(batch, mask)
            own_keys = own_keys[mask] if self.ordered and len(own_keys) else own_keys
        if batch.num_rows:
            batches.append(batch)
            keys.append(own_keys)


def _shared_or_new_keys(parts: Sequence[RunPart]) -> tuple[Indices, Indices]:
    """As `shared_keys`, with the keys besides that a row of level 0 has for itself."""
    rows, firsts = groups_of_rows(concatenate([part.keys for part in parts]))
    sizes = np.diff(np.append(firsts, len(rows)))
    lengths = [len(part.keys) for part in parts]
    is_new = np.repeat([part.run.level == 0 for part in parts], lengths)[rows[firsts]]
    merged = (sizes > 1) | is_new
    return rows[np.repeat(merged, sizes)], np.cumsum(sizes[merged]) - sizes[merged]


def lowest_levels(parts: Sequence[RunPart]) -> list[RunPart]:
    """The rows of level 0, and of those above it the one on its key's lowest level."""
    compacted = sorted((part for part in parts if part.run.level), key=lambda one: -one.run.level)
    if len(compacted) < 2:
        return list(parts)
    masks = picked_rows([part.keys for part in compacted], newest=True)
    if masks is None:
        return list(parts)
    kept = {id(part): part.only(mask) for part, mask in zip(compacted, masks, strict=True)}
    return [kept.get(id(part), part) for part in parts]


def _masks(parts: Sequence[RunPart], rows: Indices, staying: Indices | None = None) -> list[Mask]:
    """Masks of the rows of each part but for some, and again those of them that stay."""
    mask = np.ones(sum(part.batch.num_rows for part in parts), np.bool_)
    mask[rows] = False
    if staying is not None:
        mask[staying] = True
    return shared_out(mask, [part.keys for part in parts])


def _pick(parts: Sequence[RunPart], rows: Indices, names: Sequence[str]) -> pa.RecordBatch:
    """Columns of some rows, numbered across the parts, none of them a row of keys alone."""
    whole = [part for part in parts if not part.run.keys_only]
    if len(whole) < len(parts):
        sizes = np.array([part.batch.num_rows for part in parts])
        skipped = np.array([part.run.keys_only for part in parts]) * sizes
        part_of_row = np.searchsorted(np.cumsum(sizes), rows, side="right")
        rows = rows - np.cumsum(skipped)[part_of_row]
    return take_rows([_select(part.batch, names) for part in whole], rows)


def _select(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Columns of a batch; ``_VALUE_KIND`` is left out of those in which no row retracts."""
    kind = KIND_FIELD.name
    if kind in names and kind not in batch.schema.names:
        batch = batch.append_column(kind, arrow_values(np.zeros(batch.num_rows, np.int8)))
    return batch.select(list(names))
