"""Changes of a bucket's rows that come sorted by key, however many they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.maintenance.matched_rows import Matched
from headwater.storage.manifest.key_range import ComparableKey, comparable_key, key_range
from headwater.storage.merge.rules import MergeRules
from headwater.storage.predicate.filter import Predicate
from headwater.storage.rows.ordering import Comparable, argsort
from headwater.storage.scan.sections import Section
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.arrow_numbers import arrow_mask
from headwater.storage.types.values import storage_value

__all__ = ["KeyChanges", "SortedChanges"]

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class KeyChanges:
    """Changes of some rows, each of another key.

    Attributes:
        rows: New versions of rows, and rows that go, with the table's columns and types.
        goes: A mask of those that go.
    """

    rows: pa.Table
    goes: npt.NDArray[np.bool_]


class SortedChanges:
    """Finds the rows of a bucket that change, which are read by key, too.

    Held are the changes of one batch of rows at a time.

    Args:
        storage: The table, with a primary key.
        parts: The changes by key, ascending; -0.0 and 0.0 may come in any order.
    """

    def __init__(self, storage: TableStorage, parts: Iterator[KeyChanges]) -> None:
        rules = MergeRules.of(storage.schema)
        self._storage = storage
        self._keys = list(rules.keys)
        self._order = rules.key_order
        self._parts = parts
        self._held: KeyChanges | None = None

    @property
    def predicate(self) -> Predicate | None:
        """None: rows are found by their keys."""
        return None

    @property
    def changed(self) -> Collection[str] | None:
        """All columns: new versions are whole rows."""
        return self._storage.schema.field_by_name

    def may_change(self, section: Section) -> bool:
        """False if none of the changes to come is of a row of some files.

        Args:
            section: Files with greater keys than those that were asked for, or matched, before.
        """
        key = self._first_key()
        if key is None:
            return False
        return any(key <= key_range(self._storage, file)[1] for file in section.files)

    def match(self, rows: pa.RecordBatch) -> Matched:
        """The rows of a batch that change.

        Args:
            rows: Rows sorted by key, none of which occurs twice, after those of the last batch.

        Raises:
            Invalid: A row is to change that there is not.
        """
        if not rows.num_rows:
            return Matched(_NONE)
        self._hold_up_to(rows.slice(rows.num_rows - 1))
        held = self._held
        if held is None:
            return Matched(_NONE)
        own, wanted = self._encoded([self._columns(rows), self._columns(held.rows)])
        order = argsort(wanted)
        passed = order[wanted[order] <= own[-1]]
        at = np.searchsorted(own, wanted[passed])
        met = own[at] == wanted[passed]
        if not met.all():
            raise self._missing(held.rows.slice(int(passed[np.flatnonzero(~met)[0]]), 1))
        left = np.ones(len(wanted), np.bool_)
        left[passed] = False
        self._held = _some(held, left)
        goes = held.goes[passed]
        return Matched(at[~goes], held.rows.take(pa.array(passed[~goes])), at[goes])

    def finish(self) -> None:
        """Check that every change was of a row.

        Raises:
            Invalid: A row is to change that there is not.
        """
        if self._first_key() is not None:
            assert self._held is not None
            raise self._missing(self._held.rows.slice(0, 1))

    def _first_key(self) -> ComparableKey | None:
        """The least key of the changes to come; None when there are no more."""
        if self._held is None and not self._hold_more():
            return None
        assert self._held is not None
        values = [
            storage_value(self._held.rows.column(field.name)[0], field.type)
            for field in self._storage.schema.columns(self._keys)
        ]
        return comparable_key(self._storage, values)

    def _hold_up_to(self, last: pa.RecordBatch) -> None:
        """Hold all changes of keys up to that of a row, and some more."""
        bound = _without_signs_of_zero(self._columns(last))
        while True:
            if self._held is not None:
                end = self._held.rows.slice(self._held.rows.num_rows - 1)
                ends = _without_signs_of_zero(self._columns(end))
                one, other = self._encoded([ends, bound])
                if one[0] > other[0]:
                    return
            if not self._hold_more():
                return

    def _hold_more(self) -> bool:
        for part in self._parts:
            if not part.rows.num_rows:
                continue
            held = self._held
            self._held = part if held is None else _both(held, part)
            return True
        return False

    def _columns(self, rows: pa.Table | pa.RecordBatch) -> list[pa.Array]:
        columns = [rows.column(name) for name in self._keys]
        return [
            column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            for column in columns
        ]

    def _encoded(self, batches: Sequence[Sequence[pa.Array]]) -> list[Comparable]:
        encoding = self._order.fixed or self._order.encoding(batches)
        return [self._order.encode(arrays, encoding) for arrays in batches]

    def _missing(self, row: pa.Table) -> Invalid:
        key = row.select(self._keys).to_pylist()[0]
        said = ", ".join(f"{name} = {value!r}" for name, value in key.items())
        return Invalid(
            f"table {self._storage.name}: the row with {said} is to change, and its bucket has no "
            "row of exactly this key; leave the key's columns out of what is assigned"
        )


def _both(one: KeyChanges, other: KeyChanges) -> KeyChanges:
    rows = pa.concat_tables([one.rows, other.rows])
    return KeyChanges(rows, np.concatenate([one.goes, other.goes]))


def _some(changes: KeyChanges, wanted: npt.NDArray[np.bool_]) -> KeyChanges | None:
    if not wanted.any():
        return None
    return KeyChanges(changes.rows.filter(arrow_mask(wanted)), changes.goes[wanted])


def _without_signs_of_zero(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Columns with 0.0 in place of -0.0, which sorters elsewhere take for equal."""
    return [
        pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column
        for column in columns
    ]
