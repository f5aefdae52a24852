"""Frames whose rows tasks make by themselves, and what Spark takes their size to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyspark.sql.types as st
from pyspark.sql import DataFrame, SparkSession

from headwater.spark.session import is_connect

__all__ = ["TASK_NUMBER", "task_frame"]

TASK_NUMBER = "headwater task"
"""The column of the numbers of tasks, where they are rows without a size that Spark knows."""

# What Spark adds to the columns of a row when it estimates sizes (``EstimationUtils.scala``).
_ROW_BYTES = 8


def task_frame(
    spark: SparkSession,
    count: int,
    work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: st.StructType,
    row_count: int | None,
) -> DataFrame:
    """The rows that tasks make, which get their numbers.

    Spark takes the size of such a frame from that of the numbers, a few bytes, and would broadcast
    any table that is joined. So the numbers of tasks that make more than Spark broadcasts have no
    size that it knows: it shuffles them, and adapts that to what it then sees. Spark Connect has
    no such frame, and there the size is that of the numbers.

    Args:
        spark: The session.
        count: The number of tasks; they are numbered from 0.
        work: Makes rows of `schema` from batches whose only column is the number of a task.
        schema: The frame's schema.
        row_count: The rows that all tasks make, or more; None if nobody knows.
    """
    numbers = spark.range(0, count, 1, count)
    frame = numbers.mapInArrow(work, schema)
    if is_connect(spark):
        return frame
    session = spark._jsparkSession
    if row_count is not None:
        size = row_count * (_ROW_BYTES + frame._jdf.schema().defaultSize())
        if size <= session.sessionState().conf().autoBroadcastJoinThreshold():
            return frame
    # A range is of numbers, and its columns of rows.
    rows = numbers.toDF(TASK_NUMBER)._jdf
    unsized = session.createDataFrame(rows.javaRDD(), rows.schema())
    return DataFrame(unsized, spark).mapInArrow(work, schema)
