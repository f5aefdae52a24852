"""The demo's story: a year of flights through a server, Spark and a consumer.

Each chapter does one thing that a lakehouse table is for, and compares what Headwater then
answers with what plain Spark computes from the source data.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.demo.checks import expect, expect_same_rows
from headwater.cli.demo.display import Display
from headwater.cli.demo.source import (
    ADDED_COLUMN,
    FLIGHT_KEY,
    FLIGHT_SCHEMA,
    MONTHS,
    WEATHER_SCHEMA,
    Batch,
    Feed,
    Kind,
)
from headwater.storage.rows.ingest import ROW_KIND_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headwater.catalog.table.table import Table
    from headwater.client import Lake
    from headwater.spark import SparkLake

__all__ = ["CHAPTERS", "FLIGHTS", "FOLLOWER", "WEATHER", "Story"]

FLIGHTS = "nyc.flights"
WEATHER = "nyc.weather"
FOLLOWER = "nyc.flights_live"

CONSUMER = "live"
TAG = "first-half"
HALF = MONTHS // 2
KEPT_SNAPSHOTS = 5
BUCKETS = "2"

CHAPTERS = 12
"""The number of steps that `Story.tell` shows."""


class Story:
    """The demo from the first table to the last check.

    Args:
        spark: A session.
        lake: The catalog in Spark.
        client: The catalog in Python.
        feed: The source data.
        folder: For the streaming queries' checkpoints.
        display: Shows the progress.
    """

    def __init__(
        self,
        spark: SparkSession,
        lake: SparkLake,
        client: Lake,
        feed: Feed,
        folder: Path,
        display: Display,
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._client = client
        self._feed = feed
        self._folder = folder
        self._display = display
        self._snapshot_after: dict[Batch, int] = {}
        self._queries: list[StreamingQuery] = []
        self._compacted = (0, 0)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def tell(self) -> None:
        """Tell the story.

        Raises:
            Difference: A result is not what plain Spark computes.
        """
        self._create()
        self._load_weather()
        self._load_months(1, 1)
        first = self._follow()
        self._load_months(2, HALF)
        self._stop_half_way(first)
        self._add_column()
        self._load_months(HALF + 1, MONTHS)
        self._travel()
        self._compact()
        self._expire_behind_the_consumer()
        self._catch_up()
        self._expire_all()
        self._answer()

    def stop(self) -> None:
        """Stop whatever query still runs."""
        for query in self._queries:
            query.stop()

    # Loading

    def _create(self) -> None:
        with self._display.step("Create the tables") as step:
            self._client.create_database("nyc")
            for name in (FLIGHTS, FOLLOWER):
                self._client.create_table(
                    name,
                    FLIGHT_SCHEMA,
                    primary_keys=FLIGHT_KEY,
                    partition_keys=["month"],
                    options={"bucket": BUCKETS},
                )
            self._client.create_table(WEATHER, WEATHER_SCHEMA)
            step.note = f"{FLIGHTS}: key {', '.join(FLIGHT_KEY)}; partitioned by month"

    def _load_weather(self) -> None:
        with self._display.step("Load the weather") as step, self._timed(WEATHER):
            weather = self._feed.weather
            for part in (weather.month <= HALF, weather.month > HALF):
                self._lake.write(weather.where(part), WEATHER)
            rows = expect_same_rows("the weather", self._lake.table(WEATHER), weather)
            step.note = f"{rows:,} rows, as plain Spark has them"

    def _load_months(self, first: int, last: int) -> None:
        title = "Load January" if last == 1 else f"Load month {first} to month {last}"
        with self._display.step(title) as step:
            kinds: Counter[Kind] = Counter()
            with self._timed(FLIGHTS):
                for month in range(first, last + 1):
                    for batch in self._feed.batches(month):
                        step.at(f"{batch.kind} of month {month}")
                        kinds[batch.kind] += self._commit(batch)
            last_batch = self._feed.batches(last)[-1]
            rows = self._expect_state(f"{FLIGHTS} after month {last}", FLIGHTS, last_batch)
            changes = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
            step.note = f"{changes}; {rows:,} rows, as plain Spark computes"

    def _commit(self, batch: Batch) -> int:
        from pyspark.sql import functions as F

        kind = "-D" if batch.kind is Kind.CANCELLED else "+I"
        rows = self._feed.rows(batch).withColumn(ROW_KIND_COLUMN, F.lit(kind))
        before = self._latest(FLIGHTS)
        self._lake.write(rows, FLIGHTS)
        after = self._latest(FLIGHTS)
        expect(f"snapshots of the commit of {batch}", after, before + 1)
        self._snapshot_after[batch] = after
        return self._table(FLIGHTS).snapshot(after).delta_record_count

    def _add_column(self) -> None:
        from headwater.storage.schema.change import AddColumn
        from headwater.storage.types.atomic_type import AtomicType, Root

        with self._display.step("Add a column half way") as step:
            for name in (FLIGHTS, FOLLOWER):
                self._client.alter_table(
                    name, AddColumn((ADDED_COLUMN,), AtomicType(Root.INT), "seats of the plane")
                )
            filled = self._lake.table(FLIGHTS).where(f"{ADDED_COLUMN} IS NOT NULL").count()
            expect("old rows with a value in the new column", filled, 0)
            step.note = f"{ADDED_COLUMN} INT: null in every old row"

    # The consumer

    def _follow(self) -> StreamingQuery:
        with self._display.step("Follow its changes with a streaming query") as step:
            with self._timed(FOLLOWER):
                query = self._start_query("first")
                # Until its first batch is done it is open which snapshot it starts from.
                query.processAllAvailable()
            step.note = f"into {FOLLOWER}, with the consumer id '{CONSUMER}'"
        return query

    def _start_query(self, name: str) -> StreamingQuery:
        query = (
            self._spark.readStream.format("headwater")
            .option("consumer-id", CONSUMER)
            .load(FLIGHTS)
            .writeStream.format("headwater")
            .option("checkpointLocation", str(self._folder / f"checkpoint-{name}"))
            .start(FOLLOWER)
        )
        self._queries.append(query)
        return query

    def _stop_half_way(self, query: StreamingQuery) -> None:
        with self._display.step("Stop the query half way") as step, self._timed(FOLLOWER):
            query.processAllAvailable()
            query.stop()
            position = self._position()
            half = self._feed.batches(HALF)[-1]
            expect("the consumer's next snapshot", position, self._snapshot_after[half] + 1)
            rows = self._expect_state(f"{FOLLOWER} half way", FOLLOWER, half)
            self._table(FLIGHTS).create_tag(TAG)
            step.note = f"{rows:,} rows in {FOLLOWER}; the consumer goes on at snapshot {position}"

    def _catch_up(self) -> None:
        title = "Go on with a new query: the same consumer id, no checkpoint"
        with self._display.step(title) as step:
            with self._timed(FOLLOWER):
                query = self._start_query("second")
                query.processAllAvailable()
                query.stop()
            last = self._feed.batches(MONTHS)[-1]
            rows = self._expect_state(f"{FOLLOWER} at the end", FOLLOWER, last)
            read = sum(
                progress.numInputRows
                for follower in self._queries
                for progress in follower.recentProgress
            )
            expect("changes that the two queries read", read, self._feed.count(MONTHS))
            expect("the consumer's next snapshot", self._position(), self._latest(FLIGHTS) + 1)
            step.note = f"{rows:,} rows, equal to the source; {read:,} changes, each read once"

    def _position(self) -> int | None:
        return self._table(FLIGHTS).consumer(CONSUMER).next_snapshot

    # History

    def _travel(self) -> None:
        with self._display.step("Travel in time") as step:
            april = self._feed.batches(4)[-1]
            may = self._feed.batches(5)[0]
            half = self._feed.batches(HALF)[-1]
            instant = self._table(FLIGHTS).snapshot(self._snapshot_after[may]).time_millis
            for option, value, batch in (
                ("scan.snapshot-id", self._snapshot_after[april], april),
                ("scan.timestamp-millis", instant, may),
                ("scan.tag-name", TAG, half),
            ):
                step.at(option)
                frame = self._read(FLIGHTS, **{option: str(value)})
                self._expect_state(f"{FLIGHTS} at {option} {value}", frame, batch)
            step.note = f"snapshot {self._snapshot_after[april]}, a timestamp, the tag '{TAG}'"

    def _compact(self) -> None:
        with self._display.step("Compact") as step:
            before = self._file_count(FLIGHTS)
            with self._timed(FLIGHTS):
                self._lake.compact(FLIGHTS)
            after = self._file_count(FLIGHTS)
            self._compacted = (before, after)
            last = self._feed.batches(MONTHS)[-1]
            self._expect_state(f"{FLIGHTS} after compaction", FLIGHTS, last)
            step.note = f"{before} files became {after}; the same rows"

    def _expire_behind_the_consumer(self) -> None:
        with self._display.step("Expire snapshots: the lagging consumer holds them back") as step:
            position = self._position()
            gone = self._expire()
            expect("the oldest snapshot that is kept", self._oldest(FLIGHTS), position)
            step.note = f"{gone} expired; from snapshot {position} on, all are kept"

    def _expire_all(self) -> None:
        with self._display.step("Expire snapshots: the consumer has caught up") as step:
            gone = self._expire()
            oldest = self._latest(FLIGHTS) - KEPT_SNAPSHOTS + 1
            expect("the oldest snapshot that is kept", self._oldest(FLIGHTS), oldest)
            half = self._feed.batches(HALF)[-1]
            tagged = self._read(FLIGHTS, **{"scan.tag-name": TAG})
            self._expect_state(f"{FLIGHTS} at its tag after expiry", tagged, half)
            last = self._feed.batches(MONTHS)[-1]
            self._expect_state(f"{FLIGHTS} after expiry", FLIGHTS, last)
            step.note = f"{gone} expired, {KEPT_SNAPSHOTS} kept; the tag still reads"

    def _expire(self) -> int:
        before = len(self._table(FLIGHTS).snapshots())
        self._table(FLIGHTS).expire_snapshots(retain_max=KEPT_SNAPSHOTS, retain_min=1)
        return before - len(self._table(FLIGHTS).snapshots())

    # Using it

    def _answer(self) -> None:
        """Ask all tables one question, with Spark and with Python, and plain Spark the same."""
        with self._display.step("Ask: what does rain cost?") as step:
            last = self._feed.batches(MONTHS)[-1]
            answer = _delay_by_rain(self._lake.table(FLIGHTS), self._lake.table(WEATHER))
            expected = _delay_by_rain(self._feed.state_after(last), self._feed.weather)
            expect_same_rows("delays by rain", answer, expected)
            worst = self._worst_destination()
            minutes = {row["rain"]: row["minutes"] / row["flights"] for row in answer.collect()}
            step.note = (
                f"in rain flights arrive {minutes[True]:.1f} min late, else {minutes[False]:.1f}; "
                f"most minutes late in all: {worst}"
            )

    def _worst_destination(self) -> str:
        """The destination with the most minutes of delay: by the SDK, checked by plain Spark."""
        from pyspark.sql import functions as F

        late = (
            self._table(FLIGHTS)
            .scan(columns=["dest", "arr_delay"], where="arr_delay > 0")
            .to_arrow()
            .group_by("dest")
            .aggregate([("arr_delay", "sum")])
            .sort_by([("arr_delay_sum", "descending"), ("dest", "ascending")])
            .slice(0, 1)
            .to_pylist()[0]
        )
        last = self._feed.batches(MONTHS)[-1]
        expected = (
            self._feed.state_after(last)
            .where("arr_delay > 0")
            .groupBy("dest")
            .agg(F.sum("arr_delay").alias("minutes"))
            .join(self._feed.airports, F.col("dest") == F.col("faa"), "left")
            .orderBy(F.desc("minutes"), "dest")
            .head()
        )
        assert expected is not None
        found = (late["dest"], late["arr_delay_sum"])
        expect("the worst destination", found, (expected["dest"], expected["minutes"]))
        return str(expected["name"] or expected["dest"])

    # The closing table

    def summary(self) -> list[list[str]]:
        """A row for each table: name, rows, snapshots, files before and after, seconds."""
        return [self._summary_of(name) for name in (FLIGHTS, WEATHER, FOLLOWER)]

    def _summary_of(self, name: str) -> list[str]:
        files = self._compacted if name == FLIGHTS else (self._file_count(name), None)
        return [
            name,
            f"{self._table(name).scan().count():,}",
            f"{len(self._table(name).snapshots())} of {self._latest(name)}",
            *("-" if count is None else f"{count:,}" for count in files),
            f"{self._seconds[name]:.1f}",
        ]

    # Helpers

    def _expect_state(self, what: str, table: str | DataFrame, batch: Batch) -> int:
        actual = self._lake.table(table) if isinstance(table, str) else table
        return expect_same_rows(what, actual, self._feed.state_after(batch))

    def _read(self, name: str, **options: str) -> DataFrame:
        return self._spark.read.format("headwater").options(**options).load(name)

    def _table(self, name: str) -> Table:
        return self._client.table(name)

    def _latest(self, name: str) -> int:
        from headwater.catalog.model.identifier import Identifier

        latest = self._client.catalog.snapshots.latest(Identifier.parse(name))
        return latest.snapshot.id if latest is not None else 0

    def _oldest(self, name: str) -> int:
        return min(snapshot.id for snapshot in self._table(name).snapshots())

    def _file_count(self, name: str) -> int:
        return len(self._table(name).files())

    @contextmanager
    def _timed(self, name: str) -> Generator[None]:
        started = time.monotonic()
        yield
        self._seconds[name] += time.monotonic() - started


def _delay_by_rain(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Flights and their minutes of delay, in rain and without, by sums of whole minutes."""
    from pyspark.sql import functions as F

    return (
        flights.where("arr_delay IS NOT NULL")
        .join(weather.select("origin", "time_hour", "precip"), ["origin", "time_hour"])
        .groupBy((F.col("precip") > 0).alias("rain"))
        .agg(F.count(F.lit(1)).alias("flights"), F.sum("arr_delay").alias("minutes"))
    )
