"""Writes of tables beside Spark's own writes of Parquet files."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from benchmarks.measurement import Measurement
from benchmarks.orders import KEY, aggregate, changes
from benchmarks.spark.comparison import Comparison
from benchmarks.spark.order_tables import BUCKETS, OrderTables, spread

__all__ = ["ingest", "merge"]

_KEYED = {"bucket": str(BUCKETS), "write-only": "true"}
_VECTORS = {"deletion-vectors.enabled": "true"}


def ingest(tables: OrderTables, comparison: Comparison) -> list[Measurement]:
    """Rows in no order into a primary-key table, and into sorted Parquet files."""
    source = tables.source

    def plain() -> None:
        spread(source).write.mode("overwrite").parquet(str(tables.path("ingest")))

    def headwater() -> None:
        tables.lake.write(source, "bench.ingest")

    result = comparison.measure(
        "ingest into a primary-key table",
        1.3,
        headwater,
        plain,
        lambda: tables.new("ingest", {"bucket": str(BUCKETS)}),
    )
    if aggregate(tables.lake.table("bench.ingest")) != aggregate(source):
        raise SystemExit("ingest: the rows are others than were written")
    return [result]


def merge(tables: OrderTables, comparison: Comparison) -> list[Measurement]:
    """New values for 1 % of the rows, beside writing all rows anew."""
    newer = tables.stored(changes(tables.spark, tables.rows), "changes")
    return [
        _merge(tables, comparison, newer, "primary key", _KEYED, keyed=True),
        _merge(tables, comparison, newer, "append, vectors", _VECTORS, keyed=False),
    ]


def _merge(
    tables: OrderTables,
    comparison: Comparison,
    newer: DataFrame,
    kind: str,
    options: Mapping[str, str],
    *,
    keyed: bool,
) -> Measurement:
    name = tables.loaded(f"merge_{'keyed' if keyed else 'append'}", options, keyed=keyed)
    before = tables.lake.catalog.table(name).latest_snapshot()
    assert before is not None
    rewritten = str(tables.path("rewritten"))

    def headwater() -> object:
        builder = tables.lake.merge(name, newer, on=[KEY])
        counts = builder.when_matched_update_all().when_not_matched_insert_all().execute()
        return counts.updated, counts.inserted

    def rewrite() -> object:
        kept = tables.plain.join(newer.select(KEY), KEY, "left_anti")
        kept.unionByName(newer).write.mode("overwrite").parquet(rewritten)
        return tables.rows // 100, 0

    def back() -> None:
        tables.lake.catalog.table(name).rollback(snapshot_id=before.id)

    result = comparison.measure(f"MERGE of 1 %, {kind}", 0.4, headwater, rewrite, back)
    found = aggregate(tables.lake.table(name))
    expected = aggregate(tables.spark.read.parquet(rewritten))
    if found != expected:
        raise SystemExit(f"MERGE, {kind}: the rows are {found} and should be {expected}")
    return result
