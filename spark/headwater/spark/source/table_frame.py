"""A table's rows as a frame: by Spark's own Parquet scan where it can, else by Python workers."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from headwater.catalog.table.branch_scan import BranchScan
from headwater.catalog.table.scan import Scan
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.errors import own_errors
from headwater.spark.options import ReadOptions, SplitChoice
from headwater.spark.source.parquet_scan import divide, native_frame
from headwater.spark.types import spark_schema

__all__ = ["frame_of_branches", "frame_of_table"]


def frame_of_branches(
    session: CatalogSession,
    name: str,
    scan: BranchScan,
    where: str | None,
    start: Mapping[str, str],
) -> DataFrame:
    """Rows of two branches, by Python workers: the source chooses both snapshots on loading.

    Args:
        session: The catalog's.
        name: ``database.table``.
        scan: The rows to read.
        where: The SQL condition of the scan.
        start: Paimon's options that choose the snapshot.
    """
    options = ReadOptions(name, start, tuple(scan.schema.names), where)
    with own_errors():
        reader = session.spark.read.format(session.format).options(**options.to_options())
        return reader.load(name)


def frame_of_table(
    session: CatalogSession, name: str, scan: Scan, where: str | None = None
) -> DataFrame:
    """The rows of a scan, whose snapshot stays chosen.

    Args:
        session: The catalog's.
        name: ``database.table``.
        scan: The rows to read.
        where: The SQL condition of the scan.
    """
    storage, names = scan.storage, scan.schema.names
    schema = spark_schema(storage.schema.columns(names))
    if not scan.splits or scan.snapshot is None:
        return session.spark.createDataFrame([], schema)
    choice = SplitChoice.ALL
    if where is None:
        division = divide(storage, scan.splits, names)
        native = division.native
        if native and not division.python:
            return native_frame(session.spark, storage, native, names)
        if native:
            choice = SplitChoice.PYTHON
    options = ReadOptions(
        name,
        columns=tuple(names),
        where=where,
        splits=choice,
        chosen=(scan.snapshot, storage.schema.id),
        created_since=scan.created_since,
    )
    with own_errors():
        merged = (
            session.spark.read.format(session.format)
            .schema(schema)
            .options(**options.to_options())
            .load(name)
        )
    if choice is SplitChoice.ALL:
        return merged
    return native_frame(session.spark, storage, native, names).union(merged)
