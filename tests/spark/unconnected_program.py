"""A program that uses the format without having connected, as a user would type it.

``unconnected_program.py KIND ROOM CATALOG``: Spark is started with the setting that names the
catalog, locally without any help of Headwater's.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path

from pyspark.sql import SparkSession

PLACE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def session(kind: str, room: Path, catalog: str) -> AbstractContextManager[SparkSession]:
    settings = {**PLACE, "spark.headwater.uri": catalog, "spark.sql.shuffle.partitions": "2"}
    if kind == "local":
        builder = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        made: AbstractContextManager[SparkSession] = builder.getOrCreate()
        return made
    from tests.spark_sessions import session_of_kind

    return session_of_kind(kind, room, settings)


def main(kind: str, room: Path, catalog: str) -> None:
    with session(kind, room, catalog) as spark:
        rows = spark.range(3).withColumnRenamed("id", "n")
        rows.write.format("headwater").mode("append").save("db.t")
        read = spark.read.format("headwater").load("db.t")
        print("read", sorted(row.n for row in read.collect()))
        stream = spark.readStream.format("headwater").load("db.t")
        writer = stream.writeStream.format("headwater").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(room / "checkpoint"))
        writer.start("db.copy").awaitTermination()
        copy = spark.read.format("headwater").load("db.copy")
        print("copied", sorted(row.n for row in copy.collect()))
        if kind == "local":
            print("imported", [name for name in sys.modules if name.startswith("headwater")])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
