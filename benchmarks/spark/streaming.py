"""Streams over many small commits, beside a stream of Spark's own over as many small files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks.measurement import Measurement
from benchmarks.spark.comparison import Comparison
from benchmarks.spark.order_tables import OrderTables
from benchmarks.spark.processor import spent

__all__ = ["small_commits"]

_ROWS_OF_COMMIT = 10
# The first batches warm up; the share of the others that counts as early, or as late.
_WARM_UP = 20
_SHARE = 4


def small_commits(tables: OrderTables, comparison: Comparison) -> list[Measurement]:
    """A query that follows small commits, a batch for each."""
    report, commits = comparison.report, tables.commits
    report(f"writing {commits:,} commits")
    name = "bench.commits"
    schema = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.string())])
    table = tables.lake.catalog.create_table(
        name, schema, primary_keys=["id"], options={"bucket": "1", "write-only": "true"}
    )
    folder = tables.path("small-files")
    folder.mkdir()
    numbers = range(_ROWS_OF_COMMIT)
    for number in range(commits):
        ids = [number * _ROWS_OF_COMMIT + one for one in numbers]
        rows = pa.table({"id": ids, "v": [f"v{one}" for one in ids]}, schema)
        table.write(rows)
        pq.write_table(rows, folder / f"{number:06}.parquet")
    spark = tables.spark
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(commits + 10))
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    changes = (
        spark.readStream.format("headwater")
        .option("scan.mode", "from-snapshot")
        .option("scan.snapshot-id", "1")
        .option("include-row-kind", "true")
        .option("read.stream.maxSnapshotsPerTrigger", "1")
        .load(name)
    )
    plain = (
        spark.readStream.schema("id BIGINT, v STRING")
        .option("maxFilesPerTrigger", "1")
        .parquet(str(folder))
    )
    checkpoints = count()

    def follow(frame: DataFrame) -> Sequence[dict[str, int]]:
        place = tables.path(f"checkpoint-{next(checkpoints)}")
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(place))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        done = [one for one in query.recentProgress if one.numInputRows]
        if sum(one.numInputRows for one in done) != commits * _ROWS_OF_COMMIT:
            raise SystemExit("the stream lost rows, or read some twice")
        return [dict(one.durationMs) for one in done]

    times: list[Sequence[dict[str, int]]] = []
    other: list[Sequence[dict[str, int]]] = []
    report("following them")
    own_cost = spent(lambda: times.append(follow(changes)))
    plain_cost = spent(lambda: other.append(follow(plain)))

    def batch(durations: Sequence[dict[str, int]]) -> float:
        return median(one["triggerExecution"] for one in durations[_WARM_UP:])

    own, theirs = batch(times[0]), batch(other[0])
    planning = [_planning(one) for one in times[0]][_WARM_UP:]
    part = max(1, len(planning) // _SHARE)
    early, late = median(planning[:part]), median(planning[-part:])
    report(f"{commits:,} batches: {own_cost} beside {plain_cost}")
    return [
        Measurement(
            "ms of a batch beyond Spark's own",
            f"{own:.0f} ms",
            f"{theirs:.0f} ms",
            own - theirs,
            most=100,
        ),
        Measurement(
            f"planning of the last {part} of {commits} batches, by the first {part}",
            f"{late:.0f} ms",
            f"{early:.0f} ms",
            late / max(early, 1),
            most=1.3,
        ),
    ]


def _planning(durations: dict[str, int]) -> int:
    """Milliseconds of a batch in which the source says what it is made of."""
    return durations.get("latestOffset", 0) + durations.get("queryPlanning", 0)
