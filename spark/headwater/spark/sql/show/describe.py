"""``DESCRIBE`` and ``SHOW CREATE TABLE``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from headwater.catalog.model.views import ViewInfo
from headwater.catalog.table.table import Table
from headwater.spark.sql.answers import answer
from headwater.spark.sql.context import Handler, SqlContext
from headwater.spark.sql.ddl.column_types import short_type_text
from headwater.spark.sql.ddl.columns import read_partition
from headwater.spark.sql.ddl.databases import COMMENT_OPTION
from headwater.spark.sql.ddl.views import DIALECT
from headwater.spark.sql.names import (
    accept_database_word,
    column_path,
    database_name,
    object_identifier,
)
from headwater.spark.sql.query.frame import query_frame
from headwater.spark.sql.query.view_columns import schema_mode
from headwater.spark.sql.show.found import partition_details, present_fields, table_or_view
from headwater.spark.sql.show.texts import (
    create_table_text,
    create_view_text,
    shown_view_options,
    table_details,
)
from headwater.spark.sql.statement import Statement
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.data_type import DataField, RowType

__all__ = ["HANDLERS"]

_COLUMNS: Mapping[str, type] = {"col_name": str, "data_type": str, "comment": str}
_INFO: Mapping[str, type] = {"info_name": str, "info_value": str}
_QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "(")
_Row = tuple[str, str | None, str | None]


def _describe(statement: Statement, context: SqlContext) -> pa.Table:
    """``DESCRIBE [TABLE] [EXTENDED] t [PARTITION (a = 1)] [column]``, ``DESCRIBE DATABASE d``."""
    if not statement.accept("DESC"):
        statement.expect("DESCRIBE")
    if accept_database_word(statement):
        return _describe_database(statement, context)
    if statement.peek("FUNCTION"):
        raise Unsupported("DESCRIBE FUNCTION is not supported: SHOW USER FUNCTIONS lists them")
    if statement.accept("QUERY") or any(statement.peek(word) for word in _QUERIES):
        return _describe_query(statement, context)
    statement.accept("TABLE")
    extended = statement.accept("EXTENDED") or statement.accept("FORMATTED")
    identifier = object_identifier(statement, context)
    partition = read_partition(statement) if statement.peek("PARTITION", "(") else None
    column = statement.name_parts() if not statement.at_end else None
    statement.end()
    described = table_or_view(context, identifier)
    details: list[tuple[str, str]] = []
    if partition is not None:
        if not isinstance(described, Table):
            raise Invalid(f"{identifier} has no partitions: leave PARTITION out")
        details = partition_details(context, described, partition)
    fields = present_fields(context, described)
    if column is not None:
        return answer(_INFO, _column_info(fields, column))
    rows: list[_Row] = [_column_row(field) for field in fields]
    if isinstance(described, Table):
        rows += _table_rows(described, extended=extended and partition is None)
    if details and extended:
        rows += [("", "", ""), ("# Detailed Partition Information", "", "")]
        rows += [(label, value, "") for label, value in details]
    if isinstance(described, ViewInfo) and extended:
        rows += _view_rows(described)
    return answer(_COLUMNS, rows)


def _describe_query(statement: Statement, context: SqlContext) -> pa.Table:
    """``DESCRIBE [QUERY] query``: the columns of its result, in Spark's types."""
    schema = query_frame(statement.rest(), context).schema
    rows: list[_Row] = [
        (field.name, field.dataType.simpleString(), field.metadata.get("comment"))
        for field in schema.fields
    ]
    return answer(_COLUMNS, rows)


def _column_row(field: DataField) -> _Row:
    return field.name, short_type_text(field.type), field.description


def _table_rows(table: Table, *, extended: bool) -> list[_Row]:
    schema = table.schema
    rows: list[_Row] = []
    if schema.partition_keys:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [_column_row(field) for field in schema.partition_fields]
    if extended:
        defaults = [field for field in schema.fields if field.default_value is not None]
        if defaults:
            rows += [("", "", ""), ("# Column Default Values", "", "")]
            rows += [(f.name, short_type_text(f.type), f.default_value) for f in defaults]
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [(name, value, "") for name, value in table_details(table)]
    return rows


def _view_rows(view: ViewInfo) -> list[_Row]:
    schema = view.schema
    rows: list[_Row] = [("", "", ""), ("# Detailed View Information", "", "")]
    rows.append(("Name", str(view.identifier), ""))
    if schema.comment is not None:
        rows.append(("Comment", schema.comment, ""))
    rows.append(("View Text", schema.query_for(DIALECT), ""))
    rows.append(("View Schema Mode", str(schema_mode(view)), ""))
    pairs = ",".join(f"{key}={value}" for key, value in sorted(shown_view_options(view).items()))
    rows.append(("View Properties", f"[{pairs}]", ""))
    return rows


def _column_info(fields: Sequence[DataField], path: Sequence[str]) -> list[tuple[str, str]]:
    names = column_path(fields, path)
    inner = tuple(fields)
    for name in names[:-1]:
        parent = next(field for field in inner if field.name == name)
        if not isinstance(parent.type, RowType):
            raise Unsupported(f"DESCRIBE … {'.'.join(path)}: name a column, or a struct's field")
        inner = parent.type.fields
    field = next(each for each in inner if each.name == names[-1])
    return [
        ("col_name", ".".join(names)),
        ("data_type", short_type_text(replace(field.type, nullable=True))),
        ("comment", "NULL" if field.description is None else field.description),
    ]


def _describe_database(statement: Statement, context: SqlContext) -> pa.Table:
    extended = statement.accept("EXTENDED")
    name = database_name(statement, context)
    statement.end()
    info = context.catalog.get_database(name)
    rows: list[tuple[str, str]] = [
        ("Catalog Name", context.catalog.warehouse),
        ("Namespace Name", info.name),
    ]
    comment = info.options.get(COMMENT_OPTION)
    if comment is not None:
        rows.append(("Comment", comment))
    rows.append(("Location", info.location))
    if info.owner is not None:
        rows.append(("Owner", info.owner))
    if extended:
        pairs = sorted((k, v) for k, v in info.options.items() if k != COMMENT_OPTION)
        text = ", ".join(f"({key},{value})" for key, value in pairs)
        rows.append(("Properties", f"({text})" if pairs else ""))
    return answer(_INFO, rows)


def _show_create(statement: Statement, context: SqlContext) -> pa.Table:
    """``SHOW CREATE TABLE name``, of a table or a view."""
    statement.expect("SHOW", "CREATE", "TABLE")
    identifier = object_identifier(statement, context)
    statement.end()
    described = table_or_view(context, identifier)
    if isinstance(described, Table):
        text = create_table_text(described)
    elif isinstance(described, ViewInfo):
        text = create_view_text(described, DIALECT)
    else:
        raise Unsupported(f"{identifier} is a system table, which no statement creates")
    return answer({"createtab_stmt": str}, [(text,)])


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("DESCRIBE",): _describe,
    ("DESC",): _describe,
    ("SHOW", "CREATE", "TABLE"): _show_create,
}
