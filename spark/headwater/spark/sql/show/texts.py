"""Texts that tell of a table: its properties, its details, the statement that creates it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewInfo
from headwater.catalog.table.table import Table
from headwater.spark.source.format_table import FILE_FORMATS
from headwater.spark.sql.ddl.column_types import short_type_text
from headwater.spark.sql.ddl.columns import column_text
from headwater.spark.sql.ddl.create_table import provider
from headwater.spark.sql.ddl.options import COMMENT, PATH
from headwater.spark.sql.names import quoted_identifier, string_literal
from headwater.spark.sql.query.view_columns import SCHEMA_MODE, SchemaMode, schema_mode
from headwater.storage.errors import Unsupported
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import DataField

__all__ = [
    "create_table_text",
    "create_view_text",
    "shown_options",
    "shown_view_options",
    "table_details",
    "table_information",
]

_KEYS = "primary-key"
_PARTITION = "partition"
# What the clauses of a statement say of tables that have them.
_OF_FORMATS = ("type", "file.format")


def shown_options(table: Table) -> dict[str, str]:
    """A table's properties: its options, its keys, its comment."""
    schema = table.schema
    options = {key: value for key, value in schema.options.items() if key != PATH}
    if schema.primary_keys:
        options[_KEYS] = ",".join(schema.primary_keys)
    if schema.partition_keys:
        options[_PARTITION] = ",".join(schema.partition_keys)
    if schema.comment is not None:
        options[COMMENT] = schema.comment
    return options


def table_details(table: Table) -> Iterator[tuple[str, str]]:
    """The name and the value of each thing that DESCRIBE EXTENDED tells besides columns."""
    info = table.info
    yield "Name", table.name
    yield "Type", "EXTERNAL" if info.is_external else "MANAGED"
    if table.schema.comment is not None:
        yield "Comment", table.schema.comment
    yield "Location", info.path
    yield "Provider", provider(table.schema.options)
    if info.owner is not None:
        yield "Owner", info.owner
    options = sorted(shown_options(table).items())
    yield "Table Properties", f"[{','.join(f'{key}={value}' for key, value in options)}]"


def table_information(table: Table) -> str:
    """The text that SHOW TABLE EXTENDED has of a table."""
    lines = [
        f"Catalog: {table.catalog.warehouse}",
        f"Namespace: {table.identifier.database}",
        f"Table: {table.identifier.name}",
        *(f"{name}: {value}" for name, value in table_details(table) if name != "Name"),
    ]
    if table.schema.partition_keys:
        keys = ", ".join(map(quoted_identifier, table.schema.partition_keys))
        lines.append(f"Partition Columns: [{keys}]")
    lines.append("Schema: root")
    lines += [
        f" |-- {field.name}: {short_type_text(field.type)} "
        f"(nullable = {str(field.type.nullable).lower()})"
        for field in table.schema.fields
    ]
    return "\n".join(lines) + "\n"


def create_table_text(table: Table) -> str:
    """A statement that creates a table like one, in its own place if that is outside.

    Raises:
        Unsupported: It is of a type that no statement creates.
    """
    schema = table.schema
    using = provider(schema.options)
    if schema.options.get("type", "table") not in ("table", "format-table"):
        raise Unsupported(f"table {table.name}: no statement creates a {schema.options['type']}")
    options = _created_options(schema, using)
    clauses = [f"CREATE TABLE {_name(table.identifier)} (", _columns_text(schema.fields)]
    clauses.append(f"USING {using}")
    if schema.partition_keys:
        clauses.append(
            f"PARTITIONED BY ({', '.join(map(quoted_identifier, schema.partition_keys))})"
        )
    if schema.comment is not None:
        clauses.append(f"COMMENT {string_literal(schema.comment)}")
    if table.info.is_external:
        clauses.append(f"LOCATION {string_literal(table.info.path)}")
    if options:
        pairs = (
            f"  {string_literal(key)} = {string_literal(value)}"
            for key, value in sorted(options.items())
        )
        clauses.append("TBLPROPERTIES (\n" + ",\n".join(pairs) + ")")
    return "\n".join(clauses)


def _created_options(schema: TableSchema, using: str) -> dict[str, str]:
    options = {key: value for key, value in schema.options.items() if key != PATH}
    if using in FILE_FORMATS:
        for key in _OF_FORMATS:
            options.pop(key, None)
    if schema.primary_keys:
        options[_KEYS] = ",".join(schema.primary_keys)
    return options


def _columns_text(fields: Sequence[DataField]) -> str:
    return ",\n".join(f"  {column_text(field)}" for field in fields) + ")"


def shown_view_options(view: ViewInfo) -> dict[str, str]:
    """A view's properties: its options without that of WITH SCHEMA."""
    return {key: value for key, value in view.schema.options.items() if key != SCHEMA_MODE}


def create_view_text(view: ViewInfo, dialect: str) -> str:
    """A statement that creates a view like one."""
    schema = view.schema
    columns = []
    for column in schema.columns:
        text = quoted_identifier(column.name)
        if column.description is not None:
            text += f" COMMENT {string_literal(column.description)}"
        columns.append(text)
    mode = schema_mode(view)
    names = "" if mode is SchemaMode.EVOLUTION else f" ({', '.join(columns)})"
    clauses = [f"CREATE VIEW {_name(view.identifier)}{names}"]
    if schema.comment is not None:
        clauses.append(f"COMMENT {string_literal(schema.comment)}")
    options = shown_view_options(view)
    if options:
        pairs = (
            f"{string_literal(key)} = {string_literal(value)}"
            for key, value in sorted(options.items())
        )
        clauses.append(f"TBLPROPERTIES ({', '.join(pairs)})")
    clauses.append(f"WITH SCHEMA {mode}")
    clauses.append(f"AS {schema.query_for(dialect)}")
    return "\n".join(clauses)


def _name(identifier: Identifier) -> str:
    return f"{quoted_identifier(identifier.database)}.{quoted_identifier(identifier.name)}"
