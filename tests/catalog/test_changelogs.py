"""Changelogs that compactions make: each change of a row once, as Paimon tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.snapshot.snapshot import CommitKind

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64()), ("s", pa.int64())])

Values: TypeAlias = tuple[int | None, int | None]
Rows: TypeAlias = dict[int, Values]
Change: TypeAlias = tuple[str, int, int | None, int | None]

ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "s"},
    "sum": {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"},
    "partial-update": {"merge-engine": "partial-update"},
}
# One bucket, so that the order of changes is that of the keys.
VECTORS = {"deletion-vectors.enabled": "true"}
LEVELS = {
    "bucket": "1",
    "num-sorted-run.compaction-trigger": "2",
    "num-levels": "5",
    "compaction.max-size-amplification-percent": "1000000",
}


def new_table(folder: Path, options: Mapping[str, str]) -> Table:
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    lake.drop_table("d.t", ignore_if_not_exists=True)
    return lake.create_table("d.t", SCHEMA, primary_keys=["k"], options={**LEVELS, **options})


def found(table: Table) -> Rows:
    rows = table.scan().to_arrow()
    pairs = zip(rows["v"].to_pylist(), rows["s"].to_pylist(), strict=True)
    result = dict(zip(rows["k"].to_pylist(), pairs, strict=True))
    assert len(result) == rows.num_rows
    return result


def changes(table: Table, since: int) -> list[Change]:
    rows = table.changes(since).to_arrow()
    return list(
        zip(*(rows[name].to_pylist() for name in ("_ROW_KIND", "k", "v", "s")), strict=True)
    )


def latest(table: Table) -> int:
    snapshot = table.latest_snapshot()
    return 0 if snapshot is None else snapshot.id


def told(before: Rows, after: Rows, touched: set[int], *, deduplicated: bool) -> list[Change]:
    """The changes of some keys, as Paimon's changelogs have them."""
    result: list[Change] = []
    for k in sorted(touched):
        old, new = before.get(k), after.get(k)
        if old is None and new is not None:
            result.append(("+I", k, *new))
        elif old is not None and new is None:
            result.append(("-D", k, *old))
        elif old is not None and new is not None and not (deduplicated and old == new):
            result += [("-U", k, *old), ("+U", k, *new)]
    return result


def replayed(told: Sequence[Change]) -> Rows:
    """The rows that changes end with; each takes back what is there."""
    rows: Rows = {}
    for kind, k, v, s in told:
        if kind in ("-U", "-D"):
            assert rows.pop(k) == (v, s)
        else:
            assert k not in rows
            rows[k] = (v, s)
    return rows


Step: TypeAlias = list[tuple[int, int | None, int, bool]] | str
STEPS = st.lists(
    st.one_of(
        st.lists(
            st.tuples(
                st.integers(0, 30),
                st.one_of(st.integers(1, 3), st.none()),
                st.integers(0, 3),
                st.booleans(),
            ),
            min_size=1,
            max_size=20,
        ),
        st.just("full"),
    ),
    max_size=12,
)


def merged(engine: str, rows: Rows, step: Sequence[tuple[int, int | None, int, bool]]) -> pa.Table:
    """The rows of a step as they are written; `rows` becomes what the table then has."""
    written: list[tuple[int, int | None, int | None, str]] = []
    for k, v, s, deletes in step:
        old = rows.get(k)
        if deletes and engine in ("deduplicate", "sum"):
            if old is None:
                continue
            written.append((k, v, s, "-D" if engine == "deduplicate" else "-U"))
            if engine == "deduplicate":
                del rows[k]
            else:
                rows[k] = (_plus(old[0], None if v is None else -v), _plus(old[1], -s))
            continue
        written.append((k, v, s, "+I"))
        if old is None or engine == "deduplicate":
            rows[k] = (v, s)
        elif engine == "sequence":
            rows[k] = (v, s) if old[1] is None or s >= old[1] else old
        elif engine == "sum":
            rows[k] = (_plus(old[0], v), _plus(old[1], s))
        else:
            rows[k] = (old[0] if v is None else v, s)
    names = ["k", "v", "s", "_ROW_KIND"]
    types = [pa.int64(), pa.int64(), pa.int64(), pa.string()]
    columns = zip(*written, strict=True) if written else ((), (), (), ())
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)


