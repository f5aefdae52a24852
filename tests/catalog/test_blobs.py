"""Columns of type BLOB, whose values lie in files of their own."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.files.local import LocalFileAccess, local_path
from headwater.storage.formats.avro_encoding import zigzag_varints
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.read.split import read_split
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.scan.plan import live_entries, plan_snapshot
from headwater.storage.schema.change import AddColumn
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, parse_type
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.table_writer import CommitMessage

FIELDS = (
    DataField(0, "id", parse_type("BIGINT")),
    DataField(1, "b", parse_type("BLOB")),
    DataField(2, "s", parse_type("STRING")),
    DataField(3, "c", parse_type("BLOB")),
)
OPTIONS = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = connect(str(tmp_path / "lake"))
    made.create_database("db")
    return made


def make(lake: Lake, partition_keys: Sequence[str] = (), **options: str) -> Table:
    return lake.create_table(
        "db.t", Schema(FIELDS), partition_keys=partition_keys, options={**OPTIONS, **options}
    )


def rows(ids: range) -> pa.Table:
    return pa.table(
        {
            "id": list(ids),
            "b": [None if i % 4 == 3 else bytes([i % 256]) * (i * 7 % 100) for i in ids],
            "s": [f"s{i % 2}" for i in ids],
            "c": [f"c{i}".encode() for i in ids],
        }
    )


def files_of(table: Table) -> list[DataFile]:
    snapshot = table.refresh().latest_snapshot()
    assert snapshot is not None
    return [entry.file for entry in live_entries(table.storage, snapshot)]


def blob_paths(table: Table) -> list[Path]:
    return sorted(Path(local_path(table.storage.layout.location)).rglob("*.blob"))


def test_values_come_back(lake: Lake) -> None:
    table = make(lake, ["s"], **{"blob.target-file-size": "300 b"})
    table.write(rows(range(40)))
    table.write(rows(range(40, 50)))
    expected = rows(range(50)).to_pylist()
    found = table.scan().to_arrow()
    assert found.schema.field("b").type == pa.large_binary()
    assert found.sort_by("id").to_pylist() == expected
    assert len(blob_paths(table)) > 8
    # The rows of a file of other columns are those of one or more files of each BLOB column.
    by_column: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for file in files_of(table):
        assert file.write_cols is not None
        assert file.first_row_id is not None
        assert file.max_sequence_number in (1, 2)
        ids = (file.first_row_id, file.first_row_id + file.row_count)
        by_column.setdefault(file.write_cols, []).append(ids)
    assert set(by_column) == {("id", "s"), ("b",), ("c",)}
    for ranges in by_column.values():
        assert sum(end - start for start, end in ranges) == 50
    for row in table.scan(["b", "_ROW_ID", "id"], "id in (5, 45)").to_arrow().to_pylist():
        assert row["b"] == expected[row["id"]]["b"]
    assert table.scan().count() == 50
    nulls = table.scan(["id"], "b IS NULL AND id < 9").to_arrow()["id"].to_pylist()
    assert sorted(nulls) == [3, 7]
    assert table.scan(where="b IS NOT NULL AND id < 4").to_polars().height == 3


def test_rows_are_deleted_overwritten_and_expire_with_their_files(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(range(10)))
    (first, _) = blob_paths(table)
    data = first.read_bytes()
    first.write_bytes(b"x" * len(data))
    # Neither a delete nor rows that are deleted need the values.
    table.delete("id < 9")
    first.write_bytes(data)
    assert table.scan().to_arrow().to_pylist() == rows(range(9, 10)).to_pylist()
    table.delete("b IS NOT NULL")
    assert table.scan().count() == 0
    table.overwrite(rows(range(3)))
    assert table.scan().to_arrow().to_pylist() == rows(range(3)).to_pylist()
    stray = blob_paths(table)[0].with_name("data-stray-0.blob")
    stray.write_bytes(b"")
    assert len(blob_paths(table)) == 5
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(blob_paths(table)) == 3
    table.remove_orphan_files(older_than=timedelta(0))
    assert len(blob_paths(table)) == 2
    assert not table.check_files(deep=True).damages
    lake.clone_table(table, "db.cloned")
    clone = lake.table("db.cloned")
    assert clone.scan().to_arrow().to_pylist() == rows(range(3)).to_pylist()
    blob_paths(clone)[0].write_bytes(b"short")
    assert clone.check_files().damages


def test_no_file_of_values_is_opened_that_nobody_asks_for(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(range(10)))
    (one,) = (file for file in files_of(table) if file.write_cols == ("b",))
    (path,) = (path for path in blob_paths(table) if path.name == one.file_name)
    path.unlink()
    assert table.scan(["id", "s", "c"], "id = 4").to_arrow().num_rows == 1
    assert table.scan().count() == 10
    with pytest.raises(CorruptData, match=one.file_name):
        table.scan(["b"]).to_arrow()


class _Ranges(LocalFileAccess):
    """Takes note of the bytes that are read of BLOB files."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes = 0

    def open_input(self, path: str) -> pa.NativeFile:
        opened = super().open_input(path)
        return pa.PythonFile(_Counted(self, opened), mode="r") if ".blob" in path else opened


