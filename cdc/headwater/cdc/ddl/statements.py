"""Interpretation of whole statements: `interpret` is what callers use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum

from headwater.cdc.ddl.alter_table import read_alter_table, read_wait
from headwater.cdc.ddl.changes import (
    Change,
    CreateTable,
    DropDatabase,
    DropTables,
    ForeignKey,
    Irrelevant,
    KeyChange,
    NotUnderstood,
    RenameTables,
    RowsReplaced,
    Truncate,
)
from headwater.cdc.ddl.columns import PrimaryKey, column_keys, read_elements
from headwater.cdc.ddl.table_options import read_partitioning, read_table_option
from headwater.cdc.ddl.tokens import Cursor, Syntax, Token, TokenType, UnclearSyntaxError, words
from headwater.cdc.model.tables import TableName


class AlterPhase(StrEnum):
    """Which part of MariaDB's two-phase ALTER TABLE a statement is (``binlog_alter_two_phase``).

    The log has the same text two times; only the flags of its GTID events tell START from COMMIT.
    """

    WHOLE = "whole"
    START = "start"
    COMMIT = "commit"
    ROLLBACK = "rollback"


_DEFAULT_SYNTAX = Syntax()

# What a CREATE, ALTER or DROP may be about that has neither rows nor columns to follow.
_OTHER_OBJECTS = words(
    "VIEW TRIGGER FUNCTION PROCEDURE EVENT USER ROLE SERVER TABLESPACE SEQUENCE PACKAGE "
    "DATABASE SCHEMA LOGFILE RESOURCE LIBRARY CATALOG INSTANCE"
)
_MODIFIERS = words(
    "ONLINE OFFLINE UNIQUE FULLTEXT SPATIAL VECTOR UNDO AGGREGATE JSON RELATIONAL DUALITY"
)
# Verbs of statements that change neither rows nor columns of tables.
_OTHER_VERBS = words(
    "ANALYZE BEGIN CHECK CHECKSUM COMMIT FLUSH GRANT INSTALL OPTIMIZE RELEASE REVOKE "
    "SAVEPOINT SHUTDOWN UNINSTALL"
)
_ROW_VERBS = (
    "INSERT",
    "UPDATE",
    "DELETE",
    "REPLACE",
    "LOAD",
    "CALL",
    "WITH",
    "SELECT",
    "MERGE",
    "DO",
)
# The first word behind comments, of text that cannot be split into tokens.
_FIRST_WORD = re.compile(r"(?:\s+|/\*(?!M?!).*?\*/|(?:#|--(?=\s))[^\n]*\n)*+([A-Za-z]+)", re.DOTALL)
_SYSTEM_DATABASES = frozenset({"mysql", "sys", "performance_schema", "information_schema"})
# After one of these words a statement may be about tables that have not been read yet.
_NAMING = frozenset({"RENAME", "EXCHANGE", "CONVERT", "TABLE", "TABLES", "UNION"})


def interpret(
    sql: str,
    database: str | None,
    *,
    syntax: Syntax = _DEFAULT_SYNTAX,
    phase: AlterPhase = AlterPhase.WHOLE,
) -> tuple[Change, ...]:
    """Interpret a DDL statement as it stands in the log of MySQL or MariaDB.

    Nothing is guessed: a statement of which any part is not understood is one `NotUnderstood`,
    whose tables must be quarantined. It is never partly interpreted.

    Args:
        sql: The statement's text.
        database: The session's default database, from the query event.
        syntax: How the session writes statements, from the query event and the server.
        phase: The part of a two-phase ALTER, from the GTID event. START and ROLLBACK change
            nothing.

    Returns:
        The changes in the order in which they apply, at least one.
    """
    try:
        cursor = Cursor(sql, database, syntax)
    except UnclearSyntaxError as error:
        verb = _FIRST_WORD.match(sql)
        changes_rows = verb is not None and verb[1].upper() in _ROW_VERBS
        return (NotUnderstood(str(error), changes_rows=changes_rows),)
    try:
        changes = _statement(cursor)
        cursor.expect_end()
    except UnclearSyntaxError as error:
        changes = (_not_understood(cursor, str(error)),)
    if phase in (AlterPhase.START, AlterPhase.ROLLBACK):
        return (Irrelevant(f"{phase.upper()} ALTER changes nothing", tuple(cursor.tables)),)
    return changes


def _not_understood(cursor: Cursor, reason: str) -> NotUnderstood:
    names = tuple(dict.fromkeys(cursor.tables))
    names_more = any(token.keyword in _NAMING for token in cursor.rest)
    return NotUnderstood(reason, names, any_table=names_more or not names)


def _statement(cursor: Cursor) -> tuple[Change, ...]:
    if cursor.take("SET", "STATEMENT"):
        _skip_settings(cursor)
    verb = cursor.token.keyword
    reader = _READERS.get(verb)
    if reader is not None:
        cursor.advance()
        return reader(cursor)
    if verb in _OTHER_VERBS:
        return _irrelevant(cursor, f"{verb} changes neither rows nor columns")
    if verb in _ROW_VERBS:
        return (_row_statement(cursor),)
    raise cursor.unclear("a statement")


def _skip_settings(cursor: Cursor) -> None:
    """Read MariaDB's ``SET STATEMENT name = value, … FOR``."""
    while not cursor.take("FOR"):
        if cursor.at("SQL_MODE"):
            raise UnclearSyntaxError("SET STATEMENT sql_mode changes how the statement is read")
        if cursor.at_end():
            raise cursor.unclear("FOR")
        cursor.advance()


