"""What users of other tools reported as lost or wrong with PostgreSQL.

Each test names the reports of the situation that it drives, by project and number; those of the log
alone are with its tests.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from tests.cdc.postgres.conftest import Follower, PostgresDatabase

from headwater.cdc.pipeline.settings import TablesWithoutKey
from headwater.cdc.service.verify import verify

pytestmark = pytest.mark.postgresql


@pytest.mark.parametrize("default", ["'none'", "md5(random()::text)"])
def test_rows_before_a_column_with_a_default(
    postgres: PostgresDatabase, follower: Follower, default: str
) -> None:
    """risingwavelabs/risingwave#23320."""
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t SELECT n, n FROM generate_series(1, 50) n",
    )
    follower.once()
    postgres.run(f"ALTER TABLE t ADD COLUMN note TEXT DEFAULT {default}")
    postgres.run("UPDATE t SET v = 0 WHERE id = 7", "INSERT INTO t VALUES (51, 51, 'new')")
    follower.once()
    follower.check("t")
    assert all(row["note"] for row in follower.rows("t"))


def test_rows_before_with_a_default_that_was_never_written(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    """MaterializeInc/materialize#23412: the log must have the default, and not null."""
    postgres.run(
        "CREATE TABLE events (v TEXT)",
        "ALTER TABLE events REPLICA IDENTITY FULL",
        "INSERT INTO events VALUES ('a'), ('a'), ('b'), ('c')",
        "ALTER TABLE events ADD COLUMN n INT DEFAULT 7",
    )
    follower.change(tables_without_key=TablesWithoutKey.APPEND)
    follower.once()
    postgres.run("DELETE FROM events WHERE v = 'a'", "UPDATE events SET v = 'd' WHERE v = 'b'")
    follower.once()
    verdicts = list(verify(follower.lake, follower.address, follower.settings))
    assert [(verdict.is_equal, verdict.source_rows) for verdict in verdicts] == [(True, 2)]
    rows = follower.rows("events")
    assert {row["n"] for row in rows} == {7}


def test_times_and_numbers_of_any_precision(postgres: PostgresDatabase, follower: Follower) -> None:
    """apache/paimon#6239, apache/paimon#8222, apache/paimon#8609, apache/paimon#8610."""
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, t3 TIME(3), t6 TIME, s3 TIMESTAMP(3), s6 TIMESTAMP, "
        "z3 TIMESTAMPTZ(3), d DECIMAL(10, 2), whole NUMERIC(5), long NUMERIC(60, 30), n NUMERIC)",
        "SET TIME ZONE 'UTC'",
    )
    values = (
        "'12:34:56.789', '12:34:56.789123', '2024-01-02 03:04:05.678', "
        "'2024-01-02 03:04:05.678901', '2024-01-02 03:04:05.678+00', 1234.50, 12345, "
        "123456789012345678901234567890.123456789012345678901234567890, 0.10"
    )
    postgres.run(f"INSERT INTO t VALUES (1, {values})")
    follower.once()
    postgres.run(f"INSERT INTO t VALUES (2, {values})")
    follower.once()
    follower.check("t")
    snapshot, logged = follower.rows("t")
    assert {**snapshot, "id": 2} == logged
    assert logged == {
        "id": 2,
        "t3": datetime.time(12, 34, 56, 789_000),
        "t6": "12:34:56.789123",
        "s3": datetime.datetime(2024, 1, 2, 3, 4, 5, 678_000),
        "s6": datetime.datetime(2024, 1, 2, 3, 4, 5, 678_901),
        "z3": datetime.datetime(2024, 1, 2, 3, 4, 5, 678_000, tzinfo=datetime.UTC),
        "d": Decimal("1234.50"),
        "whole": Decimal(12345),
        "long": "123456789012345678901234567890.123456789012345678901234567890",
        "n": "0.10",
    }
