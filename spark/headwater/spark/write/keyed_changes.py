"""The changes of a primary-key table that a task gets, sorted by key: each key's once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.spark.row_change import LOSES, MATCHED, MOVES, Repeats, RowChange, RowCounts
from headwater.storage.errors import Invalid
from headwater.storage.maintenance.row_changes import LosingRows
from headwater.storage.merge.changes import equal_rows
from headwater.storage.merge.engine import Mask
from headwater.storage.options import MergeEngine
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.arrow_numbers import arrow_mask
from headwater.storage.write.table_writer import TableWriter

__all__ = ["KeyedChanges", "count_kinds"]


def count_kinds(kinds: pa.Array) -> RowCounts:
    """The rows of each kind."""
    counted = {item["values"]: item["counts"] for item in pc.value_counts(kinds).to_pylist()}
    updated = counted.get("+U", 0) + counted.get(LOSES, 0)
    return RowCounts(counted.get("+I", 0), updated, counted.get("-D", 0))


class KeyedChanges:
    """The changes of a primary-key table, which come sorted by key.

    Args:
        storage: The table.
        change: The change.

    Attributes:
        counts: The rows that change, so far.
    """

    def __init__(self, storage: TableStorage, change: RowChange) -> None:
        self._storage = storage
        self._rewrites = change.rewrites
        self._drops = change.repeats is Repeats.DROPPED
        self._replaces = change.repeats is Repeats.REPLACED
        schema = storage.schema
        options = schema.table_options
        self._keys = schema.primary_keys
        # Rows of one key are merged in an order of their own, whichever is written first.
        self._merges = bool(options.sequence_fields) or (
            options.merge_engine not in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW)
        )
        self._last: pa.RecordBatch | None = None
        self.counts = RowCounts()

    def write(self, batches: Iterable[pa.RecordBatch], writer: TableWriter) -> None:
        """Write what changes; for exceptions see `distinct`."""
        for changed in self.distinct(batches):
            deleted = pc.equal(changed.column(ROW_KIND_COLUMN), "-D")
            # What is taken back is what is there: its nulls are not default values.
            for wanted, keeps_nulls in ((deleted, True), (pc.invert(deleted), False)):
                part = changed.filter(wanted)
                if part.num_rows:
                    writer.write(part, keeps_nulls=keeps_nulls)

    def distinct(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The changes without rows that stay, and without a deletion for a second time.

        Raises:
            Invalid: It is not clear what a row becomes.
            LosingRows: Stored rows would win over new versions of theirs; it takes rewrites.
        """
        for batch in batches:
            if not batch.num_rows:
                continue
            changed = batch.filter(arrow_mask(self._wanted(batch)))
            self._last = batch.slice(batch.num_rows - 1)
            self.counts = self.counts.plus(count_kinds(changed.column(ROW_KIND_COLUMN)))
            yield changed

    def _wanted(self, batch: pa.RecordBatch) -> Mask:
        """A mask of the rows to be written."""
        kinds = batch.column(ROW_KIND_COLUMN)
        if not self._rewrites and pc.any(pc.equal(kinds, LOSES)).as_py():
            raise LosingRows
        if (moved := pc.sum(pc.equal(kinds, MOVES)).as_py()) > 0:
            raise Invalid(
                f"table {self._storage.name}: {moved} rows are to be updated to another primary "
                "key, which is not possible; match on the primary key, too, or delete the rows and "
                "write them again"
            )
        wanted: Mask = pc.not_equal(kinds, MATCHED).to_numpy(zero_copy_only=False)
        with_last = batch
        if self._last is not None:
            with_last = pa.concat_batches([self._last, batch])
        rows = np.arange(with_last.num_rows)
        same = equal_rows(with_last, rows[:-1], with_last, rows[1:], self._keys)
        if not same.any():
            return wanted
        names = with_last.column(ROW_KIND_COLUMN).dictionary_encode()
        codes = names.indices.to_numpy()
        known = names.dictionary.to_pylist()
        allowed = np.zeros(len(same), np.bool_)
        kind = {"+I": self._merges, "-D": self._drops}
        for code, name in enumerate(known):
            if kind.get(name, False):
                allowed |= (codes[:-1] == code) & (codes[1:] == code)
        if self._replaces and {"-D", "+I"} <= set(known):
            gone, new = known.index("-D"), known.index("+I")
            allowed |= (codes[:-1] == gone) & (codes[1:] == new)
        wrong = np.flatnonzero(same & ~allowed)
        if len(wrong):
            row = with_last.slice(int(wrong[0]), 1).select(list(self._keys)).to_pylist()[0]
            key = ", ".join(f"{name} = {value!r}" for name, value in row.items())
            raise Invalid(
                f"table {self._storage.name}: several rows of the source match or add the row with "
                f"{key}; make the source's rows distinct"
            )
        if self._drops:
            repeated = same & (codes[1:] == (known.index("-D") if "-D" in known else -1))
            wanted &= ~(repeated if self._last is not None else np.r_[False, repeated])
        return wanted
