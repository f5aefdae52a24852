"""Run the benchmarks: `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks.engine.measure import StorageEngine
from benchmarks.engine.orders import KEYS
from benchmarks.engine.scale import TableScale
from benchmarks.measurement import measurement_table
from benchmarks.rest.measure import Limits, RestServer

SOURCES = ("mariadb", "postgresql")
PARTS = ("engine", "scale", "cdc", "spark", "tpch", "rest")
PLACE = Path(".bench")
LAKANA = PLACE / "lakana"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="?", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side; medians count")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the tables measured")
    parser.add_argument(
        "--place",
        type=Path,
        help=f"folder for the data of all but rest; {PLACE}, the system's own for spark and tpch",
    )
    parser.add_argument(
        "--clock",
        choices=["wall", "processor"],
        default="wall",
        help="what ratios of engine, scale and spark are of",
    )
    engine = parser.add_argument_group("engine")
    engine.add_argument("--keys", nargs="*", default=list(KEYS), choices=KEYS, help="kinds of keys")
    scale = parser.add_argument_group("scale")
    scale.add_argument("--files", type=int, default=100_000, help="files of a large table")
    scale.add_argument("--partitions", type=int, default=1000, help="its partitions")
    scale.add_argument("--upserts", type=int, default=5000, help="upserts of one table")
    scale.add_argument("--upserted", type=int, default=1_000_000, help="rows of that table")
    cdc = parser.add_argument_group("cdc, whose ratios are of processor times")
    cdc.add_argument("--changes", type=int, default=2_000_000, help="rows of a log")
    cdc.add_argument("--transactions", type=int, default=200_000, help="transactions of one row")
    cdc.add_argument(
        "--sources", nargs="*", choices=SOURCES, default=SOURCES, help="databases to follow"
    )
    cdc.add_argument(
        "--freshness",
        type=float,
        metavar="SECONDS",
        help="measure nothing but how fresh tables are while a source changes for so long",
    )
    spark = parser.add_argument_group("spark")
    spark.add_argument("--cores", type=int, default=2, help="tasks that Spark runs at once")
    spark.add_argument("--memory", default="3g", help="memory of Spark's own process")
    spark.add_argument(
        "--only",
        nargs="*",
        metavar="LINE",
        help="lines to measure; all but delta, paimon",
    )
    spark.add_argument(
        "--stream-commits", type=int, default=1000, help="commits that a stream follows"
    )
    tpch = parser.add_argument_group("tpch, with spark's cores and memory")
    tpch.add_argument("--scale", type=float, default=1.0, help="TPC-H's scale factor")
    rest = parser.add_argument_group("rest")
    rest.add_argument("--seconds", type=float, default=10.0, help="how long each load lasts")
    rest.add_argument("--tables", type=int, default=1_000_000, help="what counts as many tables")
    rest.add_argument("--snapshots", type=int, default=10_000, help="what counts as many snapshots")
    rest.add_argument("--commits", type=int, default=1000, help="commits timed for growth")
    rest.add_argument("--without-lakana", action="store_true", help="leave the other server out")
    rest.add_argument(
        "--serve", action="append", default=[], metavar="ARGUMENT", help="more for headwater serve"
    )
    chosen = parser.parse_args()
    for folder in (PLACE, chosen.place):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    holds = [
        run(chosen)
        for part, run in (
            ("engine", _engine),
            ("scale", _scale),
            ("cdc", _cdc),
            ("spark", _spark),
            ("tpch", _tpch),
            ("rest", _rest),
        )
        if chosen.part in (part, "all")
    ]
    return int(not all(holds))


def _engine(chosen: argparse.Namespace) -> bool:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="engine-", dir=chosen.place or PLACE) as folder:
        bench = StorageEngine(
            Path(folder).absolute(),
            chosen.rows,
            chosen.rounds,
            lambda text: console.print(f"[dim]{text} …[/dim]"),
            chosen.clock,
        )
        results = bench.run(chosen.keys)
    console.print(measurement_table(f"Storage engine, {chosen.rows:,} rows x 7 columns", results))
    return all(result.holds for result in results)


def _scale(chosen: argparse.Namespace) -> bool:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="scale-", dir=chosen.place or PLACE) as folder:
        bench = TableScale(
            Path(folder).absolute(),
            chosen.files,
            chosen.partitions,
            chosen.upserts,
            chosen.upserted,
            chosen.rounds,
            lambda text: console.print(f"[dim]{text} …[/dim]"),
            chosen.clock,
        )
        results = bench.run()
    console.print(measurement_table("Tables of many files and many commits", results))
    return all(result.holds for result in results)


def _cdc(chosen: argparse.Namespace) -> bool:
    # Here, not above: the others are measured without PyMySQL.
    from benchmarks.cdc.freshness import Freshness
    from benchmarks.cdc.measure import ChangeDataCapture
    from benchmarks.cdc.measure_postgresql import PostgresCapture

    console = Console()
    if chosen.freshness is not None:
        with tempfile.TemporaryDirectory(prefix="cdc-", dir=chosen.place or PLACE) as folder:
            fresh = Freshness(
                Path(folder).absolute(),
                chosen.freshness,
                lambda text: console.print(f"[dim]{text} …[/dim]"),
            )
            results = fresh.run()
        title = f"Freshness, 2,000 changed rows/s over 50 tables for {chosen.freshness:g} s"
        console.print(measurement_table(title, results))
        return all(result.holds for result in results)

    def say(text: str) -> None:
        console.print(f"[dim]{text} …[/dim]")

    results, missing = [], []
    with tempfile.TemporaryDirectory(prefix="cdc-", dir=chosen.place or PLACE) as folder:
        place, rows = Path(folder).absolute(), chosen.changes
        if "mariadb" in chosen.sources:
            bench = ChangeDataCapture(place, rows, chosen.transactions, chosen.rounds, say)
            results += bench.run()
            missing += bench.missing
        if "postgresql" in chosen.sources:
            other = PostgresCapture(place, rows, chosen.rounds, say)
            results += other.run()
            missing += other.missing
    console.print(measurement_table("Change data capture, per processor second", results))
    for line in missing:
        console.print(line)
    return all(result.holds for result in results)


def _spark(chosen: argparse.Namespace) -> bool:
    # Here, not above: the server is measured without Java.
    from benchmarks.spark.measure import LINES, SparkLimits, measure
    from benchmarks.spark.rivals.lines import RIVALS

    only = list(LINES) if chosen.only is None else chosen.only
    if unknown := sorted(set(only) - {*LINES, *RIVALS}):
        raise SystemExit(f"--only takes {', '.join([*LINES, *RIVALS])}, not {', '.join(unknown)}")
    console = Console()
    limits = SparkLimits(
        chosen.rows,
        chosen.stream_commits,
        chosen.rounds,
        chosen.cores,
        chosen.memory,
        chosen.clock,
    )
    results = measure(
        limits, only, chosen.place, lambda text: console.print(f"[dim]{text} …[/dim]")
    )
    title = f"{chosen.rows:,} rows x 7 columns, local[{chosen.cores}], medians of {chosen.rounds}"
    console.print(measurement_table(title, results))
    return all(result.holds for result in results)


def _tpch(chosen: argparse.Namespace) -> bool:
    from benchmarks.tpch.measure import measure

    console = Console()
    results = measure(
        chosen.scale,
        chosen.rounds,
        chosen.cores,
        chosen.memory,
        chosen.place,
        lambda text: console.print(f"[dim]{text} …[/dim]"),
    )
    console.print(measurement_table(f"TPC-H at scale {chosen.scale:g}", results))
    return all(result.holds for result in results)


def _rest(chosen: argparse.Namespace) -> bool:
    console = Console()
    limits = Limits(chosen.seconds, chosen.rounds, chosen.tables, chosen.snapshots, chosen.commits)
    # Not where files come and go all the time: some file systems look through those deleted lately
    # for each one that is made. Nor in memory, where a flush costs nothing.
    with tempfile.TemporaryDirectory(prefix="rest-", dir=PLACE.absolute()) as folder:
        bench = RestServer(
            Path(folder),
            limits,
            None if chosen.without_lakana else LAKANA.absolute(),
            chosen.serve,
            lambda text: console.print(f"[dim]{text} …[/dim]"),
        )
        results = bench.run()
    console.print(
        measurement_table(f"REST, PostgreSQL, 8 client threads, {chosen.seconds:g} s", results)
    )
    return all(result.holds for result in results)


if __name__ == "__main__":
    sys.exit(main())
