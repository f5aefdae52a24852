"""The cost of planning a query by `SparkLake.sql`: ``python -m benchmarks.sql_planning``.

The reference is what a Spark user writes without a catalog: `spark.read.parquet` for each table,
and `spark.sql` over them. Both are measured in processor time of Python and of Spark's own process,
in turns, as a loaded machine does not change it much.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headwater.spark import connect, local_session

__all__ = ["measure"]

TABLES = 10
_WARM_UP, _ROUNDS = 8, 7


def measure(spark: SparkSession, folder: Path) -> tuple[float, float]:
    """The median processor seconds of planning one query: Headwater's, and the reference's."""
    lake = connect(spark, folder)
    lake.catalog.create_database("db")
    paths: list[str] = []
    ids = range(1000)
    rows = pa.table({"id": ids, "v": [f"v{at}" for at in ids], "w": [float(at) for at in ids]})
    for number in range(TABLES):
        table = lake.catalog.create_table(f"db.t{number}", rows.schema)
        table.write(rows)
        paths.append(f"{table.storage.layout.location}/bucket-0")
    names = [f"t{number}" for number in range(TABLES)]
    joins = " ".join(f"JOIN {{}} {name} ON {name}.id = t0.id" for name in names[1:])
    columns = ", ".join(f"{name}.v" for name in names)
    conditions = " AND ".join(f"{name}.w < {number + 50}" for number, name in enumerate(names))
    text = f"SELECT {columns} FROM {{}} t0 {joins} WHERE {conditions}"

    def by_lake() -> DataFrame:
        return lake.sql(text.format(*(f"db.{name}" for name in names)))

    def by_spark() -> DataFrame:
        frames: Any = {
            name: spark.read.parquet(path) for name, path in zip(names, paths, strict=True)
        }
        return spark.sql(text.format(*(f"{{{name}}}" for name in names)), **frames)

    assert by_lake().schema == by_spark().schema
    for _ in range(_WARM_UP):
        by_lake()
        by_spark()
    own, reference = [], []
    for _ in range(_ROUNDS):
        own.append(_seconds(spark, by_lake))
        reference.append(_seconds(spark, by_spark))
    return statistics.median(own), statistics.median(reference)


def _seconds(spark: SparkSession, work: Callable[[], DataFrame]) -> float:
    before = _processor_time(spark)
    work()
    return _processor_time(spark) - before


def _processor_time(spark: SparkSession) -> float:
    """Processor seconds of this process and of Spark's, which it started; Linux only."""
    gateway: Any = spark.sparkContext._gateway
    # The fields after the command's name, in which there may be blanks.
    fields = Path(f"/proc/{gateway.proc.pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
    user, system = fields.split()[11:13]
    return time.process_time() + (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        spark = local_session("headwater-bench", cores=2, memory="1g")
        spark.sparkContext.setLogLevel("ERROR")
        try:
            own, reference = measure(spark, Path(folder, "lake"))
        finally:
            spark.stop()
    print(f"a query of {TABLES} tables, processor milliseconds to plan (medians of {_ROUNDS}):")
    print(
        f"SparkLake.sql {own * 1000:.0f}, spark.read.parquet and spark.sql {reference * 1000:.0f}"
    )
    print(f"more: {(own - reference) * 1000:.0f}")


if __name__ == "__main__":
    main()
