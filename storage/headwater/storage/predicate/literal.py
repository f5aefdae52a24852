"""Literals of predicates: a value beside a column becomes a value of the column's type.

The value need not fit: ``tinyint_column < 1000`` and ``int_column > 1.5`` mean what they say. They
become the comparison with the nearest value that fits.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from headwater.storage.errors import Invalid
from headwater.storage.predicate.tree import (
    And,
    Comparison,
    Constant,
    In,
    Operator,
    Or,
    Predicate,
    StartsWith,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField, refuse_kept
from headwater.storage.types.values import (
    INTEGER_BITS,
    StorageValue,
    nanoseconds_of,
    parse_moment,
    parse_time_of_day,
    storage_value,
    units_per_second,
)

__all__ = ["IsoText", "comparison", "membership", "starts_with", "within_reach"]

_EPOCH = dt.datetime(1970, 1, 1)
_DAY = 86_400 * 10**9
# Far beyond every value of every type.
_MOST_EXPONENT = 1000


@dataclass(frozen=True)
class IsoText:
    """Text that was written as a timestamp or a time of day, not as a string."""

    text: str


def comparison(schema: TableSchema, column: str, op: Operator, value: object) -> Predicate:
    """A column against a Python value; against None it is null for every row.

    Dates and timestamps may be given as ISO text. A timestamp without time zone beside a
    TIMESTAMP_LTZ column is taken as UTC.

    Raises:
        NotFound: There is no such column.
        Invalid: The value cannot be compared with the column.
    """
    field = schema.column(column)
    data_type = _atomic(field)
    if value is None:
        return Constant(None)
    if data_type.root in (Root.FLOAT, Root.DOUBLE):
        return _floating(field, data_type, op, value)
    if data_type.root in INTEGER_BITS or data_type.root is Root.DECIMAL:
        return _ordinal(field, data_type, op, value)
    try:
        return Comparison(column, op, storage_value(value, data_type))
    except Invalid:
        raise _mismatch(field, value) from None


def membership(
    schema: TableSchema, column: str, values: Iterable[object], negated: bool = False
) -> Predicate:
    """A column among Python values, with SQL's meaning of a None among them.

    Raises:
        NotFound: There is no such column.
        Invalid: A value cannot be compared with the column.
    """
    schema.column(column)
    members: list[StorageValue] = []
    has_null = False
    for value in values:
        match comparison(schema, column, "=", value):
            case Comparison(value=member):
                members.append(member)
            case Constant():
                has_null = True
            case _:
                pass  # A value that no row can have.
    found = In(column, tuple(members), negated)
    if not has_null:
        return found
    return And((found, Constant(None))) if negated else Or((found, Constant(None)))


def starts_with(schema: TableSchema, column: str, prefix: str) -> Predicate:
    """A string column beginning with a text.

    Raises:
        NotFound: There is no such column.
        Invalid: The column holds no strings.
    """
    field = schema.column(column)
    if _atomic(field).root not in (Root.CHAR, Root.VARCHAR):
        raise Invalid(f"column '{column}' is {field.type}: only strings start with a text")
    return StartsWith(column, prefix)


def within_reach(value: Decimal) -> Decimal:
    """The number, or one of a small exponent that compares alike with all that a column can hold.

    As an integer, ``1e999999999`` has a billion digits: to make one keeps a whole process for
    minutes.
    """
    if not value or not value.is_finite() or abs(value.adjusted()) <= _MOST_EXPONENT:
        return value
    return Decimal(1).scaleb(int(math.copysign(_MOST_EXPONENT, value.adjusted()))).copy_sign(value)


def _atomic(field: DataField) -> AtomicType:
    if not isinstance(field.type, AtomicType) or field.type.root is Root.BLOB:
        raise Invalid(f"column '{field.name}' is {field.type}: it can only be compared with NULL")
    refuse_kept(field)
    return field.type


def _mismatch(field: DataField, value: object) -> Invalid:
    return Invalid(f"column '{field.name}' is {field.type}: it cannot be compared with {value!r}")


def _never(column: str) -> Predicate:
    return In(column, ())


def _always(column: str) -> Predicate:
    return In(column, (), negated=True)


def _ordinal(field: DataField, data_type: AtomicType, op: Operator, value: object) -> Predicate:
    position = _position(field, data_type, value)
    floor = math.floor(position)
    least, greatest = _limits(data_type)
    if position < least or position > greatest:
        low = position < least
        true = op == "!=" or op in ((">", ">=") if low else ("<", "<="))
        return _always(field.name) if true else _never(field.name)
    if floor == position:
        return Comparison(field.name, op, _at(floor, data_type))
    if op in ("=", "!="):
        return _never(field.name) if op == "=" else _always(field.name)
    return Comparison(field.name, "<=" if op in ("<", "<=") else ">", _at(floor, data_type))


def _limits(data_type: AtomicType) -> tuple[int, int]:
    if data_type.root is Root.DECIMAL:
        return 1 - 10**data_type.precision, 10**data_type.precision - 1
    bits = INTEGER_BITS[data_type.root]
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _at(position: int, data_type: AtomicType) -> StorageValue:
    if data_type.root is not Root.DECIMAL:
        return position
    digits = tuple(int(digit) for digit in str(abs(position)))
    return Decimal((int(position < 0), digits, -data_type.scale))


def _position(field: DataField, data_type: AtomicType, value: object) -> Fraction:
    """The position of a value, counted in the steps of the type."""
    root = data_type.root
    if root in (Root.DATE, Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        nanos = _nanoseconds(field, data_type, value)
        step = _DAY if root is Root.DATE else 10**9 // units_per_second(data_type)
        return Fraction(nanos, step)
    if root is Root.TIME:
        return Fraction(_time_of_day(field, value), 10**6)
    if isinstance(value, bool) or not isinstance(
        value, int | float | Decimal | np.integer | np.floating
    ):
        raise _mismatch(field, value)
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, Decimal):
        plain = within_reach(plain)
    try:
        return Fraction(plain) * Fraction(10**data_type.scale)
    except (ValueError, OverflowError):  # NaN and infinities
        raise _mismatch(field, value) from None


def _nanoseconds(field: DataField, data_type: AtomicType, value: object) -> int:
    match value:
        case dt.datetime():
            zoned = value.tzinfo is not None
            naive = value.astimezone(dt.UTC).replace(tzinfo=None) if zoned else value
            nanos = nanoseconds_of(naive)
        case dt.date():
            zoned = False
            nanos = (value - _EPOCH.date()).days * _DAY
        case str() | IsoText():
            try:
                nanos, zoned = parse_moment(value if isinstance(value, str) else value.text)
            except ValueError:
                raise _mismatch(field, value) from None
        case _:
            raise _mismatch(field, value)
    if zoned and data_type.root is not Root.TIMESTAMP_LTZ:
        raise _mismatch(field, value)
    return nanos


def _time_of_day(field: DataField, value: object) -> int:
    try:
        match value:
            case dt.time(tzinfo=None):
                return parse_time_of_day(value.isoformat())
            case str() | IsoText():
                return parse_time_of_day(value if isinstance(value, str) else value.text)
    except ValueError:
        pass
    raise _mismatch(field, value)


def _floating(field: DataField, data_type: AtomicType, op: Operator, value: object) -> Predicate:
    if isinstance(value, bool) or not isinstance(
        value, int | float | Decimal | np.integer | np.floating
    ):
        raise _mismatch(field, value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if data_type.root is Root.DOUBLE or not math.isfinite(number):
        return Comparison(field.name, op, number)
    # Spark widens the column to DOUBLE: a number between two FLOATs equals none of them.
    with np.errstate(over="ignore"):
        nearest = np.float32(number)
    if float(nearest) == number:
        return Comparison(field.name, op, number)
    if op in ("=", "!="):
        return _never(field.name) if op == "=" else _always(field.name)
    below = nearest if nearest < number else np.nextafter(nearest, np.float32(-np.inf))
    return Comparison(field.name, "<=" if op in ("<", "<=") else ">", float(below))
