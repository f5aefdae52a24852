"""Tables without Paimon's files: what their schemas must be like.

A format table is a directory of data files of one format, an object table one of any files at all,
Lance and Iceberg tables are what those formats make them. The catalog keeps their schemas and
places. Source: ``CatalogUtils.validateCreateTable``, ``FormatTable.java``, ``ObjectTable.java``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.options import is_true
from headwater.storage.options.format_options import FormatOptions
from headwater.storage.schema.table_schema import Schema
from headwater.storage.schema.table_type import TableType
from headwater.storage.types.data_type import DataField, parse_type

__all__ = ["OBJECT_FIELDS", "check_format_options", "foreign_schema"]

OBJECT_FIELDS = tuple(
    DataField(number, name, parse_type(written), description)
    for number, (name, written, description) in enumerate(
        (
            ("path", "STRING NOT NULL", "Relative path of object"),
            ("name", "STRING NOT NULL", "Name of object"),
            ("length", "BIGINT NOT NULL", "Bytes length of object"),
            ("mtime", "BIGINT NOT NULL", "Modification time of object"),
            ("atime", "BIGINT NOT NULL", "Access time of object"),
            ("owner", "STRING", "Owner of object"),
        )
    )
)
"""The columns of every object table: readers make their rows of what a listing says."""

_FORMATS = ("orc", "parquet", "csv", "text", "json", "mosaic")


def foreign_schema(schema: Schema, table_type: TableType) -> Schema:
    """The schema that a new table of a foreign type gets.

    Raises:
        Invalid: It cannot have such keys, columns or options; the message says why.
    """
    options = schema.options
    match table_type:
        case TableType.FORMAT:
            if schema.primary_keys or "primary-key" in options:
                raise Invalid(
                    "a format table cannot have a primary key: nothing merges the rows of its "
                    "files; leave 'primary-key' out, or make a table of type 'table'"
                )
            check_format_options(options)
        case TableType.OBJECT:
            keys = (*schema.primary_keys, *schema.partition_keys)
            if keys or "primary-key" in options or "partition" in options:
                raise Invalid("an object table cannot have keys or partitions; leave them out")
            # Declared columns are passed over, as in Paimon: a listing of the files fills these.
            return replace(schema, fields=OBJECT_FIELDS)
    return schema


def check_format_options(options: Mapping[str, str]) -> None:
    """Check a format table's options; raises Invalid, and Unsupported for an unknown format."""
    file_format = options.get("file.format", "parquet").lower()
    if file_format not in _FORMATS:
        raise Unsupported(
            f"'file.format' of a format table is one of {', '.join(_FORMATS)}; not '{file_format}'"
        )
    FormatOptions(options).refuse_empty()
    in_catalog = is_true(options, "metastore.partitioned-table")
    if in_catalog and options.get("format-table.implementation", "paimon").lower() == "engine":
        raise Invalid(
            "the catalog cannot keep the partitions ('metastore.partitioned-table') of a table "
            "that an engine reads by its directories ('format-table.implementation' = 'engine'); "
            "leave one of the two out"
        )
