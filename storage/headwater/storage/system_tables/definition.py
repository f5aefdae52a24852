"""The system tables of what a table is: its options, and how its columns aggregate.

Source: ``OptionsTable.java``, ``AggregationFieldsTable.java``.
"""

from __future__ import annotations

import pyarrow as pa

from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.system_tables.tables import STRING, from_records, required
from headwater.storage.system_tables.texts import list_text

__all__ = ["AGGREGATION_FIELDS", "OPTIONS", "aggregation_fields_table", "options_table"]

OPTIONS = pa.schema([required("key", STRING), required("value", STRING)])
AGGREGATION_FIELDS = pa.schema(
    [
        required("field_name", STRING),
        required("field_type", STRING),
        ("function", STRING),
        ("function_options", STRING),
        ("comment", STRING),
    ]
)


def options_table(schema: TableSchema) -> pa.Table:
    """`OPTIONS`, by key."""
    return from_records(OPTIONS, sorted(schema.options.items()))


def aggregation_fields_table(schema: TableSchema) -> pa.Table:
    """`AGGREGATION_FIELDS`: a row for each column, in their order.

    ``function`` lists the values of the options ``fields.<column>.…``, ``function_options`` their
    keys.
    """
    keys: dict[str, list[str]] = {}
    for key in sorted(schema.options):
        parts = key.split(".")
        if len(parts) > 2 and parts[0] == "fields":
            keys.setdefault(parts[1], []).append(key)
    return from_records(
        AGGREGATION_FIELDS,
        (
            (
                field.name,
                str(field.type),
                list_text(schema.options[key] for key in keys.get(field.name, [])),
                list_text(keys.get(field.name, [])),
                field.description,
            )
            for field in schema.fields
        ),
    )
