"""Writers compact what they made due, as a commit after their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from tests.option_names import option_names

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.jobs.write import WritePlan, write_rows
from headwater.storage.snapshot.snapshot import CommitKind

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
APPEND, COMPACT, OVERWRITE = CommitKind.APPEND, CommitKind.COMPACT, CommitKind.OVERWRITE

Task = TypeVar("Task")
Result = TypeVar("Result")


def new_table(folder: Path, primary_keys: Sequence[str] = ("k",), **options: str) -> Table:
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    given = option_names(options)
    return lake.create_table(
        "d.t", SCHEMA, primary_keys=primary_keys, options={"bucket": "1", **given}
    )


def upsert(table: Table, number: int) -> None:
    table.write({"k": [number % 7, 100 + number], "v": [number, number]})


def expected(count: int) -> dict[int, int]:
    rows: dict[int, int] = {}
    for number in range(count):
        rows |= {number % 7: number, 100 + number: number}
    return rows


def found(table: Table) -> dict[int, int]:
    rows = table.scan().to_arrow()
    pairs = dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(pairs) == rows.num_rows
    return pairs


def kinds(table: Table) -> list[CommitKind]:
    return [snapshot.commit_kind for snapshot in reversed(table.snapshots())]


def test_a_write_is_followed_by_the_compaction_that_it_made_due(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(5):
        upsert(table, number)
    assert kinds(table) == [APPEND] * 5 + [COMPACT]
    append, compact = table.snapshot(5), table.snapshot(6)
    assert (append.commit_user, append.commit_identifier) == (
        compact.commit_user,
        compact.commit_identifier,
    )
    assert [file.level for file in table.files()] == [5]
    assert found(table) == expected(5)
    # What was written is what is returned.
    for number in range(5, 9):
        snapshot = table.write({"k": [number % 7, 100 + number], "v": [number, number]})
        assert snapshot is not None
        assert snapshot.commit_kind is APPEND
    assert found(table) == expected(9)


def test_the_number_of_runs_stays_small_however_many_commits(tmp_path: Path) -> None:
    table = new_table(tmp_path, num_sorted_run__compaction_trigger="3")
    for number in range(20):
        upsert(table, number)
        levels = [file.level for file in table.files()]
        assert levels.count(0) + len({*levels} - {0}) <= 3
    assert found(table) == expected(20)


@pytest.mark.parametrize("key", ["write-only", "write.compaction-skip"])
def test_a_table_for_writing_only_is_not_compacted(tmp_path: Path, key: str) -> None:
    table = new_table(tmp_path).with_options({key: "true"})
    for number in range(7):
        upsert(table, number)
    assert kinds(table) == [APPEND] * 7
    table.compact(full=False)
    assert [file.level for file in table.files()] == [5]
    assert found(table) == expected(7)


def test_only_buckets_that_were_written_to_are_compacted(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    schema = pa.schema([pa.field("p", pa.int64(), False), *SCHEMA])
    table = lake.create_table(
        "d.p", schema, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "1"}
    )
    writing = table.with_options({"write-only": "true"})
    for number in range(6):
        writing.write({"p": [1, 2], "k": [number, number], "v": [0, 0]})
    table.write({"p": [1], "k": [9], "v": [0]})
    by_partition = {
        partition: [file.level for file in table.files() if file.partition == partition]
        for partition in ("p=1", "p=2")
    }
    assert by_partition == {"p=1": [5], "p=2": [0] * 6}


def test_deletions_and_overwrites_are_followed_by_compactions(tmp_path: Path) -> None:
    # Of so few rows all files are about as large.
    table = new_table(tmp_path, num_sorted_run__compaction_trigger="2", compaction__size_ratio="1")
    table.write({"k": [1, 2, 3], "v": [1, 2, 3]})
    table.delete("k = 2")
    assert kinds(table) == [APPEND, APPEND]
    table.delete("k = 1")
    assert kinds(table) == [APPEND, APPEND, APPEND, COMPACT]
    assert found(table) == {3: 3}
    # More than one run: what the writer could hold at a time.
    small = table.with_options({"write-buffer-size": "64 b"})
    small.overwrite({"k": list(range(50)) * 2, "v": list(range(100))})
    assert kinds(table)[4:] == [OVERWRITE, COMPACT]
    assert found(table) == {k: k + 50 for k in range(50)}


def test_commits_with_a_number_are_fully_compacted_by_it(tmp_path: Path) -> None:
    table = new_table(tmp_path, full_compaction__delta_commits="3")
    commit = TableCommit(table.storage, table.pointer, "stream")
    for number in range(6):
        plan = WritePlan(table.storage).upon(table.pointer.latest())
        rows = pa.table({"k": [number], "v": [number]}, schema=SCHEMA)
        plan.commit(commit, write_rows(plan, rows), LocalExecutor(), identifier=number)
    assert kinds(table) == ([APPEND] * 3 + [COMPACT]) * 2
    assert [s.commit_identifier for s in reversed(table.snapshots())] == [0, 1, 2, 2, 3, 4, 5, 5]
    assert commit.filter_committed([4, 5, 6]) == [6]
    assert [file.level for file in table.files()] == [5]
    # One without a number, always.
    table.write({"k": [9], "v": [9]})
    assert kinds(table)[-1] is COMPACT


def test_a_full_compaction_takes_what_earlier_commits_left(tmp_path: Path) -> None:
    table = new_table(tmp_path, bucket="4", full_compaction__delta_commits="2")
    commit = TableCommit(table.storage, table.pointer, "stream")
    for number, keys in enumerate([range(20), range(1)]):
        plan = WritePlan(table.storage).upon(table.pointer.latest())
        rows = pa.table({"k": list(keys), "v": [number] * len(keys)}, schema=SCHEMA)
        plan.commit(commit, write_rows(plan, rows), LocalExecutor(), identifier=number)
    assert {file.level for file in table.files()} == {5}
    assert len({file.bucket for file in table.files()}) == 4


class Meddling:
    """Runs tasks after somebody else has done something."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self.meddle = meddle

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        done = [work(task) for task in tasks]
        self.meddle()
        yield from done


