"""Tables of each way to spread rows over buckets, written by Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

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
        ({"bucket": "2", "deletion-vectors.enabled": "true"}, {2}),
        (
            {
                "bucket": "2",
                "deletion-vectors.enabled": "true",
                "pk-clustering-override": "true",
                "clustering.columns": "v,id",
            },
            {2},
        ),
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


MODES: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "dynamic": (["p", "id"], {"dynamic-bucket.target-row-num": "20"}),
    "across partitions": (["id"], {"dynamic-bucket.target-row-num": "20"}),
    "postponed": (["p", "id"], {"bucket": "-2", "postpone.default-bucket-num": "2"}),
}


def _keyed(lake: SparkLake, spark: SparkSession, mode: str) -> None:
    keys, options = MODES[mode]
    lake.create_table(
        "db.t",
        frame(spark, 0, 1, 0).schema,
        primary_keys=keys,
        partition_keys=["p"],
        options=options,
    )


@pytest.mark.modes
@pytest.mark.parametrize("mode", MODES)
def test_frames_are_written_without_a_shuffle(
    spark: SparkSession, lake: SparkLake, folder: Path, mode: str
) -> None:
    _keyed(lake, spark, mode)

    def write(df: DataFrame, how: str = "append") -> None:
        df.write.format("headwater").mode(how).save("db.t")

    write(frame(spark, 0, 120, 1))
    write(frame(spark, 100, 160, 2).repartition(7))
    expected = {key: (key % 2, key, 2 if key >= 100 else 1) for key in range(160)}
    assert rows(lake.table("db.t")) == sorted(expected.values(), key=repr)
    # Rows of all tasks have the same keys, old ones and new.
    again = frame(spark, 150, 170, 3)
    write(again.union(again).union(again).repartition(6))
    expected |= {key: (key % 2, key, 3) for key in range(150, 170)}
    assert rows(lake.table("db.t")) == sorted(expected.values(), key=repr)
    write(frame(spark, 4, 6, 4).withColumn("_ROW_KIND", sf.lit("-D")))
    moved = frame(spark, 10, 12, 5).withColumn("p", sf.lit(7))
    if mode == "across partitions":
        write(moved)
        expected |= {key: (7, key, 5) for key in (10, 11)}
    del expected[4], expected[5]
    assert rows(lake.table("db.t")) == sorted(expected.values(), key=repr)
    write(frame(spark, 0, 10, 6).where("p = 0"), "overwrite")
    expected = {key: row for key, row in expected.items() if row[0] != 0}
    expected |= {key: (0, key, 6) for key in range(0, 10, 2)}
    assert rows(lake.table("db.t")) == sorted(expected.values(), key=repr)
    # What tasks left for the commit is gone.
    assert not list(folder.rglob("bucket-postpone/*"))


@pytest.mark.modes
@pytest.mark.parametrize("mode", MODES)
def test_streams_are_written(
    spark: SparkSession, lake: SparkLake, folder: Path, tmp_path: Path, mode: str
) -> None:
    _keyed(lake, spark, mode)
    source = tmp_path / "source"
    source.mkdir()
    schema = frame(spark, 0, 1, 0).schema
    query = (
        spark.readStream.schema(schema)
        .parquet(str(source))
        .writeStream.format("headwater")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )
    for version, (first, last) in enumerate([(0, 50), (30, 80)]):
        frame(spark, first, last, version).write.mode("append").parquet(str(source))
        query.start("db.t").awaitTermination()
    lake.compact("db.t")
    expected = [(key % 2, key, int(key >= 30)) for key in range(80)]
    assert rows(lake.table("db.t")) == sorted(expected, key=repr)
    assert not [path for path in folder.rglob("bucket-postpone/*") if mode != "postponed"]
