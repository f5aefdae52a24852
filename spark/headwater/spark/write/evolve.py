"""New columns for a table that a frame's columns ask for."""

from __future__ import annotations

from dataclasses import replace

import pyspark.sql.types as st

from headwater.catalog.table.table import Table
from headwater.spark.types import paimon_schema
from headwater.spark.write.join_condition import column_of
from headwater.storage.schema.change import AddColumn

__all__ = ["add_new_columns"]


def add_new_columns(table: Table, rows: st.StructType) -> Table:
    """Add the columns of some rows that a table lacks; its own keep their types.

    Args:
        table: The table.
        rows: The rows' columns.

    Returns:
        A handle with the new columns.

    Raises:
        Unsupported: A column's type has no Paimon type.
        AlreadyExists: Another program added such a column meanwhile.
    """
    names = list(table.schema.field_by_name)
    new = [field for field in rows.fields if column_of(field.name, names) is None]
    if not new:
        return table
    fields = paimon_schema(st.StructType(new)).fields
    return table.alter(
        *(AddColumn((item.name,), replace(item.type, nullable=True)) for item in fields)
    )
