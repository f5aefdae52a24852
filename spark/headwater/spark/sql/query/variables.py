"""``SET VARIABLE`` and ``DECLARE``: variables of the session, with queries over the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from headwater.spark.names import quoted
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.names import brace_escaped, brace_unescaped
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.splice import splice_expression
from headwater.spark.sql.statement import Statement, WordKind, read_words
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["HANDLERS", "set_variables"]


def _set(statement: Statement, context: SqlContext) -> DataFrame:
    """``SET VARIABLE a = expression, …`` and ``SET VARIABLE (a, …) = (query)``."""
    statement.expect("SET")
    if not statement.accept("VAR"):
        statement.expect("VARIABLE")
    if statement.peek("("):
        return _set_by_query(statement, context)
    names: list[str] = []
    values: list[str] = []
    while True:
        names.append(_name(statement))
        statement.expect("=")
        values.append(statement.until(","))
        if not values[-1]:
            raise statement.unexpected("an expression")
        if not statement.accept(","):
            break
    statement.end()
    spliced = [splice_expression(value, context, ()) for value in values]
    if any(value.relations for value in spliced):
        if any(value.upper() == "DEFAULT" for value in values):
            raise Unsupported(
                "SET VARIABLE: DEFAULT beside a query over tables of the catalog is not "
                "supported; write two statements"
            )
        query = f"SELECT {', '.join(f'({value})' for value in values)}"
        return set_variables(names, query_frame(query, context), context.session.spark)
    texts = (brace_unescaped(value.text) for value in spliced)
    assignments = map(" = ".join, zip(names, texts, strict=True))
    return context.session.spark.sql(f"SET VARIABLE {', '.join(assignments)}")


def _set_by_query(statement: Statement, context: SqlContext) -> DataFrame:
    statement.expect("(")
    names = [_name(statement)]
    while statement.accept(","):
        names.append(_name(statement))
    statement.expect(")")
    statement.expect("=")
    query = statement.bracketed()
    statement.end()
    return set_variables(names, query_frame(query, context), context.session.spark)


def set_variables(names: Sequence[str], rows: DataFrame, spark: SparkSession) -> DataFrame:
    """Give the one row of a frame to variables of the session; without a row they are null.

    Args:
        names: The variables, as SQL names them.
        rows: The frame.
        spark: The session.
    """
    targets = brace_escaped(", ".join(names))
    return spark.sql(f"SET VARIABLE ({targets}) = (SELECT * FROM {{rows}})", rows=rows)


def _name(statement: Statement) -> str:
    return ".".join(map(quoted, statement.name_parts()))


def _declare(statement: Statement, context: SqlContext) -> DataFrame:
    """``DECLARE [OR REPLACE] [VARIABLE] a, … [type] [DEFAULT expression]``."""
    words = read_words(statement.text)
    if any(word.kind is WordKind.WORD and word.text.upper() == "SELECT" for word in words):
        raise Invalid(
            f"'{statement.text[:60]}' cannot be run: Spark allows no query in the default of a "
            "variable; DECLARE it without one, then SET VARIABLE name = (SELECT …)"
        )
    start = next(
        (
            word.end
            for word in words
            if (word.kind is WordKind.WORD and word.text.upper() == "DEFAULT") or word.text == "="
        ),
        None,
    )
    text = statement.text
    if start is not None:
        value = splice_expression(text[start:], context, ()).text
        text = f"{text[:start]} {brace_unescaped(value)}"
    return context.session.spark.sql(text)


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("SET", "VAR"): _set,
    ("SET", "VARIABLE"): _set,
    ("DECLARE",): _declare,
}
