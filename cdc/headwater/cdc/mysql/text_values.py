"""Values of a query's rows as the lake has them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pymysql.constants import FIELD_TYPE

from headwater.cdc.columns import (
    BadDates,
    DateRule,
    bad_date,
    binary_column,
    float_column,
    integer_column,
    primitive_array,
)
from headwater.cdc.columns.calendar import calendar
from headwater.cdc.columns.value_text import float_text
from headwater.cdc.model.tables import SourceColumn
from headwater.cdc.mysql.column_types import parse_source_type
from headwater.cdc.mysql.conversions import (
    Family,
    convert_checked,
    padded_bits,
    source_family,
    split_set,
)
from headwater.cdc.mysql.result_sets import FIXED_WIDTHS, ResultColumn
from headwater.storage.types.data_type import to_arrow
from headwater.storage.types.padded_text import padded_array

__all__ = ["BadDates", "lake_values", "quoted", "select_expression"]

_NO_TIME_OF_DAY = r"^(-|\d{3}|2[4-9]|[3-9]\d)"
_A_DAY = "1970-01-01"
_YEAR_DIGITS = 4
# The most digits of an integer, which a decimal must have before its point.
_MAX_INTEGER_DIGITS = 20
_FLOATS = frozenset({FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE})
_DATES = frozenset({FIELD_TYPE.DATE, FIELD_TYPE.NEWDATE, FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP})
_TIMES = frozenset({Family.DATE, Family.DATETIME, Family.TIMESTAMP, Family.TIME})
# A date is 0, 4, 7 or 11 bytes, as its last parts are left out where they are zero: two of the
# year, one each of month, day, hour, minute and second, and four of microseconds.
_DATE_BYTES = 11
_KEPT = np.array([(1 << 8 * min(size, 7)) - 1 for size in range(_DATE_BYTES + 1)], np.int64)
_SECOND_BYTES = 7
_DAY_SECONDS, _MICROS = 86_400, 1_000_000


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def select_expression(column: SourceColumn) -> str:
    """The expression of a query for a column, whose value `lake_values` reads without loss.

    It is the column's name, but for a FLOAT, of which a server shows six digits, and for floats and
    doubles with a number of digits, of which it shows those; and where the lake has text, for bits
    and for numbers with zeros before them, which are written as the number, and for dates and
    times, which the server writes. It writes times of a day in any case.
    """
    name = quoted(column.name)
    family = source_family(column)
    source = parse_source_type(column.source_type)
    is_text = pa.types.is_string(to_arrow(column.type))
    is_filled = "zerofill" in column.source_type
    if family is Family.FLOAT or (family is Family.DOUBLE and (source.arguments or is_filled)):
        return f"CAST({name} AS DOUBLE)"
    if is_text and (family is Family.BIT or (family is Family.INTEGER and is_filled)):
        return f"CAST({name} AS UNSIGNED)"
    if is_text and family is Family.DECIMAL and is_filled:
        return f"CAST({name} AS DECIMAL({','.join(source.arguments)}))"
    if family is Family.TIME or (is_text and family in _TIMES):
        return f"CAST({name} AS CHAR)"
    return name


def lake_values(
    values: ResultColumn, column: SourceColumn, bad_dates: BadDates = BadDates.FAIL
) -> pa.Array:
    """Convert a column of a prepared query's result.

    Args:
        values: The values of `select_expression`; text is in UTF-8, and instants are in UTC.
        column: The column.
        bad_dates: What to do with dates and times that the lake does not have.

    Returns:
        The values in the Arrow form of the column's type in the lake; CHAR is padded as the lake
        has it.

    Raises:
        Invalid: The lake does not have a value; the column and the value are named.
        Unsupported: The lake's type does not hold values of the source's type.
    """
    family = source_family(column)
    converted = convert_checked(
        _gathered(values, column, bad_dates),
        column,
        lambda raw: _converted(raw, column, family, bad_dates),
    )
    return padded_array(converted, column.type)


def _gathered(values: ResultColumn, column: SourceColumn, bad_dates: BadDates) -> pa.Array:
    """The values in the form that the result has them in: numbers, instants, or bytes."""
    log, offsets, nulls = values.log, values.offsets, values.nulls
    if values.type in _DATES:
        return _dates(values, column, bad_dates)
    width = FIXED_WIDTHS.get(values.type)
    if width is None:
        return binary_column(log, offsets, nulls, values.lengths)
    if values.type in _FLOATS:
        return float_column(log.cells(offsets, width), nulls, width)
    return integer_column(log.cells(offsets, width), nulls, width, signed=not values.is_unsigned)


def _converted(
    raw: pa.Array, column: SourceColumn, family: Family, bad_dates: BadDates
) -> pa.Array:
    target = to_arrow(column.type)
    if raw.type == target and family is not Family.BIT:
        return raw
    if not pa.types.is_binary(raw.type):
        return _numbers(raw, column, family, target)
    if pa.types.is_binary(target):
        return padded_bits(raw, column)
    if family is Family.BIT and pa.types.is_boolean(target):
        return pc.equal(raw, b"\x01")
    values = pc.cast(raw, pa.string())
    if pa.types.is_list(target):
        return split_set(values, target)
    if pa.types.is_time(target):
        return _times(values, column, target, bad_dates)
    return pc.cast(values, target)


def _numbers(
    values: pa.Array, column: SourceColumn, family: Family, target: pa.DataType
) -> pa.Array:
    """Numbers and instants as another type."""
    if family is Family.FLOAT and not pa.types.is_float64(target):
        values = pc.cast(values, pa.float32())
    if pa.types.is_string(target):
        if pa.types.is_floating(values.type):
            return float_text(values)
        text = pc.cast(values, pa.string())
        return pc.utf8_lpad(text, _YEAR_DIGITS, "0") if family is Family.YEAR else text
    if pa.types.is_boolean(target):
        return pc.not_equal(values, 0)
    if pa.types.is_decimal(target) and target.precision - target.scale < _MAX_INTEGER_DIGITS:
        # Arrow would reject all numbers of a type of which some have more digits.
        values = pc.cast(values, pa.string())
    return pc.cast(values, target)


def _times(
    values: pa.Array, column: SourceColumn, target: pa.DataType, bad_dates: BadDates
) -> pa.Array:
    is_bad = pc.match_substring_regex(values, _NO_TIME_OF_DAY)
    if pc.any(is_bad).as_py():
        if bad_dates is BadDates.FAIL:
            raise bad_date(column.name, values.filter(is_bad)[0].as_py())
        values = pc.if_else(is_bad, pa.scalar(None, pa.string()), values)
    # Arrow reads a time of day with its date alone.
    instants = pc.cast(pc.binary_join_element_wise(_A_DAY, values, " "), pa.timestamp("ms"))
    return pc.cast(instants, target)


def _dates(values: ResultColumn, column: SourceColumn, bad_dates: BadDates) -> pa.Array:
    """Dates as ``date32``, dates with a time as ``timestamp[us]``, with the lake's time zone."""
    log, lengths = values.log, values.lengths
    parts = log.gather("<i8", values.offsets) & _KEPT[lengths]
    micros = np.zeros(len(parts), np.int64)
    if int(lengths.max(initial=0)) == _DATE_BYTES:
        micros += log.gather("<u4", values.offsets + _SECOND_BYTES)
        micros *= lengths == _DATE_BYTES
    month = ((parts & 0xFFFF) << 4) | ((parts >> 16) & 15)
    day = (parts >> 24) & 0xFF
    months = calendar()
    is_bad = (day == 0) | (day > months.last[month])
    rule = DateRule(column.name, bad_dates)
    nulls = rule.apply(
        is_bad, values.nulls, lambda row: _shown(int(parts[row]), int(micros[row]), column)
    )
    days = months.before[month] + day
    target = to_arrow(column.type)
    if pa.types.is_date(target):
        return primitive_array(days.astype(np.int32), pa.date32(), nulls)
    seconds = days * _DAY_SECONDS + _seconds_of_day(parts)
    return primitive_array(seconds * _MICROS + micros, pa.timestamp("us", target.tz), nulls)


def _seconds_of_day(parts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    minutes = ((parts >> 32) & 0xFF) * 60 + ((parts >> 40) & 0xFF)
    seconds: npt.NDArray[np.int64] = minutes * 60 + ((parts >> 48) & 0xFF)
    return seconds


def _shown(parts: int, micros: int, column: SourceColumn) -> str:
    """A date as the server shows it."""
    year, rest = parts & 0xFFFF, (parts >> 16).to_bytes(6, "little")
    month, day, hour, minute, second, _ = rest
    date = f"{year:04}-{month:02}-{day:02}"
    source = parse_source_type(column.source_type)
    if source.name == "date":
        return date
    digits = source.length or 0
    fraction = f".{micros:06}"[: digits + 1] if digits else ""
    return f"{date} {hour:02}:{minute:02}:{second:02}{fraction}"
