"""Functions: the catalog keeps them for the engines that call them."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.names import object_identifier
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import NotFound, ResourceType, Unsupported

__all__ = ["HANDLERS"]


def _create(statement: Statement, context: SqlContext) -> None:
    raise Unsupported(
        "CREATE FUNCTION is not supported: queries do not call the catalog's functions. Keep one "
        "for other engines with CALL sys.create_function, or register one with the Spark session"
    )


def _drop(statement: Statement, context: SqlContext) -> None:
    """``DROP FUNCTION [IF EXISTS] f``."""
    statement.expect("DROP", "FUNCTION")
    ignore = statement.accept("IF", "EXISTS")
    name = object_identifier(statement, context)
    statement.end()
    try:
        context.catalog.catalog.functions.drop(name)
    except NotFound as error:
        kinds = (ResourceType.FUNCTION, ResourceType.DATABASE)
        if not ignore or error.resource_type not in kinds:
            raise


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("CREATE", "FUNCTION"): _create,
    ("CREATE", "OR", "REPLACE", "FUNCTION"): _create,
    ("CREATE", "TEMPORARY", "FUNCTION"): _create,
    ("CREATE", "OR", "REPLACE", "TEMPORARY", "FUNCTION"): _create,
    ("DROP", "FUNCTION"): _drop,
}
