"""The days of the Gregorian calendar's months, looked up for all rows at once."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_YEARS = 10_000
# A month is four bits of an index.
_MONTH_BITS = 4


class Calendar(NamedTuple):
    """Months of the years 0 to 9999, by ``year << 4 | month``.

    Attributes:
        before: The day before a month begins, in days since 1970.
        last: The last day of a month; 0 where there is no such month, and in the year 0.
    """

    before: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]


@cache
def calendar() -> Calendar:
    """Compute all months."""
    index = np.arange(_YEARS << _MONTH_BITS)
    year, month = index >> _MONTH_BITS, index & ((1 << _MONTH_BITS) - 1)
    begin = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days, after = (months.astype("datetime64[D]").view(np.int64) for months in (begin, begin + 1))
    exists = (year > 0) & (month >= 1) & (month <= 12)
    return Calendar(days - 1, np.where(exists, after - days, 0))
