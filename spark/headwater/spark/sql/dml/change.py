"""``UPDATE`` and ``DELETE FROM``."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.dml.parts import Expressions, assignments, counted, target_table
from headwater.spark.sql.statement import Statement
from headwater.spark.write.clauses import DEFAULT
from headwater.spark.write.update import delete_counted, update_rows

__all__ = ["HANDLERS", "assigned_value"]


def assigned_value(expressions: Expressions, text: str) -> object:
    """The value that the text of an assignment stands for."""
    return DEFAULT if text.upper() == "DEFAULT" else expressions.text(text)


def _update(statement: Statement, context: SqlContext) -> pa.Table:
    """``UPDATE name [[AS] alias] SET column = expression, … [WHERE condition]``."""
    statement.expect("UPDATE")
    target = target_table(statement, context, "SET")
    statement.expect("SET")
    values = assignments(statement, target, "WHERE")
    where = _where(statement)
    with Expressions(context, target) as expressions:
        counts = update_rows(
            context.session,
            target.table,
            {name: assigned_value(expressions, text) for name, text in values.items()},
            None if where is None else expressions.text(where),
            alias=target.alias,
        )
    return counted(counts)


def _delete(statement: Statement, context: SqlContext) -> pa.Table:
    """``DELETE FROM name [[AS] alias] [WHERE condition]``."""
    statement.expect("DELETE", "FROM")
    target = target_table(statement, context, "WHERE")
    where = _where(statement)
    with Expressions(context, target) as expressions:
        text = None if where is None else expressions.text(where)
        return counted(delete_counted(context.session, target.table, text, alias=target.alias))


def _where(statement: Statement) -> str | None:
    if not statement.accept("WHERE"):
        statement.end()
        return None
    text = statement.rest()
    if not text:
        raise statement.unexpected("a condition")
    return text


HANDLERS: Mapping[tuple[str, ...], Handler] = {("UPDATE",): _update, ("DELETE",): _delete}
