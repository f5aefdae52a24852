"""Run the benchmarks: `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.spark_table import Measurement, SparkTable
from headwater.spark import local_session


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the table")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side; medians count")
    parser.add_argument("--cores", type=int, default=2, help="tasks that Spark runs at once")
    parser.add_argument("--memory", default="3g", help="memory of Spark's own process")
    chosen = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        spark = local_session(
            "headwater-bench",
            cores=chosen.cores,
            memory=chosen.memory,
            settings={"spark.local.dir": folder, "spark.sql.warehouse.dir": f"{folder}/warehouse"},
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            bench = SparkTable(
                spark,
                Path(folder),
                chosen.rows,
                chosen.rounds,
                lambda text: console.print(f"[dim]{text} …[/dim]"),
            )
            results = bench.run()
        finally:
            spark.stop()
    title = f"{chosen.rows:,} rows x 7 columns, local[{chosen.cores}], medians of {chosen.rounds}"
    console.print(_table(title, results))
    return int(any(result.ratio > result.most for result in results))


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


if __name__ == "__main__":
    sys.exit(main())
