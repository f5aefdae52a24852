"""Deleting, updating and merging rows of primary-key tables whose rows merge with each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.scan.stream import after, next_plan
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("v", pa.int64()), ("s", pa.int64())]
)
PARTIAL = {"merge-engine": "partial-update"}
GROUPS = {**PARTIAL, "fields.s.sequence-group": "v"}
SUMS = {
    "merge-engine": "aggregation",
    "fields.v.aggregate-function": "sum",
    "fields.s.aggregate-function": "max",
}
FIRST = {"merge-engine": "first-row"}
SEQUENCE = {"sequence.field": "s"}
IGNORING = {"ignore-delete": "true"}
ENGINES: Mapping[str, Mapping[str, str]] = {
    "partial-update": PARTIAL,
    "sequence groups": GROUPS,
    "aggregation": SUMS,
    "first-row": FIRST,
    "ignoring deletes": IGNORING,
}
ALL: Mapping[str, Mapping[str, str]] = {**ENGINES, "sequence": SEQUENCE}
Row = tuple[int, Any, Any]


def engines(of: Mapping[str, Mapping[str, str]] = ENGINES, *usual: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "options",
        [
            pytest.param(each, id=name, marks=() if name in usual else pytest.mark.modes)
            for name, each in of.items()
        ],
    )


def make(
    tmp_path: Path, options: Mapping[str, str], rows: Sequence[Row] = (), bucket: str = "1"
) -> Table:
    lake = connect(str(tmp_path / "lake"))
    lake.create_database("db", ignore_if_exists=True)
    lake.drop_table("db.t", ignore_if_not_exists=True)
    table = lake.create_table(
        "db.t", SCHEMA, primary_keys=["id"], options={"bucket": bucket, **options}
    )
    if rows:
        table.write(as_table(rows))
    return table


def as_table(rows: Sequence[Row]) -> pa.Table:
    columns = [list(values) for values in zip(*rows, strict=True)] or [[], [], []]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def rows_of(table: Table) -> list[Row]:
    found = table.scan().to_arrow().select(SCHEMA.names)
    return sorted(zip(*found.to_pydict().values(), strict=True), key=lambda row: row[0])


def changelog(table: Table, since: Snapshot | None) -> list[tuple[str, int, Any]]:
    assert since is not None
    found = table.changes(since.id).to_arrow().select(["_ROW_KIND", "id", "v"])
    return list(zip(*found.to_pydict().values(), strict=True))


@engines(ENGINES, "aggregation")
def test_changes_have_the_effect_that_they_say(tmp_path: Path, options: Mapping[str, str]) -> None:
    table = make(tmp_path, options, [(1, 10, 1), (2, 20, 1), (3, 30, 1), (4, 40, 1)])
    table.write(as_table([(5, 50, 1), (6, 60, 1)]))
    snapshot = table.update({"v": pc.field("v") + 1}, where="id <= 2")
    assert snapshot is not None
    assert table.update({"v": None}, where="v = 30") is not None
    expected = [(1, 11, 1), (2, 21, 1), (3, None, 1), (4, 40, 1), (5, 50, 1), (6, 60, 1)]
    assert rows_of(table) == expected
    deleted = table.delete("id IN (2, 5)")
    assert deleted is not None
    assert deleted == table.latest_snapshot()
    del expected[4], expected[1]
    assert rows_of(table) == expected
    assert table.update({"v": 0}, where="v = 77") is None
    assert table.delete("v = 77") is None
    # What is written for a deleted key finds nothing of the old row.
    table.write(as_table([(5, 7, 0)]))
    table.merge({"id": [1, 4], "v": [100, 400]}, on=["id"], when_not_matched=None)
    table.merge(as_table([(6, 1, 2), (9, 90, 2)]), on=["id"])
    table.merge({"id": [3]}, on=["id"], when_matched="delete", when_not_matched=None)
    expected = [(1, 100, 1), (4, 400, 1), (5, 7, 0), (6, 1, 2), (9, 90, 2)]
    assert rows_of(table) == expected
    table.compact()
    assert rows_of(table) == expected


def test_later_rows_are_merged_with_changed_ones(tmp_path: Path) -> None:
    table = make(tmp_path, SUMS, [(1, 10, 1), (2, 20, 1)])
    table.update({"v": 3}, where="id = 1")
    table.write(as_table([(1, 4, 9), (2, 5, 0)]))
    assert rows_of(table) == [(1, 7, 9), (2, 25, 1)]
    table = make(tmp_path, GROUPS, [(1, 10, 5)])
    table.update({"v": None}, where="id = 1")
    table.write(as_table([(1, 8, 4)]))
    assert rows_of(table) == [(1, None, 5)]
    table.write(as_table([(1, 9, 6)]))
    assert rows_of(table) == [(1, 9, 6)]
    table = make(tmp_path, FIRST, [(1, 10, 5)])
    table.update({"v": 3}, where="id = 1")
    table.write(as_table([(1, 8, 4)]))
    assert rows_of(table) == [(1, 3, 5)]


@pytest.mark.parametrize("bucket", ["1", pytest.param("-1", marks=pytest.mark.modes)])
def test_an_update_wins_over_the_stored_row(tmp_path: Path, bucket: str) -> None:
    table = make(tmp_path, SEQUENCE, [(1, 10, 5), (2, 20, 5), (3, 30, None)], bucket)
    table.update({"s": 6, "v": 11}, where="id = 1")
    latest = table.latest_snapshot()
    assert latest is not None
    assert latest.commit_kind is CommitKind.APPEND
    table.update({"s": 2, "v": 12}, where="id = 1")
    table.merge(as_table([(2, 21, 1), (4, 40, 0)]), on=["id"])
    table.update({"s": None}, where="id = 4")
    assert rows_of(table) == [(1, 12, 2), (2, 21, 1), (3, 30, None), (4, 40, None)]
    # Written rows are ordered by it as ever.
    table.write(as_table([(1, 0, 1), (2, 0, 1)]))
    assert rows_of(table)[:2] == [(1, 12, 2), (2, 0, 1)]
    descending = {**SEQUENCE, "sequence.field.sort-order": "descending"}
    table = make(tmp_path, descending, [(1, 10, 5)], bucket)
    table.update({"s": 9}, where="id = 1")
    assert rows_of(table) == [(1, 10, 9)]


TOLD = [
    (options, producer)
    # Others have no such changelog in Paimon.
    for options, producers in (
        (PARTIAL, ("lookup", "full-compaction")),
        (GROUPS, ("lookup", "full-compaction")),
        (SUMS, ("lookup", "full-compaction")),
        (FIRST, ("lookup",)),
        (SEQUENCE, ("lookup", "full-compaction", "input")),
    )
    for producer in producers
]


@pytest.mark.modes
@pytest.mark.parametrize(("options", "producer"), TOLD)
def test_the_changelog_tells_of_changed_rows(
    tmp_path: Path, options: Mapping[str, str], producer: str
) -> None:
    options = {**options, "changelog-producer": producer, "write-only": "true"}
    table = make(tmp_path, options, [(1, 10, 5), (2, 20, 5), (3, 30, 5)])
    if producer != "input":
        table.compact()
    table.write(as_table([(4, 40, 5)]))
    before = table.latest_snapshot()
    assert before is not None
    table.update({"v": pc.field("v") + 1, "s": 4}, where="id IN (2, 4)")
    if "sequence.field" not in options:
        table.delete("id = 1")
    waiting = [] if producer == "input" else [("+I", 4, 40)]
    deleted = [] if options.get("sequence.field") else [("-D", 1, 10)]
    updated = [("-U", 2, 20), ("+U", 2, 21), ("-U", 4, 40), ("+U", 4, 41)]
    assert changelog(table, before) == [*waiting, *updated, *deleted]
    left = [(2, 21, 4), (3, 30, 5), (4, 41, 4)]
    assert rows_of(table) == ([] if deleted else [(1, 10, 5)]) + left
    # A compaction tells of nothing once more.
    before = table.latest_snapshot()
    table.compact()
    assert changelog(table, before) == []


@pytest.mark.modes
def test_a_stream_hears_of_rows_that_a_merge_inserts_and_updates(tmp_path: Path) -> None:
    table = make(tmp_path, {**FIRST, "changelog-producer": "lookup"}, [(1, 10, 5)])
    before = table.latest_snapshot()
    table.merge(as_table([(1, 11, 5), (2, 20, 5)]), on=["id"])
    assert sorted(changelog(table, before)) == [("+I", 2, 20), ("+U", 1, 11), ("-U", 1, 10)]
    assert rows_of(table) == [(1, 11, 5), (2, 20, 5)]
    quiet = {**SUMS, "changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"}
    table = make(tmp_path, quiet, [(1, 10, 5), (2, 20, 5)])
    before = table.latest_snapshot()
    table.update({"v": 20})
    assert changelog(table, before) == [("-U", 1, 10), ("+U", 1, 20)]


@pytest.mark.parametrize("bucket", ["1", "-1"])
def test_a_stream_hears_of_a_merge_that_takes_no_row_away(tmp_path: Path, bucket: str) -> None:
    table = make(tmp_path, {}, [(1, 10, 5)], bucket)
    before = table.latest_snapshot()
    assert before is not None
    table.merge(as_table([(1, 11, 5), (2, 20, 5)]), on=["id"])
    assert sorted(changelog(table, before)) == [("+I", 2, 20), ("+U", 1, 11)]
    plan, _ = next_plan(table.storage, after(before), table.latest_snapshot())
    assert plan is not None, "streams pass over what is no append"


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
@pytest.mark.modes
def test_postponed_rows_are_changed_like_others(tmp_path: Path, engine: str) -> None:
    options = SUMS if engine == "aggregation" else {}
    waiting = {**options, "postpone.batch-write-fixed-bucket": "false"}
    table = make(tmp_path, waiting, [(1, 10, 5), (2, 20, 5)], "-2")
    assert rows_of(table) == []
    table.update({"v": 0}, where="id = 1")
    assert rows_of(table) == [(1, 0, 5), (2, 20, 5)]
    table.write(as_table([(3, 30, 5)]))
    table.delete("id >= 2")
    assert rows_of(table) == [(1, 0, 5)]
    table.compact()
    assert rows_of(table) == [(1, 0, 5)]


def test_files_of_other_keys_stay(tmp_path: Path) -> None:
    table = make(tmp_path, {**SUMS, "write-only": "true"}, [(1, 10, 1), (2, 20, 1)])
    table.write(as_table([(7, 70, 1), (8, 80, 1)]))
    table.write(as_table([(8, 1, 1), (9, 90, 1)]))
    before = {file.name for file in table.files()}
    table.update({"v": 0}, where="id = 8")
    after = {file.name for file in table.files()}
    assert len(before & after) == 1
    assert rows_of(table) == [(1, 10, 1), (2, 20, 1), (7, 70, 1), (8, 0, 1), (9, 90, 1)]


def test_rows_of_a_kind_are_not_updated_to_deleted_ones(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("k", pa.string()))
    lake = connect(str(tmp_path / "lake"))
    lake.create_database("db")
    options = {"bucket": "1", "rowkind.field": "k"}
    table = lake.create_table("db.t", schema, primary_keys=["id"], options=options)
    table.write({"id": [1, 2], "v": [1, 2], "s": [1, 1], "k": ["+I", "+I"]})
    with pytest.raises(Invalid, match=r"'rowkind\.field'"):
        table.update({"k": "-D"}, where="id = 1")
    with pytest.raises(Invalid, match=r"'rowkind\.field'"):
        table.merge({"id": [1], "k": ["-D"]}, on=["id"], when_not_matched=None)
    table.update({"v": 5, "k": "+U"}, where="id = 1")
    table.delete("id = 2")
    assert table.scan(columns=["id", "v", "k"]).to_arrow().to_pylist() == [
        {"id": 1, "v": 5, "k": "+U"}
    ]


def crossing(tmp_path: Path, **options: str) -> Table:
    """A table whose keys are unique across its partitions, which `s` names."""
    lake = connect(str(tmp_path / "lake"))
    lake.create_database("db")
    return lake.create_table(
        "db.t",
        SCHEMA,
        primary_keys=["id"],
        partition_keys=["s"],
        options={"bucket": "-1", **options},
    )


SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
MOVING: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "partial-update": PARTIAL,
    "aggregation": SUM,
    "first-row": FIRST,
    "spilled": {**PARTIAL, "write-buffer-size": "1 kb"},
}
moving = engines(MOVING, "partial-update")


@moving
def test_updated_rows_move_to_other_partitions(tmp_path: Path, options: Mapping[str, str]) -> None:
    table = crossing(tmp_path, **options)
    table.write(as_table([(number, number, 1) for number in range(1, 9)]))
    changed = table.update({"s": pc.add(pc.field("id"), 10), "v": 5}, where="id IN (1, 2)")
    assert changed is not None
    table.update({"v": 7}, where="id = 1")
    expected = [(1, 7, 11), (2, 5, 12), *((number, number, 1) for number in range(3, 9))]
    assert rows_of(table) == expected
    # A key has one partition: what is written for it comes to where it is now.
    table.write(as_table([(2, 6, 12)]))
    last = {"partial-update": 6, "aggregation": 11, "first-row": 5}
    expected[1] = (2, last.get(options.get("merge-engine", ""), 6), 12)
    assert rows_of(table) == expected
    table.compact()
    assert rows_of(table) == expected


@moving
def test_a_merge_deletes_a_key_and_adds_it_to_another_partition(
    tmp_path: Path, options: Mapping[str, str]
) -> None:
    table = crossing(tmp_path, **options)
    table.write(as_table([(number, number, 1) for number in range(1, 6)]))
    source = as_table([(1, 100, 1), (1, 101, 2), (2, 102, 1), (9, 109, 3), (3, 103, 1)])
    table.merge(source, on=["id", "s"], when_matched="delete")
    expected = [(1, 101, 2), (4, 4, 1), (5, 5, 1), (9, 109, 3)]
    assert rows_of(table) == expected
    table.compact()
    assert rows_of(table) == expected


@moving
def test_a_merge_adds_to_a_key_that_it_moves(tmp_path: Path, options: Mapping[str, str]) -> None:
    """Rows of the source that match none come after those that are changed."""
    table = crossing(tmp_path, **options)
    table.write(as_table([(1, 10, 1), (2, 20, 1)]))
    source = pa.table({"id": [1, 1], "v": [10, 99], "s": [4, 4]}, schema=SCHEMA)
    table.merge(source, on=["v"])
    value = {"aggregation": 109, "first-row": 10}.get(options.get("merge-engine", ""), 99)
    assert rows_of(table) == [(1, value, 4), (2, 20, 1)]


def test_rows_that_wait_for_buckets_do_not_move_to_other_partitions(tmp_path: Path) -> None:
    table = crossing(tmp_path, **{**PARTIAL, "bucket": "-2"})
    table.write(as_table([(1, 10, 1), (2, 20, 1)]))
    with pytest.raises(Unsupported, match="cannot be updated to lie in another one"):
        table.update({"s": 3}, where="id = 1")
    assert rows_of(table) == [(1, 10, 1), (2, 20, 1)]


@engines(
    {
        "lookup": {"changelog-producer": "lookup"},
        "full": {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"},
    }
)
def test_streams_are_told_of_rows_that_move(tmp_path: Path, options: Mapping[str, str]) -> None:
    table = crossing(tmp_path, **SUM, **options)
    table.write(as_table([(1, 10, 1), (2, 20, 1)]))
    before = table.latest_snapshot()
    table.update({"s": 3}, where="id = 1")
    assert sorted(changelog(table, before)) == [("+I", 1, 10), ("-D", 1, 10)]


def test_changes_do_the_upkeep_of_a_write(tmp_path: Path) -> None:
    options = {
        **SUMS,
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "2",
        "tag.automatic-creation": "batch",
    }
    table = make(tmp_path, options, [(1, 10, 1), (2, 20, 1)])
    steps: list[Callable[[], Snapshot | None]] = [
        lambda: table.update({"v": 1}, where="id = 1"),
        lambda: table.merge(as_table([(1, 2, 2)]), on=["id"]),
        lambda: table.delete("id = 2"),
    ]
    for step in steps:
        for tag in table.tags():
            table.delete_tag(tag.name)
        made = step()
        assert made is not None
        assert [tag.snapshot.id for tag in table.tags()] == [made.id]
        assert len(table.snapshots()) <= 2
    assert rows_of(table) == [(1, 2, 2)]


IDS = st.lists(st.integers(0, 9), min_size=1, unique=True)
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "update", "delete", "merge", "compact"]), IDS), max_size=8
)


@pytest.mark.modes
@engines(ALL, *ALL)
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(STEPS, st.booleans())
def test_any_changes_are_those_of_a_model(
    tmp_path: Path, options: Mapping[str, str], steps: list[tuple[str, list[int]]], tells: bool
) -> None:
    extra = {"num-sorted-run.compaction-trigger": "3"}
    if tells:
        extra["changelog-producer"] = "lookup"
    table = make(tmp_path, {**options, **extra})
    model: dict[int, tuple[Any, Any]] = {}
    told: dict[int, Any] = {}
    for number, (step, ids) in enumerate(steps, 1):
        where = f"id IN ({', '.join(map(str, ids))})"
        since = table.latest_snapshot()
        if step == "write":
            table.write(as_table([(one, number, number) for one in ids]))
            for one in ids:
                v, s = model.get(one, (None, None))
                if options is SUMS:
                    model[one] = ((v or 0) + number, max(s or 0, number))
                elif options is FIRST:
                    model[one] = model.get(one, (number, number))
                elif not (options in (GROUPS, SEQUENCE) and s is not None and s > number):
                    model[one] = (number, number)
        elif step == "update":
            table.update({"v": pc.field("v") * 10, "s": pc.field("s") + 1 - number}, where=where)
            model |= {i: (v * 10, s + 1 - number) for i, (v, s) in model.items() if i in ids}
        elif step == "merge":
            table.merge(as_table([(one, -number, 0) for one in ids]), on=["id"])
            model |= dict.fromkeys(ids, (-number, 0))
        elif step == "delete":
            table.delete(where)
            model = {i: row for i, row in model.items() if i not in ids}
        else:
            table.compact()
        expected = [(i, *row) for i, row in sorted(model.items())]
        assert rows_of(table) == expected
        if tells and table.latest_snapshot() is not None:
            rows = table.changes(0 if since is None else since.id).to_arrow()
            for kind, i, v in zip(
                *rows.select(["_ROW_KIND", "id", "v"]).to_pydict().values(), strict=True
            ):
                if kind in ("-U", "-D"):
                    assert told.pop(i) == v
                else:
                    assert i not in told
                    told[i] = v
            assert told == {i: v for i, (v, _) in model.items()}
