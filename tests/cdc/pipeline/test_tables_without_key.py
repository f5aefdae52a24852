"""Tables without a primary key: rejected, or appended to with a row for each change."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pymysql
import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.source_logs import SourceServer

from headwater.cdc.model.layout import LayoutRules
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.pipeline.settings import TablesWithoutKey
from headwater.cdc.pipeline.start_check import start_findings
from headwater.cdc.pipeline.state import PipelineState, TablePhase
from headwater.cdc.service.running import RunningPipeline
from headwater.storage.errors import Invalid

TABLE = "CREATE TABLE t (a INT, b VARCHAR(20))"
ROWS = "INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, NULL), (NULL, NULL)"
ALL_TYPES = """
CREATE TABLE t (
  i TINYINT(1), u BIGINT UNSIGNED, d DECIMAL(12, 3), f FLOAT, g DOUBLE, s VARCHAR(30), c CHAR(5),
  x TEXT, y VARBINARY(9), z BLOB, j JSON, e ENUM('a', 'b'), m SET('p', 'q', 'r'), h DATE,
  k DATETIME(3), l TIMESTAMP(6) NULL, n TIME(3), o YEAR, q BIT(9)
)
"""
VALUES = (
    """(1, 18446744073709551615, -1.5, 0.1, 1e300, 'Ä', 'c', 'text', x'00ff', x'', '{"a": [1]}',
  'b', 'p,r', '2024-02-29', '2024-01-01 10:11:12.123', '2024-01-01 10:11:12.123456',
  '10:00:00.5', 2024, b'101')""",
    "(" + ", ".join(["NULL"] * 19) + ")",
)


@pytest.fixture
def appending(follower: Follower) -> Follower:
    """A pipeline that follows tables without a key."""
    follower.change(tables_without_key=TablesWithoutKey.APPEND)
    return follower


def kinds(follower: Follower, table: str = "t") -> list[tuple[object, ...]]:
    """The rows of the lake's table with their kinds first, in its order."""
    rows = follower.lake.table(f"lake.{table}").scan().to_arrow()
    assert rows.column_names[0] == "row_kind"
    return [tuple(row.values()) for row in rows.to_pylist()]


def test_rejected_by_default(origin: Origin, follower: Follower) -> None:
    origin.run(TABLE)
    with pytest.raises(Invalid, match="has no primary key; add a primary key, follow it with --ta"):
        follower.once()


def test_rows_and_changes_are_appended(origin: Origin, appending: Follower) -> None:
    origin.run(TABLE, ROWS)
    progress = appending.once()
    assert progress.tables[origin.table("t")].rows == 4
    appending.check("t")
    before = len(kinds(appending))
    origin.run(
        "INSERT INTO t VALUES (1, 'x')",
        "UPDATE t SET b = 'y' WHERE a = 2",
        "DELETE FROM t WHERE a = 1 LIMIT 1",
        "UPDATE t SET b = b",
    )
    appending.once()
    appending.check("t")
    assert appending.phases() == {"t": TablePhase.STREAMING}
    assert kinds(appending)[before:] == [
        ("+I", 1, "x"),
        ("-U", 2, None),
        ("+U", 2, "y"),
        ("-D", 1, "x"),
    ]
    schema = appending.lake.table("lake.t").schema
    assert (schema.primary_keys, schema.table_options.bucket) == ((), -1)
    assert schema.options["headwater.cdc.pipeline"] == "shop"


def test_beside_tables_with_a_key(origin: Origin, appending: Follower) -> None:
    appending.change(table_options={"bucket": "2", "target-file-size": "64 mb"})
    origin.run(TABLE, ROWS, "CREATE TABLE keyed (id INT PRIMARY KEY)")
    origin.run("INSERT INTO keyed VALUES (1), (2)")
    appending.once()
    origin.run("BEGIN", "INSERT INTO keyed VALUES (3)", "DELETE FROM t WHERE a = 2", "COMMIT")
    appending.once()
    appending.check("t", "keyed")
    buckets = {
        name: appending.lake.table(f"lake.{name}").schema.table_options.bucket
        for name in ("t", "keyed")
    }
    assert buckets == {"t": -1, "keyed": 2}
    assert appending.lake.table("lake.t").schema.options["target-file-size"] == "64 mb"