def _plus(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


OPTIONS = st.sampled_from(
    [
        {},
        {"changelog-producer.row-deduplicate": "true"},
        {"target-file-size": "1 b"},
        {"write-buffer-size": "64 b"},
        {"file.format.per.level": "0:avro"},
        {"num-sorted-run.compaction-trigger": "5", "changelog-producer.row-deduplicate": "true"},
    ]
)


@pytest.mark.modes
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(list(ENGINES)), STEPS, OPTIONS)
def test_a_lookup_tells_what_each_write_changes(
    tmp_path: Path, engine: str, steps: Sequence[Step], options: Mapping[str, str]
) -> None:
    table = new_table(tmp_path, {"changelog-producer": "lookup", **ENGINES[engine], **options})
    deduplicated = "changelog-producer.row-deduplicate" in options
    rows: Rows = {}
    for step in steps:
        since, before = latest(table), dict(rows)
        if isinstance(step, str):
            table.compact()
            assert changes(table, since) == []
        else:
            data = merged(engine, rows, step)
            if data.num_rows:
                table.write(data)
                touched = set(data["k"].to_pylist())
                expected = told(before, rows, touched, deduplicated=deduplicated)
                assert changes(table, since) == expected
                assert {file.level for file in table.files()}.isdisjoint({0})
        assert found(table) == rows
    assert replayed(changes(table, 0)) == rows


@pytest.mark.modes
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(list(ENGINES)), STEPS, OPTIONS)
def test_a_full_compaction_tells_what_changed_since_the_last(
    tmp_path: Path, engine: str, steps: Sequence[Step], options: Mapping[str, str]
) -> None:
    table = new_table(
        tmp_path,
        {
            "changelog-producer": "full-compaction",
            "write-only": "true",
            **ENGINES[engine],
            **options,
        },
    )
    deduplicated = "changelog-producer.row-deduplicate" in options
    rows: Rows = {}
    before: Rows = {}
    touched: set[int] = set()
    since = 0
    for step in [*steps, "full"]:
        if isinstance(step, str):
            table.compact()
            expected = told(before, rows, touched, deduplicated=deduplicated)
            assert changes(table, since) == expected
            before, touched, since = dict(rows), set(), latest(table)
        else:
            data = merged(engine, rows, step)
            if data.num_rows:
                table.write(data)
                touched.update(data["k"].to_pylist())
                table.compact(full=False)
                highest = {file.level for file in table.files()} == {4}
                if highest:
                    expected = told(before, rows, touched, deduplicated=deduplicated)
                    assert changes(table, since) == expected
                    before, touched, since = dict(rows), set(), latest(table)
        assert found(table) == rows
    assert replayed(changes(table, 0)) == rows


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("deduplicate", {}),
        ("sum", {}),
        *(
            pytest.param(engine, options, marks=pytest.mark.modes)
            for engine in ENGINES
            for options in ({"write-buffer-size": "64 b"}, {"target-file-size": "1 b"})
        ),
    ],
)
def test_keys_are_looked_up_in_runs_that_stay(
    tmp_path: Path, engine: str, options: Mapping[str, str]
) -> None:
    table = new_table(tmp_path, {"changelog-producer": "lookup", **ENGINES[engine], **options})
    rows: Rows = {}
    rng = np.random.default_rng(1)
    table.write(merged(engine, rows, [(k, k, 1, False) for k in range(3000)]))
    table.compact()
    seen: set[tuple[int, ...]] = set()
    for number in range(8):
        # Those from 3000 on are new.
        keys = rng.choice(3010, 12).tolist() if number % 3 else [5, 5, 6, 3000, 3001]
        step = [
            (k, int(rng.integers(1, 4)), int(rng.integers(0, 4)), bool(rng.random() < 0.3))
            for k in keys
        ]
        since, before = latest(table), dict(rows)
        data = merged(engine, rows, step)
        table.write(data)
        expected = told(before, rows, set(data["k"].to_pylist()), deduplicated=False)
        assert changes(table, since) == expected
        assert found(table) == rows
        seen.add(tuple(sorted({file.level for file in table.files()})))
    assert any(set(levels) > {4} for levels in seen)
    assert all(0 not in levels for levels in seen)
    since = latest(table)
    table.compact()
    assert found(table) == rows
    assert changes(table, since) == []


