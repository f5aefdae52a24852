"""Rows that Python workers read: splits that the driver has planned, shared out among tasks.

Workers import this module, and with it nothing that only the driver needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import partial

import pyarrow as pa
import pyspark.sql.types as st
from pyspark.sql import DataFrame, SparkSession

from headwater.catalog.table.scan import Changes, Rows
from headwater.catalog.table.served_rows import ServedScan
from headwater.spark.source.batch_read import pack_splits
from headwater.spark.source.read_counter import Measured, WorkerCounter
from headwater.spark.source.task_frame import task_frame
from headwater.spark.types import conform, spark_arrow_schema
from headwater.storage.read.positioned_rows import bucketed_rows, positioned_rows
from headwater.storage.scan.split import Split

__all__ = ["Places", "worker_frame"]


class Places(Enum):
    """The places of rows that are told with them."""

    NONE = "none"
    FILES = "files"
    """The columns of `headwater.storage.read.positioned_rows.positioned_rows`."""
    BUCKETS = "buckets"
    """Those of `headwater.storage.read.positioned_rows.bucketed_rows`."""


def worker_frame(
    spark: SparkSession,
    rows: Rows,
    splits: Sequence[Split],
    schema: st.StructType,
    parallelism: int,
    places: Places = Places.NONE,
    counter: WorkerCounter | None = None,
) -> DataFrame:
    """Some splits of rows as a frame.

    Args:
        spark: The session.
        rows: The rows, with the predicate to read them by.
        splits: At least one.
        schema: The frame's schema.
        parallelism: The number of tasks that run at once.
        places: The places that the last columns of `schema` are of.
        counter: Is told what was read; None if nobody asks.
    """
    if isinstance(rows, ServedScan):
        # The server reads them in as many parts as there are tasks at once.
        rows = rows.divided(parallelism)
        splits = rows.splits
    if isinstance(rows, Changes):
        # Their order is that of the commits: one task reads them all.
        packed = [list(splits)]
    else:
        options = rows.storage.schema.table_options
        packed = pack_splits([[split] for split in splits], options, parallelism)
    # Without the plan, which every task would get.
    bare = rows.narrowed(rows.columns, rows.predicate)
    # Spark pads them, where the session says so, but finds rows that change by what is stored.
    bare.pads_chars = False
    work = partial(_read, bare, packed, schema, places, counter)
    row_count = None if rows.is_served else sum(split.row_count for split in splits)
    return task_frame(spark, len(packed), work, schema, row_count)


def _read(
    rows: Rows,
    packed: Sequence[Sequence[Split]],
    schema: st.StructType,
    places: Places,
    counter: WorkerCounter | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The rows of the tasks whose numbers are the batches' only column."""
    arrow = spark_arrow_schema(schema)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            row_count = 0
            for split in packed[number]:
                if places is Places.FILES:
                    names = rows.schema.names
                    read_rows = positioned_rows(rows.storage, split, names, rows.predicate)
                else:
                    read_rows = rows.read_split(split)
                if places is Places.BUCKETS:
                    read_rows = bucketed_rows(read_rows, split)
                for read in read_rows:
                    row_count += read.num_rows
                    yield conform(read, arrow)
            # The files of what a server reads are not told.
            if counter is not None and not rows.is_served:
                files = [
                    file for split in packed[number] for file in (*split.files, *split.postponed)
                ]
                size = sum(file.file_size for file in files)
                counter.add(number, Measured(len(files), size, row_count))
