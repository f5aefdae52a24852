"""What users of other tools reported as lost, doubled or wrong, on real servers.

Each test is named after the reports of the situation that it drives, by project and number.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from threading import Event
from time import monotonic

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.pipeline.cut_connections import CutConnections
from tests.cdc.pipeline.killed_pipelines import Writer
from tests.cdc.source_logs import with_files

from headwater.cdc.columns import BadDates
from headwater.cdc.mysql.column_types import TypeMapping
from headwater.cdc.mysql.positions import parse_position
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.state import PipelineState, TablePhase
from headwater.cdc.service.running import RunningPipeline
from headwater.storage.errors import Conflict

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, v INT, w VARCHAR(60))"
MANY = 6000


def numbers(first: int, last: int) -> str:
    """Rows of `TABLE`, as VALUES has them."""
    return ", ".join(f"({key}, {key % 7}, 'row number {key}')" for key in range(first, last))


def is_mysql(origin: Origin) -> bool:
    """Whether the origin is MySQL."""
    return origin.server.flavour == "mysql"


def until(condition: Callable[[], bool], pipeline: RunningPipeline) -> None:
    """Wait for what a running pipeline does."""
    deadline, wake = monotonic() + 60, Event()
    while not condition():
        if not pipeline.is_running:
            pipeline.wait()
            raise AssertionError("the pipeline has ended")
        assert monotonic() < deadline, pipeline.status()
        wake.wait(0.02)


@contextmanager
def writes(origin: Origin, tables: int, seed: int) -> Iterator[Writer]:
    """Change rows of tables t0, t1 … all the time."""

    def statements(values: random.Random) -> list[str]:
        table, key = f"t{values.randrange(tables)}", values.randrange(2 * MANY)
        return [
            "BEGIN",
            f"INSERT IGNORE INTO {table} VALUES ({key}, 0, 'new')",
            f"UPDATE {table} SET v = v + 1 WHERE id BETWEEN {key} AND {key + 9}",
            f"DELETE FROM {table} WHERE id = {values.randrange(2 * MANY)}",
            "COMMIT",
        ]

    with Writer(origin.address, origin.database, statements, seed) as writer:
        yield writer
    assert writer.transactions
    assert not writer.errors


# Positions --------------------------------------------------------------------------------------


@with_files
@pytest.mark.parametrize(
    "cuts",
    [
        # The events of a small transaction begin and end at such places.
        pytest.param(list(range(250, 1000, 37)), id="flink_cdc_2217"),
        pytest.param([40_000, 80_000, 120_000], id="flink_cdc_4165"),
        pytest.param([100_000, 100_000, 70_000], id="python_mysql_replication_367"),
        pytest.param([50_000, 130_000], id="mysql_binlog_connector_java_250"),
    ],
)
def test_a_reader_that_is_cut_off(origin: Origin, follower: Follower, cuts: list[int]) -> None:
    """The position was within a transaction, or past it: its rows were lost, or came twice."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 10)}")
    follower.once()
    is_bulk = cuts[0] > 10_000
    if is_bulk:
        origin.run(f"INSERT INTO t VALUES {numbers(10, MANY)}")
    else:
        origin.run("BEGIN", f"INSERT INTO t VALUES {numbers(10, 14)}", "UPDATE t SET v = v + 1")
        origin.run("DELETE FROM t WHERE id = 1", "COMMIT")
    whole = origin.server.rows("SELECT COUNT(*) FROM t")[0][0]
    started = follower.pipeline()
    with CutConnections(origin.address, cuts, lambda: started.stop()) as way:
        # A place beyond the end of the transaction cuts nothing.
        for _ in cuts:
            through = partial(MySQLSource, way.address)
            started = Pipeline(follower.lake, through, follower.settings)
            started.run(once=True)
            assert len(follower.rows("t")) in (10, whole)
        assert way.cut_readers >= min(len(cuts), 8)
    origin.run("UPDATE t SET v = v + 10 WHERE id < 100")
    follower.once()
    follower.check("t")


