"""New rows' columns, checked before any task runs."""

from __future__ import annotations

import pyarrow as pa
import pyspark.sql.types as st

from headwater.spark.types import spark_arrow_schema
from headwater.spark.write.column_case import batch_as_named
from headwater.storage.rows.ingest import coerce
from headwater.storage.rows.kinds import take_row_kinds
from headwater.storage.table_storage import TableStorage

__all__ = ["check_batch", "check_columns", "no_rows"]


def check_columns(rows: st.StructType, storage: TableStorage) -> None:
    """Refuse rows whose columns do not fit the table; raises as `check_batch`."""
    check_batch(no_rows(rows, storage), storage)


def no_rows(rows: st.StructType, storage: TableStorage) -> pa.RecordBatch:
    """A batch without rows, of the columns of new ones by the table's names."""
    empty = pa.RecordBatch.from_pylist([], spark_arrow_schema(rows))
    return batch_as_named(empty, storage.schema)


def check_batch(batch: pa.RecordBatch, storage: TableStorage) -> None:
    """Refuse a batch whose columns do not fit the table.

    Raises:
        Invalid: A column is unknown, missing or of the wrong type.
    """
    table = pa.Table.from_batches([batch])
    plain, _ = take_row_kinds(table, None, storage.schema, storage.name)
    coerce(plain, storage.schema, storage.name, storage.runtime.time_zone)
