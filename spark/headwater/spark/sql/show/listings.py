"""``SHOW``: what is in the catalog, in a database, and in a table."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.catalog.model.identifier import SYSTEM_DATABASE, Identifier
from headwater.catalog.model.page import all_pages
from headwater.catalog.table.table import Table
from headwater.spark.sql.answers import answer
from headwater.spark.sql.context import Answer, Handler, SqlContext
from headwater.spark.sql.ddl.columns import read_partition
from headwater.spark.sql.ddl.partitions import matching_partitions
from headwater.spark.sql.ddl.tables import dropped_tables
from headwater.spark.sql.names import database_name, matching, object_identifier
from headwater.spark.sql.query.paimon_functions import PAIMON_FUNCTIONS
from headwater.spark.sql.session_options import named_table
from headwater.spark.sql.show.found import (
    one_partition,
    partition_details,
    present_fields,
    table_or_view,
)
from headwater.spark.sql.show.partition_names import shown_partitions
from headwater.spark.sql.show.texts import shown_options, shown_view_options, table_information
from headwater.spark.sql.statement import Statement
from headwater.spark.sql.temporary_names import (
    is_temporary,
    names_global_database,
    names_temporary,
)
from headwater.storage.errors import Invalid, Unsupported

__all__ = ["HANDLERS"]

_TABLES: Mapping[str, type] = {"namespace": str, "tableName": str, "isTemporary": bool}


def _databases(statement: Statement, context: SqlContext) -> pa.Table:
    """``SHOW {DATABASES | SCHEMAS | NAMESPACES} [{FROM | IN} warehouse] [LIKE 'pattern']``."""
    statement.expect("SHOW")
    statement.name()
    if statement.accept("IN") or statement.accept("FROM"):
        warehouse = statement.name()
        if warehouse != context.catalog.warehouse:
            raise Invalid(
                f"SHOW DATABASES IN {warehouse}: databases are in warehouse "
                f"{context.catalog.warehouse} alone; leave IN {warehouse} out"
            )
    pattern = _pattern(statement)
    names = matching(context.catalog.list_databases(), pattern)
    return answer({"namespace": str}, [(name,) for name in names])


def _tables(statement: Statement, context: SqlContext) -> pa.Table | DataFrame:
    """``SHOW TABLES [DROPPED] [{FROM | IN} d] [LIKE 'pattern']``."""
    statement.expect("SHOW", "TABLES")
    if statement.accept("DROPPED"):
        return _dropped(statement, context)
    if names_global_database(statement, context):
        return context.session.spark.sql(statement.text)
    database = _in_database(statement, context)
    pattern = _pattern(statement)
    is_system = database == SYSTEM_DATABASE
    catalog = context.catalog
    tables = catalog.inspect.names() if is_system else catalog.list_tables(database)
    names = matching(tables, pattern)
    return answer(_TABLES, [(database, name, False) for name in names])


def _dropped(statement: Statement, context: SqlContext) -> pa.Table:
    database = None
    if statement.accept("IN") or statement.accept("FROM"):
        database = database_name(statement, context)
    statement.end()
    columns: Mapping[str, type] = {
        "namespace": str, "tableName": str, "tableId": str, "droppedAt": int, "keptUntil": int,
    }  # fmt: skip
    return answer(
        columns,
        [
            (table.identifier.database, table.identifier.name, table.id, table.dropped_at,
             table.kept_until)
            for table in dropped_tables(context, database)
        ],
    )  # fmt: skip


def _table_extended(statement: Statement, context: SqlContext) -> pa.Table | DataFrame:
    """``SHOW TABLE EXTENDED [{FROM | IN} d] LIKE 'pattern' [PARTITION (a = 1)]``."""
    statement.expect("SHOW", "TABLE", "EXTENDED")
    if names_global_database(statement, context):
        return context.session.spark.sql(statement.text)
    database = _in_database(statement, context)
    statement.expect("LIKE")
    pattern = statement.string()
    partition = read_partition(statement) if statement.peek("PARTITION") else None
    statement.end()
    columns = {**_TABLES, "information": str}
    if partition is not None:
        return answer(columns, [_partition_row(context, database, pattern, partition)])
    names = matching(context.catalog.list_tables(database), pattern)
    tables = [context.catalog.table(f"{database}.{name}") for name in names]
    return answer(
        columns,
        [(database, table.identifier.name, False, table_information(table)) for table in tables],
    )


def _partition_row(
    context: SqlContext, database: str, name: str, partition: Mapping[str, str | None]
) -> tuple[str, str, bool, str]:
    table = context.table(f"{database}.{name}")
    details = partition_details(one_partition(context, table, partition))
    text = "".join(f"{label}: {value}\n" for label, value in details)
    return database, table.identifier.name, False, text


def _views(statement: Statement, context: SqlContext) -> pa.Table | DataFrame:
    """``SHOW VIEWS [{FROM | IN} d] [LIKE 'pattern']``."""
    statement.expect("SHOW", "VIEWS")
    if names_global_database(statement, context):
        return context.session.spark.sql(statement.text)
    database = _in_database(statement, context)
    pattern = _pattern(statement)
    views = context.catalog.catalog.views
    names = all_pages(lambda token: views.list(database, page_token=token))
    columns: Mapping[str, type] = {"namespace": str, "viewName": str, "isTemporary": bool}
    return answer(columns, [(database, name, False) for name in matching(names, pattern)])


def _catalogs(statement: Statement, context: SqlContext) -> pa.Table:
    """``SHOW CATALOGS [LIKE 'pattern']``: the warehouse."""
    statement.expect("SHOW", "CATALOGS")
    names = matching([context.catalog.warehouse], _pattern(statement))
    return answer({"catalog": str}, [(name,) for name in names])


def _functions(statement: Statement, context: SqlContext) -> pa.Table:
    """``SHOW [USER | SYSTEM | ALL] FUNCTIONS [{FROM | IN} d] [[LIKE] {'pattern' | name}]``.

    Those of users are the catalog's, named with their databases.
    """
    statement.expect("SHOW")
    kind = next((word for word in ("USER", "SYSTEM", "ALL") if statement.accept(word)), "ALL")
    statement.expect("FUNCTIONS")
    database = context.database
    if kind == "USER" or statement.peek("IN") or statement.peek("FROM"):
        database = _in_database(statement, context)
    pattern = None
    is_like = statement.accept("LIKE")
    if statement.peek_string() or (statement.at_end and not is_like):
        pattern = _pattern(statement)
    else:
        *owner, pattern = context.whole_name(statement.name_parts())
        statement.end()
        database = context.stored_names.database(owner[-1]) if owner else database
    names: list[str] = []
    if kind == "SYSTEM":
        pass
    elif database == SYSTEM_DATABASE:
        names = [f"{database}.{name}" for name in matching(PAIMON_FUNCTIONS, pattern)]
    elif database is not None:
        functions = context.catalog.catalog.functions
        own = all_pages(lambda token: functions.list(database, page_token=token))
        names = [f"{database}.{name}" for name in matching(own, pattern)]
    if kind != "USER":
        listed = context.session.spark.sql(f"SHOW {kind} FUNCTIONS").collect()
        # Those of the catalog that were called have names there, too.
        of_spark = [name for (name,) in listed if "." not in name]
        names = sorted([*names, *matching(of_spark, pattern)])
    return answer({"function": str}, [(name,) for name in names])


def _partitions(statement: Statement, context: SqlContext) -> pa.Table:
    """``SHOW PARTITIONS t [PARTITION (a = 1)]``."""
    statement.expect("SHOW", "PARTITIONS")
    table = _table(statement, context)
    fields = table.schema.partition_fields
    if not fields:
        raise Invalid(f"table {table.name} has no partitions")
    partition = {} if statement.at_end else read_partition(statement, fields)
    statement.end()
    (found,) = matching_partitions(context, table, [partition])
    return answer({"partition": str}, [(name,) for name in shown_partitions(context, table, found)])


def _properties(statement: Statement, context: SqlContext) -> pa.Table | DataFrame:
    """``SHOW TBLPROPERTIES t [('key')]``, of a table or a view."""
    statement.expect("SHOW", "TBLPROPERTIES")
    if names_temporary(statement, context):
        return context.session.spark.sql(statement.text)
    name = object_identifier(statement, context)
    relation = table_or_view(context, name)
    if isinstance(relation, tuple):
        raise Unsupported(f"{name} is a system table, which has no properties")
    if isinstance(relation, Table):
        kind, options = "Table", shown_options(relation)
    else:
        kind, options = "View", shown_view_options(relation)
    rows = sorted(options.items())
    if not statement.at_end:
        (key,) = statement.keys() if statement.peek("(") else [statement.string()]
        missing = f"{kind} {name} does not have property: {key}"
        rows = [(key, options.get(key, missing))]
    statement.end()
    return answer({"key": str, "value": str}, rows)


def _columns(statement: Statement, context: SqlContext) -> Answer:
    """``SHOW COLUMNS {FROM | IN} t [{FROM | IN} d]``, of a table or a view."""
    statement.expect("SHOW", "COLUMNS")
    if not (statement.accept("IN") or statement.accept("FROM")):
        raise statement.unexpected("IN or FROM")
    parts = statement.name_parts()
    if statement.accept("IN") or statement.accept("FROM"):
        database = database_name(statement, context)
        if len(parts) > 1 and parts[-2] != database:
            raise Invalid(f"SHOW COLUMNS names two databases, {parts[-2]} and {database}")
        parts = (database, parts[-1])
    statement.end()
    if is_temporary(parts, context):
        return context.session.spark.sql(statement.text)
    relation = table_or_view(context, Identifier.parse(context.full_name(parts)))
    return answer({"col_name": str}, [(field.name,) for field in present_fields(context, relation)])


def _tags(statement: Statement, context: SqlContext) -> pa.Table:
    """``SHOW TAGS t``."""
    statement.expect("SHOW", "TAGS")
    table = _table(statement, context)
    statement.end()
    tags = context.catalog.catalog.tags
    names = all_pages(lambda token: tags.list(table.identifier, page_token=token))
    return answer({"tag": str}, [(name,) for name in names])


def _branches(statement: Statement, context: SqlContext) -> pa.Table:
    """``SHOW BRANCHES t``."""
    statement.expect("SHOW", "BRANCHES")
    table = _table(statement, context)
    statement.end()
    return answer({"branch": str}, [(name,) for name in table.branches()])


def _current(statement: Statement, context: SqlContext) -> pa.Table:
    """``SHOW CURRENT {NAMESPACE | DATABASE | SCHEMA}``."""
    statement.expect("SHOW", "CURRENT")
    if not any(statement.accept(word) for word in ("NAMESPACE", "DATABASE", "SCHEMA")):
        raise statement.unexpected("NAMESPACE")
    statement.end()
    rows = [(context.catalog.warehouse, context.database)]
    return answer({"catalog": str, "namespace": str}, rows)


def _table(statement: Statement, context: SqlContext) -> Table:
    return named_table(context, str(object_identifier(statement, context)))


def _in_database(statement: Statement, context: SqlContext) -> str:
    if statement.accept("IN") or statement.accept("FROM"):
        return database_name(statement, context)
    if context.database is None:
        raise Invalid("no database is in use: write IN database, or USE a database first")
    return context.database


def _pattern(statement: Statement) -> str | None:
    if statement.at_end:
        return None
    statement.accept("LIKE")
    pattern = statement.string()
    statement.end()
    return pattern


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("SHOW", "DATABASES"): _databases,
    ("SHOW", "SCHEMAS"): _databases,
    ("SHOW", "NAMESPACES"): _databases,
    ("SHOW", "TABLES"): _tables,
    ("SHOW", "TABLE", "EXTENDED"): _table_extended,
    ("SHOW", "VIEWS"): _views,
    ("SHOW", "USER", "FUNCTIONS"): _functions,
    ("SHOW", "SYSTEM", "FUNCTIONS"): _functions,
    ("SHOW", "ALL", "FUNCTIONS"): _functions,
    ("SHOW", "FUNCTIONS"): _functions,
    ("SHOW", "CATALOGS"): _catalogs,
    ("SHOW", "PARTITIONS"): _partitions,
    ("SHOW", "TBLPROPERTIES"): _properties,
    ("SHOW", "COLUMNS"): _columns,
    ("SHOW", "TAGS"): _tags,
    ("SHOW", "BRANCHES"): _branches,
    ("SHOW", "CURRENT"): _current,
}