def _irrelevant(cursor: Cursor, reason: str) -> tuple[Change, ...]:
    cursor.skip_to_end()
    return (Irrelevant(reason, tuple(cursor.tables)),)


def _row_statement(cursor: Cursor) -> NotUnderstood:
    """A statement that changes rows: sessions with ``binlog_format=STATEMENT`` log such ones.

    Triggers and foreign keys may change any table besides the target, but for system tables.
    """
    verb = cursor.advance().keyword
    modifiers = ("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE", "INTO", "FROM")
    while cursor.take_any(*modifiers):
        pass
    names: tuple[TableName, ...] = ()
    if verb in ("INSERT", "UPDATE", "DELETE", "REPLACE"):
        # What is not a table's name, such as `t.*`, may mean any table.
        with suppress(UnclearSyntaxError):
            names = (cursor.table(),)
    is_system = bool(names) and names[0].database.lower() in _SYSTEM_DATABASES
    cursor.skip_to_end()
    reason = f"{verb} changes rows without row events; binlog_format must be ROW in all sessions"
    return NotUnderstood(reason, names, any_table=not is_system, changes_rows=True)


def _read_create(cursor: Cursor) -> tuple[Change, ...]:
    or_replace = cursor.take("OR", "REPLACE")
    if cursor.take("TEMPORARY"):
        cursor.take("TABLE")
        return _irrelevant(cursor, "a temporary table is not in the log")
    if cursor.take("TABLE"):
        return (_create_table(cursor, or_replace),)
    _skip_modifiers(cursor)
    if cursor.take("INDEX"):
        _skip_to_table(cursor)
        return _irrelevant(cursor, "creates an index")
    return _other_object(cursor, "creates")


def _read_alter(cursor: Cursor) -> tuple[Change, ...]:
    if cursor.at_any("ONLINE", "OFFLINE", "IGNORE", "TABLE"):
        return read_alter_table(cursor)
    _skip_modifiers(cursor)
    return _other_object(cursor, "alters")


def _skip_modifiers(cursor: Cursor) -> None:
    """Read what may stand between CREATE or ALTER and VIEW, TRIGGER, INDEX…"""
    while True:
        if cursor.take("ALGORITHM"):
            cursor.expect("=")
            cursor.advance()
        elif cursor.take("DEFINER"):
            cursor.expect("=")
            cursor.skip_until(*_OTHER_OBJECTS, "SQL", "AGGREGATE")
        elif cursor.take("SQL", "SECURITY"):
            cursor.advance()
        elif not cursor.take_any(*_MODIFIERS):
            return


def _other_object(cursor: Cursor, verb: str) -> tuple[Change, ...]:
    if cursor.take("SPATIAL", "REFERENCE") or cursor.at("REFERENCE"):
        return _irrelevant(cursor, f"{verb} a spatial reference system")
    object_type = cursor.take_any(*_OTHER_OBJECTS)
    if not object_type:
        raise cursor.unclear("TABLE, VIEW, INDEX…")
    return _irrelevant(cursor, f"{verb} a {object_type.lower()}")


def _skip_to_table(cursor: Cursor) -> None:
    cursor.take("IF", "NOT", "EXISTS")
    cursor.take("IF", "EXISTS")
    cursor.skip_until("ON")
    cursor.expect("ON")
    cursor.table()


