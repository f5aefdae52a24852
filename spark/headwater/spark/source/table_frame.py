"""A table's rows as a frame: by Spark's own Parquet scan where it can, else by Python workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyspark.sql.types as st
from pyspark.sql import DataFrame, SparkSession

from headwater.catalog.table.branch_scan import BranchScan
from headwater.catalog.table.scan import Changes, Rows, Scan
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.names import quoted
from headwater.spark.source.batch_read import pack_splits
from headwater.spark.source.parquet_scan import Division, divide, native_frame
from headwater.spark.types import conform, spark_arrow_schema, spark_schema
from headwater.storage.predicate.filter import columns_of, to_sql
from headwater.storage.read.positioned_rows import (
    FILE_COLUMN,
    POSITION_COLUMN,
    positioned_rows,
)
from headwater.storage.scan.split import Split

__all__ = ["divide_rows", "frame_of_division", "frame_of_table"]

_POSITIONS = (
    st.StructField(FILE_COLUMN, st.StringType()),
    st.StructField(POSITION_COLUMN, st.LongType()),
)


def frame_of_table(session: CatalogSession, scan: Scan) -> DataFrame:
    """The rows of a scan, and no others; its snapshot stays chosen.

    Args:
        session: The catalog's.
        scan: The rows to read.
    """
    names = list(scan.schema.names)
    schema = spark_schema(scan.storage.schema.columns(names))
    predicate = scan.predicate
    if predicate is None:
        return frame_of_division(session, scan, divide_rows(scan, names), schema)
    # Spark's own scan reads the condition's columns, too, and then keeps the rows it is true for.
    wider = [*names, *sorted(columns_of(predicate) - set(names))]
    division = divide_rows(scan, wider)
    workers = Division((), division.python)
    if not division.native:
        return frame_of_division(session, scan, workers, schema)
    frame = native_frame(session.spark, scan.storage, division.native, wider)
    frame = frame.where(to_sql(predicate, scan.storage.schema)).select(*map(quoted, names))
    if not division.python:
        return frame
    return frame.union(frame_of_division(session, scan, workers, schema))


def divide_rows(rows: Rows, columns: Sequence[str]) -> Division:
    """Plan rows, and divide their splits between the readers.

    Args:
        rows: The rows.
        columns: The columns that Spark's own scan would have to read.
    """
    if isinstance(rows, Scan) and not isinstance(rows, BranchScan):
        return divide(rows.storage, rows.splits, columns)
    return Division((), rows.splits)


def frame_of_division(
    session: CatalogSession,
    rows: Rows,
    division: Division,
    schema: st.StructType,
    *,
    positioned: bool = False,
) -> DataFrame:
    """Rows by both readers; those of Spark's own scan are not held to the rows' predicate.

    Args:
        session: The catalog's.
        rows: The rows.
        division: Their splits.
        schema: The columns of `rows`.
        positioned: Append the columns of `headwater.storage.read.positioned_rows`.
    """
    spark = session.spark
    frames: list[DataFrame] = []
    if division.native:
        names = schema.fieldNames()
        native = native_frame(spark, rows.storage, division.native, names, positioned=positioned)
        frames.append(native)
    if positioned:
        schema = st.StructType([*schema.fields, *_POSITIONS])
    if division.python:
        parallelism = session.connection.parallelism
        frames.append(_worker_frame(spark, rows, division.python, schema, parallelism, positioned))
    if not frames:
        return spark.createDataFrame([], schema)
    return frames[0] if len(frames) == 1 else frames[0].union(frames[1])


def _worker_frame(
    spark: SparkSession,
    rows: Rows,
    splits: Sequence[Split],
    schema: st.StructType,
    parallelism: int,
    positioned: bool,
) -> DataFrame:
    if isinstance(rows, Changes):
        # Their order is that of the commits: one task reads them all.
        packed = [list(splits)]
    else:
        options = rows.storage.schema.table_options
        packed = pack_splits([[split] for split in splits], options, parallelism)
    # Without the plan, which every task would get.
    bare = rows.narrowed(rows.columns, rows.predicate)
    tasks = spark.range(0, len(packed), 1, len(packed))
    return tasks.mapInArrow(partial(_read, bare, packed, schema, positioned), schema)


def _read(
    rows: Rows,
    packed: Sequence[Sequence[Split]],
    schema: st.StructType,
    positioned: bool,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The rows of the tasks whose numbers are the batches' only column."""
    arrow = spark_arrow_schema(schema)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for split in packed[number]:
                found = (
                    positioned_rows(rows.storage, split, rows.schema.names, rows.predicate)
                    if positioned
                    else rows.read_split(split)
                )
                for read in found:
                    yield conform(read, arrow)