def test_flink_cdc_4072(origin: Origin, follower: Follower) -> None:
    """A position with a gap was taken for one without: the transaction in the gap was lost."""
    origin.run(TABLE)
    follower.once()
    if is_mysql(origin):
        name = "11111111-2222-3333-4444-555555555555"
        gtids = [f"SET SESSION gtid_next = '{name}:{number}'" for number in (1, 2, 4, 6, 3, 5)]
    else:
        # The numbers of a domain may have gaps, which nothing fills later.
        gtids = [
            f"SET SESSION gtid_domain_id = {domain}, gtid_seq_no = {number}"
            for domain, number in ((7, 1), (7, 2), (7, 4), (7, 9), (8, 3), (8, 5))
        ]
    for number, gtid in enumerate(gtids):
        end = ("SET SESSION gtid_next = 'AUTOMATIC'",) if is_mysql(origin) else ()
        origin.session(gtid, f"INSERT INTO t VALUES ({number}, 1, '{number}')", *end)
        follower.once()
        assert len(follower.rows("t")) == number + 1
    follower.check("t")


@pytest.mark.parametrize("report", ["flink_cdc_3452", "flink_cdc_2794", "flink_cdc_2929"])
def test_several_servers_in_a_position(origin: Origin, follower: Follower, report: str) -> None:
    """Positions were compared by server: rows were lost after a restart, and in the snapshot."""
    names = ["0000000a-0000-0000-0000-000000000000", "ffffffff-0000-0000-0000-000000000000"]
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 50)}")
    follower.change(range_rows=7)
    for number in range(6):
        first = {"flink_cdc_3452": 5, "flink_cdc_2794": 900, "flink_cdc_2929": 40}[report]
        if is_mysql(origin):
            gtid = f"SET SESSION gtid_next = '{names[number % 2]}:{first + number}'"
            end = "SET SESSION gtid_next = 'AUTOMATIC'"
        else:
            # Of a replica that was written by others: servers and domains are mixed.
            server, domain = 90 - number, 20 + number % 2
            gtid = f"SET SESSION server_id = {server}, gtid_domain_id = {domain}"
            end = "SET SESSION server_id = 1"
        origin.session(gtid, f"REPLACE INTO t VALUES ({number}, 9, 'x'), (1, {number}, '')", end)
        origin.run(f"UPDATE t SET v = {number} WHERE id = 3")
        if number != 3:
            follower.once()
    follower.check("t")


@with_files
def test_flink_cdc_1117(origin: Origin, follower: Follower) -> None:
    """The position of a quiet table was purged with the log: the pipeline could not go on."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 5)}", "CREATE TABLE busy (id INT)")
    follower.change(exclude=("*.busy",), quiet_seconds=0, batch_seconds=0.05)
    state = PipelineState.open(follower.lake, "lake", "shop")
    with RunningPipeline(follower.pipeline()) as running:
        until(lambda: follower.batch() > 0, running)
        until(lambda: follower.phases() == {"t": TablePhase.STREAMING}, running)
        for number in range(2):
            origin.run(f"INSERT INTO busy VALUES ({number})", "FLUSH BINARY LOGS")
        with closing(MySQLSource(origin.address)) as source:
            goal = source.position()

        def is_recorded() -> bool:
            plan = state.plan()
            assert plan is not None
            assert plan.start is not None
            return parse_position(origin.server.flavour, plan.start).contains(goal)

        # While it runs: at its end a pipeline records its position in any case.
        until(is_recorded, running)
    purge(origin)
    origin.run("UPDATE t SET v = 100")
    follower.once()
    follower.check("t")


def purge(origin: Origin) -> None:
    """Delete all of the server's log but the file that is being written."""
    deadline, wake = monotonic() + 60, Event()
    while True:
        # A reader that is gone keeps its file until the server sees that.
        *_, (last, *_) = origin.server.rows("SHOW BINARY LOGS")
        origin.run(f"PURGE BINARY LOGS TO '{last}'")
        if len(origin.server.rows("SHOW BINARY LOGS")) == 1:
            return
        assert monotonic() < deadline
        wake.wait(0.1)


# Tables and ranges ------------------------------------------------------------------------------


