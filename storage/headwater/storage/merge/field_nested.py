"""The aggregate functions for nested tables and maps of rows.

``nested_update`` and ``nested_partial_update`` merge arrays of rows by a key among the rows' own
fields, ``merge_map_with_keytime`` maps of rows by the time that each row holds. Each element is
looked at with the group it is in, so that all groups are gone through at once. The order of a
result's elements is not Paimon's, which is that of a hash map. Source:
``FieldNestedUpdateAgg.java``, ``FieldNestedPartialUpdateAgg.java``,
``FieldMergeMapWithKeyTimeAgg.java``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.merge.engine import Indices, Mask
from headwater.storage.merge.field_aggregates import AggregateFunction, GroupedColumn
from headwater.storage.merge.field_collections import Elements, map_entries
from headwater.storage.merge.late_rows import Steps, merge_steps
from headwater.storage.options import NullKeys
from headwater.storage.rows.ordering import OrderColumn, RowOrder, words

__all__ = ["MergeMapWithKeyTime", "NestedKey", "NestedPartialUpdate", "NestedUpdate"]


@dataclass(frozen=True)
class NestedKey:
    """The fields by which rows of a nested table are the same row.

    Attributes:
        column_name: The column, in error messages.
        fields: The fields; without any, rows are compared whole.
        nulls: The fate of rows with a null among them.
    """

    column_name: str
    fields: tuple[str, ...]
    nulls: NullKeys = NullKeys.MERGE

    def known(self, rows: pa.Array) -> Mask:
        """A mask of the rows that take part.

        Raises:
            Invalid: A key holds a null, which the table does not allow.
        """
        mask: Mask = rows.is_valid().to_numpy(zero_copy_only=False)
        if self.nulls is NullKeys.MERGE or not self.fields:
            return mask
        whole = mask.copy()
        for name in self.fields:
            whole &= pc.struct_field(rows, name).is_valid().to_numpy(zero_copy_only=False)
        if self.nulls is NullKeys.ERROR and (mask & ~whole).any():
            raise Invalid(
                f"column '{self.column_name}': {int((mask & ~whole).sum())} nested rows hold null "
                f"in their key ({', '.join(self.fields)}); 'fields.{self.column_name}"
                ".nested-key-null-strategy' = 'ignore' passes over them"
            )
        return whole

    def of(self, rows: pa.Array) -> pa.Array:
        """The key of each row."""
        if not self.fields:
            return rows
        return pa.StructArray.from_arrays(
            [pc.struct_field(rows, name) for name in self.fields], names=list(self.fields)
        )


@dataclass(frozen=True)
class NestedUpdate(AggregateFunction):
    """The rows of all nested tables, of each key the newest; a retracted one is taken away.

    Attributes:
        key: The key of the nested rows.
        sequence: The fields that tell which row is newer; without any, the later row is.
        limit: The number of rows at which no more are added; None for no limit.
    """

    takes_retractions = True
    is_ordered = True

    key: NestedKey
    sequence: tuple[str, ...] = field(default=())
    limit: int | None = field(default=None)

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The nested table of each group.

        Raises:
            Invalid: A key holds a null, which the table does not allow.
        """
        if self.limit is not None and column.retracts is not None and column.begun is None:
            # Room that a retraction makes is taken by later rows.
            return self._one_after_another(column, column.retracts)
        elements = Elements.of(column, column.values)
        taking = np.flatnonzero(self.key.known(elements.values))
        elements = elements.take(taking)
        positions, begins = elements.alike(self.key.of(elements.values))
        if self.key.fields:
            kept, first = self._newest(elements, positions, begins)
        else:
            kept, first = _not_taken_away(elements, positions, begins)
        if self.limit is not None:
            kept = kept[self._within(column, elements.groups[kept], first)]
        values, offsets = elements.kept(kept)
        there = column.any(column.valid & column.added)
        starts = pa.array(offsets, pa.int32(), mask=np.append(~there, False))
        return pa.ListArray.from_arrays(starts, values, type=column.values.type)

    def _newest(
        self, elements: Elements, positions: Indices, begins: Indices
    ) -> tuple[Indices, Indices]:
        """The element that stays of each key, and the key's first place."""
        if not len(positions):
            return positions, positions
        count = len(positions)
        added = elements.added[positions]
        sizes = np.diff(np.append(begins, count))
        gone = np.maximum.reduceat(np.where(added, -1, np.arange(count)), begins)
        later = np.arange(count) > np.repeat(gone, sizes)
        if not self.sequence:
            chosen = np.maximum.reduceat(np.where(later, np.arange(count), -1), begins)
        else:
            fields = [pc.struct_field(elements.values, name) for name in self.sequence]
            order = RowOrder([OrderColumn(item.type, True) for item in fields])
            ages = words(order.encode(fields))
            runs = np.repeat(np.arange(len(begins)), sizes)
            ranked = np.lexsort((*(each[positions] for each in reversed(ages)), later, runs))
            chosen = ranked[np.append(begins[1:], count) - 1]
            chosen = np.where(later[chosen], chosen, -1)
        first = np.minimum.reduceat(np.where(later, positions, len(elements.values)), begins)
        stays = chosen >= 0
        return positions[chosen[stays]], first[stays]

    def _within(self, column: GroupedColumn, groups: Indices, first: Indices) -> Mask:
        """A mask of the elements that there is room for, by the first place of their keys."""
        assert self.limit is not None
        order = np.lexsort((first, groups))
        ordered = groups[order]
        place = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
        within = np.empty(len(groups), np.bool_)
        within[order] = place < self.limit
        if column.begun is not None:
            # What is there already is not counted again.
            first_rows = column.values.take(pa.array(column.firsts))
            base = Elements.of(GroupedColumn(first_rows, np.arange(len(first_rows))), first_rows)
            known = self.key.known(base.values)
            held = np.bincount(base.groups[known], minlength=len(column.firsts))
            held[~column.begun] = 0
            within[order] |= place < held[ordered]
        return within

    def _one_after_another(self, column: GroupedColumn, retracts: Mask) -> pa.Array:
        none = np.zeros(len(retracts), np.bool_)
        steps = Steps(column.values, column.firsts, retracts, none, none)
        return merge_steps(self, steps, reverses=True, stepwise=True)


