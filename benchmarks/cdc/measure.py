"""The measurements of change data capture, each beside its reference in the same run.

Rates are of processor time, of all threads of the reading process: what the source's server takes
is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

from benchmarks.cdc.mariadb import MariaDB, mariadb
from benchmarks.cdc.source_tables import insert_mixed_rows, update_rows_one_by_one
from benchmarks.engine.turns import Run, Side, ask, in_turns, interpreter
from benchmarks.measurement import Measurement

__all__ = ["ChangeDataCapture"]

_PACKAGE = "benchmarks.cdc"
_READERS = "log-readers"
# They take a minute for a million rows.
_READERS_ROWS = 50_000
_TABLE_OPTIONS = {"bucket": "1", "write-only": "true"}


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
            self.say(f"making {self.rows:,} rows of 10 mixed columns")
            inserts = insert_mixed_rows(server, self.rows)
            self.say(f"making {self.transactions:,} transactions of one row")
            updates = update_rows_one_by_one(server, self.transactions)
            self._decoding(server, inserts)
            self._small_transactions(server, updates)
        return self._results

    # What is measured ---------------------------------------------------------------------------

    def _decoding(self, server: MariaDB, log_file: Path) -> None:
        exported = self.folder / "rows.arrow"
        ask({"step": "export", "data": str(log_file), "target": str(exported)}, _PACKAGE)
        decoded, written = self._turns(
            self._ours("decode", log_file),
            Side("write", lambda: self._empty_table(exported), exported),
        )
        assert decoded.rows == self.rows
        written.rows = self.rows
        self._faster("decode rows, beside the SDK's write of them", decoded, written, 0.5)
        exported.unlink()
        self._beside_readers("decode rows", decoded, server, log_file, (20, 8))

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
                self.missing.append(f"{line}: not measured; run tests/interop/environments")
                continue
            more = {"port": str(server.port), "rows": str(min(_READERS_ROWS, ours.rows))}
            (theirs,) = self._turns(
                Side(step, lambda: self.folder, log_file, _READERS, _PACKAGE, more)
            )
            self._faster(line, ours, theirs, ratio)

    # Sides --------------------------------------------------------------------------------------

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

    def _turns(self, *sides: Side) -> list[Run]:
        return in_turns(sides, self.rounds, self.say)

    def _faster(self, name: str, ours: Run, other: Run, least: float) -> None:
        """Keep the ratio of two rates of rows."""
        ratio = _rows_per_second(ours) / _rows_per_second(other)
        result = Measurement(name, _rate(ours), _rate(other), ratio, least=least)
        self.say(str(result))
        self._results.append(result)


def _rows_per_second(run: Run) -> float:
    return run.rows / run.time("processor")


def _rate(run: Run) -> str:
    seconds = run.time("processor")
    return f"{_rows_per_second(run) / 1000:,.1f} k/s ({run.rows:,} in {seconds:.2f} s)"
