"""The conditions of errors, and the handler that is the most appropriate for one.

A handler is for names of Spark's error conditions, SQLSTATEs, or whole classes of them. Errors of
Headwater have those that Spark has for the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.spark.errors import unlogged_errors
from headwater.spark.sql.script.tree import Handler
from headwater.storage.errors import (
    AlreadyExists,
    Conflict,
    CorruptData,
    Forbidden,
    HeadwaterError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    ResourceType,
    Unavailable,
    Unsupported,
)

__all__ = [
    "CANCELED_STATES",
    "Condition",
    "ConditionError",
    "Failure",
    "check_conditions",
    "condition_of",
    "handler",
]

Failure: TypeAlias = HeadwaterError | PySparkException | Py4JJavaError
"""The errors that a statement of a script may end with."""

CANCELED_STATES = frozenset({"HY008", "XXKDA"})
"""The SQLSTATEs of queries that somebody cancels, which no handler is for."""

_STATE = re.compile(r"SQLSTATE: ([0-9A-Z]{5})")
_NAME = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\]")


@dataclass(frozen=True, slots=True)
class Condition:
    """An error's condition.

    Attributes:
        name: Its name, as ``DIVIDE_BY_ZERO``; empty where it has none.
        state: Its SQLSTATE.
    """

    name: str
    state: str


class ConditionError(Invalid):
    """An error of a script that Spark has a condition for.

    Args:
        message: The message.
        name: The condition's name.
        state: Its SQLSTATE.
    """

    def __init__(self, message: str, name: str, state: str) -> None:
        super().__init__(message)
        self.condition = Condition(name, state)


_GENERAL = Condition("", "42000")
_MISSING = {
    ResourceType.TABLE: Condition("TABLE_OR_VIEW_NOT_FOUND", "42P01"),
    ResourceType.VIEW: Condition("TABLE_OR_VIEW_NOT_FOUND", "42P01"),
    ResourceType.DATABASE: Condition("SCHEMA_NOT_FOUND", "42704"),
    ResourceType.FUNCTION: Condition("UNRESOLVED_ROUTINE", "42883"),
    ResourceType.COLUMN: Condition("UNRESOLVED_COLUMN", "42703"),
    ResourceType.PARTITION: Condition("PARTITIONS_NOT_FOUND", "428FT"),
}
_PRESENT = {
    ResourceType.TABLE: Condition("TABLE_OR_VIEW_ALREADY_EXISTS", "42P07"),
    ResourceType.VIEW: Condition("TABLE_OR_VIEW_ALREADY_EXISTS", "42P07"),
    ResourceType.DATABASE: Condition("SCHEMA_ALREADY_EXISTS", "42P06"),
    ResourceType.FUNCTION: Condition("ROUTINE_ALREADY_EXISTS", "42723"),
    ResourceType.COLUMN: Condition("COLUMN_ALREADY_EXISTS", "42711"),
    ResourceType.PARTITION: Condition("PARTITIONS_ALREADY_EXIST", "428FT"),
}
_STATES: Sequence[tuple[type[HeadwaterError], str]] = (
    (NotFound, "42704"),
    (AlreadyExists, "42710"),
    (Conflict, "40001"),
    (Forbidden, "42501"),
    (OutcomeUnknown, "40003"),
    (Unavailable, "08000"),
    (CorruptData, "XX001"),
    (Unsupported, "0A000"),
)


def condition_of(error: Failure) -> Condition:
    """The condition of an error; one of the class 42 for what has none of its own."""
    if isinstance(error, ConditionError):
        return error.condition
    if isinstance(error, HeadwaterError):
        return _of_headwater(error)
    name: str | None = None
    state: str | None = None
    if isinstance(error, PySparkException):
        name, state = error.getCondition(), error.getSqlState()
    # Of a task's error, only Spark's text about it says the condition.
    message = str(error)
    if not state and (match := _STATE.search(message)) is not None:
        state = match[1]
        if not name and (named := list(_NAME.finditer(message[: match.start()]))):
            name = named[-1][1]
    return Condition((name or "").upper(), state or _GENERAL.state)


def _of_headwater(error: HeadwaterError) -> Condition:
    kinds = {NotFound: _MISSING, AlreadyExists: _PRESENT}.get(type(error), {})
    if error.resource_type in kinds:
        return kinds[error.resource_type]
    state = next((state for kind, state in _STATES if isinstance(error, kind)), _GENERAL.state)
    return Condition("", state)


def handler(handlers: Sequence[Handler], condition: Condition) -> Handler | None:
    """The most specific handler of a compound statement for a condition; None if it has none."""
    main = condition.name.split(".")[0]
    state = condition.state
    for name in (condition.name, main):
        for candidate in handlers:
            if name and name in candidate.conditions:
                return candidate
    for candidate in handlers:
        if state in candidate.states:
            return candidate
    for candidate in handlers:
        if candidate.handles_not_found and state.startswith("02"):
            return candidate
    for candidate in handlers:
        if candidate.handles_exceptions and not state.startswith(("02", "XX")):
            return candidate
    return None


def check_conditions(names: Sequence[str], spark: SparkSession) -> None:
    """Check that Spark has conditions of these names, as handlers name them.

    Raises:
        Invalid: Spark does not have one of them.
    """
    for name in names:
        parts = ".".join(f"`{part}`" for part in name.split("."))
        try:
            with unlogged_errors():
                spark.sql(f"BEGIN DECLARE EXIT HANDLER FOR {parts} BEGIN END; END")
        except (PySparkException, Py4JJavaError):
            raise Invalid(
                f"the script cannot be run: a handler is for condition {name}, which does not "
                "exist; declare it with DECLARE … CONDITION, or write one of Spark's, as "
                "DIVIDE_BY_ZERO"
            ) from None
