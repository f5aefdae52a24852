"""A program on a cluster whose executors get the package from it.

``cluster_program.py CATALOG ROOM ARCHIVE PATH``: in an empty folder ROOM it starts a cluster whose
executors look for programs in PATH, sends them ARCHIVE and works on the catalog's tables.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark.sql.types as st
from pyspark import TaskContext
from pyspark.sql import SparkSession
from tests.spark_sessions import session_of_kind

from headwater.spark import SparkLake, connect

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # A second attempt of every task that is slower than the others, and executors that come and go.
    "spark.speculation": "true",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.executor.cores": "1",
}

DRIVER = 1
"""Spark counts its driver among the executors."""


def main(catalog: str, room: str, archive: str, path: str) -> None:
    with session_of_kind("cluster", Path(room), SETTINGS, {"PATH": path}) as spark:
        spark.sparkContext.addPyFile(archive)
        lake = connect(spark, catalog)
        _keyed(spark, lake, Path(room, "idle"))
        _speculated(spark, lake, Path(room, "speculated"))
        _killed(spark, lake, Path(room, "killed"))


def _keyed(spark: SparkSession, lake: SparkLake, marker: Path) -> None:
    columns = [st.StructField("id", st.LongType(), False), st.StructField("n", st.LongType())]
    options = {"bucket": "2", "write-only": "true"}
    lake.create_table("db.keyed", st.StructType(columns), primary_keys=["id"], options=options)
    lake.write(spark.range(0, 1000, 1, 4).selectExpr("id", "0L AS n"), "db.keyed")
    lake.write(spark.range(900, 1100, 1, 4).selectExpr("id", "1L AS n"), "db.keyed")
    # The compaction begins without any executor. Spark keeps those that hold the exchanged rows of
    # a job until its own garbage is collected, which a program as small as this never makes it do.
    machine, tracker = spark._jvm, spark.sparkContext._jsc.sc().statusTracker()
    assert machine is not None
    while len(tracker.getExecutorInfos()) > DRIVER:
        machine.System.gc()
        time.sleep(0.1)
    marker.touch()
    lake.compact("db.keyed")
    lake.delete("db.keyed", where="id < 100")


def _speculated(spark: SparkSession, lake: SparkLake, marker: Path) -> None:
    """Append rows; one task is held up at its end until Spark has tried it a second time."""
    lake.create_table("db.speculated", st.StructType([st.StructField("id", st.LongType())]))
    gate = marker.with_suffix(".gate")
    os.mkfifo(gate)

    def held_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        assert task is not None
        if task.partitionId() == 0 and task.attemptNumber() == 0:
            gate.read_bytes()
        elif task.partitionId() == 0:
            # It fails when the first attempt does not wait.
            os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
            marker.touch()

    rows = spark.range(0, 40_000, 1, 2).mapInArrow(held_up, "id LONG")
    lake.write(rows, "db.speculated")


def _killed(spark: SparkSession, lake: SparkLake, marker: Path) -> None:
    """Append rows; the executor of one task dies when some of its rows are written."""
    lake.create_table("db.appended", st.StructType([st.StructField("id", st.LongType())]))

    def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if batch.column(0)[0].as_py() == 0 and not marker.exists():
                marker.touch()
                daemon = os.getppid()
                executor = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
                os.kill(int(executor), signal.SIGKILL)

    rows = spark.range(0, 40_000, 1, 2).mapInArrow(die_once, "id LONG")
    lake.write(rows, "db.appended")


if __name__ == "__main__":
    main(*sys.argv[1:])
