"""Changes planned on a snapshot whose place another took, after a rollback or a fast-forward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interrupted import Overtaken, Racing

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Conflict, CorruptData
from headwater.storage.files.local import local_path
from headwater.storage.jobs.analyze import analyze_table
from headwater.storage.jobs.change import merge_into_table, update_table
from headwater.storage.jobs.compact import compact_table
from headwater.storage.jobs.delete import delete_from_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.jobs.write import WritePlan, write_rows
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
KINDS: Mapping[str, Mapping[str, object]] = {
    "append": {},
    "keyed": {"primary_keys": ["id"], "options": {"bucket": "1"}},
    "computed": {
        "primary_keys": ["id"],
        "options": {
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "last_value",
        },
    },
    "crossing": {"primary_keys": ["id"], "partition_keys": ["p"], "options": {"bucket": "-1"}},
}


def rows(*found: tuple[int, str, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in found], schema=SCHEMA
    )


def rows_of(table: Table) -> list[tuple[int, str, int]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def make(lake: Lake, kind: str) -> Table:
    """A table with two rows in one snapshot."""
    table = lake.create_table("sales.t", SCHEMA, **KINDS[kind])  # type: ignore[arg-type]
    table.write(rows((1, "a", 1), (2, "a", 2)))
    return table


def roll_back(lake: Lake) -> None:
    """The second snapshot goes away, and another takes its id."""
    lake.table("sales.t").rollback(snapshot_id=1)
    lake.table("sales.t").write(rows((4, "a", 9)))


def meanwhile(lake: Lake, table: Table, way: str) -> Callable[[], object]:
    """What gives the id of the second snapshot, which comes next, to another."""
    if way == "rolled back":
        return lambda: roll_back(lake)
    trial = table.create_branch("trial", snapshot_id=1)
    trial.write(rows((4, "a", 9)))
    return lambda: lake.table("sales.t").fast_forward("trial")


def delete(storage: TableStorage, pointer: SnapshotPointer, table: Table) -> None:
    predicate = table._predicate("v = 9", table.storage)
    assert predicate is not None
    delete_from_table(storage, pointer, LocalExecutor(), predicate)


def update(storage: TableStorage, pointer: SnapshotPointer, table: Table) -> None:
    predicate = table._predicate("v = 9", table.storage)
    update_table(storage, pointer, LocalExecutor(), {"v": 10}, predicate)


def merge(storage: TableStorage, pointer: SnapshotPointer, table: Table) -> None:
    source = rows((3, "a", 30), (4, "a", 40))
    merge_into_table(storage, pointer, LocalExecutor(), source, ["id"], "update", True)


CHANGES = {
    "delete": (delete, [(1, "a", 1), (2, "a", 2)]),
    "update": (update, [(1, "a", 1), (2, "a", 2), (4, "a", 10)]),
    "merge": (merge, [(1, "a", 1), (2, "a", 2), (3, "a", 30), (4, "a", 40)]),
}


@pytest.mark.modes
@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize(
    ("kind", "way"), [("keyed", "replaced"), *((kind, "rolled back") for kind in KINDS)]
)
def test_rows_are_looked_for_again_in_the_history_that_there_is(
    lake: Lake, kind: str, change: str, way: str
) -> None:
    table = make(lake, kind)
    before = meanwhile(lake, table, way)
    table.write(rows((1, "a", 9), (3, "a", 9)))
    work, expected = CHANGES[change]
    racing = Racing(table.pointer, before)
    work(table.storage, racing, table)
    assert rows_of(lake.table("sales.t")) == expected
    assert racing.offered == 2


@pytest.mark.modes
@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("looks", [1, 2])
def test_rows_are_looked_for_again_when_the_snapshot_that_is_read_expires(
    lake: Lake, kind: str, change: str, looks: int
) -> None:
    table = make(lake, kind)
    table.write(rows((4, "a", 9)))

    def expire() -> None:
        other = lake.table("sales.t")
        other.compact(full=True)
        other.expire_snapshots(retain_min=1, retain_max=1)

    work, expected = CHANGES[change]
    work(table.storage, Overtaken(table.pointer, expire, looks), table)
    assert rows_of(lake.table("sales.t")) == expected


def test_a_compaction_of_a_snapshot_that_expires_starts_over(lake: Lake) -> None:
    table = make(lake, "append")
    table.write(rows((4, "a", 9)))

    def expire() -> None:
        other = lake.table("sales.t")
        other.overwrite(rows((1, "a", 1)))
        other.expire_snapshots(retain_min=1, retain_max=1)

    compact_table(table.storage, Overtaken(table.pointer, expire), LocalExecutor())
    assert rows_of(lake.table("sales.t")) == [(1, "a", 1)]


def test_damage_is_told_though_others_commit(lake: Lake) -> None:
    table = make(lake, "append")
    (path,) = Path(local_path(table.storage.layout.location)).rglob("data-*.parquet")
    path.unlink()
    with pytest.raises(CorruptData, match="is missing"):
        update_table(table.storage, table.pointer, LocalExecutor(), {"v": 10}, None)
    racing = Overtaken(table.pointer, lambda: lake.table("sales.t").write(rows((9, "a", 1))))
    with pytest.raises(CorruptData, match="is missing"):
        update_table(table.storage, racing, LocalExecutor(), {"v": 10}, None)


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_compaction_of_files_that_went_is_refused(lake: Lake, kind: str) -> None:
    table = make(lake, kind)
    table.write(rows((1, "a", 9), (3, "a", 9)))
    racing = Racing(table.pointer, lambda: roll_back(lake))
    compact_table(table.storage, racing, LocalExecutor())
    assert rows_of(lake.table("sales.t")) == [(1, "a", 1), (2, "a", 2), (4, "a", 9)]


def test_rows_that_are_added_need_nothing_that_went(lake: Lake) -> None:
    table = make(lake, "keyed")
    table.write(rows((5, "a", 5)))
    messages = write_rows(
        WritePlan(table.storage).upon(table.pointer.latest()), rows((1, "a", 6), (6, "a", 6))
    )
    lake.table("sales.t").rollback(snapshot_id=1)
    lake.table("sales.t").write(rows((1, "a", 7), (7, "a", 7)))
    assert TableCommit(table.storage, table.pointer, "writer").commit(messages) is not None
    kept = [(1, "a", 6), (2, "a", 2), (6, "a", 6), (7, "a", 7)]
    assert rows_of(lake.table("sales.t")) == kept


def test_keys_looked_up_in_a_history_that_went_are_refused(lake: Lake) -> None:
    table = make(lake, "crossing")
    table.write(rows((3, "b", 3)))
    plan = WritePlan(table.storage).upon(table.pointer.latest())
    messages = write_rows(plan, rows((3, "c", 4)))
    lake.table("sales.t").rollback(snapshot_id=1)
    lake.table("sales.t").write(rows((3, "d", 3)))
    with pytest.raises(Conflict, match=r"snapshot 2, .* no longer part of the table's history"):
        TableCommit(table.storage, table.pointer, "writer").commit(messages)
    assert rows_of(lake.table("sales.t")) == [(1, "a", 1), (2, "a", 2), (3, "d", 3)]


def test_statistics_of_rows_that_went_are_refused(lake: Lake) -> None:
    table = make(lake, "keyed")
    table.write(rows((3, "a", 3)))
    racing = Racing(table.pointer, lambda: roll_back(lake))
    with pytest.raises(Conflict, match="no longer part of the table's history"):
        analyze_table(table.storage, racing, LocalExecutor(), None)


def test_a_rollback_alone_is_noticed(lake: Lake) -> None:
    table = make(lake, "keyed")
    table.write(rows((3, "a", 3)))
    read: Snapshot | None = table.latest_snapshot()
    assert read is not None
    plan = WritePlan(table.storage, unchanged_since=read.identity).upon(read)
    messages = write_rows(plan, rows((3, "a", 4)))
    lake.table("sales.t").rollback(snapshot_id=1)
    with pytest.raises(Conflict, match="no longer part of the table's history"):
        plan.commit(TableCommit(table.storage, table.pointer, "writer"), messages, LocalExecutor())
