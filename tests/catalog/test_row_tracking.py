"""Tables whose rows have ids that stay, and tell the snapshot that made them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.interrupted import Racing

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.commit.row_ids import assign_row_ids
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import CorruptData, Invalid, NotFound
from headwater.storage.jobs.change import update_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.manifest.data_file import FileSource
from headwater.storage.read.split import read_split
from headwater.storage.scan.plan import live_entries, plan_snapshot
from headwater.storage.write.table_writer import TableWriter

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
TRACKED = {"row-tracking.enabled": "true"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "rewritten": TRACKED,
    "marked": {**TRACKED, "deletion-vectors.enabled": "true"},
    "marked avro": {**TRACKED, "deletion-vectors.enabled": "true", "file.format": "avro"},
    "orc": {**TRACKED, "file.format": "orc"},
}
Version = tuple[int, str, int, int]
"""A row's id of its own, its partition, its value, and the snapshot that made it."""

every_kind = pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind == "rewritten" else pytest.mark.modes) for kind in KINDS],
)


@pytest.fixture
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = connect(str(tmp_path_factory.mktemp("lake")))
    made.create_database("db")
    return made


def make(lake: Lake, kind: str = "rewritten", name: str = "db.t", **options: str) -> Table:
    return lake.create_table(name, SCHEMA, partition_keys=["p"], options={**KINDS[kind], **options})


def rows(*ids: int, v: int = 0) -> pa.Table:
    columns = {"id": list(ids), "p": ["ab"[i % 2] for i in ids], "v": [v] * len(ids)}
    return pa.table(columns, schema=SCHEMA)


def tracked(table: Table) -> dict[int, Version]:
    """The rows by their row ids."""
    found = table.scan(["_ROW_ID", "id", "p", "v", "_SEQUENCE_NUMBER"]).to_arrow()
    assert not any(column.null_count for column in found.columns)
    by_id = {row[0]: row[1:] for row in zip(*found.to_pydict().values(), strict=True)}
    assert len(by_id) == found.num_rows
    return by_id


def values(table: Table) -> dict[int, tuple[int, int]]:
    """Value and snapshot of each row by its row id."""
    return {row_id: (v, snapshot) for row_id, (_, _, v, snapshot) in tracked(table).items()}


# Ids --------------------------------------------------------------------------------------------


def test_new_rows_get_ids_one_after_another_and_the_snapshot_that_made_them(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1, 2, 3))
    table.write(rows(4, 5))
    assert tracked(table) == {
        0: (0, "a", 0, 1),
        1: (2, "a", 0, 1),
        2: (1, "b", 0, 1),
        3: (3, "b", 0, 1),
        4: (4, "a", 0, 2),
        5: (5, "b", 0, 2),
    }
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    assert snapshot.next_row_id == 6
    files = [entry.file for entry in live_entries(table.storage, snapshot)]
    assert {file.first_row_id: file.row_count for file in files} == {0: 2, 2: 2, 4: 1, 5: 1}
    assert {file.max_sequence_number for file in files} == {1, 2}
    assert table.scan().to_arrow().column_names == SCHEMA.names


def test_all_files_of_one_writer_are_of_one_snapshot(lake: Lake) -> None:
    table = make(lake, **{"target-file-size": "1 kb"})
    many = pa.table({"id": range(5000), "p": ["a"] * 5000, "v": range(5000)}, schema=SCHEMA)
    table.write(many)
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    assert len(live_entries(table.storage, snapshot)) > 1
    found = tracked(table)
    assert found == {i: (i, "a", i, 1) for i in range(5000)}


def test_without_groups_ids_follow_the_order_of_the_messages(lake: Lake) -> None:
    for grouped, starts in (("true", [0, 1, 2]), ("false", [0, 2, 1])):
        table = make(
            lake,
            name=f"db.{grouped}",
            **{"row-tracking.partition-group-on-commit": grouped},
        )
        messages = []
        for one in (0, 1, 2):
            with TableWriter(table.storage, max_sequence_numbers={}) as writer:
                writer.write(rows(one))
                messages += writer.finish()
        TableCommit(table.storage, table.pointer, "user").commit(messages)
        ids = {row[0]: row_id for row_id, row in tracked(table).items()}
        assert [ids[0], ids[2], ids[1]] == starts


def test_a_commit_that_another_overtook_gives_its_ids_anew(lake: Lake) -> None:
    table = make(lake)
    racing = Racing(table.pointer, lambda: lake.table("db.t").write(rows(10, 12)))
    with TableWriter(table.storage, max_sequence_numbers={}) as writer:
        writer.write(rows(0, 2))
        messages = writer.finish()
    TableCommit(table.storage, racing, "user").commit(messages)
    assert racing.offered == 2
    assert tracked(table) == {
        0: (10, "a", 0, 1),
        1: (12, "a", 0, 1),
        2: (0, "a", 0, 2),
        3: (2, "a", 0, 2),
    }