@with_files
@pytest.mark.parametrize("report", ["flink_cdc_4388", "debezium_6498"])
def test_writes_during_the_snapshot(
    origin: Origin, follower: Follower, report: str, seed: int
) -> None:
    """It waited for the end of a range for ever; rows that were written meanwhile came twice."""
    origin.run("CREATE TABLE t0 (id INT PRIMARY KEY, v INT, w VARCHAR(60))")
    origin.run(f"INSERT INTO t0 VALUES {numbers(0, MANY)}")
    range_rows = {"flink_cdc_4388": 300, "debezium_6498": 100_000}[report]
    follower.change(range_rows=range_rows, task_rows=300, batch_seconds=0.1)
    with writes(origin, 1, seed):
        follower.once()
    follower.once()
    follower.check("t0")
    assert follower.phases() == {"t0": TablePhase.STREAMING}


def test_flink_cdc_1486(origin: Origin, follower: Follower, seed: int) -> None:
    """Tables that were added later lost rows between their snapshot and the log."""
    for number in range(3):
        origin.run(f"CREATE TABLE t{number} (id INT PRIMARY KEY, v INT, w VARCHAR(60))")
        origin.run(f"INSERT INTO t{number} VALUES {numbers(0, MANY)}")
    follower.change(
        include=(f"{origin.database}.t0",), range_rows=1000, task_rows=300, batch_seconds=0.1
    )
    with writes(origin, 3, seed):
        follower.once()
        follower.change(include=(f"{origin.database}.t*",))
        follower.once()
    follower.once()
    follower.check("t0", "t1", "t2")


def test_flink_cdc_4413(origin: Origin, follower: Follower, seed: int) -> None:
    """Ranges of keys were compared otherwise than by the source: changes of rows were lost."""
    words = ["a", "B", "c", "Á", "ä", "Z", "_", "é", "ß", "ÿ", "0", "-", "я", "Ж", "日", "~"]
    columns = "v INT, PRIMARY KEY (w, n)"
    collations = ["utf8mb4_general_ci", "utf8mb4_bin"]
    names = []
    for number, collation in enumerate(collations):
        origin.run(
            f"CREATE TABLE k{number} (w VARCHAR(9) CHARACTER SET utf8mb4 COLLATE {collation}, "
            f"n INT, {columns})"
        )
        rows = ", ".join(f"('{word}', {n}, 0)" for n, word in enumerate(words))
        origin.run(f"INSERT INTO k{number} VALUES {rows}")
        names.append(f"k{number}")

    def statements(values: random.Random) -> list[str]:
        table, word, n = values.choice(names), values.choice(words), values.randrange(20)
        return [
            f"UPDATE {table} SET v = v + 1 WHERE w >= '{word}'",
            f"REPLACE INTO {table} VALUES ('{word}', {n}, 5)",
            f"DELETE FROM {table} WHERE w = '{values.choice(words)}' AND n = {n}",
        ]

    follower.change(range_rows=3, batch_seconds=1)
    with Writer(origin.address, origin.database, statements, seed) as writer:
        follower.once()
    assert writer.transactions
    assert not writer.errors
    follower.once()
    follower.check(*names)


def test_pg_chameleon_111(origin: Origin, follower: Follower) -> None:
    """Rows beyond the size of a batch were lost, of one transaction too."""
    follower.change(range_rows=1000, batch_bytes=20_000, memory_bytes=30_000)
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 1800)}")
    follower.once()
    origin.run(f"INSERT INTO t VALUES {numbers(1800, MANY)}")
    for key in range(20):
        origin.run(f"UPDATE t SET w = REPEAT('x', 60), v = {key} WHERE id % 20 = {key}")
    before = follower.batch()
    follower.once()
    follower.check("t")
    assert follower.batch() - before > 10


@pytest.mark.parametrize("table", ["t$1", "t+1", "t(1)", "t[1]", "t^1", "t|1", "t{1}"])
def test_paimon_7619(origin: Origin, follower: Follower, table: str) -> None:
    """An excluded table with special characters in its name was followed all the same."""
    follower.change(exclude=(f"{origin.database}.{table}",))
    origin.run("CREATE TABLE t1 (id INT PRIMARY KEY)", "INSERT INTO t1 VALUES (1)")
    origin.run(f"CREATE TABLE `{table}` (id INT PRIMARY KEY)", f"INSERT INTO `{table}` VALUES (1)")
    follower.once()
    origin.run(f"INSERT INTO `{table}` VALUES (2)", "INSERT INTO t1 VALUES (2)")
    follower.once()
    follower.check("t1")
    assert set(follower.states()) == {"t1"}


