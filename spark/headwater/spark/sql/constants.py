"""Values of Python, written as constants of SQL."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum

import numpy as np
from pyspark.sql import SparkSession

from headwater.spark.session import is_set
from headwater.spark.sql.ddl.column_types import session_type_names
from headwater.spark.sql.names import string_literal
from headwater.storage.errors import Invalid

__all__ = ["KEEPS_ESCAPES", "Constants", "SqlConstant", "session_constants"]

KEEPS_ESCAPES = "spark.sql.parser.escapedStringLiterals"
"""The setting by which a backslash in a string is itself."""

MAX_DIGITS = 38
MIN_LONG, MAX_LONG = -(1 << 63), (1 << 63) - 1
# What Spark writes after a number of the type.
_SUFFIXES = {np.int8: "Y", np.int16: "S", np.int32: "", np.int64: "L", np.float32: "F"}


class SqlConstant(str):
    """A constant that is written already."""


class Constants:
    """Values of Python as constants of SQL, of the types that Spark's ``lit`` gives them.

    Args:
        keeps_escapes: Whether the session takes a backslash in a string for itself.
        prefers_local_times: Whether a TIMESTAMP without a time zone is one of TIMESTAMP_NTZ.
    """

    def __init__(self, *, keeps_escapes: bool, prefers_local_times: bool) -> None:
        self._keeps_escapes = keeps_escapes
        self._prefers_local_times = prefers_local_times
        self._writers: Mapping[type, Callable[[object], str | None]] = {
            type(None): lambda _: "NULL",
            bool: lambda value: str(value).upper(),
            np.bool_: lambda value: str(value).upper(),
            int: _integer,
            float: _double,
            np.float64: lambda value: _double(float(str(value))),
            **dict.fromkeys(_SUFFIXES, _sized),
            Decimal: _decimal,
            str: self._string,
            np.str_: self._string,
            bytes: _binary,
            bytearray: _binary,
            dt.date: lambda value: f"DATE '{value}'",
            dt.timedelta: _interval,
        }

    def constant(self, value: object, what: str) -> str:
        """A value as a constant.

        Args:
            value: The value.
            what: The name of the value in an error.

        Raises:
            Invalid: No type of SQL has it.
        """
        if isinstance(value, SqlConstant):
            return value
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, list | tuple | np.ndarray):
            return f"array({', '.join(self.constant(each, what) for each in value)})"
        is_instant = isinstance(value, dt.datetime)
        writer = self._timestamp if is_instant else self._writers.get(type(value))
        written = None if writer is None else writer(value)
        if written is not None and "${" in written:
            # Spark would put the value of a setting there; strings side by side are one.
            written = written.replace("${", "$' '{")
        if written is None:
            raise Invalid(
                f"{what} is {value!r} of type {type(value).__name__}, for which SQL has no constant"
            )
        # A minus that follows another would begin a comment.
        return f" {written}" if written.startswith("-") else written

    def _string(self, value: object) -> str | None:
        text = str(value)
        if not self._keeps_escapes:
            return string_literal(text)
        # Nothing is escaped there, so that a quote stands between quotes of the other kind, and
        # strings side by side are one. A backslash keeps the quote after it from ending a string.
        parts = text.split("'")
        if any((len(part) - len(part.rstrip("\\"))) % 2 for part in parts):
            return None
        return """ "'" """.join(f"'{part}'" for part in parts)

    def _timestamp(self, value: object) -> str | None:
        """An instant; without a time zone it is one of this process's, as in Spark.

        Those of pandas may be none at all, or have nanoseconds, which Spark does not have.
        """
        assert isinstance(value, dt.datetime)
        if value != value or getattr(value, "nanosecond", 0) > 0:
            return None
        kind, zone = "TIMESTAMP_NTZ", ""
        if value.tzinfo is not None or not self._prefers_local_times:
            kind, zone = "TIMESTAMP_LTZ", "Z"
            try:
                value = value.astimezone(dt.UTC).replace(tzinfo=None)
            except (OverflowError, ValueError):  # beyond the years that Python has
                return None
        return f"{kind} '{value.isoformat(' ', 'microseconds')}{zone}'"


def session_constants(spark: SparkSession) -> Constants:
    """Writes constants that a session reads as the values that they are written for."""
    return Constants(
        keeps_escapes=is_set(spark, KEEPS_ESCAPES),
        prefers_local_times="TIMESTAMP" in session_type_names(spark),
    )


def _integer(value: object) -> str | None:
    assert isinstance(value, int)
    return str(value) if MIN_LONG <= value <= MAX_LONG else None


def _sized(value: object) -> str:
    """A number of NumPy, which has a type of its own."""
    assert isinstance(value, np.generic)
    if isinstance(value, np.floating) and not np.isfinite(value):
        return f"float('{value}')"
    return f"{value}{_SUFFIXES[type(value)]}"


def _double(value: object) -> str:
    assert isinstance(value, float)
    return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"


def _decimal(value: object) -> str | None:
    assert isinstance(value, Decimal)
    if not value.is_finite():
        return None
    written = format(value, "f")
    return f"{written}BD" if sum(map(str.isdigit, written)) <= MAX_DIGITS else None


def _binary(value: object) -> str:
    assert isinstance(value, bytes | bytearray)
    return f"X'{value.hex()}'"


def _interval(value: object) -> str:
    assert isinstance(value, dt.timedelta)
    micros = value // dt.timedelta(microseconds=1)
    seconds, micros = divmod(abs(micros), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    sign = "-" if value < dt.timedelta(0) else ""
    return f"INTERVAL '{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{micros:06}' DAY TO SECOND"