def test_updates_at_once_lose_neither_a_row_nor_its_id(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 2, 4))
    other = lake.table("db.t")
    racing = Racing(table.pointer, lambda: other.update({"v": pc.field("v") + 1}, where="id < 3"))
    predicate = table._predicate("id > 1", table.storage)
    update_table(table.storage, racing, LocalExecutor(), {"v": pc.field("v") + 10}, predicate)
    assert values(table) == {0: (1, 2), 1: (11, 3), 2: (10, 3)}


@every_kind
def test_rows_keep_their_ids_when_they_are_changed_and_moved(lake: Lake, kind: str) -> None:
    table = make(lake, kind)
    table.write(rows(0, 2, 4, 6))
    table.write(rows(8, 10))
    table.update({"v": 5}, where="id in (2, 8)")
    assert values(table) == {0: (0, 1), 1: (5, 3), 2: (0, 1), 3: (0, 1), 4: (5, 3), 5: (0, 2)}
    table.delete("id = 0")
    table.merge(rows(4, 12, v=7), on=["id"])
    expected = {1: (5, 3), 2: (7, 5), 3: (0, 1), 4: (5, 3), 5: (0, 2), 6: (7, 5)}
    assert values(table) == expected
    table.compact(full=True)
    assert values(table) == expected
    (split,) = table.scan().splits
    assert len(split.files) == 1
    table.update({"v": 9}, where="_ROW_ID = 5")
    expected[5] = (9, 7)
    assert values(table) == expected
    table.compact(full=True)
    assert values(table) == expected
    check = table.check_files(deep=True)
    assert (check.is_whole, check.unread) == (True, 0)


def test_a_sorted_table_keeps_the_ids_of_its_rows(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(6, 2, 4))
    table.write(rows(0, 8))
    before = tracked(table)
    table.compact(order_strategy="order", order_by=["id"])
    assert tracked(table) == before
    assert table.scan(["id"]).to_arrow()["id"].to_pylist() == [0, 2, 4, 6, 8]


def test_ids_outlive_whatever_takes_rows_away(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 1))
    table.create_tag("before")
    table.overwrite(rows(4), partition={"p": "a"})
    assert values(table) == {1: (0, 1), 2: (0, 2)}
    table.truncate()
    table.write(rows(6))
    assert values(table) == {3: (0, 4)}
    before = table.scan(["_ROW_ID"], tag="before").to_arrow()
    assert sorted(before["_ROW_ID"].to_pylist()) == [0, 1]
    table.expire_snapshots(retain_max=1, retain_min=1, retain=timedelta(0))
    table.write(rows(8))
    assert values(table) == {3: (0, 4), 4: (0, 5)}
    table.create_tag("now")
    table.create_branch("trial", tag="now")
    table.branch("trial").write(rows(10))
    assert values(table.branch("trial")) == {3: (0, 4), 4: (0, 5), 5: (0, 6)}
    table.fast_forward("trial")
    assert values(lake.table("db.t")) == {3: (0, 4), 4: (0, 5), 5: (0, 6)}


def test_a_clone_has_the_ids_and_goes_on_from_them(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 2))
    table.update({"v": 1}, where="id = 2")
    copy = lake.clone_table(table, "db.copy")
    assert tracked(copy) == tracked(table)
    copy.write(rows(4))
    assert values(copy)[2] == (0, 3)


# Reading ----------------------------------------------------------------------------------------


def test_a_condition_on_ids_leaves_out_files_and_finds_rows(lake: Lake) -> None:
    table = make(lake)
    for start in range(0, 8, 2):
        table.write(rows(start, start + 8))
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    predicate = table._predicate("_ROW_ID between 2 and 3", table.storage)
    assert plan_snapshot(table.storage, snapshot, predicate=predicate).files_skipped == 3
    assert table.scan(["id"], "_ROW_ID in (2, 5)").to_arrow()["id"].to_pylist() == [2, 12]
    assert table.scan(["id"], "_SEQUENCE_NUMBER = 4").to_arrow()["id"].to_pylist() == [6, 14]
    assert table.scan(where="_ROW_ID >= 5").count() == 3
    table.compact(full=True)
    assert sorted(table.scan(["id"], "_ROW_ID in (2, 5)").to_arrow()["id"].to_pylist()) == [2, 12]


def test_positions_are_told_of_files_with_several_row_groups(lake: Lake) -> None:
    table = make(lake, "marked", **{"file.block-size": "1 kb"})
    many = pa.table({"id": range(20000), "p": ["a"] * 20000, "v": range(20000)}, schema=SCHEMA)
    table.write(many)
    table.delete("id between 3000 and 4000")
    found = table.scan(["id", "_ROW_ID"], "id > 2990").to_arrow()
    assert found["id"].to_pylist() == found["_ROW_ID"].to_pylist()
    assert found.num_rows == 20000 - 2991 - 1001
    only = table.scan(["_ROW_ID"]).to_arrow()["_ROW_ID"].to_pylist()
    assert only == [i for i in range(20000) if not 3000 <= i <= 4000]


