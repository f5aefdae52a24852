"""The measurements of the storage engine, each beside its reference in the same run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.engine.orders import KEYS, OrderFiles, make_orders
from benchmarks.measurement import Measurement
from headwater.client.connect import WAREHOUSE_FOLDER

__all__ = ["StorageEngine"]

BUCKETS = {"bucket": "4", "write-only": "true"}
# pypaimon takes a minute for two million rows.
PYPAIMON_SHARE = 10
_HERE = Path(__file__).parent
_CLIENTS = Path(".interop").absolute()
_MEBIBYTE = 1024**2
_BUDGET = 32
_ALLOWANCE = 300


@dataclass(frozen=True)
class Run:
    """The answers to one request, repeated.

    Attributes:
        seconds: The time that each took, once everything was imported.
        processes: The time from the start of its process to the end, which is mostly imports where
            rows are few.
        rows: The rows of the last.
        mebibytes: The memory that each took at most, beyond what it began with.
    """

    seconds: Sequence[float]
    processes: Sequence[float]
    rows: int
    mebibytes: float

    @property
    def time(self) -> float:
        """The median of the times."""
        return median(self.seconds)

    def __str__(self) -> str:
        times = " ".join(f"{seconds:.2f}" for seconds in self.seconds)
        return f"{times} s (process {median(self.processes):.1f} s)"


@dataclass
class StorageEngine:
    """The measurements.

    Attributes:
        folder: For all files.
        rows: Rows of the tables.
        rounds: Runs of each side, in turns; medians count.
        say: Told what is going on.
    """

    folder: Path
    rows: int
    rounds: int
    say: Callable[[str], None]
    _results: list[Measurement] = field(default_factory=list)

    def run(self, kinds: Sequence[str]) -> list[Measurement]:
        """Measure everything, for each kind of key."""
        for kind in kinds:
            self.say(f"making {self.rows:,} orders with a {kind} key")
            orders = make_orders(self.folder, kind, self.rows)
            few = make_orders(self.folder, kind, self.rows // PYPAIMON_SHARE)
            self._writing(kind, orders, few)
            self._reading(kind, orders, few)
            for path in (*orders.all, *few.all):
                path.unlink()
        orders = make_orders(self.folder, "bigint", self.rows)
        self._merging(orders)
        self._raw(orders)
        self._memory(orders)
        return self._results

    # What is measured ---------------------------------------------------------------------------

    def _writing(self, kind: str, orders: OrderFiles, few: OrderFiles) -> None:
        ours = self._rounds("write", lambda: self._empty("ours", kind, orders), orders.base)
        rust = self._rounds(
            "write", lambda: self._empty("rust", kind, orders), orders.base, "pypaimon-rust"
        )
        self._faster(f"write, {kind} key, beside pypaimon-rust", ours, rust, 1.0)
        ours = self._rounds("write", lambda: self._empty("ours", kind, few), few.base)
        slow = self._rounds(
            "write", lambda: self._empty("slow", kind, few), few.base, "pypaimon", rounds=1
        )
        self._faster(f"write, {kind} key, beside pypaimon, {few.rows:,} rows", ours, slow, 20)

    def _reading(self, kind: str, orders: OrderFiles, few: OrderFiles) -> None:
        table = self._filled("table", kind, orders)
        ours = self._rounds("scan", lambda: table)
        rust = self._rounds("scan", lambda: table, client="pypaimon-rust")
        assert (ours.rows, rust.rows) == (orders.rows, orders.rows)
        self._faster(f"merge on read, {kind} key, beside pypaimon-rust", ours, rust, 1.5)
        small = self._filled("small", kind, few)
        slow = self._rounds("scan", lambda: small, client="pypaimon", rounds=1)
        self._faster(
            f"merge on read, {kind} key, beside pypaimon, {few.rows:,} rows",
            self._rounds("scan", lambda: small), slow, 20,
        )  # fmt: skip
        saved = self.folder / "saved"
        shutil.copytree(table, saved)
        compaction = self._rounds("compact", lambda: self._restored(table, saved))
        self._ask("headwater", {"step": "expire", "folder": str(table)})
        plain = self._rounds("polars_scan", lambda: table)
        self._at_most(f"merge on read, {kind} key, beside Polars on Parquet", ours, plain, 1.6)
        copy = self._rounds("polars_copy", lambda: table)
        shutil.rmtree(saved)
        self._at_most(f"full compaction, {kind} key, beside Polars", compaction, copy, 2)

    def _merging(self, orders: OrderFiles) -> None:
        newest = self._rounds("scan", lambda: self._kept("deduplicate", orders, {}))
        partial = self._rounds(
            "scan", lambda: self._kept("partial", orders, {"merge-engine": "partial-update"})
        )
        self._at_most("partial-update beside deduplicate", partial, newest, 3)
        sums = {
            "merge-engine": "aggregation",
            "fields.amount.aggregate-function": "sum",
            "fields.product_id.aggregate-function": "sum",
        }
        summed = self._rounds("scan", lambda: self._kept("sums", orders, sums))
        self._at_most("sum aggregation beside deduplicate", summed, newest, 3)

    def _raw(self, orders: OrderFiles) -> None:
        """Tables whose files are read without a merge, beside their rows in plain Parquet."""
        paths = orders.all[:2]
        marks = {"deletion-vectors.enabled": "true", "write-only": "false"}
        plain = self._filled("plain", "bigint", orders, paths=paths)
        for step in ("compact", "expire"):
            self._ask("headwater", {"step": step, "folder": str(plain)})
        appended = self._filled("appended", "", orders, {"bucket": "-1"}, [orders.base])
        tables = {
            "merge on write, a tenth upserted": (
                self._filled("marked", "bigint", orders, marks, paths), plain, 1.15,
            ),
            "compacted": (plain, plain, 1.05),
            "append table": (appended, appended, 1.05),
        }  # fmt: skip
        for name, (table, reference, most) in tables.items():
            for how, ours, other in (
                ("at once", "scan", "parquet_scan"),
                ("by batch", "stream_out", "parquet_stream"),
            ):
                run, arrow = self._turns((ours, table), (other, reference))
                assert run.rows == arrow.rows == orders.rows
                self._at_most(f"{name}, read {how}, beside Arrow", run, arrow, most)

    def _turns(self, one: tuple[str, Path], other: tuple[str, Path]) -> tuple[Run, Run]:
        """Two reads in turns: what else the machine does meets both alike."""
        runs: list[tuple[Run, Run]] = [
            (self._once(*one), self._once(*other)) for _ in range(self.rounds)
        ]
        return _joined([run for run, _ in runs]), _joined([run for _, run in runs])

    def _once(self, step: str, table: Path) -> Run:
        return self._rounds(step, lambda: table, rounds=1)

    def _memory(self, orders: OrderFiles) -> None:
        """A bucket that is many times the budget: written, read and compacted."""
        options = {"bucket": "1", "write-only": "true", "write-buffer-size": f"{_BUDGET} mb"}
        table = self._empty("large", "bigint", orders, options)
        for step, path in (
            ("stream_in", orders.base),
            ("stream_in", orders.upserts[0]),
            ("stream_out", None),
            ("compact", None),
        ):
            run = self._rounds(step, lambda: table, path, rounds=1)
            added = orders.rows if path == orders.base else orders.rows // 10
            name = {
                "stream_in": f"{'writing' if path == orders.base else 'upserting'} {added:,} rows",
                "stream_out": f"merging {orders.rows:,} rows",
            }
            self._keep(
                Measurement(
                    f"memory of {name.get(step, step)} in one bucket",
                    f"{run.mebibytes:.0f} MiB in {run}",
                    f"budget {_BUDGET} MiB + {_ALLOWANCE}",
                    run.mebibytes / (_BUDGET + _ALLOWANCE),
                    most=1,
                )
            )

    # Tables -------------------------------------------------------------------------------------

    def _empty(
        self, name: str, kind: str, orders: OrderFiles, options: Mapping[str, str] | None = None
    ) -> Path:
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        self._ask("headwater", {
            "step": "create", "folder": str(folder), "data": str(orders.base),
            "keys": list(KEYS.get(kind, ())), "options": {**BUCKETS, **(options or {})},
        })  # fmt: skip
        return folder

    def _filled(
        self,
        name: str,
        kind: str,
        orders: OrderFiles,
        options: Mapping[str, str] | None = None,
        paths: Sequence[Path] | None = None,
    ) -> Path:
        folder = self._empty(name, kind, orders, options)
        for path in paths or orders.all:
            self._ask("headwater", {"step": "write", "folder": str(folder), "data": str(path)})
        return folder

    def _kept(self, name: str, orders: OrderFiles, options: Mapping[str, str]) -> Path:
        folder = self.folder / name
        return folder if folder.exists() else self._filled(name, "bigint", orders, options)

    def _restored(self, table: Path, saved: Path) -> Path:
        shutil.rmtree(table)
        shutil.copytree(saved, table)
        return table

    # Runs ---------------------------------------------------------------------------------------

    def _rounds(
        self,
        step: str,
        table: Callable[[], Path],
        data: Path | None = None,
        client: str = "headwater",
        *,
        rounds: int | None = None,
    ) -> Run:
        seconds: list[float] = []
        processes: list[float] = []
        mebibytes = 0.0
        rows = 0
        for number in range(rounds or self.rounds):
            folder = table()
            self.say(f"{client}: {step}, {folder.name}, round {number + 1}")
            request = {
                "step": step,
                "folder": str(folder),
                "warehouse": str(folder / WAREHOUSE_FOLDER),
                "data": str(data),
            }
            start = time.perf_counter()
            answer = self._ask(client, request)
            processes.append(time.perf_counter() - start)
            seconds.append(float(answer["seconds"]))
            mebibytes = max(mebibytes, answer["bytes"] / _MEBIBYTE)
            rows = int(answer["rows"])
        return Run(seconds, processes, rows, mebibytes)

    def _ask(self, client: str, request: Mapping[str, object]) -> dict[str, float]:
        if client == "headwater":
            command = [sys.executable, "-m", "benchmarks.engine.client"]
        else:
            script = f"{client.replace('-', '_')}_client.py"
            command = [str(_CLIENTS / client / "bin/python"), str(_HERE / script)]
        done = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{client} failed at {request}:\n{done.stderr[-2000:]}")
        answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def _faster(self, name: str, ours: Run, other: Run, least: float) -> None:
        ratio = other.time / ours.time
        self._keep(Measurement(name, str(ours), str(other), ratio, least=least))

    def _at_most(self, name: str, ours: Run, other: Run, most: float) -> None:
        ratio = ours.time / other.time
        self._keep(Measurement(name, str(ours), str(other), ratio, most=most))

    def _keep(self, result: Measurement) -> None:
        # A run takes many minutes: what is known already outlives one that is cut off.
        self.say(str(result))
        self._results.append(result)


def _joined(runs: Sequence[Run]) -> Run:
    return Run(
        [run.seconds[0] for run in runs],
        [run.processes[0] for run in runs],
        runs[-1].rows,
        max(run.mebibytes for run in runs),
    )
