"""How Spark joins tables whose rows Python workers merge: by sizes that it can rely on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark_sessions import kind_of_session

from headwater.spark import SparkLake

pytestmark = [pytest.mark.spark]

ROWS = 3000
JOIN = "SELECT a.id, a.amount + b.amount AS total FROM shop.sales a JOIN shop.sales b USING (id)"
THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"


@pytest.fixture
def merged(spark: SparkSession, lake: SparkLake) -> Iterator[SparkLake]:
    """A lake with a table of rows that are merged when they are read."""
    if kind_of_session() == "connect":
        pytest.skip("plans are not shown")
    before = spark.conf.get(THRESHOLD)
    options = {"bucket": "1", "write-only": "true"}
    schema = spark.range(0).selectExpr("id", "id * 2 AS amount").schema
    lake.sql("CREATE DATABASE IF NOT EXISTS shop")
    sales = lake.create_table("shop.sales", schema, primary_keys=["id"], options=options)
    for more, ids in enumerate((range(ROWS), range(0, ROWS, 10))):
        sales.write({"id": list(ids), "amount": [id * 2 + more for id in ids]})
    yield lake
    assert before is not None
    spark.conf.set(THRESHOLD, before)


@pytest.mark.parametrize(
    ("threshold", "join"), [("20kB", "SortMergeJoin"), ("1MB", "BroadcastHashJoin")]
)
def test_only_what_is_small_is_broadcast(
    spark: SparkSession, merged: SparkLake, threshold: str, join: str
) -> None:
    spark.conf.set(THRESHOLD, threshold)
    frame = merged.sql(JOIN)
    plan = frame._jdf.queryExecution().sparkPlan().toString()
    assert "MapInArrow" in plan
    assert join in plan
    expected = 2 * (sum(range(0, 2 * ROWS, 2)) + len(range(0, ROWS, 10)))
    assert sum(row.total for row in frame.collect()) == expected


def test_columns_have_the_size_that_spark_gives_those_of_parquet_files(
    spark: SparkSession, lake: SparkLake
) -> None:
    if kind_of_session() == "connect":
        pytest.skip("plans are not shown")
    lake.sql(f"CREATE TABLE db.t AS SELECT id, repeat('x', 50) AS note FROM range({ROWS})")
    (split,) = lake.catalog.table("db.t").scan().splits
    plain = spark.read.parquet(*(f"{split.directory}/{each.file_name}" for each in split.files))
    plain.createOrReplaceTempView("plain")
    try:
        sizes = {_estimate(run(f"SELECT id FROM {name}")) for run, name in (
            (lake.sql, "db.t"), (spark.sql, "plain"),
        )}  # fmt: skip
    finally:
        spark.catalog.dropTempView("plain")
    assert len(sizes) == 1


def _estimate(frame: DataFrame) -> int:
    """The bytes that Spark's optimiser takes a frame for."""
    return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
