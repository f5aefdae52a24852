"""The demo's own reasoning: its source data, its comparison, and the whole of it as a process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests import plain_http

from headwater.cli.demo.checks import Difference, expect_same_rows
from headwater.cli.demo.source import FLIGHT_KEY, MONTHS, Feed, Kind, prepare

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    prepare(folder)
    return folder


def test_the_source_is_all_of_the_year_and_its_key_is_one(source: Path) -> None:
    flights = pq.read_table(source / "flights.parquet")
    assert flights.num_rows == 336_776
    assert flights.group_by(list(FLIGHT_KEY)).aggregate([]).num_rows == flights.num_rows
    # Missing values are null, and numbers with missing values are still whole.
    assert flights["dep_time"].null_count == 8_255
    assert pq.read_table(source / "weather.parquet").num_rows == 26_115
    planes = pq.read_table(source / "planes.parquet")
    assert planes.group_by("tailnum").aggregate([]).num_rows == planes.num_rows


@pytest.mark.slow
@pytest.mark.spark
def test_the_feed_ends_in_the_source_less_what_was_cancelled(
    spark: SparkSession, source: Path
) -> None:
    feed = Feed(spark, source, added_from=7)
    last = feed.batches(MONTHS)[-1]
    state = feed.state_after(last)
    cancelled = feed.flights.where(f"dep_time IS NULL AND month < {MONTHS}").count()
    assert state.count() == feed.flights.count() - cancelled
    before = feed.flights.select(*FLIGHT_KEY, F.col("arr_delay").alias("before"))
    later = F.col("arr_delay") - F.col("before")
    changed = state.join(before, list(FLIGHT_KEY)).where(later != 0)
    corrected = {tuple(row) for row in changed.select("month", later).distinct().collect()}
    # A correction of month m adds m minutes, within two months of the flight.
    assert corrected == {(m - back, m) for m in range(2, MONTHS + 1) for back in (1, 2) if m > back}
    assert feed.count(1) == feed.flights.where("month = 1").count()
    assert [batch.kind for batch in feed.batches(1)] == [Kind.NEW]


@pytest.mark.spark
@pytest.mark.modes
@pytest.mark.parametrize(
    "actual",
    [
        pytest.param([(1, None), (2, 5), (2, 5)], id="doubled"),
        pytest.param([(1, None)], id="lost"),
        pytest.param([(None, 1), (2, 5)], id="swapped"),
        pytest.param([(1, 0), (2, 5)], id="null"),
        pytest.param([], id="empty"),
    ],
)
def test_the_comparison_sees_every_difference(
    spark: SparkSession, actual: list[tuple[int | None, int | None]]
) -> None:
    expected = spark.createDataFrame([(2, 5), (1, None)], "a int, b int")
    assert expect_same_rows("rows", expected.select("b", "a"), expected) == 2
    with pytest.raises(Difference, match=r"^rows: "):
        expect_same_rows("rows", spark.createDataFrame(actual, "a int, b int"), expected)
    with pytest.raises(Difference, match="columns"):
        expect_same_rows("rows", expected.withColumnRenamed("a", "c"), expected)


@pytest.mark.parametrize("version", ["", "11.0.2"])
def test_without_a_new_enough_java_it_says_what_to_install(
    headwater: Headwater, tmp_path: Path, version: str
) -> None:
    if version:
        (tmp_path / "bin").mkdir()
        java = tmp_path / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(0o755)
    result = headwater("demo", JAVA_HOME=str(tmp_path))
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "needs Java 17 or newer" in result.stderr
    assert "install it" in result.stderr


def demo(place: Path, *arguments: str) -> subprocess.Popen[str]:
    place.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "headwater.cli.main", "demo", *arguments],
        env={**os.environ, "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def processes_that_name(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command:
            found.append(command)
    return found


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_demo_ends_well_and_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "room"
    process = demo(place)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert "Every result is what plain Spark computes" in output
    assert re.search(r"nyc\.flights +│ +329,546 │ +5 of 35", output), output
    assert processes_that_name(str(place)) == []
    assert list(place.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_kept_demo_leaves_its_server_and_says_how_to_stop_it(tmp_path: Path) -> None:
    place = tmp_path / "room"
    process = demo(place, "--keep")
    output, _ = process.communicate()
    assert process.returncode == 0, output
    stop = re.search(r"kill (\d+)", output)
    address = re.search(r"Look at (http://[\d.:]+)/docs", output)
    assert stop
    assert address
    try:
        assert plain_http.get(f"{address[1]}/docs").status_code == 200
    finally:
        os.kill(int(stop[1]), signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    place = tmp_path / "room"
    process = demo(place)
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if "Load January" in line:
            break
    process.send_signal(number)
    rest, _ = process.communicate()
    assert process.returncode != 0, seen + rest
    assert processes_that_name(str(place)) == []
    assert list(place.iterdir()) == []
