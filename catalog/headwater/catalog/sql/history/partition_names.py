"""Ranges of partition names that a pattern or a predicate can match."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement
from sqlalchemy.orm import InstrumentedAttribute

from headwater.catalog.sql.database.column_types import SORT_NAME_LENGTH
from headwater.catalog.sql.queries.names import first_after
from headwater.storage.predicate.tree import (
    And,
    Comparison,
    In,
    Or,
    Predicate,
    StartsWith,
    without_not,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root

__all__ = ["EVERY_NAME", "NameRange", "pattern_names", "predicate_names"]


@dataclass(frozen=True)
class NameRange:
    """The names from `low` on and before `high`, by code point; None is open."""

    low: str | None = None
    high: str | None = None

    def within(self, other: NameRange) -> NameRange:
        """The names that are in both."""
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return NameRange(max(lows, default=None), min(highs, default=None))

    def clauses(self, column: InstrumentedAttribute[str]) -> list[ColumnElement[bool]]:
        """The same of a column that holds how names begin."""
        found: list[ColumnElement[bool]] = []
        if self.low is not None:
            found.append(column >= self.low[:SORT_NAME_LENGTH])
        if self.high is not None:
            cut = self.high[:SORT_NAME_LENGTH]
            found.append(column < cut if cut == self.high else column <= cut)
        return found


EVERY_NAME = NameRange()


def pattern_names(pattern: str) -> tuple[NameRange, re.Pattern[str]]:
    """A LIKE pattern's range, and the expression that the whole name must match.

    ``%`` stands for any text, ``_`` for one character, a backslash takes the next one literally.
    """
    parts: list[str] = []
    prefix: list[str] | None = []
    fixed = ""
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character in "%_":
            parts.append(".*" if character == "%" else ".")
            if prefix is not None:
                fixed, prefix = "".join(prefix), None
        else:
            if character == "\\" and at + 1 < len(pattern):
                at += 1
                character = pattern[at]
            parts.append(re.escape(character))
            if prefix is not None:
                prefix.append(character)
        at += 1
    matches = re.compile("".join(parts), re.DOTALL)
    if prefix is not None:
        whole = "".join(prefix)
        return NameRange(whole, f"{whole}\x01"), matches
    return NameRange(fixed or None, first_after(fixed)), matches


def predicate_names(predicate: Predicate, schema: TableSchema) -> NameRange:
    """A range that holds the name of every partition that a predicate can match.

    Found from the first partition column when it holds text: names begin with it. The text of
    other values has several spellings.
    """
    if not schema.partition_keys:
        return EVERY_NAME
    first = schema.column(schema.partition_keys[0])
    if not isinstance(first.type, AtomicType) or first.type.root not in (Root.CHAR, Root.VARCHAR):
        return EVERY_NAME
    low, high = _bounds(without_not(predicate), first.name)
    is_last = len(schema.partition_keys) == 1
    return NameRange(
        None if low is None else f"{first.name}={low}",
        None if high is None else _end(first.name, high, is_last),
    )


def _end(column: str, value: str, is_last: bool) -> str | None:
    """The name that follows the names of all values up to `value`."""
    if is_last:
        return f"{column}={value}\x01"
    # Names go on with a slash. A value that `value` begins with sorts after it when the next
    # character of `value` is below the slash: "2026/…" is after "2026-01-01/…".
    for at, character in enumerate(value):
        if character <= "/":
            return first_after(f"{column}={value[:at]}")
    return f"{column}={value}{chr(ord('/') + 1)}"


def _bounds(predicate: Predicate, column: str) -> tuple[str | None, str | None]:
    """The least and the greatest text that a column can have where a predicate is true."""
    match predicate:
        case And():
            lows, highs = _sides(predicate.operands, column)
            return (
                max((low for low in lows if low is not None), default=None),
                min((high for high in highs if high is not None), default=None),
            )
        case Or(operands=(_, *_)):
            lows, highs = _sides(predicate.operands, column)
            some_lows = [low for low in lows if low is not None]
            some_highs = [high for high in highs if high is not None]
            return (
                min(some_lows) if len(some_lows) == len(lows) else None,
                max(some_highs) if len(some_highs) == len(highs) else None,
            )
        case Comparison(column=name, value=str(value)) if name == column:
            low = value if predicate.op in ("=", ">", ">=") else None
            high = value if predicate.op in ("=", "<", "<=") else None
            return low, high
        case In(column=name, negated=False) if name == column:
            texts = [value for value in predicate.values if isinstance(value, str)]
            return min(texts, default=None), max(texts, default=None)
        case StartsWith(column=name, negated=False) if name == column:
            return predicate.prefix, first_after(predicate.prefix)
        case _:
            return None, None


def _sides(operands: Sequence[Predicate], column: str) -> tuple[list[str | None], list[str | None]]:
    bounds = [_bounds(operand, column) for operand in operands]
    return [low for low, _ in bounds], [high for _, high in bounds]
