"""``CREATE``, ``ALTER`` and ``DROP DATABASE``, and comments on databases."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.ddl.column_types import refuse_collation
from headwater.spark.sql.names import accept_database_word, database_name
from headwater.spark.sql.statement import Statement
from headwater.spark.sql.temporary_names import refuse_global_database
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["COMMENT_OPTION", "HANDLERS", "LOCATION_OPTION", "set_database_comment"]

COMMENT_OPTION = "comment"
LOCATION_OPTION = "location"
_WORDS = ("DATABASE", "SCHEMA", "NAMESPACE")


def _create(statement: Statement, context: SqlContext) -> None:
    """``CREATE DATABASE [IF NOT EXISTS] d [COMMENT …] [LOCATION …] [WITH DBPROPERTIES (…)]``."""
    statement.expect("CREATE")
    accept_database_word(statement)
    ignore = statement.accept("IF", "NOT", "EXISTS")
    name = database_name(statement, context)
    refuse_global_database(name, context)
    options: dict[str, str] = {}
    comment: str | None = None
    location: str | None = None
    seen: set[str] = set()
    while not statement.at_end:
        if statement.accept("COMMENT"):
            clause, comment = "COMMENT", statement.string()
        elif statement.accept("LOCATION"):
            clause, location = "LOCATION", statement.string()
        elif statement.accept("WITH", "DBPROPERTIES") or statement.accept("WITH", "PROPERTIES"):
            clause, options = "WITH DBPROPERTIES", statement.properties()
        elif statement.peek("DEFAULT", "COLLATION"):
            clause = "DEFAULT COLLATION"
            refuse_collation(statement)
        else:
            raise statement.unexpected("COMMENT, LOCATION or WITH DBPROPERTIES")
        if clause in seen:
            raise Invalid(f"{clause} stands twice")
        seen.add(clause)
    clauses = (("COMMENT", COMMENT_OPTION, comment), ("LOCATION", LOCATION_OPTION, location))
    for clause, key, value in clauses:
        if value is not None:
            if key in options:
                raise Invalid(f"{clause} and the property '{key}' are the same: write one of them")
            options[key] = value
    context.catalog.create_database(name, options, ignore_if_exists=ignore)


def _alter(statement: Statement, context: SqlContext) -> None:
    """``ALTER DATABASE d SET DBPROPERTIES (…)``, ``UNSET DBPROPERTIES (…)``, ``SET LOCATION …``."""
    statement.expect("ALTER")
    accept_database_word(statement)
    name = database_name(statement, context)
    updates: dict[str, str] = {}
    removals: list[str] = []
    if statement.peek("DEFAULT", "COLLATION"):
        refuse_collation(statement)
        statement.end()
        return
    if statement.accept("SET", "LOCATION"):
        raise Unsupported(
            f"the place of database {name} stays: its tables are there. Create another database "
            "with the LOCATION, and rename the tables into it"
        )
    if statement.accept("SET", "DBPROPERTIES") or statement.accept("SET", "PROPERTIES"):
        updates = statement.properties()
        if LOCATION_OPTION in updates:
            raise Unsupported(f"the place of database {name} stays: its tables are there")
    elif statement.accept("UNSET", "DBPROPERTIES") or statement.accept("UNSET", "PROPERTIES"):
        ignore = statement.accept("IF", "EXISTS")
        removals = statement.keys()
        present = context.catalog.get_database(name).options
        missing = [key for key in removals if key not in present]
        if missing and not ignore:
            raise Invalid(f"database {name} has no property '{missing[0]}'; write IF EXISTS")
    else:
        raise statement.unexpected("SET DBPROPERTIES, UNSET DBPROPERTIES or SET LOCATION")
    statement.end()
    context.catalog.alter_database(name, updates=updates, removals=removals)


def _drop(statement: Statement, context: SqlContext) -> None:
    """``DROP DATABASE [IF EXISTS] d [RESTRICT | CASCADE]``."""
    statement.expect("DROP")
    accept_database_word(statement)
    ignore = statement.accept("IF", "EXISTS")
    name = database_name(statement, context)
    cascade = statement.accept("CASCADE")
    if not cascade:
        statement.accept("RESTRICT")
    statement.end()
    context.catalog.drop_database(name, cascade=cascade, ignore_if_not_exists=ignore)
    if context.database == name:
        context.database = None


def set_database_comment(context: SqlContext, name: str, comment: str | None) -> None:
    """Set or remove a database's comment; NotFound."""
    if comment is None:
        context.catalog.alter_database(name, removals=[COMMENT_OPTION])
    else:
        context.catalog.alter_database(name, updates={COMMENT_OPTION: comment})


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    (verb, word): handler
    for verb, handler in (("CREATE", _create), ("ALTER", _alter), ("DROP", _drop))
    for word in _WORDS
}
