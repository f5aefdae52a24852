"""Tables whose keys are unique across partitions (``bucket`` = -1, the primary key lacks one)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Conflict, CorruptData, Invalid, Unsupported
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.jobs.write import Replacement, WritePlan, write_rows
from headwater.storage.write.table_writer import CommitMessage, TableWriter

SCHEMA = pa.schema(
    [
        pa.field("p", pa.string(), False),
        pa.field("k", pa.int64(), False),
        ("v", pa.int64()),
        ("w", pa.int64()),
    ]
)
Row: TypeAlias = tuple[str, int, int | None, int | None]
Change: TypeAlias = tuple[str, str, int, int | None, int | None]
Rows: TypeAlias = dict[int, tuple[str, int | None, int | None]]
ENGINES: Mapping[str, Mapping[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.w.aggregate-function": "max",
    },
    "first-row": {"merge-engine": "first-row"},
}
SMALL = {"write-buffer-size": "200 b", "dynamic-bucket.target-row-num": "3"}


def _table(folder: Path, options: Mapping[str, str] | None = None) -> Table:
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    lake.drop_table("d.t", ignore_if_not_exists=True)
    return lake.create_table(
        "d.t",
        SCHEMA,
        primary_keys=["k"],
        partition_keys=["p"],
        options={"dynamic-bucket.target-row-num": "4", **(options or {})},
    )


def _data(rows: Sequence[Row], kinds: Sequence[str] = ()) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    data = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)
    return data.append_column("_ROW_KIND", pa.array(kinds)) if kinds else data


def _found(table: Table) -> Rows:
    rows = table.scan().to_arrow().to_pylist()
    found = {row["k"]: (row["p"], row["v"], row["w"]) for row in rows}
    assert len(found) == len(rows), rows
    return found


def _changes(table: Table, since: int) -> list[Change]:
    rows = table.changes(since).to_arrow().to_pylist()
    return [(row["_ROW_KIND"], row["p"], row["k"], row["v"], row["w"]) for row in rows]


def _apply(engine: str, expected: Rows, kind: str, row: Row) -> None:
    """What Paimon's assigner and merge engines make of a row."""
    p, k, v, w = row
    old = expected.get(k)
    if engine == "deduplicate":
        expected.pop(k, None)
        if kind != "-D":
            expected[k] = (p, v, w)
    elif old is None:
        expected[k] = (p, v, w)
    elif engine == "partial-update":
        expected[k] = (old[0], old[1] if v is None else v, old[2] if w is None else w)
    elif engine == "aggregation":
        sums = [each for each in (old[1], v) if each is not None]
        most = [each for each in (old[2], w) if each is not None]
        expected[k] = (old[0], sum(sums) if sums else None, max(most) if most else None)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["write", "write", "write", "overwrite", "overwrite all"]),
            st.lists(
                st.tuples(
                    st.sampled_from("abc"), st.integers(0, 9), st.sampled_from(["+I", "+U", "-D"]),
                    st.booleans(),
                ),
                min_size=1,
                max_size=12,
            ),
        ),
        st.tuples(
            st.sampled_from(["delete", "compact", "expire", "update", "drop"]), st.just([])
        ),
    ),
    max_size=7,
)  # fmt: skip
Step: TypeAlias = tuple[str, Sequence[tuple[str, int, str, bool]]]


def _walk(folder: Path, engine: str, steps: Sequence[Step], options: Mapping[str, str]) -> None:
    table = _table(folder, {**ENGINES[engine], **options})
    expected: Rows = {}
    replayed: Rows = {}
    told = "changelog-producer" in options
    seen = 0
    for number, (step, wanted) in enumerate(steps):
        rows: list[Row] = [
            (p, k, None if part else number * 100 + at, number * 100 + at)
            for at, (p, k, _, part) in enumerate(wanted)
        ]
        kinds = [kind if engine == "deduplicate" else "+I" for *_, kind, _ in wanted]
        if step == "write":
            table.write(_data(rows, kinds))
            for kind, row in zip(kinds, rows, strict=True):
                _apply(engine, expected, kind, row)
        elif step.startswith("overwrite"):
            replaced = {row[0] for row in rows} if step == "overwrite" else set("abc")
            table.overwrite(_data(rows), dynamic=step == "overwrite")
            for k in [k for k, old in expected.items() if old[0] in replaced]:
                del expected[k]
            for row in rows:
                _apply(engine, expected, "+I", row)
            replayed = dict(expected)
        elif step == "delete" and engine == "deduplicate":
            table.delete("k IN (1, 2)")
            expected = {k: row for k, row in expected.items() if k not in (1, 2)}
        elif step == "update" and engine == "deduplicate":
            table.update({"p": "b", "v": 7}, where="k < 4")
            expected = {k: ("b", 7, row[2]) if k < 4 else row for k, row in expected.items()}
        elif step == "compact":
            table.compact(full=True)
        elif step == "drop":
            table.drop_partitions({"p": "a"})
            expected = {k: row for k, row in expected.items() if row[0] != "a"}
            replayed = dict(expected)
        elif step == "expire" and not told:
            table.expire_snapshots(retain_max=1, retain_min=1)
        assert _found(table) == expected, (number, step)
        if options.get("changelog-producer") == "full-compaction":
            table.compact(full=True)
        latest = table.latest_snapshot()
        if told and latest is not None:
            _replay(table, replayed, seen, latest.id)
            seen = latest.id
            assert replayed == expected, (number, step)


