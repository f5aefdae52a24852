"""Local times of a zone and moments, both ways, for many at a time.

The rules are those of ``java.time``: a local time that a zone skips is moved on by as much as the
zone skips, and of a local time that occurs twice the earlier occurrence is meant.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from headwater.storage.errors import Invalid
from headwater.storage.types.arrow_numbers import Integers

__all__ = ["Zone", "local_seconds", "moments", "named_zone", "utc"]

# Gives a zone, where one is needed.
Zone: TypeAlias = Callable[[], dt.tzinfo]

_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_EPOCH = dt.datetime(1970, 1, 1)
# The Gregorian calendar, its weekdays included, repeats every 400 years.
_CYCLE = 146_097 * 86_400
_LAST = (dt.datetime(9998, 1, 1) - _EPOCH) // dt.timedelta(seconds=1)
_FIRST = (dt.datetime(2, 1, 1) - _EPOCH) // dt.timedelta(seconds=1)
# Seconds of a stretch of time. No zone ever changed its offset twice in three days.
_STRETCHES = (3 * 86_400, 900, 1)


def utc() -> dt.tzinfo:
    """The zone whose local times are moments."""
    return dt.UTC


def named_zone(key: str, name: str) -> dt.tzinfo:
    """The zone that an option names: by its place, or as an offset such as ``+02:00``.

    Raises:
        Invalid: It names none; the message names the option.
    """
    offset = _OFFSET.fullmatch(name.strip())
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes <= 18 * 60:
            return dt.timezone(dt.timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo("UTC" if name.strip() == "Z" else name.strip())
    except (OSError, ValueError, ZoneInfoNotFoundError):
        raise Invalid(f"option '{key}': '{name}' is no time zone such as Europe/Berlin") from None


def local_seconds(seconds: Integers, zone: dt.tzinfo) -> Integers:
    """The times that clocks in the zone show at moments.

    Args:
        seconds: Seconds since the epoch.
        zone: The zone.

    Returns:
        Seconds from 1970-01-01T00:00 local time.
    """

    def offset(second: int) -> dt.timedelta | None:
        return zone.fromutc(_datetime(second).replace(tzinfo=zone)).utcoffset()

    return seconds if zone is dt.UTC else seconds + _offsets(seconds, offset)


def moments(seconds: Integers, zone: dt.tzinfo) -> Integers:
    """The inverse of `local_seconds`."""

    def offset(second: int) -> dt.timedelta | None:
        return _datetime(second).replace(tzinfo=zone, fold=0).utcoffset()

    return seconds if zone is dt.UTC else seconds - _offsets(seconds, offset)


def _offsets(seconds: Integers, offset: Callable[[int], dt.timedelta | None]) -> Integers:
    def known(times: Integers) -> Integers:
        found = [offset(second) or dt.timedelta(0) for second in times.tolist()]
        return np.array([item // dt.timedelta(seconds=1) for item in found], np.int64)

    result = np.empty(len(seconds), np.int64)
    # Where the offset changes in a stretch, shorter ones are looked at.
    rest = np.arange(len(seconds))
    for length in _STRETCHES:
        stretches, at = np.unique(seconds[rest] // length, return_inverse=True)
        first, last = known(stretches * length), known(stretches * length + length - 1)
        is_same = (first == last)[at]
        result[rest[is_same]] = first[at[is_same]]
        rest = rest[~is_same]
    return result


def _datetime(second: int) -> dt.datetime:
    """A time with the same offset that Python can hold: it knows the years 1 to 9999 only."""
    if second > _LAST:
        second -= -((_LAST - second) // _CYCLE) * _CYCLE
    return _EPOCH + dt.timedelta(seconds=max(second, _FIRST))
