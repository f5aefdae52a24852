"""The rows of a table that a change may touch, as a frame."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headwater.catalog.table.scan import Scan
from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.char_columns import CharColumns
from headwater.spark.source.division import Division
from headwater.spark.source.table_frame import divide_rows, frame_of_division
from headwater.spark.source.table_read import Relation, TableRead
from headwater.spark.source.worker_rows import Places
from headwater.spark.types import spark_schema, spark_type
from headwater.storage.predicate.filter import Predicate, to_sql
from headwater.storage.read.positioned_rows import (
    BUCKET_COLUMN,
    FILE_COLUMN,
    PARTITION_COLUMN,
    POSITION_COLUMN,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["PLACE_COLUMNS", "Target", "places_of", "read_target", "without_places"]

PLACE_COLUMNS = (FILE_COLUMN, POSITION_COLUMN, PARTITION_COLUMN, BUCKET_COLUMN)
"""The columns that tell where a row stands."""


@dataclass(frozen=True)
class Target:
    """Rows of a table as of a snapshot.

    Attributes:
        snapshot: The snapshot.
        frame: The rows, with the columns that tell of their places, and those of
            `CharColumns.of_target`.
        predicate: The condition that rows fulfil, as SQL text. The frame may have others, too.
        read: The part of the table that is read.
    """

    snapshot: Snapshot | None
    frame: DataFrame
    predicate: str | None
    read: TableRead

    @property
    def places(self) -> list[str]:
        """The columns that tell of the rows' places."""
        return places_of(self.frame)


def places_of(frame: DataFrame) -> list[str]:
    """The columns of a frame that tell of its rows' places."""
    return [name for name in frame.columns if name in PLACE_COLUMNS]


def without_places(rows: DataFrame, target: DataFrame) -> DataFrame:
    """Rows that are only added, with the columns of places of a target, which are null."""
    for field in target.schema:
        if field.name in PLACE_COLUMNS:
            rows = rows.withColumn(field.name, sf.lit(None).cast(field.dataType))
    return rows


def columns_to_read(
    storage: TableStorage, columns: Sequence[str], needed: Collection[str]
) -> list[str]:
    """The columns to read of a table with row tracking, of whose own only those needed are read.

    Args:
        storage: The table.
        columns: The table's columns that are read without data evolution.
        needed: The columns that the change is made of.
    """
    schema = storage.schema
    if schema.table_options.evolves_columns:
        columns = [name for name in schema.field_by_name if name in needed]
    return [*columns, *(name for name in schema.tracking_fields if name in needed)]


def read_target(
    session: CatalogSession,
    table: Table,
    snapshot: Snapshot | None,
    columns: Sequence[str],
    predicate: Predicate | None,
    *,
    rewrites: bool = False,
) -> Target:
    """The rows of a table that a change may touch.

    Args:
        session: The catalog's.
        table: The table.
        snapshot: The snapshot to read; None for a table without one.
        columns: The columns that the change needs. In a table with data evolution the frame has
            the others, too, as nulls.
        predicate: Only rows that may fulfil it are needed. It must be one that Spark sees, too:
            Spark's own scan skips files by it, and does not filter rows.
        rewrites: Whether files of a primary-key table are rewritten: the buckets of rows are
            told.
    """
    storage = table.storage
    names = list(columns) or [storage.schema.fields[0].name]
    text = None if predicate is None else to_sql(predicate, storage.schema)
    scan = Scan(storage, snapshot, names, predicate, for_change=True)
    schema = spark_schema(storage.schema.columns(names))
    places = Places.NONE if storage.schema.primary_keys else Places.FILES
    if rewrites:
        places = Places.BUCKETS
    division = Division((), ())
    if snapshot is not None:
        division = (
            Division((), scan.splits) if rewrites else divide_rows(session, scan, names, places)
        )
    frame = frame_of_division(session, scan, division, schema, places=places)
    if storage.schema.table_options.evolves_columns:
        # Expressions may name columns that their values do not depend on.
        fields = [item for item in storage.schema.fields if item.name not in names]
        absent = [sf.lit(None).cast(spark_type(f.type)).alias(f.name) for f in fields]
        frame = frame.select("*", *absent)
    frame = CharColumns.from_session(session.spark, storage.schema.fields).of_target(frame)
    every = Scan(storage, snapshot, None, None)
    whole = Relation(table.name, spark_schema(storage.schema.fields), every)
    version = None if snapshot is None else snapshot.id
    read = TableRead(table.name, version, tuple(names), text, whole, scan, division)
    return Target(snapshot, frame, text, read)
