"""Deletion vectors: what is written is read, in both forms; what is damaged is named."""

from __future__ import annotations

import random
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.index.deletion_files import (
    DeletionFile,
    deletion_files_by_bucket,
    read_deletion_vector,
    read_deletion_vectors,
    replaced_vectors,
    write_deletion_vectors,
)
from headwater.storage.index.deletion_vector import DeletionVector
from headwater.storage.index.index_file import IndexFileMeta, IndexManifestEntry
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.rows.binary_row import EMPTY_ROW

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("id", "BIGINT NOT NULL"), ("v", "INT")]
BOTH = pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits"])
POSITIONS = st.sets(st.integers(0, 300_000)) | st.integers(0, 70_000).map(range).map(set)


@BOTH
@settings(max_examples=20)
@given(POSITIONS, st.binary(max_size=9))
def test_what_is_written_is_read(wide: bool, positions: set[int], more: bytes) -> None:
    data, length = DeletionVector.from_positions(list(positions)).encoded(wide=wide)
    read = DeletionVector.decoded(data + more, length, "here")
    assert read.positions.tolist() == sorted(positions)
    assert DeletionVector.stored_bytes(data[:8], length) == len(data)


def test_the_bytes_are_paimon_s() -> None:
    """As ``BitmapDeletionVector`` and ``Bitmap64DeletionVector`` of 2.0.0 write rows 1 to 9."""
    run = struct.pack("<HHBHHHHH", 12347, 0, 1, 0, 8, 1, 1, 8)
    narrow, length = DeletionVector.from_positions(range(1, 10)).encoded(wide=False)
    body = struct.pack(">i", 1581511376) + run
    assert narrow == struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    assert length == len(body)
    wide, length = DeletionVector.from_positions(range(1, 10)).encoded(wide=True)
    body = struct.pack("<iqi", 1681511377, 1, 0) + run
    assert wide == struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    assert length == len(wide)


def test_rows_beyond_32_bits_need_the_wide_form() -> None:
    vector = DeletionVector.from_positions([7, 2**31, 2**33])
    data, length = vector.encoded(wide=True)
    assert DeletionVector.decoded(data, length, "here").positions.tolist() == [7, 2**31, 2**33]
    with pytest.raises(Unsupported, match="bitmap64"):
        vector.encoded(wide=False)
    # Java writes an empty bitmap for each number of 2^32 rows that has none.
    bitmaps = [
        DeletionVector.from_positions(rows).encoded(wide=False)[0][8:-4] for rows in ([], [5])
    ]
    parts = b"".join(struct.pack("<i", key) + bits for key, bits in enumerate(bitmaps))
    body = struct.pack("<iq", 1681511377, 2) + parts
    framed = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    assert DeletionVector.decoded(framed, len(framed), "x").positions.tolist() == [2**32 + 5]


@BOTH
def test_damage_is_found(wide: bool) -> None:
    data, length = DeletionVector.from_positions([1, 5, 70_000]).encoded(wide=wide)
    for size in range(len(data)):
        with pytest.raises(CorruptData, match="here"):
            DeletionVector.decoded(data[:size], length, "here")
    for place in range(len(data)):
        broken = data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
        with pytest.raises(CorruptData, match="here"):
            DeletionVector.decoded(broken, length, "here")
    for wrong in (0, 3, length - 1, length + 1, -length):
        with pytest.raises(CorruptData, match="here"):
            DeletionVector.decoded(data, wrong, "here")


@settings(max_examples=20)
@given(st.sets(st.integers(0, 60)), st.integers(0, 30), st.integers(0, 40))
def test_batches_lose_the_deleted_rows(positions: set[int], start: int, rows: int) -> None:
    vector = DeletionVector.from_positions(sorted(positions))
    values = np.arange(start, start + rows)
    batch = pa.record_batch({"at": values})
    kept = [value for value in values.tolist() if value not in positions]
    assert vector.without(batch, start).column("at").to_pylist() == kept
    assert vector.without(batch.select([]), start).num_rows == len(kept)
    other = DeletionVector.from_positions([1, 2])
    assert set(vector.merged(other).positions.tolist()) == positions | {1, 2}


@pytest.mark.parametrize("deleted", [0, 1, 16, 17, 250, 251, 999, 1000])
def test_rows_are_left_out_whatever_their_share(deleted: int) -> None:
    positions = set(random.Random(deleted).sample(range(1000), deleted))
    rows = [
        {"id": row, "text": None if row % 7 == 0 else f"text {row}", "list": [row] * (row % 3)}
        for row in range(1000)
    ]
    vector = DeletionVector.from_positions([5000 + position for position in sorted(positions)])
    batch = pa.RecordBatch.from_pylist(rows)
    left = vector.without(batch, 5000)
    assert left.to_pylist() == [row for row in rows if row["id"] not in positions]
    assert left.schema == batch.schema
    assert vector.without(batch, 6000) == batch


# Files ----------------------------------------------------------------------------------------


