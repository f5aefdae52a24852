"""Reading tables whose rows are deleted by deletion vectors."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import CorruptData
from headwater.storage.files.local import local_path
from headwater.storage.index.deletion_files import replaced_vectors
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.index.manifest import index_entries
from headwater.storage.jobs.compact import compact_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.predicate.sql_text import parse_predicate
from headwater.storage.read.split import read_split
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.scan.plan import live_entries, plan_snapshot
from headwater.storage.scan.stream import StreamPosition, next_plan
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.table_writer import CommitMessage, TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("id", "BIGINT NOT NULL"), ("v", "BIGINT")]
MARKED = {"bucket": "1", "deletion-vectors.enabled": "true"}
SYSTEM = ("_SEQUENCE_NUMBER", "_VALUE_KIND")


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every hundred rows are a row group."""
    monkeypatch.setattr("headwater.storage.formats.parquet_writer._ROW_GROUP_ROWS", 100)


def latest(table: StoredTable) -> Snapshot:
    snapshot = table.pointer.latest()
    assert snapshot is not None
    return snapshot


def append(table: StoredTable, ids: Sequence[int]) -> None:
    writer = TableWriter(table.storage, max_sequence_numbers={})
    for start in range(0, len(ids), 100):
        part = list(ids[start : start + 100])
        writer.write(pa.table({"id": part, "v": [one * 2 for one in part]}))
    TableCommit(table.storage, table.pointer, "me").commit(writer.finish())


def level_file(table: StoredTable, level: int, rows: dict[int, int], *, first: int = 0) -> DataFile:
    """Commit one file of a primary-key table on a level, as a compaction would."""
    writer = DataFileWriter(table.storage, EMPTY_ROW, 0, level=level)
    numbers = range(first, first + len(rows))
    writer.write(
        pa.table(
            {
                "id": list(rows),
                "v": list(rows.values()),
                "_SEQUENCE_NUMBER": list(numbers),
                "_VALUE_KIND": pa.array([0] * len(rows), pa.int8()),
            }
        ).select(["id", "v", "_VALUE_KIND", "_SEQUENCE_NUMBER"])
    )
    (file,) = writer.finish()
    message = CommitMessage(EMPTY_ROW, 0, 1, new_files=(file,))
    TableCommit(table.storage, table.pointer, "me").commit([message])
    return file


def delete(table: StoredTable, file: DataFile, positions: Sequence[int]) -> None:
    present = index_entries(table.storage, latest(table))
    merge = {file.file_name: DeletionVector.from_positions(positions)}
    new, old = replaced_vectors(table.storage, present, EMPTY_ROW, 0, merge=merge)
    buckets = table.storage.schema.table_options.bucket
    message = CommitMessage(
        EMPTY_ROW, 0, buckets, new_index_files=tuple(new), deleted_index_files=tuple(old)
    )
    TableCommit(table.storage, table.pointer, "me").commit([message])


def read(
    table: StoredTable, where: str | None = None, columns: Sequence[str] | None = None
) -> list[tuple[int, ...]]:
    predicate = None if where is None else parse_predicate(where, table.storage.schema)
    rows: list[tuple[int, ...]] = []
    for split in plan_snapshot(table.storage, latest(table), predicate=predicate).splits:
        sent = pickle.loads(pickle.dumps(split))
        for batch in read_split(table.storage, sent, columns=columns, predicate=predicate):
            rows += zip(*batch.to_pydict().values(), strict=True)
    return sorted(rows)


def files(table: StoredTable) -> list[DataFile]:
    return [entry.file for entry in live_entries(table.storage, latest(table))]


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize(
    "options",
    [{}, {"file.format": "avro"}, {"file.format": "orc"}],
    ids=["parquet", "avro", "orc"],
)
def test_deleted_rows_are_left_out(new_table: NewTable, options: dict[str, str]) -> None:
    table = new_table(COLUMNS, options=options)
    append(table, range(1000))
    (file,) = files(table)
    if not options:
        path = f"{table.storage.layout.location}/bucket-0/{file.file_name}"
        assert pq.ParquetFile(local_path(path)).num_row_groups == 10
    chosen = random.Random(7).sample(range(1000), 300)
    delete(table, file, chosen[:200])
    delete(table, file, chosen[150:])
    left = sorted(set(range(1000)) - set(chosen))
    assert [one for one, _ in read(table)] == left
    assert [two for (two,) in read(table, columns=["v"])] == [2 * one for one in left]
    # Whole row groups are left out, and the positions of the others stay.
    for where, wanted in (
        ("id >= 730", range(730, 1000)),
        ("id BETWEEN 215 AND 216 OR id = 901", (215, 216, 901)),
    ):
        assert [one for one, _ in read(table, where)] == sorted(set(wanted) & set(left))
    plan = plan_snapshot(table.storage, latest(table))
    assert sum(split.row_count for split in plan.splits) == 700
    assert all(split.is_counted for split in plan.splits)
    counted = [
        batch.num_rows
        for split in plan.splits
        for batch in read_split(table.storage, split, columns=[])
    ]
    assert sum(counted) == 700
    # A snapshot knows the rows that were deleted when it was made.
    first = plan_snapshot(table.storage, table.storage.snapshot(1))
    assert sum(split.row_count for split in first.splits) == 1000


