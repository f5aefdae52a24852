"""Tables whose buckets come with the keys (``bucket`` = -1, with a primary key)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Conflict, CorruptData, Invalid
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.index.hash_index import read_hash_index
from headwater.storage.index.index_file import HASH, IndexManifestEntry, index_file_path
from headwater.storage.index.manifest import index_entries
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.jobs.staged import commit_staged, staging_writer
from headwater.storage.jobs.write import WritePlan, write_rows
from headwater.storage.rows.bucket import key_hashes
from headwater.storage.snapshot.snapshot import CommitKind
from headwater.storage.write.table_writer import CommitMessage

SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), False), pa.field("k", pa.int64(), False), ("v", pa.string())]
)
Rows: TypeAlias = dict[tuple[int, int], str]
Task = TypeVar("Task")
Done = TypeVar("Done")
Step: TypeAlias = tuple[str, Sequence[tuple[int, int, str]]]


def _table(folder: Path, options: Mapping[str, str] | None = None) -> Table:
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    lake.drop_table("d.t", ignore_if_not_exists=True)
    return lake.create_table(
        "d.t",
        SCHEMA,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"dynamic-bucket.target-row-num": "5", **(options or {})},
    )


def _data(rows: Sequence[tuple[int, int, str]], kinds: Sequence[str] = ()) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    data = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)
    return data.append_column("_ROW_KIND", pa.array(kinds)) if kinds else data


def _many(partition: int, keys: Sequence[int], value: str = "v") -> pa.Table:
    return _data([(partition, key, value) for key in keys])


def _found(table: Table, where: str | None = None) -> Rows:
    rows = table.scan(where=where).to_arrow().to_pylist()
    values = {(row["p"], row["k"]): row["v"] for row in rows}
    assert len(values) == len(rows)
    return values


def _buckets(table: Table) -> dict[tuple[int, int], int]:
    """The bucket of each key, deleted ones included; a key is in one alone."""
    buckets: dict[tuple[int, int], int] = {}
    for split in table.scan().splits:
        for batch in table.scan(columns=["p", "k"]).read_split(split):
            for row in batch.to_pylist():
                assert buckets.setdefault((row["p"], row["k"]), split.bucket) == split.bucket
    return buckets


def _index(table: Table) -> dict[tuple[bytes, int], set[int]]:
    """The hashes of each bucket, as they are stored."""
    index: dict[tuple[bytes, int], set[int]] = {}
    for entry in index_entries(table.storage, table.latest_snapshot()):
        assert entry.index_file.index_type == HASH
        data = table.storage.files.read(
            index_file_path(table.storage, entry.partition, entry.bucket, entry.index_file)
        )
        hashes = np.frombuffer(data, ">i4").tolist()
        assert len(hashes) == len(set(hashes)) == entry.index_file.row_count
        assert (entry.partition, entry.bucket) not in index
        index[entry.partition, entry.bucket] = set(hashes)
    return index


def _check(table: Table, expected: Rows) -> None:
    assert _found(table) == expected
    buckets = _buckets(table)
    assert set(buckets) == set(expected)
    index = _index(table)
    by_partition: dict[bytes, list[int]] = {}
    for (partition, _), hashes in index.items():
        by_partition.setdefault(partition, []).extend(hashes)
    for every in by_partition.values():
        assert len(every) == len(set(every))
    partitions = {split.partition_values[0]: split.partition for split in table.scan().splits}
    types = [field.type for field in table.schema.key_fields]
    for (p, k), bucket in buckets.items():
        (hashed,) = key_hashes([pa.array([k], pa.int64())], types).tolist()
        assert hashed in index[partitions[p], bucket]


def _walk(folder: Path, steps: Sequence[Step], options: Mapping[str, str]) -> None:
    table = _table(folder, options)
    expected: Rows = {}
    for number, (step, rows) in enumerate(steps):
        values = [(p, k, f"{number}.{at}") for at, (p, k, _) in enumerate(rows)]
        if step == "write":
            table.write(_data(values, [kind for *_, kind in rows]))
            for (p, k, kind), (*_, v) in zip(rows, values, strict=True):
                expected.pop((p, k), None)
                if kind != "-D":
                    expected[p, k] = v
        elif step == "overwrite":
            table.overwrite(_data(values))
            partitions = {p for p, *_ in rows}
            expected = {key: v for key, v in expected.items() if key[0] not in partitions}
            expected |= {(p, k): v for p, k, v in values}
        elif step == "delete":
            table.delete("k IN (1, 2, 30)")
            expected = {key: v for key, v in expected.items() if key[1] not in (1, 2, 30)}
        elif step == "truncate":
            table.truncate()
            expected = {}
        elif step == "compact":
            table.compact()
        else:
            table.expire_snapshots(retain_max=1, retain_min=1)
        _check(table, expected)


KEYS = [(p, k, "+I") for p in (0, 1) for k in range(12)]
STEPS: Sequence[Step] = [
    ("write", KEYS),
    ("write", [(0, k, "+U") for k in (30, 3, 11, 40)]),
    ("compact", []),
    ("write", [(0, 3, "-D"), (1, 50, "-D"), (1, 3, "+U")]),
    ("delete", []),
    ("write", [(0, k, "+I") for k in (1, 3, 30)]),
    ("overwrite", [(1, k, "+I") for k in range(20, 0, -1)]),
    ("expire", []),
    ("write", [(1, k, "+I") for k in range(10, 30)]),
    ("truncate", []),
    ("write", [(0, 5, "+I")]),
]


@pytest.mark.modes
@pytest.mark.parametrize("options", [{}, {"dynamic-bucket.initial-buckets": "3"}])
def test_a_key_stays_in_its_bucket(tmp_path: Path, options: Mapping[str, str]) -> None:
    _walk(tmp_path, STEPS, options)


@pytest.mark.modes
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from(["write", "overwrite"]),
                st.lists(
                    st.tuples(st.integers(0, 1), st.integers(0, 40), st.sampled_from(["+I", "-D"])),
                    min_size=1,
                    max_size=20,
                    unique_by=lambda row: row[:2],
                ),
            ),
            st.tuples(st.sampled_from(["delete", "compact", "expire", "truncate"]), st.just(())),
        ),
        max_size=8,
    ),
    st.sampled_from(
        [
            {},
            {"dynamic-bucket.initial-buckets": "4"},
            {"dynamic-bucket.max-buckets": "2", "write-buffer-size": "64 b"},
            {"dynamic-bucket.max-buckets": "3", "dynamic-bucket.initial-buckets": "7"},
            {"index-file-in-data-file-dir": "true", "merge-engine": "aggregation"},
        ]
    ),
)
def test_keys_stay_in_their_buckets_in_any_order_of_operations(
    tmp_path: Path, steps: Sequence[Step], options: Mapping[str, str]
) -> None:
    if "merge-engine" in options:
        steps = [(step, [(p, k, "+I") for p, k, _ in rows]) for step, rows in steps]
        steps = [(step, rows) for step, rows in steps if step != "delete"]
    _walk(tmp_path, steps, options)


def test_buckets_are_filled_one_after_another(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(100, 107)))
    table.write(_many(1, [*range(90, 101), 106]))
    # Five keys each, in the order of writing.
    order = [*range(100, 107), *range(90, 100)]
    assert _buckets(table) == {(1, key): at // 5 for at, key in enumerate(order)}
    assert {split.total_buckets for split in table.scan().splits} == {-1}


def test_there_are_no_more_buckets_than_allowed(tmp_path: Path) -> None:
    table = _table(tmp_path, {"dynamic-bucket.max-buckets": "3"})
    table.write(_many(1, range(15)))
    assert set(_buckets(table).values()) == {0, 1, 2}
    table.write(_many(1, range(300)))
    sizes = np.bincount(list(_buckets(table).values()))
    assert len(sizes) == 3
    assert sizes.min() > 70
    _check(table, {(1, key): "v" for key in range(300)})


def test_initial_buckets_are_used_from_the_beginning(tmp_path: Path) -> None:
    table = _table(
        tmp_path, {"dynamic-bucket.initial-buckets": "4", "dynamic-bucket.target-row-num": "1000"}
    )
    table.write(_many(1, range(200)))
    assert set(_buckets(table).values()) == {0, 1, 2, 3}


def test_more_buckets_than_paimon_can_name_are_refused(tmp_path: Path) -> None:
    table = _table(tmp_path, {"dynamic-bucket.target-row-num": "1"})
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(Invalid, match=r"raise 'dynamic-bucket\.target-row-num'"):
        table.write(_many(1, range(32768)))
    assert sorted(tmp_path.rglob("*")) == files


@pytest.mark.parametrize("first", [(), (1, 2)])
def test_a_key_never_gets_two_buckets(tmp_path: Path, first: Sequence[int]) -> None:
    table = _table(tmp_path)
    table.write(_many(2, [1]))
    if first:
        table.write(_many(1, first))
    plan = WritePlan(table.storage).upon(table.pointer.latest())
    slow = write_rows(plan, _many(1, [*range(10, 20), 99], "slow"))
    # There, key 99 comes to the first bucket.
    table.write(_many(1, [99], "fast"))
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    with pytest.raises(Conflict, match="partition p=1"):
        plan.commit(table._new_commit(), slow, LocalExecutor())
    expected = {(1, key): "v" for key in first} | {(1, 99): "fast", (2, 1): "v"}
    _check(table, expected)
    # Nothing is left behind, index files included.
    after = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert set(after) <= set(before)
    assert not [name for name in after if "index-" in name.name and "manifest" not in name.name
                and name.stat().st_size == 44]  # fmt: skip


def test_a_key_that_moved_to_another_bucket_is_looked_up_again(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(10)))
    plan = WritePlan(table.storage).upon(table.pointer.latest())
    slow = write_rows(plan, _many(1, [9], "slow"))
    # Key 9 was in the second bucket, and is now in the first.
    table.overwrite(_many(1, [9, 8]))
    with pytest.raises(Conflict):
        plan.commit(table._new_commit(), slow, LocalExecutor())
    _check(table, {(1, 9): "v", (1, 8): "v"})


def test_writers_of_known_keys_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(10)))
    table.write(_many(2, range(10)))
    plan = WritePlan(table.storage).upon(table.pointer.latest())
    slow = write_rows(plan, _many(1, range(5, 10), "slow"))
    table.write(_many(1, range(8), "fast"))
    table.write(_many(2, range(100), "fast"))
    table.compact()
    assert plan.commit(table._new_commit(), slow, LocalExecutor()) is not None
    assert _found(table, "p = 1") == {(1, k): "fast" if k < 5 else "slow" for k in range(10)}


def test_a_write_starts_over_when_others_added_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(tmp_path)
    other = connect(str(tmp_path)).table("d.t")
    races = iter(range(3))
    commit = WritePlan.commit

    def overtaken(plan: WritePlan, *arguments: object, **more: object) -> object:
        number = next(races, None)
        if number is not None:
            with monkeypatch.context() as undone:
                undone.setattr(WritePlan, "commit", commit)
                other.write(_many(1, [*range(number * 10, number * 10 + 10), 77], "other"))
        return commit(plan, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(WritePlan, "commit", overtaken)
    # A stream of Arrow data that can be read once is kept for it.
    table.write(_many(1, [5, 77, 200], "mine"))
    expected = {(1, k): "other" for k in range(30)} | {(1, k): "mine" for k in (5, 77, 200)}
    _check(table, expected)


KEY_LISTS = st.lists(st.integers(0, 15), min_size=1, max_size=8, unique=True)


@pytest.mark.modes
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("begin"), st.integers(0, 2), KEY_LISTS),
            st.tuples(st.just("commit"), st.integers(0, 2), st.just([])),
            st.tuples(st.just("overwrite"), st.just(0), KEY_LISTS),
        ),
        max_size=14,
    ),
    st.sampled_from([{}, {"dynamic-bucket.initial-buckets": "3"}]),
)
@example([("begin", 0, [9]), ("overwrite", 0, [9, 8]), ("commit", 0, [])], {})
def test_writers_at_the_same_time_put_no_key_into_two_buckets(
    tmp_path: Path, steps: Sequence[tuple[str, int, Sequence[int]]], options: Mapping[str, str]
) -> None:
    table = _table(tmp_path, {"dynamic-bucket.target-row-num": "3", **options})
    table.write(_many(1, range(10), "first"))
    expected: Rows = {(1, key): "first" for key in range(10)}
    begun: dict[int, tuple[WritePlan, list[CommitMessage], Rows]] = {}
    for number, (step, writer, keys) in enumerate(steps):
        rows = {(1, key): str(number) for key in keys}
        if step == "begin":
            plan = WritePlan(table.storage).upon(table.pointer.latest())
            begun[writer] = plan, write_rows(plan, _many(1, keys, str(number))), rows
        elif step == "overwrite":
            table.overwrite(_many(1, keys, str(number)))
            expected = rows
        elif writer in begun:
            plan, messages, rows = begun.pop(writer)
            try:
                plan.commit(table._new_commit(), messages, LocalExecutor())
            except Conflict:
                continue
            expected = {**expected, **rows}
        _check(table, expected)


def test_rows_that_tasks_leave_are_placed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(7)))
    staged: list[CommitMessage] = []
    # Each task has keys of the others, and none of them a bucket.
    for task in range(3):
        with staging_writer(table.storage) as writer:
            writer.write(_many(1, [task, 50, 51, 60 + task], "new"))
            writer.write(_data([(1, 6, "")], ["-D"]))
            staged += writer.finish()
    assert {message.bucket for message in staged} == {POSTPONE_BUCKET}
    # A task whose job ended leaves an orphan.
    with staging_writer(table.storage) as writer:
        writer.write(_many(2, [1]))
        writer.finish()
    races = iter(range(2))
    commit = WritePlan.commit

    def overtaken(plan: WritePlan, *arguments: object, **more: object) -> object:
        if next(races, None) is not None:
            with monkeypatch.context() as undone:
                undone.setattr(WritePlan, "commit", commit)
                table.write(_many(1, [51, 80], "other"))
        return commit(plan, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(WritePlan, "commit", overtaken)
    commit_staged(WritePlan(table.storage), table._new_commit(), staged, LocalExecutor())
    new = {(1, key): "new" for key in (0, 1, 2, 50, 51, 60, 61, 62)}
    kept = {(1, key): "v" for key in (3, 4, 5)}
    _check(table, {**kept, **new, (1, 80): "other"})
    (orphan,) = tmp_path.rglob("bucket-postpone/*")
    rows = table.remove_orphan_files(older_than=timedelta(0))
    assert [Path(file.path).name for file in rows.files] == [orphan.name]
    assert not orphan.exists()


def test_a_difference_across_an_overwrite_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(10)))
    table.write(_many(1, [3, 20]))
    grown = table.changes(1, 2, mode="diff").to_arrow()
    assert sorted(zip(grown["_ROW_KIND"].to_pylist(), grown["k"].to_pylist(), strict=True)) == [
        ("+I", 20)
    ]
    # Key 9 was in the second bucket, and is now in the first.
    table.overwrite(_many(1, [9, 8]))
    with pytest.raises(Invalid, match="spread over other buckets"):
        table.changes(1, 3, mode="diff").to_arrow()


def test_damaged_indexes_are_named(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(7)))
    entries = index_entries(table.storage, table.latest_snapshot())
    name = entries[0].index_file.file_name
    (path,) = tmp_path.rglob(name)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(CorruptData, match=name):
        table.write(_many(1, [1]))
    path.unlink()
    with pytest.raises(CorruptData, match=name):
        table.write(_many(1, [1]))
    path.write_bytes(data)
    table.write(_many(1, [1], "new"))
    assert _found(table, "k = 1") == {(1, 1): "new"}


def test_files_without_an_index_are_refused(tmp_path: Path) -> None:
    table = _table(tmp_path)
    plan = WritePlan(table.storage).upon(None)
    (message,) = write_rows(plan, _many(1, [1]))
    forgotten = replace(message, new_index_files=())
    table._new_commit().commit([forgotten])
    assert _found(table) == {(1, 1): "v"}
    with pytest.raises(CorruptData, match="bucket 0 in partition p=1 has files but no hash index"):
        table.write(_many(1, [1]))
    (damage,) = table.check_files(deep=True).damages
    assert "has files but no hash index" in damage.problem
    assert table.rebuild_bucket_indexes() is not None
    assert table.check_files(deep=True).is_whole
    table.write(_many(1, [1, 2], "new"))
    assert _found(table) == {(1, 1): "new", (1, 2): "new"}


# Damaged indexes ------------------------------------------------------------------------------


def _index_file(table: Table, bucket: int = 0) -> tuple[IndexManifestEntry, Path]:
    (entry,) = (
        entry
        for entry in index_entries(table.storage, table.latest_snapshot())
        if entry.bucket == bucket
    )
    path = index_file_path(table.storage, entry.partition, bucket, entry.index_file)
    return entry, Path(path.removeprefix("file://"))


def _with_bit_changed(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _of_another_engine(table: Table, data: bytes, bucket: int = 0) -> Path:
    """Replace the index of a bucket by one whose name has no checksum."""
    entry, path = _index_file(table, bucket)
    other = path.with_name(f"index-{table.storage.runtime.new_uuid()}-0")
    other.write_bytes(data)
    made = replace(entry.index_file, file_name=other.name)
    message = CommitMessage(
        entry.partition, bucket, -1,
        new_index_files=(made,), deleted_index_files=(entry.index_file,),
    )  # fmt: skip
    table._new_commit().commit([message])
    return other


def test_every_changed_bit_of_an_index_is_found_on_reading(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(4)))
    entry, path = _index_file(table)
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        path.write_bytes(_with_bit_changed(data, bit))
        with pytest.raises(CorruptData, match=r"checksum mismatch.*indexes d\.t"):
            read_hash_index(table.storage, entry)
    for bit in (0, 77):
        path.write_bytes(_with_bit_changed(data, bit))
        with pytest.raises(CorruptData, match=path.name):
            table.write(_many(1, [1]))
        (damage,) = table.check_files().damages
        assert path.name in damage.problem
    path.write_bytes(data)
    assert table.check_files(deep=True).is_whole


def test_an_index_of_another_engine_is_compared_with_the_keys(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(4)))
    data = _index_file(table)[1].read_bytes()
    path = _of_another_engine(table, data)
    assert table.check_files(deep=True).is_whole
    assert table.rebuild_bucket_indexes() is None
    for bit in range(3, 8 * len(data), 17):
        path.write_bytes(_with_bit_changed(data, bit))
        (damage,) = table.check_files(deep=True).damages
        assert f"{path.name} lacks 1 of the 4 keys of bucket 0" in damage.problem
    path.write_bytes(data[:4] + data[:4] + data[8:])
    with pytest.raises(CorruptData, match="holds a hash twice"):
        table.write(_many(1, [1]))
    assert not table.check_files().is_whole


def test_a_damaged_index_is_rebuilt(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(12)))
    table.write(_many(2, [7]))
    table.delete("k = 3")
    before, buckets = _found(table), _buckets(table)
    others = {name: hashes for name, hashes in _index(table).items() if name[1] != 1}
    for damage in (lambda data: _with_bit_changed(data, 5), lambda data: data[:-1], None):
        _, path = _index_file(table, bucket=1)
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage(path.read_bytes()))
        rebuilt = table.rebuild_bucket_indexes()
        assert rebuilt is not None
        assert (rebuilt.commit_kind, rebuilt.delta_record_count) == (CommitKind.COMPACT, 0)
        assert table.rebuild_bucket_indexes() is None
        assert {n: own for n, own in _index(table).items() if n[1] != 1} == others
        table.write(_many(1, range(12), "v"))
        table.delete("k = 3")
        assert (_found(table), _buckets(table)) == (before, buckets)
    _check(table, before)


def test_only_chosen_partitions_are_rebuilt(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for partition in (1, 2):
        table.write(_many(partition, [7]))
    for entry in index_entries(table.storage, table.latest_snapshot()):
        path = index_file_path(table.storage, entry.partition, entry.bucket, entry.index_file)
        Path(path.removeprefix("file://")).write_bytes(b"1234")
    assert table.rebuild_bucket_indexes({"p": 1}) is not None
    table.write(_many(1, [7], "new"))
    with pytest.raises(CorruptData, match="hash index"):
        table.write(_many(2, [7], "new"))
    assert table.rebuild_bucket_indexes(where="p = 2") is not None
    table.write(_many(2, [7], "new"))
    assert _found(table) == {(1, 7): "new", (2, 7): "new"}


def test_a_key_in_two_buckets_is_named_and_not_chosen_from(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(5)))
    data = _index_file(table)[1].read_bytes()
    # As a changed bit does with an index of another engine: the key comes a second time.
    path = _of_another_engine(table, _with_bit_changed(data, 0))
    table.write(_many(1, range(5), "new"))
    assert table.scan().count() == 6
    problems = [damage.problem for damage in table.check_files(deep=True).damages]
    assert any(f"{path.name} lacks 1 of the 5 keys" in problem for problem in problems)
    with pytest.raises(CorruptData, match=r"bucket 0; .* bucket 1; nothing tells") as refused:
        table.rebuild_bucket_indexes()
    assert any(refused.value.message == problem for problem in problems)
    rows = table.scan().to_arrow().to_pylist()
    (key,) = (row["k"] for row in rows if row["v"] == "v")
    assert f"p=1, k={key} in bucket 0" in refused.value.message
    table.delete(f"k = {key}")
    assert table.scan().count() == 4
    # The key is nowhere now: what is left in the first bucket is that it was deleted.
    assert table.rebuild_bucket_indexes() is None
    assert table.check_files(deep=True).is_whole
    table.write(_many(1, range(5), "last"))
    _check(table, {(1, k): "last" for k in range(5)})


def test_indexes_that_share_a_hash_are_named_and_rebuilt(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(10)))
    first, second = (_index_file(table, bucket)[1].read_bytes() for bucket in (0, 1))
    _of_another_engine(table, first[:-4] + second[:4])
    with pytest.raises(CorruptData, match="buckets 0 and 1 in partition p=1 share 1 hashes"):
        table.write(_many(1, [1]))
    problems = [damage.problem for damage in table.check_files(deep=True).damages]
    assert any("share 1 hashes" in problem for problem in problems)
    assert table.rebuild_bucket_indexes() is not None
    assert table.check_files(deep=True).is_whole
    table.write(_many(1, range(10), "new"))
    _check(table, {(1, k): "new" for k in range(10)})


def test_a_rebuild_starts_over_when_rows_came_meanwhile(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.write(_many(1, range(5)))
    table.delete("k = 3")
    table.compact(full=True)
    _, path = _index_file(table)
    data = path.read_bytes()

    class Meanwhile(LocalExecutor):
        """Writes a key that only the old index knows while tasks run."""

        def run(self, function: Callable[[Task], Done], tasks: Sequence[Task]) -> Iterator[Done]:
            done = list(super().run(function, tasks))
            if not self.has_run:
                self.has_run = True
                path.write_bytes(data)
                table.write(_many(1, [3], "late"))
            return iter(done)

        has_run = False

    path.write_bytes(_with_bit_changed(data, 0))
    executor = Meanwhile(1)
    table.rebuild_bucket_indexes(executor=executor)
    assert executor.has_run
    # It fills the bucket, unless the index still has the other key.
    table.write(_many(1, [9], "new"))
    table.write(_many(1, range(5), "new"))
    _check(table, {(1, k): "new" for k in (*range(5), 9)})


def test_tables_without_hash_indexes_have_none_to_rebuild(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="it has none"):
        _table(tmp_path, {"bucket": "2"}).rebuild_bucket_indexes()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("dynamic-bucket.target-row-num", "0"),
        ("dynamic-bucket.max-buckets", "0"),
        ("dynamic-bucket.initial-buckets", "-1"),
        ("dynamic-bucket.assigner-parallelism", "0"),
    ],
)
def test_meaningless_numbers_are_refused(tmp_path: Path, option: str, value: str) -> None:
    with pytest.raises(Invalid, match=option):
        _table(tmp_path, {option: value})
