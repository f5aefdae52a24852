"""``DESCRIBE … AS JSON``: the keys and forms that Spark has for its own tables.

Source: ``DescribeRelationJsonCommand.scala``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.partitions import PartitionInfo
from headwater.catalog.model.views import ViewInfo
from headwater.catalog.table.table import Table
from headwater.spark.sql.ddl.column_types import short_type_text
from headwater.spark.sql.ddl.create_table import provider
from headwater.spark.sql.ddl.views import DIALECT
from headwater.spark.sql.names import quoted_identifier
from headwater.spark.sql.show.found import Found, partition_numbers, table_statistics
from headwater.spark.sql.show.texts import shown_options
from headwater.storage.types.atomic_type import AtomicType, Root, VectorType
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    Json,
    MapType,
    MultisetType,
    RowType,
)

__all__ = ["described_json"]

_COLLATION = "UTF8_BINARY"
_NAMES: Mapping[Root, str] = {
    Root.TIMESTAMP: "timestamp_ntz",
    Root.TIMESTAMP_LTZ: "timestamp_ltz",
    Root.VARBINARY: "binary",
}
"""The names of types that differ from those in statements."""


def described_json(
    warehouse: str,
    identifier: Identifier,
    found: Found,
    fields: Sequence[DataField],
    partition: PartitionInfo | None,
) -> str:
    """What is known of a table, a view or a system table, as JSON.

    Args:
        warehouse: The warehouse's name.
        identifier: The name of what is described.
        found: What is described.
        fields: Its columns.
        partition: The partition that is described; None for the whole table.
    """
    document: dict[str, Json] = {
        "table_name": identifier.name,
        "catalog_name": warehouse,
        "namespace": [identifier.database],
        "schema_name": identifier.database,
        "columns": _fields(fields),
    }
    if isinstance(found, Table):
        document |= _of_table(found, partition)
    elif isinstance(found, ViewInfo):
        document |= _of_view(found, warehouse)
    document["collation"] = _COLLATION
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _of_table(table: Table, partition: PartitionInfo | None) -> dict[str, Json]:
    info, schema = table.info, table.schema
    document: dict[str, Json] = {}
    if partition is not None:
        document["partition_values"] = dict(partition.spec)
        document["partition_parameters"] = {
            key: str(number) for key, number in partition_numbers(partition).items()
        }
    buckets = schema.table_options.bucket
    if buckets > 0 and schema.bucket_key_fields:
        document["num_buckets"] = buckets
        document["bucket_columns"] = [field.name for field in schema.bucket_key_fields]
    document |= {
        "location": info.path,
        "created_time": _time(info.created_at),
        "owner": info.owner,
        "type": "EXTERNAL" if info.is_external else "MANAGED",
        "provider": provider(schema.options),
        "comment": schema.comment,
        "table_properties": dict(sorted(shown_options(table).items())),
        "partition_provider": "Catalog" if schema.partition_keys else None,
        "partition_columns": [*schema.partition_keys] or None,
    }
    statistics = None if partition is not None else table_statistics(table)
    if statistics is not None and statistics.record_size is not None:
        document["statistics"] = {
            "size_in_bytes": statistics.record_size,
            "num_rows": statistics.record_count,
        }
    return {key: value for key, value in document.items() if value is not None}


def _of_view(view: ViewInfo, warehouse: str) -> dict[str, Json]:
    schema = view.schema
    query = schema.query_for(DIALECT)
    namespace = map(quoted_identifier, (warehouse, view.identifier.database))
    document: dict[str, Json] = {
        "created_time": _time(view.created_at),
        "owner": view.owner,
        "type": "VIEW",
        "comment": schema.comment,
        "view_text": query,
        "view_original_text": query,
        "view_catalog_and_namespace": ".".join(namespace),
        "view_query_output_columns": [column.name for column in schema.columns],
        "table_properties": dict(sorted(schema.options.items())) or None,
    }
    return {key: value for key, value in document.items() if value is not None}


def _time(millis: int) -> str | None:
    """A time in seconds; None where it is not known."""
    if not millis:
        return None
    return datetime.fromtimestamp(millis // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _fields(fields: Sequence[DataField]) -> list[Json]:
    return [_field(field) for field in fields]


def _field(field: DataField) -> Json:
    document: dict[str, Json] = {
        "name": field.name,
        "type": _type(field.type),
        "nullable": field.type.nullable,
    }
    if field.description is not None:
        document["comment"] = field.description
    if field.default_value is not None:
        document["default"] = field.default_value
    return document


def _type(data_type: DataType) -> Json:
    match data_type:
        case VectorType(element=element, length=length):
            return {
                "name": "vector",
                "element_type": _type(element),
                "element_nullable": element.nullable,
                "length": length,
            }
        case ArrayType(element=element) | MultisetType(element=element):
            return {
                "name": "array" if isinstance(data_type, ArrayType) else "multiset",
                "element_type": _type(element),
                "element_nullable": element.nullable,
            }
        case MapType(key=key, value=value):
            return {
                "name": "map",
                "key_type": _type(key),
                "value_type": _type(value),
                "value_nullable": value.nullable,
            }
        case RowType(fields=fields):
            return {"name": "struct", "fields": _fields(fields)}
        case AtomicType():
            return _atomic_type(data_type)
        case _:
            return {"name": short_type_text(data_type)}


def _atomic_type(data_type: AtomicType) -> Json:
    text = short_type_text(data_type)
    match data_type.root:
        case Root.VARCHAR if text == "string":
            return {"name": "string", "collation": _COLLATION}
        case Root.CHAR | Root.VARCHAR:
            return {"name": data_type.root.lower(), "length": data_type.length}
        case Root.DECIMAL:
            return {
                "name": "decimal",
                "precision": data_type.precision,
                "scale": data_type.scale,
            }
        case root:
            return {"name": _NAMES.get(root, text)}