# Schema changes ---------------------------------------------------------------------------------


def test_flink_cdc_3502(origin: Origin, follower: Follower) -> None:
    """A column that was added while the pipeline was down never arrived."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 5)}")
    follower.once()
    origin.run(
        "ALTER TABLE t ADD COLUMN later INT DEFAULT 3", "UPDATE t SET later = 4 WHERE id < 2"
    )
    follower.once()
    follower.check("t")
    assert [row["later"] for row in follower.rows("t")] == [4, 4, 3, 3, 3]


def test_flink_cdc_4183(origin: Origin, follower: Follower) -> None:
    """MODIFY … AFTER was passed over: later values were in other columns."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 5)}")
    follower.once()
    origin.run(
        "ALTER TABLE t ADD COLUMN u VARCHAR(60)", "ALTER TABLE t MODIFY w VARCHAR(60) AFTER u"
    )
    origin.run("ALTER TABLE t MODIFY v INT FIRST", "INSERT INTO t VALUES (1, 70, 'of u', 'of w')")
    follower.once()
    follower.check("t")
    row = next(row for row in follower.rows("t") if row["id"] == 70)
    assert row == {"id": 70, "v": 1, "u": "of u", "w": "of w"}


def test_flink_cdc_4360(origin: Origin, follower: Follower) -> None:
    """A schema change between rows of one checkpoint doubled them."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 5)}")
    follower.once()
    for number in range(4):
        origin.run(f"INSERT INTO t (id, v) VALUES ({10 + number}, 1)", "UPDATE t SET v = v + 1")
        origin.run(f"ALTER TABLE t ADD COLUMN c{number} INT NOT NULL DEFAULT {number}")
        origin.run(f"DELETE FROM t WHERE id = {number}", "UPDATE t SET v = v + 1")
    follower.change(batch_seconds=60)
    follower.once()
    follower.check("t")


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("ALTER TABLE t ADD COLUMN u INT DEFAULT 5 FIRST", id="flink_cdc_4273-first"),
        pytest.param("ALTER TABLE t DROP COLUMN v, ADD COLUMN u INT", id="flink_cdc_4273-dropped"),
        pytest.param("ALTER TABLE t MODIFY v INT AFTER w", id="flink_cdc_4273-moved"),
    ],
)
def test_a_change_between_ranges(origin: Origin, follower: Follower, statement: str) -> None:
    """A range was read with all columns of then: values were in columns beside their own."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, MANY)}")
    follower.change(range_rows=200, readers=1, batch_seconds=0.05)
    with RunningPipeline(follower.pipeline()) as running:
        until(lambda: sum(t.rows for t in running.status().tables.values()) > 0, running)
        origin.run(statement)
    origin.run("INSERT INTO t (id, w) VALUES (100000, 'after')")
    follower.once()
    follower.check("t")


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param("_t_gho", "_t_del", id="flink_cdc_4064"),
        pytest.param("_t_new", "_t_old", id="paimon_3450"),
    ],
)
def test_tables_that_change_places(origin: Origin, follower: Follower, new: str, old: str) -> None:
    """The second migration of a tool failed, or the pipeline was in an endless loop after it."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 50)}")
    follower.once()
    for number in range(3):
        origin.run(
            f"CREATE /* gh-ost */ TABLE {new} LIKE t",
            f"ALTER /* gh-ost */ TABLE {new} ADD COLUMN c{number} INT NOT NULL DEFAULT {number}",
            f"INSERT IGNORE INTO {new} (id, v, w) SELECT id, v, w FROM t",
            f"REPLACE INTO {new} (id, v) VALUES ({100 + number}, 1)",
            f"RENAME /* gh-ost */ TABLE t TO {old}, {new} TO t",
            f"DROP TABLE IF EXISTS {old}",
            "UPDATE t SET v = v + 1",
        )
        if number:
            follower.once()
            follower.check("t")
    assert follower.phases() == {"t": TablePhase.STREAMING}


def test_paimon_2864(origin: Origin, follower: Follower) -> None:
    """A column was added and a row changed right after it: the row was deleted."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 5)}")
    follower.once()
    origin.run("ALTER TABLE t ADD COLUMN u INT DEFAULT NULL", "UPDATE t SET u = 7 WHERE id = 2")
    follower.once()
    follower.check("t")
    assert [row["u"] for row in follower.rows("t")] == [None, None, 7, None, None]


