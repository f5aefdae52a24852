"""The measurements of the storage engine, each beside its reference in the same run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.engine.orders import KEYS, OrderFiles, make_orders
from benchmarks.engine.turns import Run, Side, ask, in_turns, one_by_one
from benchmarks.measurement import Measurement

__all__ = ["StorageEngine"]

BUCKETS = {"bucket": "4", "write-only": "true"}
# pypaimon takes a minute for two million rows.
PYPAIMON_SHARE = 10
_BUDGET = 32
_ALLOWANCE = 300


@dataclass
class StorageEngine:
    """The measurements.

    Attributes:
        folder: For all files.
        rows: Rows of the tables.
        rounds: Runs of each side, in turns; medians count.
        say: Told what is going on.
        clock: ``wall`` or ``processor``, which others' work on the machine disturbs less.
    """

    folder: Path
    rows: int
    rounds: int
    say: Callable[[str], None]
    clock: str = "wall"
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
        ours, rust = self._turns(
            Side("write", lambda: self._empty("ours", kind, orders), orders.base),
            Side("write", lambda: self._empty("rust", kind, orders), orders.base, "pypaimon-rust"),
        )
        self._faster(f"write, {kind} key, beside pypaimon-rust", ours, rust, 1.0)
        ours = self._runs(Side("write", lambda: self._empty("ours", kind, few), few.base))
        slow = self._runs(
            Side("write", lambda: self._empty("slow", kind, few), few.base, "pypaimon"), rounds=1
        )
        self._faster(f"write, {kind} key, beside pypaimon, {few.rows:,} rows", ours, slow, 20)

    def _reading(self, kind: str, orders: OrderFiles, few: OrderFiles) -> None:
        table, compacted = self._filled("table", kind, orders), self._filled("plain", kind, orders)
        self._compact(compacted)
        ours, rust, plain = self._turns(
            Side("scan", lambda: table),
            Side("scan", lambda: table, client="pypaimon-rust"),
            Side("polars_scan", lambda: compacted),
        )
        assert (ours.rows, rust.rows, plain.rows) == (orders.rows,) * 3
        self._faster(f"merge on read, {kind} key, beside pypaimon-rust", ours, rust, 1.5)
        self._at_most(f"merge on read, {kind} key, beside Polars on Parquet", ours, plain, 1.6)
        small = self._filled("small", kind, few)
        slow = self._runs(Side("scan", lambda: small, client="pypaimon"), rounds=1)
        self._faster(
            f"merge on read, {kind} key, beside pypaimon, {few.rows:,} rows",
            self._runs(Side("scan", lambda: small)), slow, 20,
        )  # fmt: skip
        saved = self.folder / "saved"
        shutil.copytree(table, saved)
        compaction, copy = self._turns(
            Side("compact", lambda: self._restored(table, saved)),
            Side("polars_copy", lambda: compacted),
        )
        shutil.rmtree(saved)
        self._at_most(f"full compaction, {kind} key, beside Polars", compaction, copy, 2)

    def _merging(self, orders: OrderFiles) -> None:
        sums = {
            "merge-engine": "aggregation",
            "fields.amount.aggregate-function": "sum",
            "fields.product_id.aggregate-function": "sum",
        }
        tables = [
            self._filled(name, "bigint", orders, options)
            for name, options in (
                ("deduplicate", {}),
                ("partial", {"merge-engine": "partial-update"}),
                ("sums", sums),
            )
        ]
        newest, partial_update, summed = self._turns(
            *(Side("scan", partial(Path, table)) for table in tables)
        )
        self._at_most("partial-update beside deduplicate", partial_update, newest, 3)
        self._at_most("sum aggregation beside deduplicate", summed, newest, 3)

    def _raw(self, orders: OrderFiles) -> None:
        """Tables whose files are read without a merge, beside their rows in plain Parquet."""
        paths = orders.all[:2]
        marks = {"deletion-vectors.enabled": "true", "write-only": "false"}
        plain = self._filled("plain", "bigint", orders, paths=paths)
        self._compact(plain)
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
                run, arrow = self._turns(
                    Side(ours, partial(Path, table)), Side(other, partial(Path, reference))
                )
                assert run.rows == arrow.rows == orders.rows
                self._at_most(f"{name}, read {how}, beside Arrow", run, arrow, most)

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
            run = self._runs(Side(step, lambda: table, path), rounds=1)
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
        ask({
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
            ask({"step": "write", "folder": str(folder), "data": str(path)})
        return folder

    def _compact(self, table: Path) -> None:
        for step in ("compact", "expire"):
            ask({"step": step, "folder": str(table)})

    def _restored(self, table: Path, saved: Path) -> Path:
        shutil.rmtree(table)
        shutil.copytree(saved, table)
        return table

    # Runs ---------------------------------------------------------------------------------------

    def _turns(self, *sides: Side) -> list[Run]:
        return in_turns(sides, self.rounds, self.say)

    def _runs(self, side: Side, *, rounds: int | None = None) -> Run:
        return one_by_one(side, rounds or self.rounds, self.say)

    def _faster(self, name: str, ours: Run, other: Run, least: float) -> None:
        ratio = other.time(self.clock) / ours.time(self.clock)
        self._keep(Measurement(name, str(ours), str(other), ratio, least=least))

    def _at_most(self, name: str, ours: Run, other: Run, most: float) -> None:
        ratio = ours.time(self.clock) / other.time(self.clock)
        self._keep(Measurement(name, str(ours), str(other), ratio, most=most))

    def _keep(self, result: Measurement) -> None:
        # A run takes many minutes: what is known already outlives one that is cut off.
        self.say(str(result))
        self._results.append(result)
