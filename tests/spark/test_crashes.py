"""Streaming writes that are killed at each of their steps: no row is lost and none comes twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.conftest import Numbered, rows
from tests.spark.dying_follower import POINTS

from headwater.spark import SparkLake

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

SOURCE, TARGET = "db.source", "db.target"
PROGRAM = Path(__file__).with_name("dying_follower.py")
FOLLOWER = Path(__file__).with_name("follower.py")
COMMITS = {
    "task-wrote": 1,
    "before-commit": 1,
    "decided": 2,
    "committed": 2,
    "noted": 2,
    "between-writes": 3,
    "function-done": 4,
}
"""The commits of the target at the time of death, of one or two in each batch."""


def _kill_at(point: str, folder: Path, checkpoint: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), str(checkpoint), point],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.wait(timeout=300) == -signal.SIGKILL
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.parametrize("point", POINTS)
def test_a_query_that_is_killed_goes_on_without_loss_or_doubling(
    spark: SparkSession,
    lake: SparkLake,
    numbered: Numbered,
    folder: Path,
    tmp_path: Path,
    point: str,
) -> None:
    for name in (SOURCE, TARGET):
        # Append tables, where what comes twice is there twice.
        lake.create_table(name, numbered(0, 1).schema)
    for start in (0, 10, 20):
        lake.write(numbered(start, start + 10), SOURCE)
    _kill_at(point, folder, tmp_path / "checkpoint")
    died = lake.catalog.table(TARGET).latest_snapshot()
    assert died is not None
    assert died.id == COMMITS[point]

    lake.write(numbered(30, 40), SOURCE)
    stream = spark.readStream.format("headwater").options(
        **{"consumer-id": "copy", "headwater.consumer.lease-time": "3 s"}
    )
    writer = stream.load(SOURCE).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def function(df: DataFrame, batch_id: int) -> None:
        batch = lake.for_batch(batch_id)
        batch.write(df.where("id % 2 = 0"), TARGET)
        batch.write(df.where("id % 2 = 1"), TARGET)

    if point in ("between-writes", "function-done"):
        writer.foreachBatch(function).start().awaitTermination()
    else:
        writer.format("headwater").start(TARGET).awaitTermination()
    assert rows(lake.table(TARGET)) == rows(numbered(0, 40))
    assert lake.catalog.table(SOURCE).consumer("copy").next_snapshot == 5


def test_a_killed_query_goes_on_with_columns_that_changed_meanwhile(
    spark: SparkSession,
    lake: SparkLake,
    numbered: Numbered,
    folder: Path,
    tmp_path: Path,
) -> None:
    for name in (SOURCE, TARGET):
        lake.create_table(name, numbered(0, 1).schema)
    for start in (0, 10, 20):
        lake.write(numbered(start, start + 10), SOURCE)
    _kill_at("committed", folder, tmp_path / "checkpoint")
    for name in (SOURCE, TARGET):
        lake.sql(f"ALTER TABLE {name} ADD COLUMNS (extra INT FIRST)")
        lake.sql(f"ALTER TABLE {name} RENAME COLUMN name TO label")
    new = numbered(30, 40, "new").withColumnRenamed("name", "label")
    lake.write(new.selectExpr("CAST(id AS INT) AS extra", "*"), SOURCE)
    options = {"consumer-id": "copy", "headwater.consumer.lease-time": "3 s"}
    stream = spark.readStream.format("headwater").options(**options).load(SOURCE)
    writer = stream.writeStream.trigger(availableNow=True).format("headwater")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.start(TARGET).awaitTermination()
    old = [(None, *row) for row in rows(numbered(0, 30))]
    assert rows(lake.table(TARGET)) == sorted(
        [*old, *((row[0], *row) for row in rows(numbered(30, 40, "new")))], key=repr
    )
    # And the columns may change once more between two queries of one checkpoint.
    for name in (SOURCE, TARGET):
        lake.sql(f"ALTER TABLE {name} ALTER COLUMN extra TYPE BIGINT")
    lake.sql(f"INSERT INTO {SOURCE} VALUES (5000000000, 40, 'last', '1')")
    stream = spark.readStream.format("headwater").options(**options).load(SOURCE)
    writer = stream.writeStream.trigger(availableNow=True).format("headwater")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.start(TARGET).awaitTermination()
    assert lake.table(TARGET, where="extra > 40").collect() == [(5000000000, 40, "last", "1")]
    assert lake.table(TARGET).count() == 41


def test_one_of_two_sessions_has_a_consumer_until_it_is_killed(
    spark: SparkSession, lake: SparkLake, numbered: Numbered, folder: Path, tmp_path: Path
) -> None:
    for name in (SOURCE, TARGET):
        lake.create_table(name, numbered(0, 1).schema)
    lake.write(numbered(0, 10), SOURCE)
    consumer = lake.catalog.table(SOURCE).consumer("shared")
    program = [sys.executable, str(FOLLOWER), str(folder), str(tmp_path / "theirs"), "shared"]
    process = subprocess.Popen(
        program,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def read_up_to(position: int) -> None:
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.2)
            if consumer.next_snapshot == position:
                return
        raise AssertionError(f"the other session ended with {process.returncode}")

    def follow(checkpoint: str) -> StreamingQuery:
        stream = spark.readStream.format("headwater").options(
            # Long enough for the other session to be heard of, however busy the machine is.
            **{"consumer-id": "shared", "headwater.consumer.lease-time": "20 s"}
        )
        writer = stream.load(SOURCE).writeStream.trigger(availableNow=True).format("headwater")
        return writer.option("checkpointLocation", str(tmp_path / checkpoint)).start(TARGET)

    try:
        read_up_to(2)
        with pytest.raises(StreamingQueryException, match=r"'shared' .*is in use"):
            follow("ours").awaitTermination()
        lake.write(numbered(10, 20), SOURCE)
        read_up_to(3)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lake.write(numbered(20, 30), SOURCE)
    follow("ours").awaitTermination()
    assert rows(lake.table(TARGET)) == rows(numbered(0, 30))
    assert consumer.next_snapshot == 4
