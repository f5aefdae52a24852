"""``DESCRIBE`` and ``SHOW CREATE TABLE``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.partitions import PartitionInfo
from headwater.catalog.model.views import ViewInfo
from headwater.catalog.table.table import Table
from headwater.spark.sql.answers import answer
from headwater.spark.sql.context import Answer, Handler, SqlContext
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
from headwater.spark.sql.query.view_columns import schema_mode
from headwater.spark.sql.show.described_json import described_json
from headwater.spark.sql.show.found import (
    Found,
    one_partition,
    partition_details,
    present_fields,
    table_or_view,
    table_statistics,
)
from headwater.spark.sql.show.texts import (
    create_table_text,
    create_view_text,
    shown_view_options,
    table_details,
)
from headwater.spark.sql.statement import Statement
from headwater.spark.sql.temporary_names import names_temporary
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.snapshot.table_statistics import ColumnStatistics
from headwater.storage.types.data_type import DataField, RowType

__all__ = ["HANDLERS"]

_COLUMNS: Mapping[str, type] = {"col_name": str, "data_type": str, "comment": str}
_INFO: Mapping[str, type] = {"info_name": str, "info_value": str}
_Row = tuple[str, str | None, str | None]


def _describe(statement: Statement, context: SqlContext) -> Answer:
    """``DESCRIBE [TABLE] [EXTENDED] t [PARTITION (a = 1)] [column] [AS JSON]``.

    Or ``DESCRIBE DATABASE [EXTENDED] d``.
    """
    if not statement.accept("DESC"):
        statement.expect("DESCRIBE")
    if accept_database_word(statement):
        return _describe_database(statement, context)
    statement.accept("TABLE")
    extended = statement.accept("EXTENDED") or statement.accept("FORMATTED")
    if names_temporary(statement, context):
        return context.session.spark.sql(statement.text)
    identifier = object_identifier(statement, context)
    named = read_partition(statement) if statement.peek("PARTITION", "(") else None
    column = None
    if not (statement.at_end or statement.peek("AS", "JSON")):
        column = statement.name_parts()
    as_json = statement.accept("AS", "JSON")
    statement.end()
    if as_json:
        _check_json(identifier, extended=extended, column=column)
    relation = table_or_view(context, identifier)
    partition: PartitionInfo | None = None
    if named is not None:
        if not isinstance(relation, Table):
            raise Invalid(f"{identifier} has no partitions: leave PARTITION out")
        partition = one_partition(context, relation, named)
    fields = present_fields(context, relation)
    if as_json:
        warehouse = context.catalog.warehouse
        text = described_json(warehouse, identifier, relation, fields, partition)
        return answer({"json_metadata": str}, [(text,)])
    if column is not None:
        return answer(_INFO, _column_info(relation, fields, column, extended=extended))
    return answer(_COLUMNS, _rows(relation, fields, partition, extended=extended))


def _check_json(identifier: Identifier, *, extended: bool, column: Sequence[str] | None) -> None:
    if not extended:
        raise Invalid(
            f"DESCRIBE {identifier} AS JSON: JSON is for what EXTENDED shows; write DESCRIBE "
            f"EXTENDED {identifier} AS JSON"
        )
    if column is not None:
        raise Unsupported(
            f"DESCRIBE {identifier} {'.'.join(column)} AS JSON: JSON is not for one column; leave "
            "the column out, and the JSON has all columns"
        )


def _rows(
    relation: Found,
    fields: Sequence[DataField],
    partition: PartitionInfo | None,
    *,
    extended: bool,
) -> list[_Row]:
    rows: list[_Row] = [_column_row(field) for field in fields]
    if isinstance(relation, Table):
        rows += _table_rows(relation, extended=extended and partition is None)
    if partition is not None and extended:
        rows += [("", "", ""), ("# Detailed Partition Information", "", "")]
        rows += [(label, value, "") for label, value in partition_details(partition)]
    if isinstance(relation, ViewInfo) and extended:
        rows += _view_rows(relation)
    return rows


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


def _column_info(
    relation: Found, fields: Sequence[DataField], path: Sequence[str], *, extended: bool
) -> list[tuple[str, str]]:
    names = column_path(fields, path)
    inner = fields
    for name in names[:-1]:
        parent = next(field for field in inner if field.name == name)
        if not isinstance(parent.type, RowType):
            raise Unsupported(f"DESCRIBE … {'.'.join(path)}: name a column, or a struct's field")
        inner = parent.type.fields
    field = next(field for field in inner if field.name == names[-1])
    rows = [
        ("col_name", ".".join(names)),
        ("data_type", short_type_text(replace(field.type, nullable=True))),
        ("comment", _shown(field.description)),
    ]
    if not extended:
        return rows
    statistics = table_statistics(relation) if isinstance(relation, Table) else None
    columns = {} if statistics is None or len(names) > 1 else statistics.columns
    column = columns.get(field.name, ColumnStatistics(field.id))
    return [
        *rows,
        ("min", _shown(column.minimum)),
        ("max", _shown(column.maximum)),
        ("num_nulls", _shown(column.null_count)),
        ("distinct_count", _shown(column.distinct_count)),
        ("avg_col_len", _shown(column.average_length)),
        ("max_col_len", _shown(column.maximum_length)),
        ("histogram", _shown(None)),
    ]


def _shown(value: str | int | None) -> str:
    return "NULL" if value is None else str(value)


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


def _show_create(statement: Statement, context: SqlContext) -> pa.Table | DataFrame:
    """``SHOW CREATE TABLE name``, of a table or a view."""
    statement.expect("SHOW", "CREATE", "TABLE")
    if names_temporary(statement, context):
        return context.session.spark.sql(statement.text)
    identifier = object_identifier(statement, context)
    if statement.peek("AS", "SERDE"):
        raise Unsupported(
            f"SHOW CREATE TABLE {identifier} AS SERDE: {identifier} is not a table of Hive; leave "
            "AS SERDE out"
        )
    statement.end()
    relation = table_or_view(context, identifier)
    if isinstance(relation, Table):
        text = create_table_text(relation)
    elif isinstance(relation, ViewInfo):
        text = create_view_text(relation, DIALECT)
    else:
        raise Unsupported(f"{identifier} is a system table, which no statement creates")
    return answer({"createtab_stmt": str}, [(text,)])


HANDLERS: Mapping[tuple[str, ...], Handler] = {
    ("DESCRIBE",): _describe,
    ("DESC",): _describe,
    ("SHOW", "CREATE", "TABLE"): _show_create,
}
