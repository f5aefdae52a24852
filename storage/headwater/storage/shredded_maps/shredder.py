"""Maps taken apart into the columns of their keys.

Source: ``MapSharedShreddingRowConverter.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.options import KeyPlacement
from headwater.storage.shredded_maps.layout import ColumnLayout, stored_column
from headwater.storage.shredded_maps.placement import NO_COLUMN, placement
from headwater.storage.types.arrow_numbers import Integers, arrow_mask, arrow_values
from headwater.storage.types.data_type import DataField, MapType, to_arrow
from headwater.storage.types.nested_arrays import list_offsets, map_entries

__all__ = ["MapShredder"]

# About so many places for the numbers of keys are made at a time.
_STEP_PLACES = 1 << 21
_LEAST_STEP = 1 << 8


@dataclass(frozen=True)
class _Entries:
    """Entries of maps.

    Attributes:
        owners: The row of each, ascending.
        numbers: The number of its key, which no other entry of the row has.
        sources: The position of its value.
    """

    owners: Integers
    numbers: Integers
    sources: Integers

    def filtered(self, mask: npt.NDArray[np.bool_]) -> _Entries:
        """The entries at which the mask is true."""
        return _Entries(self.owners[mask], self.numbers[mask], self.sources[mask])


class MapShredder:
    """Takes the maps of one column of one file apart, and knows the form that this gives it.

    Args:
        column: The column.
        columns: The number of columns for values.
        policy: The way in which keys find columns.

    Attributes:
        column: The column.
        stored: The column as the file holds it.
    """

    def __init__(self, column: DataField, columns: int, policy: KeyPlacement) -> None:
        assert isinstance(column.type, MapType)
        self.column = column
        self.stored = stored_column(column, range(columns))
        self._target = to_arrow(self.stored.type)
        self._columns = columns
        self._in_order = policy is KeyPlacement.PLAIN
        self._placement = placement(policy, columns)
        self._keys: dict[str, int] = {}
        # Pairs of a key's number and a column, each pair one number.
        self._places: set[int] = set()
        self._overflowing: set[int] = set()
        self._widest = 0

    @property
    def layout(self) -> ColumnLayout:
        """The form of the column, as far as there are rows."""
        places: dict[int, list[int]] = {}
        for place in sorted(self._places):
            number, column = divmod(place, self._columns)
            places.setdefault(number, []).append(column)
        return ColumnLayout(
            dict(self._keys), self._columns, places, frozenset(self._overflowing), self._widest
        )

    @property
    def step(self) -> int:
        """Rows to take apart at a time, so that little memory is needed."""
        return max(_LEAST_STEP, _STEP_PLACES // self._columns)

    def shredded(self, maps: pa.Array) -> pa.Array:
        """The rows that follow, as the file holds them. Of equal keys in a map the last counts.

        Args:
            maps: The maps, of the column's Arrow type.

        Raises:
            Invalid: A key is null.
        """
        keys, values = map_entries(maps)
        if keys.null_count:
            raise Invalid(f"column '{self.column.name}': a key of a map is null")
        rows = len(maps)
        entries = self._distinct(list_offsets(maps).to_numpy(), self._numbered(keys))
        placed = self._placement.columns(entries.owners, entries.numbers)
        is_placed = placed != NO_COLUMN
        self._take_note(entries, placed, rows)
        inside, rest = entries.filtered(is_placed), entries.filtered(~is_placed)
        fields = list(self._target)
        children = [
            self._mapping(inside, placed[is_placed], rows, fields[0].type),
            *self._values(inside, placed[is_placed], values, rows, fields[1:-1]),
            _overflow(rest, values, rows, fields[-1].type),
        ]
        mask = maps.is_null() if maps.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)

    def _numbered(self, keys: pa.Array) -> Integers:
        """The numbers of keys: a new one gets the next."""
        encoded = keys.dictionary_encode()
        known = self._keys
        # A key, not a row, at a time.
        numbers = [known.setdefault(key, len(known)) for key in encoded.dictionary.to_pylist()]
        codes: Integers = encoded.indices.to_numpy()
        return np.array(numbers, np.int64)[codes]

    def _distinct(self, offsets: Integers, numbers: Integers) -> _Entries:
        owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        codes = owners * max(len(self._keys), 1) + numbers
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        is_last = np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]
        order = order[is_last]
        if self._in_order:
            order = np.sort(order)
        return _Entries(owners[order], numbers[order], order)

    def _take_note(self, entries: _Entries, placed: Integers, rows: int) -> None:
        counts = np.bincount(entries.owners, minlength=rows)
        self._widest = max(self._widest, int(counts.max(initial=0)))
        is_placed = placed != NO_COLUMN
        places = entries.numbers[is_placed] * self._columns + placed[is_placed]
        self._places.update(np.unique(places).tolist())
        self._overflowing.update(np.unique(entries.numbers[~is_placed]).tolist())

    def _mapping(
        self, entries: _Entries, placed: Integers, rows: int, target: pa.DataType
    ) -> pa.Array:
        mapping = np.full((rows, self._columns), NO_COLUMN, np.int32)
        mapping[entries.owners, placed] = entries.numbers
        offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(self._columns)
        numbers = arrow_values(mapping.reshape(-1))
        return pa.ListArray.from_arrays(arrow_values(offsets), numbers, target)

    def _values(
        self,
        entries: _Entries,
        placed: Integers,
        values: pa.Array,
        rows: int,
        fields: Sequence[pa.Field],
    ) -> Iterator[pa.Array]:
        order = np.argsort(placed, kind="stable")
        ends = np.searchsorted(placed[order], np.arange(self._columns + 1))
        # The many columns that no row of these uses share their memory.
        nothing = pa.nulls(rows, fields[0].type)
        for column in range(self._columns):
            own = order[ends[column] : ends[column + 1]]
            if not len(own):
                yield nothing
                continue
            sources = np.full(rows, -1, np.int64)
            sources[entries.owners[own]] = entries.sources[own]
            yield values.take(pa.array(sources, mask=sources < 0))


def _overflow(entries: _Entries, values: pa.Array, rows: int, target: pa.DataType) -> pa.Array:
    counts = np.bincount(entries.owners, minlength=rows)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.MapArray.from_arrays(
        arrow_values(offsets),
        arrow_values(entries.numbers.astype(np.int32)),
        values.take(arrow_values(entries.sources)),
        target,
        mask=arrow_mask(counts == 0),
    )
