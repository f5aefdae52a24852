"""Tables of Avro or ORC files, or of more than one format: written, read, compacted, evolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pytest

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.compaction.plan import plan_compaction
from headwater.storage.compaction.rewrite import run_compaction
from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.read.split import read_split
from headwater.storage.scan.plan import live_entries, plan_changelog, plan_snapshot
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import SnapshotPointer, TableStorage
from headwater.storage.types.data_type import DataField, Json, parse_type
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import TableWriter


class Stored(Protocol):
    storage: TableStorage
    pointer: SnapshotPointer

    def files_below(self, inner: str = "") -> list[str]: ...
    def with_options(self, **options: str) -> Stored: ...


NewTable = Callable[..., Stored]
Row = Mapping[str, Any]

FORMATS = pytest.mark.parametrize("file_format", ["avro", "orc"])
COLUMNS = (("k", "INT NOT NULL"), ("v", "STRING"), ("n", "BIGINT"))


def write(table: Stored, rows: Sequence[Row], kinds: Sequence[str] | None = None) -> Snapshot:
    states = BucketStates(table.storage, table.pointer.latest())
    writer = TableWriter(table.storage, max_sequence_numbers=states)
    data = pa.Table.from_pylist([dict(row) for row in rows], table.storage.schema.arrow)
    writer.write(data, None if kinds is None else pa.array(kinds))
    found = TableCommit(table.storage, table.pointer, "writer").commit(writer.finish())
    assert found is not None
    return found


def compact(table: Stored) -> None:
    latest = table.pointer.latest()
    assert latest is not None
    done = [run_compaction(table.storage, task) for task in plan_compaction(table.storage, latest)]
    TableCommit(table.storage, table.pointer, "writer").commit([m for m in done if m is not None])


def rows_of(table: Stored, where: str | None = None) -> list[Row]:
    latest = table.pointer.latest()
    assert latest is not None
    predicate = None if where is None else parse_predicate(where, table.storage.schema)
    splits = plan_snapshot(table.storage, latest, predicate=predicate).splits
    found = [
        row
        for split in splits
        for batch in read_split(table.storage, split, predicate=predicate)
        for row in batch.to_pylist()
    ]
    return sorted(found, key=lambda row: int(row["k"]))


def extensions(table: Stored) -> list[str]:
    latest = table.pointer.latest()
    assert latest is not None
    names = [entry.file.file_name for entry in live_entries(table.storage, latest)]
    return sorted(name.rpartition(".")[2] for name in names)


def numbered(keys: range, text: str) -> list[Row]:
    return [{"k": k, "v": f"{text}{k}", "n": k * 10} for k in keys]


@FORMATS
@pytest.mark.parametrize("thin", ["false", "true"])
def test_a_primary_key_table_is_merged_pruned_and_compacted(
    new_table: NewTable, thin: str, file_format: str
) -> None:
    options = {"bucket": "1", "file.format": file_format, "data-file.thin-mode": thin}
    table = new_table(COLUMNS, primary_keys=["k"], options=options)
    write(table, numbered(range(100), "a"))
    write(table, numbered(range(50, 150), "b"))
    write(table, numbered(range(10), "c"), ["-D"] * 10)
    expected = numbered(range(10, 50), "a") + numbered(range(50, 150), "b")
    for _ in range(2):
        assert rows_of(table) == expected
        assert rows_of(table, "k >= 45 AND k < 55") == expected[35:45]
        assert rows_of(table, "n = 600") == expected[50:51]
        assert set(extensions(table)) == {file_format}
        compact(table)
    latest = table.pointer.latest()
    assert latest is not None
    (entry,) = live_entries(table.storage, latest)
    assert (entry.file.level, entry.file.row_count) == (5, 140)


@FORMATS
def test_an_append_table_is_read_and_compacted(new_table: NewTable, file_format: str) -> None:
    options = {"file.format": file_format.upper(), "file.compression": "snappy"}
    table = new_table(COLUMNS, options=options)
    for start in range(0, 40, 10):
        write(table, numbered(range(start, start + 10), "a"))
    assert rows_of(table) == numbered(range(40), "a")
    compact(table)
    assert extensions(table) == [file_format]
    assert rows_of(table, "k > 38") == numbered(range(39, 40), "a")


@pytest.mark.parametrize(
    ("file_format", "codec"), [("avro", "null"), ("orc", "none"), ("parquet", "none")]
)
def test_a_large_write_rolls_into_files_of_the_target_size(
    new_table: NewTable, file_format: str, codec: str
) -> None:
    options = {
        "file.format": file_format,
        "target-file-size": "100 kb",
        "file.compression": codec,
        "file.block-size": "20 kb",
    }
    table = new_table(COLUMNS, options=options)
    write(table, numbered(range(40_000), "a"))
    latest = table.pointer.latest()
    assert latest is not None
    sizes = [entry.file.file_size for entry in live_entries(table.storage, latest)]
    assert len(sizes) > 2
    assert max(sizes) < 200 * 1024
    assert rows_of(table) == numbered(range(40_000), "a")


@pytest.mark.parametrize(("file_format", "codec"), [("avro", "deflate"), ("orc", "zlib")])
def test_changelog_files_have_a_format_of_their_own(
    new_table: NewTable, file_format: str, codec: str
) -> None:
    options = {
        "bucket": "1",
        "changelog-producer": "input",
        "changelog-file.format": file_format,
        "changelog-file.compression": codec,
    }
    table = new_table(COLUMNS, primary_keys=["k"], options=options)
    rows = [*numbered(range(3), "a"), *numbered(range(1), "a")]
    snapshot = write(table, rows, ["+I", "+I", "+I", "-D"])
    names = [name.rpartition("/")[2] for name in table.files_below("bucket-0")]
    assert sorted(name.partition("-")[0] + "." + name.rpartition(".")[2] for name in names) == [
        f"changelog.{file_format}",
        "data.parquet",
    ]
    changes = [
        (row["k"], row["_ROW_KIND"])
        for split in plan_changelog(table.storage, snapshot).splits
        for batch in read_split(table.storage, split, row_kinds=True)
        for row in batch.to_pylist()
    ]
    assert changes == [(0, "+I"), (0, "-D"), (1, "+I"), (2, "+I")]


def test_levels_have_formats_of_their_own(new_table: NewTable) -> None:
    options = {
        "bucket": "1",
        "file.format.per.level": "0:avro, 5 : orc",
        "file.compression.per.level": "0:bzip2,5:zlib",
    }
    table = new_table(COLUMNS, primary_keys=["k"], options=options)
    write(table, numbered(range(10), "a"))
    write(table, numbered(range(5), "b"))
    assert extensions(table) == ["avro", "avro"]
    compact(table)
    assert extensions(table) == ["orc"]
    assert rows_of(table) == numbered(range(5), "b") + numbered(range(5, 10), "a")


@FORMATS
def test_a_table_may_hold_files_of_several_formats(new_table: NewTable, file_format: str) -> None:
    table = new_table(COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    write(table, numbered(range(10), "a"))
    table = table.with_options(file__format=file_format)
    write(table, numbered(range(5, 15), "b"))
    expected = numbered(range(5), "a") + numbered(range(5, 15), "b")
    assert extensions(table) == sorted([file_format, "parquet"])
    assert rows_of(table) == expected
    assert rows_of(table, "k = 3") == expected[3:4]
    compact(table)
    assert extensions(table) == [file_format]
    assert rows_of(table) == expected


@FORMATS
def test_old_files_are_read_in_the_present_types(new_table: NewTable, file_format: str) -> None:
    row = {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "INT"}]}
    columns = (*COLUMNS, ("r", row))
    options = {"bucket": "1", "file.format": file_format}
    table = new_table(columns, primary_keys=["k"], options=options)
    write(table, [{"k": 1, "v": "7", "n": 2**40, "r": {"x": 3}}])
    evolved: Json = {
        "type": "ROW",
        "fields": [
            {"id": 6, "name": "y", "type": "STRING"},
            {"id": 5, "name": "z", "type": "BIGINT"},
        ],
    }
    fields = (
        DataField(0, "k", parse_type("INT NOT NULL")),
        DataField(2, "renamed", parse_type("STRING")),
        DataField(1, "v", parse_type("INT")),
        DataField(3, "r", parse_type(evolved)),
        DataField(7, "new", parse_type("DOUBLE")),
    )
    schema = replace(table.storage.schema, id=1, fields=fields, highest_field_id=7)
    table.storage.files.write(table.storage.layout.schema(1), schema.to_json().encode())
    table = replace(table, storage=table.storage.with_schema(schema))  # type: ignore[type-var]
    old = {"k": 1, "renamed": str(2**40), "v": 7, "r": {"y": None, "z": 3}, "new": None}
    assert rows_of(table) == [old]
    new = {"k": 2, "renamed": "x", "v": None, "r": {"y": "a", "z": None}, "new": 0.5}
    write(table, [new])
    assert rows_of(table, "new IS NULL OR v = 8") == [old]
    compact(table)
    assert rows_of(table) == [old, new]


@FORMATS
def test_a_damaged_file_is_named(new_table: NewTable, file_format: str) -> None:
    table = new_table(COLUMNS, options={"file.format": file_format})
    write(table, numbered(range(1000), "a"))
    (name,) = table.files_below("bucket-0")
    path = f"{table.storage.layout.location}/{name}"
    table.storage.files.write(path, table.storage.files.read(path)[:-20])
    with pytest.raises(CorruptData, match=rf"{name} cannot be read"):
        rows_of(table)
    table.storage.files.delete(path)
    with pytest.raises(CorruptData, match=rf"{name} is missing"):
        rows_of(table)


@pytest.mark.parametrize(
    ("options", "column", "match"),
    [
        ({"file.format": "avro"}, ("t", "TIMESTAMP(9)"), "column 't' is of type TIMESTAMP"),
        ({"file.format": "avro"}, ("a.b", "INT"), r"column 'a\.b'"),
        ({"changelog-file.format": "avro"}, ("t", "TIMESTAMP(9)"), "column 't'"),
        ({"file.format.per.level": "0:parquet,1:avro"}, ("t", "TIMESTAMP(9)"), "column 't'"),
        ({"changelog-file.format": "csv"}, ("v", "INT"), r"changelog-file\.format=csv"),
        ({"file.format": "avro", "file.compression": "gzip"}, ("v", "INT"), "no codec 'gzip'"),
        ({"file.compression": "deflate"}, ("v", "INT"), "Parquet files have no codec 'deflate'"),
        ({"file.compression.per.level": "4:xz"}, ("v", "INT"), "Parquet files have no codec 'xz'"),
        ({"changelog-file.compression": "lzo"}, ("v", "INT"), "no codec 'lzo'"),
        ({"file.format": "avro", "avro.codec": "lzo"}, ("v", "INT"), "Avro files have no codec"),
        ({"file.format.per.level": "3:csv"}, ("v", "INT"), r"file\.format\.per\.level=.*csv"),
        ({"file.format": "orc", "file.compression": "lzo"}, ("v", "INT"), "ORC files .*'lzo'"),
        ({"file.format": "orc", "orc.compress": "brotli"}, ("v", "INT"), "ORC files .*'brotli'"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_before_anything_is_written(
    new_table: NewTable, options: dict[str, str], column: tuple[str, str], match: str
) -> None:
    columns = [("k", "INT NOT NULL"), column]
    table = new_table(columns, primary_keys=["k"], options={"bucket": "1", **options})
    with pytest.raises(Unsupported, match=match):
        TableWriter(table.storage, max_sequence_numbers={})


@pytest.mark.parametrize("value", ["avro", "x:avro", "1:", "-1:avro"])
def test_a_malformed_list_of_levels_is_refused(new_table: NewTable, value: str) -> None:
    options = {"bucket": "1", "file.format.per.level": value}
    table = new_table(COLUMNS, primary_keys=["k"], options=options)
    with pytest.raises(Invalid, match=r"file\.format\.per\.level"):
        TableWriter(table.storage, max_sequence_numbers={})