def test_changes_are_told_by_the_compaction_after_a_write(tmp_path: Path) -> None:
    table = new_table(tmp_path, {"changelog-producer": "lookup"})
    table.write({"k": [1, 2, 3], "v": [1, 2, 3], "s": [0, 0, 0]})
    table.write({"k": [2, 3, 4], "v": [2, 9, 4], "s": [0, 0, 0], "_ROW_KIND": ["+I", "-D", "+I"]})
    kinds = [snapshot.commit_kind for snapshot in reversed(table.snapshots())]
    assert kinds == [CommitKind.APPEND, CommitKind.COMPACT] * 2
    assert [s.changelog_record_count for s in reversed(table.snapshots())] == [None, 3, None, 4]
    assert changes(table, 2) == [
        ("-U", 2, 2, 0),
        ("+U", 2, 2, 0),
        ("-D", 3, 3, 0),
        ("+I", 4, 4, 0),
    ]
    table.delete("k = 1")
    assert changes(table, 4) == [("-D", 1, 1, 0)]


def test_a_table_for_writing_only_tells_when_it_is_compacted(tmp_path: Path) -> None:
    table = new_table(tmp_path, {"changelog-producer": "lookup", "write-only": "true"})
    table.write({"k": [1, 2], "v": [1, 2], "s": [0, 0]})
    table.write({"k": [1, 3], "v": [9, 3], "s": [0, 0]})
    assert changes(table, 0) == []
    table.compact(full=False)
    assert changes(table, 0) == [("+I", 1, 9, 0), ("+I", 2, 2, 0), ("+I", 3, 3, 0)]


def test_an_overwrite_has_no_changelog(tmp_path: Path) -> None:
    table = new_table(tmp_path, {"changelog-producer": "lookup"})
    table.write({"k": [1, 2], "v": [1, 2], "s": [0, 0]})
    # More than one run, so that a compaction follows.
    small = table.with_options({"write-buffer-size": "64 b"})
    small.overwrite({"k": list(range(30)) * 2, "v": [7] * 60, "s": [0] * 60})
    assert {file.level for file in table.files()}.isdisjoint({0})
    told = table.changes(2, skip_overwrites=True).to_arrow()
    assert told.num_rows == 0
    since = latest(table)
    table.write({"k": [3], "v": [8], "s": [0]})
    assert changes(table, since) == [("-U", 3, 7, 0), ("+U", 3, 8, 0)]


def test_columns_may_be_ignored_when_rows_are_compared(tmp_path: Path) -> None:
    table = new_table(
        tmp_path,
        {
            "changelog-producer": "lookup",
            "changelog-producer.row-deduplicate": "true",
            "changelog-producer.row-deduplicate-ignore-fields": "s",
        },
    )
    table.write({"k": [1, 2, 3], "v": [1, 2, None], "s": [0, 0, 0]})
    table.write({"k": [1, 2, 3], "v": [1, 3, None], "s": [9, 9, 9]})
    assert changes(table, 2) == [("-U", 2, 2, 0), ("+U", 2, 3, 9)]
    assert found(table) == {1: (1, 9), 2: (3, 9), 3: (None, 9)}


def test_nested_values_are_compared(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), False),
            ("items", pa.list_(pa.int32())),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("inner", pa.struct([("a", pa.string()), ("b", pa.float64())])),
        ]
    )
    options = {
        "bucket": "1", "changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true",
    }  # fmt: skip
    table = lake.create_table("d.n", schema, primary_keys=["k"], options=options)
    same = {"items": [1, None], "counts": [("a", 1)], "inner": {"a": None, "b": 1.5}}
    empty = {"items": None, "counts": None, "inner": None}
    rows = [{"k": k, **(empty if k == 4 else same)} for k in range(5)]
    table.write(pa.Table.from_pylist(rows, schema))
    rows[1] = {**rows[1], "items": [1, 2]}
    rows[2] = {**rows[2], "counts": [("a", 2)]}
    rows[3] = {**rows[3], "inner": {"a": "x", "b": 1.5}}
    table.write(pa.Table.from_pylist(rows, schema))
    assert table.changes(2).to_arrow()["k"].to_pylist() == [1, 1, 2, 2, 3, 3]


