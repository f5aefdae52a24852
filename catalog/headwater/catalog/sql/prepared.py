"""Statements whose text is made once: for those that every request needs.

Building a statement anew, or only recognising it, costs more than the database takes to run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, CursorResult, Dialect
from sqlalchemy.engine.interfaces import Compiled
from sqlalchemy.sql import Executable
from sqlalchemy.sql.compiler import SQLCompiler

__all__ = ["Prepared"]


@dataclass(frozen=True)
class _Compiled:
    """The text for one kind of database; `constants` are values that the compiler added itself."""

    text: str
    names: Sequence[str]
    is_positional: bool
    constants: Mapping[str, str | int]


class Prepared:
    """A statement for every database.

    Its values are parameters with names, text and whole numbers only. Results come as the driver
    gives them: a truth value may be a number.

    Args:
        statement: With `bindparam` for each value that changes.
    """

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._compiled: dict[str, _Compiled] = {}

    def run(
        self, connection: Connection, **values: str | int | None
    ) -> CursorResult[*tuple[Any, ...]]:
        """Run it in the connection's transaction."""
        compiled = self._compiled.get(connection.dialect.name)
        if compiled is None:
            compiled = self._compile(connection.dialect)
        given = {**compiled.constants, **values}
        if compiled.is_positional:
            parameters = tuple([given[name] for name in compiled.names])
            return connection.exec_driver_sql(compiled.text, parameters)
        return connection.exec_driver_sql(
            compiled.text, {name: given[name] for name in compiled.names}
        )

    def _compile(self, dialect: Dialect) -> _Compiled:
        made: Compiled = self._statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        assert isinstance(made, SQLCompiler)
        constants = {name: value for name, value in made.params.items() if value is not None}
        names = tuple(made.params if made.positiontup is None else made.positiontup)
        compiled = _Compiled(made.string, names, made.positiontup is not None, constants)
        self._compiled[dialect.name] = compiled
        return compiled
