"""Dates that became null in columns that take no nulls."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceTable
from headwater.storage.errors import Invalid
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.rows.kinds import RowKind

__all__ = ["check_null_dates"]


def check_null_dates(
    batch: pa.RecordBatch, table: SourceTable, bad_dates: BadDates
) -> pa.RecordBatch:
    """Check that NOT NULL columns have no dates that became null; returns the same rows.

    Args:
        batch: Rows with their kinds.
        table: The source's table, with the types that its columns have in the lake.
        bad_dates: What was done with dates that the lake does not have.

    Raises:
        Invalid: A column has some.
    """
    if bad_dates is BadDates.FAIL:
        return batch
    for column in table.columns:
        values = batch.column(column.name)
        if column.type.nullable or not values.null_count:
            continue
        # Deleted rows have their key alone.
        is_deleted = pc.equal(batch.column(ROW_KIND_COLUMN), RowKind.DELETE)
        if values.filter(pc.invert(is_deleted)).null_count:
            raise Invalid(
                f"column '{column.name}' of type {column.source_type} is NOT NULL and has "
                "dates that the lake does not have, which cannot become null; choose "
                "to-nullable among the type mappings and read the table again (headwater cdc "
                f"resnapshot {table.name} --replace), or write real dates at the source"
            )
    return batch
