"""Functions of ``foreachBatch`` that write once, though Spark calls them again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from tests.spark.conftest import Numbered, data_files, named_files, rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid

pytestmark = [pytest.mark.spark, pytest.mark.modes]

SOURCE, FIRST, SECOND = "db.source", "db.first", "db.second"

Run = Callable[[Callable[[DataFrame, int], None]], None]


@pytest.fixture
def tables(lake: SparkLake, numbered: Numbered) -> None:
    """Append tables, where what comes twice is there twice."""
    for name in (SOURCE, FIRST, SECOND):
        lake.create_table(name, numbered(0, 1).schema)


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    """Runs a query on the source with a checkpoint, until it has caught up."""

    def start(function: Callable[[DataFrame, int], None]) -> None:
        stream = spark.readStream.format("headwater").load(SOURCE)
        writer = stream.writeStream.foreachBatch(function).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()

    return start


def latest(lake: SparkLake, name: str) -> int:
    snapshot = lake.catalog.table(name).latest_snapshot()
    return 0 if snapshot is None else snapshot.id


@pytest.mark.usefixtures("tables")
def test_a_batch_that_failed_between_its_writes_is_finished_and_not_repeated(
    lake: SparkLake, numbered: Numbered, run: Run, folder: Path
) -> None:
    lake.write(numbered(0, 20), SOURCE)
    written: list[bool] = []
    is_broken = True

    def function(df: DataFrame, batch_id: int) -> None:
        batch = lake.for_batch(batch_id)
        written.append(batch.write(df.where("id < 10"), FIRST))
        written.append(batch.write(df.where("id >= 10"), FIRST))
        if is_broken:
            raise RuntimeError("the driver dies here")
        written.append(batch.write(df, SECOND))

    with pytest.raises(StreamingQueryException, match="the driver dies here"):
        run(function)
    assert written == [True, True]
    is_broken = False
    run(function)
    assert written == [True, True, False, False, True]
    lake.write(numbered(20, 25), SOURCE)
    run(function)
    assert written[5:] == [True, True, True]
    for name in (FIRST, SECOND):
        assert rows(lake.table(name)) == rows(numbered(0, 25))
    # The first part of the second batch was empty, which is no commit.
    assert (latest(lake, FIRST), latest(lake, SECOND)) == (3, 2)
    names = named_files(lake, SOURCE) + named_files(lake, FIRST) + named_files(lake, SECOND)
    assert data_files(folder) == sorted(names)


@pytest.mark.usefixtures("tables")
def test_a_batch_is_known_by_its_query_and_number(lake: SparkLake, numbered: Numbered) -> None:
    one = numbered(0, 3)
    assert lake.for_batch(0, query="q").write(one, FIRST)
    assert not lake.for_batch(0, query="q").write(one, FIRST)
    lake.write(one, FIRST)
    assert not lake.for_batch(0, query="q").write(one, FIRST)
    assert lake.for_batch(0, query="another").write(one, FIRST)
    assert lake.for_batch(0, query="q").write(one, SECOND)
    assert lake.for_batch(7, query="q").write(one, FIRST)
    assert lake.table(FIRST).count() == 12
    with pytest.raises(Invalid, match="batch 7 of query q has been written, and this is batch 0"):
        lake.for_batch(0, query="q").write(one, FIRST)
    with pytest.raises(Invalid, match="the streaming query is not known here"):
        lake.for_batch(0)
    for query, batch_id in ((" ", 0), ("q", -1)):
        with pytest.raises(Invalid):
            lake.for_batch(batch_id, query=query)
    assert lake.table(FIRST).count() == 12


def test_compactions_of_batches_do_not_pass_for_later_batches(
    lake: SparkLake, numbered: Numbered
) -> None:
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}
    lake.create_table(FIRST, numbered(0, 1).schema, primary_keys=["id"], options=options)
    for batch_id in range(4):
        name = f"v{batch_id}"
        assert lake.for_batch(batch_id, query="q").write(numbered(0, 5, name), FIRST)
        assert not lake.for_batch(batch_id, query="q").write(numbered(0, 5, "again"), FIRST)
    kinds = {snapshot.commit_kind.value for snapshot in lake.catalog.table(FIRST).snapshots()}
    assert kinds == {"APPEND", "COMPACT"}
    assert rows(lake.table(FIRST)) == rows(numbered(0, 5, "v3"))


@pytest.mark.usefixtures("tables")
def test_an_overwrite_of_a_batch_is_done_once(lake: SparkLake, numbered: Numbered) -> None:
    assert lake.for_batch(0, query="q").write(numbered(0, 5), FIRST, "overwrite")
    lake.write(numbered(5, 6), FIRST)
    assert not lake.for_batch(0, query="q").write(numbered(0, 5), FIRST, "overwrite")
    assert rows(lake.table(FIRST)) == rows(numbered(0, 6))
    part = numbered(9, 10).withColumn("part", sf.lit("x"))
    assert lake.for_batch(1, query="q").write(part, FIRST, "overwrite")
    assert rows(lake.table(FIRST)) == rows(part)


@pytest.mark.usefixtures("tables")
def test_updated_results_are_upserts(
    spark: SparkSession, lake: SparkLake, numbered: Numbered, tmp_path: Path
) -> None:
    counts = spark.createDataFrame([("", 0)], "part STRING NOT NULL, count BIGINT")
    lake.create_table("db.counts", counts.schema, primary_keys=["part"], options={"bucket": "1"})
    for start, stop in ((0, 30), (30, 31)):
        lake.write(numbered(start, stop), SOURCE)
    updated: list[int] = []

    def function(df: DataFrame, batch_id: int) -> None:
        updated.append(df.count())
        lake.for_batch(batch_id).write(df, "db.counts")

    stream = spark.readStream.format("headwater").options(
        **{
            "scan.mode": "from-snapshot",
            "scan.snapshot-id": "1",
            "read.stream.maxSnapshotsPerTrigger": "1",
        }
    )
    grouped = stream.load(SOURCE).groupBy("part").count()
    writer = grouped.writeStream.outputMode("update").foreachBatch(function)
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    writer.start().awaitTermination()
    assert updated == [3, 1]
    assert rows(lake.table("db.counts")) == [("0", 11), ("1", 10), ("2", 10)]
