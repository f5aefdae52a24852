"""Keys of tables, matched by equality."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from headwater.cdc.model.tables import SourceColumn, SourceTable

__all__ = ["key_columns", "key_positions"]


def key_columns(table: SourceTable) -> Sequence[SourceColumn]:
    """The columns of a table's primary key, in the key's order."""
    columns = {column.name: column for column in table.columns}
    return [columns[name] for name in table.primary_key]


def key_positions(rows: pa.Table | pa.RecordBatch, keys: pa.Table, *, is_in: bool) -> pa.Array:
    """Where rows are whose keys are among some, or are not.

    Args:
        rows: The rows' keys.
        keys: The keys, with as many columns.
        is_in: Whether those among the keys are wanted.
    """
    names = [str(number) for number in range(rows.num_columns)]
    frame = pl.DataFrame(pa.table(rows.columns, names)).with_row_index("position")
    others = pl.DataFrame(pa.table(keys.columns, names))
    matching = frame.join(others, on=names, how="semi" if is_in else "anti", maintain_order="left")
    return matching.get_column("position").to_arrow()