def _not_taken_away(
    elements: Elements, positions: Indices, begins: Indices
) -> tuple[Indices, Indices]:
    """The elements after the last that takes those like it away, twice."""
    if not len(positions):
        return positions, positions
    added = elements.added[positions]
    count = len(positions)
    gone = np.maximum.reduceat(np.where(added, -1, np.arange(count)), begins)
    sizes = np.diff(np.append(begins, count))
    kept = np.sort(positions[np.arange(count) > np.repeat(gone, sizes)])
    return kept, kept


@dataclass(frozen=True)
class NestedPartialUpdate(AggregateFunction):
    """The rows of all nested tables, of each key the newest value of each field that is there.

    Attributes:
        key: The key of the nested rows.
    """

    is_ordered = True

    key: NestedKey

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The nested table of each group; raises Invalid if a key holds a null and must not."""
        elements = Elements.of(column, column.values)
        elements = elements.take(np.flatnonzero(self.key.known(elements.values)))
        rows = elements.values
        positions, begins = elements.alike(self.key.of(rows))
        first = positions[begins]
        fields: list[pa.Array] = []
        for at in range(rows.type.num_fields):
            values = pc.struct_field(rows, at)
            if len(begins):
                valid = values.is_valid().to_numpy(zero_copy_only=False)[positions]
                last = np.maximum.reduceat(np.where(valid, np.arange(len(positions)), -1), begins)
                values = values.take(pa.array(positions[last], mask=last < 0))
            fields.append(values)
        merged = pa.StructArray.from_arrays(fields, fields=list(rows.type))
        order = np.lexsort((first, elements.groups[first]))
        counts = np.bincount(elements.groups[first], minlength=elements.group_count)
        offsets = np.append(0, np.cumsum(counts))
        starts = pa.array(offsets, pa.int32(), mask=np.append(~column.any(column.valid), False))
        values = merged.take(pa.array(order))
        return pa.ListArray.from_arrays(starts, values, type=column.values.type)


@dataclass(frozen=True)
class MergeMapWithKeyTime(AggregateFunction):
    """The entries of all maps, of each key the one with the latest time.

    A null takes a key's entry away; an entry without a time replaces nothing. The first map of a
    group stays as it is.

    Attributes:
        time_field: The field of the values that holds the time, as text.
    """

    is_ordered = True

    time_field: str

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The map of each group."""
        arrow = column.values.type
        elements = Elements.of(column, map_entries(column.values))
        rows = np.flatnonzero(column.valid)
        counts = pc.list_value_length(map_entries(column.values)).fill_null(0).to_numpy()
        first_row = column.first(column.valid)
        of_row = np.repeat(np.arange(len(counts)), counts)
        initial = np.isin(of_row, first_row) if len(rows) else np.zeros(len(of_row), np.bool_)
        positions, begins = elements.alike(pc.struct_field(elements.values, 0))
        chosen = self._latest(elements, positions, begins, initial)
        values, offsets = elements.kept(chosen)
        starts = pa.array(offsets, pa.int32(), mask=np.append(~column.any(column.valid), False))
        keys, items = (pc.struct_field(values, at) for at in (0, 1))
        return pa.MapArray.from_arrays(starts, keys, items).cast(arrow)

    def _latest(
        self, elements: Elements, positions: Indices, begins: Indices, initial: Mask
    ) -> Indices:
        if not len(positions):
            return positions
        count = len(positions)
        items = pc.struct_field(elements.values, 1)
        times = pc.struct_field(items, self.time_field)
        there = items.is_valid().to_numpy(zero_copy_only=False)[positions]
        timed = times.is_valid().to_numpy(zero_copy_only=False)[positions] & there
        begun = initial[positions]
        sizes = np.diff(np.append(begins, count))
        runs = np.repeat(np.arange(len(begins)), sizes)
        at = np.arange(count)
        gone = np.maximum.reduceat(np.where(~there & ~begun, at, -1), begins)
        later = at > np.repeat(gone, sizes)
        # The latest time, then the first entry that has it.
        ages = words(RowOrder([OrderColumn(times.type, True)]).encode([times]))
        ranked = np.lexsort(
            (-at, *(each[positions] for each in reversed(ages)), later & timed, runs)
        )
        best = ranked[np.append(begins[1:], count) - 1]
        # Where no entry has a time, what the first map holds; of a key twice, the last.
        held = np.maximum.reduceat(np.where(begun & later, at, -1), begins)
        chosen = np.where((later & timed)[best], best, held)
        found: Indices = positions[chosen[chosen >= 0]]
        return found
