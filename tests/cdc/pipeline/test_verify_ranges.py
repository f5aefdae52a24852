"""Comparisons whose ranges are tasks tell what one process tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
import pytest
from tests.cdc.pipeline.conftest import Follower, Origin
from tests.cdc.source_logs import only_mariadb
from tests.cdc.task_executors import PickledTasks

from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.cdc.service.compared_ranges import key_pieces
from headwater.cdc.service.verify import TableVerdict
from headwater.storage.jobs.executor import Executor, LocalExecutor
from headwater.storage.types.atomic_type import AtomicType, Root

Task = TypeVar("Task")
Result = TypeVar("Result")


class CountedTasks(PickledTasks):
    """Runs tasks, which it counts.

    Args:
        before: Called before each job.

    Attributes:
        counts: How many tasks each job had.
    """

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._before = before
        self.counts: list[int] = []

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Run every task."""
        self._before()
        self.counts.append(len(tasks))
        yield from super().run(work, tasks)


def keys(verdict: TableVerdict, column: str = "id") -> dict[object, str]:
    """The keys that differ, and how."""
    assert verdict.problem is None
    return {row[column]: row["difference"] for row in verdict.differences.to_pylist()}


def test_each_range_is_compared(origin: Origin, follower: Follower) -> None:
    origin.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(10))",
        "CREATE TABLE named (name VARCHAR(20) PRIMARY KEY, v INT)",
        "CREATE TABLE pairs (a INT, b INT, v INT, PRIMARY KEY (a, b))",
        "CREATE TABLE vacant (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES " + ", ".join(f"({n}, 'v{n}')" for n in range(-250, 250)),
        "INSERT INTO named VALUES " + ", ".join(f"('{n}', {n})" for n in range(100)),
        "INSERT INTO pairs VALUES " + ", ".join(f"({n % 7}, {n}, 0)" for n in range(100)),
    )
    follower.change(task_rows=60)
    follower.once()
    tasks = CountedTasks()
    equal = follower.verify(tasks)
    assert {table: verdict.is_equal for table, verdict in equal.items()} == dict.fromkeys(
        ("named", "pairs", "t", "vacant"), True
    )
    counts = {table: (v.source_rows, v.lake_rows) for table, v in equal.items()}
    assert counts == {"vacant": (0, 0), "named": (100, 100), "pairs": (100, 100), "t": (500, 500)}
    # A key of another type than integers, or of two columns, is compared by one task.
    assert sorted(tasks.counts) == [1, 1, 1, 9]
    # Bounds of ranges are among the keys, and rows that are beyond the source's first and last.
    lies = {"id": [-191, -190, 0, 249, 250, -9999], "v": ["x", "x", "x", "x", "x", "x"]}
    follower.lake.table("lake.t").write(lies)
    follower.lake.table("lake.t").delete("id = 100 or id = -250")
    follower.lake.table("lake.named").write({"name": ["7", "none"], "v": [0, 0]})
    differ = follower.verify(tasks)
    expected = dict.fromkeys((-191, -190, 0, 249), "different")
    expected |= dict.fromkeys((250, -9999), "not in the source")
    expected |= dict.fromkeys((100, -250), "missing in the lake")
    assert keys(differ["t"]) == keys(follower.verify()["t"]) == expected
    assert (differ["t"].source_rows, differ["t"].lake_rows) == (500, 500)
    assert keys(differ["named"], "name") == {"7": "different", "none": "not in the source"}
    assert differ["pairs"].is_equal


