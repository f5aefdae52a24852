"""Files of vectors alone, beside those of the other columns of the same rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.change import AddColumn, RemoveOption, SetOption
from headwater.storage.types.data_type import parse_type
from headwater.storage.write.data_file_writer import DataFileWriter
from headwater.storage.write.table_writer import CommitMessage

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("v", pa.list_(pa.float32(), 3)),
        ("s", pa.string()),
        ("w", pa.list_(pa.int32(), 2)),
    ]
)
OPTIONS = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
    "vector.file.format": "parquet",
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = connect(str(tmp_path / "lake"))
    made.create_database("db")
    return made


def make(lake: Lake, **options: str) -> Table:
    return lake.create_table("db.t", schema=SCHEMA, options={**OPTIONS, **options})


def rows(ids: range) -> pa.Table:
    columns = [
        list(ids),
        [None if i % 5 == 3 else [i, i + 0.5, -i] for i in ids],
        [f"s{i}" for i in ids],
        [[i, 1] for i in ids],
    ]
    return pa.table(columns, schema=SCHEMA)


def files_of(table: Table) -> list[DataFile]:
    snapshot = table.refresh().latest_snapshot()
    assert snapshot is not None
    return [entry.file for entry in live_entries(table.storage, snapshot)]


def vector_files(table: Table) -> list[DataFile]:
    return [file for file in files_of(table) if ".vector." in file.file_name]


def found(table: Table) -> list[dict[str, object]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_vectors_come_back(lake: Lake, form: str) -> None:
    table = make(lake, **{"vector.file.format": form, "vector.target-file-size": "1 kb"})
    table.write(rows(range(600)))
    table.write(rows(range(600, 700)))
    assert table.scan().to_arrow().sort_by("id").equals(rows(range(700)))
    apart = vector_files(table)
    assert len(apart) > 3
    assert {file.write_cols for file in apart} == {("v", "w")}
    assert all(file.file_name.endswith(f".vector.{form}") for file in apart)
    others = [file for file in files_of(table) if file not in apart]
    assert {file.write_cols for file in others} == {("id", "s")}
    assert sum(file.row_count for file in apart) == 700
    row = table.scan(["w", "_ROW_ID", "id"], "id = 650").to_arrow().to_pylist()
    assert row == [{"w": [650, 1], "_ROW_ID": 650, "id": 650}]
    assert table.scan().count() == 700
    assert table.scan(where="v IS NULL").count() == 140
    assert not table.check_files(deep=True).damages


def test_other_columns_change_beside_vectors(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(range(20)))
    table.write(rows(range(20, 30)))
    expected = rows(range(30)).to_pylist()
    before = vector_files(table)
    table.update({"s": "new"}, where="id < 2")
    table.delete("id = 7 OR v IS NULL")
    table.merge({"id": [10, 30], "s": ["merged", "added"]}, on=["id"])
    table.compact(full=True)
    for row in expected:
        row["s"] = "new" if row["id"] < 2 else "merged" if row["id"] == 10 else row["s"]
    expected = [row for row in expected if row["id"] != 7 and row["v"] is not None]
    expected.append({"id": 30, "v": None, "s": "added", "w": None})
    assert found(table) == expected
    after = vector_files(table)
    assert {file.file_name for file in before} < {file.file_name for file in after}
    assert len(files_of(table)) - len(after) == 1
    with pytest.raises(Unsupported, match="'w' lies in files of vectors alone"):
        table.update({"w": None}, where="id = 1")
    with pytest.raises(Unsupported, match="'v' lies in files of vectors alone"):
        table.merge({"id": [1], "v": [[1, 2, 3]]}, on=["id"])
    table.overwrite(rows(range(3)))
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert found(table) == rows(range(3)).to_pylist()
    assert len(list(Path(local_path(table.storage.layout.location)).rglob("*.vector.*"))) == 1


def test_no_file_of_vectors_is_opened_that_nobody_asks_for(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(range(10)))
    (file,) = vector_files(table)
    (path,) = Path(local_path(table.storage.layout.location)).rglob(file.file_name)
    path.unlink()
    assert table.scan(["id", "s"], "id = 4").to_arrow().num_rows == 1
    with pytest.raises(CorruptData, match=file.file_name):
        table.scan(["w"]).to_arrow()


def test_of_files_of_the_same_rows_the_newest_counts(lake: Lake) -> None:
    table = make(lake)
    table.write(rows(range(10)))
    expected = rows(range(10)).to_pylist()
    # As another engine gives rows new vectors.
    for first, count in ((2, 3), (4, 4)):
        writer = DataFileWriter(table.storage, EMPTY_ROW, 0, columns=["v", "w"], vectors=True)
        new = rows(range(100 * first, 100 * first + count))
        writer.write(new.select(["v", "w"]))
        files = tuple(
            replace(file, first_row_id=first, min_sequence_number=0, max_sequence_number=0)
            for file in writer.finish()
        )
        TableCommit(table.storage, table.pointer, "user").commit(
            [CommitMessage(EMPTY_ROW, 0, -1, new_files=files)]
        )
        for at, row in enumerate(new.to_pylist()):
            expected[first + at] |= {"v": row["v"], "w": row["w"]}
    assert found(table.refresh()) == expected
    table.delete("id = 5")
    del expected[5]
    assert found(table) == expected


def test_vectors_lie_apart_from_when_the_option_says_so(lake: Lake) -> None:
    table = lake.create_table("db.t", schema=SCHEMA, options={**OPTIONS, "vector.file.format": ""})
    table.write(rows(range(10)))
    table.alter(SetOption("vector.file.format", "avro"))
    table.write(rows(range(10, 20)))
    table.alter(AddColumn(("x",), parse_type("VECTOR<FLOAT, 1>")))
    table.write(rows(range(20, 25)).append_column("x", pa.array([[1.0]] * 5)))
    table.alter(RemoveOption("vector.file.format"))
    table.write(rows(range(25, 30)).append_column("x", pa.array([[2.0]] * 5)))
    assert len(vector_files(table)) == 2
    expected = [
        {**row, "x": None if at < 20 else [1.0] if at < 25 else [2.0]}
        for at, row in enumerate(rows(range(30)).to_pylist())
    ]
    assert found(table) == expected
    table.compact(full=True)
    assert found(table) == expected
    table.update({"w": None}, where="id = 12 OR id = 22")
    expected[12]["w"] = expected[22]["w"] = None
    assert found(table) == expected
    table.compact(full=True)
    assert found(table) == expected
