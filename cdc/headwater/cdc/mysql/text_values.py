"""Values of a query's rows, which are text, as the lake has them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.model.tables import SourceColumn
from headwater.storage.errors import Invalid
from headwater.storage.types.data_type import to_arrow

__all__ = ["BadDates", "lake_values"]

# A date without a month or a day, or a year: 0000-00-00, 2024-00-00, 2024-01-00.
_ZERO_DATE = r"^(0000|....-00|....-..-00)"
_NO_TIME_OF_DAY = r"^(-|\d{3}|2[4-9]|[3-9]\d)"
_A_DAY = "1970-01-01"
_DATES = "write real dates at the source, or choose 'null' for them"


class BadDates(StrEnum):
    """The lake's values of dates and times that it does not have, such as ``0000-00-00``."""

    NULL = "null"
    FAIL = "fail"


def lake_values(
    text: pa.Array, column: SourceColumn, bad_dates: BadDates = BadDates.FAIL
) -> pa.Array:
    """Convert a column of a query's result.

    Args:
        text: The values as the server writes them, ``binary_view``; text is in UTF-8, and
            instants are in UTC.
        column: The column.
        bad_dates: What to do with dates and times that the lake does not have.

    Returns:
        The values in the Arrow form of the column's type in the lake.

    Raises:
        Invalid: The lake does not have a value; the column and the value are named.
    """
    raw = pc.cast(text, pa.binary())
    wanted = to_arrow(column.type)
    try:
        if pa.types.is_binary(wanted):
            return raw
        if column.source_type.startswith("bit("):
            return pc.equal(raw, b"\x01")
        values = pc.cast(raw, pa.string())
        if pa.types.is_temporal(wanted):
            values = _without_bad_dates(values, column, wanted, bad_dates)
        return _cast(wanted)(values)
    except pa.ArrowInvalid as error:
        raise Invalid(
            f"column '{column.name}' of type {column.source_type}: {error}; change the value at "
            "the source, or the column's type"
        ) from error


def _without_bad_dates(
    values: pa.Array, column: SourceColumn, wanted: pa.DataType, bad_dates: BadDates
) -> pa.Array:
    pattern = _NO_TIME_OF_DAY if pa.types.is_time(wanted) else _ZERO_DATE
    is_bad = pc.match_substring_regex(values, pattern)
    if not pc.any(is_bad).as_py():
        return values
    if bad_dates is BadDates.FAIL:
        (first, *_) = values.filter(is_bad)
        raise Invalid(
            f"column '{column.name}' of type {column.source_type} has the value '{first}', which "
            f"the lake does not have; {_DATES}"
        )
    return pc.if_else(is_bad, None, values)


def _cast(wanted: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    if pa.types.is_boolean(wanted):
        return lambda values: pc.not_equal(pc.cast(values, pa.int8()), 0)
    if pa.types.is_list(wanted):
        return _split
    if pa.types.is_time(wanted):
        # Arrow reads a time of day with its date alone.
        return lambda values: pc.cast(
            pc.cast(pc.binary_join_element_wise(_A_DAY, values, " "), pa.timestamp("ms")), wanted
        )
    if pa.types.is_timestamp(wanted) and wanted.tz is not None:
        local = pa.timestamp(wanted.unit)
        return lambda values: pc.assume_timezone(pc.cast(values, local), wanted.tz)
    return lambda values: pc.cast(values, wanted)


def _split(values: pa.Array) -> pa.Array:
    """The members of sets; the empty text is the empty set."""
    lists = pc.split_pattern(values, ",")
    # An empty text splits into one empty member.
    lengths = pc.if_else(pc.equal(values, ""), 0, pc.list_value_length(lists))
    members = pc.list_flatten(lists)
    kept = members.filter(pc.not_equal(members, ""))
    ends = pc.cumulative_sum(pc.fill_null(lengths, 0))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cast(ends, pa.int32())])
    validity = pc.is_null(values) if values.null_count else None
    return pa.ListArray.from_arrays(offsets, kept, mask=validity)
