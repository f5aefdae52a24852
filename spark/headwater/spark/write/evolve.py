"""New columns for a table that a frame's columns ask for."""

from __future__ import annotations

import pyspark.sql.types as st

from headwater.catalog.table.table import Table
from headwater.spark.schema_merging import SchemaMerging
from headwater.spark.types import nullable_type, paimon_schema
from headwater.storage.errors import AlreadyExists, Conflict
from headwater.storage.rows.ingest import ROW_KIND_COLUMN

__all__ = ["ADDS_COLUMNS", "merge_columns"]

ADDS_COLUMNS = "after columns of the table are changed"
"""How rows are written for which `merge_columns` changes the table."""

# Another program may change the same columns meanwhile.
_ATTEMPTS = 3


def merge_columns(table: Table, rows: st.StructType, merging: SchemaMerging) -> Table:
    """Change a table's columns so that rows fit.

    New columns and fields may be null, and those that change stay as they are there: that values
    are constants, or counted, says nothing of the rows to come.

    Args:
        table: The table.
        rows: The rows' columns.
        merging: The changes that may be made.

    Returns:
        A handle with the new columns.

    Raises:
        Invalid: A column cannot take the type of its new values.
        Unsupported: A column's type has no Paimon type.
        AlreadyExists, Conflict: Other programs changed the columns each time.
    """
    own = table.schema.field_by_name
    given = [
        st.StructField(field.name, nullable_type(field.dataType))
        for field in rows.fields
        if field.name != ROW_KIND_COLUMN or field.name in own
    ]
    fields = paimon_schema(st.StructType(given)).fields
    attempts = _ATTEMPTS
    while changes := merging.changes(table.schema.fields, fields):
        attempts -= 1
        try:
            return table.alter(*changes)
        except (AlreadyExists, Conflict):
            if not attempts:
                raise
            table.refresh()
    return table
