"""Compaction: same rows in fewer files, whatever the files were."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.modes import essential

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.compaction.plan import CompactionTask, plan_compaction
from headwater.storage.compaction.rewrite import run_compaction
from headwater.storage.errors import CorruptData
from headwater.storage.files.local import local_path
from headwater.storage.jobs.compact import compact_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.manifest.data_file import DataFile, FileSource, ManifestEntry
from headwater.storage.read.split import read_split
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.scan.plan import live_entries, plan_snapshot
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.data_type import DataField, parse_type
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import CommitMessage, TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("id", "BIGINT NOT NULL"), ("p", "STRING"), ("v", "INT")]


def latest(table: StoredTable) -> Snapshot:
    found = table.pointer.latest()
    assert found is not None
    return found


def commit(table: StoredTable, messages: Sequence[CommitMessage]) -> Snapshot | None:
    return TableCommit(table.storage, table.pointer, "me").commit(messages)


def write(table: StoredTable, rows: Mapping[str, Sequence[object]] | pa.Table) -> None:
    states = BucketStates(table.storage, table.pointer.latest())
    writer = TableWriter(table.storage, max_sequence_numbers=states)
    writer.write(rows)
    commit(table, writer.finish())


def tasks(table: StoredTable) -> list[CompactionTask]:
    return plan_compaction(table.storage, latest(table))


def compact(table: StoredTable) -> Snapshot | None:
    done = [run_compaction(table.storage, task) for task in tasks(table)]
    return commit(table, [message for message in done if message is not None])


def rows(table: StoredTable) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for split in plan_snapshot(table.storage, latest(table)).splits:
        for batch in read_split(table.storage, split):
            found += zip(*batch.to_pydict().values(), strict=True)
    return sorted(found, key=repr)


def entries(table: StoredTable) -> list[ManifestEntry]:
    return live_entries(table.storage, latest(table))


def content(table: StoredTable, entry: ManifestEntry) -> pa.Table:
    directory = bucket_directory(table.storage, entry.partition, entry.bucket)
    read: pa.Table = pq.ParquetFile(local_path(f"{directory}/{entry.file.file_name}")).read()
    return read


@pytest.mark.parametrize("seed", essential(range(6), {0, 5}))
def test_a_compacted_bucket_is_one_run_of_the_same_rows(new_table: NewTable, seed: int) -> None:
    options = {"bucket": "2", "target-file-size": "3 kb"}
    if seed % 2:
        options["sequence.field"] = "v"
    if seed % 3 == 2:
        options["data-file.thin-mode"] = "true"
    table = new_table(COLUMNS, primary_keys=["p", "id"], partition_keys=["p"], options=options)
    rng = np.random.default_rng(seed)
    for step in range(8):
        size = int(rng.integers(1, 3000))
        kinds = np.where(rng.random(size) < 0.2, "-D", "+I")
        write(
            table,
            pa.table(
                {
                    "id": rng.integers(0, 4000, size),
                    "p": rng.choice(["a", "b"], size),
                    "v": rng.integers(0, 50, size, np.int32),
                    "_ROW_KIND": kinds.tolist(),
                }
            ),
        )
        if step in (3, 6):
            before = rows(table)
            compact(table)
            assert rows(table) == before
    before = rows(table)
    snapshot = compact(table)
    assert snapshot is not None
    assert rows(table) == before
    assert snapshot.total_record_count == len(before)
    found = entries(table)
    assert all(e.file.level == 5 and e.file.delete_row_count == 0 for e in found)
    assert all(not split.needs_merge for split in plan_snapshot(table.storage, snapshot).splits)
    assert len(found) > 4
    assert compact(table) is None or rows(table) == before


def test_rows_keep_their_sequence_numbers_and_kinds(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    write(table, {"id": [1, 2, 3]})
    write(table, {"id": [2, 3, 4], "_ROW_KIND": ["+U", "-D", "+I"]})
    compact(table)
    (entry,) = entries(table)
    stored = content(table, entry)
    assert stored.column("id").to_pylist() == [1, 2, 4]
    assert stored.column("_SEQUENCE_NUMBER").to_pylist() == [0, 3, 5]
    assert stored.column("_VALUE_KIND").to_pylist() == [0, 2, 0]
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (0, 5)
    assert entry.file.file_source is FileSource.COMPACT
    write(table, {"id": [5]})
    assert max(e.file.max_sequence_number for e in entries(table)) == 6


def test_a_bucket_of_deletes_becomes_empty(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    write(table, {"id": [1, 2]})
    write(table, {"id": [1, 2, 3], "_ROW_KIND": ["-D"] * 3})
    compact(table)
    assert entries(table) == []
    assert rows(table) == []
    assert compact(table) is None


def test_a_single_file_moves_up_without_being_rewritten(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    write(table, {"id": [1, 2]})
    (before,) = entries(table)
    compact(table)
    (after,) = entries(table)
    assert after.file == before.file.at_level(5)
    assert compact(table) is None


def test_a_file_whose_manifest_hides_its_deletes_is_rewritten(new_table: NewTable) -> None:
    """Some writers say that no row retracts although one does."""
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    states = BucketStates(table.storage, None)
    writer = TableWriter(table.storage, max_sequence_numbers=states)
    writer.write({"id": [1, 2], "_ROW_KIND": ["-D", "+I"]})
    (message,) = writer.finish()
    lying = replace(message.new_files[0], delete_row_count=0)
    commit(table, [replace(message, new_files=(lying,))])
    compact(table)
    (entry,) = entries(table)
    assert content(table, entry).column("id").to_pylist() == [2]


def test_large_files_between_others_move_up_alone(new_table: NewTable) -> None:
    options = {"bucket": "1", "target-file-size": "1 kb"}
    table = new_table(COLUMNS, primary_keys=["id"], options=options)
    rng = np.random.default_rng(0)

    def values(*keys: int) -> dict[str, list[object]]:
        return {"id": list(keys), "v": rng.integers(0, 10**9, len(keys)).tolist()}

    write(table, values(1, 2))
    write(table, values(2, 3))
    write(table, values(*range(1000, 3000)))
    write(table, values(9000, 9001))
    write(table, values(9001, 9002))
    large = max((e.file for e in entries(table)), key=lambda file: file.row_count)
    expected = rows(table)
    compact(table)
    assert rows(table) == expected
    files = [e.file for e in entries(table)]
    assert large.at_level(5) in files
    assert sorted(file.row_count for file in files if file.row_count < 100) == [3, 3]


def test_a_large_file_with_deletes_is_rewritten(new_table: NewTable) -> None:
    options = {"bucket": "1", "target-file-size": "1 kb"}
    table = new_table(COLUMNS, primary_keys=["id"], options=options)
    kinds = ["-D"] + ["+I"] * 1999
    write(table, {"id": list(range(2000)), "_ROW_KIND": kinds})
    expected = rows(table)
    compact(table)
    assert rows(table) == expected
    assert 0 not in {x for e in entries(table) for x in content(table, e).column("id").to_pylist()}
    assert all(e.file.delete_row_count == 0 for e in entries(table))


def test_small_files_of_the_highest_level_are_put_together(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    for start in (0, 10):
        write(table, {"id": [start]})
        tiny = table.with_options(target_file_size="1 b")
        compact(tiny)
    assert [e.file.level for e in entries(table)] == [5, 5]
    compact(table)
    assert [e.file.row_count for e in entries(table)] == [2]


def test_files_added_meanwhile_are_merged_with_the_compacted(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    write(table, {"id": [1, 2, 3], "v": [1, 1, 1]})
    write(table, {"id": [2], "v": [2]})
    done = [run_compaction(table.storage, task) for task in tasks(table)]
    write(table, {"id": [1, 3, 4], "v": [3, 3, 3], "_ROW_KIND": ["+I", "-D", "+I"]})
    commit(table, [message for message in done if message is not None])
    assert rows(table) == [(1, None, 3), (2, None, 2), (4, None, 3)]
    compact(table)
    assert rows(table) == [(1, None, 3), (2, None, 2), (4, None, 3)]


@pytest.mark.parametrize("seed", range(4))
def test_writers_at_once_are_decided_once_and_for_all(new_table: NewTable, seed: int) -> None:
    """Writers that looked at the same snapshot give the same sequence numbers."""
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    rng = np.random.default_rng(seed)
    messages: list[CommitMessage] = []
    for number in range(4):
        writer = TableWriter(table.storage, max_sequence_numbers={})
        writer.write({"id": rng.permutation(6).tolist(), "v": [number] * 6})
        messages += writer.finish()
    for position in rng.permutation(4):
        commit(table, [messages[position]])
    before = rows(table)
    snapshot = latest(table)
    found = entries(table)
    for order in (found, found[::-1]):
        files = tuple(entry.file for entry in order)
        (split,) = plan_snapshot(table.storage, snapshot).splits
        shuffled = replace(split, files=files)
        batches = read_split(table.storage, shuffled)
        again = [row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)]
        assert sorted(again, key=repr) == before
    compact(table)
    assert rows(table) == before


def test_only_the_wanted_partitions_are_compacted(new_table: NewTable) -> None:
    table = new_table(
        COLUMNS, primary_keys=["p", "id"], partition_keys=["p"], options={"bucket": "1"}
    )
    for _ in range(2):
        write(table, {"id": [1, 2], "p": ["a", "b"]})
    partition = entries(table)[0].partition
    (task,) = plan_compaction(table.storage, latest(table), partitions=[partition])
    assert task.partition == partition
    assert pickle.loads(pickle.dumps(task)) == task


def test_rows_of_an_old_schema_take_the_new_one(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    write(table, {"id": [1, 2], "v": [1, 2]})
    schema = table.storage.schema
    fields = (
        schema.fields[0],
        replace(schema.fields[2], name="amount", type=parse_type("BIGINT")),
        DataField(3, "note", parse_type("STRING")),
    )
    newer = replace(schema, id=1, fields=fields, highest_field_id=3)
    table.storage.files.write(table.storage.layout.schema(1), newer.to_json().encode())
    table = replace(table, storage=table.storage.with_schema(newer))
    write(table, {"id": [2, 3], "amount": [2**40, 3], "note": ["x", "y"]})
    compact(table)
    (entry,) = entries(table)
    assert entry.file.schema_id == 1
    assert content(table, entry).select(["id", "amount", "note"]).to_pylist() == [
        {"id": 1, "amount": 1, "note": None},
        {"id": 2, "amount": 2**40, "note": "x"},
        {"id": 3, "amount": 3, "note": "y"},
    ]


def test_a_compaction_that_fails_leaves_no_file(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    write(table, {"id": list(range(1000)), "v": list(range(1000))})
    write(table, {"id": list(range(1000)), "v": list(range(1000))})
    write(table, {"id": [2000, 2001]})
    # What is read last, when files have been written already.
    last = max(entries(table), key=lambda entry: entry.file.min_sequence_number)
    victim = f"bucket-0/{last.file.file_name}"
    table = table.with_options(target_file_size="4 kb")
    path = f"{table.storage.layout.location}/{victim}"
    data = table.storage.files.read(path)
    table.storage.files.write(path, data[:-10])
    before = table.files_below()
    with pytest.raises(CorruptData, match=victim):
        compact(table)
    assert table.files_below() == before


# Append tables --------------------------------------------------------------------------------


def sizes(table: StoredTable) -> list[int]:
    return [file.row_count for file in in_order(table)]


def in_order(table: StoredTable) -> list[DataFile]:
    return sorted((e.file for e in entries(table)), key=lambda file: file.min_sequence_number)


def test_small_append_files_become_one(new_table: NewTable) -> None:
    table = new_table(COLUMNS, partition_keys=["p"])
    for number in range(6):
        write(table, {"id": [number, number + 10], "p": ["a", "b"]})
    before = rows(table)
    snapshot = compact(table)
    assert snapshot is not None
    assert snapshot.delta_record_count == 0
    assert rows(table) == before
    assert sizes(table) == [6, 6]
    assert compact(table) is None


def test_large_append_files_are_left_alone(new_table: NewTable) -> None:
    table = new_table(COLUMNS, options={"target-file-size": "5 kb"})
    rng = np.random.default_rng(0)
    write(table, {"id": rng.integers(0, 10**15, 3000).tolist()})
    large = {entry.file.file_name for entry in entries(table)}
    for number in range(3):
        write(table, {"id": [number]})
    before = rows(table)
    compact(table)
    assert rows(table) == before
    names = {entry.file.file_name for entry in entries(table)}
    assert large <= names
    assert len(names) == len(large) + 1


def test_a_bucket_of_an_append_table_keeps_its_order(new_table: NewTable) -> None:
    options = {"bucket": "1", "bucket-key": "id", "target-file-size": "5 kb"}
    table = new_table(COLUMNS, options=options)
    rng = np.random.default_rng(0)
    written: list[int] = []

    def add(values: list[int]) -> None:
        write(table, {"id": values})
        written.extend(values)

    add([5, 3])
    add([4])
    add(rng.integers(0, 10**15, 3000).tolist())
    add([2])
    add([1, 0])
    compact(table)
    found = [
        x
        for e in in_order(table)
        for x in content(table, replace(entries(table)[0], file=e)).column("id").to_pylist()
    ]
    assert found == written
    assert sizes(table)[0] == 3
    assert sizes(table)[-1] == 3
    add([9])
    assert sum(sizes(table)) == len(written)
    assert in_order(table)[-1].min_sequence_number == len(written) - 1


@pytest.mark.parametrize("keys", [["id"], []])
def test_all_files_are_rewritten_if_demanded(new_table: NewTable, keys: list[str]) -> None:
    options = {"bucket": "1", "bucket-key": "id", "compaction.small-file-ratio": "0"}
    table = new_table(COLUMNS, primary_keys=keys, options=options)
    write(table, {"id": [1, 2], "v": [1, 2]})
    write(table, {"id": [3, 4], "v": [3, 4]})
    compact(table)
    before, old = rows(table), {entry.file.file_name for entry in entries(table)}
    assert compact(table) is None
    forced = table.with_options(compaction__force_rewrite_all_files="true")
    for _ in range(2):
        assert compact(forced) is not None
        new = {entry.file.file_name for entry in entries(table)}
        assert not new & old
        assert rows(table) == before
        old = new


def test_partitions_that_expire_next_may_be_left_out(new_table: NewTable) -> None:
    options = {
        "bucket": "-1",
        "partition.expiration-time": "7 d",
        "partition.timestamp-formatter": "yyyyMMdd",
    }
    columns = [("id", "INT"), ("day", "STRING")]
    table = new_table(columns, partition_keys=["day"], options=options)
    for _ in range(2):
        # The clock stands at 2023-11-14.
        days = ["20231101", "20231106", "20231108", "none", None]
        write(table, {"id": [1, 2, 3, 4, 5], "day": days})

    def compacted(**more: str) -> set[str]:
        changed = table.with_options(**more)
        base = {entry.file.file_name: entry for entry in entries(table)}
        compact_table(changed.storage, table.pointer, LocalExecutor())
        left = {entry.file.file_name for entry in entries(table)}
        return {str(partition_values(table.storage, base[name].partition)[0])
                for name in base.keys() - left}  # fmt: skip

    skipping = {"compaction__skip_expired_partitions": "true"}
    assert compacted(**skipping) == {"20231108", "none", "None"}
    assert compacted(**skipping) == set()
    strategy = {"partition__expiration_strategy": "update-time"}
    assert compacted(**skipping, **strategy) == {"20231101", "20231106"}