def test_maps_are_compared_whatever_the_order_of_their_entries(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    maps = pa.map_(pa.string(), pa.int64())
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), False),
            ("m", maps),
            ("inner", pa.list_(pa.struct([("m", maps)]))),
        ]
    )
    options = {
        "bucket": "1", "changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true",
    }  # fmt: skip
    table = lake.create_table("d.m", schema, primary_keys=["k"], options=options)
    one, other = [("a", 1), ("b", None), ("c", 3)], [("c", 3), ("a", 1), ("b", None)]
    unlike = [("c", 1), ("a", 3), ("b", None)]
    versions = [(one, one), (one, other), (one, unlike), (None, one), ([], None)]
    for version in range(2):
        rows = [
            {"k": k, "m": maps[version], "inner": [{"m": maps[version]}, {"m": None}]}
            for k, maps in enumerate(versions)
        ]
        table.write(pa.Table.from_pylist(rows, schema))
    assert table.changes(2).to_arrow()["k"].to_pylist() == [2, 2, 3, 3, 4, 4]


def test_rows_of_other_partitions_and_buckets_are_not_told(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    schema = pa.schema([pa.field("p", pa.string(), False), *SCHEMA])
    options = {"bucket": "4", "changelog-producer": "lookup"}
    table = lake.create_table(
        "d.p", schema, primary_keys=["p", "k"], partition_keys=["p"], options=options
    )
    table.write(
        {"p": ["a"] * 50 + ["b"] * 50, "k": [*range(50)] * 2, "v": [0] * 100, "s": [0] * 100}
    )
    since = latest(table)
    table.write({"p": ["b"], "k": [7], "v": [1], "s": [1]})
    rows = table.changes(since).to_arrow().to_pylist()
    assert [(row["_ROW_KIND"], row["p"], row["k"], row["v"]) for row in rows] == [
        ("-U", "b", 7, 0),
        ("+U", "b", 7, 1),
    ]


@pytest.mark.parametrize("options", [{"changelog-producer": "lookup"}, VECTORS])
def test_lookups_merge_keys_that_are_new(tmp_path: Path, options: Mapping[str, str]) -> None:
    """As in Java, where a row that is its key's only one is merged with nothing."""
    sums = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
    table = new_table(tmp_path, {**options, **sums})
    table.write({"k": [1, 2], "v": [1, 2], "s": [0, 0], "_ROW_KIND": ["+I", "-D"]})
    assert found(table) == {1: (1, 0), 2: (-2, 0)}
    groups = {"merge-engine": "partial-update", "fields.s.sequence-group": "v"}
    table = new_table(tmp_path, {**options, **groups})
    rows = {"k": [1, 2, 3], "v": [1, 2, 3], "s": [0, None, 0]}
    table.write({**rows, "_ROW_KIND": ["+I", "+I", "-D"]})
    assert found(table) == {1: (1, 0), 2: (None, None)}
    if "changelog-producer" in options:
        assert replayed(changes(table, 0)) == found(table)


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_rows_as_they_were_written_are_streamed_whatever_merges_them(
    tmp_path: Path, engine: str
) -> None:
    table = new_table(tmp_path, {"changelog-producer": "input", "merge-engine": engine})
    table.write({"k": [1, 2], "v": [1, 2], "s": [0, 0]})
    table.write({"k": [1], "v": [None], "s": [4]})
    assert found(table) == {1: (1, 4), 2: (2, 0)}
    assert changes(table, 0) == [("+I", 1, 1, 0), ("+I", 2, 2, 0), ("+I", 1, None, 4)]