def test_values_of_all_types(origin: Origin, appending: Follower) -> None:
    origin.run(ALL_TYPES, f"INSERT INTO t VALUES {VALUES[0]}, {VALUES[1]}, {VALUES[0]}")
    appending.once()
    appending.check("t")
    origin.run(
        f"INSERT INTO t VALUES {VALUES[1]}, {VALUES[0]}",
        "UPDATE t SET f = -0.0, g = 0.1, s = 'ä ', m = '', j = '[]' WHERE i = 1 LIMIT 1",
        "DELETE FROM t WHERE i IS NULL LIMIT 1",
    )
    appending.once()
    appending.check("t")


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
@pytest.mark.parametrize("key", ["", ", UNIQUE (a)"])
def test_partial_images(origin: Origin, appending: Follower, image: str, key: str) -> None:
    origin.run(f"CREATE TABLE t (a INT NOT NULL, b VARCHAR(20) DEFAULT 'd', c BLOB, d INT{key})")
    origin.run("INSERT INTO t VALUES (1, 'x', 'one', 1), (2, 'x', 'two', NULL)")
    appending.once()
    session = f"SET SESSION binlog_row_image = '{image}'"
    origin.session(
        session,
        "UPDATE t SET d = 5 WHERE a = 1",
        "UPDATE t SET b = NULL, c = 'three' WHERE a = 2",
        "DELETE FROM t WHERE a = 1",
    )
    appending.once()
    appending.check("t")
    origin.session(session, "INSERT INTO t (a) VALUES (7)", "INSERT INTO t (a, d) VALUES (8, 9)")
    appending.once()
    appending.check("t")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD c INT",
        "ALTER TABLE t ADD c INT FIRST, DROP b",
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "ALTER TABLE t MODIFY a BIGINT AFTER b",
        "ALTER TABLE t MODIFY a VARCHAR(30)",
        "ALTER TABLE t ADD c INT NOT NULL DEFAULT 5",
        "ALTER TABLE t ADD c INT AS (a + 1) STORED",
        "ALTER TABLE t CONVERT TO CHARACTER SET latin1",
        "TRUNCATE TABLE t",
        "DROP TABLE t",
        "ALTER TABLE t ADD KEY (b, a)",
    ],
)
def test_schema_changes(origin: Origin, appending: Follower, statement: str) -> None:
    origin.run(TABLE, "INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, NULL)")
    appending.once()
    origin.run("UPDATE t SET a = 3 WHERE b IS NULL", statement)
    if statement.startswith("DROP"):
        origin.run(TABLE)
    origin.run("INSERT INTO t (a, b) VALUES (7, '8')" if "DROP b" not in statement else "DO 1")
    origin.run("UPDATE t SET a = a + 1 WHERE a < 2")
    appending.once()
    appending.check("t")
    assert appending.phases() == {"t": TablePhase.STREAMING}
    assert appending.lake.table("lake.t").schema.fields[0].name == "row_kind"


def test_partitions_renames_and_new_tables(origin: Origin, appending: Follower) -> None:
    origin.run(
        "CREATE TABLE p (a INT, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), "
        "PARTITION p1 VALUES LESS THAN (20))",
        "INSERT INTO p VALUES (1, 1), (1, 1), (11, 1)",
    )
    appending.once()
    origin.run("ALTER TABLE p DROP PARTITION p0", "INSERT INTO p VALUES (12, 2)")
    origin.run(TABLE, ROWS, "RENAME TABLE t TO u", "INSERT INTO u VALUES (5, 'u')")
    appending.once()
    appending.check("p", "u")
    origin.run("RENAME TABLE p TO q, u TO v", "INSERT INTO q VALUES (13, 3)", "DELETE FROM v")
    appending.once()
    appending.check("q", "v")


