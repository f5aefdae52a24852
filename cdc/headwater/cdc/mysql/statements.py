"""Statements in the log: their text, and the session's settings that decide how it is read."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.cdc.ddl import (
    Change,
    CreateTable,
    DropDatabase,
    DropTables,
    Irrelevant,
    NotUnderstood,
    Syntax,
)
from headwater.cdc.mysql.charsets import charset_of_collation
from headwater.cdc.mysql.events import Query
from headwater.storage.errors import HeadwaterError

__all__ = [
    "explicit_timestamps",
    "is_strict",
    "statement_syntax",
    "statement_text",
    "temporary_changes",
]

# What the log has of other tables than temporary ones, also where a statement uses one of those:
# it has DROP TEMPORARY of these, and their rows where CREATE TABLE … SELECT reads them.
_PERMANENT = (CreateTable, DropTables, DropDatabase, Irrelevant, NotUnderstood)

# Status variables of a QUERY event and how many bytes each has; those after them are not needed.
_FLAGS2, _SQL_MODE, _CATALOG, _AUTO_INCREMENT, _CHARSET = 0, 1, 2, 3, 4
_TIME_ZONE, _CATALOG_NZ, _INVOKER, _DATABASES, _EXPLICIT_TIMESTAMPS = 5, 6, 11, 12, 16
_SIZES = {_FLAGS2: 4, _SQL_MODE: 8, _AUTO_INCREMENT: 4, _CHARSET: 6, _EXPLICIT_TIMESTAMPS: 1}
# Names for days, the database's collation, tables of an update, written bytes, microseconds.
_SIZES |= {7: 2, 8: 2, 9: 8, 10: 4, 13: 3}
_MAX_DATABASES = 254
# MariaDB's OPTION_EXPLICIT_DEF_TIMESTAMP.
_MARIADB_EXPLICIT_TIMESTAMPS = 1 << 24
_ANSI_QUOTES, _NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20
_STRICT_TRANS_TABLES, _STRICT_ALL_TABLES = 1 << 21, 1 << 22


def statement_text(query: Query) -> str:
    """The text of a statement, by the character set of the session's client.

    Bytes that the character set does not have are replaced: what they are part of is not a word
    that the interpretation knows.
    """
    collation = _variables(query.status_variables).get(_CHARSET)
    client = int.from_bytes(collation[:2], "little") if collation else None
    try:
        charset = charset_of_collation(client) if client is not None else None
        return (
            query.statement.decode("utf-8") if charset is None else charset.decode(query.statement)
        )
    except (UnicodeDecodeError, HeadwaterError):
        return query.statement.decode("utf-8", "replace")


def statement_syntax(query: Query, *, mariadb: bool, lower_case_names: bool) -> Syntax:
    """How the session that wrote a statement writes statements."""
    mode = _sql_mode(query)
    return Syntax(
        mariadb=mariadb,
        ansi_quotes=bool(mode & _ANSI_QUOTES),
        backslash_escapes=not mode & _NO_BACKSLASH_ESCAPES,
        lower_case_names=lower_case_names,
    )


def is_strict(query: Query) -> bool:
    """Whether the session rejects nulls in a column that becomes NOT NULL."""
    return bool(_sql_mode(query) & (_STRICT_TRANS_TABLES | _STRICT_ALL_TABLES))


def explicit_timestamps(query: Query, *, mariadb: bool) -> bool | None:
    """Whether the session has ``explicit_defaults_for_timestamp``; None if the log lacks it."""
    variables = _variables(query.status_variables)
    if mariadb:
        flags = variables.get(_FLAGS2)
        if flags is None:
            return None
        return bool(int.from_bytes(flags, "little") & _MARIADB_EXPLICIT_TIMESTAMPS)
    value = variables.get(_EXPLICIT_TIMESTAMPS)
    return None if value is None else value != b"\0"


def temporary_changes(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes of a statement that uses a temporary table, without those that may be of it.

    It may have the name of a table that is followed, and some statements have the mark without a
    temporary table. So the definition and rows of each table are read again: that is right
    whichever is meant.
    """
    permanent = tuple(change for change in changes if isinstance(change, _PERMANENT))
    names = dict.fromkeys(
        name for change in changes if not isinstance(change, _PERMANENT) for name in change.tables
    )
    return (*permanent, *(CreateTable(name, or_replace=True) for name in names))


def _sql_mode(query: Query) -> int:
    return int.from_bytes(_variables(query.status_variables).get(_SQL_MODE, b""), "little")


def _variables(data: bytes) -> dict[int, bytes]:
    """The first status variables of an event."""
    variables: dict[int, bytes] = {}
    offset = 0
    while offset < len(data):
        code, offset = data[offset], offset + 1
        if code in _SIZES:
            size = _SIZES[code]
        elif code in (_TIME_ZONE, _CATALOG_NZ):
            size = 1 + data[offset]
        elif code == _CATALOG:
            size = 2 + data[offset]
        elif code == _INVOKER:
            size = 1 + data[offset]
            size += 1 + data[offset + size]
        elif code == _DATABASES:
            size = _databases_size(data, offset)
        else:
            return variables
        variables[code] = data[offset : offset + size]
        offset += size
    return variables


def _databases_size(data: bytes, offset: int) -> int:
    """How many bytes the names of the databases take that a statement changes."""
    end = offset + 1
    for _ in range(data[offset] if data[offset] < _MAX_DATABASES else 0):
        end = data.index(b"\0", end) + 1
    return end - offset
