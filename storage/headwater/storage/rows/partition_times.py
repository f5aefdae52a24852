"""The times that partition values stand for, as Paimon reads them.

A partition's time is that of its first value, or of ``partition.timestamp-pattern`` with the values
in the places of their columns' names; ``partition.timestamp-formatter`` says how to read it.

Source: ``PartitionTimeExtractor.java``.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from headwater.storage.errors import Invalid
from headwater.storage.options import TableOptions

__all__ = ["PartitionTimes"]

_DEFAULT = re.compile(
    r"(?P<y>-?\d{1,10})-(?P<M>\d{1,2})-(?P<d>\d{1,2})"
    r"(?: (?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<S>\d{1,9}))?)?"
)
_FORMATTER = "partition.timestamp-formatter"
_LETTERS = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letter>[A-Za-z])(?P=letter)*|(?P<other>.)")


@dataclass(frozen=True)
class PartitionTimes:
    """Reads the times of a table's partitions.

    Attributes:
        pattern: Text with ``$column`` where values stand; None is the first value.
        formatter: A pattern of Java's ``DateTimeFormatter`` in numbers; None reads
            ``yyyy-MM-dd HH:mm:ss`` and ``yyyy-MM-dd``, with one digit where there may be two.
    """

    pattern: str | None = None
    formatter: str | None = None

    @staticmethod
    def of(options: TableOptions) -> PartitionTimes:
        """The form by a table's options."""
        return PartitionTimes(
            options.raw.get("partition.timestamp-pattern"), options.raw.get(_FORMATTER)
        )

    def check(self, partition_keys: Sequence[str]) -> None:
        """Refuse a pattern from which no time of a partition comes.

        Raises:
            Invalid: It names another column, or none.
        """
        if self.pattern is None:
            return
        text, *rest = _places(partition_keys).split(self.pattern)
        if not rest or "$" in "".join([text, *rest[1::2]]):
            raise Invalid(
                f"option 'partition.timestamp-pattern': '{self.pattern}' does not make a time of "
                "partition columns alone; write $ before their names, which are "
                f"{', '.join(partition_keys)}"
            )

    def time(self, values: Mapping[str, str | None]) -> datetime | None:
        """A partition's time, in no zone; None when its values are not a time.

        Args:
            values: The text of each value, in the order of the partition columns.

        Raises:
            Invalid: The formatter is not one that Headwater reads.
        """
        text = next(iter(values.values())) if self.pattern is None else self._filled(values)
        if text is None:
            return None
        match = self._expression.fullmatch(text)
        if match is None:
            return None
        parts = {name: part for name, part in match.groupdict().items() if part is not None}
        try:
            return _lenient(parts) if self.formatter is None else _smart(parts)
        except (ValueError, OverflowError):
            return None

    def _filled(self, values: Mapping[str, str | None]) -> str | None:
        """The pattern with values in the places of names; None if one of them is null."""
        assert self.pattern is not None
        parts: list[str] = []
        for number, part in enumerate(_places(values).split(self.pattern)):
            filled = values[part] if number % 2 else part
            if filled is None:
                return None
            parts.append(filled)
        return "".join(parts)

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        if self.formatter is None:
            return _DEFAULT
        parts: list[str] = []
        seen: set[str] = set()
        for match in _LETTERS.finditer(self.formatter):
            letters = match[0]
            letter = "y" if match["letter"] == "u" else match["letter"]
            if match["quoted"] is not None:
                parts.append(re.escape(match["quoted"].replace("''", "'") or "'"))
            elif letter is None:
                if letters in "[]{}#":
                    raise self._unreadable(letters)
                parts.append(re.escape(letters))
            elif letter in "yMdHmsS" and letter not in seen:
                seen.add(letter)
                parts.append(f"(?P<{letter}>{_digits(letter, len(letters))})")
            else:
                raise self._unreadable(letters)
        if not seen >= {"y", "M", "d"}:
            raise Invalid(
                f"option '{_FORMATTER}': '{self.formatter}' does not have a year, a month and a day"
            )
        return re.compile("".join(parts))

    def _unreadable(self, part: str) -> Invalid:
        return Invalid(
            f"option '{_FORMATTER}': Headwater does not read '{part}' in '{self.formatter}'; it "
            "reads years (yyyy), months (MM), days (dd), hours (HH), minutes (mm), seconds (ss) "
            "and fractions (SSS) in digits, once each, and text in single quotes"
        )


def _places(names: Iterable[str]) -> re.Pattern[str]:
    """Finds columns' names in a pattern, each after its ``$``."""
    # A name may begin with another's: $dt1 is not $dt.
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(r"\$(" + "|".join(map(re.escape, longest_first)) + ")")


def _digits(letter: str, count: int) -> str:
    if letter == "y":
        return r"\d{2}" if count == 2 else rf"\d{{{count}}}" if count > 2 else r"\d{1,10}"
    if letter == "S" or count > 1:
        return rf"\d{{{count}}}"
    return r"\d{1,2}"


def _smart(parts: Mapping[str, str]) -> datetime:
    """The time as Java's resolver of a formatter takes it: the 31st is the last of a month."""
    year = int(parts["y"]) + (2000 if len(parts["y"]) == 2 else 0)
    month, day = int(parts["M"]), int(parts["d"])
    if not 1 <= day <= 31:
        raise ValueError(f"no day {day}")
    return datetime(
        year,
        month,
        min(day, monthrange(year, month)[1]),
        int(parts.get("H", 0)),
        int(parts.get("m", 0)),
        int(parts.get("s", 0)),
        _micros(parts),
    )


def _lenient(parts: Mapping[str, str]) -> datetime:
    """The time as Java's lenient resolver takes it: month 13 is January of the next year."""
    months = int(parts["y"]) * 12 + int(parts["M"]) - 1
    return datetime(months // 12, months % 12 + 1, 1) + timedelta(
        days=int(parts["d"]) - 1,
        hours=int(parts.get("H", 0)),
        minutes=int(parts.get("m", 0)),
        seconds=int(parts.get("s", 0)),
        microseconds=_micros(parts),
    )


def _micros(parts: Mapping[str, str]) -> int:
    return int(parts.get("S", "0").ljust(6, "0")[:6])
