"""Tables of a server as its information schema has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from headwater.cdc.model.tables import Finding, SourceColumn, SourceTable, TableName
from headwater.cdc.mysql.charsets import check_collation
from headwater.cdc.mysql.column_types import TypeMapping, lake_type, parse_source_type
from headwater.cdc.mysql.foreign_keys import logs_cascades, read_foreign_keys
from headwater.cdc.mysql.server import MySQLServer
from headwater.cdc.mysql.text_values import quoted
from headwater.cdc.source.foreign_keys import keys_that_reach
from headwater.cdc.source.reads import Tables
from headwater.storage.errors import Conflict, Unsupported

__all__ = ["check_definition", "keep_definition", "limit_lock_waits", "read_tables"]

_SYSTEM_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")
_TABLES = """
SELECT table_schema, table_name, table_type, table_comment, engine FROM information_schema.tables
WHERE {wanted} AND table_type <> 'VIEW' ORDER BY table_schema, table_name
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, column_type, is_nullable, column_default,
  column_comment, collation_name, extra, generation_expression
FROM information_schema.columns WHERE {wanted}
ORDER BY table_schema, table_name, ordinal_position
"""
_KEYS = """
SELECT table_schema, table_name, column_name FROM information_schema.statistics
WHERE index_name = 'PRIMARY' AND {wanted}
ORDER BY table_schema, table_name, seq_in_index
"""
# The engine whose tables a transaction sees as they were when it began.
_ENGINE = "InnoDB"
# A reader that waits behind a statement, which waits for a transaction of the same pipeline, would
# wait for ever; and all tables of the pipeline wait with it.
_LOCK_SECONDS = 1
# Whose names are sent to the server, rather than all tables read.
_FEW_TABLES = 100
_KINDS = {
    "SYSTEM VERSIONED": "it is system-versioned: its log has rows of its history among its own",
    "SEQUENCE": "it is a sequence",
}


def read_tables(
    server: MySQLServer,
    wanted: Collection[TableName] | None = None,
    *,
    mapping: Collection[TypeMapping] = (),
    without_key: bool = False,
) -> Tables:
    """Read the tables that a user sees, without views and the server's own.

    Args:
        server: The server.
        wanted: The tables to read; None reads all.
        mapping: Choices of types in the lake.
        without_key: Whether tables without a primary key can be followed.

    Raises:
        Forbidden: The user may not read the information schema.
        Unavailable: The server does not answer.
    """
    condition = "table_schema NOT IN %s"
    values: list[object] = [_SYSTEM_DATABASES]
    if wanted is not None and len(wanted) <= _FEW_TABLES:
        if not wanted:
            return Tables((), ())
        condition += " AND (table_schema, table_name) IN %s"
        values.append(tuple((name.database, name.table) for name in wanted))

    def rows(statement: str) -> Sequence[tuple[object, ...]]:
        return server.rows(statement.format(wanted=condition), values)

    columns, keys = _by_table(rows(_COLUMNS)), _by_table(rows(_KEYS))
    followed: list[SourceTable] = []
    findings: list[Finding] = []
    present = {
        TableName(str(database), str(table)): (str(kind), str(comment), str(engine))
        for database, table, kind, comment, engine in rows(_TABLES)
    }
    children: Collection[TableName] = ()
    if without_key:
        children = _silent_children(server, present.keys() - keys.keys())
    for name, (kind, comment, engine) in present.items():
        if wanted is not None and name not in wanted:
            continue
        key = [str(column) for (column,) in keys.get(name, ())]
        problems = _problems(name, kind, key, without_key=without_key)
        if without_key and not key and not problems:
            problems = _problems_without_key(name, engine, is_child=name in children)
        shape: list[SourceColumn] = []
        for row in columns.get(name, ()):
            try:
                shape.append(_column(row, mapping))
            except Unsupported as error:
                remedy = "leave the table out, or change the column's type"
                problem = error.message.partition(";")[0]
                problems.append(Finding(f"column {name}.{row[0]}", problem, remedy, name))
        findings += problems
        if not problems:
            followed.append(SourceTable(name, tuple(shape), tuple(key), comment))
    return Tables(followed, findings)


def limit_lock_waits(server: MySQLServer) -> None:
    """Let a session give up soon where another one has a table locked; it then raises Conflict."""
    server.rows(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")


def check_definition(server: MySQLServer, table: SourceTable) -> None:
    """Keep a table's columns as they are while it is read, and check that they are the known ones.

    Raises:
        Conflict: They are others, or the table is locked.
    """
    name = table.name
    keep_definition(server, name)
    now = read_tables(server, {name}, without_key=not table.primary_key).followed
    known = [(column.name, column.source_type) for column in table.columns]
    actual = [(column.name, column.source_type) for column in now[0].columns] if now else []
    if actual != known or tuple(now[0].primary_key) != tuple(table.primary_key):
        raise Conflict(f"table {name} of the source has other columns meanwhile; read it again")


def keep_definition(server: MySQLServer, name: TableName) -> None:
    """Let statements about a table wait for the end of the transaction.

    Raises:
        Conflict: The table is not there, was changed after the transaction began to see, or is
            locked.
    """
    server.rows(f"SELECT 1 FROM {quoted(name.database)}.{quoted(name.table)} LIMIT 0")


def _by_table(rows: Sequence[tuple[object, ...]]) -> Mapping[TableName, list[tuple[object, ...]]]:
    tables: dict[TableName, list[tuple[object, ...]]] = {}
    for database, table, *rest in rows:
        tables.setdefault(TableName(str(database), str(table)), []).append(tuple(rest))
    return tables


def _problems(
    name: TableName, kind: str, key: Sequence[str], *, without_key: bool
) -> list[Finding]:
    subject = f"table {name}"
    if kind in _KINDS:
        return [Finding(subject, _KINDS[kind], "leave it out with --exclude", name)]
    if not key and not without_key:
        remedy = (
            "add a primary key, follow it with --tables-without-key append, or leave it out with "
            "--exclude"
        )
        return [Finding(subject, "it has no primary key", remedy, name)]
    return []


def _problems_without_key(name: TableName, engine: str, *, is_child: bool) -> list[Finding]:
    """Why rows that cannot be told apart cannot be followed; they are read at one position."""
    subject, problem, remedy = f"table {name}", "", "add a primary key"
    if engine != _ENGINE:
        problem = f"it has no primary key, and its engine {engine} has no consistent reads"
        remedy = f"ALTER TABLE {name} ENGINE = {_ENGINE}, {remedy}"
    elif is_child:
        problem = "it has no primary key, and a foreign key changes its rows without events"
        remedy = f"{remedy}, drop the foreign key"
    if not problem:
        return []
    return [Finding(subject, problem, f"{remedy}, or leave it out with --exclude", name)]


def _silent_children(server: MySQLServer, tables: Collection[TableName]) -> Collection[TableName]:
    """Those of the tables whose rows a foreign key changes without an event in the log."""
    if not tables or logs_cascades(server):
        return ()
    return {action.child for action in keys_that_reach(read_foreign_keys(server), tables)}


def _column(row: tuple[object, ...], mapping: Collection[TypeMapping]) -> SourceColumn:
    name, source_type, is_nullable, default, comment, collation, _, expression = row
    text = str(source_type)
    if collation is not None:
        check_collation(str(collation))
    return SourceColumn(
        name=str(name),
        source_type=text,
        type=lake_type(parse_source_type(text), nullable=is_nullable == "YES", mapping=mapping),
        default=None if default is None else str(default),
        comment=str(comment),
        is_generated=bool(expression),
        collation=None if collation is None else str(collation),
    )
