"""The syntax tree of a SQL script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from headwater.spark.sql.parser.tokens import Token

__all__ = [
    "Body",
    "Case",
    "CloseCursor",
    "Compound",
    "DeclareCursor",
    "DeclareVariables",
    "FetchCursor",
    "For",
    "Handler",
    "If",
    "Iterate",
    "Leave",
    "Loop",
    "OpenCursor",
    "Repeat",
    "ScriptStatement",
    "SetVariables",
    "Simple",
    "SqlText",
    "While",
]


@dataclass(frozen=True)
class SqlText:
    """A part of a script that Headwater runs as it runs SQL elsewhere.

    Attributes:
        source: The script.
        tokens: The part's tokens, of which there is at least one.
    """

    source: str
    tokens: Sequence[Token]

    @cached_property
    def text(self) -> str:
        """The part as its user wrote it."""
        return self.source[self.tokens[0].start : self.tokens[-1].end]

    @property
    def keyword(self) -> str:
        """The first word in capitals."""
        return self.tokens[0].keyword

    def replaced(self, changes: Sequence[tuple[int, int, str]]) -> str:
        """The text with other text at these offsets of the script."""
        pieces: list[str] = []
        position = self.tokens[0].start
        for start, end, text in sorted(changes):
            pieces += [self.source[position:start], text]
            position = end
        return "".join([*pieces, self.source[position : self.tokens[-1].end]])


@dataclass(frozen=True, slots=True)
class Simple:
    """A statement that may also stand alone."""

    sql: SqlText


@dataclass(frozen=True, slots=True)
class SetVariables:
    """``SET a = expression, …`` or ``SET (a, …) = (query)``.

    Attributes:
        targets: The parts of each variable's name.
        values: The expressions, one for each variable; or the query alone.
        is_query: Whether it is a query.
        sql: The whole statement.
    """

    targets: tuple[tuple[str, ...], ...]
    values: tuple[SqlText, ...]
    is_query: bool
    sql: SqlText


@dataclass(frozen=True, slots=True)
class DeclareVariables:
    """``DECLARE a, b type DEFAULT expression``.

    Attributes:
        names: The names.
        type: The type; None if it is that of the expression.
        default: The expression; None for null.
    """

    names: tuple[str, ...]
    type: SqlText | None
    default: SqlText | None


@dataclass(frozen=True, slots=True)
class DeclareCursor:
    """``DECLARE name CURSOR FOR query``."""

    name: str
    query: SqlText


@dataclass(frozen=True, slots=True)
class OpenCursor:
    """``OPEN name [USING value [AS parameter], …]``."""

    name: tuple[str, ...]
    arguments: SqlText | None


@dataclass(frozen=True, slots=True)
class FetchCursor:
    """``FETCH [[NEXT] FROM] name INTO variable, …``."""

    name: tuple[str, ...]
    targets: tuple[tuple[str, ...], ...]
    sql: SqlText


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """``CLOSE name``."""

    name: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class If:
    """``IF … THEN … ELSEIF … ELSE … END IF``.

    Attributes:
        branches: Conditions and the statements that run if they are true.
        otherwise: The statements of ``ELSE``.
    """

    branches: tuple[tuple[SqlText, Body], ...]
    otherwise: Body


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE value WHEN … THEN … ELSE … END CASE``, which has a value."""

    value: SqlText
    branches: tuple[tuple[SqlText, Body], ...]
    otherwise: Body


@dataclass(frozen=True, slots=True)
class While:
    """``WHILE condition DO … END WHILE``."""

    label: str | None
    condition: SqlText
    body: Body


@dataclass(frozen=True, slots=True)
class Repeat:
    """``REPEAT … UNTIL condition END REPEAT``."""

    label: str | None
    condition: SqlText
    body: Body


@dataclass(frozen=True, slots=True)
class Loop:
    """``LOOP … END LOOP``."""

    label: str | None
    body: Body


@dataclass(frozen=True, slots=True)
class For:
    """``FOR variable AS query DO … END FOR``.

    Attributes:
        label: The label.
        variable: The name that qualifies the columns of a row.
        query: The query.
        body: The statements.
        words: The names in the statements, folded, among which those of columns are.
    """

    label: str | None
    variable: str | None
    query: SqlText
    body: Body
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class Leave:
    """``LEAVE label``."""

    label: str


@dataclass(frozen=True, slots=True)
class Iterate:
    """``ITERATE label``."""

    label: str


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """``DECLARE EXIT | CONTINUE HANDLER FOR …``.

    Attributes:
        exits: Whether the compound statement ends after it.
        conditions: Names of conditions in capitals.
        states: SQLSTATEs.
        handles_not_found: Whether it is for NOT FOUND.
        handles_exceptions: Whether it is for SQLEXCEPTION.
        body: The statement that runs.
    """

    exits: bool
    conditions: frozenset[str]
    states: frozenset[str]
    handles_not_found: bool
    handles_exceptions: bool
    body: ScriptStatement


@dataclass(slots=True, eq=False)
class Compound:
    """``BEGIN … END``.

    Attributes:
        label: The label, in small letters.
        variables: The declarations of variables, in their order.
        conditions: The names of declared conditions in capitals.
        cursors: The declarations of cursors.
        handlers: The handlers.
        body: The statements.
    """

    label: str | None = None
    variables: list[DeclareVariables] = field(default_factory=list)
    conditions: set[str] = field(default_factory=set)
    cursors: list[DeclareCursor] = field(default_factory=list)
    handlers: list[Handler] = field(default_factory=list)
    body: Body = ()


ScriptStatement: TypeAlias = (
    Simple
    | SetVariables
    | OpenCursor
    | FetchCursor
    | CloseCursor
    | If
    | Case
    | While
    | Repeat
    | Loop
    | For
    | Leave
    | Iterate
    | Compound
)
Body: TypeAlias = tuple[ScriptStatement, ...]
