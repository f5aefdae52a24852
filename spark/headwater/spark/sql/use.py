"""``USE``: choose the database that short names are in."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.statement import Statement

__all__ = ["HANDLERS"]


def _use(statement: Statement, context: SqlContext) -> None:
    """``USE [DATABASE | SCHEMA | NAMESPACE] name``."""
    statement.expect("USE")
    for word in ("DATABASE", "SCHEMA", "NAMESPACE"):
        if statement.accept(word):
            break
    database = statement.name()
    statement.end()
    context.database = context.catalog.get_database(database).name


HANDLERS: Mapping[tuple[str, ...], Handler] = {("USE",): _use}
