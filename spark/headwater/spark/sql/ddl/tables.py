"""Statements about tables as a whole: drop, restore, empty, describe with a comment, analyse."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.catalog.model.dropped_tables import DroppedTableInfo
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.page import all_pages
from headwater.spark.source.format_table import is_format_table
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.ddl.columns import read_partition
from headwater.spark.sql.ddl.databases import set_database_comment
from headwater.spark.sql.ddl.partitions import partition_values, repair_partitions
from headwater.spark.sql.names import (
    accept_database_word,
    column_name,
    database_name,
    object_identifier,
)
from headwater.spark.sql.session_options import named_table, with_session_options
from headwater.spark.sql.statement import Statement
from headwater.spark.write.format_table import truncate_format_table
from headwater.storage.errors import Invalid, NotFound, ResourceType, Unsupported
from headwater.storage.schema.change import UpdateColumnComment, UpdateComment

__all__ = ["HANDLERS", "dropped_tables"]

# What a repair does: it adds partitions, and drops others.
_REPAIRS: Mapping[str, tuple[bool, bool]] = {
    "ADD": (True, False),
    "DROP": (False, True),
    "SYNC": (True, True),
}


def _drop(statement: Statement, context: SqlContext) -> None:
    """``DROP TABLE [IF EXISTS] t [PURGE]``."""
    statement.expect("DROP", "TABLE")
    ignore = statement.accept("IF", "EXISTS")
    name = object_identifier(statement, context)
    purge = statement.accept("PURGE")
    statement.end()
    _refuse_branch(name, "DROP TABLE", "CALL sys.delete_branch")
    context.note_change(str(name))
    tables = context.catalog.catalog.tables
    try:
        info = tables.get(name)
        tables.drop(info.identifier)
    except NotFound as error:
        context.refuse_view(name, error)
        if ignore and error.resource_type in (ResourceType.TABLE, ResourceType.DATABASE):
            return
        raise
    if purge:
        try:
            context.catalog.catalog.dropped_tables.purge(info.id)
        except NotFound as error:
            # Where dropped tables are not kept there is nothing to purge.
            if error.resource_type is not ResourceType.TABLE:
                raise


def _undrop(statement: Statement, context: SqlContext) -> None:
    """``UNDROP TABLE t [AS other]`` or ``UNDROP TABLE WITH ID 'id' [AS other]``."""
    statement.expect("UNDROP", "TABLE")
    if statement.accept("WITH", "ID"):
        table_id = statement.string()
    else:
        name = object_identifier(statement, context)
        restorable = [
            each for each in dropped_tables(context, name.database) if each.identifier == name
        ]
        if not restorable:
            raise NotFound(
                f"no dropped table {name} can be restored; SHOW TABLES DROPPED has those that can",
                resource_type=ResourceType.TABLE,
                resource_name=str(name),
            )
        table_id = max(restorable, key=lambda each: each.dropped_at).id
    destination = object_identifier(statement, context) if statement.accept("AS") else None
    statement.end()
    context.catalog.catalog.dropped_tables.restore(table_id, destination)


def dropped_tables(context: SqlContext, database: str | None) -> list[DroppedTableInfo]:
    """The dropped tables that can be restored, of one database or of all."""
    dropped = context.catalog.catalog.dropped_tables
    return all_pages(lambda token: dropped.list(database=database, page_token=token))


def _truncate(statement: Statement, context: SqlContext) -> None:
    """``TRUNCATE TABLE t [PARTITION (a = 1)]``."""
    statement.expect("TRUNCATE", "TABLE")
    table = context.table(str(object_identifier(statement, context)))
    table = with_session_options(context, table)
    partition: dict[str, str | None] | None = None
    if statement.peek("PARTITION"):
        partition = read_partition(statement)
    statement.end()
    values = None if partition is None else partition_values(context, table, partition)
    if is_format_table(table):
        truncate_format_table(table, values or {})
    elif values is None:
        table.truncate()
    else:
        table.drop_partitions(values)


def _comment(statement: Statement, context: SqlContext) -> None:
    """``COMMENT ON {DATABASE | TABLE | COLUMN} name IS {'text' | NULL}``."""
    statement.expect("COMMENT", "ON")
    if accept_database_word(statement):
        database = database_name(statement, context)
        set_database_comment(context, database, _comment_text(statement))
    elif statement.accept("TABLE"):
        table = named_table(context, str(object_identifier(statement, context)))
        table.alter(UpdateComment(_comment_text(statement)))
    elif statement.accept("COLUMN"):
        *owner, column = statement.name_parts()
        if not owner:
            raise Invalid(f"COMMENT ON COLUMN {column}: write table.column")
        table = named_table(context, context.full_name(owner))
        path = (column_name(table.schema.fields, column),)
        table.alter(UpdateColumnComment(path, _comment_text(statement)))
    else:
        raise statement.unexpected("DATABASE, TABLE or COLUMN")


def _comment_text(statement: Statement) -> str | None:
    statement.expect("IS")
    text = None if statement.accept("NULL") else statement.string()
    statement.end()
    return text


def _repair(statement: Statement, context: SqlContext) -> None:
    """``[MSCK] REPAIR TABLE t [{ADD | DROP | SYNC} PARTITIONS]``."""
    statement.accept("MSCK")
    statement.expect("REPAIR", "TABLE")
    table = named_table(context, str(object_identifier(statement, context)))
    adds, drops = _REPAIRS["ADD"]
    if not statement.at_end:
        word = next((each for each in _REPAIRS if statement.accept(each)), None)
        if word is None:
            raise statement.unexpected("ADD, DROP or SYNC PARTITIONS")
        adds, drops = _REPAIRS[word]
        statement.expect("PARTITIONS")
    statement.end()
    repair_partitions(table, adds=adds, drops=drops)


def _refuse_branch(name: Identifier, verb: str, instead: str) -> None:
    if "$" in name.name:
        raise Unsupported(f"{verb} {name}: name the table; for a branch write {instead}")


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("DROP", "TABLE"): _drop,
    ("UNDROP", "TABLE"): _undrop,
    ("TRUNCATE", "TABLE"): _truncate,
    ("COMMENT", "ON"): _comment,
    ("MSCK", "REPAIR", "TABLE"): _repair,
    ("REPAIR", "TABLE"): _repair,
}
