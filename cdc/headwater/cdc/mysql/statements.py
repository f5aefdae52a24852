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

__all__ = ["is_strict", "statement_syntax", "statement_text", "temporary_changes"]

# What the log has of other tables than temporary ones, also where a statement uses one of those:
# it has DROP TEMPORARY of these, and their rows where CREATE TABLE … SELECT reads them.
_PERMANENT = (CreateTable, DropTables, DropDatabase, Irrelevant, NotUnderstood)

# Status variables of a QUERY event and how many bytes each has; those after them are not needed.
_FLAGS2, _SQL_MODE, _CATALOG, _AUTO_INCREMENT, _CHARSET = 0, 1, 2, 3, 4
_TIME_ZONE, _CATALOG_NZ = 5, 6
_SIZES = {_FLAGS2: 4, _SQL_MODE: 8, _AUTO_INCREMENT: 4, _CHARSET: 6}
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


def temporary_changes(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes of a statement that uses a temporary table, without those that may be of it.

    It may have the name of a table that is followed, which is read again: that is right whichever
    of both is meant.
    """
    names = dict.fromkeys(
        name for change in changes if not isinstance(change, _PERMANENT) for name in change.tables
    )
    permanent = tuple(change for change in changes if isinstance(change, _PERMANENT))
    if not names:
        return permanent
    reason = "the statement may change a temporary table"
    unclear = NotUnderstood(reason, tuple(names), any_table=False, changes_rows=True)
    return (*permanent, unclear)


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
        else:
            return variables
        variables[code] = data[offset : offset + size]
        offset += size
    return variables