class _Counted:
    def __init__(self, ranges: _Ranges, opened: pa.NativeFile) -> None:
        self._ranges = ranges
        self._opened = opened
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._opened.read(size)
        self._ranges.read_bytes += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._opened.seek(offset, whence))

    def tell(self) -> int:
        return int(self._opened.tell())

    def size(self) -> int:
        return int(self._opened.size())

    def close(self) -> None:
        self._opened.close()
        self.closed = True

    def flush(self) -> None: ...

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True


def test_values_are_read_by_their_ranges_and_some_at_a_time(lake: Lake) -> None:
    table = make(lake)
    size = 2 * 1024**2
    table.write({"id": list(range(40)), "b": [bytes(size)] * 40})
    files = _Ranges()
    storage = replace(table.storage, files=files)
    snapshot = table.latest_snapshot()
    assert snapshot is not None

    def read(where: str | None) -> list[pa.RecordBatch]:
        files.read_bytes = 0
        predicate = None if where is None else table._predicate(where, table.storage)
        plan = plan_snapshot(storage, snapshot, predicate=predicate)
        return [
            batch
            for split in plan.splits
            for batch in read_split(storage, split, columns=["b"], predicate=predicate)
        ]

    (batch,) = read("id = 17")
    assert batch.num_rows == 1
    assert size < files.read_bytes < size + 10_000
    assert read("id = 40") == []
    assert files.read_bytes < 10_000
    batches = read(None)
    assert sum(batch.num_rows for batch in batches) == 40
    assert max(batch.nbytes for batch in batches) <= 34 * 1024**2
    # Nothing of them stays when they are gone.
    tracemalloc.start()
    try:
        batches.clear()
        assert sum(batch.num_rows for batch in read(None)) == 40
        assert tracemalloc.get_traced_memory()[0] < 8 * size
    finally:
        tracemalloc.stop()


def test_other_columns_change_and_no_value_is_read(lake: Lake) -> None:
    table = make(lake, **{"blob.target-file-size": "200 b"})
    table.write(rows(range(10)))
    expected = rows(range(10)).to_pylist()
    whole = {path: path.read_bytes() for path in blob_paths(table)}
    for path, data in whole.items():
        path.write_bytes(b"x" * len(data))
    table.update({"s": "new"}, where="id IN (2, 3)")
    table.merge({"id": [3, 20], "s": ["merged", "added"]}, on=["id"])
    table.delete("id = 4")
    for path, data in whole.items():
        path.write_bytes(data)
    table.update({"s": "null"}, where="b IS NULL AND id < 10")
    for row in expected:
        if row["b"] is None:
            row["s"] = "null"
        elif row["id"] == 2:
            row["s"] = "new"
    del expected[4]
    expected.append({"id": 20, "b": None, "s": "added", "c": None})
    assert table.scan().to_arrow().to_pylist() == expected


