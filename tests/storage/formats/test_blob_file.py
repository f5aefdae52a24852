"""Files of the values of a BLOB column."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.files.local import LocalFileAccess, local_uri
from headwater.storage.files.open_files import open_file_access
from headwater.storage.formats.blob_file import (
    BlobFileWriter,
    blob_entries,
    check_blobs,
    read_blobs,
)

FILES = LocalFileAccess()


def written(path: Path, values: list[bytes | None]) -> str:
    uri = local_uri(path)
    writer = BlobFileWriter(FILES, uri)
    for value in values:
        writer.write(None if value is None else pa.py_buffer(value))
    done = writer.close()
    assert (done.size, done.row_count) == (path.stat().st_size, len(values))
    return uri


def values_of(uri: str, path: Path, rows: int) -> list[bytes | None]:
    entries = blob_entries(FILES, uri, path.stat().st_size, rows)
    present = np.flatnonzero(entries.lengths >= 0)
    found: list[bytes | None] = [None] * rows
    read = read_blobs(FILES, uri, entries.offsets[present], entries.lengths[present])
    for at, value in zip(present.tolist(), read, strict=True):
        found[at] = bytes(value)
    return found


@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.none() | st.binary(max_size=300), min_size=1, max_size=40))
def test_values_come_back(
    values: list[bytes | None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("blob") / "f.blob"
    uri = written(path, values)
    assert values_of(uri, path, len(values)) == values
    assert check_blobs(FILES, uri, path.stat().st_size, len(values), deep=True) == len(values)


def test_the_bytes_are_paimons(tmp_path: Path) -> None:
    path = tmp_path / "f.blob"
    written(path, [b"one", None, b"", b"four"])
    body, index = path.read_bytes()[:-9], path.read_bytes()[-9:]
    assert body[:4] == struct.pack("<i", 1481511375)
    checked = body[: 4 + 3 + 8]
    assert body[:19] == checked + struct.pack("<I", zlib.crc32(checked))
    # 19, -1, 16 and 20 as differences in zigzag, the length of that, and the version.
    assert index == bytes([38, 39, 34, 8]) + struct.pack("<iB", 4, 1)
    assert len(body) == 19 + 16 + 20


def test_values_in_an_object_store_are_read_by_their_ranges(s3_endpoint: str) -> None:
    keys = {"s3.access-key": "test", "s3.secret-key": "test"}
    files = open_file_access("s3://lake/t", {"s3.endpoint": s3_endpoint, **keys})
    writer = BlobFileWriter(files, "s3://lake/t/f.blob")
    values = [bytes([number]) * 300_000 for number in range(5)]
    for value in values:
        writer.write(pa.py_buffer(value))
    done = writer.close()
    entries = blob_entries(files, done.path, done.size, done.row_count)
    chosen = np.array([1, 2, 4])
    read = read_blobs(files, done.path, entries.offsets[chosen], entries.lengths[chosen])
    assert [bytes(value) for value in read] == [values[1], values[2], values[4]]
    # The values that nobody asks for may as well be damaged.
    stored = bytearray(files.read(done.path))
    stored[10], stored[4 * 300_000 - 100] = 77, 77
    files.write(done.path, bytes(stored))
    read = read_blobs(files, done.path, entries.offsets[chosen], entries.lengths[chosen])
    assert [value[0] for value in read] == [1, 2, 4]
    with pytest.raises(CorruptData, match="checksum"):
        check_blobs(files, done.path, done.size, 5, deep=True)


def test_an_aborted_file_does_not_appear(tmp_path: Path) -> None:
    writer = BlobFileWriter(FILES, local_uri(tmp_path / "f.blob"))
    writer.write(pa.py_buffer(b"x"))
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f.blob"
    uri = written(path, [b"one", None, b"", b"four" * 100])
    whole = path.read_bytes()
    size = len(whole)

    def damaged(data: bytes, message: str, rows: int = 4, told: int | None = None) -> None:
        path.write_bytes(data)
        with pytest.raises(CorruptData, match=message) as error:
            check_blobs(FILES, uri, len(data) if told is None else told, rows, deep=True)
        assert "f.blob" in str(error.value)

    damaged(whole, "4 rows where 5 were written", rows=5)
    damaged(whole[:-1], "bytes where", told=size)
    damaged(whole[:3], "at least 5 are needed")
    damaged(b"x" + whole[1:], "no entry of 19 bytes begins at byte 0")
    damaged(whole[:5] + b"x" + whole[6:], "checksum")
    damaged(whole[1:], "do not end where its index begins")
    damaged(whole[:-5] + struct.pack("<iB", size, 1), "is not inside it")
    damaged(whole[:-6] + bytes([200]) + whole[-5:], "cut short")
    path.write_bytes(whole[:-1] + bytes([2]))
    with pytest.raises(Unsupported, match="version 2"):
        blob_entries(FILES, uri, size, 4)
    path.unlink()
    with pytest.raises(CorruptData, match="missing"):
        blob_entries(FILES, uri, size, 4)
