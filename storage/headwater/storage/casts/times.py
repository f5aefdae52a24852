"""Dates, times and timestamps as one another and as whole numbers, by Java's rules.

A TIMESTAMP_LTZ is a moment; where its date, its clock or its local time is asked for, it is that of
a zone. Java takes its process's zone.

Source: ``TimestampToTimestampCastRule.java`` and the other rules of dates and times in
``org.apache.paimon.casting``; ``DateTimeUtils.java``.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.types.arrow_numbers import Integers, arrow_numbers, plain_numbers
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import to_arrow
from headwater.storage.types.local_time import local_seconds, moments
from headwater.storage.types.values import units_per_second

__all__ = ["cast_time"]

_DAY = 86_400
_DAY_MILLIS = _DAY * 1000
_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


def cast_time(array: pa.Array, stored: AtomicType, wanted: AtomicType, zone: dt.tzinfo) -> pa.Array:
    """A column of dates, times, timestamps or whole numbers as another one of them.

    Args:
        array: Values of `stored`, in its Arrow form.
        stored: DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, INT or BIGINT.
        wanted: A type that `stored` may become.
        zone: The zone of local times.

    Raises:
        Invalid: A moment is too far away for the Arrow form of `wanted`.
    """
    numbers = plain_numbers(array).astype(np.int64)
    if stored.root in _TIMESTAMPS:
        units = units_per_second(stored)
        seconds, ticks = numbers // units, numbers % units
        if wanted.root in _TIMESTAMPS:
            result = _timestamps(seconds, ticks, stored, wanted, zone)
        else:
            millis = ticks // (units // 1000)
            result = _from_timestamp(seconds, millis, stored, wanted, zone)
    else:
        result = _to_timestamp(numbers, stored, wanted, zone)
    target = to_arrow(wanted)
    if pa.types.is_timestamp(target):
        return arrow_numbers(result, array, pa.timestamp(target.unit)).cast(target)
    return arrow_numbers(result, array, target)


def _timestamps(
    seconds: Integers, ticks: Integers, stored: AtomicType, wanted: AtomicType, zone: dt.tzinfo
) -> Integers:
    if stored.root is not wanted.root:
        if wanted.root is Root.TIMESTAMP_LTZ:
            seconds = moments(seconds, zone)
        else:
            seconds = local_seconds(seconds, zone)
    nanos = ticks * (10**9 // units_per_second(stored))
    if wanted.precision < stored.precision:
        if wanted.precision >= 3:
            nanos -= nanos % 10 ** (9 - wanted.precision)
        else:
            # Java cuts the milliseconds since the epoch, towards it.
            step = 10 ** (3 - wanted.precision)
            millis = seconds * 1000 + nanos // 10**6
            clean = nanos % 10 ** (9 - wanted.precision) == 0
            cut = np.where(millis < 0, -(-millis // step), millis // step) * step
            millis = np.where(clean, millis, cut)
            seconds, nanos = millis // 1000, millis % 1000 * 10**6
    return _joined(seconds, nanos, wanted)


def _joined(seconds: Integers, nanos: Integers, wanted: AtomicType) -> Integers:
    units = units_per_second(wanted)
    if (np.abs(seconds) >= 2**63 // units - 1).any():
        raise Invalid(
            f"a moment is too far from 1970 for {wanted}, which Headwater holds in "
            f"{to_arrow(wanted)}"
        )
    return seconds * units + nanos // (10**9 // units)


def _from_timestamp(
    seconds: Integers, millis: Integers, stored: AtomicType, wanted: AtomicType, zone: dt.tzinfo
) -> Integers:
    if wanted.root in (Root.INT, Root.BIGINT):
        # Towards the epoch, whatever the zone.
        whole = seconds + ((seconds < 0) & (millis > 0))
        return whole.astype(np.int32).astype(np.int64) if wanted.root is Root.INT else whole
    if stored.root is Root.TIMESTAMP_LTZ:
        seconds = local_seconds(seconds, zone)
    if wanted.root is Root.TIME:
        return seconds % _DAY * 1000 + millis
    days = seconds // _DAY
    if (days != days.astype(np.int32)).any():
        raise Invalid(f"a moment is too far from 1970 for {wanted}")
    return days


def _to_timestamp(
    numbers: Integers, stored: AtomicType, wanted: AtomicType, zone: dt.tzinfo
) -> Integers:
    local = wanted.root is Root.TIMESTAMP_LTZ
    match stored.root:
        case Root.DATE:
            seconds = numbers * _DAY
            seconds, nanos = moments(seconds, zone) if local else seconds, numbers * 0
        case Root.TIME:
            seconds, nanos = numbers // 1000, numbers % 1000 * 10**6
            if local:
                seconds = moments(local_seconds(seconds, zone), zone)
        case _:
            # Java keeps the local time of those seconds as if it were the moment.
            if (np.abs(numbers) >= 2**63 // 1000).any():
                raise Invalid(f"a number of seconds is too great for {wanted}")
            seconds = local_seconds(numbers, zone) if local else numbers
            nanos = numbers * 0
    return _joined(seconds, nanos, wanted)