def _replay(table: Table, replayed: Rows, since: int, until: int) -> None:
    """Apply changes by the row: of each partition and key they are in order."""
    left: dict[tuple[str, int], tuple[int | None, int | None]] = {
        (p, k): (v, w) for k, (p, v, w) in replayed.items()
    }
    for snapshot in range(since, until):
        rows = table.changes(snapshot, snapshot + 1, skip_overwrites=True).to_arrow().to_pylist()
        for row in rows:
            place = row["p"], row["k"]
            if row["_ROW_KIND"] in ("-D", "-U"):
                left.pop(place, None)
            else:
                left[place] = row["v"], row["w"]
    replayed.clear()
    for (p, k), (v, w) in left.items():
        assert k not in replayed
        replayed[k] = (p, v, w)


MOVES: Sequence[Step] = [
    ("write", [("a", k, "+I", False) for k in range(8)]),
    ("write", [("b", 3, "+U", False), ("a", 3, "+U", True), ("c", 9, "+I", False)]),
    ("compact", []),
    ("write", [("b", 3, "+I", True), ("c", 3, "+I", False), ("b", 5, "-D", False)]),
    ("overwrite", [("b", 0, "+I", False), ("b", 3, "+I", False), ("b", 11, "+I", False)]),
    ("update", []),
    ("write", [("a", 11, "+I", True), ("a", 12, "+I", False), ("a", 3, "-D", False)]),
    ("delete", []),
    ("drop", []),
    ("write", [("c", 0, "+I", False), ("a", 1, "+I", False)]),
    ("overwrite all", [("c", k, "+I", False) for k in (4, 5, 4)]),
    ("expire", []),
    ("write", [("a", 4, "+U", False), ("b", 6, "+U", False)]),
]
OPTIONS: Sequence[Mapping[str, str]] = [
    {"deletion-vectors.enabled": "true"},
    {},
    SMALL,
    {"dynamic-bucket.initial-buckets": "3"},
    {"dynamic-bucket.assigner-parallelism": "2", "dynamic-bucket.max-buckets": "2"},
    {"changelog-producer": "lookup"},
    {"changelog-producer": "full-compaction"},
    {"write-only": "true"},
]


@pytest.mark.modes
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_key_is_in_one_partition_whatever_the_options(
    tmp_path: Path, engine: str, options: Mapping[str, str]
) -> None:
    if engine == "first-row" and not options.keys().isdisjoint(
        ("changelog-producer", "write-only", "deletion-vectors.enabled")
    ):
        options = {"changelog-producer": "lookup"}
    _walk(tmp_path, engine, MOVES, options)


@pytest.mark.modes
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(list(ENGINES)), STEPS, st.sampled_from(OPTIONS[:6]))
def test_keys_are_in_one_partition_in_any_order_of_operations(
    tmp_path: Path, engine: str, steps: Sequence[Step], options: Mapping[str, str]
) -> None:
    if engine == "first-row":
        refused = ("changelog-producer", "deletion-vectors.enabled")
        options = {key: value for key, value in options.items() if key not in refused}
    _walk(tmp_path, engine, steps, options)


def test_a_key_that_moves_is_deleted_where_it_was(tmp_path: Path) -> None:
    table = _table(tmp_path, {"changelog-producer": "input"})
    table.write(_data([("a", 1, 1, 1), ("a", 2, 2, 2)]))
    table.write(_data([("b", 1, 3, 3), ("a", 2, 4, 4)], ["+U", "+U"]))
    # As Paimon, with the values of the new row.
    assert sorted(_changes(table, 1)) == [
        ("+U", "a", 2, 4, 4), ("+U", "b", 1, 3, 3), ("-D", "a", 1, 3, 3),
    ]  # fmt: skip


def test_a_lookup_tells_the_old_row_of_a_key_that_moves(tmp_path: Path) -> None:
    table = _table(tmp_path, {"changelog-producer": "lookup"})
    table.write(_data([("a", 1, 1, 1), ("a", 2, 2, 2)]))
    before = table.latest_snapshot()
    assert before is not None
    table.write(_data([("b", 1, 3, 3)]))
    assert sorted(_changes(table, before.id)) == [("+I", "b", 1, 3, 3), ("-D", "a", 1, 1, 1)]


