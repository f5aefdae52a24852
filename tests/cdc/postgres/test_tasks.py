"""Pipelines from PostgreSQL whose ranges and large batches are tasks of an executor."""

from __future__ import annotations

import pickle
from contextlib import closing

import pytest
from tests.cdc.postgres.conftest import Follower, PostgresDatabase
from tests.cdc.task_executors import PickledTasks

from headwater.cdc.postgres.source import PostgresSource

pytestmark = pytest.mark.postgresql


@pytest.fixture
def tasks(follower: Follower) -> PickledTasks:
    """What runs the follower's tasks: ranges of three rows, and every row of the log."""
    follower.executor = executor = PickledTasks()
    follower.change(task_rows=3, task_bytes=1)
    return executor


def test_ranges_and_changes_are_tasks(
    postgres: PostgresDatabase, follower: Follower, tasks: PickledTasks
) -> None:
    postgres.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, s TEXT)",
        "ALTER TABLE t ALTER s SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT n, n, repeat('x', 3000) FROM generate_series(1, 20) n",
    )
    follower.once()
    assert tasks.done == 7
    follower.check("t")
    # The log leaves out long values that stay: this process reads them, and they win.
    postgres.run(
        "UPDATE t SET v = -v WHERE id < 10",
        "UPDATE t SET id = id + 100 WHERE id IN (3, 15)",
        "DELETE FROM t WHERE id = 7",
        "INSERT INTO t VALUES (30, 1, 'short')",
        "UPDATE t SET s = repeat('y', 3000) WHERE id = 30",
    )
    follower.once()
    assert tasks.done > 7
    follower.check("t")


def test_large_batches_are_divided(
    postgres: PostgresDatabase, follower: Follower, tasks: PickledTasks
) -> None:
    postgres.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, s TEXT)", "INSERT INTO t VALUES (0)")
    follower.once()
    before = tasks.done
    follower.change(memory_bytes=1 << 20, batch_bytes=1 << 30)
    postgres.run(
        "INSERT INTO t SELECT n, n, repeat(n::text, 100000) FROM generate_series(1, 50) n",
        "UPDATE t SET v = v + 1, s = repeat('z', 200000)",
        "UPDATE t SET id = id + 100 WHERE id > 40",
    )
    follower.once()
    assert tasks.done - before > 1
    follower.check("t")


def test_a_batch_moves_between_processes(
    postgres: PostgresDatabase, follower: Follower, tasks: PickledTasks
) -> None:
    postgres.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    for step in range(3):
        postgres.run(
            f"INSERT INTO t SELECT n, {step} FROM generate_series({10 * step}, {10 * step + 8}) n",
            f"UPDATE t SET v = v + 10 WHERE id % 3 = {step}",
            f"DELETE FROM t WHERE id = {10 * step + 2}",
        )
        follower.executor = None if step == 1 else tasks
        follower.once()
        follower.check("t")
        follower.resnapshot("t")


def test_tasks_wait_for_transactions_that_may_have_been_received(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run("CREATE TABLE t (id INT PRIMARY KEY)")
    with (
        closing(PostgresSource(follower.address, "shop")) as source,
        closing(source.open_log(source.start(), 1 << 20, lambda _: True)),
    ):
        with postgres.connect() as session:
            session.execute("INSERT INTO t VALUES (1)")
            ((number,),) = session.execute("SELECT pg_current_xact_id()::text::bigint")
            assert source.remote_reads().may_be_committed == frozenset()
            source.received([number])
            reads = pickle.loads(pickle.dumps(source.remote_reads()))
            assert reads.may_be_committed == {number}
        # It has ended: everybody sees it.
        assert source.remote_reads().may_be_committed == frozenset()
        (table,) = source.tables().followed
        with reads.row_reader() as reader, reader.consistent_read(source.position()) as read:
            read.check(table)
            assert read.snapshot.sees(number)
