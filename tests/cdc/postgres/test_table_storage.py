"""Changes of rows that PostgreSQL's log does not have."""

from __future__ import annotations

import pytest
from tests.cdc.postgres.conftest import PostgresDatabase
from tests.cdc.postgres.logs import contents, name, source_log

from headwater.cdc.postgres.server import Address, PostgresServer
from headwater.cdc.postgres.table_storage import StoredPart, TableStorage, read_storage

pytestmark = pytest.mark.postgresql

SETUP = (
    "CREATE TABLE t (id int PRIMARY KEY, v text)",
    "CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE outside (id int PRIMARY KEY, v text)",
    "INSERT INTO t VALUES (1, 'a')",
    "INSERT INTO p VALUES (1, 'a'), (11, 'b')",
    "INSERT INTO outside VALUES (21, 'c')",
)


def storage(database: PostgresDatabase, table: str) -> TableStorage:
    with PostgresServer(Address.from_url(database.url)) as server:
        return read_storage(server, [name(table), name("missing")])[name(table)]


@pytest.mark.parametrize(
    ("table", "statement", "reason"),
    [
        ("t", "ALTER TABLE t ALTER v TYPE text USING upper(v)", "has rewritten its rows"),
        ("t", "ALTER TABLE t ALTER id TYPE bigint USING id + 1", "has rewritten its rows"),
        ("p", "ALTER TABLE p ALTER v TYPE text USING upper(v)", "has rewritten its rows"),
        ("p", "TRUNCATE p1", "a partition was truncated"),
        ("p", "DROP TABLE p2", "partitions were detached or dropped"),
        ("p", "ALTER TABLE p DETACH PARTITION p2", "partitions were detached or dropped"),
        (
            "p",
            "ALTER TABLE p ATTACH PARTITION outside FOR VALUES FROM (20) TO (30)",
            "partitions were attached",
        ),
    ],
)
def test_changes_without_rows_in_the_log_are_seen(
    postgres: PostgresDatabase, table: str, statement: str, reason: str
) -> None:
    postgres.run(*SETUP)
    log, before = source_log(postgres), storage(postgres, table)
    postgres.run(statement)
    change = before.silent_change(storage(postgres, table))
    assert change is not None
    assert reason in change
    with log.reader("t", "p", "outside") as reader:
        batches = log.read(reader)
    assert contents(batches, table).rows == []


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("t", "INSERT INTO t SELECT generate_series(2, 10000)"),
        ("t", "TRUNCATE t"),
        ("t", "VACUUM FULL t"),
        ("t", "ALTER TABLE t ADD w int DEFAULT 7"),
        ("t", "ALTER TABLE t ALTER v SET NOT NULL"),
        ("t", "ANALYZE"),
        ("p", "CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30)"),
        ("p", "UPDATE p SET id = id + 1"),
        ("p", "CREATE INDEX ON p (v)"),
    ],
)
def test_changes_that_the_log_has_are_left_to_it(
    postgres: PostgresDatabase, table: str, statement: str
) -> None:
    postgres.run(*SETUP)
    before = storage(postgres, table)
    postgres.run(statement)
    assert before.silent_change(storage(postgres, table)) is None


def test_another_table_of_the_same_name_is_told_by_the_log(postgres: PostgresDatabase) -> None:
    postgres.run(*SETUP)
    before = storage(postgres, "t")
    postgres.run("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, v text)")
    assert before.silent_change(storage(postgres, "t")) is None


def test_storage_is_recorded_and_read(postgres: PostgresDatabase) -> None:
    postgres.run(*SETUP)
    for table in ("t", "p"):
        stored = storage(postgres, table)
        assert TableStorage.from_json(stored.to_json()) == stored
    # With the partitioned table itself, which has no file.
    files = [part.file for part in storage(postgres, "p").parts.values()]
    assert sorted(map(bool, files)) == [False, True, True]


def test_partitions_that_came_before_a_crash_may_have_had_rows() -> None:
    """A server that has recovered does not tell which statement of a transaction made what."""
    part = StoredPart(7, "1:730", is_attached=False)
    before = TableStorage(1, {5: StoredPart(5, "1:720", is_attached=False)}, "10:00")
    same = TableStorage(1, {**before.parts, 7: part}, "10:00")
    recovered = TableStorage(1, {**before.parts, 7: part}, "11:00")
    assert before.silent_change(same) is None
    assert before.silent_change(recovered) == "partitions were attached"
    assert same.silent_change(recovered) is None
    assert TableStorage.from_json(recovered.to_json()) == recovered
