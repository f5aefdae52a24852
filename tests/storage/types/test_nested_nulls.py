"""Null rows inside of rows, arrays and maps, whose NOT NULL fields have no value."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headwater.client import connect
from headwater.storage.errors import Invalid

STRICT = pa.struct([pa.field("n", pa.int32(), nullable=False)])
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("inner", STRICT),
        # Parquet calls the element of a list otherwise.
        ("items", pa.list_(pa.field("item", STRICT))),
        ("named", pa.map_(pa.string(), STRICT)),
    ]
)
ROWS = [
    {"k": 1, "inner": None, "items": [{"n": 1}, None], "named": [("a", None), ("b", {"n": 2})]},
    {"k": 2, "inner": {"n": 3}, "items": None, "named": None},
    {"k": 3, "inner": None, "items": [None], "named": []},
]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_they_are_written_and_read(tmp_path: Path, file_format: str) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    table = lake.create_table("d.t", SCHEMA, options={"file.format": file_format})
    table.write(pa.Table.from_pylist(ROWS, SCHEMA))
    table.refresh().write(pa.Table.from_pylist(ROWS, SCHEMA).slice(1, 1))
    found = table.refresh().scan().to_arrow().sort_by("k").to_pylist()
    assert found == [ROWS[0], ROWS[1], ROWS[1], ROWS[2]]


def test_a_row_that_is_there_needs_them(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    lake.create_database("d")
    table = lake.create_table("d.t", SCHEMA)
    rows = pa.Table.from_pylist(
        [{"k": 1, "items": [{"n": None}]}],
        SCHEMA.set(2, pa.field("items", pa.list_(pa.struct([("n", pa.int32())])))),
    )
    with pytest.raises(Invalid, match="'n'"):
        table.write(rows)
    assert table.refresh().snapshots() == []
