"""BLOBs of changed rows of a primary-key table: the values that stay are carried over unread."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.predicate.filter import Predicate, columns_of
from headwater.storage.schema.blob_columns import managed_blob_columns
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["carried", "carried_columns", "shown_columns"]


def shown_columns(schema: TableSchema, predicate: Predicate | None) -> list[str]:
    """The columns that are compared, and that new values are computed from: all but BLOBs.

    BLOB columns that the condition tests for null are among them, as descriptors.
    """
    needed = frozenset() if predicate is None else columns_of(predicate)
    hidden = set(managed_blob_columns(schema)) - needed
    return [name for name in schema.field_by_name if name not in hidden]


def carried_columns(schema: TableSchema, changed: Collection[str] | None) -> list[str]:
    """The BLOB columns whose descriptors rows keep.

    Args:
        schema: The table's schema.
        changed: The columns that get new values; None if rows go.
    """
    return [name for name in managed_blob_columns(schema) if changed is None or name not in changed]


def carried(
    added: pa.Table, old: pa.RecordBatch, taken: npt.NDArray[np.int64], columns: Collection[str]
) -> pa.Table:
    """New versions of rows with some columns of the old ones.

    Args:
        added: The new versions, with or without these columns.
        old: Rows with them.
        taken: The number of each new version's row among those.
        columns: The columns.
    """
    found = {name: added.column(name) for name in added.column_names}
    for name in columns:
        found[name] = pa.chunked_array([old.column(name).take(pa.array(taken))])
    return pa.table(found)
