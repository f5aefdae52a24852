"""A walk over sorted runs, a key range at a time: as far as every run has been read, no further."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.storage.errors import CorruptData
from headwater.storage.merge.rules import MergeRules, added_rows
from headwater.storage.merge.sorted_run import RunPart, SortedRun
from headwater.storage.rows.narrow_order import KeySpan, NarrowEncoding, NarrowOrder
from headwater.storage.rows.ordering import Comparable, Encoding, concatenate

__all__ = ["key_ranges"]

_LEAST_BATCH = 256
# A small run's batches cover so many times the keys that the greatest run's do.
_READ_AHEAD = 3
# However few rows a run has, it may hold this part of an equal share of the bytes.
_LEAST_SHARE = 4


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
