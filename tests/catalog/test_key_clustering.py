"""Primary-key tables whose files are sorted by other columns than the key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.interrupted import Racing
from tests.modes import essential
from tests.option_names import option_names

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.index.deletion_files import read_deletion_vectors
from headwater.storage.index.manifest import index_entries
from headwater.storage.jobs.compact import compact_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.manifest.data_file import FileSource
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.schema.change import RenameColumn, SetOption, UpdateColumnType
from headwater.storage.types.data_type import parse_type
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.table_writer import CommitMessage

SCHEMA = pa.schema([pa.field("k", pa.string(), False), ("v", pa.int64()), ("c", pa.int32())])
ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {"deletion-vectors.enabled": "true"},
    "first-row": {"merge-engine": "first-row"},
    "first-row, marked": {"merge-engine": "first-row", "deletion-vectors.enabled": "true"},
}
ALONE = {"compaction.size-ratio": "-99", "num-sorted-run.compaction-trigger": "99"}
"""Options with which files above level 0 stay as they are."""
Rows = dict[int, tuple[int, int]]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = connect(tmp_path)
    made.create_database("d")
    return made


def make(lake: Lake, engine: str = "deduplicate", **options: str) -> Table:
    given = {
        "bucket": "1",
        "pk-clustering-override": "true",
        "clustering.columns": "c",
        **ENGINES[engine],
        **option_names(options),
    }
    return lake.create_table("d.t", SCHEMA, primary_keys=["k"], options=given)


def write(table: Table, rows: Mapping[int, tuple[int, int]], kind: str = "+I") -> None:
    """Rows by the number in their key: a value, and that of the column to sort by."""
    data = {
        "k": [f"key {number}" for number in rows],
        "v": [v for v, _ in rows.values()],
        "c": pa.array([c for _, c in rows.values()], pa.int32()),
    }
    table.write(data, pa.array([kind] * len(rows), pa.string()))


def rows_of(table: Table, where: str | None = None, tag: str | None = None) -> Rows:
    rows = table.scan(["k", "v", "c"], where, tag=tag).to_arrow().to_pylist()
    found = {int(row["k"].removeprefix("key ")): (row["v"], row["c"]) for row in rows}
    assert len(found) == len(rows)
    return found


def marked(table: Table) -> int:
    found = 0
    for entry in index_entries(table.storage, table.latest_snapshot()):
        own = read_deletion_vectors(table.storage, entry.partition, entry.bucket, entry.index_file)
        assert own.keys() <= {file.name for file in table.files()}
        found += sum(len(vector) for vector in own.values())
    return found


def levels(table: Table) -> list[int]:
    return sorted(file.level for file in table.files())


def stored(table: Table, column: str) -> list[list[object]]:
    """A column of each file above level 0, as it stands there."""
    return [
        pq.read_table(local_path(file["file_path"]))[column].to_pylist()
        for file in table.inspect.files().to_pylist()
        if file["level"]
    ]


def spread(numbers: range, version: int) -> Rows:
    """Rows whose order by `c` is not that of their keys."""
    return {number: (version, number * 37 % 101) for number in numbers}


# Files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_files_are_sorted_by_the_clustering_columns(lake: Lake, engine: str) -> None:
    table = make(lake, engine, clustering__columns="c, v")
    write(table, spread(range(200), 0))
    assert stored(table, "c") == [sorted(c for _, c in spread(range(200), 0).values())]
    (described,) = table.inspect.files().to_pylist()
    assert (described["min_key"], described["max_key"]) == ("[0, 0]", "[100, 0]")


@pytest.mark.parametrize("engine", ENGINES)
def test_keys_are_looked_up_in_files_of_another_order(lake: Lake, engine: str) -> None:
    table = make(lake, engine)
    first = engine != "deduplicate"
    expected = spread(range(300), 0)
    write(table, expected)
    for version in range(1, 5):
        new = spread(range(50 * version, 50 * version + 120, version), version)
        write(table, new)
        expected = {**new, **expected} if first else {**expected, **new}
        assert rows_of(table) == expected
        assert rows_of(table, "c = 37") == {k: row for k, row in expected.items() if row[1] == 37}
    assert 0 not in levels(table)
    assert table.scan().count() == len(expected)
    # Whatever lies where, files tell of keys what is true.
    assert rows_of(table, "k = 'key 7'") == {7: expected[7]}
    assert rows_of(table, "k > 'key 98'") == {k: expected[k] for k in (99,)}
    table.compact()
    assert (rows_of(table), marked(table), levels(table)) == (expected, 0, [1])
    assert table.compact() is None


@pytest.mark.modes
@pytest.mark.parametrize("engine", ENGINES)
def test_many_keys_are_looked_up_at_once(lake: Lake, engine: str) -> None:
    table = make(lake, engine, **ALONE)
    count = 70_000
    for version in range(2):
        numbers = range(version * count // 2, version * count // 2 + count)
        data = {
            "k": [f"key {number}" for number in numbers],
            "v": [version] * count,
            "c": pa.array([number * 37 % 101 for number in numbers], pa.int32()),
        }
        table.write(data)
    rows = table.scan(["k", "v"]).to_arrow()
    assert rows.num_rows == len(set(rows["k"].to_pylist())) == count * 3 // 2
    assert sum(rows["v"].to_pylist()) == (count if engine == "deduplicate" else count // 2)
    assert marked(table) == (count // 2 if engine == "deduplicate" else 0)


def test_keys_that_no_statistics_tell_of_are_looked_up(lake: Lake) -> None:
    schema = pa.schema([pa.field("k", pa.float64(), False), ("v", pa.int64()), ("c", pa.int32())])
    options = {
        "bucket": "1",
        "pk-clustering-override": "true",
        "clustering.columns": "c",
        "deletion-vectors.enabled": "true",
        **ALONE,
    }
    table = lake.create_table("d.t", schema, primary_keys=["k"], options=options)
    keys = [float("nan"), -0.0, 0.0, 1.5, float("inf")]
    for version in range(3):
        places = pa.array(range(version, version + 5), pa.int32())
        table.write({"k": keys, "v": [version] * 5, "c": places})
        rows = table.scan().to_arrow()
        assert sorted(map(str, rows["k"].to_pylist())) == ["-0.0", "0.0", "1.5", "inf", "nan"]
        assert set(rows["v"].to_pylist()) == {version}


def test_rows_that_are_replaced_are_marked(lake: Lake) -> None:
    table = make(lake, **ALONE)
    write(table, spread(range(100), 0))
    write(table, {3: (1, 50), 7: (1, 0), 500: (1, 1)})
    assert (marked(table), levels(table)) == (2, [1, 1])
    table.create_tag("before")
    write(table, {3: (0, 0), 8: (0, 0), 999: (0, 0)}, "-D")
    assert marked(table) == 4
    expected = {**spread(range(100), 0), 7: (1, 0), 500: (1, 1)}
    del expected[3], expected[8]
    assert rows_of(table) == expected
    assert rows_of(table, tag="before")[3] == (1, 50)
    plan = table.scan().plan
    assert plan is not None
    assert not any(split.needs_merge for split in plan.splits)
    # A file goes when none of its rows is left.
    write(table, {7: (2, 2), 500: (2, 2)})
    assert (levels(table), rows_of(table)) == ([1, 1], {**expected, 7: (2, 2), 500: (2, 2)})


def test_conditions_on_clustering_columns_leave_files_out(lake: Lake) -> None:
    table = make(lake, **ALONE)
    for start in (0, 100, 200):
        write(table, {start + at: (at, start + at) for at in range(10)})
    write(table, {5: (9, 205)})
    plan = table.scan(where="c BETWEEN 103 AND 105").plan
    assert plan is not None
    assert plan.files_skipped == 3
    assert rows_of(table, "c BETWEEN 103 AND 105") == {k: (k - 100, k) for k in (103, 104, 105)}
    assert rows_of(table, "c = 5") == {}
    assert rows_of(table, "c = 205") == {205: (5, 205), 5: (9, 205)}


def test_few_rows_leave_large_files_alone(lake: Lake) -> None:
    # Any file is large, and none overlaps another: they are one run of four.
    table = make(lake, target_file_size="1 b", num_sorted_run__compaction_trigger="4")
    for start in range(0, 4000, 1000):
        write(table, {start + at: (0, start + at) for at in range(1000)})
    large = {file.name for file in table.files()}
    for number in range(5):
        write(table, {number * 900: (1, number * 900)})
        assert large <= {file.name for file in table.files()}
    expected = {k: (0, k) for k in range(4000)} | {k * 900: (1, k * 900) for k in range(5)}
    assert rows_of(table) == expected
    table.compact()
    assert not large & {file.name for file in table.files()}
    assert (rows_of(table), marked(table)) == (expected, 0)
    assert table.compact() is None


def test_what_is_sorted_is_not_sorted_again(lake: Lake) -> None:
    # The last file of a bucket may be small.
    table = make(lake, target_file_size="20 kb", compaction__small_file_ratio="0.5")
    noise = np.random.default_rng(0).integers(0, 1 << 60, 34_000)
    write(table, {number: (int(v), number * 37 % 1009) for number, v in enumerate(noise)})
    table.compact()
    sizes = sorted(file.file_size for file in table.files())
    assert len(sizes) > 3
    assert sizes[0] < 10 * 1024 < sizes[1], sizes
    assert table.compact() is None
    write(table, {5: (0, 5)})
    assert table.compact() is not None
    assert table.compact() is None


def test_small_files_are_joined(lake: Lake) -> None:
    table = make(lake)
    for number in range(20):
        write(table, {number: (0, number)})
        assert len(table.files()) < 6
    assert rows_of(table) == {number: (0, number) for number in range(20)}


@pytest.mark.modes
@pytest.mark.parametrize("engine", ENGINES)
def test_more_rows_than_are_held_are_sorted(lake: Lake, engine: str) -> None:
    table = make(lake, engine, write_buffer_size="1 mb", target_file_size="40 kb", **ALONE)
    long = "x" * 300
    schema = {"k": pa.string(), "v": pa.int64(), "c": pa.int32()}
    rows: dict[str, tuple[int, int]] = {}
    for version in range(2):
        keys = [f"{long} {number}" for number in range(version * 3000, version * 3000 + 6000)]
        places = [at * 37 % 1009 for at in range(6000)]
        data = {"k": keys, "v": [version] * 6000, "c": places}
        new = {k: (version, c) for k, c in zip(keys, places, strict=True)}
        rows = {**rows, **new} if engine == "deduplicate" else {**new, **rows}
        table.write(pa.table(data, schema=pa.schema(schema.items())))

    def check() -> None:
        found = table.scan().to_arrow().to_pylist()
        assert len(found) == len(rows)
        assert {row["k"]: (row["v"], row["c"]) for row in found} == rows

    check()
    table.compact()
    check()
    ends = sorted(
        (int(row["min_key"].strip("[]")), int(row["max_key"].strip("[]")))
        for row in table.inspect.files().to_pylist()
    )
    assert len(ends) > 2
    assert all(one[1] <= other[0] for one, other in pairwise(ends))


# Level 0 ----------------------------------------------------------------------------------------


def test_rows_are_shown_when_they_have_been_compacted(lake: Lake) -> None:
    table = make(lake)
    write(table, spread(range(50), 0))
    waits = table.with_options({"write-only": "true"})
    write(waits, {3: (1, 1), 70: (1, 1)})
    write(waits, {4: (0, 0)}, "-D")
    old, new = spread(range(50), 0), {**spread(range(50), 0), 3: (1, 1), 70: (1, 1)}
    del new[4]
    merging = table.with_options({"deletion-vectors.merge-on-read": "true"})
    assert (rows_of(table), rows_of(merging)) == (old, new)
    assert rows_of(merging, "c = 1") == {k: row for k, row in new.items() if row[1] == 1}
    # What changes rows changes those that are not shown yet, too.
    waits.update({"c": 5}, where="v = 1")
    waits.delete("k = 'key 9'")
    del new[9]
    new |= {3: (1, 5), 70: (1, 5)}
    assert (rows_of(table), rows_of(merging)) == (old, new)
    table.compact(full=False)
    assert rows_of(table) == rows_of(merging) == new


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_are_changed_where_they_are(lake: Lake, engine: str) -> None:
    table = make(lake, engine)
    expected = spread(range(150), 0)
    write(table, expected)
    write(table, spread(range(140, 160), 1))
    expected |= spread(range(150, 160), 1)
    if engine == "deduplicate":
        expected |= spread(range(140, 150), 1)
    table.delete("c < 20")
    expected = {k: row for k, row in expected.items() if row[1] >= 20}
    table.update({"c": 21}, where="c > 90")
    expected = {k: (v, 21 if c > 90 else c) for k, (v, c) in expected.items()}
    assert (rows_of(table), rows_of(table, "c > 90")) == (expected, {})
    new = {"k": ["key 1", "key 500"], "v": [9, 9], "c": pa.array([99, 98], pa.int32())}
    table.merge(new, on=["k"])
    expected[500] = (9, 98)
    expected[1] = (9, 99)
    assert rows_of(table) == expected
    for order in stored(table, "c"):
        assert order == sorted(order)  # type: ignore[type-var]


def test_retracting_rows_of_other_writers_are_left_out(lake: Lake) -> None:
    table = make(lake, **ALONE)
    write(table, spread(range(10), 0))
    # Paimon's Java library sorts rows that retract in among the others.
    writer = DataFileWriter(table.storage, EMPTY_ROW, 0, level=1, source=FileSource.COMPACT)
    kinds = pa.array([3, 0, 3], pa.int8())
    rows = {"k": ["key 20", "key 21", "key 22"], "v": [1, 1, 1], "c": [1, 2, 3]}
    typed = pa.table(rows).cast(SCHEMA)
    typed = typed.append_column("_SEQUENCE_NUMBER", pa.array([50, 51, 52]))
    writer.write(typed.append_column("_VALUE_KIND", kinds))
    message = CommitMessage(EMPTY_ROW, 0, 1, compact_after=tuple(writer.finish()))
    TableCommit(table.storage, table.pointer, "another").commit([message])
    expected = {**spread(range(10), 0), 21: (1, 2)}
    assert rows_of(table) == expected
    assert table.scan().count() == len(expected)
    assert rows_of(table, "c < 4") == {k: row for k, row in expected.items() if row[1] < 4}
    write(table, {20: (2, 2), 21: (2, 2)})
    assert rows_of(table) == {**expected, 20: (2, 2), 21: (2, 2)}
    table.compact()
    assert rows_of(table) == {**expected, 20: (2, 2), 21: (2, 2)}
    assert sum(file.row_count for file in table.files()) == 12


# Changes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("producer", ["none", "input"])
def test_changes_and_differences_are_told(lake: Lake, producer: str) -> None:
    table = make(lake, changelog_producer=producer)
    write(table, spread(range(60), 0))
    start = table.latest_snapshot()
    assert start is not None
    write(table, {5: (1, 1), 100: (1, 2)})
    write(table, {6: (0, 0)}, "-D")
    told = [(row["k"], row["_ROW_KIND"]) for row in table.changes(start.id).to_arrow().to_pylist()]
    assert sorted(told) == [("key 100", "+I"), ("key 5", "+I"), ("key 6", "-D")]
    table.compact()
    differs = table.changes(start.id, mode="diff").to_arrow().to_pylist()
    assert sorted((row["k"], row["v"], row["_ROW_KIND"]) for row in differs) == [
        ("key 100", 1, "+I"),
        ("key 5", 1, "+I"),
        ("key 6", 0, "-D"),
    ]


def test_the_difference_of_first_rows_is_of_new_keys(lake: Lake) -> None:
    table = make(lake, "first-row")
    write(table, spread(range(60), 0))
    start = table.latest_snapshot()
    assert start is not None
    write(table, spread(range(50, 70), 1))
    table.compact()
    differs = table.changes(start.id, mode="diff").to_arrow()
    assert sorted(differs["k"].to_pylist()) == [f"key {number}" for number in range(60, 70)]


# Several at once --------------------------------------------------------------------------------


def race(table: Table, meanwhile: Callable[[], object], *, full: bool) -> None:
    compact_table(table.storage, Racing(table.pointer, meanwhile), LocalExecutor(), full=full)


def layered(lake: Lake, engine: str) -> tuple[Table, Rows]:
    """Rows in two files of level 1, and newer ones on level 0."""
    table = make(lake, engine, **ALONE)
    write(table, spread(range(100), 0))
    write(table, spread(range(95, 110), 1))
    write(table.with_options({"write-only": "true"}), spread(range(105, 120), 2))
    assert levels(table) == [0, 1, 1]
    old = spread(range(100), 0)
    if engine == "deduplicate":
        return table, old | spread(range(95, 110), 1) | spread(range(105, 120), 2)
    return table, spread(range(105, 120), 2) | spread(range(95, 110), 1) | old


@pytest.mark.parametrize("full", essential([False, True], {False}))
@pytest.mark.parametrize("engine", ENGINES)
def test_of_compactions_and_writes_at_once_none_is_lost(
    lake: Lake, engine: str, full: bool
) -> None:
    table, expected = layered(lake, engine)
    other = lake.table("d.t")
    race(table, lambda: other.compact(full=not full), full=full)
    assert rows_of(table) == expected
    write(table.with_options({"write-only": "true"}), spread(range(200, 210), 4))
    expected |= spread(range(200, 210), 4)
    new = spread(range(90, 130), 3)
    race(table, lambda: write(other, new), full=True)
    expected = {**expected, **new} if engine == "deduplicate" else {**new, **expected}
    assert rows_of(table) == expected
    table.compact()
    assert (rows_of(table), marked(table)) == (expected, 0)
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.remove_orphan_files(older_than=timedelta(0))
    assert rows_of(table) == expected


# Schemas ----------------------------------------------------------------------------------------


def test_clustering_columns_get_other_names_and_types(lake: Lake) -> None:
    table = make(lake, **ALONE)
    write(table, spread(range(100), 0))
    table.alter(RenameColumn(("c",), "place"))
    table = lake.table("d.t")
    assert table.schema.options["clustering.columns"] == "place"
    table.write({"k": ["key 3"], "v": [1], "place": pa.array([200], pa.int32())})
    table.alter(UpdateColumnType(("place",), parse_type("STRING")))
    table = lake.table("d.t")
    table.write({"k": ["key 4"], "v": [1], "place": ["2"]})
    found = {row["k"]: row["place"] for row in table.scan().to_arrow().to_pylist()}
    expected = {f"key {k}": str(c) for k, (_, c) in spread(range(100), 0).items()}
    expected |= {"key 3": "200", "key 4": "2"}
    assert found == expected
    assert len(table.inspect.files()) == 3
    table.compact()
    assert stored(table, "place") == [sorted(expected.values())]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"clustering__columns": ""}, "needs 'clustering.columns'"),
        ({"clustering__columns": "nothing"}, "column 'nothing' does not exist"),
        ({"deletion_vectors__enabled": "false"}, "needs 'deletion-vectors.enabled'"),
        ({"merge_engine": "aggregation"}, "deduplicate or first-row, not aggregation"),
        ({"merge_engine": "partial-update"}, "deduplicate or first-row, not partial-update"),
        ({"sequence__field": "v"}, "excludes 'sequence.field'"),
        ({"changelog_producer": "lookup"}, "none or input, not lookup"),
        (
            {"record_level__expire_time": "1 d", "record_level__time_field": "c"},
            "excludes 'record-level.expire-time'",
        ),
    ],
)
def test_what_paimon_does_not_combine_is_refused(
    lake: Lake, options: dict[str, str], says: str
) -> None:
    with pytest.raises(Invalid, match=says):
        make(lake, **options)


def test_how_files_are_sorted_stays(lake: Lake) -> None:
    table = make(lake)
    write(table, spread(range(10), 0))
    for key, value in (("clustering.columns", "v"), ("pk-clustering-override", "false")):
        with pytest.raises(Invalid, match="cannot be changed"):
            table.alter(SetOption(key, value))
        with pytest.raises(Invalid, match="cannot be laid over"):
            table.with_options({key: value})
    plain = lake.create_table("d.plain", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    with pytest.raises(Invalid, match="cannot be laid over"):
        plain.with_options({"pk-clustering-override": "true", "clustering.columns": "c"})


def test_columns_without_an_order_are_read_but_not_sorted_by(lake: Lake) -> None:
    schema = SCHEMA.append(pa.field("l", pa.list_(pa.int32())))
    options = {
        "bucket": "1",
        "pk-clustering-override": "true",
        "clustering.columns": "l",
        "deletion-vectors.enabled": "true",
    }
    # Rows would wait on level 0, where nobody sees them, for a compaction that fails each time.
    with pytest.raises(Unsupported, match="no order by column 'l' of type ARRAY<INT>"):
        lake.create_table("d.t", schema, primary_keys=["k"], options=options)
    options["write-only"] = "true"
    table = lake.create_table("d.t", schema, primary_keys=["k"], options=options)
    rows = {"k": ["a"], "v": [1], "c": pa.array([1], pa.int32()), "l": [[1]]}
    with pytest.raises(Unsupported, match="no order by column 'l'"):
        table.with_options({"write-only": "false"}).write(rows)
    table.write(rows)
    with pytest.raises(Unsupported, match="cannot be sorted by l"):
        table.compact()
