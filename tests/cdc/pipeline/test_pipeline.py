"""Pipelines from real servers: rows, transactions, sessions' settings, and starting again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.source_logs import with_files

from headwater.cdc.model.tables import TableName
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.mysql.transactions import MySQLLogReader
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.settings import OnDrop
from headwater.cdc.pipeline.state import TablePhase
from headwater.cdc.source.log_batches import BatchLimits, LogBatch
from headwater.cdc.source.positions import Position
from headwater.storage.errors import Conflict, Invalid

ORDERS = "CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR(40), price DECIMAL(10, 2))"


@with_files
def test_rows_and_changes_arrive(origin: Origin, follower: Follower) -> None:
    origin.run(ORDERS, "INSERT INTO orders VALUES (1, 'pen', 1.50), (2, 'cup', NULL)")
    progress = follower.once()
    assert progress.tables[origin.table("orders")].rows == 2
    follower.check("orders")
    origin.run(
        "INSERT INTO orders VALUES (3, 'mug', 4)",
        "UPDATE orders SET price = 2 WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
    )
    follower.once()
    follower.check("orders")
    assert follower.phases() == {"orders": TablePhase.STREAMING}
    snapshot = follower.lake.table("lake.orders").latest_snapshot()
    assert snapshot is not None
    assert snapshot.properties is not None
    assert snapshot.properties["cdc.batch"] == str(snapshot.commit_identifier)
    assert int(snapshot.properties["cdc.source-time"]) > 0


def test_sets_are_arrays(origin: Origin, follower: Follower) -> None:
    origin.run(
        "CREATE TABLE t (id INT PRIMARY KEY, s SET('a', 'b', 'c'), n SET('x') NOT NULL)",
        "INSERT INTO t VALUES (1, 'a,c', ''), (2, NULL, 'x'), (3, '', 'x')",
    )
    follower.once()
    origin.run("UPDATE t SET s = 'b' WHERE id = 2", "INSERT INTO t VALUES (4, 'a,b,c', 'x')")
    follower.once()
    follower.check("t")
    assert [row["s"] for row in follower.rows("t")] == [["a", "c"], ["b"], [], ["a", "b", "c"]]


@pytest.mark.parametrize("collation", ["general_ci", "bin", "unicode_520_nopad_ci"])
def test_keys_of_fixed_length(origin: Origin, follower: Follower, collation: str) -> None:
    if origin.server.flavour == "mysql" and "nopad" in collation:
        collation = "0900_ai_ci"
    origin.run(
        f"CREATE TABLE t (c CHAR(5) COLLATE utf8mb4_{collation} PRIMARY KEY, d CHAR(3), v INT) "
        "CHARACTER SET utf8mb4",
        "INSERT INTO t VALUES ('a', 'x', 1), ('bb', NULL, 2), ('', '', 3), ('abcde', 'xyz', 4)",
    )
    follower.once()
    follower.check("t")
    origin.run("UPDATE t SET c = 'ab' WHERE c = 'bb'", "DELETE FROM t WHERE c = ''")
    origin.session("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET v = 7 WHERE c = 'a'")
    follower.once()
    follower.check("t")
    # All keys of the lake are looked up at the source.
    origin.run("ALTER TABLE t ADD w INT NOT NULL DEFAULT 5")
    follower.once()
    follower.check("t")


@with_files
def test_what_came_while_a_batch_was_committed_has_waited_already(
    origin: Origin, follower: Follower
) -> None:
    origin.run(ORDERS, "INSERT INTO orders VALUES (1, 'pen', 1.50)")
    follower.once()
    origin.run("INSERT INTO orders VALUES (2, 'cup', 2)")
    follower.change(batch_seconds=60)
    seen: list[BatchLimits] = []

    def open_source() -> MySQLSource:
        source = MySQLSource(origin.address)
        open_log = source.open_log

        def recorded(
            after: Position, memory_bytes: int, is_selected: Callable[[TableName], bool]
        ) -> MySQLLogReader:
            reader = open_log(after, memory_bytes, is_selected)
            read = reader.read_batch

            def read_batch(
                limits: BatchLimits, should_end: Callable[[], bool] = lambda: False
            ) -> LogBatch:
                seen.append(limits)
                return read(limits, should_end)

            reader.read_batch = read_batch  # type: ignore[method-assign]
            return reader

        source.open_log = recorded  # type: ignore[method-assign]
        return source

    assert Pipeline(follower.lake, open_source, follower.settings).run(once=True)
    follower.check("orders")
    assert seen
    # Less than a batch's time, as some of it has passed since the last one; but not nothing.
    assert all(12 <= limits.seconds < 60 == limits.quiet_seconds for limits in seen), seen
    assert {(limits.min_seconds, limits.idle_seconds) for limits in seen} == {(12, 1.2)}


def test_nothing_new_makes_no_batch(origin: Origin, follower: Follower) -> None:
    origin.run(ORDERS, "INSERT INTO orders VALUES (1, 'pen', 1.50)")
    first = follower.once().batch
    follower.once()
    assert follower.once().batch in (-1, first)
    assert len(follower.lake.table("lake.orders").snapshots()) == 1


def test_a_changed_key_is_a_delete_and_an_insert(origin: Origin, follower: Follower) -> None:
    origin.run(ORDERS, "INSERT INTO orders VALUES (1, 'pen', 1), (2, 'cup', 2), (3, 'mug', 3)")
    follower.once()
    origin.run(
        "UPDATE orders SET id = id + 10 WHERE id > 1", "UPDATE orders SET id = 2 WHERE id = 1"
    )
    follower.once()
    follower.check("orders")
    # A chain within one statement: each key is another row's old one.
    origin.run("UPDATE orders SET id = id + 1 ORDER BY id DESC")
    follower.once()
    follower.check("orders")


def test_keys_are_compared_by_the_source(origin: Origin, follower: Follower) -> None:
    follower.change(range_rows=2)
    origin.run(
        "CREATE TABLE words (w VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, "
        "n INT, PRIMARY KEY (w, n))",
        "INSERT INTO words VALUES ('b', 1), ('A', 1), ('a', 2), ('Z', 1), ('é', 1), ('_', 1)",
    )
    follower.once()
    origin.run(
        "UPDATE words SET w = 'a' WHERE w = 'A' AND n = 1", "DELETE FROM words WHERE w = 'z'"
    )
    follower.once()
    follower.check("words")


@with_files
def test_many_tables_and_transactions(origin: Origin, follower: Follower) -> None:
    for number in range(5):
        origin.run(f"CREATE TABLE t{number} (id INT PRIMARY KEY, v INT)")
        origin.run(f"INSERT INTO t{number} VALUES (1, {number}), (2, 0)")
    follower.once()
    for round_ in range(10):
        origin.run(
            "BEGIN",
            *(f"UPDATE t{number} SET v = {round_} WHERE id = 1" for number in range(5)),
            f"INSERT INTO t1 VALUES ({round_ + 10}, 1)",
            "COMMIT" if round_ % 3 else "ROLLBACK",
        )
    follower.once()
    follower.check(*(f"t{number}" for number in range(5)))


@with_files
def test_a_table_that_appears_later(origin: Origin, follower: Follower) -> None:
    origin.run(ORDERS, "INSERT INTO orders VALUES (1, 'pen', 1)")
    follower.once()
    origin.run(
        "CREATE TABLE people (id INT PRIMARY KEY, name TEXT)",
        "INSERT INTO people VALUES (1, 'Ann')",
        "CREATE TABLE copy (id INT PRIMARY KEY) AS SELECT * FROM orders",
        "CREATE TABLE alike LIKE people",
        "INSERT INTO alike VALUES (7, 'Bob')",
        "UPDATE people SET name = 'Anna'",
    )
    follower.once()
    follower.check("orders", "people", "copy", "alike")


def test_a_second_start_is_told_so(origin: Origin, follower: Follower) -> None:
    origin.run(ORDERS)
    follower.once()
    origin.run("SELECT GET_LOCK('headwater_cdc_shop', 1)")
    follower.change(lock_seconds=0.1)
    with pytest.raises(Conflict, match="runs in another process"):
        follower.once()
    origin.run("SELECT RELEASE_LOCK('headwater_cdc_shop')")
    follower.once()


def test_tables_that_cannot_be_followed_are_named_before_anything_is_made(
    origin: Origin, follower: Follower
) -> None:
    origin.run(ORDERS, "CREATE TABLE nokey (id INT)")
    with pytest.raises(Invalid, match=r"nokey.*primary key"):
        follower.once()
    assert follower.lake.list_tables("lake") in ([], ["cdc_state"])
    follower.change(exclude=("*.nokey",))
    follower.once()
    follower.check("orders")


@pytest.mark.parametrize(("option", "table"), [("exclude", "customers"), ("include", "orders")])
def test_a_table_leaves_and_comes_back(
    origin: Origin, follower: Follower, option: str, table: str
) -> None:
    origin.run(ORDERS, "INSERT INTO orders VALUES (1, 'pen', 1), (2, 'cup', 2)")
    origin.run("CREATE TABLE customers (id INT PRIMARY KEY, v INT)")
    origin.run("INSERT INTO customers VALUES (1, 1), (2, 2), (3, 3)")
    follower.once()
    before = follower.settings
    follower.change(**{option: (f"{origin.database}.{table}",)})
    follower.once()
    origin.run("UPDATE customers SET v = 7 WHERE id = 1", "DELETE FROM customers WHERE id = 2")
    origin.run("DELETE FROM orders WHERE id = 1", "INSERT INTO customers VALUES (4, 4)")
    follower.once()
    follower.check("orders")
    assert follower.phases() == {"orders": TablePhase.STREAMING}
    assert len(follower.rows("customers")) == 3
    # Its changes meanwhile are not in the log that is read now.
    follower.settings = before
    origin.run("UPDATE customers SET v = 8 WHERE id = 3")
    follower.once()
    follower.check("orders", "customers")


def test_two_pipelines_do_not_share_a_table(origin: Origin, follower: Follower) -> None:
    origin.run(ORDERS)
    follower.once()
    follower.change(name="another")
    with pytest.raises(Invalid, match=r"lake\.orders.*'shop' writes to it"):
        follower.once()


def test_a_table_that_appears_with_a_name_that_is_taken(origin: Origin, follower: Follower) -> None:
    second = f"{origin.database}_2"
    origin.run(ORDERS, "INSERT INTO orders VALUES (1, 'pen', 1)")
    follower.change(include=(f"{origin.database}*.*",))
    follower.once()
    origin.run(f"CREATE DATABASE {second}", f"CREATE TABLE {second}.orders (id INT PRIMARY KEY)")
    origin.run(f"INSERT INTO {second}.orders VALUES (7)", "INSERT INTO orders VALUES (2, 'a', 1)")
    try:
        follower.once()
        assert len(follower.rows("orders")) == 2
        follower.change(on_drop=OnDrop.DROP)
        origin.run(f"DROP TABLE {second}.orders")
        follower.once()
        follower.check("orders")
    finally:
        origin.run(f"DROP DATABASE {second}")
