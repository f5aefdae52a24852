"""A table's rows as a frame: by Spark's own Parquet scan where it can, else by Python workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import pyspark.sql.types as st
from pyspark.sql import DataFrame

from headwater.catalog.table.branch_scan import BranchScan
from headwater.catalog.table.chain_scan import ChainScan
from headwater.catalog.table.scan import Rows, Scan
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.char_columns import stored_condition
from headwater.spark.names import quoted
from headwater.spark.source.counted_scan import counted_rows
from headwater.spark.source.division import Division, divide
from headwater.spark.source.metadata_rows import MetadataRows, metadata_schema
from headwater.spark.source.parquet_scan import native_frame
from headwater.spark.source.read_counter import WorkerCounter
from headwater.spark.source.worker_rows import Places, worker_frame
from headwater.spark.types import spark_schema
from headwater.storage.predicate.filter import And, IsNull, Not, Predicate, columns_of
from headwater.storage.read.positioned_rows import (
    BUCKET_COLUMN,
    FILE_COLUMN,
    PARTITION_COLUMN,
    POSITION_COLUMN,
)

__all__ = [
    "PLACE_FIELDS",
    "divide_rows",
    "frame_of_division",
    "frame_of_table",
    "frame_with_metadata",
]

PLACE_FIELDS = {
    Places.NONE: (),
    Places.FILES: (
        st.StructField(FILE_COLUMN, st.StringType()),
        st.StructField(POSITION_COLUMN, st.LongType()),
    ),
    Places.BUCKETS: (
        st.StructField(PARTITION_COLUMN, st.BinaryType()),
        st.StructField(BUCKET_COLUMN, st.IntegerType()),
    ),
}
"""The columns that tell of rows' places."""


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
        return frame_of_division(session, scan, divide_rows(session, scan, names), schema)
    # Spark's own scan reads the condition's columns, too, and then keeps the rows it is true for.
    wider = [*names, *sorted(columns_of(predicate) - set(names))]
    division = divide_rows(session, scan, wider)
    others = replace(division, native=())
    if not division.native:
        return frame_of_division(session, scan, others, schema)
    frame = native_frame(
        session.spark, session.files, scan.storage, division.native, wider, division.live_rows
    )
    frame = frame.where(stored_condition(predicate, scan.storage.schema)).select(
        *map(quoted, names)
    )
    if not (others.python or others.counted):
        return frame
    return frame.union(frame_of_division(session, scan, others, schema))


def frame_with_metadata(session: CatalogSession, scan: Scan, columns: Sequence[str]) -> DataFrame:
    """The rows of a scan with metadata columns, see `MetadataRows`; by Python workers.

    Args:
        session: The catalog's.
        scan: The rows to read.
        columns: The columns, metadata columns included.
    """
    schema = metadata_schema(columns, scan.storage)
    rows = MetadataRows(scan, columns)
    if not rows.splits:
        return session.spark.createDataFrame([], schema)
    parallelism = session.connection.parallelism
    return worker_frame(session.spark, rows, rows.splits, schema, parallelism)


def divide_rows(
    session: CatalogSession,
    rows: Rows,
    columns: Sequence[str],
    places: Places = Places.NONE,
) -> Division:
    """Plan rows, and divide their splits between the readers.

    Args:
        session: The catalog's.
        rows: The rows.
        columns: The columns that Spark's own scan would have to read.
        places: The places that are to be told with the rows.
    """
    # Files of other branches and partitions are shown as those of the one that is read.
    is_plain = isinstance(rows, Scan) and not isinstance(rows, BranchScan | ChainScan)
    if is_plain and not rows.is_served:
        condition = rows.predicate
        if condition is not None:
            partition_keys = set(rows.storage.schema.partition_keys)
            condition = None if _narrowing(condition) <= partition_keys else condition
        counts = (
            condition is not None
            and places is Places.NONE
            and columns_of(condition) <= set(columns)
        )
        return divide(
            rows.storage,
            rows.splits,
            columns,
            session.live_rows,
            condition=condition,
            counts=counts,
        )
    return Division((), rows.splits)


def _narrowing(predicate: Predicate) -> set[str]:
    """The columns of a condition that says more of them than that they are not null.

    Spark asks that of what it joins by.
    """
    if isinstance(predicate, And):
        return set().union(*map(_narrowing, predicate.operands))
    if isinstance(predicate, Not) and isinstance(predicate.operand, IsNull):
        return set()
    if isinstance(predicate, IsNull) and predicate.negated:
        return set()
    return set(columns_of(predicate))


def frame_of_division(
    session: CatalogSession,
    rows: Rows,
    division: Division,
    schema: st.StructType,
    *,
    places: Places = Places.NONE,
    counter: WorkerCounter | None = None,
    scans: list[DataFrame] | None = None,
) -> DataFrame:
    """Rows by all readers; those of `Division.native` are not held to the rows' predicate.

    Args:
        session: The catalog's.
        rows: The rows.
        division: Their splits; none for Spark's own scan where buckets are to be told.
        schema: The columns of `rows`.
        places: Append the columns that tell of these places.
        counter: Is told what Python workers read; None if nobody asks.
        scans: Scans are appended that are not part of the frame's plan; None if nobody asks.
    """
    spark = session.spark
    frames: list[DataFrame] = []
    if division.counted:
        assert rows.predicate is not None
        counted = counted_rows(
            spark,
            session.counting,
            rows.storage,
            division,
            schema.fieldNames(),
            rows.predicate,
            session.connection.parallelism,
        )
        if counted is None:
            division = division.without_counted
        else:
            frames.append(counted.frame)
            if scans is not None:
                scans.append(counted.scan)
    if division.native:
        names, positioned = schema.fieldNames(), places is Places.FILES
        native = native_frame(
            spark,
            session.files,
            rows.storage,
            division.native,
            names,
            division.live_rows,
            positioned=positioned,
        )
        frames.append(native)
    schema = st.StructType([*schema.fields, *PLACE_FIELDS[places]])
    if division.python:
        parallelism = session.connection.parallelism
        frames.append(
            worker_frame(spark, rows, division.python, schema, parallelism, places, counter)
        )
    if not frames:
        return spark.createDataFrame([], schema)
    return reduce(DataFrame.union, frames)
