"""Values of a query's rows, which are text, as the lake has them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns import BadDates, bad_date
from headwater.cdc.columns.bad_dates import is_bad_date
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
from headwater.storage.types.data_type import to_arrow
from headwater.storage.types.padded_text import padded_array

__all__ = ["BadDates", "lake_values", "quoted", "select_expression"]

_NO_TIME_OF_DAY = r"^(-|\d{3}|2[4-9]|[3-9]\d)"
_A_DAY = "1970-01-01"
_MIN_DATE = -719_162
"""The first day of the year 1, in days since 1970."""


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def select_expression(column: SourceColumn) -> str:
    """The expression of a query for a column, whose text `lake_values` reads without loss.

    It is the column's name, but for a FLOAT, of which a server shows six digits, and for floats and
    doubles with a number of digits, of which it shows those; and where the lake has text, for bits
    and for numbers with zeros before them, which are written as the number.
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
    return name


def lake_values(
    text: pa.Array, column: SourceColumn, bad_dates: BadDates = BadDates.FAIL
) -> pa.Array:
    """Convert a column of a query's result.

    Args:
        text: The values of `select_expression` as the server writes them, ``binary_view``; text is
            in UTF-8, and instants are in UTC.
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
    values = convert_checked(
        pc.cast(text, pa.binary()), column, lambda raw: _converted(raw, column, family, bad_dates)
    )
    return padded_array(values, column.type)


def _converted(
    raw: pa.Array, column: SourceColumn, family: Family, bad_dates: BadDates
) -> pa.Array:
    target = to_arrow(column.type)
    if pa.types.is_binary(target):
        return padded_bits(raw, column) if family is Family.BIT else raw
    if family is Family.BIT and pa.types.is_boolean(target):
        return pc.equal(raw, b"\x01")
    values = pc.cast(raw, pa.string())
    if pa.types.is_string(target):
        if family not in (Family.FLOAT, Family.DOUBLE):
            return values
        return float_text(pc.cast(values, pa.float32() if family is Family.FLOAT else pa.float64()))
    if pa.types.is_boolean(target):
        return pc.not_equal(pc.cast(values, pa.int8()), 0)
    if pa.types.is_list(target):
        return split_set(values, target)
    if pa.types.is_time(target):
        return _times(values, column, target, bad_dates)
    if pa.types.is_temporal(target):
        return _dates(values, column, target, bad_dates)
    if pa.types.is_floating(target) and family is Family.INTEGER:
        # Not every integer is a double.
        is_unsigned = parse_source_type(column.source_type).is_unsigned
        values = pc.cast(values, pa.uint64() if is_unsigned else pa.int64())
    return pc.cast(values, target)


def _times(
    values: pa.Array, column: SourceColumn, target: pa.DataType, bad_dates: BadDates
) -> pa.Array:
    is_bad = pc.match_substring_regex(values, _NO_TIME_OF_DAY)
    values = _without_bad(values, is_bad, column, bad_dates)
    # Arrow reads a time of day with its date alone.
    instants = pc.cast(pc.binary_join_element_wise(_A_DAY, values, " "), pa.timestamp("ms"))
    return pc.cast(instants, target)


def _dates(
    values: pa.Array, column: SourceColumn, target: pa.DataType, bad_dates: BadDates
) -> pa.Array:
    local = pa.timestamp(target.unit) if pa.types.is_timestamp(target) else target
    try:
        dates = pc.cast(values, local)
        first = pc.min(pc.cast(dates, pa.date32())).cast(pa.int32()).as_py()
    except pa.ArrowInvalid:
        first = _MIN_DATE - 1
    if first is not None and first < _MIN_DATE:
        year, month, day = (
            pc.cast(pc.utf8_slice_codeunits(values, start, stop), pa.int64())
            .fill_null(1)
            .to_numpy(zero_copy_only=False)
            for start, stop in ((0, 4), (5, 7), (8, 10))
        )
        is_bad = pa.array(is_bad_date(year, month, np.asarray(day)))
        dates = pc.cast(_without_bad(values, is_bad, column, bad_dates), local)
    return pc.cast(dates, target)


def _without_bad(
    values: pa.Array, is_bad: pa.Array, column: SourceColumn, bad_dates: BadDates
) -> pa.Array:
    if not pc.any(is_bad).as_py():
        return values
    if bad_dates is BadDates.FAIL:
        raise bad_date(column.name, values.filter(is_bad)[0].as_py())
    return pc.if_else(is_bad, pa.scalar(None, pa.string()), values)
