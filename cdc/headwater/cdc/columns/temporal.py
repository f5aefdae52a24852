"""Dates and times packed as bit fields, as MySQL's DATE, TIME, DATETIME and TIMESTAMP."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.columns.bad_dates import DateRule, is_bad_date
from headwater.cdc.columns.gather import (
    LogBytes,
    Nulls,
    Offsets,
    primitive_array,
    signed_integers,
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
_DAY_SECONDS = 86_400


class _Fields(NamedTuple):
    """The parts of dates, and of times of day."""

    year: Numbers
    month: Numbers
    day: Numbers
    second: Numbers | None = None
    micros: Numbers | None = None

    def row(self, index: int) -> _Fields:
        year, month, day, second, micros = (
            _NOTHING if part is None else part[index : index + 1] for part in self
        )
        if self.second is None:
            return _Fields(year, month, day)
        return _Fields(year, month, day, second, micros)

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

    def nulls(self, nulls: Nulls, rule: DateRule, digits: int) -> Nulls:
        """Which rows are null under a rule for bad dates."""
        is_bad = is_bad_date(self.year, self.month, self.day)
        return rule.apply(is_bad, nulls, lambda row: _shown(self.row(row), digits))


def date_column(log: LogBytes, offsets: Offsets, nulls: Nulls, rule: DateRule) -> pa.Array:
    """Gather dates of three bytes: year in 15 bits, month in 4, day in 5.

    Returns:
        An array of ``date32``.

    Raises:
        Invalid: The rule rejects a date.
    """
    fields = _date_fields(log, offsets)
    nulls = fields.nulls(nulls, rule, 0)
    return primitive_array(_days(fields).astype(np.int32), pa.date32(), nulls)


def date_text_column(log: LogBytes, offsets: Offsets, nulls: Nulls) -> pa.Array:
    """Gather dates as `date_column`, as the ``string`` that the source shows."""
    return _date_fields(log, offsets).text(0, nulls)


def datetime_column(
    log: LogBytes, offsets: Offsets, nulls: Nulls, digits: int, rule: DateRule
) -> pa.Array:
    """Gather date-times without a time zone: five bytes, then `digits` of a second.

    Returns:
        An array of ``timestamp[us]``.

    Raises:
        Invalid: The rule rejects a date.
    """
    fields = _datetime_fields(log, offsets, digits)
    nulls = fields.nulls(nulls, rule, digits)
    assert fields.second is not None
    assert fields.micros is not None
    seconds = _days(fields) * _DAY_SECONDS + fields.second
    return primitive_array(seconds * _MICROS + fields.micros, pa.timestamp("us"), nulls)


def datetime_text_column(log: LogBytes, offsets: Offsets, nulls: Nulls, digits: int) -> pa.Array:
    """Gather date-times as `datetime_column`, as the ``string`` that the source shows."""
    return _datetime_fields(log, offsets, digits).text(digits, nulls)


def timestamp_column(
    log: LogBytes, offsets: Offsets, nulls: Nulls, digits: int, rule: DateRule
) -> pa.Array:
    """Gather instants: four bytes of seconds since 1970, then `digits` of a second.

    Zero is not 1970 but the date 0000-00-00.

    Returns:
        An array of ``timestamp[us, UTC]``.

    Raises:
        Invalid: The rule rejects a date, and a value is zero.
    """
    micros = _instants(log, offsets, digits)
    nulls = rule.apply(micros == 0, nulls, lambda _: _shown(_ZERO, digits))
    return primitive_array(micros, pa.timestamp("us", "UTC"), nulls)


def timestamp_text_column(log: LogBytes, offsets: Offsets, nulls: Nulls, digits: int) -> pa.Array:
    """Gather instants as `timestamp_column`, as the ``string`` that the source shows in UTC."""
    micros = _instants(log, offsets, digits)
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


def time_column(log: LogBytes, offsets: Offsets, nulls: Nulls, digits: int) -> pa.Array:
    """Gather times of -838:59:59 to 838:59:59: three bytes, then `digits` of a second.

    Returns:
        An array of ``duration[us]``, as a time may be negative or longer than a day.
    """
    width = packed_fraction_width(digits)
    packed = unsigned_integers(log, offsets, 3 + width, "big").view(np.int64)
    packed = packed - (0x800000 << (8 * width))
    magnitude = np.abs(packed)
    seconds = _seconds_of_day(magnitude >> (8 * width))
    fraction = (magnitude & ((1 << 8 * width) - 1)) * 10 ** (6 - 2 * width)
    micros = np.sign(packed) * (seconds * _MICROS + fraction)
    return primitive_array(micros, pa.duration("us"), nulls)


def year_column(log: LogBytes, offsets: Offsets, nulls: Nulls) -> pa.Array:
    """Gather years of one byte: 0 is the year 0, others count from 1900.

    Returns:
        An array of ``int16``.
    """
    stored = log.gather("u1", offsets).astype(np.int16)
    return primitive_array(np.where(stored == 0, 0, stored + 1900), pa.int16(), nulls)


def packed_fraction_width(digits: int) -> int:
    """How many bytes `digits` of a second take."""
    return (digits + 1) // 2


_NOTHING = np.zeros(1, np.int64)
_ZERO = _Fields(_NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING)


def _shown(fields: _Fields, digits: int) -> str:
    return bytes(fields.characters(digits)).decode()


def _date_fields(log: LogBytes, offsets: Offsets) -> _Fields:
    packed = signed_integers(log, offsets, 3)
    return _Fields(packed >> 9, (packed >> 5) & 15, packed & 31)


def _datetime_fields(log: LogBytes, offsets: Offsets, digits: int) -> _Fields:
    packed = unsigned_integers(log, offsets, 5, "big").view(np.int64) - 0x8000000000
    months = packed >> 22
    return _Fields(
        months // 13,
        months % 13,
        (packed >> 17) & 31,
        _seconds_of_day(packed & 0x1FFFF),
        _fraction(log, offsets + 5, digits),
    )


def _instants(log: LogBytes, offsets: Offsets, digits: int) -> Numbers:
    seconds = unsigned_integers(log, offsets, 4, "big").view(np.int64)
    return seconds * _MICROS + _fraction(log, offsets + 4, digits)


def _fraction(log: LogBytes, offsets: Offsets, digits: int) -> Numbers:
    """The fraction of a second, in µs."""
    width = packed_fraction_width(digits)
    if width == 0:
        return np.zeros(len(offsets), np.int64)
    numbers: Numbers = unsigned_integers(log, offsets, width, "big").view(np.int64)
    numbers *= 10 ** (6 - 2 * width)
    return numbers


def _seconds_of_day(packed: Numbers) -> Numbers:
    """Seconds of an hour (all upper bits), a minute and a second (6 bits each)."""
    seconds: Numbers = (packed >> 12) * 3600 + ((packed >> 6) & 63) * 60 + (packed & 63)
    return seconds


def _days(date: _Fields) -> Numbers:
    """Days since 1970-01-01 in the proleptic Gregorian calendar."""
    early = date.month <= 2
    year = date.year - early
    century = year // 100
    day_of_year = (153 * (date.month + np.where(early, 9, -3)) + 2) // 5 + date.day - 1
    return year * 365 + year // 4 - century + century // 4 + day_of_year - 719_468
