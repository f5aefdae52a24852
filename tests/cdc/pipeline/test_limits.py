"""Tables that the lake cannot have for now, and transactions that are larger than the memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.source_logs import only_mysql, with_files

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.column_types import TypeMapping
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.state import PipelineState, TablePhase
from headwater.cdc.source.log_batches import BatchLimits

ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, v INT)"
ROW_BYTES = 1_000

PROGRAM = """
import json, sys
from pathlib import Path
from threading import Event, Thread

from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.mysql.server import Address
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.client import connect

values = json.loads(sys.stdin.read())
settings = PipelineSettings(
    "shop", "mysql://test", "lake", tuple(values["include"]), memory_bytes=1 << 20
)
peak, ended = 0, Event()

def watch():
    # Pages of files, which the system takes back, are not counted.
    global peak
    while not ended.wait(0.01):
        lines = Path("/proc/self/status").read_text().splitlines()
        (line,) = [line for line in lines if line.startswith("RssAnon")]
        peak = max(peak, int(line.split()[1]))

watcher = Thread(target=watch)
watcher.start()
with connect(values["lake"]) as lake:
    address = Address(*values["address"])
    Pipeline(lake, lambda: MySQLSource(address), settings).run(once=True)
ended.set()
watcher.join()
print(peak)
"""


def resnapshot(origin: Origin, follower: Follower, table: str, value: str = "") -> None:
    state = PipelineState.open(follower.lake, "lake", "shop")
    state.request(f"resnapshot:{TableName(origin.database, table).escaped}", value)


def test_a_value_that_the_lake_does_not_have(origin: Origin, follower: Follower) -> None:
    origin.run("SET SESSION sql_mode = ''", ORDERS)
    origin.run("CREATE TABLE days (id INT PRIMARY KEY, d DATE)")
    origin.run("INSERT INTO days VALUES (1, '2024-02-03')", "INSERT INTO orders VALUES (1, 1)")
    follower.once()
    origin.run("INSERT INTO days VALUES (2, '2024-02-04')", "INSERT INTO orders VALUES (2, 2)")
    origin.run("INSERT INTO days VALUES (3, '0000-00-00')", "INSERT INTO days VALUES (4, NULL)")
    follower.once()
    origin.run("INSERT INTO days VALUES (5, '2024-02-06')", "INSERT INTO orders VALUES (3, 3)")
    follower.once()
    follower.check("orders")
    state = follower.states()["days"]
    assert state.phase is TablePhase.QUARANTINED
    assert "column 'd' has the value '0000-00-00'" in str(state.reason)
    # All of the batch, or nothing of it.
    assert [row["id"] for row in follower.rows("days")] == [1]
    resnapshot(origin, follower, "days")
    follower.once()
    assert follower.states()["days"].phase is TablePhase.QUARANTINED
    origin.run("UPDATE days SET d = NULL WHERE id = 3", "DELETE FROM days WHERE id = 1")
    resnapshot(origin, follower, "days")
    follower.once()
    follower.check("days", "orders")


def test_rows_that_move_between_partitions(origin: Origin, follower: Follower) -> None:
    origin.run("CREATE TABLE t (id INT PRIMARY KEY, day VARCHAR(9), v INT)")
    origin.run("INSERT INTO t VALUES (1, 'mon', 1), (2, 'tue', 2), (3, 'wed', 3), (4, 'thu', 4)")
    follower.change(table_options={"partition": "day"})
    follower.once()
    origin.run("UPDATE t SET day = 'sun' WHERE id = 1", "DELETE FROM t WHERE id = 2")
    origin.session("SET SESSION binlog_row_image = 'MINIMAL'", "DELETE FROM t WHERE id = 4")
    follower.once()
    follower.check("t")
    # Only keys are known of the rows that the source has no more, and not their partitions.
    origin.session(
        "SET SESSION sql_log_bin = 0", "DELETE FROM t WHERE id = 3", "UPDATE t SET day = 'fri'"
    )
    resnapshot(origin, follower, "t")
    follower.once()
    follower.check("t")


def test_dates_that_cannot_become_null(origin: Origin, follower: Follower) -> None:
    origin.run("SET SESSION sql_mode = ''", ORDERS)
    origin.run("CREATE TABLE days (id INT PRIMARY KEY, d DATE NOT NULL)")
    origin.run("INSERT INTO days VALUES (1, '2026-01-02'), (2, '2026-01-03')")
    follower.change(bad_dates=BadDates.NULL)
    follower.once()
    # Deleted rows may have nulls in the lake's files.
    origin.run("DELETE FROM days WHERE id = 2", "INSERT INTO days VALUES (3, '2026-01-03')")
    follower.once()
    follower.check("days", "orders")
    origin.run("INSERT INTO days VALUES (4, 0)", "INSERT INTO orders VALUES (1, 1)")
    follower.once()
    follower.check("orders")
    reason = str(follower.states()["days"].reason)
    assert "column 'd' of type date is NOT NULL and has dates that the lake does not have" in reason
    assert "choose to-nullable among the type mappings" in reason
    resnapshot(origin, follower, "days", "replace")
    follower.change(type_mapping=frozenset({TypeMapping.TO_NULLABLE}))
    follower.once()
    follower.check("days", "orders")
    assert [row["d"] is None for row in follower.rows("days")] == [False, False, True]


def test_a_type_that_the_lake_does_not_have(origin: Origin, follower: Follower) -> None:
    origin.run(ORDERS, "INSERT INTO orders VALUES (1, 1)")
    origin.run(
        "CREATE TABLE places (id INT PRIMARY KEY, v INT)", "INSERT INTO places VALUES (1, 1)"
    )
    follower.once()
    kind = "VECTOR(2)" if origin.server.flavour == "mysql" else "INET6"
    if origin.server.flavour == "mysql" and origin.server.version < "9":
        kind = "GEOMETRY"
    origin.run(f"ALTER TABLE places ADD COLUMN x {kind}", "INSERT INTO places (id) VALUES (2)")
    origin.run("INSERT INTO orders VALUES (2, 2)")
    follower.once()
    follower.check("orders")
    if follower.phases()["places"] is TablePhase.STREAMING:
        follower.check("places")
        return
    assert str(follower.states()["places"].reason)
    assert [row["id"] for row in follower.rows("places")] == [1]
    origin.run("ALTER TABLE places DROP COLUMN x", "UPDATE places SET v = 5")
    resnapshot(origin, follower, "places")
    follower.once()
    follower.check("places", "orders")


def peak_memory(origin: Origin, lake: Path) -> int:
    """Run the pipeline in a process of its own; the most memory that it had, in KiB."""
    values = {
        "lake": str(lake),
        "address": [getattr(origin.address, name) for name in ("host", "port", "user", "password")],
        "include": [f"{origin.database}.*"],
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@with_files
def test_transactions_that_are_larger_than_the_memory(
    origin: Origin, follower: Follower, lake_path: Path
) -> None:
    # The lake's writer sorts rows in memory up to a size of its own.
    follower.change(table_options={"write-buffer-size": "8 mb"})
    origin.run("CREATE TABLE texts (id INT PRIMARY KEY, v LONGTEXT)")
    follower.once()

    def write(first: int, rows: int) -> None:
        origin.run("BEGIN")
        for key in range(first, first + rows, 1000):
            values = ", ".join(
                f"({number}, REPEAT(LPAD({number}, 32, 'x'), {ROW_BYTES // 32 + 1}))"
                for number in range(key, key + 1000)
            )
            origin.run(f"INSERT INTO texts VALUES {values}")
        origin.run("COMMIT")

    write(0, 5000)
    small = peak_memory(origin, lake_path)
    write(10_000, 100_000)
    large = peak_memory(origin, lake_path)
    follower.check("texts")
    # 100 MB of the log, and a fraction of it in memory.
    assert large < 2 * small, (small, large)


def test_compressed_transactions_are_not_inflated_in_memory(origin: Origin) -> None:
    origin.run("CREATE TABLE texts (id INT PRIMARY KEY, v LONGTEXT)")
    is_mysql = origin.server.flavour == "mysql"
    setting = "SESSION binlog_transaction_compression" if is_mysql else "GLOBAL log_bin_compress"
    values = ", ".join(f"({key}, REPEAT(LPAD({key}, 32, 'x'), 300))" for key in range(6000))
    with closing(MySQLSource(origin.address)) as source:
        start = source.position()
        origin.run(f"SET {setting} = ON")
        try:
            # An event that is larger than what is inflated at a time, and many small ones.
            origin.run("BEGIN", "INSERT INTO texts VALUES (-1, REPEAT('y', 10000000))")
            origin.run(f"INSERT INTO texts VALUES {values}", "COMMIT")
        finally:
            origin.run(f"SET {setting} = OFF")
        with closing(source.open_log(start, 1 << 20, lambda _: True)) as reader:
            reader.follow({origin.table("texts"): None})
            tracemalloc.start()
            try:
                batch = reader.read_batch(BatchLimits(60, bytes=1))
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert batch.size > 6000 * 32 * 300 + 10_000_000
    assert peak < batch.size * 0.7, (peak, batch.size)


@contextmanager
def more_files(count: int) -> Iterator[None]:
    """Let this process open so many files more than it has."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(file.name) for file in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@only_mysql  # Encrypted connections have at most 16 KiB at a time.
def test_large_transactions_need_few_files(origin: Origin, follower: Follower) -> None:
    origin.run("CREATE TABLE texts (id INT PRIMARY KEY, v LONGTEXT)")
    follower.once()
    texts = ", ".join(f"({key}, REPEAT(LPAD({key}, 32, 'x'), 250))" for key in range(1000))
    origin.run(f"INSERT INTO texts VALUES {texts}")
    follower.change(memory_bytes=100_000)
    with more_files(200):
        follower.once()
    follower.check("texts")
