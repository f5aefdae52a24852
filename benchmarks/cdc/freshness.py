"""How long changed rows take to be readable, while a source changes at a steady rate.

A pipeline runs as users run it, as `headwater cdc mysql`. The age of a row at its commit is taken
from the snapshots' properties: a row of a batch is at most as old as the end of the batch before,
whose time the log has in whole seconds. So the ages are upper bounds, by up to a second.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pyarrow.compute as pc

from benchmarks.cdc.mariadb import MariaDB, mariadb
from benchmarks.cdc.source_tables import DATABASE
from benchmarks.measurement import Measurement
from headwater.client import connect
from headwater.client.lake import Lake

__all__ = ["Freshness"]

_TABLES, _ROWS_PER_SECOND, _TABLE_ROWS = 50, 2000, 20_000
_MAX_SECONDS = 15.0
_QUARTERS = 4
_TARGET = "followed"
# Of the last quarter by the second: the first has the snapshot's memory and files still.
_MAX_GROWTH = 1.25
_MIN_FILES, _MIN_LAG = 8, _MAX_SECONDS


@dataclass(frozen=True)
class Quarter:
    """The pipeline at the end of a quarter of the run.

    Attributes:
        mebibytes: The memory of its process.
        processor: The processor time that it has taken, in seconds.
        files: The data files of the bucket that has most.
        lag_seconds, lag_bytes: The largest lag that it reported in the quarter.
        changed: How many rows the source has changed.
    """

    mebibytes: float
    processor: float
    files: int
    lag_seconds: float
    lag_bytes: int
    changed: int

    def __str__(self) -> str:
        return (
            f"{self.changed:,} rows changed; pipeline: {self.processor:.0f} s of processor time, "
            f"{self.mebibytes:.0f} MiB, at most {self.files} files per bucket, lag at most "
            f"{self.lag_seconds:.1f} s and {self.lag_bytes:,} bytes"
        )


@dataclass
class Freshness:
    """The measurement.

    Attributes:
        folder: For all files.
        seconds: How long the source changes.
        say: Receives what is going on.
    """

    folder: Path
    seconds: float
    say: Callable[[str], None]

    def run(self) -> list[Measurement]:
        """Change the source, follow it, and look at the snapshots."""
        lake_folder = self.folder / "lake"
        with mariadb(self.folder) as server, connect(str(lake_folder)) as lake:
            lake.create_database(_TARGET)
            _create_tables(server)
            with _pipeline(server, lake_folder, self.folder) as pipeline:
                self.say("waiting for the snapshot of the tables")
                pipeline.wait_until_streaming()
                quarters, begun = self._follow(server, pipeline, lake)
            ages, rows = _ages(lake, begun)
            for number, quarter in enumerate(quarters, 1):
                self.say(f"quarter {number}: {quarter}")
        return _results(ages, rows, quarters)

    def _follow(
        self, server: MariaDB, pipeline: _Pipeline, lake: Lake
    ) -> tuple[list[Quarter], float]:
        begun = time.time()
        changes = _Changes(server)
        quarters = []
        for number in range(1, _QUARTERS + 1):
            while time.time() < begun + self.seconds * number / _QUARTERS:
                pipeline.check()
                changes.check()
                time.sleep(0.5)
            quarter = pipeline.quarter(_files_per_bucket(lake), changes.rows)
            self.say(str(quarter))
            quarters.append(quarter)
        changes.stop()
        return quarters, begun


class _Changes:
    """Changes rows at a steady rate, by a thread: some rows of every table each second."""

    def __init__(self, server: MariaDB) -> None:
        self.rows = 0
        self._server, self._stopped = server, Event()
        self._error: Exception | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def check(self) -> None:
        if self._error is not None:
            raise RuntimeError("the source cannot be changed") from self._error

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self.check()

    def _run(self) -> None:
        try:
            self._change()
        except Exception as error:  # noqa: BLE001 - raised by `check`
            self._error = error

    def _change(self) -> None:
        per_table = _ROWS_PER_SECOND // _TABLES
        step = 1 / _TABLES
        due = time.monotonic()
        statement = 0
        with self._server.connect() as connection, connection.cursor() as cursor:
            while not self._stopped.wait(max(0.0, due - time.monotonic())):
                due += step
                table, second = statement % _TABLES, statement // _TABLES
                statement += 1
                keys = {
                    (second * per_table + index) * 7919 % _TABLE_ROWS for index in range(per_table)
                }
                self.rows += cursor.execute(
                    f"UPDATE {DATABASE}.t{table:02} SET version = version + 1, "
                    f"note = CONCAT('change ', {second}, ' of ', id) "
                    f"WHERE id IN ({', '.join(map(str, keys))})"
                )


class _Pipeline:
    """A pipeline's process, and the figures that it prints."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process, self._errors = process, errors
        self._figures: list[Mapping[str, object]] = []
        Thread(target=self._read, daemon=True).start()

    def check(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"the pipeline has ended:\n{self._errors.read_text()[-2000:]}")

    def wait_until_streaming(self) -> None:
        while not self._figures or not all(
            table["phase"] == "streaming" for table in self._tables() or [{"phase": None}]
        ):
            self.check()
            time.sleep(0.2)

    def quarter(self, files: int, changed: int) -> Quarter:
        """The figures since the last quarter."""
        figures, self._figures = self._figures, self._figures[-1:]
        seconds = [float(str(each["lag_seconds"] or 0)) for each in figures]
        sizes = [int(str(each["lag_bytes"] or 0)) for each in figures]
        memory, processor = _usage(self._process.pid)
        return Quarter(memory, processor, files, max(seconds), max(sizes), changed)

    def _tables(self) -> list[Mapping[str, object]]:
        tables = self._figures[-1]["tables"]
        assert isinstance(tables, list)
        return tables

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._figures.append(json.loads(line))


