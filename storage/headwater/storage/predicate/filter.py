"""Filters on a table's columns: read, applied to rows, and asked of statistics.

The parts: `headwater.storage.predicate.tree` (what a predicate is), `literal` (comparing a column
with a Python value), `sql_text` (SQL text); this module evaluates.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Unsupported
from headwater.storage.predicate.char_columns import padded_predicate
from headwater.storage.predicate.literal import comparison, membership, starts_with
from headwater.storage.predicate.sql_text import parse_predicate, to_sql
from headwater.storage.predicate.tree import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    columns_of,
    negate,
    pinned_values,
    without_not,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.arrow_numbers import numpy_mask
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.data_type import DataField, to_arrow
from headwater.storage.types.padded_text import has_chars
from headwater.storage.types.values import StorageValue

__all__ = [
    "And",
    "ColumnRange",
    "Comparison",
    "Constant",
    "In",
    "IsNull",
    "Not",
    "Operator",
    "Or",
    "Predicate",
    "StartsWith",
    "columns_of",
    "comparison",
    "filter_rows",
    "matching",
    "may_match",
    "membership",
    "negate",
    "parse_predicate",
    "pinned_values",
    "starts_with",
    "to_expression",
    "to_sql",
    "without_not",
]


def filter_rows(rows: pa.RecordBatch, keep: pc.Expression) -> pa.Table:
    """The rows that an expression is true for, in the order in which they are."""
    # Here, since it brings pandas along, which takes a process long to import.
    from pyarrow.acero import Declaration, FilterNodeOptions, TableSourceNodeOptions

    source = TableSourceNodeOptions(pa.Table.from_batches([rows]))
    steps = [Declaration("table_source", source), Declaration("filter", FilterNodeOptions(keep))]
    # One thread: several would mix the rows up.
    return Declaration.from_sequence(steps).to_table(use_threads=False)


def matching(rows: pa.RecordBatch, keep: pc.Expression) -> npt.NDArray[np.bool_]:
    """A mask of the rows that an expression is true for."""
    from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

    source = TableSourceNodeOptions(pa.Table.from_batches([rows]))
    mask_only = ProjectNodeOptions([keep], ["keep"])
    steps = [Declaration("table_source", source), Declaration("project", mask_only)]
    column = Declaration.from_sequence(steps).to_table(use_threads=False).column(0)
    mask = column.combine_chunks()
    return numpy_mask(mask.fill_null(False) if mask.null_count else mask)


@dataclass(frozen=True)
class ColumnRange:
    """The known range of a column in some rows.

    Attributes:
        minimum: A storage value that no value is below; None when unknown (or all are null).
        maximum: A storage value that no value is above; None when unknown (or all are null).
        null_count: The number of null rows; None when unknown.
        row_count: The number of rows; None when unknown.
    """

    minimum: StorageValue
    maximum: StorageValue
    null_count: int | None = None
    row_count: int | None = None

    @property
    def all_null(self) -> bool:
        """Whether every row is known to be null."""
        return self.row_count is not None and self.null_count == self.row_count


# Rows -----------------------------------------------------------------------------------------

# Arrow turns AND and OR into chains that it walks by recursion: some ten thousand conditions
# overflow the stack, and the process ends.
_MAX_CONDITIONS = 2000
_COMPARE: Mapping[Operator, Callable[[pc.Expression, pa.Scalar], pc.Expression]] = {
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}


def to_expression(predicate: Predicate, schema: TableSchema) -> pc.Expression:
    """An Arrow expression that selects the rows where the predicate is true.

    Where the predicate is not true, the expression is false or null; Arrow's filters drop both.
    Values of CHAR, and literals beside them, are compared padded.

    Args:
        predicate: The predicate.
        schema: The schema of the rows: each column has its type's Arrow form.

    Raises:
        NotFound: A column does not exist.
        Unsupported: The predicate has more conditions than Arrow can evaluate.
    """
    conditions = _conditions(predicate)
    if conditions > _MAX_CONDITIONS:
        raise Unsupported(
            f"a filter of {conditions} conditions is more than the {_MAX_CONDITIONS} that can be "
            "evaluated at once; use IN for many values of one column"
        )
    return _expression(without_not(padded_predicate(predicate, schema)), schema)


def _conditions(predicate: Predicate) -> int:
    match predicate:
        case And() | Or():
            return sum(_conditions(operand) for operand in predicate.operands)
        case Not():
            return _conditions(predicate.operand)
        case _:
            return 1


def _expression(predicate: Predicate, schema: TableSchema) -> pc.Expression:
    # Without Not, "not true" only meets AND and OR, where null acts as false does.
    match predicate:
        case And():
            parts = [_expression(part, schema) for part in predicate.operands]
            return reduce(operator.and_, parts, pc.scalar(True))
        case Or():
            parts = [_expression(part, schema) for part in predicate.operands]
            return reduce(operator.or_, parts, pc.scalar(False))
        case Constant():
            return pc.scalar(predicate.value is True)
        case Not():
            return _expression(negate(predicate.operand), schema)
    field = schema.column(predicate.column)
    column = pc.field(field.name)
    if isinstance(field.type, AtomicType) and has_chars(field.type):
        column = pc.utf8_rpad(column, width=field.type.length, padding=" ")
    match predicate:
        case IsNull():
            return column.is_valid() if predicate.negated else column.is_null()
        case StartsWith():
            starts = pc.starts_with(column, predicate.prefix)
            return ~starts if predicate.negated else starts
        case Comparison():
            return _comparison(column, field, predicate.op, predicate.value)
        case In():
            return _membership(column, field, predicate)


def _comparison(
    column: pc.Expression, field: DataField, op: Operator, value: StorageValue
) -> pc.Expression:
    if isinstance(value, float) and math.isnan(value):
        # NaN equals itself and is greater than all others.
        match op:
            case "=" | ">=":
                return pc.is_nan(column)
            case "!=" | "<":
                return ~pc.is_nan(column)
            case "<=":
                return column.is_valid()
            case ">":
                return pc.scalar(False)
    result = _COMPARE[op](column, pa.scalar(value, to_arrow(field.type)))
    if isinstance(value, float) and op in (">", ">="):
        return result | pc.is_nan(column)
    return result


def _membership(column: pc.Expression, field: DataField, predicate: In) -> pc.Expression:
    nan = [value for value in predicate.values if isinstance(value, float) and math.isnan(value)]
    zero = [value for value in predicate.values if isinstance(value, float) and value == 0]
    members = [value for value in predicate.values if value not in zero and value not in nan]
    if zero:
        # Arrow's isin tells -0.0 from 0.0.
        members += [0.0, -0.0]
    is_member = column.isin(pa.array(members, to_arrow(field.type)))
    if nan:
        is_member = is_member | pc.is_nan(column)
    return column.is_valid() & ~is_member if predicate.negated else is_member


# Statistics -----------------------------------------------------------------------------------


def may_match(predicate: Predicate, ranges: Mapping[str, ColumnRange]) -> bool:
    """Whether a row within the ranges could make the predicate true.

    False is certain. Floating-point columns are taken to hold NaN beyond their maximum: writers
    leave NaN out of it.

    Args:
        predicate: The predicate.
        ranges: The known ranges of the columns; nothing is known of a column that is absent.
    """
    return _may_match(without_not(predicate), ranges)


def _may_match(predicate: Predicate, ranges: Mapping[str, ColumnRange]) -> bool:
    match predicate:
        case And():
            return all(_may_match(part, ranges) for part in predicate.operands)
        case Or():
            return any(_may_match(part, ranges) for part in predicate.operands)
        case Constant():
            return predicate.value is True
        case Not():
            return _may_match(negate(predicate.operand), ranges)
        case In(values=(), negated=False):
            return False
    known = ranges.get(predicate.column)
    if known is None:
        return True
    if isinstance(predicate, IsNull):
        return not known.all_null if predicate.negated else known.null_count != 0
    if known.all_null:
        return False
    low, high = known.minimum, known.maximum
    match predicate:
        case StartsWith():
            return _may_start(predicate, low, high)
        case Comparison():
            return _may_compare(predicate.op, predicate.value, low, high)
        case In(negated=False):
            return any(_may_compare("=", value, low, high) for value in predicate.values)
        case In():
            return not _is_constant(low, high) or low not in predicate.values


def _is_constant(low: StorageValue, high: StorageValue) -> bool:
    """Whether all values are one; a float's range does not tell of NaN."""
    return low is not None and low == high and not isinstance(low, float)