def test_changes_that_the_lake_does_not_have_yet_are_no_differences(
    origin: Origin, follower: Follower
) -> None:
    origin.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES " + ", ".join(f"({n}, {n})" for n in range(400)),
    )
    follower.change(task_rows=50)
    follower.once()
    follower.lake.table("lake.t").write({"id": [398], "v": [-1]})

    def changes() -> None:
        """Move rows among ranges, while these are compared."""
        origin.session(
            "UPDATE t SET v = v + 1 WHERE id % 3 = 0",
            "DELETE FROM t WHERE id BETWEEN 10 AND 20",
            "UPDATE t SET id = id + 1000 WHERE id BETWEEN 100 AND 110",
        )

    verdict = follower.verify(CountedTasks(changes))["t"]
    assert keys(verdict) == {398: "different"}
    follower.resnapshot("t")
    follower.once()
    assert follower.verify(CountedTasks())["t"].is_equal


@only_mariadb
@pytest.mark.parametrize("executor", [None, LocalExecutor(2)], ids=["process", "tasks"])
def test_a_difference_among_many_changes_is_found(
    origin: Origin, follower: Follower, executor: Executor | None
) -> None:
    origin.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t SELECT seq, 0 FROM seq_1_to_40000",
    )
    follower.change(task_rows=5000, task_bytes=1 << 20)
    follower.once()
    lies = [7, 20_001, 39_990]
    follower.lake.table("lake.t").write({"id": lies, "v": [-1, -1, -1]})
    # More keys than a verdict shows differ from what the lake has.
    origin.run("UPDATE t SET v = v + 1 WHERE id NOT IN (7, 20001, 39990)")
    verdict = follower.verify(executor)["t"]
    assert keys(verdict) == dict.fromkeys(lies, "different")
    # Of many differences not all are shown.
    follower.once()
    follower.lake.table("lake.t").write({"id": [*range(1, 30_001)], "v": [-1] * 30_000})
    verdict = follower.verify(executor)["t"]
    assert verdict.problem is None
    assert verdict.differences.num_rows == 10_000
    follower.resnapshot("t")
    follower.once()
    assert follower.verify(executor)["t"].is_equal


@pytest.mark.parametrize("change", ["INSERT INTO u VALUES (1)", "UPDATE t SET v = 3 WHERE id = 1"])
@pytest.mark.parametrize("executor", [None, LocalExecutor(2)], ids=["process", "tasks"])
def test_a_key_that_the_lake_has_twice_differs_whatever_the_log_has(
    origin: Origin, follower: Follower, executor: Executor | None, change: str
) -> None:
    origin.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1, 2), (2, 2), (3, 2)",
    )
    follower.once()
    # A table without a key has each row that is written.
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), ("v", pa.int32())])
    follower.lake.drop_table("lake.t")
    options = {"headwater.cdc.pipeline": follower.settings.name}
    table = follower.lake.create_table("lake.t", schema, options=options)
    table.write({"id": [1, 1, 2, 3, 3], "v": [1, 2, 2, 2, 2]})
    origin.run(change)
    verdict = follower.verify(executor)["t"]
    assert verdict.problem is None
    assert {(row["id"], row["difference"]) for row in verdict.differences.to_pylist()} == {
        (1, "different"),
        (1, "duplicated in the lake"),
        (3, "duplicated in the lake"),
    }


@pytest.mark.parametrize(
    ("batches", "pieces"),
    [
        ([], [0]),
        ([4], [4]),
        ([6, 6], [10, 2]),
        ([10], [10]),
        ([25, 5], [10, 10, 10]),
        ([0, 3], [3]),
    ],
)
def test_pieces_are_full(batches: list[int], pieces: list[int]) -> None:
    """A piece that is not full has the last of the keys: others rely on that."""
    table = SourceTable(
        TableName("shop", "t"),
        [SourceColumn("id", "int", AtomicType(Root.INT))],
        primary_key=["id"],
    )
    numbers = iter(range(100))
    arrays = [pa.array([next(numbers) for _ in range(count)], pa.int32()) for count in batches]
    sent = [
        pa.record_batch([array, pa.repeat("different", len(array))], ["id", "difference"])
        for array in arrays
    ]
    result = list(key_pieces(sent, table, 10))
    assert [piece.num_rows for piece in result] == pieces
    assert pa.concat_tables(result)["id"].to_pylist() == list(range(sum(batches)))
