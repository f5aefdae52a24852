"""Dates and times packed as bit fields, as MySQL's DATE, TIME, DATETIME and TIMESTAMP."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.cdc.columns.gather import (
    LogBytes,
    Nulls,
    Offsets,
    primitive_array,
    signed_integers,
    unsigned_integers,
)
from headwater.storage.errors import Invalid

ZeroDates: TypeAlias = Literal["null", "fail"]
"""What becomes of a date that does not exist, such as 0000-00-00 or 2026-02-31."""

_MICROS = 1_000_000
_DAYS_IN_MONTH = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0, 0, 0])


def date_column(
    log: LogBytes, offsets: Offsets, nulls: Nulls, zero_dates: ZeroDates = "null"
) -> pa.Array:
    """Gather dates of three bytes: year in 15 bits, month in 4, day in 5.

    Returns:
        An array of ``date32``.

    Raises:
        Invalid: `zero_dates` is ``fail``, and a date does not exist.
    """
    packed = signed_integers(log, offsets, 3)
    year, month, day = packed >> 9, (packed >> 5) & 15, packed & 31
    nulls = _without_impossible(year, month, day, nulls, zero_dates)
    return primitive_array(_days(year, month, day).astype(np.int32), pa.date32(), nulls)


def datetime_column(
    log: LogBytes, offsets: Offsets, nulls: Nulls, digits: int, zero_dates: ZeroDates = "null"
) -> pa.Array:
    """Gather date-times without a time zone: five bytes, then `digits` of a second.

    Returns:
        An array of ``timestamp[us]``.

    Raises:
        Invalid: `zero_dates` is ``fail``, and a date does not exist.
    """
    packed = unsigned_integers(log, offsets, 5, "big").view(np.int64) - 0x8000000000
    months, day = packed >> 22, (packed >> 17) & 31
    year, month = months // 13, months % 13
    nulls = _without_impossible(year, month, day, nulls, zero_dates)
    seconds = _days(year, month, day) * 86_400 + _seconds_of_day(packed & 0x1FFFF)
    micros = seconds * _MICROS + _fraction(log, offsets + 5, digits)
    return primitive_array(micros, pa.timestamp("us"), nulls)


def timestamp_column(
    log: LogBytes, offsets: Offsets, nulls: Nulls, digits: int, zero_dates: ZeroDates = "null"
) -> pa.Array:
    """Gather instants: four bytes of seconds since 1970, then `digits` of a second.

    Zero is not 1970 but the date 0000-00-00.

    Returns:
        An array of ``timestamp[us, UTC]``.

    Raises:
        Invalid: `zero_dates` is ``fail``, and a value is zero.
    """
    seconds = unsigned_integers(log, offsets, 4, "big").view(np.int64)
    micros = seconds * _MICROS + _fraction(log, offsets + 4, digits)
    nulls = _with_nulls(micros == 0, nulls, zero_dates, lambda _: "0000-00-00 00:00:00")
    return primitive_array(micros, pa.timestamp("us", "UTC"), nulls)


def time_column(log: LogBytes, offsets: Offsets, nulls: Nulls, digits: int) -> pa.Array:
    """Gather times of -838:59:59 to 838:59:59: three bytes, then `digits` of a second.

    Returns:
        An array of ``duration[us]``, as a time may be negative or longer than a day.
    """
    width = _fraction_bytes(digits)
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
    return _fraction_bytes(digits)


def _fraction_bytes(digits: int) -> int:
    return (digits + 1) // 2


def _fraction(log: LogBytes, offsets: Offsets, digits: int) -> npt.NDArray[np.int64] | int:
    """The fraction of a second, in µs."""
    width = _fraction_bytes(digits)
    if width == 0:
        return 0
    numbers: npt.NDArray[np.int64] = unsigned_integers(log, offsets, width, "big").view(np.int64)
    micros: npt.NDArray[np.int64] = numbers * 10 ** (6 - 2 * width)
    return micros


def _seconds_of_day(packed: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Seconds of an hour (all upper bits), a minute and a second (6 bits each)."""
    seconds: npt.NDArray[np.int64] = (
        (packed >> 12) * 3600 + ((packed >> 6) & 63) * 60 + (packed & 63)
    )
    return seconds


def _days(
    year: npt.NDArray[np.int64], month: npt.NDArray[np.int64], day: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Days since 1970-01-01 in the proleptic Gregorian calendar."""
    early = month <= 2
    year = year - early
    century = year // 100
    day_of_year = (153 * (month + np.where(early, 9, -3)) + 2) // 5 + day - 1
    return year * 365 + year // 4 - century + century // 4 + day_of_year - 719_468


def _without_impossible(
    year: npt.NDArray[np.int64],
    month: npt.NDArray[np.int64],
    day: npt.NDArray[np.int64],
    nulls: Nulls,
    zero_dates: ZeroDates,
) -> Nulls:
    impossible = (day == 0) | (day > _DAYS_IN_MONTH[month & 15])
    suspect = (month == 2) & (day == 29)
    if suspect.any():
        leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
        impossible |= suspect & ~leap

    def describe(row: int) -> str:
        return f"{year[row]:04}-{month[row]:02}-{day[row]:02}"

    return _with_nulls(impossible, nulls, zero_dates, describe)


def _with_nulls(
    impossible: npt.NDArray[np.bool_], nulls: Nulls, zero_dates: ZeroDates, describe: Any
) -> Nulls:
    if nulls is not None:
        impossible = impossible & ~nulls
    if not impossible.any():
        return nulls
    if zero_dates == "fail":
        rows = np.flatnonzero(impossible)
        raise Invalid(
            f"cannot decode {len(rows)} dates such as {describe(int(rows[0]))}: they do not exist; "
            "read them as null with zero_dates='null', or correct them in the source"
        )
    return impossible if nulls is None else nulls | impossible
