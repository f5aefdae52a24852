"""The databases that a catalog can have, as parameters of tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeAlias

import pytest
from _pytest.mark import ParameterSet
from sqlalchemy import Engine, event

Parameters: TypeAlias = list[str | ParameterSet]

_SERVERS = {
    "postgresql": pytest.mark.postgresql,
    "mariadb": pytest.mark.mariadb,
    "mysql": pytest.mark.mysql,
}

DATABASES: Parameters = [
    "sqlite",
    *(pytest.param(name, marks=mark) for name, mark in _SERVERS.items()),
]
"""Each of them."""

POSTGRESQL_IN_MODES: Parameters = [
    "sqlite",
    pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.modes]),
    *DATABASES[2:],
]
"""Each of them, PostgreSQL with the marker ``modes``."""


def on_databases(values: Iterable[str], essential: Collection[str]) -> list[ParameterSet]:
    """Each database with each value; of SQLite and PostgreSQL, all but SQLite's essential ones are
    ``modes``.
    """
    return [
        *(
            pytest.param("sqlite", value, marks=[] if value in essential else pytest.mark.modes)
            for value in values
        ),
        *(
            pytest.param(
                name, value, marks=[mark, *([pytest.mark.modes] if name == "postgresql" else [])]
            )
            for name, mark in _SERVERS.items()
            for value in values
        ),
    ]


def set_database_clock(engine: Engine, now_millis: Callable[[], int]) -> None:
    """Have a database server that is asked for its time tell another, milliseconds."""

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def tell(
        connection: object, cursor: object, statement: str, parameters: Any, *_: object
    ) -> tuple[str, Any]:
        is_clock = "clock_timestamp()" in statement or "UTC_TIMESTAMP(" in statement
        return (f"SELECT {now_millis()}" if is_clock else statement), parameters
