"""The deduplicate merge engine: of the rows of one primary key, the newest stays.

Which row is the newest: the one with the greatest ``sequence.field`` values, then the greatest
sequence number, then an added row before a retracting one (``DeduplicateMergeFunction.java``,
``SortMergeReaderWithMinHeap.java``, ``UserDefinedSeqComparator.java``). When that row retracts
(``-U``, ``-D``), the key is gone.

Sorted runs are merged a key range at a time: as far as every run has been read, no further. Within
a range the rows of the smaller runs are looked up in the greatest one, so that merging a few
upserts into a large run costs what the upserts cost; nothing but the keys is compared, and what
stays is filtered column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import CorruptData
from headwater.storage.formats.system_columns import KIND_FIELD, SEQUENCE_FIELD
from headwater.storage.rows.ordering import Comparable, OrderColumn, RowOrder, argsort, concatenate
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import to_arrow

__all__ = [
    "MergeRules",
    "SortedRun",
    "added_rows",
    "deduplicate",
    "merge_runs",
    "needs_sequence",
]

Mask = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]

_ENCODED_BYTES = 32 * 1024**2
_LEAST_BATCH = 1024


@dataclass(frozen=True)
class MergeRules:
    """The rules by which a table's rows are merged.

    Attributes:
        keys: Key columns, in the order files are sorted by.
        sequence_fields: Columns that decide before the sequence number does.
        key_order: The order of `keys`.
        sequence_order: The order of `sequence_fields`, newest greatest.
        ignore_delete: Whether retracting rows count for nothing.
    """

    keys: tuple[str, ...]
    sequence_fields: tuple[str, ...]
    key_order: RowOrder
    sequence_order: RowOrder
    ignore_delete: bool

    @staticmethod
    def of(schema: TableSchema) -> MergeRules:
        """The rules of a primary-key table; the columns are called as in its schema."""
        options = schema.table_options
        sequence = schema.columns(options.sequence_fields)
        descending = options.sequence_descending
        return MergeRules(
            tuple(item.name for item in schema.key_fields),
            options.sequence_fields,
            RowOrder([OrderColumn(to_arrow(item.type)) for item in schema.key_fields]),
            RowOrder([OrderColumn(to_arrow(item.type), True, descending) for item in sequence]),
            options.ignore_delete,
        )


@dataclass(frozen=True)
class SortedRun:
    """Files whose rows are sorted by key and whose keys are distinct.

    Attributes:
        name: How errors call it.
        read: Gives the rows in batches of about so many rows. A batch holds the key columns and
            whatever is wanted; when `needs_sequence` is true also the sequence fields,
            ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``; when not, ``_VALUE_KIND`` may be left out of
            a batch in which no row retracts.
        row_count: Rows.
        min_sequence: The smallest sequence number.
        max_sequence: The greatest.
    """

    name: str
    read: Callable[[int], Iterator[pa.RecordBatch]]
    row_count: int
    min_sequence: int
    max_sequence: int


class _Aged(Protocol):
    @property
    def min_sequence(self) -> int: ...
    @property
    def max_sequence(self) -> int: ...


def needs_sequence(runs: Sequence[_Aged], rules: MergeRules) -> bool:
    """True if rows must be compared one by one; else a newer run's rows win as a whole."""
    if rules.sequence_fields:
        return True
    ordered = sorted(runs, key=lambda run: run.min_sequence)
    return any(older.max_sequence >= newer.min_sequence for older, newer in pairwise(ordered))