def test_sessions_whose_changes_are_not_in_the_log(origin: Origin, appending: Follower) -> None:
    origin.run(TABLE, ROWS)
    appending.once()
    origin.session("SET SESSION binlog_format = 'STATEMENT'", "UPDATE t SET a = 9 WHERE a = 1")
    origin.run("INSERT INTO t VALUES (4, 'z')")
    appending.once()
    appending.check("t")


def test_xa_transactions(origin: Origin, appending: Follower) -> None:
    origin.run(TABLE, ROWS)
    prepare = ("UPDATE t SET a = 50 WHERE a = 1", "XA END 'one'", "XA PREPARE 'one'")
    origin.session("XA START 'one'", *prepare)
    with RunningPipeline(appending.pipeline()) as pipeline:
        # It waits for the transaction, and says so.
        while "XA transactions are prepared" not in _reason(pipeline, origin):
            assert pipeline.is_running
        origin.session("XA COMMIT 'one'")
    appending.once()
    appending.check("t")
    origin.session("XA START 'one'", *prepare[:2], "XA COMMIT 'one' ONE PHASE")
    appending.once()
    origin.session("XA START 'one'", "DELETE FROM t WHERE a = 50", *prepare[1:])
    appending.once()
    origin.session("XA COMMIT 'one'")
    appending.once()
    appending.check("t")


def _reason(pipeline: RunningPipeline, origin: Origin) -> str:
    table = pipeline.status().tables.get(origin.table("t"))
    return "" if table is None else table.reason or ""


@pytest.mark.parametrize(
    "statement", ["ALTER TABLE t ADD PRIMARY KEY (a)", "ALTER TABLE u DROP PRIMARY KEY"]
)
def test_a_key_that_comes_or_goes(origin: Origin, appending: Follower, statement: str) -> None:
    origin.run("CREATE TABLE t (a INT NOT NULL)", "CREATE TABLE u (a INT PRIMARY KEY)")
    origin.run("INSERT INTO t VALUES (1), (2)", "INSERT INTO u VALUES (1), (2)")
    appending.once()
    origin.run(statement, "INSERT INTO t VALUES (3)", "INSERT INTO u VALUES (3)")
    appending.once()
    name = statement.split()[2]
    reason = appending.states()[name].reason or ""
    assert "primary key of" in reason
    assert "--replace" in reason
    resnapshot(appending, origin, name, "replace")
    appending.once()
    appending.check("t", "u")


def resnapshot(follower: Follower, origin: Origin, table: str, value: str = "") -> None:
    state = PipelineState.open(follower.lake, "lake", "shop")
    state.request(f"resnapshot:{origin.table(table).escaped}", value)


def test_reading_again_replaces_the_rows(origin: Origin, appending: Follower) -> None:
    origin.run(TABLE, ROWS)
    appending.once()
    appending.lake.table("lake.t").truncate()
    assert not appending.verify()["t"].is_equal
    resnapshot(appending, origin, "t")
    origin.run("DELETE FROM t WHERE a = 2")
    appending.once()
    appending.check("t")
    assert {row[0] for row in kinds(appending)} == {"+I"}


def test_reading_again_replaces_partitions(origin: Origin, appending: Follower) -> None:
    appending.change(layout=LayoutRules(partition_keys={"": ("d",)}))
    origin.run(
        "CREATE TABLE t (d INT, v INT) PARTITION BY RANGE (d) "
        "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
        "INSERT INTO t VALUES (1, 1), (11, 2)",
    )
    appending.once()
    origin.run("ALTER TABLE t DROP PARTITION p0")
    appending.once()
    appending.check("t")
    assert kinds(appending) == [("+I", 11, 2)]


def test_a_rename_replaces_partitions(origin: Origin, appending: Follower) -> None:
    rules = LayoutRules(metadata=("table_name",), partition_keys={"": ("table_name",)})
    appending.change(layout=rules)
    origin.run("CREATE TABLE t (d INT)", "INSERT INTO t VALUES (1), (2)")
    appending.once()
    origin.run("RENAME TABLE t TO u")
    appending.once()
    appending.check("u")
    names = appending.lake.table("lake.u").scan(columns=["table_name"]).to_arrow()
    assert names["table_name"].to_pylist() == ["u", "u"]


