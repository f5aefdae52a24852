"""Rows of a table without a primary key, as the lake has them: appended, each with its row kind.

Nothing tells one of two equal rows from the other, so that none is updated or deleted: a change is
a row more. The rows of the source are those that were added more often than taken back.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.model.tables import SourceTable
from headwater.storage.errors import Unsupported
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.rows.kinds import KIND_NAMES, RowKind
from headwater.storage.types.data_type import DataField, parse_type, to_arrow

__all__ = [
    "APPENDED_KIND",
    "added_rows",
    "appended_rows",
    "appended_schema",
    "check_kind_column",
    "kind_field",
    "row_weights",
]

APPENDED_KIND = "row_kind"
"""The lake's column that has the kind of each row."""

_KIND_TYPE = parse_type("STRING NOT NULL")
_KIND_DESCRIPTION = "+I, -U, +U or -D"


def kind_field(number: int = 0) -> DataField:
    """The column of row kinds."""
    return DataField(number, APPENDED_KIND, _KIND_TYPE, _KIND_DESCRIPTION)


def check_kind_column(table: SourceTable) -> None:
    """Check that no column of a table without a key has the name of the column of row kinds.

    Raises:
        Unsupported: One has.
    """
    for column in table.columns:
        if not table.primary_key and column.name.lower() == APPENDED_KIND:
            raise Unsupported(
                f"column {table.name}.{column.name} has the name of the lake's column of row "
                "kinds; rename it"
            )


def appended_schema(table: SourceTable) -> pa.Schema:
    """The Arrow schema of rows as the lake has them.

    Args:
        table: The source's table, with the types that its columns have in the lake.
    """
    fields = [pa.field(column.name, to_arrow(column.type)) for column in table.columns]
    return pa.schema([pa.field(APPENDED_KIND, pa.string(), nullable=False), *fields])


def appended_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the log as the lake has them.

    Args:
        batch: The rows; their kinds are in the last column, as numbers.
        schema: See `appended_schema`.
    """
    numbers = batch.column(ROW_KIND_COLUMN)
    names = pa.array([KIND_NAMES[kind] for kind in RowKind])
    kinds = pa.DictionaryArray.from_arrays(numbers, names).cast(pa.string())
    return pa.RecordBatch.from_arrays([kinds, *batch.columns[:-1]], schema=schema)


def added_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows that the source has, as the lake has them: all were added.

    Args:
        batch: The rows, with the table's columns.
        schema: See `appended_schema`.
    """
    kinds = pa.repeat(pa.scalar(KIND_NAMES[RowKind.INSERT], pa.string()), batch.num_rows)
    return pa.RecordBatch.from_arrays([kinds, *batch.columns], schema=schema)


def row_weights(kinds: pa.Array) -> pa.Array:
    """What each row adds to the number of rows that are equal to it: 1, or -1 if it takes one back.

    Args:
        kinds: The rows' kinds, as numbers or as the lake's table has them.
    """
    if pa.types.is_integer(kinds.type):
        numbers = kinds.to_numpy(zero_copy_only=False)
    else:
        names = pa.array([KIND_NAMES[kind] for kind in RowKind])
        numbers = pc.index_in(kinds, names).to_numpy(zero_copy_only=False)
    return pa.array(np.where(numbers % 2 == 1, -1, 1).astype(np.int64))
