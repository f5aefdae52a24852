"""Pipelines whose ranges and large batches are tasks of an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.pipeline.test_interruptions import ends
from tests.cdc.source_logs import with_files
from tests.cdc.task_executors import PickledTasks

from headwater.cdc.pipeline.state import TablePhase
from headwater.storage.errors import Unavailable

Task = TypeVar("Task")
Result = TypeVar("Result")

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(20))"
MEBIBYTE = 1 << 20


@pytest.fixture
def tasks(follower: Follower) -> PickledTasks:
    """What runs the follower's tasks: ranges of three rows, and every row of the log."""
    follower.executor = executor = PickledTasks()
    follower.change(task_rows=3, task_bytes=1)
    return executor


def fill(origin: Origin, count: int, table: str = "t", first: int = 1) -> None:
    """Insert rows with keys from a first one on."""
    values = ", ".join(f"({key}, {key}, 'row {key}')" for key in range(first, first + count))
    origin.run(f"INSERT INTO {table} VALUES {values}")


@with_files
def test_ranges_and_changes_are_tasks(
    origin: Origin, follower: Follower, tasks: PickledTasks
) -> None:
    origin.run(TABLE)
    fill(origin, 20)
    progress = follower.once()
    assert progress.tables[origin.table("t")].rows == 20
    follower.check("t")
    assert tasks.done == 7
    fill(origin, 5, first=30)
    origin.run(
        "UPDATE t SET v = -v WHERE id < 10",
        "UPDATE t SET id = id + 100 WHERE id IN (3, 31)",
        "DELETE FROM t WHERE id BETWEEN 15 AND 17",
    )
    # Rows that the log has in part are read by this process, and win.
    origin.session(
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE t SET s = 'partial' WHERE id > 100 OR id = 5",
        "DELETE FROM t WHERE id = 6",
    )
    follower.once()
    assert tasks.done > 7
    follower.check("t")
    # All rows are read again, and keys that the source lacks are deleted.
    before = tasks.done
    follower.resnapshot("t")
    follower.once()
    assert tasks.done > before
    follower.check("t")


def test_tasks_get_bytes_that_are_in_files(
    origin: Origin, follower: Follower, tasks: PickledTasks
) -> None:
    origin.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, s LONGTEXT)")
    fill(origin, 6)
    follower.once()
    before = tasks.done
    # Each task has other versions of the same rows.
    origin.run(
        *(f"UPDATE t SET v = {round_}, s = REPEAT('{round_}', {2 * MEBIBYTE})" for round_ in "123")
    )
    origin.run("UPDATE t SET id = id + 10 WHERE id > 3", "UPDATE t SET v = 4 WHERE id = 1")
    follower.change(memory_bytes=MEBIBYTE, batch_bytes=1 << 30)
    follower.once()
    assert tasks.done - before > 3
    follower.check("t")


@pytest.mark.parametrize("bucket", ["-1", "2"])
def test_batches_alternate_between_processes(
    origin: Origin, follower: Follower, tasks: PickledTasks, bucket: str
) -> None:
    few = {"dynamic-bucket.target-row-num": "4"} if bucket == "-1" else {}
    follower.change(table_options={"bucket": bucket, **few}, writers=1)
    origin.run(TABLE, "CREATE TABLE u LIKE t")
    for step in range(4):
        fill(origin, 8, "t", 20 * step)
        fill(origin, 8, "u", 20 * step)
        origin.run(
            f"UPDATE t SET v = v + {step} WHERE id % 3 = 0",
            f"UPDATE u SET id = id + 10 WHERE id = {20 * step}",
            f"DELETE FROM t WHERE id = {20 * step + 5}",
        )
        # One process plans the batch and ends between its commits, the other carries it out.
        follower.executor = tasks if step % 2 else None
        ends(follower, "write", "u")
        origin.run(f"UPDATE u SET v = -{step}", f"DELETE FROM u WHERE id = {20 * step + 3}")
        follower.executor = None if step % 2 else tasks
        follower.once()
        follower.check("t", "u")
        follower.resnapshot("t", "u")
    assert follower.phases() == {"t": TablePhase.STREAMING, "u": TablePhase.STREAMING}


class LosingTasks(PickledTasks):
    """Loses a task, once."""

    def __init__(self) -> None:
        super().__init__()
        self.is_lost = False

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        yield from super().run(work, tasks[:-1] if not self.is_lost else tasks)
        if not self.is_lost:
            self.is_lost = True
            raise Unavailable("an executor was lost")


@pytest.mark.parametrize("reads", [True, False])
def test_a_batch_whose_task_is_lost_is_repeated(
    origin: Origin, follower: Follower, tasks: PickledTasks, reads: bool
) -> None:
    origin.run(TABLE)
    fill(origin, 10)
    if not reads:
        follower.once()
        origin.run("UPDATE t SET v = v + 1", "DELETE FROM t WHERE id = 4")
    follower.executor = losing = LosingTasks()
    follower.once()
    assert losing.is_lost
    follower.check("t")


def test_a_value_that_the_lake_does_not_have(
    origin: Origin, follower: Follower, tasks: PickledTasks
) -> None:
    origin.run("CREATE TABLE bad (id INT PRIMARY KEY, t TIME)", TABLE)
    origin.run("INSERT INTO bad VALUES (1, '10:00'), (2, '30:00')")
    fill(origin, 5)
    pipeline = follower.pipeline()
    assert not pipeline.run(once=True)
    state = follower.states()["bad"]
    assert state.phase is TablePhase.QUARANTINED
    assert "has the value '30:00:00'" in (state.reason or "")
    follower.check("t")
    # And in the log.
    origin.run("DELETE FROM bad WHERE id = 2")
    follower.resnapshot("bad")
    follower.once()
    follower.check("bad", "t")
    origin.run("INSERT INTO bad VALUES (3, '40:00')", "UPDATE t SET v = 0")
    assert not follower.pipeline().run(once=True)
    assert follower.phases() == {"bad": TablePhase.QUARANTINED, "t": TablePhase.STREAMING}
    follower.check("t")


def test_a_planned_range_whose_table_changes(
    origin: Origin, follower: Follower, tasks: PickledTasks
) -> None:
    origin.run(TABLE)
    fill(origin, 20)
    ends(follower, "write", "t")
    assert follower.states()["t"].reading is not None
    # Tasks find other columns than those that were planned.
    origin.run("ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 5, DROP COLUMN v")
    follower.once()
    assert tasks.done
    follower.check("t")


def test_tables_that_this_process_writes(
    origin: Origin, follower: Follower, tasks: PickledTasks
) -> None:
    follower.change(table_options={"bucket": "1", "changelog-producer": "input"})
    origin.run(TABLE)
    fill(origin, 10)
    follower.once()
    origin.run("UPDATE t SET v = 7 WHERE id < 4", "DELETE FROM t WHERE id = 8")
    follower.once()
    follower.check("t")
    assert tasks.done == 0


def test_children_of_foreign_keys(origin: Origin, follower: Follower, tasks: PickledTasks) -> None:
    origin.run(
        "CREATE TABLE parents (id INT PRIMARY KEY, v INT, s VARCHAR(20))",
        "CREATE TABLE children (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) REFERENCES "
        "parents (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    )
    fill(origin, 12, "parents")
    origin.run("INSERT INTO children SELECT id + 100, id FROM parents")
    follower.once()
    follower.check("parents", "children")
    assert tasks.done
    origin.run("DELETE FROM parents WHERE id < 4", "UPDATE parents SET id = 50 WHERE id = 6")
    follower.once()
    follower.check("parents", "children")
