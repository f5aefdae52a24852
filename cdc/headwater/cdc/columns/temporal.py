"""Dates and times packed as bit fields, as MySQL's DATE, TIME, DATETIME and TIMESTAMP."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.columns.bad_dates import DateRule
from headwater.cdc.columns.gather import (
    WORD_BYTES,
    Cells,
    Nulls,
    new_values,
    primitive_array,
    unsigned_integers,
)
from headwater.cdc.columns.value_text import (
    Characters,
    clock_characters,
    digit_characters,
    join_characters,
    text_array,
)

Numbers = npt.NDArray[np.int64]

_MICROS = 1_000_000
_PER_SECOND = {"ms": 1000, "us": _MICROS}
_DAY_SECONDS = 86_400
# A year and a month are one number of 17 bits; dates such as 0000-00-00 have the month 0.
_MONTHS = 13
_MAX_MONTH = (1 << 17) - 1
_MAX_YEAR = 9999


class _Fields(NamedTuple):
    """The parts of dates, and of times of day."""

    year: Numbers
    month: Numbers
    day: Numbers
    second: Numbers | None = None
    micros: Numbers | None = None

    def characters(self, digits: int) -> Characters:
        """The text ``YYYY-MM-DD``, with a time of day ``HH:MM:SS.ffffff``."""
        parts: list[Characters | str] = [
            digit_characters(self.year, 4),
            "-",
            digit_characters(self.month, 2),
            "-",
            digit_characters(self.day, 2),
        ]
        if self.second is not None and self.micros is not None:
            hours = digit_characters(self.second // 3600, 2)
            parts += [" ", hours, *clock_characters(self.second, self.micros, digits)]
        return join_characters(parts, len(self.year))

    def text(self, digits: int, nulls: Nulls) -> pa.Array:
        return text_array(self.characters(digits), nulls)


def date_column(cells: Cells, nulls: Nulls, rule: DateRule) -> pa.Array:
    """Read dates of three bytes: year in 15 bits, month in 4, day in 5.

    Returns:
        An array of ``date32``.

    Raises:
        Invalid: The rule rejects a date.
    """
    packed = unsigned_integers(cells, 3).view(np.int64)
    # Months beyond 12 become the month 0 of the next year, which does not exist either.
    months = (packed >> 9) * _MONTHS + np.minimum((packed >> 5) & 15, _MONTHS)
    days, nulls = _days(
        np.minimum(months, _MAX_MONTH),
        packed & 31,
        nulls,
        rule,
        lambda row: _shown(_date_fields(packed[row : row + 1]), 0),
    )
    return primitive_array(days, pa.date32(), nulls)


def date_text_column(cells: Cells, nulls: Nulls) -> pa.Array:
    """Read dates as `date_column`, as the ``string`` that the source shows."""
    return _date_fields(unsigned_integers(cells, 3).view(np.int64)).text(0, nulls)


def datetime_column(
    cells: Cells, nulls: Nulls, digits: int, rule: DateRule, unit: str = "us"
) -> pa.Array:
    """Read date-times without a time zone: five bytes, then `digits` of a second.

    Returns:
        An array of ``timestamp[us]``, or of another unit where there are no digits.

    Raises:
        Invalid: The rule rejects a date.
    """
    packed, micros = _packed_datetimes(cells, digits)
    days, nulls = _days(
        (packed >> 22) & _MAX_MONTH,
        (packed >> 17) & 31,
        nulls,
        rule,
        lambda row: _shown(_datetime_fields(packed[row : row + 1], micros[row : row + 1]), digits),
    )
    values = new_values(cells.rows, np.int64)
    np.multiply(days, np.int64(_DAY_SECONDS * _PER_SECOND[unit]), out=values)
    packed &= 0x1FFFF
    values += _times_of_day(unit).take(packed)
    if digits:
        values += micros
    return primitive_array(values, pa.timestamp(unit), nulls)


def datetime_text_column(cells: Cells, nulls: Nulls, digits: int) -> pa.Array:
    """Read date-times as `datetime_column`, as the ``string`` that the source shows."""
    return _datetime_fields(*_packed_datetimes(cells, digits)).text(digits, nulls)


def timestamp_column(
    cells: Cells, nulls: Nulls, digits: int, rule: DateRule, unit: str = "us"
) -> pa.Array:
    """Read instants: four bytes of seconds since 1970, then `digits` of a second.

    Zero is not 1970 but the date 0000-00-00.

    Returns:
        An array of ``timestamp[us, UTC]``, or of another unit where there are no digits.

    Raises:
        Invalid: The rule rejects a date, and a value is zero.
    """
    values = _instants(cells, digits, unit)
    nulls = rule.apply(values == 0, nulls, lambda _: _shown(_ZERO, digits))
    return primitive_array(values, pa.timestamp(unit, "UTC"), nulls)


def timestamp_text_column(cells: Cells, nulls: Nulls, digits: int) -> pa.Array:
    """Read instants as `timestamp_column`, as the ``string`` that the source shows in UTC."""
    micros = _instants(cells, digits)
    days = (micros // (_DAY_SECONDS * _MICROS)).view("datetime64[D]")
    months = days.astype("datetime64[M]")
    fields = _Fields(
        months.astype("datetime64[Y]").view(np.int64) + 1970,
        months.view(np.int64) % 12 + 1,
        (days - months).view(np.int64) + 1,
        micros // _MICROS % _DAY_SECONDS,
        micros % _MICROS,
    )
    characters = fields.characters(digits)
    characters[micros == 0] = _ZERO.characters(digits)
    return text_array(characters, nulls)


def time_column(cells: Cells, nulls: Nulls, digits: int) -> pa.Array:
    """Read times of -838:59:59 to 838:59:59: three bytes, then `digits` of a second.

    Returns:
        An array of ``duration[us]``, as a time may be negative or longer than a day.
    """
    width = packed_fraction_width(digits)
    packed = unsigned_integers(cells, 3 + width, "big").view(np.int64)
    packed = packed - (0x800000 << (8 * width))
    magnitude = np.abs(packed)
    seconds = _seconds_of_day(magnitude >> (8 * width))
    fraction = (magnitude & ((1 << 8 * width) - 1)) * 10 ** (6 - 2 * width)
    micros = np.sign(packed) * (seconds * _MICROS + fraction)
    return primitive_array(micros, pa.duration("us"), nulls)


def year_column(cells: Cells, nulls: Nulls) -> pa.Array:
    """Read years of one byte: 0 is the year 0, others count from 1900.

    Returns:
        An array of ``int16``.
    """
    stored = cells.read("u1").astype(np.int16)
    return primitive_array(np.where(stored == 0, 0, stored + 1900), pa.int16(), nulls)


def packed_fraction_width(digits: int) -> int:
    """How many bytes `digits` of a second take."""
    return (digits + 1) // 2


_NOTHING = np.zeros(1, np.int64)
_ZERO = _Fields(_NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING)


def _shown(fields: _Fields, digits: int) -> str:
    return bytes(fields.characters(digits)).decode()


def _date_fields(packed: Numbers) -> _Fields:
    return _Fields(packed >> 9, (packed >> 5) & 15, packed & 31)


def _packed_datetimes(cells: Cells, digits: int) -> tuple[Numbers, Numbers]:
    """Months in 17 bits, a day in 5, an hour in 5, a minute and a second in 6 each; and µs."""
    packed, micros = _with_fraction(cells, 5, digits)
    packed -= 0x8000000000
    return packed, micros


def _datetime_fields(packed: Numbers, micros: Numbers) -> _Fields:
    months = packed >> 22
    return _Fields(
        months // _MONTHS,
        months % _MONTHS,
        (packed >> 17) & 31,
        _seconds_of_day(packed & 0x1FFFF),
        micros,
    )


def _instants(cells: Cells, digits: int, unit: str = "us") -> Numbers:
    values, micros = _with_fraction(cells, 4, digits)
    values *= _PER_SECOND[unit]
    if digits:
        values += micros
    return values


def _with_fraction(cells: Cells, width: int, digits: int) -> tuple[Numbers, Numbers]:
    """A number of some bytes, and the fraction of a second after it, in µs."""
    fraction_width = packed_fraction_width(digits)
    word: Numbers = unsigned_integers(cells, width + fraction_width, "big").view(np.int64)
    if not fraction_width:
        return word, np.zeros(cells.rows, np.int64)
    micros = word & ((1 << 8 * fraction_width) - 1)
    word >>= 8 * fraction_width
    if width + fraction_width == WORD_BYTES:
        # Its first bit was taken for a sign.
        word &= (1 << 8 * width) - 1
    if fraction_width < 3:
        micros *= 10 ** (6 - 2 * fraction_width)
    return word, micros


def _seconds_of_day(packed: Numbers) -> Numbers:
    """Seconds of an hour (all upper bits), a minute and a second (6 bits each)."""
    seconds: Numbers = (packed >> 12) * 3600 + ((packed >> 6) & 63) * 60 + (packed & 63)
    return seconds


def _days(
    months: Numbers, days: Numbers, nulls: Nulls, rule: DateRule, show: Callable[[int], str]
) -> tuple[npt.NDArray[np.int32], Nulls]:
    """Days since 1970-01-01, and which rows are null under a rule for bad dates.

    Args:
        months: Each year's number times 13, and the month.
        days: The days of the months.
        nulls: Which rows are null.
        rule: The rule.
        show: Returns a row's value as the source shows it.
    """
    first_days, lengths = _calendar()
    is_bad = (days > lengths[months]) | (days == 0)
    nulls = rule.apply(is_bad, nulls, show)
    result = first_days[months]
    result += days.astype(np.int32)
    return result, nulls


@lru_cache(maxsize=1)
def _calendar() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The day before each month, and its days; a month that does not exist has none.

    Days are since 1970-01-01 in the proleptic Gregorian calendar; years are 1 to 9999.
    """
    year, month = np.divmod(np.arange(_MAX_MONTH + 1), _MONTHS)
    exists = (year > 0) & (year <= _MAX_YEAR) & (month > 0)
    dates = (np.where(exists, (year - 1970) * 12 + month - 1, 0)).view("datetime64[M]")
    first_days = dates.astype("datetime64[D]").view(np.int64)
    lengths = (dates + 1).astype("datetime64[D]").view(np.int64) - first_days
    return (first_days - 1).astype(np.int32), np.where(exists, lengths, 0)


@lru_cache
def _times_of_day(unit: str) -> Numbers:
    """The time since midnight of each packed hour, minute and second."""
    return _seconds_of_day(np.arange(1 << 17)) * _PER_SECOND[unit]
