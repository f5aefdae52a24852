"""Index files of data files that are not committed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Unavailable
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.write.table_writer import TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable

OPTIONS = {
    "bucket": "4",
    "bucket-key": "k",
    "file-index.bitmap.columns": "k",
    "file-index.in-manifest-threshold": "0 b",
}
ROWS = pa.table({"k": pa.array(range(40), pa.int64())})


class FullDisk(LocalFileAccess):
    """The local disk, which takes so many index files and no more."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
        if path.endswith(".index"):
            if not self.room:
                raise Unavailable(f"{path}: the disk is full")
            self.room -= 1
        super().write(path, data, durable=durable)


@pytest.mark.parametrize("primary_keys", [[], ["k"]], ids=["append", "keyed"])
@pytest.mark.parametrize("room", range(4))
def test_a_write_that_fails_leaves_no_file(
    new_table: NewTable, primary_keys: list[str], room: int
) -> None:
    table = new_table([("k", "BIGINT NOT NULL")], primary_keys=primary_keys, options=OPTIONS)
    storage = replace(table.storage, files=FullDisk(room))
    writer = TableWriter(storage, max_sequence_numbers={})
    writer.write(ROWS)
    with pytest.raises(Unavailable, match="full"):
        writer.finish()
    assert table.files_below() == ["schema/schema-0"]


def test_files_that_are_not_committed_go_with_their_indexes(
    new_table: NewTable,
) -> None:
    table = new_table([("k", "BIGINT")], options=OPTIONS)
    writer = TableWriter(table.storage, max_sequence_numbers={})
    writer.write(ROWS)
    messages = writer.finish()
    assert len(table.files_below()) == 9
    TableCommit(table.storage, table.pointer, "nobody").abort(messages)
    assert table.files_below() == ["schema/schema-0"]