def test_paimon_2843(origin: Origin, follower: Follower) -> None:
    """A column with a default was added: rows that were there stayed null."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 5)}")
    follower.once()
    origin.run("ALTER TABLE t ADD COLUMN u INT DEFAULT 7, ADD x VARCHAR(9) NOT NULL DEFAULT 'x'")
    follower.once()
    follower.check("t")
    assert {(row["u"], row["x"]) for row in follower.rows("t")} == {(7, "x")}


def test_paimon_5791(origin: Origin, follower: Follower) -> None:
    """A compaction that began with the old schema set the new column to null."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 5)}")
    follower.once()
    earlier = follower.lake.table("lake.t")
    assert earlier.scan().count() == 5
    origin.run("ALTER TABLE t ADD COLUMN u INT", "UPDATE t SET u = id")
    follower.once()
    with pytest.raises(Conflict, match="its schema changed"):
        earlier.compact(full=True)
    follower.check("t")
    follower.lake.table("lake.t").compact(full=True)
    follower.check("t")
    assert [row["u"] for row in follower.rows("t")] == [0, 1, 2, 3, 4]


def test_paimon_3088(origin: Origin, follower: Follower) -> None:
    """One column's comment was changed: the comments of all others were gone."""
    origin.run("CREATE TABLE t (id INT PRIMARY KEY COMMENT 'key', v INT COMMENT 'count', w INT)")
    follower.once()
    origin.run("ALTER TABLE t MODIFY w INT COMMENT 'weight'", "INSERT INTO t VALUES (1, 2, 3)")
    follower.once()
    follower.check("t")
    fields = follower.lake.table("lake.t").schema.fields
    assert [field.description for field in fields] == ["key", "count", "weight"]


def test_paimon_2011(origin: Origin, follower: Follower) -> None:
    """Columns that are NOT NULL at the source took nulls in the lake, or lost it by a change."""
    origin.run("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, w VARCHAR(9) NOT NULL, x INT)")
    origin.run("INSERT INTO t VALUES (1, 2, 'w', NULL)")
    follower.once()
    origin.run("ALTER TABLE t MODIFY w VARCHAR(30) NOT NULL", "INSERT INTO t VALUES (2, 2, 'w', 1)")
    follower.once()
    follower.check("t")
    fields = follower.lake.table("lake.t").schema.fields
    assert [field.type.nullable for field in fields] == [False, False, False, True]


