"""Parameters of a statement, ``:name`` and ``?``, and the constants that take their places."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import Enum

import numpy as np

from headwater.spark.sql.names import string_literal
from headwater.spark.sql.statement import Word, WordKind, read_words
from headwater.storage.errors import Invalid

__all__ = ["Arguments", "with_arguments"]

Arguments = Mapping[str, object] | Sequence[object]
"""Values of parameters: by name for ``:name``, in their order for ``?``."""

_MOST_DIGITS = 38
_LEAST_LONG, _MOST_LONG = -(1 << 63), (1 << 63) - 1
# What Spark writes after a number of the type.
_SUFFIXES = {np.int8: "Y", np.int16: "S", np.int32: "", np.int64: "L", np.float32: "F"}


def with_arguments(
    text: str, arguments: Arguments, *, keeps_escapes: bool, prefers_local_times: bool
) -> str:
    """A statement with constants in the places of its parameters.

    A parameter stands where a constant can stand, as in Spark. Constants have the types that Spark
    gives to the same values of Python.

    Args:
        text: The statement.
        arguments: Values by name or in order.
        keeps_escapes: True if the session takes a backslash in a string for itself.
        prefers_local_times: True if a TIMESTAMP without a time zone is one of TIMESTAMP_NTZ.

    Raises:
        Invalid: A parameter has no value, a value no parameter, or one of no type of SQL.
    """
    if isinstance(arguments, str | bytes) or not isinstance(arguments, Mapping | Sequence):
        raise Invalid(
            f"args: a dict of values by name or a list of values is expected, not {arguments!r}"
        )
    writer = _Constants(keeps_escapes, prefers_local_times)
    by_name = isinstance(arguments, Mapping)
    values = arguments if isinstance(arguments, Mapping) else dict(enumerate(arguments))
    constants = {key: writer.constant(value, _spelled(key)) for key, value in values.items()}
    pieces: list[str] = []
    used: set[object] = set()
    copied = 0
    for place, (start, end, name) in enumerate(_parameters(text)):
        if by_name != (name is not None):
            raise Invalid(
                f"{text[start:end]} in the statement: a dict of args has values for :name, "
                "and a list for ?"
            )
        key = place if name is None else name
        if key not in constants:
            raise Invalid(f"args has no value for {_spelled(key)} of the statement")
        used.add(key)
        pieces += [text[copied:start], constants[key]]
        copied = end
    for key in constants:
        if key not in used:
            raise Invalid(f"args has a value for {_spelled(key)}, which the statement has not")
    return "".join([*pieces, text[copied:]])


def _spelled(key: object) -> str:
    return f"? number {key + 1}" if isinstance(key, int) else f":{key}"


def _parameters(text: str) -> list[tuple[int, int, str | None]]:
    """The places where parameters begin and end, and their names; None for those without."""
    words = read_words(text)
    found: list[tuple[int, int, str | None]] = []
    for at, word in enumerate(words):
        if word.kind is not WordKind.SYMBOL:
            continue
        if word.text.startswith("?"):
            marks = len(word.text) - len(word.text.lstrip("?"))
            found += [(word.start + mark, word.start + mark + 1, None) for mark in range(marks)]
        elif word.text == ":" and _names_one(words, at):
            found.append((word.start, words[at + 1].end, words[at + 1].text))
    return found


def _names_one(words: Sequence[Word], at: int) -> bool:
    """True unless a colon parts a VARIANT and its field, or a field of a STRUCT and its type."""
    if at + 1 == len(words) or not words[at + 1].is_name or words[at].end != words[at + 1].start:
        return False
    before = words[at - 1] if at else None
    if before is None or before.end != words[at].start:
        return True
    return before.kind is WordKind.SYMBOL and before.text not in (")", "]", "}")


class _Constants:
    """Writes values of Python as constants of SQL."""

    def __init__(self, keeps_escapes: bool, prefers_local_times: bool) -> None:
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

    def constant(self, value: object, name: str) -> str:
        """A value as a constant; `name` is its parameter's."""
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, list | tuple | np.ndarray):
            return f"array({', '.join(self.constant(each, name) for each in value)})"
        is_moment = isinstance(value, dt.datetime)
        writer = self._timestamp if is_moment else self._writers.get(type(value))
        written = None if writer is None else writer(value)
        if written is None:
            raise Invalid(
                f"args: the value of {name} is {value!r} of type {type(value).__name__}, for which "
                "SQL has no constant"
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
        """A moment; without a time zone it is one of this process's, as in Spark.

        Those of pandas may be none at all, or have nanoseconds, which Spark has not.
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


def _integer(value: object) -> str | None:
    assert isinstance(value, int)
    return str(value) if _LEAST_LONG <= value <= _MOST_LONG else None


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
    return f"{written}BD" if sum(map(str.isdigit, written)) <= _MOST_DIGITS else None


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
