"""The aggregate functions of Paimon: the values of one column, group by group, become one each.

A function is given all rows of a key that are at hand, the oldest first, and computes what Paimon
computes from them one after another. Nulls count for nothing, but for ``last_value`` and
``first_value``. Source: ``FieldSumAgg.java`` and its neighbours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.merge.engine import Indices, Mask
from headwater.storage.merge.exact_sums import exact_sums
from headwater.storage.merge.groups import picked_of_groups
from headwater.storage.rows.ordering import OrderColumn, RowOrder, words

__all__ = [
    "AggregateFunction",
    "BoolAnd",
    "BoolOr",
    "Extreme",
    "FirstFunction",
    "FirstNonNullValue",
    "FirstValue",
    "GroupedColumn",
    "LastFunction",
    "LastNonNullValue",
    "LastValue",
    "ListAgg",
    "Sum",
    "blank_texts",
]

# What Java's Character.isWhitespace is true for.
_BLANK = (
    r"^[\x{9}-\x{D}\x{1C}-\x{20}\x{1680}\x{2000}-\x{2006}\x{2008}-\x{200A}"
    r"\x{2028}\x{2029}\x{205F}\x{3000}]*$"
)


@dataclass(frozen=True)
class GroupedColumn:
    """A column of rows in groups of equal keys, the oldest row of each group first.

    Attributes:
        values: The rows' values.
        firsts: The position of each group's first row; no group is empty.
        retracts: A mask of the rows that retract; None when none does.
        begun: A mask of the groups whose first row is a result that others are added to, which
            stays as it is where none is; None when there are none.
    """

    values: pa.Array
    firsts: Indices
    retracts: Mask | None = None
    begun: Mask | None = None

    @cached_property
    def valid(self) -> Mask:
        """A mask of the rows whose value is not null."""
        mask: Mask = self.values.is_valid().to_numpy(zero_copy_only=False)
        return mask

    @cached_property
    def added(self) -> Mask:
        """A mask of the rows that do not retract."""
        if self.retracts is None:
            return np.ones(len(self.values), np.bool_)
        return ~self.retracts

    def last(self, mask: Mask) -> Indices:
        """The position of each group's last row of a mask; -1 where it has none."""
        return np.maximum.reduceat(np.where(mask, np.arange(len(mask)), -1), self.firsts)

    def first(self, mask: Mask) -> Indices:
        """The position of each group's first row of a mask; -1 where it has none."""
        count = len(mask)
        found = np.minimum.reduceat(np.where(mask, np.arange(count), count), self.firsts)
        return np.where(found == count, -1, found)

    def any(self, mask: Mask) -> Mask:
        """A mask of the groups with a row of a mask."""
        return np.logical_or.reduceat(mask, self.firsts)

    def unchanged(self) -> pa.Array:
        """The results of groups whose rows add nothing to what they had begun with."""
        if self.begun is None:
            return pa.nulls(len(self.firsts), self.values.type)
        return self.take(np.where(self.begun, self.firsts, -1))

    def take(self, positions: Indices) -> pa.Array:
        """The values at some positions; null at -1."""
        return self.values.take(pa.array(positions, mask=positions < 0))


class AggregateFunction(ABC):
    """The rule by which one column's values become one value.

    Attributes:
        takes_retractions: True if ``-U`` and ``-D`` rows may be among the rows.
        is_ordered: True if it counts which values come first.
        appends_late: True if those that come late come last all the same
            (``FieldCollectAgg.aggReversed``); see `headwater.storage.merge.late_rows`.
    """

    takes_retractions: bool = False
    is_ordered: bool = False
    appends_late: bool = False

    @abstractmethod
    def merge(self, column: GroupedColumn) -> pa.Array:
        """One value for each group, of the column's type.

        Args:
            column: The rows; none retracts unless the function takes retractions.

        Raises:
            Invalid: A result does not fit the column's type.
        """


class LastFunction(AggregateFunction):
    """A function that keeps the value of one late row."""

    takes_retractions = True
    is_ordered = True


class LastValue(LastFunction):
    """The newest row's value, null though it may be; nothing once that row retracts."""

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The value of each group's newest row."""
        return column.take(_unless_retracted(column, np.ones(len(column.values), np.bool_)))