# Transactions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("report", ["flink_cdc_1239", "spirit_1079"])
def test_xa_transactions_that_are_rolled_back(
    origin: Origin, follower: Follower, report: str
) -> None:
    """Rows of a prepared transaction stayed after XA ROLLBACK."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 5)}")
    follower.once()
    for xid, end in (("one", "ROLLBACK"), ("two", "COMMIT")):
        origin.session(
            f"XA START '{xid}'",
            f"INSERT INTO t VALUES (10{len(end)}, 1, 'prepared')",
            f"DELETE FROM t WHERE id = {len(end) - 6}",
            f"XA END '{xid}'",
            f"XA PREPARE '{xid}'",
        )
    if report == "spirit_1079":
        follower.once()
        follower.check("t")
    origin.session("XA ROLLBACK 'one'")
    if report == "spirit_1079":
        follower.once()
        follower.check("t")
    origin.session("XA COMMIT 'two'")
    follower.once()
    follower.check("t")
    assert [row["id"] for row in follower.rows("t")] == [1, 2, 3, 4, 106]


@with_files
def test_dbtrail_414(origin: Origin, follower: Follower) -> None:
    """Compressed transactions were passed over while the position went on."""
    origin.run(TABLE, f"INSERT INTO t VALUES {numbers(0, 5)}", "CREATE TABLE other (id INT)")
    follower.change(exclude=("*.other",))
    follower.once()
    statements = [
        "BEGIN",
        f"INSERT INTO t VALUES {numbers(5, MANY)}",
        "INSERT INTO other VALUES (1)",
        "UPDATE t SET w = REPEAT('y', 60) WHERE id % 2 = 0",
        "DELETE FROM t WHERE id % 3 = 0",
        "COMMIT",
        "ALTER TABLE t ADD COLUMN u INT",
        "UPDATE t SET u = 2 WHERE id < 100",
    ]
    if is_mysql(origin):
        origin.session("SET SESSION binlog_transaction_compression = ON", *statements)
    else:
        origin.run("SET GLOBAL log_bin_compress = ON, log_bin_compress_min_len = 10")
        try:
            origin.session(*statements)
        finally:
            origin.run("SET GLOBAL log_bin_compress = OFF, log_bin_compress_min_len = 256")
    follower.once()
    follower.check("t")
    assert len(follower.rows("t")) == MANY - MANY // 3


def test_clickhouse_sink_connector_421(origin: Origin, follower: Follower) -> None:
    """Children that a foreign key deletes at the source stayed."""
    origin.run(
        "CREATE TABLE parents (id INT PRIMARY KEY)",
        "CREATE TABLE children (id INT PRIMARY KEY, parent INT, "
        "FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE)",
        "INSERT INTO parents VALUES (1), (2)",
        "INSERT INTO children VALUES (1, 1), (2, 1), (3, 2)",
    )
    follower.once()
    origin.run("DELETE FROM parents WHERE id = 1")
    follower.once()
    follower.check("parents", "children")
    assert [row["id"] for row in follower.rows("children")] == [3]


# Values -----------------------------------------------------------------------------------------


def test_python_mysql_replication_311(origin: Origin, follower: Follower) -> None:
    """Large arrays in JSON were decoded wrongly: integers of four bytes were taken for eight."""
    origin.run("CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    follower.once()
    values = [
        list(range(100_000)),
        [-(1 << 31), (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40, 0.5, None, True] * 9000,
        {f"key {number}": [number, str(number)] for number in range(9000)},
        ["x" * 70_000, 1, [65_535, 65_536]],
    ]
    for number, value in enumerate(values):
        origin.server.rows("INSERT INTO t VALUES (%s, %s)", [number, json.dumps(value)])
    follower.once()
    follower.check("t")
    assert [json.loads(str(row["j"])) for row in follower.rows("t")] == values


@pytest.mark.parametrize("report", ["maxwell_928", "airbyte_81630"])
def test_zero_dates(origin: Origin, follower: Follower, report: str) -> None:
    """A zero timestamp became 1970; a zero date in a NOT NULL column stopped all tables."""
    null = "NULL" if report == "maxwell_928" else "NOT NULL"
    origin.run("SET SESSION sql_mode = ''")
    origin.run(
        f"CREATE TABLE t (id INT PRIMARY KEY, d DATE {null}, s TIMESTAMP {null} DEFAULT 0, "
        f"m DATETIME(3) {null})",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1, '2024-02-03', '2024-02-03', '2024-02-03'), (2, 0, 0, 0)",
    )
    if null == "NOT NULL":
        follower.change(type_mapping=frozenset({TypeMapping.TO_NULLABLE}))
    follower.change(bad_dates=BadDates.NULL)
    follower.once()
    origin.run("INSERT INTO t VALUES (3, 0, 0, 0)", "INSERT INTO other VALUES (1)")
    origin.run("UPDATE t SET m = '2024-02-03 01:02:03.004' WHERE id = 2")
    follower.once()
    follower.check("t", "other")
    rows = follower.rows("t")
    assert [row["d"] is None for row in rows] == [False, True, True]
    assert [row["s"] is None for row in rows] == [False, True, True]
    assert [row["m"] is None for row in rows] == [False, False, True]


def test_materialize_36649(origin: Origin, follower: Follower) -> None:
    """The year 0 was 0 in the snapshot and 1900 in the log."""
    origin.run("CREATE TABLE t (id INT PRIMARY KEY, y YEAR)")
    origin.run("INSERT INTO t VALUES (1, 0), (2, 1901), (3, 2155), (4, NULL)")
    follower.once()
    origin.run("INSERT INTO t VALUES (5, 0), (6, 1901), (7, 2155), (8, NULL)")
    origin.run("UPDATE t SET y = 0 WHERE id = 3")
    follower.once()
    follower.check("t")
    assert [row["y"] for row in follower.rows("t")] == [0, 1901, 0, None, 0, 1901, 2155, None]
