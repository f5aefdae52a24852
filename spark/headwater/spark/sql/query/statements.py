"""Statements that are queries."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.statement import Statement

__all__ = ["HANDLERS"]


def _query(statement: Statement, context: SqlContext) -> DataFrame:
    return query_frame(statement.text, context)


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    (word,): _query for word in ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
}
