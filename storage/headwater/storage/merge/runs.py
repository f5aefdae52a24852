"""A walk over sorted runs, a key range at a time: as far as every run has been read, no further.

Within a range, rows whose key no other run has stay as they are; the merge engine is given the
others. Nothing but keys is compared, and what stays is filtered column by column, so that merging
a few upserts into a large run costs what the upserts cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headwater.storage.errors import CorruptData
from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.merge.engine import Indices, Mask, PickingEngine, RowGroups
from headwater.storage.merge.groups import (
    groups_of_rows,
    picked_of_groups,
    picked_rows,
    shared_keys,
    shared_out,
    sort_groups,
)
from headwater.storage.merge.rules import MergeRules, added_rows
from headwater.storage.rows.gather import gather, kept_rows, take_rows
from headwater.storage.rows.narrow_order import KeySpan, NarrowEncoding, NarrowOrder
from headwater.storage.rows.ordering import Comparable, Encoding, concatenate, words
from headwater.storage.types.arrow_numbers import arrow_values, numpy_mask

__all__ = [
    "ROW_NUMBER",
    "WINDOW_BYTES",
    "RangeMerge",
    "RunPart",
    "SortedRun",
    "key_ranges",
    "lowest_levels",
    "merge_runs",
    "needs_age",
]

ROW_NUMBER = "_ROW_NUMBER"
"""A column that tells the rows of all files apart that are looked up."""
WINDOW_BYTES = 32 * 1024**2
"""The approximate size of the rows held of all runs, unless something else is asked for."""
_LEAST_BATCH = 256
# A small run's batches cover so many times the keys that the greatest run's do.
_READ_AHEAD = 3
# However few rows a run has, it may hold this part of an equal share of the bytes.
_LEAST_SHARE = 4


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
        keys_only: True if the rows take part without being returned: batches hold the keys alone,
            and a key whose oldest row is here is left out of the result. Its rank is its own.
        level: The level of the files.
        looked_up: True if only those rows take part whose key is on level 0, too.
        numbers_only: True if even those are not merged, but only told of as superseded: batches
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
        batch_rows: Rows of all runs that are held, about; runs with more rows have a larger share.
        window_bytes: Bytes of all rows that are held, about.

    Raises:
        CorruptData: A run is not sorted by key, or holds a key twice; or it holds retracting
            rows, which the merge engine refuses.
    """
    merge = RangeMerge(rules, columns, needs_age(runs, rules), keep_deletes, ordered)
    for parts in key_ranges(runs, rules, batch_rows, window_bytes):
        yield from merge(parts)


