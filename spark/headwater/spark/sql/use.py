"""``USE``: choose the database that short names are in."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.names import accept_database_word, database_name
from headwater.spark.sql.statement import Statement
from headwater.spark.sql.temporary_names import refuse_global_database
from headwater.storage.errors import NotFound, Unsupported

__all__ = ["HANDLERS"]


def _use(statement: Statement, context: SqlContext) -> None:
    """``USE [DATABASE | SCHEMA | NAMESPACE] [warehouse.]name``, or ``USE warehouse``."""
    statement.expect("USE")
    is_database = accept_database_word(statement)
    name = database_name(statement, context)
    statement.end()
    refuse_global_database(name, context)
    try:
        context.database = context.catalog.get_database(name).name
    except NotFound:
        if is_database or name != context.catalog.warehouse:
            raise
        context.use_default()


def _catalog(statement: Statement, context: SqlContext) -> None:
    """``USE CATALOG warehouse`` and ``SET CATALOG warehouse``."""
    start = statement.mark()
    is_use = statement.accept("USE")
    if not is_use:
        statement.expect("SET")
    statement.expect("CATALOG")
    if is_use and statement.at_end:
        statement.reset(start)
        _use(statement, context)
        return
    name = statement.name()
    statement.end()
    if name != context.catalog.warehouse:
        raise Unsupported(
            f"catalog '{name}' is not the warehouse of this session, {context.catalog.warehouse}: "
            "connect to it to use it"
        )
    context.use_default()


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("USE",): _use,
    ("USE", "CATALOG"): _catalog,
    ("SET", "CATALOG"): _catalog,
}