def _buckets(table: Table) -> dict[str, dict[int, list[int]]]:
    found: dict[str, dict[int, list[int]]] = {}
    for split in table.scan().splits:
        for batch in table.scan(columns=["p", "k"]).read_split(split):
            for row in batch.to_pylist():
                keys = found.setdefault(row["p"], {}).setdefault(split.bucket, [])
                keys.append(row["k"])
    return found


def _many(partition: str, keys: Sequence[int], value: int = 0) -> pa.Table:
    return _data([(partition, key, value, key) for key in keys])


def test_buckets_are_filled_one_after_another(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many("a", range(6)))
    table.write(_many("b", [1, 3, 7]))
    table.compact(full=True)
    # Those that left made room.
    table.write(_many("a", [8, 9, 10]))
    assert _buckets(table) == {
        "a": {0: [0, 2, 8, 9], 1: [4, 5, 10]}, "b": {0: [1, 3, 7]},
    }  # fmt: skip


def test_only_files_that_may_hold_the_keys_are_read(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for number in range(3):
        table.write(_many(f"p{number}", range(number * 100, number * 100 + 80)))
    for path in tmp_path.rglob("p=p0/**/*.parquet"):
        path.unlink()
    table.write(_many("new", [105, 110, 250]))
    table.write(_many("new", range(105, 200)))
    with pytest.raises(CorruptData):
        table.write(_many("new", [50]))


@pytest.mark.parametrize("fails", [False, True])
def test_temporary_files_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    table = _table(tmp_path / "lake", SMALL)
    table.write(_many("a", range(30)))
    before = sorted((tmp_path / "lake").rglob("*.parquet"))
    writer = WritePlan(table.storage).upon(table.pointer.latest()).writer()
    writer.write(_many("b", range(20, 50)))
    assert list(folder.rglob("*.arrow"))
    if fails:
        before[0].unlink()
        with pytest.raises(CorruptData):
            writer.finish()
        assert set((tmp_path / "lake").rglob("*.parquet")) < set(before)
    else:
        writer.finish()
    assert not list(folder.iterdir())


def _begun(table: Table, rows: pa.Table) -> tuple[WritePlan, list[CommitMessage]]:
    plan = WritePlan(table.storage).upon(table.pointer.latest())
    return plan, write_rows(plan, rows)


@pytest.mark.parametrize("first", [[], [1, 2], [99]])
def test_two_writers_never_move_a_key_to_two_partitions(
    tmp_path: Path, first: Sequence[int]
) -> None:
    table = _table(tmp_path)
    if first:
        table.write(_many("a", first))
    plan, slow = _begun(table, _many("b", [99]))
    table.write(_many("c", [99]))
    before = sorted(path for path in tmp_path.rglob("*.parquet"))
    with pytest.raises(Conflict, match="looked up"):
        plan.commit(table._new_commit(), slow, LocalExecutor())
    assert _found(table)[99][0] == "c"
    assert sorted(_found(table)) == sorted({*first, 99})
    # Nothing is left behind.
    assert set(tmp_path.rglob("*.parquet")) < set(before)


@pytest.mark.parametrize("between", ["delete", "overwrite", "drop"])
def test_a_key_that_was_taken_away_is_looked_up_again(tmp_path: Path, between: str) -> None:
    table = _table(tmp_path, {
        **ENGINES["partial-update"],
        "partial-update.remove-record-on-delete": "true",
    })  # fmt: skip
    table.write(_many("a", [1, 2]))
    plan, slow = _begun(table, _many("b", [1], 5))
    if between == "delete":
        table.delete("k = 1")
    elif between == "overwrite":
        table.overwrite(_many("a", [2]))
    else:
        table.drop_partitions({"p": "a"})
    # It would come to partition a, where its key is no more.
    with pytest.raises(Conflict):
        plan.commit(table._new_commit(), slow, LocalExecutor())
    table.write(_many("b", [1], 5))
    assert _found(table)[1] == ("b", 5, 1)


def test_a_compaction_moves_no_key(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many("a", [1, 2]))
    plan, slow = _begun(table, _many("b", [1], 5))
    table.compact(full=True)
    assert plan.commit(table._new_commit(), slow, LocalExecutor()) is not None
    assert _found(table) == {1: ("b", 5, 1), 2: ("a", 0, 2)}


def test_deletes_and_overwrites_are_refused_after_a_move(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many("a", [1, 2]))
    table.write(_many("b", [3]))
    plan = WritePlan(table.storage, Replacement({"p": "b"})).upon(table.pointer.latest())
    slow = write_rows(plan, _many("b", [1], 5))
    table.write(_many("c", [1]))
    with pytest.raises(Conflict):
        plan.commit(table._new_commit(), slow, LocalExecutor())
    table.overwrite(_many("b", [1], 6), partition={"p": "b"})
    assert _found(table) == {1: ("b", 6, 1), 2: ("a", 0, 2)}
    with pytest.raises(Invalid, match="outside"):
        table.overwrite(_many("c", [1], 6), partition={"p": "b"})


def _overtaken(monkeypatch: pytest.MonkeyPatch, other: Callable[[int], object], times: int) -> None:
    """Let another writer come first, so many times."""
    races = iter(range(times))
    commit = WritePlan.commit

    def late(plan: WritePlan, *arguments: object, **more: object) -> object:
        number = next(races, None)
        if number is not None:
            with monkeypatch.context() as undone:
                undone.setattr(WritePlan, "commit", commit)
                other(number)
        return commit(plan, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(WritePlan, "commit", late)


def test_a_write_starts_over_when_keys_may_have_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(tmp_path)
    other = connect(str(tmp_path)).table("d.t")
    _overtaken(monkeypatch, lambda number: other.write(_many("abc"[number], [7, number])), 3)
    table.write(_many("z", [7], 5))
    assert _found(table) == {
        0: ("a", 0, 0), 1: ("b", 0, 1), 2: ("c", 0, 2), 7: ("z", 5, 7),
    }  # fmt: skip
    _overtaken(monkeypatch, lambda number: other.write(_many("abc"[number], [7])), 2)
    table.overwrite(_many("z", [8], 6))
    assert _found(table)[7][0] == "b"
    assert _found(table)[8] == ("z", 6, 8)


@pytest.mark.modes
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "commit"]),
            st.integers(0, 2),
            st.sampled_from("abc"),
            st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True),
        ),
        max_size=14,
    )
)
@example([("begin", 0, "b", [0]), ("begin", 1, "c", [0]), ("commit", 0, "a", [0]),
          ("commit", 1, "a", [0])])  # fmt: skip
