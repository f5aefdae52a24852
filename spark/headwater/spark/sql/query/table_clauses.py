"""The clauses that follow tables' names in a query, and Paimon's table functions of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.spark.sql.elsewhere import CHANGES_FUNCTION
from headwater.spark.sql.parser.cursor import Cursor
from headwater.spark.sql.parser.tokens import Token, TokenType, string_value
from headwater.spark.sql.parser.tree import Call, Expression, Name, TimeTravelClause
from headwater.storage.errors import Invalid, Unsupported

__all__ = [
    "ChangeQuery",
    "TimeTravel",
    "change_query",
    "constant",
    "table_options",
    "time_travel",
]

_CHANGE_FUNCTIONS: Mapping[str, str] = {
    "paimon_incremental_query": "incremental-between",
    "paimon_incremental_between_timestamp": "incremental-between-timestamp",
    "paimon_incremental_to_auto_tag": "incremental-to-auto-tag",
}
"""Paimon's table functions, and the option that each stands for."""
_OF_GLOBAL_INDEXES = frozenset({"vector_search", "hybrid_search", "full_text_search"})


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """``VERSION AS OF`` or ``TIMESTAMP AS OF`` after a name.

    Attributes:
        by_version: Whether it is a version.
        text: The version, or the expression of the timestamp as its user wrote it.
    """

    by_version: bool
    text: str


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """A call of a table function of Paimon's, which reads changes.

    Attributes:
        parts: The parts of the table's name.
        option: The option of the table that it stands for, and its value.
    """

    parts: tuple[str, ...]
    option: tuple[str, str]


def time_travel(clause: TimeTravelClause, text: str, tokens: Sequence[Token]) -> TimeTravel:
    """Read a version or a timestamp.

    Raises:
        Invalid: The version is not a constant.
    """
    value = clause.value
    written = text[tokens[value.start].start : tokens[value.end - 1].end]
    if not clause.by_version:
        return TimeTravel(False, written)
    version = constant(value, tokens)
    if version is None or version.startswith("-"):
        raise Invalid(
            f"VERSION AS OF {written}: a version is a snapshot's id, or a tag's name in quotes"
        )
    return TimeTravel(True, version)


def table_options(text: str, tokens: Sequence[Token]) -> dict[str, str]:
    """Read ``('key' = 'value', other.key = 3)``, brackets included.

    Raises:
        Invalid: That is not what stands there, or a key stands twice.
    """
    cursor = Cursor(text, tokens)
    options: dict[str, str] = {}
    try:
        cursor.expect("(")
        while True:
            key = _option_key(cursor, text)
            cursor.accept("=")
            if key in options:
                raise Invalid(f"the option '{key}' stands twice after a table")
            options[key] = _option_value(cursor)
            if not cursor.accept(","):
                break
        cursor.expect(")")
    except Unsupported as error:
        raise Invalid(f"the options of a table cannot be read: {error}") from None
    return options


def _option_key(cursor: Cursor, text: str) -> str:
    if cursor.at_string():
        key = string_value(cursor.token())
        cursor.index += 1
        return key
    start = cursor.token().start
    cursor.identifier()
    while cursor.keyword() in (".", "-"):
        cursor.index += 1
        cursor.identifier()
    return text[start : cursor.token(-1).end].replace("`", "")


def _option_value(cursor: Cursor) -> str:
    sign = "-" if cursor.accept("-") else ""
    token = cursor.token()
    if cursor.at_number():
        cursor.index += 1
        return sign + token.text
    if cursor.at_string() and not sign:
        cursor.index += 1
        return string_value(token)
    if token.type is TokenType.WORD and not sign:
        cursor.index += 1
        return token.text
    raise cursor.unexpected("a value")


def change_query(call: Call, tokens: Sequence[Token]) -> ChangeQuery | None:
    """Read a call of a table function of Paimon's; None for another one.

    Raises:
        Invalid: Its arguments are not constants, or there are too few or too many.
        Unsupported: It is one that does not exist here.
    """
    if not isinstance(call.name, Name) or len(call.name.parts) > 1:
        return None
    name = call.name.parts[0].lower()
    if name in _OF_GLOBAL_INDEXES:
        raise Unsupported(
            f"{name} is not supported: it searches a global index, and Headwater reads none"
        )
    if name == CHANGES_FUNCTION:
        raise Unsupported(
            f"{name} is not supported; instead: paimon_incremental_query('t', 2, 5), which "
            "gives what came after snapshot 2 up to snapshot 5"
        )
    if name not in _CHANGE_FUNCTIONS:
        return None
    arguments = [constant(argument, tokens) for argument in call.arguments]
    constants = [argument for argument in arguments if argument is not None]
    count = 2 if name == "paimon_incremental_to_auto_tag" else 3
    if len(arguments) != count or len(constants) != count:
        wanted = "a table's name and a tag" if count == 2 else "a table's name, start and end"
        raise Invalid(f"{name} takes {wanted}, each a constant")
    parts = tuple(constants[0].replace("`", "").split("."))
    return ChangeQuery(parts, (_CHANGE_FUNCTIONS[name], ",".join(constants[1:])))


def constant(expression: Expression, tokens: Sequence[Token]) -> str | None:
    """The value of a string or a number; None for any other expression."""
    first, *rest = tokens[expression.start : expression.end]
    sign = ""
    if first.keyword == "-" and rest:
        sign, first, *rest = "-", *rest
    if rest:
        return None
    if first.type is TokenType.NUMBER:
        return sign + first.text.rstrip("lL")
    if first.type in (TokenType.STRING, TokenType.DOUBLE_QUOTED) and not sign:
        return string_value(first)
    return None
