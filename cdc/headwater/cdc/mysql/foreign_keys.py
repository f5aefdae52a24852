"""Rows that a server changes by itself: children of foreign keys, and what triggers do.

InnoDB changes the rows of a foreign key's child without an event in the log. Triggers are in the
log as rows, but not those of a session that logs statements.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.charsets import charset_of
from headwater.cdc.mysql.server import MySQLServer
from headwater.cdc.mysql.text_values import quoted
from headwater.cdc.source.foreign_keys import Comparison, ForeignKeyAction, ReferentialAction

__all__ = [
    "logs_cascades",
    "read_foreign_keys",
    "tables_changed_by_triggers",
]

_NATIVE_KEYS = "innodb_native_foreign_keys"
_FOREIGN_KEYS = """
SELECT usages.table_schema, usages.table_name, usages.constraint_name, usages.column_name,
  usages.referenced_table_schema, usages.referenced_table_name, usages.referenced_column_name,
  rules.delete_rule, rules.update_rule
FROM information_schema.key_column_usage usages
LEFT JOIN information_schema.referential_constraints rules
  ON rules.constraint_schema = usages.constraint_schema
  AND rules.table_name = usages.table_name AND rules.constraint_name = usages.constraint_name
WHERE usages.referenced_table_name IS NOT NULL
ORDER BY usages.table_schema, usages.table_name, usages.constraint_name, usages.ordinal_position
"""
_COLLATIONS = """
SELECT table_schema, table_name, column_name, collation_name FROM information_schema.columns
WHERE table_schema IN ({}) AND collation_name IS NOT NULL
"""
# What differs in more than case; a space may not count at the end.
_ASCII = [mark for mark in map(chr, range(0x21, 0x7F)) if mark == mark.lower()]
_RULE = r"(RESTRICT|CASCADE|SET NULL|NO ACTION|SET DEFAULT)"
_CONSTRAINT = re.compile(
    r"^  CONSTRAINT `((?:[^`]|``)+)` FOREIGN KEY .*? REFERENCES .*?\)"
    rf"(?: ON DELETE {_RULE})?(?: ON UPDATE {_RULE})?,?$",
    re.MULTILINE,
)
_TRIGGERS = """
SELECT event_object_schema, event_object_table, action_statement FROM information_schema.triggers
ORDER BY event_object_schema, event_object_table, trigger_name
"""
_VIEWS = """
SELECT table_name FROM information_schema.views
WHERE table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
"""
_GRANT = re.compile(r"GRANT (.*?) ON (?:TABLE )?(\*|`(?:[^`]|``)+`)\.\* TO ", re.IGNORECASE)
_CALL = re.compile(
    r"(\binto\s+(?:[\w$`]+\.)?)?([\w$]+|`(?:[^`]|``)+`)\s*\(", re.IGNORECASE | re.ASCII
)
# What may stand before a bracket and changes no table; other words may be functions that do.
_HARMLESS = (
    "abs and as avg by case cast ceil ceiling char coalesce concat concat_ws convert count curdate "
    "curtime date date_add date_format date_sub datediff decimal else exists floor format from "
    "greatest group_concat hex if ifnull in json_array json_extract json_object key least left "
    "length like lower max min mod not now nullif on or over rand replace right round row select "
    "set substr substring sum sysdate then time timestamp trim unhex unix_timestamp upper user "
    "using utc_timestamp uuid values varchar when where year"
)


def logs_cascades(server: MySQLServer) -> bool:
    """Whether the log has the rows of children that a foreign key changes.

    MySQL has them since 9.6, where it checks foreign keys itself; MariaDB does not.
    """
    return server.variables(_NATIVE_KEYS).get(_NATIVE_KEYS, "ON").upper() == "OFF"


def read_foreign_keys(server: MySQLServer) -> Sequence[ForeignKeyAction]:
    """Read the foreign keys by which rows change, of all tables that the user sees.

    Args:
        server: The server.

    Raises:
        Forbidden: The user may not read a table's definition.
        Unavailable: The server does not answer.
    """
    actions: list[ForeignKeyAction] = []
    rules: dict[TableName, Mapping[str, tuple[str, str]]] = {}
    for (child, name), rows in _grouped(server.rows(_FOREIGN_KEYS)).items():
        _, parent_database, parent_table, _, on_delete, on_update = rows[0]
        if on_delete is None or on_update is None:
            # MariaDB shows the rules only to who may change the table.
            if child not in rules:
                rules[child] = _defined_rules(server, child)
            on_delete, on_update = rules[child][name]
        action = ForeignKeyAction(
            child,
            tuple(str(row[0]) for row in rows),
            TableName(str(parent_database), str(parent_table)),
            tuple(str(row[3]) for row in rows),
            ReferentialAction(str(on_delete)),
            ReferentialAction(str(on_update)),
        )
        if action.on_delete.changes_rows or action.on_update.changes_rows:
            actions.append(action)
    return _with_comparisons(server, actions)


def tables_changed_by_triggers(
    server: MySQLServer, tables: Collection[TableName]
) -> Mapping[TableName, frozenset[TableName]]:
    """The tables with triggers, and those that their triggers may change.

    Args:
        server: The server.
        tables: The tables; others are left out.

    Returns:
        For each of the tables with triggers, the tables that their statements name, and those that
        the triggers of these name. All of them, where a trigger calls a procedure or a function, or
        uses a view; and for each table, where the user may not see triggers.

    Raises:
        Unavailable: The server does not answer.
    """
    everything = frozenset(tables)
    if not _sees_triggers(server, {table.database for table in tables}):
        return dict.fromkeys(tables, everything)
    views = [str(name) for (name,) in server.rows(_VIEWS)]
    changed: dict[TableName, frozenset[TableName]] = {}
    for database, table, statement in server.rows(_TRIGGERS):
        name = TableName(str(database), str(table))
        body = str(statement)
        is_opaque = _calls_others(body) or any(_names(body, view) for view in views)
        named = frozenset(other for other in tables if _names(body, other.table))
        changed[name] = changed.get(name, frozenset()) | (everything if is_opaque else named)
    for _ in changed:
        # Each round follows the triggers of the tables that the round before added.
        for name, others in changed.items():
            changed[name] = others.union(*(changed.get(other, ()) for other in others))
    return {name: others for name, others in changed.items() if name in everything}


def _with_comparisons(
    server: MySQLServer, actions: Sequence[ForeignKeyAction]
) -> Sequence[ForeignKeyAction]:
    """Foreign keys with how the server compares the values of their columns."""
    databases = {name.database for action in actions for name in (action.child, action.parent)}
    if not databases:
        return actions
    collations = {
        (TableName(str(database), str(table)), str(column)): str(collation)
        for database, table, column, collation in server.rows(
            _COLLATIONS.format(", ".join(["%s"] * len(databases))), sorted(databases)
        )
    }
    known: dict[str, Comparison] = {}
    result = []
    for action in actions:
        comparisons = []
        for column, other in zip(action.columns, action.parent_columns, strict=True):
            own = collations.get((action.child, column))
            if own is None:
                comparisons.append(Comparison.EXACT)
            elif own != collations.get((action.parent, other)):
                comparisons.append(Comparison.LANGUAGE)
            else:
                known[own] = known.get(own) or _comparison(server, own)
                comparisons.append(known[own])
        result.append(replace(action, comparisons=tuple(comparisons)))
    return result


def _comparison(server: MySQLServer, collation: str) -> Comparison:
    if collation.endswith("_bin"):
        return Comparison.BINARY
    charset = charset_of(collation)
    if charset is None:
        return Comparison.LANGUAGE
    # Languages have single letters, or two of them, equal to others.
    marks = ("", *_ASCII)
    texts = " UNION ALL ".join(["SELECT %s"] * len(marks))
    ((count,),) = server.rows(
        f"WITH marks (mark) AS ({texts}) SELECT COUNT(DISTINCT CONVERT(CONCAT(one.mark, two.mark) "
        f"USING {charset}) COLLATE {collation}) "
        "FROM marks one CROSS JOIN marks two",
        marks,
    )
    is_by_case = int(str(count)) == 1 + len(_ASCII) + len(_ASCII) ** 2
    return Comparison.CASE if is_by_case else Comparison.LANGUAGE


def _grouped(
    rows: Sequence[tuple[object, ...]],
) -> Mapping[tuple[TableName, str], list[tuple[object, ...]]]:
    keys: dict[tuple[TableName, str], list[tuple[object, ...]]] = {}
    for database, table, name, *rest in rows:
        key = TableName(str(database), str(table)), str(name)
        keys.setdefault(key, []).append(tuple(rest))
    return keys


def _defined_rules(server: MySQLServer, table: TableName) -> Mapping[str, tuple[str, str]]:
    """The rules of a table's foreign keys for deletes and updates, from its definition."""
    server.rows("SET SESSION sql_quote_show_create = 1")
    name = f"{quoted(table.database)}.{quoted(table.table)}"
    ((_, definition),) = server.rows(f"SHOW CREATE TABLE {name}")
    return {
        constraint.replace("``", "`"): (on_delete or "RESTRICT", on_update or "RESTRICT")
        for constraint, on_delete, on_update in _CONSTRAINT.findall(str(definition))
    }


