"""Ingest and scan of a primary-key table in Spark, each against plain Parquet in the same run.

Both write the same 7 columns, spread by key over 4 buckets or files and sorted by key. The scan
is an aggregate over all rows and columns of the table after three upserts of a tenth of its rows,
not compacted, against the same aggregate over plain Parquet files of the rows that remain.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from benchmarks.orders import KEY, aggregate, orders, upserts
from headwater.spark import SparkLake, connect

__all__ = ["Measurement", "SparkTable"]

BUCKETS = 4
UPSERTS = 3
TABLE = "bench.orders"


@dataclass(frozen=True)
class Measurement:
    """Headwater's time beside the reference's.

    Attributes:
        name: What was done.
        seconds: Headwater, run by run.
        reference: The reference, run by run.
        most: How many times the reference's median Headwater's may be.
    """

    name: str
    seconds: Sequence[float]
    reference: Sequence[float]
    most: float

    @property
    def ratio(self) -> float:
        """Headwater's median, in units of the reference's."""
        return median(self.seconds) / median(self.reference)


class SparkTable:
    """The measurements.

    Args:
        spark: A session.
        folder: For all data; what is in it is overwritten.
        rows: Rows of the table.
        rounds: How often each side is measured; they take turns.
        say: Told what is going on.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        rows: int,
        rounds: int,
        say: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._rows = rows
        self._rounds = rounds
        self._say = say

    def run(self) -> list[Measurement]:
        """Measure ingest, then scan."""
        self._say(f"making {self._rows:,} rows")
        source = self._stored(orders(self._spark, self._rows), "source")
        ingest, lake = self._ingest(source)
        return [ingest, self._scan(source, lake)]

    def _path(self, name: str) -> str:
        return str(self._folder / name)

    def _stored(self, df: DataFrame, name: str) -> DataFrame:
        df.write.mode("overwrite").parquet(self._path(name))
        return self._spark.read.parquet(self._path(name))

    def _ingest(self, source: DataFrame) -> tuple[Measurement, SparkLake]:
        ours: list[float] = []
        theirs: list[float] = []
        lake = self._new_lake(source)

        def plain() -> None:
            shutil.rmtree(self._path("plain"), ignore_errors=True)
            spread = source.repartition(BUCKETS, KEY).sortWithinPartitions(KEY)
            theirs.append(_timed(lambda: spread.write.parquet(self._path("plain"))))

        def headwater() -> None:
            nonlocal lake
            lake = self._new_lake(source)
            ours.append(_timed(lambda: lake.write(source, TABLE)))

        self._take_turns("ingest", headwater, plain)
        return Measurement("ingest", ours, theirs, 2.0), lake

    def _scan(self, source: DataFrame, lake: SparkLake) -> Measurement:
        rows = source
        for version in range(1, UPSERTS + 1):
            self._say(f"upsert {version} of {UPSERTS}")
            newer = self._stored(upserts(self._spark, self._rows, version), f"upsert-{version}")
            lake.write(newer, TABLE)
            rows = rows.join(newer.select(KEY), KEY, "left_anti").unionByName(newer)
        spread = rows.repartition(BUCKETS, KEY).sortWithinPartitions(KEY)
        remaining = self._stored(spread, "remaining")
        ours: list[float] = []
        theirs: list[float] = []
        found: list[tuple[object, ...]] = []
        expected: list[tuple[object, ...]] = []

        def plain() -> None:
            theirs.append(_timed(lambda: expected.append(aggregate(remaining))))

        def headwater() -> None:
            ours.append(_timed(lambda: found.append(aggregate(lake.table(TABLE)))))

        self._take_turns("scan", headwater, plain)
        if len(set(found + expected)) != 1:
            raise SystemExit(f"the scan is wrong: {found[0]} is not {expected[0]}")
        name = f"scan after {UPSERTS} upserts of a tenth"
        return Measurement(name, ours, theirs, 2.0)

    def _new_lake(self, source: DataFrame) -> SparkLake:
        shutil.rmtree(self._path("lake"), ignore_errors=True)
        lake = connect(self._spark, self._path("lake"))
        lake.catalog.create_database("bench")
        lake.create_table(
            TABLE, source.schema, primary_keys=[KEY], options={"bucket": str(BUCKETS)}
        )
        return lake

    def _take_turns(self, name: str, *sides: Callable[[], None]) -> None:
        """Run each side in turn, so that what disturbs the machine disturbs both."""
        for turn in range(self._rounds):
            self._say(f"{name}, round {turn + 1} of {self._rounds}")
            for side in sides[:: -1 if turn % 2 else 1]:
                side()


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
