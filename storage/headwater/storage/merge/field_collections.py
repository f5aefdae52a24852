"""The aggregate functions that collect: ``collect``, ``merge_map`` and distinct ``listagg``.

Each element is looked at with the group it is in, so that all groups are gone through at once.
Source: ``FieldCollectAgg.java``, ``FieldMergeMapAgg.java``, ``FieldListaggAgg.java``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.merge.engine import Indices, Mask
from headwater.storage.merge.field_aggregates import AggregateFunction, GroupedColumn, blank_texts
from headwater.storage.rows.ordering import OrderColumn, RowOrder

__all__ = ["Collect", "DistinctListAgg", "Elements", "MergeMap", "map_entries"]


@dataclass(frozen=True)
class Elements:
    """The elements of nested values, group after group, in the rows' order.

    Attributes:
        values: The elements.
        groups: The group of each.
        added: A mask of those that are not retracted.
        group_count: The number of groups.
    """

    values: pa.Array
    groups: Indices
    added: Mask
    group_count: int

    @staticmethod
    def of(column: GroupedColumn, lists: pa.Array) -> Elements:
        """The elements of a column's values, given as lists."""
        counts = pc.list_value_length(lists).fill_null(0).to_numpy()
        sizes = np.diff(np.append(column.firsts, len(lists)))
        row_groups = np.repeat(np.arange(len(sizes)), sizes)
        return Elements(
            pc.list_flatten(lists),
            np.repeat(row_groups, counts),
            np.repeat(column.added, counts),
            len(sizes),
        )

    def alike(self, compared: pa.Array) -> tuple[Indices, Indices]:
        """The elements in runs of those that are equal and of one group, in their order.

        Args:
            compared: The elements, or the part of each that is compared.

        Returns:
            The elements' positions, and the beginning of each run among them.
        """
        if not len(compared):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if pa.types.is_nested(compared.type):
            compared = _numbered(compared)
        order = RowOrder([OrderColumn(pa.int64()), OrderColumn(compared.type, True)])
        keys = order.encode([pa.array(self.groups), compared])
        positions = np.argsort(keys, kind="stable")
        ordered = keys[positions]
        begins = np.append(True, ordered[1:] != ordered[:-1])
        return positions, np.flatnonzero(begins)

    def take(self, positions: Indices) -> Elements:
        """Some elements, in their order."""
        return Elements(
            self.values.take(pa.array(positions)),
            self.groups[positions],
            self.added[positions],
            self.group_count,
        )

    def kept(self, positions: Indices) -> tuple[pa.Array, Indices]:
        """Some elements in their order, and where the list of each group begins and ends."""
        positions = np.sort(positions)
        counts = np.bincount(self.groups[positions], minlength=self.group_count)
        return self.values.take(pa.array(positions)), np.append(0, np.cumsum(counts))


def map_entries(maps: pa.MapArray) -> pa.ListArray:
    """Maps as lists of rows of a key and a value."""
    arrow = maps.type
    return maps.cast(pa.list_(pa.struct([arrow.key_field, arrow.item_field])))


def _numbered(values: pa.Array) -> pa.Array:
    """A number for each value of a nested type, the same for equal ones."""
    # Imported where it is needed: it takes long.
    import polars as pl

    rows = pl.DataFrame({"value": pl.Series(values)}).with_row_index("row")
    alike = rows.group_by("value").agg("row")
    numbers = np.empty(len(values), np.int64)
    counts = alike["row"].list.len().to_numpy()
    numbers[alike["row"].explode().to_numpy()] = np.repeat(np.arange(len(counts)), counts)
    return pa.array(numbers)


