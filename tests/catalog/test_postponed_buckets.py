"""Tables whose partitions have numbers of buckets of their own (``bucket`` = -2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.compaction.postponed import plan_postponed, run_postponed
from headwater.storage.errors import Conflict, Invalid, Unsupported
from headwater.storage.maintenance.delete import plan_deletion, run_deletion
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.schema.change import SetOption

SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), False), pa.field("k", pa.int64(), False), ("v", pa.string())]
)
POSTPONING = {"postpone.batch-write-fixed-bucket": "false"}
MERGING = {"postpone.merge-on-read": "true"}
# Files of one row, and a flush for nearly each.
SMALL = {"target-file-size": "1 b", "write-buffer-size": "200 b"}
Rows: TypeAlias = dict[tuple[int, int], str]


def _table(folder: Path, options: Mapping[str, str] | None = None) -> Table:
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    lake.drop_table("d.t", ignore_if_not_exists=True)
    return lake.create_table(
        "d.t",
        SCHEMA,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "-2", **(options or {})},
    )


def _data(rows: Sequence[tuple[int, int, str]], kinds: Sequence[str] = ()) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    data = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)
    return data.append_column("_ROW_KIND", pa.array(kinds)) if kinds else data


def _found(table: Table, where: str | None = None) -> Rows:
    rows = table.scan(where=where).to_arrow().to_pylist()
    found = {(row["p"], row["k"]): row["v"] for row in rows}
    assert len(found) == len(rows)
    assert where is not None or table.scan().count() == len(rows)
    return found


def _changes(table: Table, since: int = 0) -> list[tuple[str, int, int, str]]:
    rows = table.changes(since).to_arrow().to_pylist()
    return [(row["_ROW_KIND"], row["p"], row["k"], row["v"]) for row in rows]


def _buckets(table: Table) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for file in table.files():
        found.setdefault(file.partition, set()).add(file.bucket)
    return found


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["write", "postpone"]),
            st.lists(
                st.tuples(
                    st.integers(0, 1), st.integers(0, 7), st.sampled_from(["+I", "+U", "-D"])
                ),
                min_size=1,
                max_size=8,
            ),
        ),
        st.tuples(
            st.sampled_from(["compact", "compact one", "delete", "overwrite", "expire"]),
            st.just(()),
        ),
    ),
    max_size=10,
)


def _apply(rows: Rows, changes: Sequence[tuple[str, int, int, str]]) -> None:
    for kind, p, k, v in changes:
        if kind == "-D":
            rows.pop((p, k), None)
        else:
            rows[p, k] = v


def _walk(
    folder: Path,
    steps: Sequence[tuple[str, Sequence[tuple[int, int, str]]]],
    options: Mapping[str, str],
) -> None:
    """Against a table in memory, and the rows that wait."""
    table = _table(folder, {"postpone.default-bucket-num": "3", **options})
    visible: Rows = {}
    waiting: list[tuple[str, int, int, str]] = []

    def apply(changes: Sequence[tuple[str, int, int, str]]) -> None:
        _apply(visible, changes)

    for number, (step, rows) in enumerate(steps):
        values = [(p, k, f"{number}.{at}") for at, (p, k, _) in enumerate(rows)]
        kinds = [kind for *_, kind in rows]
        changes = [(kind, *row) for kind, row in zip(kinds, values, strict=True)]
        if step == "write":
            table.write(_data(values, kinds))
            apply(changes)
        elif step == "postpone":
            snapshot = table.with_options(POSTPONING).write(_data(values, kinds))
            assert snapshot is not None
            # A stream has them at once, as they were written.
            of_partition = sorted(_changes(table, snapshot.id - 1), key=lambda each: each[1])
            assert of_partition == sorted(changes, key=lambda each: each[1])
            waiting += changes
        elif step == "compact":
            table.compact()
            apply(waiting)
            waiting = []
        elif step == "compact one":
            table.compact(partition={"p": 1})
            apply([each for each in waiting if each[1] == 1])
            waiting = [each for each in waiting if each[1] != 1]
        elif step == "delete":
            # Rows that wait are brought into buckets before.
            table.delete("k IN (1, 2) OR v = 'none'")
            apply(waiting)
            waiting = []
            visible = {key: v for key, v in visible.items() if key[1] not in (1, 2)}
        elif step == "overwrite":
            table.overwrite(_data([(0, 100, "new")]), partition={"p": 0})
            visible = {key: v for key, v in visible.items() if key[0] != 0} | {(0, 100): "new"}
            waiting = [each for each in waiting if each[1] != 0]
        else:
            table.expire_snapshots(retain_max=1, retain_min=1)
        assert _found(table) == visible
        merged = dict(visible)
        _apply(merged, waiting)
        assert _found(table.with_options(MERGING)) == merged
        assert _found(table.with_options(MERGING), "k = 1") == {
            key: v for key, v in merged.items() if key[1] == 1
        }
    table.compact()
    apply(waiting)
    assert _found(table) == visible
    for (p, k), v in visible.items():
        assert _found(table, f"p = {p} AND k = {k}") == {(p, k): v}
    assert all(buckets <= {0, 1, 2} for buckets in _buckets(table).values())


WAIT_AND_WRITE: Sequence[tuple[str, Sequence[tuple[int, int, str]]]] = [
    ("postpone", [(0, 1, "+I"), (0, 2, "+I"), (0, 1, "+U"), (1, 5, "+I"), (0, 3, "+I")]),
    ("write", [(0, 1, "+I"), (0, 6, "+I")]),
    ("postpone", [(0, 2, "-D"), (0, 2, "+I"), (0, 3, "-D")]),
    ("compact one", []),
    ("postpone", [(0, 1, "-D"), (1, 5, "+U")]),
    ("compact", []),
    ("delete", []),
    ("postpone", [(0, 7, "+I"), (1, 7, "+I")]),
    ("overwrite", []),
    ("expire", []),
]


@pytest.mark.modes
def test_postponed_rows_are_part_of_the_table_once_they_are_compacted(tmp_path: Path) -> None:
    _walk(tmp_path, WAIT_AND_WRITE, {})


@pytest.mark.modes
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(STEPS, st.sampled_from([{}, SMALL]))
def test_postponed_rows_in_any_order_of_operations(
    tmp_path: Path,
    steps: Sequence[tuple[str, Sequence[tuple[int, int, str]]]],
    options: Mapping[str, str],
) -> None:
    _walk(tmp_path, steps, options)


def _many(partition: int, rows: int) -> pa.Table:
    return _data([(partition, key, "v") for key in range(rows)])


@pytest.mark.parametrize(
    ("options", "rows", "buckets"),
    [
        ({}, 100, 1),
        ({"postpone.default-bucket-num": "3"}, 100, 3),
        ({"postpone.target-row-num-per-bucket": "30"}, 100, 4),
        ({"postpone.target-row-num-per-bucket": "1000"}, 100, 1),
        ({"postpone.target-size-per-bucket": "400 b"}, 100, 5),
        (
            {
                "postpone.target-row-num-per-bucket": "30",
                "postpone.batch-write-fixed-bucket.max-parallelism": "2",
            },
            100,
            2,
        ),
    ],
)
def test_the_first_rows_of_a_partition_decide_its_buckets(
    tmp_path: Path, options: Mapping[str, str], rows: int, buckets: int
) -> None:
    table = _table(tmp_path, options)
    table.write(_many(1, rows))
    found = {split.total_buckets for split in table.scan().splits}
    assert found == {buckets}
    # A partition keeps its number, whatever comes.
    table.write(_many(1, 10 * rows))
    table.with_options(POSTPONING).write(_many(1, 20))
    table.compact()
    assert {split.total_buckets for split in table.scan().splits} == {buckets}
    assert len(_found(table)) == 10 * rows


def test_a_compaction_decides_the_buckets_of_a_partition_that_has_none(tmp_path: Path) -> None:
    options = {"postpone.target-row-num-per-bucket": "30", "postpone.default-bucket-num": "7"}
    table = _table(tmp_path, {**POSTPONING, **options})
    table.write(_many(1, 100))
    table.write(_many(2, 10))
    assert _buckets(table) == {"p=1": {-2}, "p=2": {-2}}
    assert _found(table) == {}
    snapshot = table.compact()
    assert snapshot is not None
    totals = {split.partition_values[0]: split.total_buckets for split in table.scan().splits}
    assert totals == {1: 4, 2: 1}
    assert len(_found(table)) == 110


def test_postponed_files_are_those_of_paimon(tmp_path: Path) -> None:
    table = _table(tmp_path, POSTPONING)
    table.write(_data([(1, 3, "a"), (1, 1, "b"), (1, 3, "c")], ["+I", "+I", "-D"]))
    (file,) = table.files()
    assert (file.bucket, file.level, file.row_count, file.delete_row_count) == (-2, 0, 3, 1)
    assert (file.min_sequence_number, file.max_sequence_number) == (-1, -1)
    # PostponeBucketFileStoreWrite.getWriteId takes the number after -s-.
    prefix, _, rest = file.name.partition("-s-")
    assert prefix.startswith("data--u-")
    assert int(rest.split("-")[0]) < 2**31
    assert rest.split("-")[1] == "w"
    assert rest.endswith("-0.avro")
    (path,) = tmp_path.rglob("bucket-postpone/*")
    assert path.name == file.name
    assert path.parent.parent.name == "p=1"


def test_a_stream_gives_each_row_once(tmp_path: Path) -> None:
    table = _table(tmp_path, POSTPONING)
    table.write(_data([(1, 3, "a"), (1, 1, "b")]))
    table.compact()
    table.write(_data([(1, 3, "c"), (1, 3, "d"), (1, 1, "b")], ["+I", "+U", "-D"]))
    table.compact()
    table.with_options({"postpone.batch-write-fixed-bucket": "true"}).write(_data([(1, 9, "e")]))
    assert _changes(table) == [
        ("+I", 1, 3, "a"),
        ("+I", 1, 1, "b"),
        ("+I", 1, 3, "c"),
        ("+U", 1, 3, "d"),
        ("-D", 1, 1, "b"),
        ("+I", 1, 9, "e"),
    ]


def test_compaction_writes_the_changelog_of_the_rows_that_waited(tmp_path: Path) -> None:
    table = _table(tmp_path, {**POSTPONING, "changelog-producer": "input"})
    table.write(_data([(1, 3, "a"), (1, 3, "b"), (1, 1, "c")], ["+I", "+U", "+I"]))
    assert _changes(table) == []
    table.compact()
    assert sorted(_changes(table)) == [("+I", 1, 1, "c"), ("+I", 1, 3, "a"), ("+U", 1, 3, "b")]
    assert _found(table) == {(1, 1): "c", (1, 3): "b"}


def test_rows_that_come_while_others_are_spread_are_not_lost(tmp_path: Path) -> None:
    table = _table(tmp_path, POSTPONING)
    table.write(_data([(1, 3, "a"), (1, 1, "b")]))
    base = table.latest_snapshot()
    assert base is not None
    (task,) = plan_postponed(table.storage, base)
    messages = run_postponed(table.storage, task)
    # Rows that wait do not get in the way; the same files cannot be spread twice.
    table.write(_data([(1, 4, "d")]))
    commit = TableCommit(table.storage, table.pointer, "late")
    assert commit.commit(messages, unchanged_since=base.identity) is not None
    assert _found(table) == {(1, 3): "a", (1, 1): "b"}
    again = run_postponed(table.storage, task)
    with pytest.raises(Conflict):
        commit.commit(again, unchanged_since=base.identity)
    table.compact()
    assert _found(table) == {(1, 3): "a", (1, 1): "b", (1, 4): "d"}


def test_rows_are_spread_again_when_their_bucket_has_changed(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_data([(1, 1, "old")]))
    table.with_options(POSTPONING).write(_data([(1, 1, "new")]))
    base = table.latest_snapshot()
    assert base is not None
    (task,) = plan_postponed(table.storage, base)
    messages = run_postponed(table.storage, task)
    # Both would have the same sequence number.
    table.write(_data([(1, 1, "between")]))
    commit = TableCommit(table.storage, table.pointer, "late")
    with pytest.raises(Conflict):
        commit.commit(messages, unchanged_since=base.identity)
    commit.abort(messages)
    table.compact()
    assert _found(table) == {(1, 1): "new"}


def test_a_deletion_does_not_overtake_rows_that_are_spread_meanwhile(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_data([(1, 1, "old")]))
    table.with_options(POSTPONING).write(_data([(1, 1, "new")]))
    base = table.latest_snapshot()
    assert base is not None
    table.compact()
    late = TableCommit(table.storage, table.pointer, "late")
    condition = parse_predicate("v = 'old'", table.schema)
    (task,) = plan_deletion(table.storage, base, condition)
    messages = run_deletion(table.storage, task, condition)
    with pytest.raises(Conflict):
        late.commit(messages, unchanged_since=base.identity)
    assert _found(table) == {(1, 1): "new"}


def test_a_difference_across_another_number_of_buckets_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path, {"postpone.default-bucket-num": "2"})
    table.write(_many(1, 10))
    more = table.with_options({"postpone.default-bucket-num": "3"})
    more.overwrite(_many(1, 10))
    with pytest.raises(Invalid, match="spread over other buckets"):
        table.changes(1, 2, mode="diff").to_arrow()


def test_what_would_be_written_wrongly_is_refused(tmp_path: Path) -> None:
    _table(tmp_path)
    lake = connect(str(tmp_path))
    with pytest.raises((Invalid, Unsupported), match="bucket"):
        lake.create_table("d.u", SCHEMA, options={"bucket": "-2"})
    with pytest.raises(Invalid, match=r"postpone\.default-bucket-num"):
        _table(tmp_path, {"postpone.default-bucket-num": "0"}).write(_data([(1, 1, "a")]))
    fine = pa.schema([pa.field("k", pa.int64(), False), ("at", pa.timestamp("ns"))])
    options = {"bucket": "-2", **POSTPONING}
    table = lake.create_table("d.fine", fine, primary_keys=["k"], options=options)
    row = pa.table({"k": [1], "at": pa.array([1], pa.timestamp("ns"))}, fine)
    with pytest.raises(Unsupported, match=r"TIMESTAMP\(9\).*rows that wait for it are in Avro"):
        table.write(row)
    table = table.alter(SetOption("postpone.batch-write-fixed-bucket", "true"))
    table.write(row)
    assert table.scan().to_arrow()["at"].cast(pa.int64()).to_pylist() == [1]


@pytest.mark.modes
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {1: "z", 2: "b", 4: "d"}),
        ({"merge-engine": "first-row"}, {1: "a", 2: "b", 3: "c", 4: "d"}),
        (
            {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"},
            {1: "a,x,z", 2: "b", 3: "c", 4: "d"},
        ),
        ({"merge-engine": "partial-update"}, {1: "z", 2: "b", 3: "c", 4: "d"}),
        ({"deletion-vectors.enabled": "true"}, {1: "z", 2: "b", 4: "d"}),
    ],
)
def test_each_merge_engine_merges_rows_that_wait(
    tmp_path: Path, options: Mapping[str, str], expected: Mapping[int, str]
) -> None:
    removes = options.get("merge-engine") is None
    table = _table(tmp_path, {"postpone.default-bucket-num": "3", **options})
    table.write(_data([(1, 1, "a"), (1, 2, "b"), (1, 3, "c")]))
    waits = table.with_options({**POSTPONING, **SMALL})
    waits.write(_data([(1, 1, "x"), (1, 4, "d")]))
    gone = [(1, 3, "-D")] if removes else []
    kinds = ["+U", *(kind for *_, kind in gone)]
    waits.write(_data([(1, 1, "z"), *((p, k, "gone") for p, k, _ in gone)], kinds))
    # Of one bucket, of all at once, and by the way of temporary files.
    for more in ({}, {"source.split.target-size": "1 b"}, SMALL):
        merging = table.with_options({**MERGING, **more})
        assert _found(merging) == {(1, k): v for k, v in expected.items()}
        assert _found(merging, "v = 'a'") == {(1, k): v for k, v in expected.items() if v == "a"}
        assert len(merging.scan().splits) == (3 if "source.split.target-size" in more else 1)
        assert merging.scan(columns=["v"]).to_arrow().num_rows == len(expected)
    table.compact(full=True)
    assert _found(table) == {(1, k): v for k, v in expected.items()}


def test_partitions_without_rows_that_wait_are_read_as_ever(tmp_path: Path) -> None:
    table = _table(tmp_path, MERGING)
    table.write(_data([(1, 1, "a")]))
    table.with_options(POSTPONING).write(_data([(2, 2, "b"), (2, 2, "c"), (3, 1, "d")]))
    assert _found(table) == {(1, 1): "a", (2, 2): "c", (3, 1): "d"}
    assert [bool(split.postponed) for split in table.scan(where="p = 1").splits] == [False]
    assert _found(table, "p = 2") == {(2, 2): "c"}
    # A stream has had them.
    assert len(_changes(table)) == 4
    table.delete("k = 2")
    assert _found(table) == {(1, 1): "a", (3, 1): "d"}
    table.update({"v": "z"}, where="p = 3")
    assert _found(table) == {(1, 1): "a", (3, 1): "z"}


@pytest.mark.modes
def test_rows_that_wait_are_merged_with_marked_files(tmp_path: Path) -> None:
    options = {"postpone.default-bucket-num": "3", "deletion-vectors.enabled": "true"}
    # Of so few rows all files are about as large.
    table = _table(tmp_path, options | {"compaction.size-ratio": "-99"})
    for value, keys in (("old", range(40)), ("new", range(0, 40, 3))):
        table.write(_data([(1, key, value) for key in keys]))
        table.compact(full=value == "old")
    assert sum(len(split.deletion_files) for split in table.scan().splits) == 3
    table.with_options(POSTPONING).write(_data([(1, 4, "waits"), (1, 6, "waits")]))
    expected = {(1, key): "old" if key % 3 else "new" for key in range(40)}
    expected |= {(1, 4): "waits", (1, 6): "waits"}
    merging = table.with_options(MERGING)
    assert len(merging.scan().splits) == 1
    assert _found(merging) == expected
