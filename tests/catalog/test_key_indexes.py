"""Primary-key tables with indexes of columns, which other engines build."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.index.index_file import GlobalIndex, IndexFileMeta
from headwater.storage.index.manifest import index_entries
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.write.table_writer import CommitMessage

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64()), ("s", pa.string())])
OPTIONS = {"bucket": "1", "deletion-vectors.enabled": "true", "pk-btree.index.columns": "v"}
INDEX = IndexFileMeta(
    "btree",
    "index-of-another-engine-0",
    5,
    4,
    global_index=GlobalIndex(0, 3, 1, None, b"meta", b"source"),
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = connect(str(tmp_path / "lake"))
    made.create_database("db")
    return made


def indexes(table: Table) -> list[IndexFileMeta]:
    snapshot = table.refresh().latest_snapshot()
    found = [entry.index_file for entry in index_entries(table.storage, snapshot)]
    return [file for file in found if file.index_type == "btree"]


def test_indexes_stay_as_they_are_while_rows_change(lake: Lake) -> None:
    table = lake.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=OPTIONS)
    table.write({"k": [1, 2, 3, 4], "v": [10, 20, 30, 40], "s": ["a", "b", "c", "d"]})
    path = Path(local_path(table.storage.layout.index(INDEX.file_name)))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"index")
    message = CommitMessage(EMPTY_ROW, 0, 1, new_index_files=(INDEX,))
    TableCommit(table.storage, table.pointer, "another").commit([message])
    table.refresh().write({"k": [2, 5], "v": [21, 50], "s": ["e", "f"]})
    table.update({"v": 31}, where="k = 3")
    table.delete("k = 4")
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.remove_orphan_files(older_than=timedelta(0))
    # Who reads by an index compares the files that it names with those that there are.
    assert indexes(table) == [INDEX]
    assert path.read_bytes() == b"index"
    found = {row["k"]: row["v"] for row in table.scan(where="v > 10").to_arrow().to_pylist()}
    assert found == {2: 21, 3: 31, 5: 50}
    lake.clone_table(table, "db.cloned")
    assert indexes(lake.table("db.cloned")) == [INDEX]
    table.overwrite({"k": [1], "v": [1], "s": ["g"]})
    assert indexes(table) == []


def test_searched_columns_are_left_to_those_who_index_them(lake: Lake) -> None:
    options = {**OPTIONS, "pk-full-text.index.columns": "s"}
    with pytest.raises(Unsupported, match="searches find only rows that the index covers"):
        lake.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    table = lake.create_table(
        "db.t", schema=SCHEMA, primary_keys=["k"], options=options, for_another_engine=True
    )
    with pytest.raises(Unsupported, match=r"pk-full-text\.index\.columns=s"):
        table.write({"k": [1], "v": [1], "s": ["a"]})
    assert table.scan().count() == 0