@dataclass(frozen=True)
class Collect(AggregateFunction):
    """All elements of the arrays; a retracted element takes the first one like it away.

    Attributes:
        distinct: True to keep one of equal elements.
    """

    takes_retractions = True
    is_ordered = True
    appends_late = True

    distinct: bool

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The elements of each group, in the order in which they came."""
        elements = Elements.of(column, column.values)
        if not self.distinct and column.retracts is None:
            staying = np.arange(len(elements.values))
        else:
            staying = self._staying(elements)
        values, offsets = elements.kept(staying)
        arrow = column.values.type
        there = column.any(column.valid & column.added)
        # A null array and one of no elements differ.
        starts = pa.array(offsets, pa.int32(), mask=np.append(~there, False))
        return pa.ListArray.from_arrays(starts, values, type=arrow)

    def _staying(self, elements: Elements) -> Indices:
        positions, begins = elements.alike(elements.values)
        if not len(positions):
            return positions
        added = elements.added[positions]
        ends = np.append(begins[1:], len(positions))
        sizes = ends - begins
        if self.distinct:
            # What is there already is not added again; what was taken away is.
            renewed = added & ~np.append(False, added[:-1])
            renewed[begins] = added[begins]
            last = np.maximum.reduceat(np.where(renewed, np.arange(len(added)), -1), begins)
            staying: Indices = positions[last[(last >= 0) & added[ends - 1]]]
            return staying
        change = np.where(added, 1, -1)
        total = np.cumsum(change)
        # Within each run, as if it were the first.
        total -= np.repeat(total[begins] - change[begins], sizes)
        # Nothing is taken away where nothing is left.
        left = total[ends - 1] - np.minimum(np.minimum.reduceat(total, begins), 0)
        from_here = np.append(np.cumsum(added[::-1], dtype=np.int64)[::-1], 0)
        to_end = from_here[:-1] - np.repeat(from_here[ends], sizes)
        staying = positions[added & (to_end <= np.repeat(left, sizes))]
        return staying


@dataclass(frozen=True)
class MergeMap(AggregateFunction):
    """The entries of all maps, of each key the newest; a retracted key takes its entry away."""

    takes_retractions = True
    is_ordered = True

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The map of each group."""
        maps = column.values
        arrow = maps.type
        elements = Elements.of(column, map_entries(maps))
        positions, begins = elements.alike(pc.struct_field(elements.values, 0))
        last = positions[np.append(begins[1:], len(positions)) - 1] if len(begins) else positions
        values, offsets = elements.kept(last[elements.added[last]])
        there = column.any(column.valid & column.added)
        starts = pa.array(offsets, pa.int32(), mask=np.append(~there, False))
        keys, items = (pc.struct_field(values, at) for at in (0, 1))
        return pa.MapArray.from_arrays(starts, keys, items).cast(arrow)


@dataclass(frozen=True)
class DistinctListAgg(AggregateFunction):
    """The parts of the texts, one of those that are equal; those that are blank are left out.

    The first text stays as it is.

    Attributes:
        delimiter: The text between the parts.
    """

    is_ordered = True

    delimiter: str

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The parts of each group's texts, joined."""
        told = ~blank_texts(column.values)
        first = column.first(told)
        texts = pc.if_else(pa.array(told), column.values, pa.scalar(None, column.values.type))
        parts = pc.split_pattern(texts.cast(pa.large_string()), self.delimiter)
        elements = Elements.of(column, parts)
        positions, begins = elements.alike(elements.values.cast(pa.string()))
        lengths = pc.list_value_length(parts).fill_null(0).to_numpy()
        is_first = np.zeros(len(column.values), np.bool_)
        is_first[first[first >= 0]] = True
        of_first = np.repeat(is_first, lengths)
        kept = np.zeros(len(elements.values), np.bool_)
        kept[positions[begins]] = True
        kept &= ~blank_texts(elements.values)
        values, offsets = elements.kept(np.flatnonzero(kept | of_first))
        joined = pc.binary_join(
            pa.LargeListArray.from_arrays(pa.array(offsets), values),
            pa.scalar(self.delimiter, pa.large_string()),
        )
        told_any = pa.array(first >= 0)
        return pc.if_else(told_any, joined.cast(column.values.type), column.unchanged())