def test_a_vector_beyond_its_file_is_refused(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    append(table, range(5))
    (file,) = files(table)
    delete(table, file, [5])
    with pytest.raises(CorruptData, match="which has 5 rows"):
        read(table)


def test_a_damaged_or_missing_index_file_is_named(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    append(table, range(50))
    (file,) = files(table)
    delete(table, file, range(0, 50, 3))
    (entry,) = index_entries(table.storage, latest(table))
    path = table.storage.layout.index(entry.index_file.file_name)
    whole = table.storage.files.read(path)
    for bad in (whole[:-2], whole[:-2] + b"xx", b"", whole[:9]):
        table.storage.files.write(path, bad)
        with pytest.raises(CorruptData, match=entry.index_file.file_name):
            read(table)
    table.storage.files.delete(path)
    with pytest.raises(CorruptData, match=entry.index_file.file_name):
        read(table)
    table.storage.files.delete(table.storage.layout.manifest(str(latest(table).index_manifest)))
    with pytest.raises(CorruptData, match="index-manifest"):
        read(table)


@pytest.mark.parametrize(
    "options", [{}, {"bucket": "1", "bucket-key": "id"}], ids=["plain", "bucket"]
)
def test_compaction_drops_deleted_rows_and_their_vectors(
    new_table: NewTable, options: dict[str, str]
) -> None:
    table = new_table(COLUMNS, options=options)
    for start in range(0, 40, 10):
        append(table, range(start, start + 10))
    every = sorted(files(table), key=lambda file: file.creation_time or 0)
    for file in every[:3]:
        delete(table, file, range(3, 8))
    left = [one for one in range(40) if one % 10 not in range(3, 8) or one >= 30]
    before = read(table)
    assert [one for one, _ in before] == left
    snapshot = compact_table(table.storage, table.pointer, LocalExecutor())
    assert snapshot is not None
    assert snapshot.index_manifest is None
    (file,) = files(table)
    assert file.row_count == len(left)
    assert read(table) == before
    assert compact_table(table.storage, table.pointer, LocalExecutor()) is None


def test_only_files_with_many_deleted_rows_are_rewritten_by_themselves(
    new_table: NewTable,
) -> None:
    table = new_table(COLUMNS, options={"target-file-size": "1 b"})
    append(table, range(100))
    append(table, range(100, 200))
    few, many = files(table)
    delete(table, few, range(20))
    delete(table, many, range(21))
    compact_table(table.storage, table.pointer, LocalExecutor())
    assert sorted(file.row_count for file in files(table)) == [79, 100]
    assert [
        entry.index_file.row_count for entry in index_entries(table.storage, latest(table))
    ] == [1]
    assert len(read(table)) == 159


# Tables with a primary key ----------------------------------------------------------------------


def marked(new_table: NewTable, **more: str) -> StoredTable:
    """Key 1 to 4 on level 5; 2 and 3 newer on level 3, where 3 is marked below; 4 on level 0."""
    table = new_table(COLUMNS, primary_keys=["id"], options={**MARKED, **more})
    low = level_file(table, 5, {1: 10, 2: 20, 3: 30, 4: 40})
    level_file(table, 3, {2: 21, 3: 31}, first=4)
    delete(table, low, [1, 2])
    level_file(table, 0, {4: 42, 5: 52}, first=6)
    return table


def test_marked_rows_need_no_merge_and_level_0_waits(new_table: NewTable) -> None:
    table = marked(new_table)
    plan = plan_snapshot(table.storage, latest(table))
    assert not any(split.needs_merge for split in plan.splits)
    assert read(table) == [(1, 10), (2, 21), (3, 31), (4, 40)]
    # Each file answers for itself, whatever others hold of its keys.
    assert read(table, "v < 31") == [(1, 10), (2, 21)]
    pruned = plan_snapshot(
        table.storage, latest(table), predicate=parse_predicate("v = 10", table.storage.schema)
    )
    assert [file.level for split in pruned.splits for file in split.files] == [5]


def test_merge_on_read_shows_level_0(new_table: NewTable) -> None:
    table = marked(new_table, **{"deletion-vectors.merge-on-read": "true"})
    assert read(table) == [(1, 10), (2, 21), (3, 31), (4, 42), (5, 52)]
    assert read(table, "v > 40") == [(4, 42), (5, 52)]
    assert read(table, "v = 30") == []


def test_vectors_are_heeded_when_the_option_is_off(new_table: NewTable) -> None:
    table = marked(new_table).with_options(**{"deletion-vectors.enabled": "false"})
    (low,) = (file for file in files(table) if file.level == 5)
    delete(table, low, [0])
    assert read(table) == [(2, 21), (3, 31), (4, 42), (5, 52)]


def test_a_stream_begins_with_level_0_and_goes_on_with_what_is_new(new_table: NewTable) -> None:
    table = marked(new_table)
    plan, following = next_plan(
        table.storage, StreamPosition(latest(table).id, changes=False), latest(table)
    )
    assert plan is not None
    begun = [
        row
        for split in plan.splits
        for batch in read_split(table.storage, split)
        for row in zip(*batch.to_pydict().values(), strict=True)
    ]
    assert sorted(begun) == [(1, 10), (2, 21), (3, 31), (4, 42), (5, 52)]
    level_file(table, 0, {6: 60}, first=8)
    plan, _ = next_plan(table.storage, following, latest(table))
    assert plan is not None
    assert [
        batch.to_pylist() for split in plan.splits for batch in read_split(table.storage, split)
    ] == [[{"id": 6, "v": 60}]]
