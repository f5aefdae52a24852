"""SQL that is compiled once for a process, not once for each of the engines that tests make."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import Dialect, Engine

Key = tuple[Any, ...]


class _CompiledStatements(MutableMapping[Key, Any]):
    """What was compiled for one kind and version of a database, by whichever engine.

    SQLAlchemy's keys begin with the engine's dialect, an object of its own for each engine; what
    is compiled depends on its kind alone.
    """

    def __init__(self) -> None:
        self._compiled: dict[Key, Any] = {}

    def __getitem__(self, key: Key) -> Any:
        return self._compiled[self._without_dialect(key)]

    def __setitem__(self, key: Key, compiled: Any) -> None:
        self._compiled[self._without_dialect(key)] = compiled

    def __delitem__(self, key: Key) -> None:
        del self._compiled[self._without_dialect(key)]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._compiled)

    def __len__(self) -> int:
        return len(self._compiled)

    @staticmethod
    def _without_dialect(key: Key) -> Key:
        dialect, *rest = key
        assert isinstance(dialect, Dialect)
        return tuple(rest)


_STATEMENTS: dict[tuple[type[Dialect], object], _CompiledStatements] = {}


def share_compiled_statements() -> None:
    """From now on, let all engines of this process use what any of them compiled."""
    event.listen(Engine, "engine_connect", _share)


def _share(connection: Connection) -> None:
    dialect = connection.dialect
    kind = (type(dialect), dialect.server_version_info)
    connection.execution_options(compiled_cache=_STATEMENTS.setdefault(kind, _CompiledStatements()))