def test_a_user_with_the_privileges_of_the_tutorial(
    origin: Origin, appending: Follower, source: SourceServer
) -> None:
    origin.run(TABLE, ROWS)
    is_mysql = origin.server.flavour == "mysql"
    status = "REPLICATION CLIENT, XA_RECOVER_ADMIN" if is_mysql else "BINLOG MONITOR"
    # Nobody else may grant.
    socket = str(source.folder / "socket")
    with pymysql.connect(unix_socket=socket, user="root").cursor() as administrator:
        administrator.execute("CREATE USER reader IDENTIFIED BY 'secret'")
        administrator.execute(f"GRANT REPLICATION SLAVE, {status} ON *.* TO reader")
        administrator.execute(f"GRANT SELECT ON `{origin.database}`.* TO reader")
        origin.address = replace(origin.address, user="reader", password="secret")
        appending.once()
        origin.run("INSERT INTO t VALUES (2, 'y')")
        appending.once()
        appending.check("t")
        administrator.execute("DROP USER reader")


def test_verify_counts_equal_rows(origin: Origin, appending: Follower) -> None:
    origin.run(TABLE, ROWS)
    appending.once()
    doubled = {"row_kind": ["+I", "-D"], "a": [1, 2], "b": ["x", None]}
    appending.lake.table("lake.t").write(doubled)
    verdict = appending.verify()["t"]
    assert (verdict.source_rows, verdict.lake_rows) == (4, 4)
    assert sorted(map(tuple, (row.values() for row in verdict.differences.to_pylist()))) == [
        (1, "x", "more in the lake than in the source"),
        (2, None, "fewer in the lake than in the source"),
    ]


def test_what_cannot_be_followed_is_named(origin: Origin, appending: Follower) -> None:
    origin.run(
        "CREATE TABLE m (a INT) ENGINE = MyISAM",
        "CREATE TABLE k (a INT, Row_Kind INT)",
        "CREATE TABLE parents (id INT PRIMARY KEY)",
        "CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES parents (id) ON DELETE CASCADE)",
        "CREATE TABLE r (p INT, FOREIGN KEY (p) REFERENCES parents (id))",
        TABLE,
    )
    with closing(MySQLSource(origin.address)) as source:
        findings = start_findings(appending.lake, source, appending.settings)
    problems = {str(finding).replace(f"{origin.database}.", "") for finding in findings}
    expected = {
        "table m: it has no primary key, and its engine MyISAM has no consistent reads; ALTER "
        "TABLE m ENGINE = InnoDB, add a primary key, or leave it out with --exclude",
        "table lake.k of the lake, for k: column k.Row_Kind has the name of the lake's column of "
        "row kinds; rename it, or leave the table out with --exclude",
    }
    if origin.server.flavour == "mariadb":
        expected.add(
            "table c: it has no primary key, and a foreign key changes its rows without events; "
            "add a primary key, drop the foreign key, or leave it out with --exclude"
        )
    assert problems == expected


def test_what_cannot_be_followed_any_more(origin: Origin, appending: Follower) -> None:
    origin.run(TABLE, "CREATE TABLE c (p INT)", "CREATE TABLE parents (id INT PRIMARY KEY)")
    origin.run("INSERT INTO parents VALUES (1)", "INSERT INTO c VALUES (1), (1)")
    appending.once()
    origin.run(
        "ALTER TABLE t RENAME COLUMN b TO row_kind",
        "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES parents (id) ON DELETE CASCADE",
        "DELETE FROM parents",
    )
    appending.once()
    states = appending.states()
    assert "name of the lake's column of row kinds" in (states["t"].reason or "")
    if origin.server.flavour == "mariadb":
        assert "a foreign key was added" in (states["c"].reason or "")
        appending.check("parents")
    else:
        appending.check("parents", "c")
