"""Names of temporary views, which go before those of the catalog as they do in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from headwater.spark.session import is_connect
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid

__all__ = [
    "is_global",
    "is_temporary",
    "names_global_database",
    "names_temporary",
    "refuse_global_database",
    "temporary_views",
]


def is_global(parts: Sequence[str], context: SqlContext) -> bool:
    """Whether a name is one of a global temporary view, if there is such a view."""
    return len(parts) == 2 and parts[0].lower() == context.global_database


def is_temporary(parts: Sequence[str], context: SqlContext) -> bool:
    """Whether a statement that names this is about a temporary view, and Spark's."""
    if len(parts) != 1:
        return is_global(parts, context)
    names = map(context.fold, temporary_views(context.session.spark))
    return context.fold(parts[0]) in names


def names_temporary(statement: Statement, context: SqlContext) -> bool:
    """Whether a temporary view is what a statement names next; nothing is read."""
    start = statement.mark()
    parts = statement.name_parts()
    statement.reset(start)
    return is_temporary(parts, context)


def names_global_database(statement: Statement, context: SqlContext) -> bool:
    """Whether ``IN global_temp`` is what a statement says next; nothing is read."""
    start = statement.mark()
    is_said = statement.accept("IN") or statement.accept("FROM")
    parts = statement.name_parts() if is_said else ()
    statement.reset(start)
    return is_global((*parts, ""), context)


def temporary_views(spark: SparkSession) -> list[str]:
    """The names of the session's own temporary views."""
    if is_connect(spark):
        return [table.name for table in spark.catalog.listTables() if table.isTemporary]
    # In one call: Spark's own listing is several for each.
    session: Any = spark._jsparkSession
    listed = session.sessionState().catalog().listLocalTempViews("*").mkString("\0")
    return [name.strip("`") for name in str(listed).split("\0")]


def refuse_global_database(name: str, context: SqlContext) -> None:
    """Refuse a database of the catalog whose tables no query could name; raises Invalid."""
    if name.lower() == context.global_database:
        raise Invalid(
            f"'{name}' is Spark's database of global temporary views, and not one of the catalog: "
            f"give the database another name, and name such a view as {name}.v"
        )
