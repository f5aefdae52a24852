"""The measurements of tables with many files and many commits.

The files are made by name only: a plan and a commit look at manifests, never at rows.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from uuid import uuid4

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.measurement import Measurement
from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.client.connect import WAREHOUSE_FOLDER
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.jobs.write import WritePlan
from headwater.storage.snapshot.snapshot import SnapshotIdentity
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["TableScale"]

_TABLE = "bench.orders"
_RUST = Path(".interop/pypaimon-rust/bin/python").absolute()
_RUST_CLIENT = "benchmarks.engine.pypaimon_rust_client"
_FEW_FILES = 10
_FIRST_DAY = dt.date(2020, 1, 1)
_COLUMNS = pa.schema(
    [
        pa.field("order_id", pa.int64(), nullable=False),
        ("region", pa.int32()),
        ("customer", pa.string()),
        ("status", pa.string()),
        ("ordered_at", pa.timestamp("us")),
        ("amount", pa.float64()),
        ("product_id", pa.int64()),
    ]
)


@dataclass
class TableScale:
    """The measurements.

    Attributes:
        folder: For all files.
        files: Files of the large table.
        partitions: Its partitions.
        upserts: Upserts of one table, one after another.
        rows: Rows of that table.
        rounds: Runs of each side, in turns; medians count.
        say: Told what is going on.
        clock: ``wall`` or ``processor``, which others' work on the machine disturbs less.
    """

    folder: Path
    files: int
    partitions: int
    upserts: int
    rows: int
    rounds: int
    say: Callable[[str], None]
    clock: str = "wall"
    _results: list[Measurement] = field(default_factory=list)

    def run(self) -> list[Measurement]:
        """Measure everything."""
        for mixed in (False, True):
            self._plans(mixed=mixed)
        self._history()
        return self._results

    # Many files ---------------------------------------------------------------------------------

    def _plans(self, *, mixed: bool) -> None:
        order = "in any order" if mixed else "by partition"
        self.say(f"making {self.files:,} files in {self.partitions:,} partitions, listed {order}")
        folder = self.folder / ("mixed" if mixed else "sorted")
        large, one = self._table_of_files(folder, self.files, mixed=mixed)
        day = _FIRST_DAY + dt.timedelta(self.partitions // 2)
        full: list[float] = []
        part: list[float] = []
        rust: list[float] = []
        for number in range(self.rounds):
            self.say(f"plans, round {number + 1}")
            full.append(self._seconds(lambda: large.scan().plan))
            part.append(self._seconds(lambda: large.scan(where=f"dt = DATE '{day}'").plan))
            rust.append(self._rust_plan(folder))
        name = f"of {self.files:,} files listed {order}"
        self._at_most(f"plan of 1 of {self.partitions:,} partitions {name}", part, full, 1 / 20)
        self._at_most(f"full plan {name}, beside pypaimon-rust", full, rust, 1)
        if mixed:
            return
        small, _ = self._table_of_files(self.folder / "small", _FEW_FILES, mixed=False)
        ours: list[float] = []
        few: list[float] = []
        for _ in range(10 * self.rounds):
            few.append(self._seconds(lambda: _commit(small, [_renamed(one)])))
            ours.append(self._seconds(lambda: _commit(large, [_renamed(one)])))
        self._at_most(f"commit to {self.files:,} files beside {_FEW_FILES}", ours, few, 2)

    def _table_of_files(
        self, folder: Path, files: int, *, mixed: bool
    ) -> tuple[Table, CommitMessage]:
        """A table of that many files in its partitions, and one of them."""
        lake = connect(folder)
        lake.create_database("bench")
        schema = _COLUMNS.append(pa.field("dt", pa.date32()))
        options = {"write-only": "true"}
        table = lake.create_table(_TABLE, schema, partition_keys=["dt"], options=options)
        days = pl.select(dt=_FIRST_DAY + pl.duration(days=pl.int_range(self.partitions)))
        numbers = np.arange(self.partitions)
        rows = _orders(numbers).append_column("dt", days["dt"].cast(pl.Date).to_arrow())
        with WritePlan(table.storage).upon(None).writer() as writer:
            writer.write(rows)
            made = writer.finish()[:files]
        each = files // len(made)
        every = made * each if mixed else [one for one in made for _ in range(each)]
        _commit(table, [_renamed(one) for one in every])
        return table, made[0]

    def _rust_plan(self, folder: Path) -> float:
        request = {"step": "plan", "warehouse": str(folder / WAREHOUSE_FOLDER)}
        done = subprocess.run(
            [str(_RUST), "-m", _RUST_CLIENT],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=True,
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        if self.clock == "wall":
            return float(answer["seconds"])
        return float(answer["user"] + answer["system"])

    def _seconds(self, work: Callable[[], object]) -> float:
        clock = time.perf_counter if self.clock == "wall" else time.process_time
        start = clock()
        work()
        return clock() - start

    # Many commits -------------------------------------------------------------------------------

    def _history(self) -> None:
        lake = connect(self.folder / "upserts")
        lake.create_database("bench")
        table = lake.create_table(
            _TABLE, _COLUMNS, primary_keys=["order_id"], options={"bucket": "1"}
        )
        table.write(_orders(np.arange(self.rows)))
        random = np.random.default_rng(1)
        times: list[float] = []
        scans: list[float] = []
        tenth = max(1, self.upserts // 10)
        for number in range(1, self.upserts + 1):
            rows = _orders(random.choice(self.rows, 1000, replace=False))
            times.append(self._seconds(partial(table.write, rows)))
            if number % tenth == 0:
                self.say(f"{number:,} upserts")
            if number > self.upserts - 10:
                # Between one compaction and the next.
                scans.append(self._seconds(lambda: table.scan().to_arrow()))
        table.compact()
        fresh = [self._seconds(lambda: table.scan().to_arrow()) for _ in scans]
        name = f"after {self.upserts:,} upserts of 1,000 rows into {self.rows:,}"
        self._at_most(f"scan {name}, beside compacted", scans, fresh, 2)
        self._at_most(f"upsert {name}, beside the first", times[-tenth:], times[:tenth], 2)

    def _at_most(self, name: str, ours: list[float], other: list[float], most: float) -> None:
        ratio = median(ours) / median(other)
        result = Measurement(name, _text(ours), _text(other), ratio, most=most)
        self.say(str(result))
        self._results.append(result)


def _orders(keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Table:
    """Orders of given keys."""
    number = pl.col("order_id")
    frame = pl.DataFrame({"order_id": keys}).with_columns(
        region=(number % 100).cast(pl.Int32),
        customer=pl.format("customer-{}", number % 50_000),
        status=pl.lit("new"),
        ordered_at=(number * 1_000_000).cast(pl.Datetime("us")),
        amount=number.hash(1) % 1_000_000 / 100,
        product_id=(number.hash(2) % 10_000_000).cast(pl.Int64),
    )
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(
        pa.schema([item.with_type(_COLUMNS.field(item.name).type) for item in _COLUMNS])
    )


def _renamed(message: CommitMessage) -> CommitMessage:
    """The message with files of other names."""
    files = [replace(one, file_name=f"data-{uuid4()}-0.parquet") for one in message.new_files]
    return replace(message, new_files=tuple(files))


def _commit(table: Table, messages: list[CommitMessage]) -> None:
    latest = table.pointer.latest()
    seen = SnapshotIdentity.of(latest)
    looked = [replace(message, checked_snapshot=seen) for message in messages]
    TableCommit(table.storage, table.pointer, "benchmark").commit(looked)


def _text(seconds: list[float]) -> str:
    return f"{median(seconds) * 1000:,.1f} ms ({len(seconds)} runs)"