def _may_start(predicate: StartsWith, low: StorageValue, high: StorageValue) -> bool:
    prefix = predicate.prefix
    if predicate.negated:
        # Between two texts with a prefix all have it.
        both = isinstance(low, str) and isinstance(high, str)
        return not (both and str(low).startswith(prefix) and str(high).startswith(prefix))
    if isinstance(high, str) and high < prefix:
        return False
    return not (isinstance(low, str) and low[: len(prefix)] > prefix)


def _may_compare(op: Operator, value: StorageValue, low: StorageValue, high: StorageValue) -> bool:
    if isinstance(value, float) and (math.isnan(value) or op in (">", ">=", "!=")):
        return True
    below = low is not None and _less(value, low)
    above = high is not None and _less(high, value)
    match op:
        case "=":
            return not below and not above
        case "!=":
            return not (_is_constant(low, high) and low == value)
        case "<":
            return low is None or _less(low, value)
        case "<=":
            return not below
        case ">":
            return high is None or _less(value, high)
        case ">=":
            return not above


def _less(first: StorageValue, second: StorageValue) -> bool:
    """Whether one value of a column's type is below another."""
    match first, second:
        case str(), str():
            # Code points sort as their UTF-8 bytes do.
            return first < second
        case bytes(), bytes():
            return first < second
        case ((int() | float() | Decimal()), (int() | float() | Decimal())):
            return first < second
    raise TypeError(f"{first!r} and {second!r} are not of one column")
