"""The rows of a table that a change may touch, as a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from headwater.catalog.table.scan import Scan
from headwater.catalog.table.table import Table
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.source.parquet_scan import Division
from headwater.spark.source.table_frame import divide_rows, frame_of_division
from headwater.spark.types import spark_schema
from headwater.storage.predicate.filter import Predicate, to_sql
from headwater.storage.snapshot.snapshot import Snapshot

__all__ = ["Target", "read_target"]


@dataclass(frozen=True)
class Target:
    """Rows of a table as of a snapshot.

    Attributes:
        table: The table.
        snapshot: The snapshot.
        frame: The rows; of an append table with the columns of
            `headwater.storage.read.positioned_rows`.
        predicate: The condition that rows fulfil, as SQL text. The frame may have others, too.
    """

    table: Table
    snapshot: Snapshot | None
    frame: DataFrame
    predicate: str | None


def read_target(
    session: CatalogSession,
    table: Table,
    snapshot: Snapshot | None,
    columns: Sequence[str],
    predicate: Predicate | None,
) -> Target:
    """The rows of a table that a change may touch.

    Args:
        session: The catalog's.
        table: The table.
        snapshot: The snapshot to read; None for a table without one.
        columns: The columns that the change needs.
        predicate: Only rows that may fulfil it are needed. It must be one that Spark sees, too:
            Spark's own scan skips files by it, and does not filter rows.
    """
    storage = table.storage
    names = list(columns) or [storage.schema.fields[0].name]
    text = None if predicate is None else to_sql(predicate, storage.schema)
    scan = Scan(storage, snapshot, names, predicate, for_change=True)
    schema = spark_schema(storage.schema.columns(names))
    division = divide_rows(scan, names) if snapshot is not None else Division((), ())
    positioned = not storage.schema.primary_keys
    frame = frame_of_division(session, scan, division, schema, positioned=positioned)
    return Target(table, snapshot, frame, text)
