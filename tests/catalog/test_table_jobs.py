"""Deletion, compaction and expiry behave the same, whoever runs their tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
from tests.conftest import NewSqlite

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.client.connect import DATABASE_FILE
from headwater.storage.errors import Conflict, CorruptData, Invalid
from headwater.storage.jobs.executor import Executor, LocalExecutor
from headwater.storage.snapshot.snapshot import CommitKind

Task = TypeVar("Task")
Result = TypeVar("Result")

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])


@pytest.fixture(
    params=["one thread", "threads", pytest.param("spark", marks=pytest.mark.spark)],
)
def executor(request: pytest.FixtureRequest) -> Executor:
    """Each way to run tasks."""
    match request.param:
        case "one thread":
            return LocalExecutor()
        case "threads":
            return LocalExecutor(3)
    session = request.getfixturevalue("spark")
    from headwater.spark.jobs.executor import SparkExecutor

    return SparkExecutor(session)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(folder: Path, new_sqlite: NewSqlite) -> Iterator[Lake]:
    new_sqlite(folder / DATABASE_FILE)
    with connect(folder) as opened:
        opened.create_database("db")
        yield opened


@pytest.fixture
def keyed(lake: Lake) -> Table:
    return lake.create_table("db.keyed", COLUMNS, primary_keys=["id"], options={"bucket": "3"})


@pytest.fixture
def log(lake: Lake) -> Table:
    return lake.create_table("db.log", COLUMNS)


class Meanwhile:
    """An executor beside which something else happens, as often as it is used."""

    def __init__(self, inner: Executor, happens: Callable[[], object]) -> None:
        self._inner = inner
        self._happens = happens
        self.runs = 0

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        self.runs += 1
        yield from self._inner.run(work, tasks)
        self._happens()


def numbered(start: int, stop: int, name: str = "first") -> pa.Table:
    ids = range(start, stop)
    return pa.table({"id": list(ids), "name": [f"{name}-{i}" for i in ids]})


def rows(table: Table) -> dict[int, str]:
    found = table.scan().to_arrow().to_pydict()
    assert len(set(found["id"])) == len(found["id"])
    return dict(zip(found["id"], found["name"], strict=True))


def expected(start: int, stop: int, name: str = "first") -> dict[int, str]:
    return {i: f"{name}-{i}" for i in range(start, stop)}


def data_files(table: Table) -> set[str]:
    """The names of the data files on disk."""
    folder = Path(table.info.path.removeprefix("file://"))
    return {path.name for path in folder.rglob("data-*")}


def referred(table: Table) -> set[str]:
    """The names of the data files that a snapshot has."""
    return {
        file.name for snapshot in table.snapshots() for file in table.files(snapshot_id=snapshot.id)
    }


def corrupt(table: Table, name: str) -> None:
    """Cut a data file short."""
    folder = Path(table.info.path.removeprefix("file://"))
    (path,) = folder.rglob(name)
    path.write_bytes(path.read_bytes()[:20])


# Executors ------------------------------------------------------------------------------------


def halving() -> Callable[[int], int]:
    """A task. Spark sends its workers, which cannot import the tests, an inner function whole."""

    def half(number: int) -> int:
        if number % 2:
            raise Invalid(f"{number} is odd", resource_name=str(number))
        return number // 2

    return half


def test_every_task_has_a_result(executor: Executor) -> None:
    assert sorted(executor.run(halving(), [2, 8, 4, 6])) == [1, 2, 3, 4]
    assert list(executor.run(halving(), [])) == []


def test_results_come_before_the_error_of_a_task(executor: Executor) -> None:
    results: list[int] = []
    with pytest.raises(Invalid, match="7 is odd") as raised:
        results.extend(executor.run(halving(), [2, 4, 7]))
    assert raised.value.resource_name == "7"
    assert sorted(results) == [1, 2]


# Jobs -----------------------------------------------------------------------------------------


def test_a_deletion_is_one_commit(executor: Executor, keyed: Table, log: Table) -> None:
    for table, kind in ((keyed, CommitKind.APPEND), (log, CommitKind.OVERWRITE)):
        table.write(numbered(0, 60))
        table.write(numbered(60, 90))
        done = table.delete("id >= 20 AND id < 70", executor=executor)
        assert done is not None
        assert (done.id, done.commit_kind) == (3, kind)
        assert rows(table) == expected(0, 20) | expected(70, 90)
        assert table.delete("id = 1000", executor=executor) is None
        assert data_files(table) == referred(table)


def test_a_deleted_key_can_come_back_and_go_again(executor: Executor, keyed: Table) -> None:
    keyed.write(numbered(0, 9))
    keyed.delete("id < 5", executor=executor)
    keyed.write(numbered(3, 6, "second"))
    keyed.delete("name = 'second-4'", executor=executor)
    assert rows(keyed) == {3: "second-3", 5: "second-5"} | expected(6, 9)


def test_a_table_that_nobody_wrote_leaves_nothing_to_do(executor: Executor, keyed: Table) -> None:
    assert keyed.delete("id > 0", executor=executor) is None
    assert keyed.compact(executor=executor) is None
    assert keyed.expire_snapshots(executor=executor).expired == ()
    assert keyed.latest_snapshot() is None


def test_compaction_keeps_rows_and_merges_files(
    executor: Executor, keyed: Table, log: Table
) -> None:
    for table in (keyed, log):
        for part in range(3):
            table.write(numbered(30 * part, 30 * part + 30))
        done = table.compact(executor=executor)
        assert done is not None
        assert done.commit_kind is CommitKind.COMPACT
        assert rows(table) == expected(0, 90)
        assert table.compact(executor=executor) is None
    assert len(keyed.files()) == 3
    assert len(log.files()) == 1


def test_a_deletion_reads_again_what_another_commit_changed(
    executor: Executor, keyed: Table
) -> None:
    keyed.write(numbered(0, 60))
    changes = [lambda: keyed.write(numbered(10, 30, "late"))]
    meanwhile = Meanwhile(executor, lambda: changes and changes.pop()())
    keyed.delete("name LIKE 'first%'", executor=meanwhile)
    assert meanwhile.runs == 2
    assert rows(keyed) == expected(10, 30, "late")
    assert data_files(keyed) == referred(keyed)


def test_a_compaction_that_another_one_forestalled_leaves_no_file(
    executor: Executor, keyed: Table
) -> None:
    keyed.write(numbered(0, 60))
    keyed.write(numbered(30, 90, "second"))
    other = Meanwhile(executor, keyed.compact)
    assert keyed.compact(executor=other) is None
    assert rows(keyed) == expected(0, 30) | expected(30, 90, "second")
    assert data_files(keyed) == referred(keyed)


def test_conflicts_without_end_are_told_and_leave_no_file(executor: Executor, lake: Lake) -> None:
    table = lake.create_table(
        "db.t", COLUMNS, primary_keys=["id"], options={"bucket": "1", "commit.max-retries": "1"}
    )
    table.write(numbered(0, 60))
    busy = Meanwhile(executor, lambda: table.write(numbered(0, 60, "other")))
    with pytest.raises(Conflict):
        table.delete("id < 30", executor=busy)
    assert busy.runs == 2
    assert rows(table) == expected(0, 60, "other")
    assert data_files(table) == referred(table)


def test_a_task_that_fails_leaves_no_file_of_the_others(
    executor: Executor, keyed: Table, log: Table
) -> None:
    for table in (keyed, log):
        table.write(numbered(0, 60))
        table.write(numbered(60, 90))
        before = data_files(table)
        corrupt(table, sorted(before)[0])
        with pytest.raises(CorruptData):
            table.delete("name <> 'first-7'", executor=executor)
        with pytest.raises(CorruptData):
            table.compact(executor=executor)
        assert data_files(table) == before
        latest = table.latest_snapshot()
        assert latest is not None
        assert latest.id == 2


def test_expired_files_are_gone(executor: Executor, keyed: Table) -> None:
    for version in range(3):
        keyed.write(numbered(0, 60, f"v{version}"))
    keyed.compact()
    told = keyed.expire_snapshots(retain_max=1, dry_run=True, executor=executor)
    assert len(data_files(keyed)) == 12
    done = keyed.expire_snapshots(retain_max=1, executor=executor)
    assert (done.expired, done.data_files) == ((1, 2, 3), 9) == (told.expired, told.data_files)
    assert data_files(keyed) == {file.name for file in keyed.files()}
    assert rows(keyed) == expected(0, 60, "v2")
