"""The frame of one table of a query: what the query needs of it, by the readers that can."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headwater.catalog.table.branch_scan import BranchScan
from headwater.catalog.table.scan import Changes, Rows, Scan
from headwater.spark.catalog_session import CatalogSession
from headwater.spark.names import quoted
from headwater.spark.source.parquet_scan import divide, native_frame
from headwater.spark.source.worker_rows import worker_frame
from headwater.spark.sql.query.relations import Relation, is_ordered
from headwater.spark.types import conform, spark_arrow_schema
from headwater.storage.predicate.filter import Predicate
from headwater.storage.scan.split import Split

__all__ = ["relation_frame"]


def relation_frame(
    session: CatalogSession,
    relation: Relation,
    columns: Collection[str] | None = None,
    predicate: Predicate | None = None,
) -> DataFrame:
    """A table with all its columns, of which those that are not needed may be null.

    Args:
        session: The catalog's.
        relation: The table.
        columns: Those that are needed; None for all.
        predicate: Rows for which it is not true are not needed.
    """
    spark, schema = session.spark, relation.schema
    if relation.rows is None:
        assert relation.content is not None
        content = relation.content.combine_chunks()
        arrow = spark_arrow_schema(schema)
        batches = [conform(batch, arrow) for batch in content.to_batches()]
        if not batches:
            return spark.createDataFrame([], schema)
        return spark.createDataFrame(type(content).from_batches(batches, arrow))
    rows = relation.rows
    names = schema.fieldNames()
    needed = names if columns is None else [name for name in names if name in columns]
    # A batch without columns would not tell Spark how many rows it has.
    needed = needed or names[:1]
    narrowed = _narrowed(rows, needed, predicate)
    splits = narrowed.splits
    if not splits:
        return spark.createDataFrame([], schema)
    native: tuple[Split, ...] = ()
    python = splits
    if isinstance(narrowed, Scan) and not isinstance(narrowed, BranchScan):
        division = divide(narrowed.storage, splits, needed)
        native, python = division.native, division.python
    frames: list[DataFrame] = []
    if native:
        frames.append(native_frame(spark, narrowed.storage, native, names))
    if python:
        part = type(schema)([field for field in schema.fields if field.name in needed])
        frame = worker_frame(
            spark,
            narrowed,
            python,
            part,
            session.connection.parallelism,
            ordered=is_ordered(rows),
        )
        columns_of: list[Column] = [
            (sf.col(quoted(field.name)) if field.name in needed else sf.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in schema.fields
        ]
        frames.append(frame.select(columns_of) if len(needed) < len(names) else frame)
    return frames[0] if len(frames) == 1 else frames[0].union(frames[1])


def _narrowed(rows: Rows, columns: list[str], predicate: Predicate | None) -> Rows:
    if isinstance(rows, Scan | Changes):
        return rows.narrowed(columns, predicate)
    # Logs of changes add columns of their own, and the table's columns may be lists there.
    own = [name for name in columns if name in rows.storage.schema.field_by_name]
    return rows.narrowed(own or None, None)
