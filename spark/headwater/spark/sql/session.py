"""Run SQL text: each statement goes to the handler of its first words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial

import pyarrow as pa
import pyspark.sql.types as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headwater.spark.errors import users_words
from headwater.spark.explained_write import stop_if_explained
from headwater.spark.session import is_set
from headwater.spark.sql.call.procedures import HANDLERS as CALL
from headwater.spark.sql.constants import KEEPS_ESCAPES, session_constants
from headwater.spark.sql.context import Answer, Handler, SqlContext
from headwater.spark.sql.copy_into.copy_into import HANDLERS as COPY_INTO
from headwater.spark.sql.ddl.alter_table import HANDLERS as ALTER_TABLE
from headwater.spark.sql.ddl.analyze import HANDLERS as ANALYZE
from headwater.spark.sql.ddl.column_types import session_type_names
from headwater.spark.sql.ddl.create_table import HANDLERS as CREATE_TABLE
from headwater.spark.sql.ddl.databases import HANDLERS as DATABASES
from headwater.spark.sql.ddl.functions import HANDLERS as FUNCTIONS
from headwater.spark.sql.ddl.tables import HANDLERS as TABLES
from headwater.spark.sql.ddl.views import HANDLERS as VIEWS
from headwater.spark.sql.dml.change import HANDLERS as CHANGE
from headwater.spark.sql.dml.insert import HANDLERS as INSERT
from headwater.spark.sql.dml.merge import HANDLERS as MERGE
from headwater.spark.sql.execute_immediate import assign, read_immediate
from headwater.spark.sql.explain import explain, read_mode
from headwater.spark.sql.foreign_statements import HANDLERS as FOREIGN
from headwater.spark.sql.grants.grant import HANDLERS as GRANT
from headwater.spark.sql.grants.show import HANDLERS as SHOW_GRANTS
from headwater.spark.sql.identifier_clauses import with_plain_names
from headwater.spark.sql.named_values import with_named_values
from headwater.spark.sql.parameters import Arguments, with_arguments
from headwater.spark.sql.parser.tokens import with_backquotes
from headwater.spark.sql.query.cached_tables import HANDLERS as CACHE
from headwater.spark.sql.query.cached_tables import cache_changed_tables
from headwater.spark.sql.query.splice import computed_name
from headwater.spark.sql.query.statements import HANDLERS as QUERY
from headwater.spark.sql.query.variables import HANDLERS as VARIABLES
from headwater.spark.sql.script import begins_script, run_script
from headwater.spark.sql.session_options import paimon_settings, refuse_not_followed
from headwater.spark.sql.show.describe import HANDLERS as DESCRIBE
from headwater.spark.sql.show.listings import HANDLERS as SHOW
from headwater.spark.sql.show.procedures import HANDLERS as PROCEDURES
from headwater.spark.sql.statement import Statement, split_statements
from headwater.spark.sql.substitution import with_settings
from headwater.spark.sql.use import HANDLERS as USE
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["run_sql", "run_statement"]

# Statements in which types may stand.
_DEFINING = ("CREATE", "REPLACE", "ALTER")
_DEFINITION = re.compile(
    r"\s*(?:CREATE\s+(?:OR\s+REPLACE\s+)?|ALTER\s+)(?:VIEW|FUNCTION)\b", re.IGNORECASE
)
_ANSI = "spark.sql.ansi.enabled"
_DOUBLE_QUOTED_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"


def run_sql(
    text: str,
    context: SqlContext,
    arguments: Arguments | None = None,
    values: Mapping[str, object] | None = None,
) -> DataFrame:
    """Run one statement or a script.

    Args:
        text: The statement or the script; a semicolon may end it.
        context: The user's; a statement may change it.
        arguments: Values of the statement's parameters.
        values: Values and frames that the text names in braces.

    Returns:
        The statement's rows; a frame without columns for one that has none.

    Raises:
        Invalid: The text is not exactly one statement, or cannot be read; or what it asks
            for and what is given do not match.
        Unsupported: The statement is of a kind that Headwater does not know.
    """
    context.begin()
    spark = context.session.spark
    filled = with_named_values(spark, text, values, session_constants(spark)) if values else None
    with users_words(), filled or nullcontext(text) as whole:
        answer = _answer(whole, context, arguments)
    if answer is None:
        return spark.createDataFrame([], st.StructType())
    return _frame(answer, spark)


def _frame(rows: pa.Table | DataFrame, spark: SparkSession) -> DataFrame:
    if not isinstance(rows, pa.Table):
        return rows
    if rows.num_rows:
        return spark.createDataFrame(rows)
    # Spark Connect takes no types from a table without rows.
    local_times = "TIMESTAMP" in session_type_names(spark)
    return spark.createDataFrame([], from_arrow_schema(rows.schema, local_times))


def _answer(
    text: str, context: SqlContext, arguments: Arguments | None, in_statement: bool = False
) -> Answer:
    spark = context.session.spark
    text = with_settings(text, spark)
    if '"' in text and is_set(spark, _ANSI) and is_set(spark, _DOUBLE_QUOTED_NAMES):
        text = with_backquotes(text)
    if arguments is not None:
        text = with_arguments(text, arguments, session_constants(spark))
    if begins_script(text):
        if in_statement:
            raise Invalid(
                "EXECUTE IMMEDIATE cannot run a script (BEGIN … END): give it one statement"
            )
        return run_script(text, lambda part, values: _answer(part, context, values, True), context)
    statements = split_statements(with_plain_names(text, _compute(text, context)))
    if len(statements) != 1:
        raise Invalid(f"one statement is expected, and there are {len(statements)}")
    return run_statement(_as_session_reads(statements[0], context), context)


def _compute(text: str, context: SqlContext) -> Callable[[str], str | None] | None:
    """Computes names that are expressions; None for a definition, which is for all sessions."""
    is_definition = _DEFINITION.match(text) is not None
    return None if is_definition else partial(computed_name, context=context)


def _as_session_reads(statement: Statement, context: SqlContext) -> Statement:
    """A statement that takes types, names and strings as the session does."""
    spark = context.session.spark
    if any(map(statement.peek, _DEFINING)):
        statement.type_names = session_type_names(spark)
        statement.fold = context.fold
        refuse_not_followed(paimon_settings(context))
    if "\\" in statement.text:
        statement.keeps_escapes = is_set(spark, KEEPS_ESCAPES)
    return statement


def _execute_immediate(statement: Statement, context: SqlContext) -> Answer:
    spark = context.session.spark
    immediate = read_immediate(statement, context)
    answer = _answer(immediate.text, context, immediate.arguments, True)
    if not immediate.targets:
        return answer
    if answer is None:
        raise Invalid("EXECUTE IMMEDIATE … INTO: the statement gives no rows; leave INTO out")
    stop_if_explained(context.session)
    assign(_frame(answer, spark), immediate.targets, spark)
    return None


def _explain(statement: Statement, context: SqlContext) -> Answer:
    """``EXPLAIN [EXTENDED | FORMATTED | COST | CODEGEN] statement``."""
    mode = read_mode(statement)
    (inner,) = split_statements(statement.rest())
    words, handler = _handler(_as_session_reads(inner, context))
    return explain(inner, words, handler, context, mode)


def run_statement(statement: Statement, context: SqlContext) -> Answer:
    """Run one statement and give what its handler gives."""
    _, handler = _handler(statement)
    try:
        return handler(statement, context)
    finally:
        cache_changed_tables(context)


def _handler(statement: Statement) -> tuple[tuple[str, ...], Handler]:
    """The handler of a statement, and the words that it is found by."""
    for count in range(_MAX_WORDS, 0, -1):
        for words, handler in _HANDLERS.items():
            if len(words) == count and statement.peek(*words):
                return words, handler
    raise Unsupported(f"Headwater does not know the statement {statement.text[:80]!r}")


_HANDLERS: Mapping[tuple[str, ...], Handler] = {
    **QUERY,
    **VARIABLES,
    **CACHE,
    **USE,
    **DATABASES,
    **CREATE_TABLE,
    **ALTER_TABLE,
    **TABLES,
    **ANALYZE,
    **VIEWS,
    **FUNCTIONS,
    **SHOW,
    **DESCRIBE,
    **PROCEDURES,
    **FOREIGN,
    **GRANT,
    **SHOW_GRANTS,
    **CALL,
    **COPY_INTO,
    **CHANGE,
    **INSERT,
    **MERGE,
    ("EXECUTE", "IMMEDIATE"): _execute_immediate,
    ("EXPLAIN",): _explain,
}
_MAX_WORDS = max(len(words) for words in _HANDLERS)