def key_ranges(
    runs: Sequence[SortedRun],
    rules: MergeRules,
    batch_rows: int,
    window_bytes: int,
    *,
    with_keys: bool = False,
) -> Iterator[list[RunPart]]:
    """The rows of sorted runs by key range: those of a key are together.

    Args:
        runs: As for `merge_runs`.
        rules: As for `merge_runs`.
        batch_rows: As for `merge_runs`.
        window_bytes: As for `merge_runs`.
        with_keys: Give the keys also where no other run has rows.

    Returns:
        The rows of each run that has some, the oldest run first.

    Raises:
        CorruptData: As `merge_runs`.
    """
    by_age = sorted(runs, key=lambda run: (run.rank, run.max_sequence, run.min_sequence))
    narrow = NarrowOrder.of(rules.key_order)
    cursors = [
        _Cursor(
            run,
            rules,
            narrow,
            max(_LEAST_BATCH, int(batch_rows * share)),
            max(int(window_bytes * share), window_bytes // (_LEAST_SHARE * len(runs))),
        )
        for run, share in zip(by_age, _shares(by_age), strict=True)
    ]
    while True:
        live = [cursor for cursor in cursors if cursor.fill()]
        if not live:
            return
        if len(live) == 1 and not with_keys:
            yield [live[0].take_all()]
            continue
        _encode(live, rules, narrow)
        bound = np.sort(concatenate([cursor.last_key for cursor in live]))[:1]
        yield [part for cursor in live if len((part := cursor.take(bound)).keys)]


def _shares(runs: Sequence[SortedRun]) -> list[float]:
    """The share of each run in what is held of all.

    In proportion to the runs' rows their batches would cover about the same keys, but end a little
    one before another, and each end is a key range of its own. So small runs are read ahead of
    great ones: their batches end more rarely.
    """
    greatest = max((run.row_count for run in runs), default=0)
    weights = [max(1, min(_READ_AHEAD * run.row_count, greatest)) for run in runs]
    return [weight / sum(weights) for weight in weights]


@dataclass
class RunPart:
    """The rows of one run in one key range; `keys` is empty when there is no other run."""

    run: SortedRun
    batch: pa.RecordBatch
    keys: Comparable

    def only(self, mask: Mask) -> RunPart:
        """Some of the rows."""
        return RunPart(self.run, kept_rows(self.batch, mask), self.keys[mask])


@dataclass
class _Cursor:
    """A reading position in a run."""

    run: SortedRun
    rules: MergeRules
    narrow: NarrowOrder | None
    batch_rows: int
    most_bytes: int
    batch: pa.RecordBatch | None = None
    widths: tuple[int, ...] = ()
    span: KeySpan | None = None
    encoding: Encoding | NarrowEncoding | None = None
    _keys: Comparable | None = None
    _last: list[pa.Array] | None = None
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _source: Iterator[pa.RecordBatch] | None = None

    def fill(self) -> bool:
        """Load rows; False when the run is exhausted."""
        while self.batch is None or self.batch.num_rows == 0:
            if not self._waiting and not self._read():
                return False
            self.batch = self._waiting.pop()
            self._keys = self.encoding = None
            half = self.batch.num_rows // 2
            if half and self.batch.nbytes > self.most_bytes:
                self._waiting += [self.batch.slice(half), self.batch.slice(0, half)]
                self.batch = None
                continue
            if self.narrow is not None:
                self.span = self.narrow.span(self.key_columns)
            if self.rules.key_order.fixed is None:
                self.widths = self.rules.key_order.widths(self.key_columns)
        return True

    def _read(self) -> bool:
        if self._source is None:
            # A little more than asked for is still no reason to part the batch.
            self._source = self.run.read(self.batch_rows, self.most_bytes * 7 // 8)
        batch = next(self._source, None)
        if batch is None:
            return False
        if self.rules.ignore_delete or not self.rules.engine.takes_retractions:
            added = added_rows(batch)
            if added is not None and not self.rules.ignore_delete:
                raise CorruptData(
                    f"{self.run.name} holds rows of kind -U or -D, which the table's merge-engine "
                    "does not take; set 'ignore-delete' to pass over them"
                )
            batch = batch if added is None else batch.filter(added)
        self._waiting.append(batch)
        return True

    @property
    def key_columns(self) -> list[pa.Array]:
        """The keys of the loaded rows."""
        assert self.batch is not None
        return [self.batch.column(name) for name in self.rules.keys]

    def encode(self, encoding: Encoding | NarrowEncoding) -> None:
        """Have the keys comparable with those of the other runs."""
        if self.encoding == encoding:
            return
        keys = self.key_columns
        fresh = self.encoding is None
        order = self.rules.key_order
        if isinstance(encoding, NarrowEncoding):
            self._keys = encoding.encode(keys)
        else:
            self._keys = order.encode(keys, encoding)
        self.encoding = encoding
        if not fresh:
            return
        ascending = bool(np.all(np.greater(self._keys[1:], self._keys[:-1])))
        if self._last is not None:
            both = [
                pa.concat_arrays([last, key.slice(0, 1)])
                for last, key in zip(self._last, keys, strict=True)
            ]
            before_and_after = order.encode(both)
            ascending &= bool(np.less(before_and_after[:1], before_and_after[1:])[0])
        if not ascending:
            raise CorruptData(
                f"{self.run.name} is not sorted by key, or holds a key twice; it cannot be merged"
            )
        self._last = [key.slice(len(key) - 1) for key in keys]

    @property
    def last_key(self) -> Comparable:
        """The greatest loaded key, an array of one."""
        assert self._keys is not None
        return self._keys[-1:]

    def take(self, bound: Comparable) -> RunPart:
        """The rows up to a key, inclusive."""
        assert self.batch is not None
        assert self._keys is not None
        count = int(np.searchsorted(self._keys, bound, side="right")[0])
        part = RunPart(self.run, self.batch.slice(0, count), self._keys[:count])
        self.batch = self.batch.slice(count)
        self._keys = self._keys[count:]
        return part

    def take_all(self) -> RunPart:
        """All loaded rows."""
        assert self.batch is not None
        part = RunPart(self.run, self.batch, np.empty(0, np.int64))
        self.batch = self._keys = None
        return part


def _encode(live: Sequence[_Cursor], rules: MergeRules, narrow: NarrowOrder | None) -> None:
    """Have the keys of all runs comparable; rows that were read before may be so already."""
    if all(cursor.encoding is not None for cursor in live):
        return
    encoding = _shared_encoding(live, narrow) or rules.key_order.fixed
    if encoding is None:
        keys = [cursor.key_columns for cursor in live]
        encoding = rules.key_order.encoding(keys, [cursor.widths for cursor in live])
    for cursor in live:
        cursor.encode(encoding)


def _shared_encoding(live: Sequence[_Cursor], narrow: NarrowOrder | None) -> NarrowEncoding | None:
    """An encoding as integers, one in use as long as it holds all keys."""
    if narrow is None:
        return None
    spans = [cursor.span for cursor in live]
    for cursor in live:
        used = cursor.encoding
        if isinstance(used, NarrowEncoding) and all(
            span is not None and used.holds(span) for span in spans
        ):
            return used
    return narrow.encoding(spans)


@dataclass
class RangeMerge:
    """The merge of the rows of one key range.

    Attributes:
        merges_new_keys: True if the engine merges a row of level 0 also where it is its key's
            only one, as it does when older rows are looked up (``LookupMergeFunction.java``).
    """

    rules: MergeRules
    columns: Sequence[str]
    by_age: bool
    keep_deletes: bool
    ordered: bool
    merges_new_keys: bool = False

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
            yield from self._result(parts, picked_rows(keys, newest=picking.newest))
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
