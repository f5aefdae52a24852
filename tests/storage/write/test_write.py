"""Writing rows: how they are spread over files, and what the files and their descriptions hold."""

from __future__ import annotations

import itertools
import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.files.local import local_path
from headwater.storage.manifest.data_file import DataFile, FileSource
from headwater.storage.rows.binary_row import EMPTY_ROW, deserialize_row
from headwater.storage.rows.bucket import bucket_numbers
from headwater.storage.rows.partition import bucket_directory, partition_values
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import parse_type
from headwater.storage.write.assign.postponed import POSTPONED
from headwater.storage.write.table_writer import CommitMessage, SequenceNumbers, TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

BIGINT = parse_type("BIGINT NOT NULL")
COLUMNS = [("id", "BIGINT NOT NULL"), ("name", "STRING"), ("v", "INT")]
UNORDERED = [
    pa.table({"id": np.random.default_rng(seed).integers(0, 10**6, size), "name": ["n"] * size})
    for seed, size in enumerate((12_000, 8000))
]


def write(
    table: StoredTable,
    *batches: pa.Table,
    kinds: list[str] | None = None,
    sequences: SequenceNumbers | None = None,
    buffer_bytes: int | None = None,
) -> list[CommitMessage]:
    writer = TableWriter(
        table.storage, max_sequence_numbers=sequences or {}, buffer_bytes=buffer_bytes
    )
    for batch in batches:
        writer.write(batch, pa.array(kinds) if kinds is not None else None)
    return writer.finish()


def content(table: StoredTable, message: CommitMessage, file: DataFile) -> pa.Table:
    directory = bucket_directory(table.storage, message.partition, message.bucket)
    read: pa.Table = pq.ParquetFile(local_path(f"{directory}/{file.file_name}")).read()
    return read


