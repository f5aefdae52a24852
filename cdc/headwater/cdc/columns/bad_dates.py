"""Dates and times of sources that the lake does not have, such as ``0000-00-00``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from headwater.cdc.columns.gather import Nulls
from headwater.storage.errors import Invalid

# The most days of each month; a month of four bits may be beyond 12.
_DAYS_IN_MONTH = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0, 0, 0])


class BadDates(StrEnum):
    """What becomes of dates and times that the lake does not have.

    These are dates that do not exist, such as ``0000-00-00`` and ``2026-02-31``, dates of the year
    0, and times below zero or of 24 hours and more in a column of the lake's TIME.
    """

    NULL = "null"
    FAIL = "fail"


def bad_date(column: str, value: str) -> Invalid:
    """Return the error for a date or time that the lake does not have.

    Args:
        column: The column's name.
        value: The value as the source shows it.
    """
    return Invalid(
        f"column '{column}' has the value '{value}', which the lake does not have; write real "
        "dates and times at the source, or choose 'null' for them"
    )


def is_bad_date(
    year: npt.NDArray[np.int64], month: npt.NDArray[np.int64], day: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Whether dates do not exist in the years 1 to 9999 of the Gregorian calendar.

    Args:
        year: The years.
        month: The months, 0 to 15.
        day: The days.
    """
    bad: npt.NDArray[np.bool_] = (year == 0) | (day == 0) | (day > _DAYS_IN_MONTH[month])
    leap_day = (month == 2) & (day == 29)
    if leap_day.any():
        bad |= leap_day & ((year % 4 != 0) | ((year % 100 == 0) & (year % 400 != 0)))
    return bad


@dataclass(frozen=True, slots=True)
class DateRule:
    """What becomes of a column's dates that the lake does not have.

    Attributes:
        column: The column's name.
        bad_dates: The choice.
    """

    column: str
    bad_dates: BadDates = BadDates.FAIL

    def apply(
        self, is_bad: npt.NDArray[np.bool_], nulls: Nulls, show: Callable[[int], str]
    ) -> Nulls:
        """Return which rows are null when bad dates are.

        Args:
            is_bad: Which rows have a bad date; rows that are null may be among them.
            nulls: Which rows are null.
            show: Returns a row's value as the source shows it.

        Raises:
            Invalid: A row has a bad date, and the rule is to fail.
        """
        if nulls is not None:
            is_bad = is_bad & ~nulls
        if not is_bad.any():
            return nulls
        if self.bad_dates is BadDates.FAIL:
            raise bad_date(self.column, show(int(np.argmax(is_bad))))
        return is_bad if nulls is None else nulls | is_bad
