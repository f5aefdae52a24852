"""The part of the benchmarks that runs in Spark: what is measured, and the session it runs in."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measurement import Measurement
from benchmarks.spark import reading, streaming, writing
from benchmarks.spark.comparison import Clock, Comparison
from benchmarks.spark.order_tables import OrderTables
from benchmarks.spark.rivals.lines import RIVALS
from headwater.spark import local_session

__all__ = ["LINES", "SparkLimits", "measure"]

Line = Callable[[OrderTables, Comparison], list[Measurement]]

LINES: Mapping[str, Line] = {
    "ingest": writing.ingest,
    "merge-on-read": reading.merge_on_read,
    "pruned": reading.pruned,
    "compacted": reading.compacted,
    "append": reading.append,
    "vectors": reading.deletion_vectors,
    "merge": writing.merge,
    "stream": streaming.small_commits,
}
"""What is measured, by the name that `--only` has for it."""


@dataclass(frozen=True)
class SparkLimits:
    """How much is measured.

    Attributes:
        rows: Rows of a table.
        commits: Commits that a stream follows; at least 100.
        rounds: How often each side is measured.
        cores: The tasks that Spark runs at once.
        memory: The memory of Spark's own process.
        clock: The clock that ratios are of.
    """

    rows: int
    commits: int
    rounds: int
    cores: int
    memory: str
    clock: Clock


def measure(
    limits: SparkLimits, only: Sequence[str], place: Path | None, report: Callable[[str], None]
) -> list[Measurement]:
    """Measure some lines.

    Args:
        limits: How much of them.
        only: Names of `LINES` and of `RIVALS`.
        place: A folder for the data; None is one that the system has for such.
        report: Told what is going on.
    """
    results: list[Measurement] = []

    def told(found: list[Measurement]) -> None:
        results.extend(found)
        for one in found:
            report(f"{one.name}: {one.ours} beside {one.reference}: {one.ratio:.2f}")
        report(f"load {os.getloadavg()[0]:.1f}")

    comparison = Comparison(limits.rounds, limits.clock, report)
    for name in only:
        if name in RIVALS:
            with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=place) as folder:
                room = Path(folder).absolute()
                line = RIVALS[name]
                told(line(room, limits.rows, limits.cores, limits.memory, comparison))
    own = [name for name in only if name in LINES]
    if not own:
        return results
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=place) as folder:
        spark = local_session(
            "headwater-bench",
            cores=limits.cores,
            memory=limits.memory,
            settings={"spark.local.dir": folder, "spark.sql.warehouse.dir": f"{folder}/warehouse"},
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            tables = OrderTables(spark, Path(folder).absolute(), limits.rows, limits.commits)
            for name in own:
                told(LINES[name](tables, comparison))
        finally:
            spark.stop()
    return results
