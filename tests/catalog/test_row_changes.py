"""Deleting, updating and merging rows of tables of every kind, as one commit each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.dying_files import Killed, MortalFiles
from tests.interrupted import Racing

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Conflict, Invalid, NotFound
from headwater.storage.index.manifest import index_entries
from headwater.storage.jobs.change import merge_into_table, update_table
from headwater.storage.jobs.delete import delete_from_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.schema.change import SetOption
from headwater.storage.snapshot.snapshot import CommitKind

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("p", pa.string(), nullable=False),
        ("v", pa.int64()),
    ]
)
VECTORS = {"deletion-vectors.enabled": "true"}
BUCKETS = {"bucket": "2", "bucket-key": "id"}
KEYED = {"options": {"bucket": "2"}, "primary_keys": ["p", "id"], "partition_keys": ["p"]}
KINDS: Mapping[str, Mapping[str, object]] = {
    "rewritten": {},
    "rewritten buckets": {"options": BUCKETS},
    "marked": {"options": VECTORS, "partition_keys": ["p"]},
    "marked 64 bits": {"options": {**VECTORS, "deletion-vectors.bitmap64": "true"}},
    "marked buckets": {"options": {**VECTORS, **BUCKETS}},
    "keyed": KEYED,
    "keyed, merged on write": {**KEYED, "options": {**VECTORS, "bucket": "2"}},
    "keyed and computed": {
        **KEYED,
        "options": {
            "bucket": "2",
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "last_value",
        },
    },
}
Row = tuple[int, str, Any]


@pytest.fixture
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = connect(str(tmp_path_factory.mktemp("lake")))
    made.create_database("db")
    return made


def make(lake: Lake, kind: str, rows: Sequence[Row] = (), **options: str) -> Table:
    shape = dict(KINDS[kind])
    own = shape.pop("options", {})
    assert isinstance(own, dict)
    table = lake.create_table("db.t", SCHEMA, options={**own, **options}, **shape)  # type: ignore[arg-type]
    if rows:
        table.write(as_table(rows))
    return table


def as_table(rows: Sequence[Row]) -> pa.Table:
    ids, places, values = zip(*rows, strict=True)
    return pa.table({"id": ids, "p": places, "v": values}, schema=SCHEMA)


def rows_of(table: Table, **scan: object) -> list[Row]:
    found = table.scan(**scan).to_arrow().select(SCHEMA.names)  # type: ignore[arg-type]
    return sorted(zip(*found.to_pydict().values(), strict=True), key=lambda row: row[0])


def numbered(*ids: int) -> list[Row]:
    return [(one, "ab"[one % 2], one * 10) for one in ids]


def _kinds(wanted: Callable[[str], bool]) -> pytest.MarkDecorator:
    """Tables of several kinds, of which the usual tests ask two."""
    usual = ("marked", "keyed")
    return pytest.mark.parametrize(
        "kind",
        [
            pytest.param(kind, marks=() if kind in usual else pytest.mark.modes)
            for kind in KINDS
            if wanted(kind)
        ],
    )


every_kind = _kinds(lambda kind: True)
append_kinds = _kinds(lambda kind: not kind.startswith("keyed"))
marked_kinds = _kinds(lambda kind: kind.startswith("marked"))


def vectors_of(table: Table) -> dict[str, int | None]:
    """The deleted rows of each data file."""
    entries = index_entries(table.storage, table.latest_snapshot())
    found = [each for entry in entries for each in entry.index_file.vectors or ()]
    assert len({each.data_file for each in found}) == len(found)
    return {each.data_file: each.cardinality for each in found}


# Deleting ---------------------------------------------------------------------------------------


@every_kind
def test_deletions_add_up(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(20)))
    table.write(as_table(numbered(*range(20, 30))))
    table.create_tag("whole")
    assert table.delete("id < 5 OR v = 250") is not None
    assert table.delete("id BETWEEN 3 AND 6") is not None
    assert table.delete("id = 4") is None
    table.write(as_table(numbered(4, 40)))
    left = numbered(4, *(one for one in range(7, 30) if one != 25), 40)
    assert rows_of(table) == left
    assert rows_of(table, where="v > 260") == numbered(27, 28, 29, 40)
    assert table.scan().count() == len(left)
    assert rows_of(table, tag="whole") == numbered(*range(30))
    table.compact()
    assert rows_of(table) == left
    assert vectors_of(table) == {}


@marked_kinds
def test_marking_rows_writes_no_data_files(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(20)))
    before = {file.name for file in table.files()}
    snapshot = table.delete("id IN (3, 4, 8)")
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert snapshot.total_record_count == 20
    assert {file.name for file in table.files()} == before
    assert sum(count or 0 for count in vectors_of(table).values()) == 3
    # A file without any row left goes, and its vector with it.
    table.delete("id >= 0")
    assert rows_of(table) == []
    assert table.files() == []
    assert vectors_of(table) == {}


@append_kinds
def test_null_is_not_true(lake: Lake, kind: str) -> None:
    table = make(lake, kind, [(1, "a", None), (2, "b", 5)])
    table.delete("v != 7")
    assert rows_of(table) == [(1, "a", None)]


def test_vectors_of_a_table_without_the_option_stay_and_go_with_their_files(lake: Lake) -> None:
    table = make(lake, "marked", numbered(*range(20)), **{"deletion-vectors.modifiable": "true"})
    table.delete("id < 4")
    table = lake.table("db.t")
    table.alter(SetOption("deletion-vectors.enabled", "false"))
    table = lake.table("db.t")
    assert rows_of(table) == numbered(*range(4, 20))
    table.delete("id = 6")
    assert rows_of(table) == numbered(4, 5, *range(7, 20))
    assert sum(count or 0 for count in vectors_of(table).values()) == 2


# Several at once --------------------------------------------------------------------------------


def race(table: Table, where: str, before: Callable[[], object]) -> Racing:
    predicate = table._predicate(where, table.storage)
    assert predicate is not None
    racing = Racing(table.pointer, before)
    delete_from_table(table.storage, racing, LocalExecutor(), predicate)
    return racing


@every_kind
def test_deletions_at_once_are_both_done(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)))
    race(table, "id IN (1, 2, 3)", lambda: lake.table("db.t").delete("id IN (3, 4, 5)"))
    assert rows_of(table) == numbered(0, 6, 7, 8, 9)


@append_kinds
def test_rows_appended_meanwhile_are_neither_lost_nor_deleted(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)))
    late = lambda: lake.table("db.t").write(as_table([(1, "a", 1), (50, "b", 50)]))  # noqa: E731
    race(table, "id < 5", late)
    assert rows_of(table) == [(1, "a", 1), *numbered(5, 6, 7, 8, 9), (50, "b", 50)]


@every_kind
def test_a_compaction_meanwhile_brings_no_row_back(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)))
    table.write(as_table(numbered(*range(10, 20))))
    table.delete("id = 17")
    race(table, "id IN (1, 12)", lambda: lake.table("db.t").compact())
    left = numbered(*(one for one in range(20) if one not in (1, 12, 17)))
    assert rows_of(table) == left


@every_kind
def test_a_truncation_meanwhile_leaves_nothing(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)))
    race(table, "id IN (1, 2)", lambda: lake.table("db.t").truncate())
    assert rows_of(table) == []


@append_kinds
def test_what_always_conflicts_leaves_nothing_behind(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)), **{"commit.max-retries": "0"})
    with pytest.raises(Conflict):
        race(table, "id = 1", lambda: lake.table("db.t").delete("id < 5"))
    location = table.storage.layout.location
    named = {
        entry.index_file.file_name
        for entry in index_entries(table.storage, table.latest_snapshot())
    }
    there = {file.name for file in table.storage.files.walk(f"{location}/index")}
    assert there == named


@pytest.mark.modes
@pytest.mark.parametrize("kind", ["marked", "marked buckets", "rewritten"])
def test_an_update_killed_at_any_change_happened_or_did_not(lake: Lake, kind: str) -> None:
    before = numbered(*range(8))
    after = [(id, p, 5 if id < 4 else v) for id, p, v in numbered(*range(1, 8))]
    steps = 0
    while True:
        lake.drop_table("db.t", ignore_if_not_exists=True)
        table = make(lake, kind, before)
        # So that a former vector is merged, and the one of another file moved.
        table.delete("id = 0")
        mortal = replace(table.storage, files=MortalFiles(left=steps))
        predicate = table._predicate("id < 4", table.storage)
        killed = False
        try:
            update_table(mortal, table.pointer, LocalExecutor(), {"v": 5}, predicate)
        except Killed:
            killed = True
        table = lake.table("db.t")
        found = rows_of(table)
        assert found in (before[1:], after)
        if found != after:
            table.update({"v": 5}, where="id < 4")
        assert rows_of(table) == after
        table.remove_orphan_files(older_than=timedelta(0))
        assert rows_of(table) == after
        assert rows_of(table, snapshot_id=2) == before[1:]
        if not killed:
            break
        steps += 1
    assert steps >= 5


# Whatever else looks at the table ---------------------------------------------------------------


@marked_kinds
def test_expiry_tags_and_rollback_keep_what_they_need(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)))
    table.delete("id = 1")
    table.create_tag("one", snapshot_id=2)
    table.delete("id = 2")
    table.delete("id = 3")
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert rows_of(table) == numbered(0, *range(4, 10))
    assert rows_of(table, tag="one") == numbered(0, *range(2, 10))
    named = len(vectors_of(table))
    assert named
    table.delete("id = 4")
    table.rollback(snapshot_id=4)
    assert rows_of(table) == numbered(0, *range(4, 10))
    table.delete("id = 5")
    assert rows_of(table) == numbered(0, 4, *range(6, 10))


# Updating ---------------------------------------------------------------------------------------


@every_kind
def test_updates_change_the_rows_that_match(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(10)))
    snapshot = table.update({"v": pc.field("v") + pc.field("id")}, where="id < 3")
    assert snapshot is not None
    expected = [(id, p, v + id if id < 3 else v) for id, p, v in numbered(*range(10))]
    assert rows_of(table) == expected
    table.update({"v": pl.col("v") * 2 + 1}, where="id = 3 OR v = 11")
    table.update({"v": None}, where="id = 5")
    table.update({"v": 7}, where="id = 6")
    changed = {1: 23, 3: 61, 5: None, 6: 7}
    expected = [(id, p, changed.get(id, v)) for id, p, v in expected]
    assert rows_of(table) == expected
    assert table.update({"v": 1}, where="id = 99") is None
    table.compact()
    assert rows_of(table) == expected
    table.update({"v": 0})
    assert {v for _, _, v in rows_of(table)} == {0}
    assert table.scan().count() == 10


@append_kinds
def test_an_update_may_move_rows_and_swap_columns(lake: Lake, kind: str) -> None:
    table = make(lake, kind, [(1, "a", 10), (2, "b", 20), (3, "a", 30)])
    table.update({"p": "c", "id": pc.field("v"), "v": pc.field("id")}, where="id != 3")
    assert rows_of(table) == [(3, "a", 30), (10, "c", 1), (20, "c", 2)]
    assert rows_of(table, where="p = 'c' AND id = 20") == [(20, "c", 2)]


def test_streams_hear_of_a_primary_key_table_s_updates_alone(lake: Lake) -> None:
    for kind, expected in (("keyed", [(1, "b", 5)]), ("marked", []), ("rewritten", [])):
        table = make(lake, kind, numbered(1, 2))
        assert table.update({"v": 5}, where="id = 1") is not None
        changes = table.changes(1, skip_overwrites=True).to_arrow().select(SCHEMA.names)
        assert list(zip(*changes.to_pydict().values(), strict=True)) == expected
        lake.drop_table("db.t")


@every_kind
def test_updates_that_do_not_fit_change_nothing(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(1, 2, 3))
    before = table.storage.files.walk(table.storage.layout.location)
    there = {file.path for file in before}
    with pytest.raises(Invalid, match="'v'"):
        table.update({"v": "many"})
    with pytest.raises(Invalid, match="'v'"):
        table.update({"v": pc.field("nope")})
    with pytest.raises(Invalid, match="'v'"):
        table.update({"v": pl.col("nope")})
    with pytest.raises(Invalid, match="primary key" if kind.startswith("keyed") else "NOT NULL"):
        table.update({"p": None})
    with pytest.raises(NotFound, match="nope"):
        table.update({"nope": 1})
    with pytest.raises(Invalid, match="a column and its new value"):
        table.update({})
    after = table.storage.files.walk(table.storage.layout.location)
    assert {file.path for file in after} == there
    assert rows_of(table) == numbered(1, 2, 3)


@every_kind
def test_updates_at_once_lose_nothing(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(6)))
    other = lake.table("db.t")
    racing = Racing(table.pointer, lambda: other.update({"v": pc.field("v") + 1}, where="id < 4"))
    predicate = table._predicate("id > 1", table.storage)
    changes = {"v": pc.field("v") * 10}
    update_table(table.storage, racing, LocalExecutor(), changes, predicate)
    expected = [(id, p, v + 1 if id < 4 else v) for id, p, v in numbered(*range(6))]
    assert rows_of(table) == [(id, p, v * 10 if id > 1 else v) for id, p, v in expected]


# Merging ----------------------------------------------------------------------------------------


@every_kind
def test_a_merge_updates_what_matches_and_inserts_the_rest(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(*range(6)))
    source = as_table([(1, "b", 100), (4, "a", 400), (8, "a", 800)])
    snapshot = table.merge(source, on=["id", "p"])
    assert snapshot is not None
    expected = {row[0]: row for row in numbered(*range(6))}
    expected |= {1: (1, "b", 100), 4: (4, "a", 400), 8: (8, "a", 800)}
    assert rows_of(table) == sorted(expected.values())
    # Columns that the source lacks keep their values; here nothing may be inserted.
    table.merge({"id": [1, 50], "v": [7, 7]}, on=["id"], when_not_matched=None)
    expected[1] = (1, "b", 7)
    table.merge({"id": [2, 3, 60]}, on=["id"], when_matched="delete", when_not_matched=None)
    del expected[2], expected[3]
    table.merge(as_table([(4, "b", 0), (9, "b", 90)]), on=["id"], when_matched=None)
    expected[9] = (9, "b", 90)
    assert rows_of(table) == sorted(expected.values())
    assert table.merge(as_table([(70, "a", 0)]), on=["id"], when_not_matched=None) is None
    table.compact()
    assert rows_of(table) == sorted(expected.values())


@append_kinds
def test_a_source_row_may_match_many_but_a_row_only_one(lake: Lake, kind: str) -> None:
    table = make(lake, kind, [(1, "a", 1), (2, "a", 2), (3, "b", 3), (4, "b", None)])
    before = table.latest_snapshot()
    twice = pa.table({"p": ["a", "a"], "v": [5, 6]})
    for when_matched in ("update", "delete"):
        with pytest.raises(Invalid, match="several rows of the source match the row with p = 'a'"):
            table.merge(twice, on=["p"], when_matched=when_matched, when_not_matched=None)
    assert table.latest_snapshot() == before
    table.merge({"p": ["a", "c", "c"], "v": [5, 6, 6]}, on=["p"], when_not_matched=None)
    assert rows_of(table) == [(1, "a", 5), (2, "a", 5), (3, "b", 3), (4, "b", None)]
    # Null equals nothing.
    table.merge(as_table([(9, "z", None)]), on=["v"])
    assert rows_of(table)[-1] == (9, "z", None)


def test_keys_are_not_changed_by_a_merge(lake: Lake) -> None:
    table = make(lake, "keyed", numbered(1, 2))
    with pytest.raises(Invalid, match="the source changes column 'id'"):
        table.merge(as_table([(7, "a", 20)]), on=["v"], when_not_matched=None)
    table.merge(as_table([(2, "a", 20), (5, "a", 50)]), on=["v"])
    assert rows_of(table) == [*numbered(1, 2), (5, "a", 50)]


def test_new_values_follow_from_their_own_rows(lake: Lake) -> None:
    table = make(lake, "keyed", numbered(1, 2))
    v = pl.col("v")
    for value in (v.sum(), v - v.mean(), v + pl.len(), v.shift(1), pl.when(v > v.max()).then(v)):
        with pytest.raises(Invalid, match="it depends on other rows"):
            table.update({"v": value})
    table.update({"v": pl.when(v.is_in([10, 30])).then(v * 2).otherwise(pl.max_horizontal(v, 7))})
    assert rows_of(table) == [(1, "b", 20), (2, "a", 20)]


@pytest.mark.parametrize("count", [2, 1500])
def test_rows_are_matched_by_every_nanosecond_of_a_key(lake: Lake, count: int) -> None:
    schema = pa.schema(
        [pa.field("at", pa.timestamp("ns"), False), ("v", pa.int64()), ("w", pa.string())]
    )
    table = lake.create_table("db.t", schema, primary_keys=["at"], options={"bucket": "1"})
    moments = pa.array([1001 * number + 999 for number in range(count)], pa.timestamp("ns"))
    values = pa.array(range(count))
    table.write(pa.table({"at": moments, "v": values, "w": ["kept"] * count}))
    table.merge(pa.table({"at": moments, "v": pc.negate(values)}), on=["at"])
    assert table.scan(["v", "w"]).to_arrow().to_pydict() == {
        "v": [-number for number in range(count)],
        "w": ["kept"] * count,
    }
    table.merge(pa.table({"at": moments.slice(1)}), on=["at"], when_matched="delete")
    assert table.scan(["v"]).to_arrow()["v"].to_pylist() == [0]


def test_a_merge_into_an_empty_table_inserts(lake: Lake) -> None:
    table = make(lake, "marked")
    snapshot = table.merge(as_table(numbered(1, 2)), on=["id"])
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.APPEND
    assert rows_of(table) == numbered(1, 2)


@every_kind
def test_merges_at_once_insert_once(lake: Lake, kind: str) -> None:
    table = make(lake, kind, numbered(0))
    source = as_table(numbered(2, 4))
    racing = Racing(table.pointer, lambda: lake.table("db.t").merge(source, on=["id"]))
    merge_into_table(table.storage, racing, LocalExecutor(), source, ["id"], "update", True)
    assert rows_of(table) == numbered(0, 2, 4)


# Against a model --------------------------------------------------------------------------------

IDS = st.integers(0, 11)
STEPS = st.lists(
    st.tuples(st.just("write"), st.lists(IDS, unique=True, min_size=1))
    | st.tuples(st.just("delete"), st.lists(IDS, min_size=1))
    | st.tuples(st.just("update"), st.lists(IDS, min_size=1))
    | st.tuples(st.sampled_from(["merge", "remove"]), st.lists(IDS, unique=True, min_size=1))
    | st.tuples(st.just("compact"), st.just([])),
    max_size=8,
)


@pytest.mark.modes
@every_kind
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(STEPS)
def test_any_changes_are_those_of_a_model(
    lake: Lake, kind: str, steps: list[tuple[str, list[int]]]
) -> None:
    lake.drop_table("db.t", ignore_if_not_exists=True)
    table = make(lake, kind)
    model: list[Row] = []
    for number, (step, ids) in enumerate(steps):
        chosen = set(ids)
        where = f"id IN ({', '.join(map(str, ids))})"
        new: list[Row] = [(one, "ab"[one % 2], 1000 * number + one) for one in ids]
        matched = {row[0] for row in model} & chosen
        if step == "write":
            table.write(as_table(new))
            replaced = chosen if kind.startswith("keyed") else ()
            model = [*(row for row in model if row[0] not in replaced), *new]
        elif step == "delete":
            table.delete(where)
            model = [row for row in model if row[0] not in chosen]
        elif step == "update":
            table.update({"v": pc.field("v") + 7}, where=where)
            model = [(i, p, v + 7 if i in chosen and v is not None else v) for i, p, v in model]
        elif step == "compact":
            table.compact()
        elif step == "merge":
            table.merge(as_table(new), on=["id"])
            by_id = {row[0]: row for row in new}
            model = [by_id.get(row[0], row) for row in model]
            model += [row for row in new if row[0] not in matched]
        else:
            table.merge({"id": ids}, on=["id"], when_matched="delete", when_not_matched=None)
            model = [row for row in model if row[0] not in chosen]
        assert sorted(rows_of(table)) == sorted(model)
        assert table.scan().count() == len(model)
    assert set(vectors_of(table)) <= {file.name for file in table.files()}