@contextmanager
def _pipeline(server: MariaDB, lake: Path, folder: Path) -> Iterator[_Pipeline]:
    command = shutil.which("headwater", path=str(Path(sys.executable).parent))
    assert command is not None
    errors = folder / "pipeline.log"
    with errors.open("w") as log:
        process = subprocess.Popen(
            [command, "cdc", "mysql", "--catalog", str(lake), "--target", _TARGET,
             "--source", f"mysql://root@127.0.0.1:{server.port}", "--include", f"{DATABASE}.*",
             "--table-option", "bucket=1", "--interval", "1"],
            stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        yield _Pipeline(process, errors)
    finally:
        process.terminate()
        process.wait()


def _usage(process: int) -> tuple[float, float]:
    """The mebibytes that a process holds, and the seconds of processor time that it has taken."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    memory = next(line for line in status if line.startswith("VmRSS:"))
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return int(memory.split()[1]) / 1024, ticks / 100


def _create_tables(server: MariaDB) -> None:
    server.run(f"CREATE OR REPLACE DATABASE {DATABASE}")
    for table in range(_TABLES):
        name = f"{DATABASE}.t{table:02}"
        server.run(
            f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, customer INT NOT NULL, "
            "version BIGINT NOT NULL, amount DECIMAL(12, 2) NOT NULL, note VARCHAR(80) NOT NULL)",
            f"INSERT INTO {name} SELECT seq, seq * 7919 % 5000, 0, seq / 7, CONCAT('note ', seq) "
            f"FROM {DATABASE}.seq_0_to_{_TABLE_ROWS - 1}",
        )


def _files_per_bucket(lake: Lake) -> int:
    return max(
        int(
            max(pc.value_counts(lake.table(name).inspect.files()["bucket"]).field("counts")).as_py()
        )
        for name in _tables(lake)
    )


def _tables(lake: Lake) -> list[str]:
    return [f"{_TARGET}.t{table:02}" for table in range(_TABLES)]


def _ages(lake: Lake, begun: float) -> tuple[np.ndarray, np.ndarray]:
    """The age of the oldest row of each commit, in seconds, and how many rows it has."""
    ages, rows = [], []
    for name in _tables(lake):
        before: int | None = None
        for snapshot in sorted(lake.table(name).snapshots(), key=lambda each: each.id):
            properties = snapshot.document.get("properties")
            properties = properties if isinstance(properties, dict) else {}
            source_time = int(str(properties.get("cdc.source-time", 0)))
            if snapshot.document["commitKind"] != "APPEND" or not source_time:
                continue
            # The first batch of the run began before it.
            if before is not None and before >= begun * 1000:
                ages.append((snapshot.time_millis - before) / 1000)
                rows.append(snapshot.document.get("deltaRecordCount") or 0)
            before = source_time
    return np.array(ages), np.array(rows)


def _results(ages: np.ndarray, rows: np.ndarray, quarters: list[Quarter]) -> list[Measurement]:
    order = np.argsort(ages)
    share = np.cumsum(rows[order]) / rows.sum()
    p50, p99 = (float(ages[order][np.searchsorted(share, part)]) for part in (0.5, 0.99))
    _, second, _, last = quarters
    growth = (
        ("memory, last quarter by second", last.mebibytes, second.mebibytes, " MiB", 1.0),
        ("files per bucket, the same", last.files, second.files, "", _MIN_FILES),
        ("lag, the same", last.lag_seconds, second.lag_seconds, " s", _MIN_LAG),
    )
    return [
        Measurement(
            f"99 % of {int(rows.sum()):,} changed rows readable within",
            f"{p99:.1f} s (half: {p50:.1f} s, all: {ages.max():.1f} s)",
            f"{_MAX_SECONDS:g} s",
            p99 / _MAX_SECONDS,
            most=1,
        ),
        *(
            Measurement(
                name,
                f"{ours:.4g}{unit}",
                f"{reference:.4g}{unit}",
                # Small figures vary.
                max(ours, least) / max(reference, least),
                most=_MAX_GROWTH,
            )
            for name, ours, reference, unit, least in growth
        ),
    ]
