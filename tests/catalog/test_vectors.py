"""Columns of type VECTOR: written, read, merged and refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.change import AddColumn, UpdateColumnType
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, Json, parse_type

FLOATS = pa.list_(pa.float32(), 3)
FLAGS = pa.list_(pa.bool_(), 2)
SCHEMA = pa.schema([("id", pa.int64()), ("v", FLOATS), ("f", FLAGS)])
EVOLUTION = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
}
KINDS: dict[str, dict[str, str]] = {
    "append": {},
    "evolved": EVOLUTION,
    "keyed": {"bucket": "1"},
    "partial": {"bucket": "1", "merge-engine": "partial-update"},
    "lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "compacted": {
        "bucket": "1",
        "changelog-producer": "full-compaction",
        "changelog-producer.row-deduplicate": "true",
    },
    "marked": {"bucket": "1", "deletion-vectors.enabled": "true"},
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = connect(str(tmp_path / "lake"))
    made.create_database("db")
    return made


def rows(*ids: int, by: float = 0) -> pa.Table:
    vectors = [None if i % 3 == 2 else [i + by, -i, float("inf")] for i in ids]
    flags = [None if i % 3 == 1 else [bool(i % 2), True] for i in ids]
    return pa.table({"id": list(ids), "v": vectors, "f": flags}, schema=SCHEMA)


def make(lake: Lake, kind: str, **options: str) -> Table:
    keys = ["id"] if "bucket" in KINDS[kind] else []
    return lake.create_table("db.t", SCHEMA, primary_keys=keys, options={**KINDS[kind], **options})


@pytest.mark.parametrize("file_format", ["parquet", pytest.param("avro", marks=pytest.mark.modes)])
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_come_back(lake: Lake, kind: str, file_format: str) -> None:
    table = make(lake, kind, **{"file.format": file_format})
    assert str(table.schema.column("v").type) == "VECTOR<FLOAT, 3>"
    table.write(rows(0, 1, 2, 3))
    table.write(rows(2, 3, by=0.5))
    if kind != "evolved":
        table.compact()
    table.write({"id": [4], "v": [[7, 8, 9]], "f": [None]})
    table_rows = table.scan().to_arrow()
    assert table_rows.schema.field("v").type == FLOATS
    assert table_rows.schema.field("f").type == FLAGS
    first = (0, 1) if table.schema.primary_keys else (0, 1, 2, 3)
    expected = [*rows(*first).to_pylist(), *rows(2, 3, by=0.5).to_pylist()]
    expected.append({"id": 4, "v": [7.0, 8.0, 9.0], "f": None})
    if kind == "partial":
        expected[2]["f"] = rows(2)["f"][0].as_py()
    assert table_rows.sort_by("id").to_pylist() == sorted(expected, key=lambda row: row["id"])
    assert table.scan(where="v IS NULL").count() == sum(row["v"] is None for row in expected)
    if kind in ("append", "evolved", "keyed", "marked"):
        table.update({"v": None}, where="id = 0")
        table.delete("id = 1")
        assert table.scan(where="id <= 1").to_arrow()["v"].to_pylist() == [None]


def test_no_range_of_vectors_is_kept(lake: Lake) -> None:
    table = make(lake, "append")
    table.write(rows(1, 2))
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    (entry,) = live_entries(table.storage, snapshot)
    assert entry.file.value_stats.null_counts == (0, 1, 1)


def test_what_is_no_vector_is_refused(lake: Lake) -> None:
    table = make(lake, "append")
    for values, message in (
        ([[1.0, 2.0]], "1 of 1 values have another length than 3"),
        ([[1.0, None, 2.0]], "element is NOT NULL"),
        ([1.0], "it is not a list"),
        ([["a", "b", "c"]], "column 'v', element is FLOAT"),
    ):
        with pytest.raises(Invalid, match=message):
            table.write({"id": [1], "v": values})
    with pytest.raises(Invalid, match="can only be compared with NULL"):
        table.scan(where="v = 1")
    assert table.latest_snapshot() is None
    for orders in (["v"], ["id", "v"]):
        with pytest.raises(Unsupported, match="ordered by a column of type fixed_size_list"):
            table.compact(order_by=orders, order_strategy="order")
    for text in ("STRING", "VECTOR<FLOAT, 4>", "VECTOR<DOUBLE, 3>"):
        with pytest.raises(Invalid, match="cannot be converted"):
            table.alter(UpdateColumnType(("v",), parse_type(text)))


def test_files_and_types_that_are_left_to_other_engines(lake: Lake) -> None:
    with pytest.raises(Unsupported, match="ORC files do not hold"):
        make(lake, "append", **{"file.format": "orc"})
    with pytest.raises(Unsupported, match=r"vector\.file\.format=lance"):
        make(lake, "evolved", **{"vector.file.format": "lance"})
    vector: Json = {"type": "VECTOR", "element": "INT", "length": 2}
    inner = parse_type({"type": "ARRAY", "element": vector})
    with pytest.raises(Unsupported, match="VECTOR inside another type"):
        lake.create_table("db.t", Schema((DataField(0, "a", inner),)))
    texts = pa.schema([("a", pa.list_(pa.string(), 2))])
    with pytest.raises(Unsupported, match="no Paimon type"):
        lake.create_table("db.t", texts)


def test_a_column_of_vectors_is_added(lake: Lake) -> None:
    table = lake.create_table("db.t", pa.schema([("id", pa.int64())]), options=EVOLUTION)
    table.write({"id": [1]})
    table.alter(AddColumn(("v",), parse_type("VECTOR<DOUBLE, 2>")))
    table.write({"id": [2], "v": [[1, 2]]})
    assert table.scan().to_arrow()["v"].to_pylist() == [None, [1.0, 2.0]]


def test_a_list_of_another_length_in_a_file_is_damage(lake: Lake) -> None:
    import pyarrow.parquet as pq

    table = make(lake, "append")
    table.write(rows(0))
    (path,) = Path(local_path(table.storage.layout.location)).rglob("data-*.parquet")
    stored = pq.read_table(path)
    short = pa.array([[1.0, 2.0]], stored.schema.field("v").type)
    pq.write_table(stored.set_column(1, stored.schema.field("v"), short), path)
    with pytest.raises(CorruptData, match=path.name):
        table.scan().to_arrow()