def test_a_primary_key_file_is_sorted_distinct_and_described_truly(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    rows = pa.table({"id": [3, 1, 3, 2], "name": ["a" * 20, "b", "c", None], "v": [1, 2, 3, None]})
    (message,) = write(table, rows, kinds=["+I", "+I", "-D", "+U"], sequences={(EMPTY_ROW, 0): 9})
    (file,) = message.new_files
    assert (message.partition, message.bucket, message.total_buckets) == (EMPTY_ROW, 0, 1)
    assert message.changelog_files == ()
    stored = content(table, message, file)
    assert stored.column_names == [
        "_KEY_id",
        "_SEQUENCE_NUMBER",
        "_VALUE_KIND",
        "id",
        "name",
        "v",
    ]
    assert [tuple(row.values()) for row in stored.to_pylist()] == [
        (1, 11, 0, 1, "b", 2),
        (2, 13, 2, 2, None, None),
        (3, 12, 3, 3, "c", 3),
    ]
    assert file.row_count == 3
    assert file.delete_row_count == 1
    assert (file.min_sequence_number, file.max_sequence_number) == (11, 13)
    assert deserialize_row(file.min_key, [BIGINT]) == (1,)
    assert deserialize_row(file.max_key, [BIGINT]) == (3,)
    types = [f.type for f in table.storage.schema.fields]
    assert deserialize_row(file.value_stats.min_values, types) == (1, "b", 2)
    assert deserialize_row(file.value_stats.max_values, types) == (3, "c", 3)
    assert file.value_stats.null_counts == (0, 1, 1)
    assert (file.level, file.schema_id, file.file_source) == (0, 0, FileSource.APPEND)
    assert file.file_size > 0
    assert file.file_name.startswith("data-")
    assert file.file_name.endswith("-0.parquet")


def test_the_newest_row_is_chosen_by_the_sequence_field_before_arrival(
    new_table: NewTable,
) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1", "sequence.field": "v"})
    rows = pa.table({"id": [1, 1, 1, 2, 2], "name": list("abcde"), "v": [5, 7, 7, None, 1]})
    (message,) = write(table, rows)
    stored = content(table, message, message.new_files[0])
    assert stored.column("name").to_pylist() == ["c", "e"]


def test_rows_are_spread_by_partition_and_bucket(new_table: NewTable) -> None:
    count = 500
    days = pa.array([None if i % 7 == 0 else i % 3 for i in range(count)], pa.int32())
    rows = pa.table(
        {
            "dt": days.cast(pa.date32()),
            "hour": pa.array([i % 2 for i in range(count)], pa.int32()),
            "id": pa.array(range(count), pa.int64()),
            "v": pa.array([str(i) for i in range(count)]),
        }
    )
    table = new_table(
        [("dt", "DATE"), ("hour", "INT"), ("id", "BIGINT NOT NULL"), ("v", "STRING")],
        partition_keys=["dt", "hour"],
        options={"bucket": "3", "bucket-key": "id"},
    )
    messages = write(table, rows)
    seen: list[int] = []
    for message in messages:
        (file,) = message.new_files
        stored = content(table, message, file)
        assert stored.column_names == ["dt", "hour", "id", "v"]
        (day, hour) = partition_values(table.storage, message.partition)
        assert set(stored.column("dt").cast(pa.int32()).to_pylist()) == {day}
        assert set(stored.column("hour").to_pylist()) == {hour}
        ids = stored.column("id")
        assert set(bucket_numbers([ids], [BIGINT], 3)) == {message.bucket}
        assert ids.to_pylist() == sorted(ids.to_pylist())
        assert (file.min_key, file.max_key, file.delete_row_count) == (EMPTY_ROW, EMPTY_ROW, 0)
        assert (file.min_sequence_number, file.max_sequence_number) == (0, len(ids) - 1)
        seen += ids.to_pylist()
    assert sorted(seen) == list(range(count))
    assert len({(m.partition, m.bucket) for m in messages}) == len(messages) == 4 * 2 * 3
    paths = table.files_below()
    assert any(path.startswith("dt=__DEFAULT_PARTITION__/hour=1/bucket-2/data-") for path in paths)
    assert any(path.startswith("dt=2/hour=0/bucket-0/data-") for path in paths)


def test_an_unbucketed_table_has_one_directory_and_no_total(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    (message,) = write(table, pa.table({"id": [2, 1], "name": ["x", "y"]}))
    assert (message.bucket, message.total_buckets) == (0, -1)
    assert content(table, message, message.new_files[0]).column("id").to_pylist() == [2, 1]
    assert [p for p in table.files_below() if p.startswith("bucket-0/data-")]


def test_append_files_continue_the_bucket_s_sequence_numbers(new_table: NewTable) -> None:
    table = new_table(COLUMNS, options={"bucket": "1", "bucket-key": "id"})
    asked: list[tuple[bytes, int]] = []

    def last(partition: bytes, bucket: int) -> int:
        asked.append((partition, bucket))
        return 41

    (message,) = write(
        table,
        pa.table({"id": list(range(10))}),
        pa.table({"id": list(range(10))}),
        sequences=last,
        buffer_bytes=1,
    )
    assert asked == [(EMPTY_ROW, 0)]
    spans = [(f.min_sequence_number, f.max_sequence_number) for f in message.new_files]
    assert spans == [(42, 61)]


def test_memory_is_bounded_by_flushing_and_order_survives(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    first = pa.table({"id": list(range(1000)), "name": ["old"] * 1000})
    second = pa.table({"id": list(range(0, 1000, 2)), "name": ["new"] * 500})
    (message,) = write(table, first, second, buffer_bytes=4000)
    assert len(message.new_files) > 3
    newest: dict[int, tuple[int, str]] = {}
    for file in message.new_files:
        for row in content(table, message, file).to_pylist():
            version = newest.get(row["id"], (-1, ""))
            newest[row["id"]] = max(version, (row["_SEQUENCE_NUMBER"], row["name"]))
    assert {k: name for k, (_, name) in newest.items()} == {
        i: "old" if i % 2 else "new" for i in range(1000)
    }
    spans = sorted((f.min_sequence_number, f.max_sequence_number) for f in message.new_files)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(spans))


@pytest.mark.parametrize("keys", [["id"], ["name"], ["name", "id"]])
@pytest.mark.parametrize("order", ["ascending", "repeated", "swapped", "unsorted"])
def test_rows_are_written_alike_in_parts_and_as_one(
    new_table: NewTable, keys: list[str], order: str
) -> None:
    columns = [("id", "BIGINT NOT NULL"), ("name", "STRING NOT NULL"), ("v", "INT")]
    table = new_table(columns, primary_keys=keys, options={"bucket": "1"})
    numbers = np.arange(30_000)
    if order == "repeated":
        # The last key of a part is the first one of the next.
        numbers[10_000:] -= 1
    elif order == "swapped":
        numbers[9_999:10_001] = numbers[9_999:10_001][::-1]
    elif order == "unsorted":
        numbers[15_000:16_000] = numbers[15_000:16_000][::-1]
    names = [f"name {number:09}" for number in numbers.tolist()]
    rows = pa.table({"id": numbers, "name": names, "v": np.arange(30_000, dtype=np.int32)})
    parts = [rows.slice(start, 10_000) for start in range(0, 30_000, 10_000)]
    (whole,), (divided,) = write(table, rows), write(table, *parts)
    (file,), (other,) = whole.new_files, divided.new_files
    assert content(table, divided, other).equals(content(table, whole, file))
    assert content(table, divided, other).column("id").to_pylist() == sorted(set(numbers.tolist()))
    other = replace(other, file_name=file.file_name, file_size=file.file_size)
    assert replace(other, creation_time=file.creation_time) == file


def test_rows_that_are_in_order_are_not_copied_to_be_written(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    storage = replace(table.storage, runtime=SYSTEM_RUNTIME)
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        ascending, descending = processes.map(peak_of_writing, [storage] * 2, [1, -1])
    # Sorting copies all rows, and to gather them before would be another copy.
    assert ascending < descending / 2


def peak_of_writing(storage: TableStorage, step: int) -> int:
    """The most bytes that Arrow holds in a process that writes 20 MB of rows in parts."""
    rows = pa.table({"id": np.arange(200_000)[::step], "name": ["x" * 100] * 200_000})
    writer = TableWriter(storage, max_sequence_numbers={})
    for start in range(0, 200_000, 20_000):
        writer.write(rows.slice(start, 20_000))
    writer.finish()
    return int(pa.default_memory_pool().max_memory())


def test_large_parts_keep_their_order_in_a_table_without_a_key(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    (message,) = write(table, *UNORDERED)
    (file,) = message.new_files
    stored = content(table, message, file).select(["id", "name"])
    assert stored.equals(pa.concat_tables(UNORDERED).cast(stored.schema))


def test_large_parts_keep_their_order_where_buckets_are_postponed(new_table: NewTable) -> None:
    options = {"bucket": str(POSTPONE_BUCKET)}
    table = new_table(COLUMNS, primary_keys=["id"], options=options)
    writer = TableWriter(table.storage, max_sequence_numbers={}, assigner=POSTPONED)
    for part in UNORDERED:
        writer.write(part)
    (message,) = writer.finish()
    (file,) = message.new_files
    directory = bucket_directory(table.storage, message.partition, message.bucket)
    with Path(local_path(f"{directory}/{file.file_name}")).open("rb") as stored:
        rows = pa.Table.from_pylist(list(fastavro.reader(stored)))
    assert rows.column("id").to_pylist() == pa.concat_tables(UNORDERED).column("id").to_pylist()


def test_the_last_of_two_writes_wins_within_one_file(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    (message,) = write(
        table, pa.table({"id": [1, 2], "v": [1, 1]}), pa.table({"id": [2, 3], "v": [2, 2]})
    )
    (file,) = message.new_files
    assert content(table, message, file).column("v").to_pylist() == [1, 2, 2]


def test_sequence_numbers_go_on_in_files_that_were_closed_for_others(new_table: NewTable) -> None:
    table = new_table(COLUMNS, options={"bucket": "8", "bucket-key": "id"})
    batches = [pa.table({"id": list(range(100))}) for _ in range(3)]
    messages = write(table, *batches, buffer_bytes=1000)
    assert len(messages) == 8
    for message in messages:
        spans = [(f.min_sequence_number, f.max_sequence_number) for f in message.new_files]
        assert len(spans) > 1
        assert spans[0][0] == 0
        assert all(b[0] == a[1] + 1 for a, b in itertools.pairwise(spans))


def test_the_range_of_a_column_counts_parts_without_values(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    values = pa.array([None] * 70_000 + [7] + [None] * 70_000, pa.int32())
    (message,) = write(table, pa.table({"id": list(range(140_001)), "v": values}))
    (file,) = message.new_files
    types = [f.type for f in table.storage.schema.fields]
    assert deserialize_row(file.value_stats.min_values, types) == (0, None, 7)
    assert deserialize_row(file.value_stats.max_values, types) == (140_000, None, 7)
    assert file.value_stats.null_counts == (0, 140_001, 140_000)


def test_a_full_buffer_writes_the_fullest_of_many_buckets(new_table: NewTable) -> None:
    table = new_table([("p", "INT"), ("v", "BIGINT")], partition_keys=["p"])
    rng = np.random.default_rng(1)
    batches = [
        pa.table(
            {
                "p": pa.array(np.r_[np.zeros(400), rng.integers(0, 60, 600)].astype(np.int32)),
                "v": pa.array(rng.integers(0, 10**6, 1000)),
            }
        )
        for _ in range(10)
    ]
    messages = write(table, *batches, buffer_bytes=20_000)
    total = pa.concat_tables(batches)
    files = [content(table, message, file) for message in messages for file in message.new_files]
    assert len(messages) == 60
    assert sorted(pa.concat_tables(files).column("v").to_pylist()) == sorted(
        total.column("v").to_pylist()
    )
    # Small partitions waited for more rows instead of getting a file at each flush.
    assert np.median([len(m.new_files) for m in messages]) < 5


def test_files_roll_at_the_target_size(new_table: NewTable) -> None:
    table = new_table(
        COLUMNS, primary_keys=["id"], options={"bucket": "1", "target-file-size": "1 mb"}
    )
    count = 600_000
    rng = np.random.default_rng(0)
    rows = pa.table(
        {
            "id": pa.array(rng.permutation(count)),
            "v": pa.array(rng.integers(0, 2**31 - 1, count, np.int32)),
        }
    )
    (message,) = write(table, rows)
    assert len(message.new_files) > 2
    assert sum(f.row_count for f in message.new_files) == count
    ends = [
        (deserialize_row(f.min_key, [BIGINT])[0], deserialize_row(f.max_key, [BIGINT])[0])
        for f in message.new_files
    ]
    assert ends == sorted(ends)
    parts = [content(table, message, f).column("id").to_pylist() for f in message.new_files]
    assert [x for part in parts for x in part] == list(range(count))
    for file, part in zip(message.new_files, parts, strict=True):
        low, high = (
            deserialize_row(v, [f.type for f in table.storage.schema.fields])[0]
            for v in (file.value_stats.min_values, file.value_stats.max_values)
        )
        assert (low, high) == (part[0], part[-1])
        assert file.value_stats.null_counts == (0, len(part), 0)


def test_a_changelog_keeps_every_input_row(new_table: NewTable) -> None:
    table = new_table(
        COLUMNS, primary_keys=["id"], options={"bucket": "1", "changelog-producer": "input"}
    )
    rows = pa.table({"id": [2, 1, 1], "name": ["x", "old", "new"]})
    (message,) = write(table, rows, kinds=["+I", "-U", "+U"])
    (changelog,) = message.changelog_files
    assert changelog.file_name.startswith("changelog-")
    stored = content(table, message, changelog)
    pairs = zip(
        stored.column("_VALUE_KIND").to_pylist(), stored.column("name").to_pylist(), strict=True
    )
    assert list(pairs) == [(1, "old"), (2, "new"), (0, "x")]
    assert content(table, message, message.new_files[0]).column("name").to_pylist() == ["new", "x"]


def test_thin_files_leave_the_keys_to_the_values(new_table: NewTable) -> None:
    table = new_table(
        COLUMNS, primary_keys=["id"], options={"bucket": "1", "data-file.thin-mode": "true"}
    )
    (message,) = write(table, pa.table({"id": [5, 4]}))
    stored = content(table, message, message.new_files[0])
    assert stored.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "id", "name", "v"]
    assert deserialize_row(message.new_files[0].min_key, [BIGINT]) == (4,)


def test_kinds_come_from_a_column_too(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    (message,) = write(table, pa.table({"id": [1, 2], "_ROW_KIND": ["+I", "-d"]}))
    stored = content(table, message, message.new_files[0])
    assert stored.column("_VALUE_KIND").to_pylist() == [0, 3]
    named = new_table(
        COLUMNS, primary_keys=["id"], options={"bucket": "1", "rowkind.field": "name"}
    )
    (message,) = write(named, pa.table({"id": [1, 2], "name": ["+U", "-D"]}))
    stored = content(named, message, message.new_files[0])
    assert stored.column("_VALUE_KIND").to_pylist() == [2, 3]
    assert stored.column("name").to_pylist() == ["+U", "-D"]


@pytest.mark.parametrize(
    ("option", "kept"),
    [("ignore-delete", ["a", "d"]), ("ignore-update-before", ["a", "c", "d"])],
)
def test_ignored_kinds_are_dropped(new_table: NewTable, option: str, kept: list[str]) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1", option: "true"})
    rows = pa.table({"id": [1, 2, 3, 4], "name": list("abcd")})
    (message,) = write(table, rows, kinds=["+I", "-U", "-D", "+U"])
    stored = content(table, message, message.new_files[0])
    assert stored.column("name").to_pylist() == kept


def test_an_append_table_takes_no_row_back(new_table: NewTable) -> None:
    rows = pa.table({"id": [1, 2], "_ROW_KIND": ["+I", "-D"]})
    table = new_table(COLUMNS)
    with pytest.raises(Invalid, match="no primary key"):
        write(table, rows)
    assert table.files_below("bucket-0") == []
    (message,) = write(new_table(COLUMNS, options={"ignore-delete": "true"}), rows)
    assert message.new_files[0].row_count == 1


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (pa.array(["+I"]), "2 rows have 1 row kinds"),
        (pa.array(["+I", "x"]), "'x' are unknown; use"),
        (pa.array(["+I", None]), "None are unknown; use"),
        (pa.array([0, 4]), "4 are unknown; use"),
        (pa.array([0.0, 1.0]), "names or numbers"),
    ],
)
def test_wrong_kinds_are_refused(new_table: NewTable, kinds: pa.Array, message: str) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    writer = TableWriter(table.storage, max_sequence_numbers={})
    with pytest.raises(Invalid, match=message):
        writer.write(pa.table({"id": [1, 2]}), kinds)


def test_a_refused_batch_leaves_the_writer_usable(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    writer = TableWriter(table.storage, max_sequence_numbers={})
    writer.write(pa.table({"id": [1]}))
    with pytest.raises(Invalid, match="column 'id' is NOT NULL, but 1 of 2"):
        writer.write(pa.table({"id": pa.array([2, None])}))
    (message,) = writer.finish()
    assert content(table, message, message.new_files[0]).column("id").to_pylist() == [1]


def test_an_aborted_write_leaves_no_file(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    writer = TableWriter(table.storage, max_sequence_numbers={}, buffer_bytes=1)

    def fail() -> None:
        with writer:
            writer.write(pa.table({"id": list(range(100))}))
            assert table.files_below("bucket-0") != []
            writer.write(pa.table({"z": [1]}))

    with pytest.raises(Invalid, match="no column 'z'"):
        fail()
    assert table.files_below("bucket-0") == []
    with pytest.raises(Invalid, match="finished or aborted"):
        writer.finish()


def test_a_failing_flush_deletes_what_was_written(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "2"})
    calls = 0

    def last(partition: bytes, bucket: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Invalid("the second bucket is not to be had")
        return -1

    writer = TableWriter(table.storage, max_sequence_numbers=last)
    writer.write(pa.table({"id": list(range(100))}))
    with pytest.raises(Invalid, match="second bucket"):
        writer.finish()
    assert [p for p in table.files_below() if "bucket-" in p] == []


def test_nothing_written_is_no_message(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "2"})
    assert write(table) == []
    assert write(table, pa.table({"id": pa.array([], pa.int64())})) == []


def test_messages_pickle(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    messages = write(table, pa.table({"id": [1]}))
    assert pickle.loads(pickle.dumps(messages)) == messages


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("file.format", "csv"),
        ("metadata.iceberg.storage", "table-location"),
    ],
)
def test_options_that_are_not_followed_are_refused(
    new_table: NewTable, key: str, value: str
) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1", key: value})
    with pytest.raises(Unsupported, match=f"{key}={value}"):
        TableWriter(table.storage, max_sequence_numbers={})