def _create_table(cursor: Cursor, or_replace: bool) -> CreateTable:
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    table = cursor.table()
    if like := _like(cursor):
        return CreateTable(table, like=like, if_not_exists=if_not_exists, or_replace=or_replace)
    has_columns = cursor.at("(") and not _is_query(cursor.rest[1])
    columns, keys = read_elements(cursor) if has_columns else ([], [])
    keys += column_keys([reader for reader, _ in columns])
    primary = next((key.columns for key in keys if isinstance(key, PrimaryKey)), ())
    while read_table_option(cursor):
        cursor.take(",")
    read_partitioning(cursor, table)
    cursor.take_any("IGNORE", "REPLACE")
    if as_select := cursor.take("AS") or _is_query(cursor.token) or cursor.at("("):
        cursor.skip_to_end()
    if not columns and not as_select:
        raise cursor.unclear("columns or a query")
    return CreateTable(
        table,
        tuple(definition.in_key(primary) for _, definition in columns),
        primary,
        tuple(key for key in keys if isinstance(key, ForeignKey)),
        as_select=as_select,
        if_not_exists=if_not_exists,
        or_replace=or_replace,
    )


def _like(cursor: Cursor) -> TableName | None:
    if cursor.take("LIKE"):
        return cursor.table()
    if cursor.take("(", "LIKE"):
        table = cursor.table()
        cursor.expect(")")
        return table
    return None


def _is_query(token: Token) -> bool:
    starts_query = token.keyword in ("SELECT", "WITH", "VALUES", "TABLE")
    return starts_query or (token.type is TokenType.SYMBOL and token.text == "(")


def _read_drop(cursor: Cursor) -> tuple[Change, ...]:
    if cursor.take("TEMPORARY"):
        return _irrelevant(cursor, "a temporary table is not in the log")
    if cursor.take_any("TABLE", "TABLES"):
        if_exists = cursor.take("IF", "EXISTS")
        tables = cursor.tables_list()
        read_wait(cursor)
        cursor.take_any("RESTRICT", "CASCADE")
        return (DropTables(tables, if_exists),)
    if cursor.take_any("DATABASE", "SCHEMA"):
        if_exists = cursor.take("IF", "EXISTS")
        return (DropDatabase(cursor.database_name(), if_exists),)
    cursor.take_any("ONLINE", "OFFLINE", "UNDO")
    if cursor.take("INDEX"):
        cursor.take("IF", "EXISTS")
        is_primary = cursor.token.text.upper() == "PRIMARY"
        _skip_to_table(cursor)
        changes = _irrelevant(cursor, "drops an index")
        return (KeyChange(cursor.tables[0], True, None),) if is_primary else changes
    return _other_object(cursor, "drops")


def _read_rename(cursor: Cursor) -> tuple[Change, ...]:
    if cursor.take("USER"):
        return _irrelevant(cursor, "renames a user")
    if not cursor.take_any("TABLE", "TABLES"):
        raise cursor.unclear("TABLE")
    if_exists = cursor.take("IF", "EXISTS")
    renames = []
    while True:
        old = cursor.table()
        read_wait(cursor)
        cursor.expect("TO")
        renames.append((old, cursor.table()))
        if not cursor.take(","):
            return (RenameTables(tuple(renames), if_exists),)


def _read_truncate(cursor: Cursor) -> tuple[Change, ...]:
    cursor.take("TABLE")
    table = cursor.table()
    read_wait(cursor)
    return (Truncate(table),)


def _read_repair(cursor: Cursor) -> tuple[Change, ...]:
    cursor.take_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if cursor.take("VIEW"):
        return _irrelevant(cursor, "repairs a view")
    if not cursor.take_any("TABLE", "TABLES"):
        raise cursor.unclear("TABLE")
    tables = cursor.tables_list()
    while cursor.take_any("QUICK", "EXTENDED", "USE_FRM", "FORCE"):
        pass
    return tuple(RowsReplaced(table, "REPAIR may have removed rows") for table in tables)


def _read_set(cursor: Cursor) -> tuple[Change, ...]:
    if not cursor.at_any("PASSWORD", "DEFAULT", "ROLE"):
        raise cursor.unclear("PASSWORD or ROLE")
    return _irrelevant(cursor, "sets a password or a role")


_READERS: Mapping[str, Callable[[Cursor], tuple[Change, ...]]] = {
    "ALTER": _read_alter,
    "CREATE": _read_create,
    "DROP": _read_drop,
    "RENAME": _read_rename,
    "REPAIR": _read_repair,
    "SET": _read_set,
    "TRUNCATE": _read_truncate,
}
