"""Times among Python's values of which Arrow keeps a part without a word.

Arrow makes one type of a column of Python's objects: the time of a datetime after a date goes, so
do the zones of local times beside moments and of times of day, and pandas' nanoseconds.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

import pyarrow as pa

__all__ = ["lost_of_times"]


def lost_of_times(values: Collection[object], made: pa.DataType) -> str | None:
    """The reason why a column of times is not what its values say; None if it is.

    Args:
        values: The column as Python's objects.
        made: The type that Arrow made of them.
    """
    kinds = {kind for kind in set(map(type, values)) if issubclass(kind, dt.date | dt.time)}
    if pa.types.is_date(made):
        if any(issubclass(kind, dt.datetime) for kind in kinds):
            return "holds dates and times with a day; give all of them one type"
        return None
    times = [value for value in values if type(value) in kinds and value == value]
    is_local = {getattr(value, "tzinfo", None) is None for value in times}
    if pa.types.is_time(made):
        return (
            "holds times of day with a time zone, which no type keeps"
            if False in is_local
            else None
        )
    if len(is_local) > 1:
        return "holds local times and moments with a time zone; give all of them one or none"
    # Only what pandas makes of Python's datetimes has any.
    if made != pa.timestamp("ns", made.tz) and kinds - {dt.datetime}:
        finer = [value for value in times if getattr(value, "nanosecond", 0)]
        if finer:
            return "holds nanoseconds among Python's values; make it a column of Arrow or pandas"
    return None
