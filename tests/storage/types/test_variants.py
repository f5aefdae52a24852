"""Columns of type VARIANT: what they hold, where they may be, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.files.local import local_path
from headwater.storage.schema.change import AddColumn
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, Json, parse_type, to_arrow

VARIANT = to_arrow(parse_type("VARIANT"))
# The metadata of a value without names, and what the Parquet specification gives for some values.
PLAIN = b"\x01\x00\x00"
NULL, ONE, TRUE, TEXT = b"\x00", b"\x0c\x01", b"\x04", b"\x0dabc"
ROW: Json = {"type": "ROW", "fields": [{"id": 9, "name": "v", "type": "VARIANT"}]}
FIELDS = (
    DataField(0, "k", parse_type("INT NOT NULL")),
    DataField(1, "v", parse_type("VARIANT")),
    DataField(2, "list", parse_type({"type": "ARRAY", "element": "VARIANT"})),
    DataField(3, "map", parse_type({"type": "MAP", "key": "STRING", "value": "VARIANT"})),
    DataField(4, "row", parse_type(ROW)),
    DataField(5, "at", parse_type("TIMESTAMP(9)")),
)


def variant(value: bytes) -> dict[str, bytes]:
    return {"value": value, "metadata": PLAIN}


def rows(*numbers: int) -> pa.Table:
    values = [None, NULL, ONE, TRUE, TEXT]
    made: list[dict[str, object]] = []
    for k in numbers:
        value = values[k % 5]
        one = None if value is None else variant(value)
        made.append(
            {"k": k, "v": one, "list": [one, None, variant(TEXT)], "map": [("a", one)],
             "row": None if one is None else {"v": one}, "at": None}
        )  # fmt: skip
    schema = pa.schema([pa.field(f.name, to_arrow(f.type), f.type.nullable) for f in FIELDS])
    return pa.Table.from_pylist(made, schema)


def make(room: Path, *, keyed: bool, **options: str) -> Table:
    lake = connect(str(room))
    lake.create_database("d", ignore_if_exists=True)
    return lake.create_table(
        "d.t",
        Schema(FIELDS),
        primary_keys=["k"] if keyed else [],
        options={"bucket": "1", "bucket-key": "k", **options},
    )


def found(table: Table, where: str | None = None) -> pa.Table:
    return table.refresh().scan(where=where).to_arrow().sort_by("k")


@pytest.mark.parametrize("engine", ["append", "deduplicate", "partial-update"])
def test_variants_are_written_merged_and_compacted(tmp_path: Path, engine: str) -> None:
    options = {} if engine == "append" else {"merge-engine": engine}
    table = make(tmp_path, keyed=engine != "append", **options)
    table.write(rows(0, 1, 2, 3))
    table.refresh().write(rows(4, 5, 6, 7))
    for _ in range(2):
        assert found(table).equals(rows(*range(8)))
        assert found(table, "v IS NULL").column("k").to_pylist() == [0, 5]
        assert found(table, "v IS NOT NULL AND k > 3").column("k").to_pylist() == [4, 6, 7]
        table.refresh().compact()
    if engine != "append":
        table.refresh().write(rows(2).set_column(1, "v", rows(4).column("v")))
        assert found(table).slice(2, 1).column("v").to_pylist() == [variant(TEXT)]


def test_files_hold_what_paimon_puts_there(tmp_path: Path) -> None:
    table = make(tmp_path, keyed=False)
    table.write(rows(1, 2))
    root = Path(local_path(table.storage.layout.location))
    (path,) = root.glob("bucket-0/*.parquet")
    group = pq.ParquetFile(path).schema_arrow.field("v")
    assert [item.name for item in group.type] == ["value", "metadata"]
    assert [item.nullable for item in group.type] == [False, False]
    ids = [item.metadata[b"PARQUET:field_id"] for item in (group, *group.type)]
    assert ids == [b"1", b"0", b"1"]


def test_a_column_of_variants_may_be_added(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    table = lake.create_table("d.t", pa.schema([("k", pa.int32())]))
    table.write({"k": [1]})
    table.refresh().alter(AddColumn(("v",), parse_type("VARIANT")))
    other_order = pa.StructArray.from_arrays(
        [pa.array([PLAIN], pa.large_binary()), pa.array([ONE])], ["metadata", "value"]
    )
    table.refresh().write(pa.table({"k": pa.array([2], pa.int32()), "v": other_order}))
    assert found(table).to_pylist() == [{"k": 1, "v": None}, {"k": 2, "v": variant(ONE)}]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["text"]),
        pa.array([{"value": b"x"}]),
        pa.array([{"value": "x", "metadata": "y"}]),
        pa.array([{"value": b"x", "metadata": None}]),
        pa.array([{"value": b"x", "metadata": b"y", "typed_value": 1}]),
    ],
)
def test_what_is_no_variant_is_refused(tmp_path: Path, column: pa.Array) -> None:
    table = make(tmp_path, keyed=False)
    with pytest.raises(Invalid, match="column 'v' is VARIANT"):
        table.write(pa.table({"k": pa.array([1], pa.int32()), "v": column}))
    assert table.refresh().snapshots() == []


@pytest.mark.parametrize("file_format", ["avro", "orc"])
def test_other_formats_refuse_variants(tmp_path: Path, file_format: str) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    for field in (FIELDS[1], FIELDS[2], FIELDS[4]):
        with pytest.raises(Unsupported, match=rf"column '{field.name}' has type VARIANT"):
            lake.create_table("d.t", Schema((field,)), options={"file.format": file_format})


def test_variants_are_no_keys_and_have_no_order(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    schema = Schema((FIELDS[0], DataField(1, "v", parse_type("VARIANT NOT NULL"))))
    bucketed, ordered = {"bucket-key": "v"}, {"sequence.field": "v"}
    refused: list[dict[str, Any]] = [
        {"primary_keys": ["v"]},
        {"partition_keys": ["v"]},
        {"options": {"bucket": "1", **bucketed}},
        {"primary_keys": ["k"], "options": {"bucket": "1", **ordered}},
    ]
    for keys in refused:
        with pytest.raises((Invalid, Unsupported), match=r"'v'|ordered by a column"):
            lake.create_table("d.t", schema, **keys)
    table = make(tmp_path, keyed=True)
    with pytest.raises(Invalid, match="compared with NULL"):
        table.scan(where="v = 1")


@pytest.mark.parametrize("column", ["v", "list", "map", "row"])
def test_shredded_files_are_read(tmp_path: Path, column: str) -> None:
    table = make(tmp_path, keyed=False)
    table.write(rows(1, 2))
    root = Path(local_path(table.storage.layout.location))
    (path,) = root.glob("bucket-0/*.parquet")
    data = pq.read_table(path)
    group = pa.struct(
        [pa.field("metadata", pa.binary(), False), ("value", pa.binary()),
         ("typed_value", pa.int64())]
    )  # fmt: skip
    shredded = pa.array(
        [{"metadata": PLAIN, "value": None, "typed_value": 1}, {"metadata": PLAIN, "value": TEXT}],
        group,
    )
    offsets = pa.array([0, 1, 2], pa.int32())
    wrapped = {
        "v": shredded,
        "list": pa.ListArray.from_arrays(offsets, shredded),
        "map": pa.MapArray.from_arrays(offsets, pa.array(["a", "b"]), shredded),
        "row": pa.StructArray.from_arrays([shredded], ["v"]),
    }
    one, text = variant(ONE), variant(TEXT)
    expected: dict[str, list[object]] = {
        "v": [one, text],
        "list": [[one], [text]],
        "map": [[("a", one)], [("b", text)]],
        "row": [{"v": one}, {"v": text}],
    }
    at = data.schema.get_field_index(column)
    pq.write_table(data.set_column(at, column, wrapped[column]), path)
    read = table.refresh().scan().to_arrow()
    assert read.column(column).to_pylist() == expected[column]
    others = [name for name in data.column_names if name != column]
    assert read.select(others).equals(rows(1, 2).select(others))


def test_a_shredded_file_that_cannot_be_put_together_is_named(tmp_path: Path) -> None:
    table = make(tmp_path, keyed=False)
    table.write(rows(1, 2))
    root = Path(local_path(table.storage.layout.location))
    (path,) = root.glob("bucket-0/*.parquet")
    data = pq.read_table(path)
    shredded = pa.array([{"metadata": PLAIN, "value": ONE, "typed_value": 1}] * 2)
    pq.write_table(data.set_column(1, "v", shredded), path)
    with pytest.raises(CorruptData, match=rf"{path.name}: column 'v' holds a shredded VARIANT"):
        table.refresh().scan().to_arrow()