def test_a_newer_file_gives_the_values_that_it_has(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(range(10)))
    expected = rows(range(10)).to_pylist()

    def update(start: int, values: list[bytes | int]) -> None:
        """A file of another engine: values, -1 for null, -2 for what stays."""
        old = next(file for file in files_of(table) if file.write_cols == ("c",))
        path = blob_paths(table)[0].with_name(f"data-update-{start}-{len(values)}.blob")
        body, lengths = b"", []
        for value in values:
            if isinstance(value, int):
                lengths.append(value)
                continue
            entry = struct.pack("<i", 1481511375) + value
            entry += struct.pack("<q", len(entry) + 12)
            entry += struct.pack("<I", zlib.crc32(entry))
            body += entry
            lengths.append(len(entry))
        deltas = np.array(lengths, np.int64) - np.array([0, *lengths[:-1]], np.int64)
        index = zigzag_varints(deltas).buffers()[2].to_pybytes()
        path.write_bytes(body + index + struct.pack("<iB", len(index), 1))
        file = replace(
            old,
            file_name=path.name,
            file_size=path.stat().st_size,
            row_count=len(values),
            first_row_id=start,
            min_sequence_number=0,
            max_sequence_number=0,
        )
        message = CommitMessage(EMPTY_ROW, 0, -1, new_files=(file,))
        TableCommit(table.storage, table.pointer, "user").commit([message])

    update(0, [b"new", -1, -2, b""])
    for at, value in enumerate([b"new", None, None, b""]):
        if at != 2:
            expected[at]["c"] = value
    update(2, [b"third", -2, b"fifth"])
    expected[2]["c"], expected[4]["c"] = b"third", b"fifth"
    assert table.refresh().scan().to_arrow().to_pylist() == expected


def test_a_column_of_values_is_added(lake: Lake) -> None:
    table = lake.create_table("db.t", pa.schema([("id", pa.int64())]), options=OPTIONS)
    table.write({"id": [1, 2]})
    table.alter(AddColumn(("b",), parse_type("BLOB")))
    table.write({"id": [3], "b": [b"x"]})
    assert table.scan().to_arrow()["b"].to_pylist() == [None, None, b"x"]
    assert table.scan(where="b IS NULL").count() == 2


def test_descriptors_tell_where_values_are(lake: Lake) -> None:
    table = make(lake)
    table.write({"id": [1, 2], "b": [b"value", None]})
    told = table.with_options({"blob-as-descriptor": "true"}).scan(["b"]).to_arrow()
    descriptor, none = told["b"].to_pylist()
    assert none is None
    version, magic, length = struct.unpack("<B8si", descriptor[:13])
    assert (version, magic[::-1]) == (2, b"BLOBDESC")
    uri = descriptor[13 : 13 + length].decode()
    offset, size = struct.unpack("<qq", descriptor[13 + length :])
    assert Path(local_path(uri)).read_bytes()[offset : offset + size] == b"value"
    with pytest.raises(Invalid, match="is a descriptor"):
        table.write({"id": [3], "b": [descriptor]})
    assert table.refresh().scan().count() == 2


def test_columns_of_descriptors_are_read_as_such(lake: Lake) -> None:
    options = {**OPTIONS, "blob-descriptor-field": "b"}
    table = lake.create_table("db.t", Schema(FIELDS[:2]), options=options, for_another_engine=True)
    # As another engine writes it.
    writer = DataFileWriter(table.storage, EMPTY_ROW, 0)
    writer.write(pa.table({"id": [1, 2], "b": [b"place", None]}, schema=table.schema.arrow))
    message = CommitMessage(EMPTY_ROW, 0, -1, new_files=tuple(writer.finish()))
    TableCommit(table.storage, table.pointer, "user").commit([message])
    table.refresh()
    assert table.scan(["id"]).to_arrow()["id"].to_pylist() == [1, 2]
    with pytest.raises(Unsupported, match=r"read the places with 'blob-as-descriptor' = 'true'"):
        table.scan().to_arrow()
    told = table.with_options({"blob-as-descriptor": "true"}).scan().to_arrow()
    assert told["b"].to_pylist() == [b"place", None]
    with pytest.raises(Unsupported, match="'blob-descriptor-field' = 'b'"):
        table.write({"id": [3]})
    with pytest.raises(Unsupported, match="'blob-descriptor-field' = 'b'"):
        table.update({"id": 3}, where="id = 1")