def test_the_system_table_shows_all(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 2))
    shown = lake.system_table("db.t$row_tracking")
    assert shown.schema.names == [*SCHEMA.names, "_ROW_ID", "_SEQUENCE_NUMBER"]
    assert shown.to_arrow(["id", "_ROW_ID"], where="_ROW_ID = 1").to_pylist() == [
        {"id": 2, "_ROW_ID": 1}
    ]
    found = table.inspect.row_tracking(where="id = 0").to_arrow()
    assert found["_SEQUENCE_NUMBER"].to_pylist() == [1]
    lake.create_table("db.plain", SCHEMA).write(rows(0))
    with pytest.raises(Invalid, match=r"'row-tracking\.enabled' is not true"):
        lake.system_table("db.plain$row_tracking").to_arrow()
    with pytest.raises(NotFound, match="'_ROW_ID' does not exist"):
        lake.table("db.plain").scan(["_ROW_ID"])


def test_changes_tell_the_ids_of_rows(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0))
    table.write(rows(2, 4))
    found = table.changes(1, 2, columns=["id", "_ROW_ID"]).to_arrow()
    assert found.select(["id", "_ROW_ID"]).to_pylist() == [
        {"id": 2, "_ROW_ID": 1},
        {"id": 4, "_ROW_ID": 2},
    ]


# Refusals ---------------------------------------------------------------------------------------


def test_ids_cannot_be_written(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0))
    with pytest.raises(Invalid, match="'_ROW_ID' is kept by the table"):
        table.update({"_ROW_ID": 7})
    with pytest.raises(Invalid, match="_ROW_ID"):
        table.write(rows(2).append_column("_ROW_ID", pa.array([9])))


def test_rows_that_lost_their_ids_are_told(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(0, 2))
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    entries = live_entries(table.storage, snapshot)
    lost = [
        replace(entry, file=replace(entry.file, first_row_id=None, file_source=FileSource.COMPACT))
        for entry in entries
    ]
    (split,) = plan_snapshot(table.storage, snapshot).splits
    damaged = replace(split, files=tuple(entry.file for entry in lost))
    assert [b.num_rows for b in read_split(table.storage, damaged, columns=["id"])] == [2]
    with pytest.raises(CorruptData, match="rows without ids"):
        list(read_split(table.storage, damaged, columns=["_ROW_ID"]))
    # Nor does a commit invent some for them.
    assert assign_row_ids(table.schema.table_options, snapshot, lost) == (lost, 2)


# Against a model --------------------------------------------------------------------------------

IDS = st.integers(0, 9)
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "merge"]), st.lists(IDS, unique=True, min_size=1))
    | st.tuples(st.sampled_from(["delete", "update"]), st.lists(IDS, unique=True, min_size=1))
    | st.tuples(st.sampled_from(["compact"]), st.just([])),
    min_size=1,
    max_size=5,
)


@every_kind
@settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_random_changes_leave_every_row_its_id(
    tmp_path_factory: pytest.TempPathFactory, kind: str, steps: list[tuple[str, list[int]]]
) -> None:
    lake = connect(str(tmp_path_factory.mktemp("model")))
    lake.create_database("db")
    table = make(lake, kind)
    model: dict[int, tuple[int, int, int]] = {}
    """Id, value and snapshot by row id."""
    next_id = 0

    def snapshot_id() -> int:
        latest = table.latest_snapshot()
        return 0 if latest is None else latest.id

    def appended(ids: list[int], value: int) -> None:
        nonlocal next_id
        # The partitions of a commit get ids in any order.
        new = {row_id: row[0] for row_id, row in tracked(table).items() if row_id >= next_id}
        assert sorted(new) == list(range(next_id, next_id + len(ids)))
        assert sorted(new.values()) == sorted(ids)
        model.update({row_id: (one, value, snapshot_id()) for row_id, one in new.items()})
        next_id += len(ids)

    for number, (step, drawn) in enumerate(steps):
        ids = sorted(drawn)
        before = snapshot_id()
        text = ", ".join(map(str, ids))
        if step == "write":
            table.write(rows(*ids, v=number))
            appended(ids, number)
            continue
        if step == "compact":
            table.compact(full=True)
            continue
        if step == "delete":
            table.delete(f"id in ({text})")
            model = {k: row for k, row in model.items() if row[0] not in ids}
            continue
        if step == "update":
            table.update({"v": number}, where=f"id in ({text})")
        else:
            table.merge(rows(*ids, v=number), on=["id"])
        if snapshot_id() > before:
            present = {row[0] for row in model.values()}
            for row_id, row in model.items():
                if row[0] in ids:
                    model[row_id] = (row[0], number, snapshot_id())
            if step == "merge":
                appended([i for i in ids if i not in present], number)
    found = {row_id: (i, v, s) for row_id, (i, _, v, s) in tracked(table).items()}
    assert found == model
