"""The aggregate function ``product``, whose retractions divide.

Division makes the order count, and decimals are rounded at each step: the rows are gone through by
their place in the group, the groups side by side. Source: ``FieldProductAgg.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.merge.engine import Indices
from headwater.storage.merge.field_aggregates import AggregateFunction, GroupedColumn

__all__ = ["Product"]


@dataclass(frozen=True)
class Product(AggregateFunction):
    """The product of the values; it is divided by a retracted one.

    Attributes:
        column_name: The column, in error messages.
    """

    takes_retractions = True

    column_name: str

    def merge(self, column: GroupedColumn) -> pa.Array:
        """The product of each group.

        Raises:
            Invalid: A step of it does not fit the column's type, divides by zero, or leaves a
                decimal without end.
        """
        # What is retracted before there is a value counts for nothing.
        first = column.first(column.valid & column.added)
        result = column.take(first)
        for groups, rows in _rounds(column, first):
            factors = column.values.take(pa.array(rows))
            divides = np.zeros(len(rows), np.bool_)
            if column.retracts is not None:
                divides = column.retracts[rows]
            for chosen, step in ((~divides, self._times), (divides, self._by)):
                if chosen.any():
                    at = pa.array(groups[chosen])
                    new = step(result.take(at), factors.filter(pa.array(chosen)))
                    mask = np.zeros(len(result), np.bool_)
                    mask[groups[chosen]] = True
                    result = pc.replace_with_mask(result, pa.array(mask), new)
        return result

    def _times(self, left: pa.Array, right: pa.Array) -> pa.Array:
        arrow = left.type
        if pa.types.is_floating(arrow):
            return pc.multiply(left, right)
        if pa.types.is_decimal(arrow):
            return self._rounded(pc.multiply(_wide(left), _wide(right)), arrow)
        try:
            return pc.multiply_checked(left, right)
        except pa.ArrowInvalid:
            raise self._too_large(arrow) from None

    def _by(self, left: pa.Array, right: pa.Array) -> pa.Array:
        arrow = left.type
        if pa.types.is_floating(arrow):
            return pc.divide(left, right)
        zero = Decimal(0) if pa.types.is_decimal(arrow) else 0
        if pc.any(pc.equal(right, pa.scalar(zero, arrow))).as_py():
            raise Invalid(f"a product of column '{self.column_name}' is divided by a retracted 0")
        if pa.types.is_decimal(arrow):
            return self._decimal_quotients(left, right)
        try:
            return pc.divide_checked(left, right)
        except pa.ArrowInvalid:
            raise self._too_large(arrow) from None

    def _decimal_quotients(self, left: pa.Array, right: pa.Array) -> pa.Array:
        # Whether a quotient ends can take 126 digits, more than Arrow's decimals have; nobody
        # divides many.
        with localcontext(Context(prec=200)) as context:
            context.traps[Inexact] = True
            try:
                exact = [
                    one / other
                    for one, other in zip(left.to_pylist(), right.to_pylist(), strict=True)
                ]
            except Inexact:
                raise Invalid(
                    f"a product of column '{self.column_name}', divided by a retracted value, is a "
                    "decimal without end"
                ) from None
            context.traps[Inexact] = False
            unit = Decimal(1).scaleb(-left.type.scale)
            rounded = [value.quantize(unit, ROUND_HALF_UP) for value in exact]
        try:
            return pa.array(rounded, left.type)
        except pa.ArrowInvalid:
            raise self._too_large(left.type) from None

    def _rounded(self, exact: pa.Array, arrow: pa.DataType) -> pa.Array:
        rounded = pc.round(exact, ndigits=arrow.scale, round_mode="half_towards_infinity")
        try:
            return rounded.cast(arrow)
        except pa.ArrowInvalid:
            raise self._too_large(arrow) from None

    def _too_large(self, arrow: pa.DataType) -> Invalid:
        return Invalid(
            f"a product of column '{self.column_name}' does not fit its type {arrow}; give the "
            "column a wider type"
        )


def _wide(values: pa.Array) -> pa.Array:
    return values.cast(pa.decimal256(min(values.type.precision, 37), values.type.scale))


def _rounds(column: GroupedColumn, first: Indices) -> Iterator[tuple[Indices, Indices]]:
    """The rows with a value after each group's first, by their place in the group.

    Yields:
        Groups, and a row of each.
    """
    sizes = np.diff(np.append(column.firsts, len(column.values)))
    group_of_row = np.repeat(np.arange(len(sizes)), sizes)
    after = np.where(first < 0, len(column.values), first)[group_of_row]
    rows = np.flatnonzero(column.valid & (np.arange(len(column.values)) > after))
    groups = group_of_row[rows]
    place = np.arange(len(rows)) - np.searchsorted(groups, groups)
    by_place = np.argsort(place, kind="stable")
    ends = np.cumsum(np.bincount(place)) if len(place) else np.empty(0, np.int64)
    start = 0
    for end in ends:
        chosen = by_place[start:end]
        yield groups[chosen], rows[chosen]
        start = int(end)
