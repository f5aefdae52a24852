"""Primary-key tables whose compactions mark superseded rows by deletion vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.dying_files import Killed, MortalFiles
from tests.interrupted import Racing
from tests.option_names import option_names

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Conflict, Invalid
from headwater.storage.index.deletion_files import read_deletion_vectors
from headwater.storage.index.manifest import index_entries
from headwater.storage.jobs.compact import compact_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.read.split import read_split
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.schema.change import SetOption

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64()), ("t", pa.int64())])
ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "by sequence": {"sequence.field": "v"},
    "partial-update": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
    },
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": "true",
    },
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = connect(tmp_path)
    made.create_database("d")
    return made


def make(lake: Lake, **options: str) -> Table:
    named = option_names(options)
    # No run joins the newer ones for being small, so that each commit's rows have their own level.
    alone = {"compaction.size-ratio": "-99", "compaction.max-size-amplification-percent": "9999"}
    given = {"bucket": "1", "deletion-vectors.enabled": "true", **alone, **named}
    return lake.create_table("d.t", SCHEMA, primary_keys=["k"], options=given)


def write(table: Table, rows: Mapping[int, int | None], kind: str = "+I") -> None:
    data = {"k": list(rows), "v": pa.array(rows.values(), pa.int64())}
    table.write(data, pa.array([kind] * len(rows), pa.string()))


def rows_of(table: Table, where: str | None = None, tag: str | None = None) -> dict[int, int]:
    rows = table.scan(["k", "v"], where, tag=tag).to_arrow()
    found = dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows
    return found


def marked(table: Table) -> dict[int, list[int]]:
    """The positions of deleted rows, by the level of their file."""
    levels = {file.name: file.level for file in table.files()}
    found: dict[int, list[int]] = {}
    for entry in index_entries(table.storage, table.latest_snapshot()):
        own = read_deletion_vectors(table.storage, entry.partition, entry.bucket, entry.index_file)
        for name, vector in own.items():
            found[levels[name]] = vector.positions.tolist()
    return found


def levels(table: Table) -> list[int]:
    return sorted(file.level for file in table.files())


# Writing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bitmap64", ["false", "true"])
def test_newer_rows_mark_those_that_they_replace(lake: Lake, bitmap64: str) -> None:
    table = make(lake, deletion_vectors__bitmap64=bitmap64)
    write(table, dict.fromkeys(range(100), 0))
    write(table, {7: 1, 3: 1, 200: 1})
    assert (levels(table), marked(table)) == ([4, 5], {5: [3, 7]})
    table.create_tag("before")
    write(table, {3: 2})
    write(table, {7: 9, 8: 9, 999: 9}, "-D")
    assert marked(table) == {4: [0, 1], 5: [3, 7, 8]}
    expected = {**dict.fromkeys(range(100), 0), 3: 2, 200: 1}
    del expected[7], expected[8]
    assert rows_of(table) == expected
    assert rows_of(table, "v > 0") == {3: 2, 200: 1}
    assert rows_of(table, tag="before") == {**dict.fromkeys(range(100), 0), 3: 1, 7: 1, 200: 1}
    plan = table.scan().plan
    assert plan is not None
    assert not any(split.needs_merge for split in plan.splits)
    assert sum(split.row_count for split in plan.splits) == len(expected)
    table.compact()
    assert (levels(table), marked(table)) == ([5], {})
    assert rows_of(table) == expected


def test_a_file_goes_when_none_of_its_rows_is_left(lake: Lake) -> None:
    table = make(lake)
    write(table, dict.fromkeys(range(100), 0))
    write(table, {3: 1, 7: 1})
    write(table, {7: 2})
    assert levels(table) == [3, 4, 5]
    write(table, {3: 9}, "-D")
    # The deletion took the last row of level 4 away, and has none of its own.
    assert (levels(table), marked(table)) == ([3, 5], {5: [3, 7]})
    assert rows_of(table) == {**{k: 0 for k in range(100) if k not in (3, 7)}, 7: 2}


@pytest.mark.modes
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_merges_what_it_looks_up(lake: Lake, engine: str, producer: str) -> None:
    table = make(lake, **{**ENGINES[engine], "changelog-producer": producer})
    write(table, {1: 5, 2: 5, 3: 5, **dict.fromkeys(range(10, 60), 0)})
    write(table, {1: 3, 2: None})
    write(table, {3: 5}, "-D")
    write(table, {3: 1, 4: 4})
    assert len(levels(table)) > 2
    one = {"aggregation": 8, "by sequence": 5}.get(engine, 3)
    two = {"deduplicate": None}.get(engine, 5)
    expected = {1: one, 2: two, 3: 1, 4: 4, **dict.fromkeys(range(10, 60), 0)}
    assert rows_of(table) == expected
    table.compact()
    assert rows_of(table) == expected
    if producer == "lookup":
        replayed: dict[int, int] = {}
        for row in table.changes(0).to_arrow().to_pylist():
            if row["_ROW_KIND"] in ("-U", "-D"):
                assert replayed.pop(row["k"]) == row["v"]
            else:
                assert row["k"] not in replayed
                replayed[row["k"]] = row["v"]
        assert replayed == expected


@pytest.mark.parametrize(
    "options",
    [{"changelog_producer": "full-compaction"}, {"merge_engine": "first-row"}],
    ids=["full-compaction", "first-row"],
)
def test_what_paimon_does_not_combine_is_refused(lake: Lake, options: dict[str, str]) -> None:
    with pytest.raises(Invalid, match="deletion vectors"):
        make(lake, **options)


def test_rows_are_shown_when_they_have_been_compacted(lake: Lake) -> None:
    table = make(lake, write_only="true")
    write(table, {1: 1, 2: 2})
    assert rows_of(table) == {}
    merging = table.with_options({"deletion-vectors.merge-on-read": "true"})
    assert rows_of(merging) == {1: 1, 2: 2}
    table.compact(full=False)
    write(table, {2: 3, 4: 4})
    assert (rows_of(table), rows_of(merging)) == ({1: 1, 2: 2}, {1: 1, 2: 3, 4: 4})
    # What changes rows changes those that are not shown yet, too.
    table.delete("v = 4")
    table.update({"v": 30}, where="v = 3")
    table.compact(full=False)
    assert rows_of(table) == rows_of(merging) == {1: 1, 2: 30}


def test_a_repeated_change_makes_up_for_the_compaction_that_was_lost(lake: Lake) -> None:
    table = make(lake)
    write(table, {1: 1, 2: 2, 3: 3})
    # As if the process had died when the change was committed.
    dying = table.with_options({"write-only": "true"})
    dying.delete("v = 1")
    dying.update({"v": 9}, where="v = 2")
    assert sorted(table.scan(["v"]).to_arrow()["v"].to_pylist()) == [1, 2, 3]
    assert table.delete("v = 1") is None
    assert sorted(table.scan(["v"]).to_arrow()["v"].to_pylist()) == [3, 9]
    dying.update({"v": 8}, where="v = 3")
    assert dying.update({"v": 8}, where="v = 3") is None
    assert sorted(table.scan(["v"]).to_arrow()["v"].to_pylist()) == [3, 9]
    assert table.update({"v": 8}, where="v = 3") is None
    assert sorted(table.scan(["v"]).to_arrow()["v"].to_pylist()) == [8, 9]


def test_gentle_lookups_wait_for_several_commits(lake: Lake) -> None:
    table = make(lake, lookup_compact="gentle", lookup_compact__max_interval="5")
    for number in range(4):
        write(table, {number: number, 100: number})
    assert (rows_of(table), levels(table)) == ({}, [0, 0, 0, 0])
    write(table, {4: 4})
    assert rows_of(table) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 100: 3}


def test_an_expired_row_that_was_replaced_stays_away(lake: Lake, tmp_path: Path) -> None:
    now = [1_700_000_000]
    runtime = replace(
        SYSTEM_RUNTIME, now_millis=lambda: now[0] * 1000, monotonic=lambda: float(now[0])
    )
    options = {"record-level.expire-time": "10 s", "record-level.time-field": "t"}
    with connect(tmp_path / "other", runtime=runtime) as other:
        other.create_database("d")
        for engine in (
            {},
            {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        ):
            other.drop_table("d.t", ignore_if_not_exists=True)
            table = make(other, **options, **engine)
            table.write({"k": list(range(50)), "v": [1] * 50, "t": [now[0]] * 50})
            now[0] += 11
            table.write({"k": [1, 2], "v": [5, 5], "t": [now[0], now[0]]})
            assert levels(table) == [4, 5]
            # The rows of level 5 are read until they are compacted; they are not merged.
            assert rows_of(table) == {**dict.fromkeys(range(50), 1), 1: 5, 2: 5}
            table.compact()
            assert rows_of(table) == {1: 5, 2: 5}


# A table that gets vectors, and one that loses them ---------------------------------------------


def test_rows_on_several_levels_are_merged_until_vectors_mark_them(lake: Lake) -> None:
    options = {"deletion_vectors__modifiable": "true", "num_sorted_run__compaction_trigger": "2"}
    table = make(lake, deletion_vectors__enabled="false", **options)
    write(table, dict.fromkeys(range(100), 0))
    table.compact()
    write(table, {1: 1, 2: 1})
    write(table, {3: 9}, "-D")
    expected = {**dict.fromkeys(range(100), 0), 1: 1, 2: 1}
    del expected[3]
    assert levels(table) == [1, 2]
    table.alter(SetOption("deletion-vectors.enabled", "true"))
    table = lake.table("d.t")
    assert rows_of(table) == expected
    write(table, {50: 5})
    assert rows_of(table) == {**expected, 50: 5}
    write(table, {51: 5})
    assert (levels(table), marked(table)) == ([1, 2], {2: [50]})
    # Without the option they are heeded still, and what is not marked is merged.
    table.alter(SetOption("deletion-vectors.enabled", "false"))
    table = lake.table("d.t").with_options({"write-only": "true"})
    write(table, {51: 6, 52: 6})
    assert rows_of(table) == {**expected, 50: 5, 51: 6, 52: 6}


@pytest.mark.parametrize("present", ["true", "false"])
def test_no_handle_has_another_mode_than_its_table(lake: Lake, present: str) -> None:
    table = make(lake, deletion_vectors__enabled=present)
    write(table, {1: 1})
    with pytest.raises(Invalid, match="cannot be laid over"):
        table.with_options({"deletion-vectors.enabled": "false" if present == "true" else "true"})
    assert rows_of(table.with_options({"deletion-vectors.enabled": present})) == {1: 1}


# Several at once --------------------------------------------------------------------------------


def layered(lake: Lake, **options: str) -> tuple[Table, dict[int, int]]:
    """Rows on levels 4 and 5, and newer ones on level 0."""
    table = make(lake, **options)
    write(table, dict.fromkeys(range(100), 0))
    write(table, {1: 1, 2: 1})
    write(table.with_options({"write-only": "true"}), {2: 2, 3: 2})
    assert levels(table) == [0, 4, 5]
    return table, {**dict.fromkeys(range(100), 0), 1: 1, 2: 2, 3: 2}


def race(table: Table, meanwhile: Callable[[], object], *, full: bool = False) -> int:
    racing = Racing(table.pointer, meanwhile)
    compact_table(table.storage, racing, LocalExecutor(), full=full)
    return racing.offered


@pytest.mark.parametrize("full", [False, True])
def test_rows_committed_during_a_compaction_are_kept(lake: Lake, full: bool) -> None:
    table, expected = layered(lake)
    late = lake.table("d.t").with_options({"write-only": "true"})
    race(table, lambda: write(late, {1: 7, 2: 7, 500: 7}), full=full)
    assert rows_of(table) == expected
    table.compact(full=False)
    assert rows_of(table) == {**expected, 1: 7, 2: 7, 500: 7}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("other", [False, True])
def test_of_two_compactions_one_looks_again(lake: Lake, full: bool, other: bool) -> None:
    table, expected = layered(lake)
    race(table, lambda: lake.table("d.t").compact(full=other), full=full)
    assert rows_of(table) == expected
    table.compact()
    assert rows_of(table) == expected
    assert marked(table) == {}


def test_a_compaction_of_higher_levels_keeps_the_marks_that_come_meanwhile(lake: Lake) -> None:
    table, expected = layered(lake)
    table.compact(full=False)
    late = lake.table("d.t")
    # The full compaction has read rows that the write marks.
    race(table, lambda: write(late, {4: 4, 5: 9}), full=True)
    assert rows_of(table) == {**expected, 4: 4, 5: 9}
    write(late, {4: 9}, "-D")
    table.compact()
    del expected[4]
    assert rows_of(table) == {**expected, 5: 9}


def test_a_compaction_that_gives_up_leaves_nothing(lake: Lake) -> None:
    table, expected = layered(lake)
    before = {file.path for file in table.storage.files.walk(table.storage.layout.location)}

    racing = Racing(table.pointer, None)

    def refuse() -> None:
        racing.before = refuse
        raise Conflict("another was first")

    racing.before = refuse
    with pytest.raises(Conflict):
        compact_table(table.storage, racing, LocalExecutor(), full=False)
    assert racing.offered > 1
    after = {file.path for file in table.storage.files.walk(table.storage.layout.location)}
    assert after == before
    table.compact()
    assert rows_of(table) == expected


@pytest.mark.modes
@pytest.mark.parametrize("full", [False, True])
def test_a_compaction_killed_at_any_change_happened_or_did_not(lake: Lake, full: bool) -> None:
    steps = 0
    while True:
        lake.drop_table("d.t", ignore_if_not_exists=True)
        table, expected = layered(lake)
        shown = {**expected, 2: 1, 3: 0}
        mortal = replace(table.storage, files=MortalFiles(left=steps))
        killed = False
        try:
            compact_table(mortal, table.pointer, LocalExecutor(), full=full)
        except Killed:
            killed = True
        found = rows_of(table)
        assert found in (shown, expected)
        assert found == expected or killed
        write(table, {7: 7})
        table.compact(full=full)
        assert rows_of(table) == {**expected, 7: 7}
        table.remove_orphan_files(older_than=timedelta(0))
        assert rows_of(table) == {**expected, 7: 7}
        assert table.scan().count() == len(expected)
        if not killed:
            break
        steps += 1
    assert steps >= 4


# Whatever else looks at the table ---------------------------------------------------------------


def test_expiry_and_orphan_removal_keep_the_vectors_that_are_needed(lake: Lake) -> None:
    table, expected = layered(lake)
    table.create_tag("before")
    for number in range(3):
        write(table, {number: 50})
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.remove_orphan_files(older_than=timedelta(0))
    assert rows_of(table) == {**expected, 0: 50, 1: 50, 2: 50}
    assert rows_of(table, tag="before") == {**expected, 2: 1, 3: 0}
    table.delete_tag("before")
    location = table.storage.layout.location
    named = {
        entry.index_file.file_name
        for entry in index_entries(table.storage, table.latest_snapshot())
    }
    there = {file.name for file in table.storage.files.walk(f"{location}/index")}
    assert there == named


def test_overwrites_and_dropped_partitions_take_their_vectors_along(lake: Lake) -> None:
    schema = pa.schema([pa.field("p", pa.string(), False), *SCHEMA])
    table = lake.create_table(
        "d.p", schema, primary_keys=["p", "k"], partition_keys=["p"],
        # Of so few rows all files are about as large.
        options={
            "bucket": "1", "deletion-vectors.enabled": "true", "compaction.size-ratio": "-99",
        },
    )  # fmt: skip
    for size in (30, 3):
        for place in "ab":
            table.write({"p": [place] * size, "k": list(range(size)), "v": [size] * size})
    assert len(index_entries(table.storage, table.latest_snapshot())) == 2
    table.drop_partitions({"p": "a"})
    assert len(index_entries(table.storage, table.latest_snapshot())) == 1
    assert table.scan().count() == 30
    table.alter(SetOption("bucket", "3"))
    table.overwrite({"k": list(range(9)) * 2, "v": [1] * 18}, {"p": "b"})
    assert not index_entries(table.storage, table.latest_snapshot())
    assert table.scan().count() == 9
    table.write({"p": ["b"] * 9, "k": list(range(9)), "v": [2] * 9})
    assert set(table.scan().to_arrow()["v"].to_pylist()) == {2}
    table.truncate()
    assert not index_entries(table.storage, table.latest_snapshot())


def test_streams_and_system_tables_see_what_there_is(lake: Lake) -> None:
    table, _ = layered(lake)
    changes = table.changes(0).to_arrow()
    assert sorted(zip(changes["k"].to_pylist(), changes["v"].to_pylist(), strict=True)) == sorted(
        [*((k, 0) for k in range(100)), (1, 1), (2, 1), (2, 2), (3, 2)]
    )
    indexes = lake.system_table("d.t$table_indexes").to_arrow().to_pylist()
    assert [(row["index_type"], row["row_count"]) for row in indexes] == [("DELETION_VECTORS", 1)]
    optimized = lake.system_table("d.t$ro").to_arrow()
    # Of the highest level alone, without the rows that a lower one replaces.
    assert sorted(optimized["k"].to_pylist()) == [0, *range(3, 100)]
    whole = [
        row
        for split in plan_snapshot(
            table.storage, table.pointer.latest() or table.snapshot(1), with_level_zero=True
        ).splits
        for batch in read_split(table.storage, split, columns=["k"])
        for row in batch.column("k").to_pylist()
    ]
    assert sorted(whole) == list(range(100))