def files_below(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("data-*")}


def test_another_compaction_that_comes_first_is_no_failure(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    other = table.with_options({"write-only": "true"})
    for number in range(4):
        upsert(table, number)
    written = table.write({"k": [4, 104], "v": [4, 4]}, executor=Meddling(other.compact))
    assert written is not None
    assert written.commit_kind is APPEND
    assert kinds(table) == [APPEND] * 5 + [COMPACT]
    assert found(table) == expected(5)
    # What the slower one wrote is deleted.
    assert len(files_below(tmp_path)) == 5 + 1


def test_rows_that_come_while_a_writer_compacts_are_kept(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    other = table.with_options({"write-only": "true"})
    for number in range(4):
        upsert(table, number)
    table.write({"k": [4, 104], "v": [4, 4]}, executor=Meddling(lambda: upsert(other, 5)))
    assert kinds(table) == [APPEND] * 6 + [COMPACT]
    assert sorted(file.level for file in table.files()) == [0, 5]
    assert found(table) == expected(6)


def test_a_bucket_with_too_many_runs_is_compacted_in_spite_of_others(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    other = table.with_options({"write-only": "true"})
    for number in range(9):
        upsert(other, number)
    meddled: list[bool] = []

    def meddle() -> None:
        # Once: somebody compacts, and then writes a lot.
        if not meddled:
            meddled.append(True)
            other.compact()
            for number in range(10, 20):
                upsert(other, number)

    table.write({"k": [2, 109], "v": [9, 9]}, executor=Meddling(meddle))
    assert kinds(table)[-1] is COMPACT
    levels = [file.level for file in table.files()]
    assert levels.count(0) == 0
    assert found(table) == expected(20)


def test_a_compaction_that_fails_is_told_and_done_at_the_next_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = new_table(tmp_path)
    for number in range(4):
        upsert(table, number)
    victim = next(tmp_path.rglob("data-*.parquet"))
    content = victim.read_bytes()
    victim.write_bytes(content[:-10])
    written = table.write({"k": [4, 104], "v": [4, 4]})
    assert written is not None
    assert kinds(table) == [APPEND] * 5
    assert victim.name in caplog.text
    assert len(files_below(tmp_path)) == 5
    victim.write_bytes(content)
    upsert(table, 5)
    assert kinds(table)[-1] is COMPACT
    assert found(table) == expected(6)


class Exhausted:
    """An executor without memory."""

    def run(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        raise MemoryError
        yield


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.write({"k": [4], "v": [4]}, executor=Exhausted()),
        lambda table: table.update({"v": 7}, where="k = 3", executor=Exhausted()),
    ],
    ids=["write", "update"],
)
def test_an_error_after_a_commit_says_that_the_rows_are_committed(
    tmp_path: Path, change: Callable[[Table], None]
) -> None:
    table = new_table(tmp_path)
    for number in range(4):
        upsert(table, number)
    with pytest.raises(MemoryError) as raised:
        change(table)
    (note,) = raised.value.__notes__
    assert "the commit itself succeeded, as snapshot 5; do not repeat it. Compacting" in note
    assert kinds(table) == [APPEND] * 5
    upsert(table, 5)
    assert kinds(table)[-1] is COMPACT


def test_buckets_of_append_tables_are_compacted_too(tmp_path: Path) -> None:
    table = new_table(tmp_path, (), bucket_key="k", compaction__min__file_num="3")
    for number in range(12):
        table.write({"k": [number], "v": [number]})
    assert COMPACT in kinds(table)
    assert len(table.files()) <= 6
    assert table.scan().to_arrow()["k"].to_pylist() == list(range(12))


def test_tables_without_buckets_are_left_alone(tmp_path: Path) -> None:
    table = new_table(tmp_path, (), bucket="-1")
    for number in range(7):
        table.write({"k": [number], "v": [number]})
    assert kinds(table) == [APPEND] * 7