def test_writers_at_the_same_time_leave_each_key_in_one_partition(
    tmp_path: Path, steps: Sequence[tuple[str, int, str, Sequence[int]]]
) -> None:
    table = _table(tmp_path)
    table.write(_many("a", range(4)))
    expected: Rows = {key: ("a", 0, key) for key in range(4)}
    begun: dict[int, tuple[WritePlan, list[CommitMessage], Rows]] = {}
    for number, (step, writer, partition, keys) in enumerate(steps):
        if step == "begin":
            rows: Rows = {key: (partition, number, key) for key in keys}
            begun[writer] = (*_begun(table, _many(partition, keys, number)), rows)
        elif writer in begun:
            plan, messages, rows = begun.pop(writer)
            try:
                plan.commit(table._new_commit(), messages, LocalExecutor())
            except Conflict:
                continue
            expected |= rows
        assert _found(table) == expected


def test_files_older_than_the_keys_are_kept_for_are_not_searched(tmp_path: Path) -> None:
    table = _table(tmp_path, {"cross-partition-upsert.index-ttl": "1 ms"})
    table.write(_many("a", [1]))
    table.write(_many("b", [1]))
    # As in Paimon: whoever sets it says that such keys do not come again.
    assert table.scan().count() == 2
    with pytest.raises(Invalid, match="index-ttl"):
        _table(tmp_path, {"cross-partition-upsert.index-ttl": "soon"}).write(_many("a", [1]))


def test_a_key_in_two_partitions_is_an_error(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many("a", [1, 2]))
    # As a second writer of an engine that checks nothing.
    writer = TableWriter(table.storage.with_schema(
        table.schema.with_options({"bucket": "1"})
    ), max_sequence_numbers={})  # fmt: skip
    writer.write(_many("b", [1]))
    table._new_commit().commit(writer.finish())
    with pytest.raises(CorruptData, match="several partitions"):
        table.write(_many("a", [1]))
    table.write(_many("a", [2], 5))
    table.overwrite(_many("b", [1, 2], 6), dynamic=False)
    table.write(_many("a", [1], 7))
    assert _found(table) == {1: ("a", 7, 1), 2: ("b", 6, 2)}


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="'ignore-delete' is true"):
        _table(tmp_path, {"ignore-delete": "true"})
    table = _table(tmp_path, {"ignore-delete": "true", "merge-engine": "partial-update"})
    table.write(_many("a", [1]))
    table.write(_many("b", [1], 5))
    assert _found(table) == {1: ("a", 5, 1)}
    with pytest.raises(Unsupported, match="mode delta or changelog"):
        table.changes(1, 2, mode="diff").to_arrow()
    with pytest.raises(Invalid, match=r"sequence\.field"):
        _table(tmp_path, {"sequence.field": "w"})
