"""``EXPLAIN``: a query's plan, or what another statement would do, without doing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from headwater.spark.explained_write import WriteReached, plan_text
from headwater.spark.source.table_read import TableRead
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.dml.insert import planned_inserts
from headwater.spark.sql.query.explain import command_plan, explained, write_plan
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.statements import QUERY_WORDS, query_text, session_text
from headwater.spark.sql.read_only import explaining
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Unsupported

__all__ = ["explain", "read_mode"]

_MODES = ("EXTENDED", "FORMATTED", "COST", "CODEGEN")
_NAMES = (
    ("INSERT", "OVERWRITE"), ("INSERT", "INTO"), ("DELETE", "FROM"), ("MERGE", "INTO"),
    ("COPY", "INTO"), ("CACHE", "TABLE"),
)  # fmt: skip
"""The words that name statements whose handlers are found by fewer."""


def read_mode(statement: Statement) -> str:
    """Read ``EXPLAIN [EXTENDED | FORMATTED | COST | CODEGEN]``; the mode as Spark calls it."""
    statement.expect("EXPLAIN")
    if statement.peek("LOGICAL"):
        raise Unsupported("EXPLAIN LOGICAL is not supported; instead: EXPLAIN EXTENDED")
    mode = next((word for word in _MODES if statement.accept(word)), "SIMPLE")
    if statement.at_end:
        raise statement.unexpected("a statement")
    return mode.lower()


def explain(
    statement: Statement, words: tuple[str, ...], handler: Handler, context: SqlContext, mode: str
) -> pa.Table:
    """The text that ``EXPLAIN`` gives of a statement.

    Names, columns and clauses are checked as when the statement is run, up to where it would
    write or change something.

    Args:
        statement: The statement after ``EXPLAIN``.
        words: The words that it begins with, by which its handler was found.
        handler: The handler.
        context: The user's; it is told what the statement would read.
        mode: As `DataFrame.explain` takes it.
    """
    of_session = session_text(statement, handler)
    if of_session is not None:
        spark = context.session.spark
        prefix = "EXPLAIN" if mode == "simple" else f"EXPLAIN {mode.upper()}"
        [(plan,)] = spark.sql(f"{prefix} {of_session}").collect()
        return pa.table({"plan": [str(plan)]})
    dry = replace(context, session=explaining(context.session, mode), last_query=())
    steps: Sequence[Callable[[], object]] = [lambda: handler(statement, dry)]
    longer = (*_NAMES, (*words, "VIEW"), (*words, "FUNCTION"))
    name = " ".join(next((name for name in longer if statement.peek(*name)), words))
    if any(map(statement.peek, QUERY_WORDS)):
        name, steps = "INSERT INTO", planned_inserts(statement, dry)
        if not steps:
            frame = query_frame(query_text(statement), context)
            plan = explained(plan_text(frame, mode), context.last_query)
            return pa.table({"plan": [plan]})
    plans: list[str] = []
    reads: list[TableRead] = []
    for step in steps:
        try:
            step()
        except WriteReached as reached:
            plans += _write_plans(name, reached)
            reads += [] if reached.read is None else [reached.read]
    if plans:
        context.last_query = (*reads, *dry.last_query)
        return pa.table({"plan": [explained("\n".join(plans), context.last_query)]})
    return pa.table({"plan": [command_plan(name, statement.text)]})


def _write_plans(name: str, reached: WriteReached) -> list[str]:
    """The plan of a statement that writes rows; none of another one."""
    if not reached.table:
        return []
    return [write_plan(name, reached.table, reached.mode, reached.plan)]
