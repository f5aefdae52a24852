"""Tables of each way to spread rows over buckets, written by Spark."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from tests.spark.conftest import rows

from headwater.spark import SparkLake

pytestmark = pytest.mark.spark


def frame(spark: SparkSession, first: int, last: int, version: int) -> DataFrame:
    keys = spark.range(first, last, numPartitions=3)
    return keys.select((sf.col("id") % 2).cast("int").alias("p"), "id", sf.lit(version).alias("v"))


@pytest.mark.modes
@pytest.mark.parametrize(
    ("options", "totals"),
    [
        ({"bucket": "3", "bucket-function.type": "mod"}, {3}),
        ({"bucket": "-2", "postpone.default-bucket-num": "2"}, {2}),
        ({"bucket": "-1", "dynamic-bucket.target-row-num": "20"}, {-1}),
        ({"bucket": "-1", "dynamic-bucket.initial-buckets": "3"}, {-1}),
    ],
)
def test_each_key_comes_to_one_bucket(
    spark: SparkSession, lake: SparkLake, options: Mapping[str, str], totals: set[int]
) -> None:
    schema = frame(spark, 0, 1, 0).schema
    lake.create_table(
        "db.t", schema, primary_keys=["p", "id"], partition_keys=["p"], options=options
    )
    lake.write(frame(spark, 0, 120, 1), "db.t")
    table = lake.catalog.table("db.t")
    table.write(frame(spark, 100, 160, 2).toArrow().cast(table.schema.arrow))
    lake.write(frame(spark, 40, 180, 3), "db.t")
    expected = [(key % 2, key, 3 if key >= 40 else 1) for key in range(180)]
    assert rows(lake.table("db.t")) == sorted(expected, key=repr)
    lake.delete("db.t", "id < 40")
    lake.compact("db.t")
    assert rows(lake.table("db.t")) == sorted(expected[40:], key=repr)
    splits = table.scan().splits
    assert {split.total_buckets for split in splits} == totals
    assert len({split.bucket for split in splits}) > 1
    assert table.scan(where="id = 77").to_arrow().num_rows == 1


@pytest.mark.modes
@pytest.mark.parametrize("options", [{}, {"dynamic-bucket.initial-buckets": "3"}])
def test_keys_move_between_partitions(
    spark: SparkSession, lake: SparkLake, options: Mapping[str, str]
) -> None:
    def part(first: int, last: int, partition: int) -> DataFrame:
        return frame(spark, first, last, partition).withColumn("p", sf.lit(partition))

    lake.create_table(
        "db.t",
        frame(spark, 0, 1, 0).schema,
        primary_keys=["id"],
        partition_keys=["p"],
        options={"dynamic-bucket.target-row-num": "20", **options},
    )
    lake.write(part(0, 60, 1), "db.t")
    lake.write(part(40, 90, 2), "db.t")
    kinds = [(1, 40, 2, "-D"), (3, 40, 3, "+U"), (2, 0, 0, "+I"), (2, 89, 2, "-D")]
    lake.write(spark.createDataFrame(kinds, ["p", "id", "v", "_ROW_KIND"]), "db.t")
    moved = [(2, 0, 0), (3, 40, 3)]
    kept = [(1, k, 1) for k in range(1, 40)] + [(2, k, 2) for k in range(41, 89)]
    assert rows(lake.table("db.t")) == sorted(moved + kept, key=repr)
    lake.write(part(0, 10, 3), "db.t", mode="overwrite")
    kept = [row for row in kept if row[1] >= 10]
    assert rows(lake.table("db.t")) == sorted([(3, k, 3) for k in range(10)] + kept, key=repr)


def test_tasks_that_would_share_keys_are_refused(spark: SparkSession, lake: SparkLake) -> None:
    data = frame(spark, 0, 10, 1)
    lake.create_table(
        "db.t", data.schema, primary_keys=["p", "id"], partition_keys=["p"], options={}
    )
    with pytest.raises(Exception, match=r"write with SparkLake\.write"):
        data.write.format(lake._format).mode("append").save("db.t")
    assert rows(lake.table("db.t")) == []