def merge_runs(
    runs: Sequence[SortedRun],
    rules: MergeRules,
    columns: Sequence[str],
    *,
    keep_deletes: bool = False,
    ordered: bool = False,
    batch_rows: int = 65536,
) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs into distinct keys.

    Args:
        runs: The runs. Sequence numbers tell which is newer; where they are equal, the later.
        rules: How rows are merged.
        columns: The columns of the result; ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND`` may be among
            them when every run's batches hold them.
        keep_deletes: Whether keys whose newest row retracts stay, with that row.
        ordered: Whether the result is sorted by key, each batch and across batches.
        batch_rows: Rows read at a time from the greatest run; so many of each, at most, are held.

    Raises:
        CorruptData: A run is not sorted by key, or holds a key twice.
    """
    merge = _Merge(rules, columns, needs_sequence(runs, rules), keep_deletes)
    longest = max((run.row_count for run in runs), default=1) or 1
    by_age = sorted(runs, key=lambda run: (run.max_sequence, run.min_sequence))
    cursors = [
        _Cursor(
            run,
            age,
            merge,
            # In proportion, so that the runs' batches cover about the same keys.
            max(_LEAST_BATCH, batch_rows * run.row_count // longest),
        )
        for age, run in enumerate(by_age)
    ]
    while True:
        live = [cursor for cursor in cursors if cursor.fill()]
        if not live:
            return
        merge.encode(live)
        if len(live) == 1:
            parts = [live[0].take_all()]
        else:
            bound = np.sort(concatenate([cursor.last_key for cursor in live]))[:1]
            parts = [part for cursor in live if len((part := cursor.take(bound)).rows)]
        merge.settle(parts)
        yield from merge.in_order(parts) if ordered else merge.survivors(parts)


def added_rows(batch: pa.RecordBatch) -> pa.BooleanArray | None:
    """Which rows of a batch do not retract; None when all do not."""
    at = batch.schema.get_field_index(KIND_FIELD.name)
    if at < 0:
        return None
    kinds = batch.column(at)
    added = pc.not_equal(pc.bit_wise_and(kinds, pa.scalar(1, pa.int8())), pa.scalar(1, pa.int8()))
    return None if pc.all(added).as_py() else added


def deduplicate(table: pa.Table, rules: MergeRules) -> pa.Table:
    """Rows in any order as a sorted run: sorted by key, the newest row of each key.

    Args:
        table: The key columns, the sequence fields, ``_SEQUENCE_NUMBER``, and whatever else.
        rules: How rows are merged. With `ignore_delete`, retracting rows are dropped.
    """
    if table.num_rows == 0:
        return table
    batch = table.combine_chunks().to_batches()[0]
    if rules.ignore_delete and (added := added_rows(batch)) is not None:
        batch = batch.filter(added)
    keys = rules.key_order.encode([batch.column(name) for name in rules.keys])
    newness = _newness(batch, rules)
    if np.all(np.greater_equal(newness[1:], newness[:-1])):
        order = argsort(keys)
    else:
        oldest_first = np.argsort(newness, kind="stable")
        order = oldest_first[argsort(keys[oldest_first])]
    order = order[_last_of_group(keys[order])]
    return pa.Table.from_batches([batch.take(pa.array(order))])


def _last_of_group(ordered: Comparable) -> Mask:
    last = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=last[:-1])
    return last


def _newness(batch: pa.RecordBatch, rules: MergeRules) -> Comparable:
    """A comparable array that is greater for newer rows of one key."""
    numbers = batch.column(SEQUENCE_FIELD.name)
    at = batch.schema.get_field_index(KIND_FIELD.name)
    columns = [OrderColumn(pa.int64())]
    arrays = [numbers]
    if at >= 0:
        retracting = pc.equal(
            pc.bit_wise_and(batch.column(at), pa.scalar(1, pa.int8())), pa.scalar(1, pa.int8())
        )
        columns.append(OrderColumn(pa.bool_()))
        arrays.append(pc.invert(retracting))
    own = rules.sequence_order.columns
    if not own:
        # Nearly always enough, and an array of integers is much the faster.
        return RowOrder(columns[:1]).encode(arrays[:1]) if at < 0 else _with_kind(columns, arrays)
    order = RowOrder([*own, *columns])
    return order.encode([*(batch.column(name) for name in rules.sequence_fields), *arrays])


def _with_kind(columns: Sequence[OrderColumn], arrays: Sequence[pa.Array]) -> Comparable:
    if pc.all(arrays[1]).as_py():
        return RowOrder(columns[:1]).encode(arrays[:1])
    return RowOrder(columns).encode(arrays)


@dataclass
class _Part:
    """The rows of one run in one key range."""

    age: int
    batch: pa.RecordBatch
    rows: Comparable
    alive: Mask | None = None

    def kill(self, positions: Indices) -> None:
        if self.alive is None:
            self.alive = np.ones(self.batch.num_rows, np.bool_)
        self.alive[positions] = False


@dataclass
class _Cursor:
    """How far a run has been read and merged."""

    run: SortedRun
    age: int
    merge: _Merge
    batch_rows: int
    batch: pa.RecordBatch | None = None
    rows: Comparable | None = None
    widths: tuple[int, ...] = ()
    _encoded: tuple[int, ...] | None = None
    _last: tuple[pa.Array, ...] | None = None
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _source: Iterator[pa.RecordBatch] | None = None

    def fill(self) -> bool:
        """Have rows at hand; False when the run is exhausted."""
        while self.batch is None or self.batch.num_rows == 0:
            if not self._waiting and not self._read():
                return False
            self.batch = self._waiting.pop()
            self.rows = self._encoded = None
            self.widths = self.merge.rules.key_order.widths(self._keys(self.batch))
            half = self.batch.num_rows // 2
            if half and sum(self.widths) * self.batch.num_rows > _ENCODED_BYTES:
                self._waiting += [self.batch.slice(half), self.batch.slice(0, half)]
                self.batch = None
        return True

    def _read(self) -> bool:
        if self._source is None:
            self._source = self.run.read(self.batch_rows)
        batch = next(self._source, None)
        if batch is None:
            return False
        if self.merge.rules.ignore_delete and (added := added_rows(batch)) is not None:
            batch = batch.filter(added)
        self._waiting.append(batch)
        return True

    def _keys(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [batch.column(name) for name in self.merge.rules.keys]

    def encode(self, widths: tuple[int, ...]) -> None:
        """Have the keys comparable with those of the other runs."""
        if self._encoded == widths:
            return
        assert self.batch is not None
        fresh = self._encoded is None
        order = self.merge.rules.key_order
        keys = self._keys(self.batch)
        self.rows = order.encode(keys, widths)
        self._encoded = widths
        if not fresh:
            return
        ascending = bool(np.all(np.greater(self.rows[1:], self.rows[:-1])))
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
        self._last = tuple(key.slice(len(key) - 1) for key in keys)

    @property
    def last_key(self) -> Comparable:
        """The greatest key at hand, an array of one."""
        assert self.rows is not None
        return self.rows[-1:]

    def take(self, bound: Comparable) -> _Part:
        """The rows up to a key, inclusive."""
        assert self.batch is not None
        assert self.rows is not None
        count = int(np.searchsorted(self.rows, bound, side="right")[0])
        part = _Part(self.age, self.batch.slice(0, count), self.rows[:count])
        self.batch = self.batch.slice(count)
        self.rows = self.rows[count:]
        return part

    def take_all(self) -> _Part:
        """All rows at hand."""
        assert self.batch is not None
        rows = self.rows if self.rows is not None else np.empty(0, np.int64)
        part = _Part(self.age, self.batch, rows)
        self.batch = self.rows = None
        return part


def _share_out(alive: Mask, parts: Sequence[_Part]) -> None:
    start = 0
    for part in parts:
        part.alive = alive[start : start + part.batch.num_rows]
        start += part.batch.num_rows


@dataclass
class _Merge:
    """Decides, within one key range, which rows stay."""

    rules: MergeRules
    columns: Sequence[str]
    by_row: bool
    keep_deletes: bool

    def encode(self, live: Sequence[_Cursor]) -> None:
        if len(live) == 1:
            return
        widths = tuple(max(each) for each in zip(*(c.widths for c in live), strict=True))
        for cursor in live:
            cursor.encode(widths)

    def settle(self, parts: Sequence[_Part]) -> None:
        """Mark the rows that a newer row of their key supersedes."""
        if len(parts) < 2:
            return
        by_age = sorted(parts, key=lambda part: part.age)
        base = max(parts, key=lambda part: part.batch.num_rows)
        if self.by_row:
            self._settle_by_row(by_age)
        elif base.batch.num_rows * 2 < sum(part.batch.num_rows for part in parts):
            self._settle_by_age(by_age)
        else:
            self._settle_against(base, [part for part in by_age if part is not base])

    def _settle_against(self, base: _Part, rest: Sequence[_Part]) -> None:
        """Look the rows of the newer and older small parts up in a great one."""
        keys = concatenate([part.rows for part in rest])
        # The older of equal keys first; sorted runs end to end are what a merge sort is best at.
        order = np.argsort(keys, kind="stable")
        last = order[_last_of_group(keys[order])]
        distinct = keys[last]
        at = np.searchsorted(base.rows, distinct)
        at[at == len(base.rows)] = 0
        met = base.rows[at] == distinct
        ages = np.repeat([part.age for part in rest], [part.batch.num_rows for part in rest])
        wins = ages[last[met]] > base.age
        base.kill(at[met][wins])
        alive = np.zeros(len(keys), np.bool_)
        alive[last] = True
        alive[last[met][~wins]] = False
        _share_out(alive, rest)

    def _settle_by_age(self, parts: Sequence[_Part]) -> None:
        """Sort all keys: cheaper when no part is far greater than the others."""
        keys = concatenate([part.rows for part in parts])
        order = np.argsort(keys, kind="stable")
        last = _last_of_group(keys[order])
        if not last.all():
            alive = np.empty(len(keys), np.bool_)
            alive[order] = last
            _share_out(alive, parts)

    def _settle_by_row(self, parts: Sequence[_Part]) -> None:
        """Compare the rows of each key that occurs more than once."""
        keys = concatenate([part.rows for part in parts])
        order = np.argsort(keys, kind="stable")
        last = _last_of_group(keys[order])
        contested = ~last
        contested[1:] |= ~last[:-1]
        if not contested.any():
            return
        rows = order[contested]
        ends = last[contested]
        groups: Indices = np.cumsum(ends) - ends
        newness = self._newness(parts, rows)
        winner = np.flatnonzero(np.concatenate([[True], ends[:-1]]))
        place = np.arange(len(rows)) - winner[groups]
        # A run holds a key once, so there are as many rounds as runs at most. What is equally new
        # is decided by the runs' ages, in whose order the rows of a key stand.
        for turn in range(1, int(place.max()) + 1):
            challenger = np.flatnonzero(place == turn)
            group = groups[challenger]
            newer = np.greater_equal(newness[challenger], newness[winner[group]])
            winner[group[newer]] = challenger[newer]
        alive = np.ones(len(keys), np.bool_)
        alive[rows] = False
        alive[rows[winner]] = True
        _share_out(alive, parts)

    def _newness(self, parts: Sequence[_Part], rows: Indices) -> Comparable:
        """How new some rows are, numbered across the parts."""
        names = [*self.rules.sequence_fields, SEQUENCE_FIELD.name, KIND_FIELD.name]
        sizes = [part.batch.num_rows for part in parts]
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        by_part = np.argsort(rows)
        ends = np.searchsorted(rows[by_part], bounds)
        picked = [
            part.batch.select(names).take(pa.array(rows[by_part[start:end]] - first))
            for part, first, (start, end) in zip(parts, bounds[:-1], pairwise(ends), strict=True)
        ]
        found = _newness(pa.concat_batches(picked), self.rules)
        unsorted = np.empty_like(found)
        unsorted[by_part] = found
        return unsorted

    def _stays(self, part: _Part) -> Mask | None:
        added = None if self.keep_deletes else added_rows(part.batch)
        if added is None:
            return part.alive
        mask: Mask = added.to_numpy(zero_copy_only=False)
        return mask if part.alive is None else mask & part.alive

    def survivors(self, parts: Sequence[_Part]) -> Iterator[pa.RecordBatch]:
        """What stays, run by run."""
        for part in parts:
            mask = self._stays(part)
            batch = part.batch.select(self.columns)
            if mask is not None:
                batch = batch.filter(pa.array(mask))
            if batch.num_rows:
                yield batch

    def in_order(self, parts: Sequence[_Part]) -> Iterator[pa.RecordBatch]:
        """What stays, sorted by key."""
        batches = list(self.survivors(parts))
        if len(batches) > 1:
            masks = [self._stays(part) for part in parts]
            kept = [
                part.rows if mask is None else part.rows[mask]
                for part, mask in zip(parts, masks, strict=True)
            ]
            order = argsort(concatenate(kept))
            table = pa.Table.from_batches(batches).combine_chunks()
            batches = [table.to_batches()[0].take(pa.array(order))]
        yield from batches
