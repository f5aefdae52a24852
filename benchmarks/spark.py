"""The part of the benchmarks that runs in Spark."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.spark_table import Measurement, SparkTable
from headwater.spark import local_session

__all__ = ["measure"]


def measure(rows: int, rounds: int, cores: int, memory: str) -> bool:
    """Measure, show, and say whether every ratio is what it must be."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        spark = local_session(
            "headwater-bench",
            cores=cores,
            memory=memory,
            settings={"spark.local.dir": folder, "spark.sql.warehouse.dir": f"{folder}/warehouse"},
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            bench = SparkTable(
                spark,
                Path(folder),
                rows,
                rounds,
                lambda text: console.print(f"[dim]{text} …[/dim]"),
            )
            results = bench.run()
        finally:
            spark.stop()
    title = f"{rows:,} rows x 7 columns, local[{cores}], medians of {rounds}"
    console.print(_table(title, results))
    return all(result.ratio <= result.most for result in results)


def _table(title: str, results: list[Measurement]) -> Table:
    table = Table(title=title)
    for heading in ("", "Headwater, s", "plain Parquet, s", "ratio", "at most"):
        table.add_column(heading, justify="left" if not heading else "right")
    for result in results:
        table.add_row(
            result.name,
            " ".join(f"{seconds:.1f}" for seconds in result.seconds),
            " ".join(f"{seconds:.1f}" for seconds in result.reference),
            f"{result.ratio:.2f}",
            f"{result.most:.1f}",
        )
    return table
