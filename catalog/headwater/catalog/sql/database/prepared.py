"""Statements whose text is made once: for those that every request needs.

Building a statement anew, or only recognising it, costs more than the database takes to run it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Connection, CursorResult, Dialect, and_, bindparam
from sqlalchemy.engine.interfaces import Compiled
from sqlalchemy.orm import InstrumentedAttribute
from sqlalchemy.sql import Executable
from sqlalchemy.sql.compiler import SQLCompiler

from headwater.catalog.sql.database.retried_reads import RetriedReads

__all__ = ["Change", "Prepared", "keyed", "numbered", "padded", "run_together"]

T = TypeVar("T")

_Parameters: TypeAlias = tuple[str | int | None, ...] | dict[str, str | int | None]


@dataclass(frozen=True)
class _Compiled:
    """The text for one kind of database.

    Attributes:
        text: The text.
        names: Its parameters' names, in their order where they have one.
        is_positional: True if they do.
        constants: Values that the compiler added itself.
        cursor: The cursor class for PostgreSQL's driver; None for its ordinary one.
    """

    text: str
    names: Sequence[str]
    is_positional: bool
    constants: Mapping[str, str | int]
    cursor: type | None = None

    def parameters(self, values: Mapping[str, str | int | None]) -> _Parameters:
        """The parameters as the driver takes them."""
        given = {**self.constants, **values} if self.constants else values
        if self.is_positional:
            return tuple([given[name] for name in self.names])
        return {name: given[name] for name in self.names}


class Prepared:
    """A statement for every database.

    Its values are parameters with names, text and whole numbers only. Results come as the driver
    gives them: a truth value may be a number.

    Args:
        statement: With `bindparam` for each value that changes.
        postgresql: An equivalent statement that suits PostgreSQL better, if there is one.
    """

    def __init__(self, statement: Executable, *, postgresql: Executable | None = None) -> None:
        self._statement = statement
        self._postgresql = postgresql
        self._compiled: dict[str, _Compiled] = {}

    def run(
        self, connection: Connection, **values: str | int | None
    ) -> CursorResult[*tuple[Any, ...]]:
        """Run it in the connection's transaction."""
        compiled = self._for(connection.dialect)
        parameters = compiled.parameters(values)
        if isinstance(connection, RetriedReads):
            return connection.repeated(lambda: _run(connection, compiled, parameters))
        return _run(connection, compiled, parameters)

    def for_driver(
        self, dialect: Dialect, values: Mapping[str, str | int | None]
    ) -> tuple[str, _Parameters]:
        """The text and the parameters for a driver's cursor; on PostgreSQL, for its raw one."""
        compiled = self._for(dialect)
        return compiled.text, compiled.parameters(values)

    def _for(self, dialect: Dialect) -> _Compiled:
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = self._compile(dialect)
        return compiled

    def _compile(self, dialect: Dialect) -> _Compiled:
        statement, cursor = self._statement, None
        if dialect.name == "postgresql":
            # The server's own form of parameters: the driver does not look for them in the text.
            from psycopg import RawCursor

            kind: Callable[..., Dialect] = type(dialect)
            dialect = kind(paramstyle="numeric_dollar")
            cursor = RawCursor
            statement = statement if self._postgresql is None else self._postgresql
        made: Compiled = statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        assert isinstance(made, SQLCompiler)
        constants = {name: value for name, value in made.params.items() if value is not None}
        names = tuple(made.params if made.positiontup is None else made.positiontup)
        is_positional = made.positiontup is not None
        return _Compiled(made.string, names, is_positional, constants, cursor)


def _run(
    connection: Connection, compiled: _Compiled, parameters: _Parameters
) -> CursorResult[*tuple[Any, ...]]:
    if compiled.cursor is None:
        return connection.exec_driver_sql(compiled.text, parameters)
    # SQLAlchemy knows no way to say it for one statement.
    driver: Any = connection.connection.dbapi_connection
    usual, cursor = driver.cursor_factory, compiled.cursor

    def make_one(*arguments: object, **options: object) -> object:
        driver.cursor_factory = usual
        return cursor(*arguments, **options)

    driver.cursor_factory = make_one
    try:
        return connection.exec_driver_sql(compiled.text, parameters)
    finally:
        driver.cursor_factory = usual


@dataclass(frozen=True)
class Change:
    """A statement that changes rows, and its values."""

    statement: Prepared
    values: Mapping[str, str | int | None]


# Each combination of statements is one that a connection remembers, with its plan; and the more
# there is to do, the less is gained by asking once.
_FEW_STATEMENTS = 6
_FEW_VALUES = 320
_PARAMETER = re.compile(r"\$(\d+)")


def run_together(connection: Connection, changes: Sequence[Change]) -> None:
    """Change rows, each at most once.

    PostgreSQL is asked once for all of them, if that is not much: so none may change, or depend
    on, a row that another one changes.
    """
    values = sum(len(change.values) for change in changes)
    is_little = 1 < len(changes) <= _FEW_STATEMENTS and values <= _FEW_VALUES
    if connection.dialect.name != "postgresql" or not is_little:
        for change in changes:
            change.statement.run(connection, **change.values)
        return
    parts = [change.statement.for_driver(connection.dialect, change.values) for change in changes]
    together = _together(tuple((text, len(parameters)) for text, parameters in parts))
    _run(connection, together, tuple(chain.from_iterable(parameters for _, parameters in parts)))


@lru_cache(maxsize=256)
def _together(parts: Sequence[tuple[str, int]]) -> _Compiled:
    """Statements as PostgreSQL's one, whose parameters are those of each after the other's.

    Args:
        parts: The text of each, and how many parameters it has.
    """
    from psycopg import RawCursor

    counts = [count for _, count in parts]
    *others, last = (
        _renumbered(text, before)
        for (text, _), before in zip(parts, accumulate(counts, initial=0), strict=False)
    )
    named = ", ".join(f"change_{at} AS ({text})" for at, text in enumerate(others))
    return _Compiled(f"WITH {named} {last}", (), True, {}, RawCursor)


def _renumbered(text: str, before: int) -> str:
    """A statement whose parameters come behind so many others."""
    return _PARAMETER.sub(lambda found: f"${before + int(found[1])}", text)


def keyed(count: int, **columns: InstrumentedAttribute[Any]) -> Sequence[ColumnElement[bool]]:
    """Conditions that each find one of several things, by values named as `numbered` names them.

    Args:
        count: The number of parameters.
        columns: The columns of their key, by the names of the values.
    """
    return [
        and_(*(column == bindparam(f"{name}_{at}") for name, column in columns.items()))
        for at in range(count)
    ]


def padded(items: Sequence[T]) -> Sequence[T]:
    """The items, the last one repeated until there is a power of two of them.

    A statement about several things has a text for each count of them: so there are few.
    """
    return [*items, *[items[-1]] * ((1 << (len(items) - 1).bit_length()) - len(items))]


def numbered(items: Sequence[Mapping[str, T]]) -> dict[str, T]:
    """The values of several things in one statement: the names of the first end with ``_0``."""
    return {f"{name}_{at}": value for at, item in enumerate(items) for name, value in item.items()}