def test_damage_and_lost_files_are_named(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(range(4)))
    for path in blob_paths(table):
        whole = path.read_bytes()
        middle = len(whole) // 2
        for data in (whole[:-3], whole[:middle] + b"?" + whole[middle + 1 :]):
            path.write_bytes(data)
            with pytest.raises(CorruptData, match=path.name):
                table.scan().to_arrow()
            assert table.check_files(deep=True).damages
        path.write_bytes(whole)
    assert table.scan().to_arrow().num_rows == 4


def test_blobs_get_new_values_without_the_others_being_read(lake: Lake) -> None:
    table = make(lake, **{"blob.target-file-size": "40 b"})
    table.write(rows(range(6)))
    old = {path.name for path in blob_paths(table)}
    for path in blob_paths(table):
        path.rename(path.with_suffix(".away"))
    table.update({"b": b"new b", "s": "new s"}, where="id in (1, 4)")
    table.merge({"id": [0, 5], "c": [b"c of 0", None], "b": [b"b of 0", b"b of 5"]}, on=["id"])
    for path in {path.with_suffix(".away") for path in blob_paths(table) if path.name in old}:
        path.rename(path.with_suffix(".blob"))
    for path in Path(local_path(table.storage.layout.location)).rglob("*.away"):
        path.rename(path.with_suffix(".blob"))
    expected = rows(range(6)).to_pylist()
    for at in (1, 4):
        expected[at] |= {"b": b"new b", "s": "new s"}
    expected[0] |= {"b": b"b of 0", "c": b"c of 0"}
    expected[5] |= {"b": b"b of 5", "c": None}
    assert table.scan().to_arrow().to_pylist() == expected
    assert table.scan(["id"], "c is null").to_arrow()["id"].to_pylist() == [
        row["id"] for row in expected if row["c"] is None
    ]
    assert table.check_files(deep=True).is_whole
    place = table.with_options({"blob-as-descriptor": "true"}).scan(["b"]).to_arrow()["b"]
    with pytest.raises(Invalid, match="a value is a descriptor"):
        table.update({"b": place[0].as_py()}, where="id = 1")
    assert table.scan().to_arrow().to_pylist() == expected


def test_a_compaction_joins_files_of_blobs_if_asked_to(lake: Lake) -> None:
    table = make(lake, **{"blob.target-file-size": "600 b"})
    for start in (0, 20, 40):
        table.write(rows(range(start, start + 20)))
    table.update({"c": b"new"}, where="id in (5, 25)")
    table.delete("id = 7")
    expected = table.scan().to_arrow().to_pylist()

    def blobs(column: str) -> list[tuple[int | None, int]]:
        files = [file for file in files_of(table) if file.write_cols == (column,)]
        return sorted((file.first_row_id, file.row_count) for file in files)

    before = blobs("b"), blobs("c")
    assert table.compact() is not None
    assert (blobs("b"), blobs("c")) == before
    joining = table.with_options({"blob-compaction.enabled": "true"})
    assert joining.compact() is not None
    assert len(blobs("c")) < len(before[1])
    assert sum(count for _, count in blobs("c")) == 60
    assert table.scan().to_arrow().to_pylist() == expected
    # What was joined of the same rows may be small beside its neighbours.
    joining.compact()
    assert joining.compact() is None
    assert table.with_options({"blob.target-file-size": "1 mb"}).compact() is None
    wide = joining.with_options({"blob.target-file-size": "1 mb", "blob-as-descriptor": "true"})
    assert wide.compact() is not None
    assert blobs("b") == blobs("c") == [(0, 60)]
    assert table.scan().to_arrow().to_pylist() == expected
    assert table.check_files(deep=True).is_whole