def _sees_triggers(server: MySQLServer, databases: Collection[str]) -> bool:
    """Whether the user's own privileges show the triggers of all tables of some databases."""
    visible: set[str] = set()
    for grant, *_ in server.rows("SHOW GRANTS"):
        if str(grant).upper().startswith("REVOKE "):
            return False
        match = _GRANT.match(str(grant))
        if match is None:
            continue
        privileges = {name.strip().upper() for name in match[1].split(",")}
        if privileges & {"TRIGGER", "ALL PRIVILEGES"}:
            database = match[2].strip("`").replace("``", "`")
            visible.add(database.replace("\\_", "_").replace("\\%", "%"))
    return "*" in visible or visible.issuperset(databases)


def _calls_others(body: str) -> bool:
    """Whether a trigger calls what may change any table."""
    if re.search(r"\bcall\b", body, re.IGNORECASE):
        return True
    harmless = _HARMLESS.split()
    # The table of an INSERT is followed by its columns.
    return any(not into and name.lower() not in harmless for into, name in _CALL.findall(body))


def _names(body: str, name: str) -> bool:
    """Whether a trigger names a table or a view, in any case."""
    escaped = re.escape(name.replace("`", "``"))
    return re.search(rf"(?<![\w$]){escaped}(?![\w$])", body, re.IGNORECASE) is not None
