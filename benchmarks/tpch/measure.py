"""TPC-H over tables of a lake, beside the same rows as Parquet files."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame

from benchmarks.measurement import Measurement
from benchmarks.tpch.tables import QUERIES, TpchTables
from headwater.spark import connect, local_session

__all__ = ["measure"]


def measure(
    scale: float,
    rounds: int,
    cores: int,
    memory: str,
    place: Path | None,
    report: Callable[[str], None],
) -> list[Measurement]:
    """The time of all 22 queries, over compacted tables and over ones with changes."""
    with tempfile.TemporaryDirectory(prefix="headwater-tpch-", dir=place) as folder:
        spark = local_session(
            "headwater-tpch",
            cores=cores,
            memory=memory,
            settings={
                "spark.local.dir": folder,
                "spark.sql.warehouse.dir": f"{folder}/warehouse",
                "spark.sql.shuffle.partitions": str(cores * 2),
            },
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            lake = connect(spark, Path(folder, "lake"))
            tables = TpchTables(spark, lake, Path(folder, "parquet"), scale)
            report(f"making TPC-H at scale {scale:g}")
            tables.generate()
            report("writing it to tables")
            tables.load(compact=True)
            compacted = _measured(tables, rounds, "compacted", 1.1, report)
            report("changing 5 % of the rows")
            tables.change()
            return [compacted, _measured(tables, rounds, "5 % changed since", 1.5, report)]
        finally:
            spark.stop()


def _measured(
    tables: TpchTables, rounds: int, name: str, most: float, report: Callable[[str], None]
) -> Measurement:
    ours = theirs = 0.0
    for number, query in enumerate(QUERIES, 1):
        own: list[float] = []
        reference: list[float] = []
        sides = [(own, tables.by_lake), (reference, tables.by_parquet)]
        for turn in range(rounds):
            # Whoever is first pays for what the JVM compiles and the disk has yet to read.
            for seconds, run in sides if (number + turn) % 2 else reversed(sides):
                seconds.append(_seconds(run, query))
        report(f"{name}, query {number}: {median(own):.1f} s beside {median(reference):.1f} s")
        ours += median(own)
        theirs += median(reference)
    return Measurement(
        f"22 queries, tables {name}", f"{ours:.1f} s", f"{theirs:.1f} s", ours / theirs, most=most
    )


def _seconds(run: Callable[[str], DataFrame], query: str) -> float:
    start = time.perf_counter()
    run(query).collect()
    return time.perf_counter() - start
