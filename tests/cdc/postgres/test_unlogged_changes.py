"""Statements that change rows of PostgreSQL's tables without a word in the log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.cdc.postgres.conftest import Follower, PostgresDatabase
from tests.cdc.waiting import until

from headwater.cdc.pipeline.settings import TablesWithoutKey
from headwater.cdc.service.running import RunningPipeline
from headwater.cdc.service.verify import verify

pytestmark = pytest.mark.postgresql

LOGS = (
    "CREATE TABLE logs (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id)",
    "CREATE TABLE logs_0 PARTITION OF logs FOR VALUES FROM (0) TO (100)",
    "INSERT INTO logs SELECT n, 'old' FROM generate_series(1, 50) n",
)
ATTACHED = (
    "CREATE TABLE logs_1 (LIKE logs INCLUDING ALL)",
    "INSERT INTO logs_1 SELECT n, 'attached' FROM generate_series(100, 120) n",
    "ALTER TABLE logs ATTACH PARTITION logs_1 FOR VALUES FROM (100) TO (200)",
)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ALTER v TYPE INT USING v * 10",
        "ALTER TABLE t ALTER w TYPE TEXT USING upper(w)",
    ],
)
def test_values_that_change_while_their_type_stays(
    postgres: PostgresDatabase, follower: Follower, statement: str
) -> None:
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, w TEXT)",
        "INSERT INTO t SELECT n, n, 'word ' || n FROM generate_series(1, 50) n",
    )
    follower.once()
    postgres.run(statement)
    follower.once()
    follower.check("t")


@pytest.mark.parametrize("is_parted", [False, True])
def test_a_column_that_is_generated_no_more(
    postgres: PostgresDatabase, follower: Follower, is_parted: bool
) -> None:
    columns = "(id INT PRIMARY KEY, v INT GENERATED ALWAYS AS (id * 10) STORED, w INT)"
    parts = (
        f"CREATE TABLE t {columns} PARTITION BY RANGE (id)",
        "CREATE TABLE t_0 PARTITION OF t FOR VALUES FROM (0) TO (100)",
    )
    postgres.run(*(parts if is_parted else (f"CREATE TABLE t {columns}",)))
    postgres.run("INSERT INTO t (id, w) SELECT n, n FROM generate_series(1, 50) n")
    follower.once()
    postgres.run(
        "ALTER TABLE t ALTER v DROP EXPRESSION", "INSERT INTO t (id, v, w) VALUES (60, 1, 2)"
    )
    follower.once()
    follower.check("t")
    assert follower.rows("t")[0] == {"id": 1, "v": 10, "w": 1}


def test_values_that_change_again_and_again_while_a_pipeline_runs(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    follower.change(look_seconds=0)
    follower.once()
    with RunningPipeline(follower.pipeline()):
        for number in range(2, 5):
            postgres.run(f"INSERT INTO t VALUES ({number}, 1)")
            until(lambda: follower.rows("t") == source_rows(postgres))
            postgres.run("ALTER TABLE t ALTER v TYPE INT USING v * 10")
            until(lambda: follower.rows("t") == source_rows(postgres))
    follower.once()
    follower.check("t")


def source_rows(postgres: PostgresDatabase) -> list[dict[str, object]]:
    return [{"id": number, "v": v} for number, v in postgres.rows("SELECT id, v FROM t ORDER BY 1")]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
        "ALTER TYPE point2 ADD ATTRIBUTE z INT",
        "ALTER TYPE point2 DROP ATTRIBUTE y",
        "ALTER TABLE rows DROP COLUMN v",
    ],
)
def test_values_that_are_written_otherwise(
    postgres: PostgresDatabase, follower: Follower, statement: str
) -> None:
    postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE DOMAIN feeling AS mood",
        "CREATE TYPE point2 AS (x INT, y INT)",
        "CREATE TYPE span AS RANGE (SUBTYPE = mood)",
        "CREATE TABLE rows (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE t (id INT PRIMARY KEY, m mood[], f feeling, p point2, r rows, s span)",
        "INSERT INTO t VALUES (1, '{sad,glad}', 'sad', '(1,2)', '(1,a)', '[sad,sad]')",
    )
    follower.once()
    follower.check("t")
    postgres.run(statement, "INSERT INTO t VALUES (2, '{glad}', 'glad', NULL, NULL, NULL)")
    assert "t" in follower.once()
    follower.check("t")


def test_an_enum_with_another_value_is_not_read_again(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE t (id INT PRIMARY KEY, m mood)",
        "INSERT INTO t VALUES (1, 'sad')",
    )
    follower.once()
    postgres.run("ALTER TYPE mood ADD VALUE 'mad'", "INSERT INTO t VALUES (2, 'mad')")
    assert follower.once() == set()
    follower.check("t")


def test_a_table_in_another_file_is_not_read_again(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    follower.once()
    postgres.run("VACUUM FULL t", "ANALYZE t")
    assert follower.once() == set()
    follower.check("t")


def test_partitions_that_come_with_rows_and_go(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(*LOGS)
    follower.once()
    postgres.run(*ATTACHED, "UPDATE logs SET v = 'new' WHERE id = 101")
    follower.once()
    follower.check("logs")
    assert len(follower.rows("logs")) == 71
    postgres.run("ALTER TABLE logs DETACH PARTITION logs_0", "UPDATE logs_0 SET v = 'away'")
    follower.once()
    follower.check("logs", "logs_0")
    postgres.run("DROP TABLE logs_1")
    follower.once()
    follower.check("logs")
    assert follower.rows("logs") == []


@pytest.mark.parametrize(
    ("out", "back"),
    [
        ("DROP TABLE t", "ADD TABLE t"),
        ("SET TABLE other", "SET TABLE t, other"),
        ("SET (publish = 'insert')", "SET (publish = 'insert, update, delete, truncate')"),
        ("DROP TABLE t", "ADD TABLES IN SCHEMA public"),
    ],
)
@pytest.mark.parametrize("is_own", [True, False])
def test_a_publication_without_a_table_for_a_while(
    postgres: PostgresDatabase, follower: Follower, *, is_own: bool, out: str, back: str
) -> None:
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO t SELECT n, 'before' FROM generate_series(1, 20) n",
        "CREATE PUBLICATION chosen FOR TABLE t, other",
    )
    follower.publication = None if is_own else "chosen"
    name = "headwater_shop" if is_own else "chosen"
    follower.once()
    # The pipeline itself has put tables into its publication.
    assert follower.once() == set()
    postgres.run(
        f"ALTER PUBLICATION {name} {out}",
        "UPDATE t SET v = 'unseen' WHERE id < 5",
        "DELETE FROM t WHERE id = 20",
        f"ALTER PUBLICATION {name} {back}",
        "INSERT INTO t VALUES (21, 'after')",
    )
    assert "t" in follower.once()
    follower.check("t", "other")
    assert len(follower.rows("t")) == 20
    assert follower.once() == set()


@pytest.mark.parametrize("published", ["FOR ALL TABLES", "FOR TABLES IN SCHEMA public"])
@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE t SET UNLOGGED", "INSERT INTO t VALUES (7, 'quick')"),
        ("TRUNCATE t", "ALTER TABLE t SET UNLOGGED", "INSERT INTO t VALUES (7, 'quick')"),
    ],
)
def test_a_table_without_a_log_for_a_while(
    postgres: PostgresDatabase, follower: Follower, published: str, statements: tuple[str, ...]
) -> None:
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t VALUES (1, 'logged')",
        f"CREATE PUBLICATION chosen {published}",
    )
    follower.publication = "chosen"
    follower.once()
    postgres.run(*statements, "ALTER TABLE t SET LOGGED", "INSERT INTO t VALUES (8, 'logged')")
    follower.once()
    follower.check("t")


def test_a_table_of_a_publication_keeps_its_log(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    follower.once()
    with pytest.raises(psycopg.Error, match="part of a publication"):
        postgres.run("ALTER TABLE t SET UNLOGGED")


def test_a_table_that_a_publication_gets_while_it_is_changed(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    """What a transaction has changed before is not sent, though it is committed afterwards."""
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "CREATE PUBLICATION chosen FOR TABLE t, other",
    )
    follower.publication = "chosen"
    follower.once()
    with postgres.connect() as session, ThreadPoolExecutor(1) as threads:
        postgres.run("ALTER PUBLICATION chosen DROP TABLE t")
        session.execute("INSERT INTO t VALUES (1, 'unsent')")
        postgres.run("ALTER PUBLICATION chosen ADD TABLE t")
        run = threads.submit(follower.once)
        # It has begun to wait.
        until(
            lambda: postgres.value(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                "application_name = 'headwater cdc' AND query LIKE '%l.virtualtransaction FROM%'"
            )
        )
        session.execute("INSERT INTO t VALUES (2, 'sent')")
        session.commit()
        assert "t" in run.result()
    follower.check("t", "other")
    assert len(follower.rows("t")) == 2


def test_a_partition_that_is_made_with_rows_and_attached_at_once(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(*LOGS)
    follower.once()
    with postgres.connect() as session:
        for statement in ATTACHED:
            session.execute(statement.encode())
    follower.once()
    follower.check("logs")
    assert len(follower.rows("logs")) == 71


def test_a_partition_that_is_made_empty_is_not_read_again(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(*LOGS)
    follower.once()
    postgres.run(
        "CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM (100) TO (200)",
        "INSERT INTO logs VALUES (100, 'new')",
    )
    assert follower.once() == set()
    follower.check("logs")


def test_partitions_of_a_table_without_a_key(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(
        "CREATE TABLE events (n INT) PARTITION BY RANGE (n)",
        "ALTER TABLE events REPLICA IDENTITY FULL",
        "CREATE TABLE events_0 PARTITION OF events FOR VALUES FROM (0) TO (100)",
        "ALTER TABLE events_0 REPLICA IDENTITY FULL",
        "INSERT INTO events VALUES (1), (1), (2)",
    )
    follower.change(tables_without_key=TablesWithoutKey.APPEND)
    follower.once()
    with postgres.connect() as session:
        for statement in (
            "CREATE TABLE events_1 AS SELECT n FROM generate_series(100, 120) n",
            "ALTER TABLE events_1 REPLICA IDENTITY FULL",
            "ALTER TABLE events ATTACH PARTITION events_1 FOR VALUES FROM (100) TO (200)",
        ):
            session.execute(statement.encode())
    follower.once()
    verdicts = list(verify(follower.lake, follower.address, follower.settings))
    assert [(verdict.is_equal, verdict.source_rows) for verdict in verdicts] == [(True, 24)]


def test_rows_in_the_log_of_a_partition_that_is_gone(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(*LOGS)
    follower.once()
    for number in range(60, 80):
        postgres.run(f"INSERT INTO logs VALUES ({number}, 'gone')")
    postgres.run("DROP TABLE logs_0")
    # Each batch has one transaction, so that the table is read again before the last of them.
    follower.change(batch_bytes=1)
    follower.once()
    follower.check("logs")


def test_a_partition_that_comes_and_goes_unseen(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(*LOGS)
    follower.once()
    postgres.run(
        "CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM (100) TO (200)",
        "INSERT INTO logs SELECT n, 'gone' FROM generate_series(100, 120) n",
        "INSERT INTO logs VALUES (60, 'new')",
        "DROP TABLE logs_1",
    )
    follower.once()
    follower.check("logs")
    assert len(follower.rows("logs")) == 51


@pytest.mark.parametrize("publication", [None, "pub"])
def test_others_are_followed_while_a_table_is_locked(
    postgres: PostgresDatabase, follower: Follower, publication: str | None
) -> None:
    postgres.run(
        *LOGS,
        "CREATE TABLE other (id INT PRIMARY KEY, v INT DEFAULT 1)",
        "CREATE TABLE doubled (id INT PRIMARY KEY, d INT GENERATED ALWAYS AS (id * 2) STORED)",
        "CREATE PUBLICATION pub FOR ALL TABLES WITH (publish_via_partition_root)",
    )
    follower.publication = publication
    follower.once()
    for count, locked in enumerate(("logs", "logs_0", "doubled")):
        with postgres.connect() as session:
            session.execute(f"LOCK TABLE {locked} IN ACCESS EXCLUSIVE MODE".encode())
            postgres.run(
                f"ALTER TABLE other ADD with_{locked} INT",
                f"INSERT INTO other VALUES ({count})",
                f"CREATE TABLE beside_{locked} (id INT PRIMARY KEY)",
                f"INSERT INTO beside_{locked} VALUES (1)",
            )
            follower.once()
            assert len(follower.rows("other")) == count + 1
            assert follower.rows(f"beside_{locked}") == [{"id": 1}]
    follower.check("logs", "other", "doubled")
