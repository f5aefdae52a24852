"""Rows that Python workers read: splits that the driver has planned, shared out among tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyspark.sql.types as st
from pyspark.sql import DataFrame, SparkSession

from headwater.catalog.table.scan import Rows
from headwater.spark.source.batch_read import pack_splits
from headwater.spark.types import conform, spark_arrow_schema
from headwater.storage.scan.split import Split

__all__ = ["worker_frame"]


def worker_frame(
    spark: SparkSession,
    rows: Rows,
    splits: Sequence[Split],
    schema: st.StructType,
    parallelism: int,
    *,
    ordered: bool = False,
) -> DataFrame:
    """Some splits of rows as a frame.

    Args:
        spark: The session.
        rows: The rows, with the columns of `schema` and the predicate to read them by.
        splits: At least one.
        schema: The frame's schema.
        parallelism: The number of tasks that run at once.
        ordered: True if the order of the splits is that of the rows: one task reads them all.
    """
    if ordered:
        packed = [list(splits)]
    else:
        options = rows.storage.schema.table_options
        packed = pack_splits([[split] for split in splits], options, parallelism)
    # Without the plan, which every task would get.
    bare = rows.narrowed(rows.columns, rows.predicate)
    tasks = spark.range(0, len(packed), 1, len(packed))
    return tasks.mapInArrow(partial(_read, bare, packed, schema), schema)


def _read(
    rows: Rows,
    packed: Sequence[Sequence[Split]],
    schema: st.StructType,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    arrow = spark_arrow_schema(schema)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for split in packed[number]:
                for read in rows.read_split(split):
                    yield conform(read, arrow)