class LastNonNullValue(LastFunction):
    """The newest value that is there; nothing once it is retracted."""

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The newest value of each group that is not null."""
        return column.take(_unless_retracted(column, column.valid))


class FirstFunction(AggregateFunction):
    """A function that keeps the value of one early row."""

    @abstractmethod
    def chosen(self, column: GroupedColumn) -> Indices:
        """The position of the row whose value each group keeps; -1 where there is none."""

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The value of each group's chosen row."""
        return column.take(self.chosen(column))


class FirstValue(FirstFunction):
    """The oldest row's value, null though it may be."""

    def chosen(self, column: GroupedColumn) -> Indices:
        """The first row that adds."""
        return column.first(column.added)


class FirstNonNullValue(FirstFunction):
    """The oldest value that is there."""

    def chosen(self, column: GroupedColumn) -> Indices:
        """The first row that adds a value."""
        return column.first(column.valid & column.added)


@dataclass(frozen=True)
class Extreme(AggregateFunction):
    """``max`` and ``min``, in the order of Paimon's keys: NaN is above everything.

    Attributes:
        greatest: True for the greatest value, False for the least.
    """

    greatest: bool

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The greatest, or the least, value of each group."""
        # Nulls come before everything in both directions: they win only where nothing else is.
        order = RowOrder([OrderColumn(column.values.type, True, not self.greatest)])
        ranks = words(order.encode([column.values]))
        return column.take(picked_of_groups(column.firsts, ranks, newest=True))


@dataclass(frozen=True)
class Sum(AggregateFunction):
    """The sum of the values; a retracted one counts against it.

    Attributes:
        column_name: The column, in error messages.
    """

    takes_retractions = True

    column_name: str

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The sum of each group; raises Invalid when it does not fit."""
        there = column.any(column.valid)
        arrow = column.values.type
        if pa.types.is_floating(arrow):
            values = column.values.fill_null(0).to_numpy()
            signed = values if column.retracts is None else np.where(column.added, values, -values)
            return pa.array(np.add.reduceat(signed, column.firsts), arrow, mask=~there)
        sums, fits = exact_sums(column.values, column.firsts, column.retracts)
        if not fits.all():
            raise Invalid(
                f"the sum of column '{self.column_name}' does not fit its type {arrow} for "
                f"{int((~fits).sum())} keys; give the column a wider type"
            )
        return pc.if_else(pa.array(there), sums, pa.scalar(None, arrow))


class BoolAnd(AggregateFunction):
    """True if all values are."""

    def merge(self, column: GroupedColumn) -> pa.Array:
        """True for the groups without a false value."""
        values: Mask = column.values.fill_null(True).to_numpy(zero_copy_only=False)
        result = np.logical_and.reduceat(values, column.firsts)
        return pa.array(result, mask=~column.any(column.valid))


class BoolOr(AggregateFunction):
    """True if any value is."""

    def merge(self, column: GroupedColumn) -> pa.Array:
        """True for the groups with a true value."""
        values: Mask = column.values.fill_null(False).to_numpy(zero_copy_only=False)
        return pa.array(column.any(values), mask=~column.any(column.valid))


@dataclass(frozen=True)
class ListAgg(AggregateFunction):
    """The texts one after another; those that are blank are left out.

    Attributes:
        delimiter: The text between them.
    """

    is_ordered = True

    delimiter: str

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The texts of each group, joined."""
        told = ~blank_texts(column.values)
        counts = np.add.reduceat(told, column.firsts, dtype=np.int64)
        arrow = column.values.type
        texts = column.values.filter(pa.array(told)).cast(pa.large_string())
        lists = pa.LargeListArray.from_arrays(np.append(0, np.cumsum(counts)), texts)
        joined = pc.binary_join(lists, pa.scalar(self.delimiter, pa.large_string()))
        return pc.if_else(pa.array(counts > 0), joined.cast(arrow), column.unchanged())


def blank_texts(texts: pa.Array) -> Mask:
    """A mask of the texts that are null, empty or nothing but white space."""
    blank = pc.match_substring_regex(texts, _BLANK).fill_null(True)
    mask: Mask = blank.to_numpy(zero_copy_only=False)
    return mask


def _unless_retracted(column: GroupedColumn, mask: Mask) -> Indices:
    """The last row of a mask in each group; -1 where there is none, or where it retracts."""
    found = column.last(mask)
    if column.retracts is not None:
        found = np.where((found >= 0) & column.retracts[found], -1, found)
    return found