def vectors(table: StoredTable, *files: IndexFileMeta) -> dict[str, list[int]]:
    deleted: dict[str, list[int]] = {}
    for file in files:
        for name, vector in read_deletion_vectors(table.storage, EMPTY_ROW, 0, file).items():
            assert name not in deleted
            deleted[name] = vector.positions.tolist()
    return deleted


def entries(*files: IndexFileMeta) -> list[IndexManifestEntry]:
    return [IndexManifestEntry(FileKind.ADD, EMPTY_ROW, 0, file) for file in files]


def write(table: StoredTable, **positions: list[int]) -> list[IndexFileMeta]:
    new = {name: DeletionVector.from_positions(rows) for name, rows in positions.items()}
    return write_deletion_vectors(table.storage, EMPTY_ROW, 0, new)


@pytest.mark.parametrize("bitmap64", ["false", "true"])
def test_each_data_file_finds_its_vector(new_table: NewTable, bitmap64: str) -> None:
    table = new_table(COLUMNS, options={"deletion-vectors.bitmap64": bitmap64})
    (file,) = write(table, a=[1, 2], b=[], c=[7])
    assert file.row_count == 2
    assert file.file_size == table.storage.files.size(table.storage.layout.index(file.file_name))
    assert vectors(table, file) == {"a": [1, 2], "c": [7]}
    assert deletion_files_by_bucket(table.storage, entries(file), [(EMPTY_ROW, 1)]) == {}
    places = deletion_files_by_bucket(table.storage, entries(file), [(EMPTY_ROW, 0)])
    assert set(places[EMPTY_ROW, 0]) == {"a", "c"}
    place = places[EMPTY_ROW, 0]["c"]
    assert read_deletion_vector(table.storage.files, place).positions.tolist() == [7]
    assert place.cardinality == 1


@pytest.mark.parametrize(("options", "files"), [({}, 5), ({"bucket": "1", "bucket-key": "id"}, 1)])
def test_files_roll_where_a_bucket_may_have_many(
    new_table: NewTable, options: dict[str, str], files: int
) -> None:
    size = {"deletion-vector.index-file.target-size": "10 b"}
    table = new_table(COLUMNS, options={**options, **size})
    written = write(table, **{f"f{n}": [n] for n in range(5)})
    assert len(written) == files
    assert vectors(table, *written) == {f"f{n}": [n] for n in range(5)}
    assert write(table) == []


def test_only_touched_files_are_written_again(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    (one,), (two,), (three,) = write(table, a=[1], b=[2]), write(table, c=[3]), write(table, d=[4])
    new, deleted = replaced_vectors(
        table.storage,
        entries(one, two, three),
        EMPTY_ROW,
        0,
        merge={"a": DeletionVector.from_positions([9]), "x": DeletionVector.from_positions([0])},
        remove=["c"],
    )
    assert set(deleted) == {one, two}
    assert vectors(table, *new) == {"a": [1, 9], "b": [2], "x": [0]}


def test_a_bucket_s_one_file_is_written_again(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    (one,) = write(table, a=[1], b=[2])
    new, deleted = replaced_vectors(
        table.storage, entries(one), EMPTY_ROW, 0, merge={"c": DeletionVector.from_positions([3])}
    )
    assert deleted == [one]
    assert vectors(table, *new) == {"a": [1], "b": [2], "c": [3]}
    assert replaced_vectors(table.storage, entries(one), EMPTY_ROW, 0, remove=["z"]) == ([], [])
    assert replaced_vectors(table.storage, entries(one), EMPTY_ROW, 0, remove=["a", "b"]) == (
        [],
        [one],
    )


def test_a_damaged_index_file_is_named(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    (file,) = write(table, a=[1, 2], b=[3])
    path = table.storage.layout.index(file.file_name)
    whole = table.storage.files.read(path)
    places = deletion_files_by_bucket(table.storage, entries(file), [(EMPTY_ROW, 0)])
    place = places[EMPTY_ROW, 0]["b"]
    for bad in (whole[:-1], whole[:20], b"", b"PAR1" * 30, b"\x02" + whole[1:]):
        table.storage.files.write(path, bad)
        with pytest.raises(CorruptData, match=file.file_name):
            read_deletion_vectors(table.storage, EMPTY_ROW, 0, file)
        if bad[:1] != b"\x02":
            with pytest.raises(CorruptData, match=file.file_name):
                read_deletion_vector(table.storage.files, place)
    table.storage.files.write(path, whole)
    counted = DeletionFile(place.path, place.offset, place.length, 5)
    with pytest.raises(CorruptData, match="deletes 1 rows"):
        read_deletion_vector(table.storage.files, counted)
    table.storage.files.delete(path)
    with pytest.raises(CorruptData, match=file.file_name):
        read_deletion_vectors(table.storage, EMPTY_ROW, 0, file)
    with pytest.raises(CorruptData, match=file.file_name):
        read_deletion_vector(table.storage.files, place)