BLOB_VALUES = st.none() | st.binary(max_size=12)


@settings(max_examples=examples(10), deadline=None)
@given(data=st.data(), target=st.sampled_from(["1 b", "60 b", "1 mb"]))
def test_random_changes_of_blobs_equal_those_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, target: str
) -> None:
    lake = connect(str(tmp_path_factory.mktemp("model")))
    lake.create_database("db")
    joins = {"blob-compaction.enabled": data.draw(st.sampled_from(["true", "false"]))}
    table = make(lake, **{"blob.target-file-size": target, **joins})
    model: dict[int, dict[str, object]] = {}
    for start in (0, 4):
        table.write(rows(range(start, start + 4)))
        model |= {row["id"]: row for row in rows(range(start, start + 4)).to_pylist()}
    names = st.lists(st.sampled_from(["b", "s", "c"]), min_size=1, unique=True)
    keys = st.lists(st.integers(0, 9), min_size=1, unique=True)
    for step in data.draw(
        st.lists(st.sampled_from(["merge", "update", "delete", "compact"]), max_size=6)
    ):
        chosen = data.draw(keys)
        text = f"id in ({', '.join(map(str, chosen))})"
        if step == "compact":
            table.compact()
        elif step == "delete":
            table.delete(text)
            model = {key: row for key, row in model.items() if key not in chosen}
        elif step == "update":
            new = {name: data.draw(BLOB_VALUES) for name in data.draw(names) if name != "s"}
            if new:
                table.update(new, where=text)
            for key in model.keys() & set(chosen):
                model[key] |= new
        else:
            given_names = data.draw(names)
            source = {
                name: [str(key) if name == "s" else data.draw(BLOB_VALUES) for key in chosen]
                for name in given_names
            }
            types = {"b": pa.binary(), "c": pa.binary(), "s": pa.string()}
            columns = {name: pa.array(source[name], types[name]) for name in given_names}
            table.merge(pa.table({"id": pa.array(chosen, pa.int64()), **columns}), on=["id"])
            for at, key in enumerate(chosen):
                empty = {"id": key, "b": None, "s": None, "c": None}
                values = {name: source[name][at] for name in given_names}
                model[key] = {**model.get(key, empty), **values}
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == [model[key] for key in sorted(model)]


def test_what_is_left_to_other_engines_is_refused_by_name(lake: Lake) -> None:
    for options, keys, message in (
        ({"bucket": "1", "blob-view-field": "b"}, ["id"], "'blob-view-field' = 'b'"),
        ({**OPTIONS, "blob-descriptor-field": "b"}, [], "'blob-descriptor-field' = 'b'"),
        ({**OPTIONS, "blob-view-field": "c"}, [], "'blob-view-field' = 'c'"),
    ):
        with pytest.raises(Unsupported, match=message):
            lake.create_table("db.x", Schema(FIELDS), primary_keys=keys, options=options)
        other = lake.create_table(
            "db.x", Schema(FIELDS), primary_keys=keys, options=options, for_another_engine=True
        )
        with pytest.raises(Unsupported, match=message):
            other.write(rows(range(1)))
        lake.drop_table("db.x")
    with pytest.raises(Invalid, match="data-evolution"):
        lake.create_table("db.x", Schema(FIELDS))
    array = DataField(1, "a", parse_type({"type": "ARRAY", "element": "BLOB"}))
    with pytest.raises(Unsupported, match="BLOB inside another type"):
        lake.create_table("db.x", Schema((FIELDS[0], array)), options=OPTIONS)
    table = make(lake)
    table.write(rows(range(3)))
    with pytest.raises(Invalid, match="can only be compared with NULL"):
        table.scan(where="b = 'x'")
    with pytest.raises(Invalid, match="cannot be matched by column 'c' of type BLOB"):
        table.merge({"c": [b"c1"], "s": ["x"]}, on=["c"])
    with pytest.raises(Invalid, match=r"column 'b' is BLOB"):
        table.write({"id": [1], "b": [1]})
    assert table.refresh().scan().count() == 3
