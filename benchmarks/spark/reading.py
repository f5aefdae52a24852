"""Scans of tables beside Spark's own scan of Parquet files with the same rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from benchmarks.measurement import Measurement
from benchmarks.orders import aggregate
from benchmarks.spark.comparison import Comparison
from benchmarks.spark.order_tables import BUCKETS, OrderTables

__all__ = ["append", "compacted", "deletion_vectors", "merge_on_read", "pruned"]


def merge_on_read(tables: OrderTables, comparison: Comparison) -> list[Measurement]:
    """All rows and columns after upserts that nothing has merged."""
    name, rows = tables.upserted, tables.plain_upserted
    return [_scanned(tables, comparison, "merge on read, all columns", 1.25, name, rows)]


def pruned(tables: OrderTables, comparison: Comparison) -> list[Measurement]:
    """Two of seven columns and one row in a hundred."""
    name, rows = tables.upserted, tables.plain_upserted

    def by_sql() -> object:
        text = f"SELECT count(*), sum(quantity) FROM {name} WHERE amount < 100"
        return tuple(tables.lake.sql(text).collect()[0])

    def plain() -> object:
        found = rows.where(sf.col("amount") < 100).agg(sf.count("*"), sf.sum("quantity"))
        return tuple(found.collect()[0])

    return [comparison.measure("merge on read, 2 of 7 columns, a filter", 1.25, by_sql, plain)]


def compacted(tables: OrderTables, comparison: Comparison) -> list[Measurement]:
    """A table that has been compacted as a whole."""
    name = tables.loaded("compacted", {"bucket": str(BUCKETS), "write-only": "true"})
    tables.lake.write(tables.newer[0], name)
    tables.lake.compact(name, full=True)
    rows = _spread_rows(tables, tables.lake.table(name), "plain-compacted")
    return [_scanned(tables, comparison, "compacted table", 1.05, name, rows)]


def append(tables: OrderTables, comparison: Comparison) -> list[Measurement]:
    """A table without a primary key."""
    name = tables.loaded("append", {}, keyed=False)
    rows = _spread_rows(tables, tables.source, "plain-append")
    return [_scanned(tables, comparison, "append table", 1.05, name, rows)]


def deletion_vectors(tables: OrderTables, comparison: Comparison) -> list[Measurement]:
    """A table a tenth of whose rows deletion vectors mark."""
    name = tables.loaded("vectors", {"deletion-vectors.enabled": "true"}, keyed=False)
    tables.lake.delete(name, where="order_id % 10 = 4")
    left = tables.source.where("order_id % 10 != 4")
    rows = _spread_rows(tables, left, "plain-vectors")
    return [_scanned(tables, comparison, "deletion vectors on a tenth", 1.05, name, rows)]


def _scanned(
    tables: OrderTables,
    comparison: Comparison,
    title: str,
    most: float,
    name: str,
    files: DataFrame,
) -> Measurement:
    """All rows and columns of a table, beside files with the same rows."""
    return comparison.measure(
        title, most, lambda: aggregate(tables.lake.table(name)), lambda: aggregate(files)
    )


def _spread_rows(tables: OrderTables, df: DataFrame, name: str) -> DataFrame:
    """Rows in as many Parquet files as a table has buckets."""
    return tables.stored(df.repartition(BUCKETS), name)
