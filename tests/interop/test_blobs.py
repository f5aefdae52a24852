"""Columns of type BLOB, whose files several engines write: all read the same rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.errors import Unsupported
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, parse_type

from .conftest import TOKEN, Client, Service
from .java_client import JavaClient

FIELDS = (
    DataField(0, "k", parse_type("BIGINT")),
    DataField(1, "b", parse_type("BLOB")),
    DataField(2, "s", parse_type("STRING")),
    DataField(3, "c", parse_type("BLOB")),
)
OPTIONS = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "blob.target-file-size": "2 kb",
    "target-file-row-num": "7",
}


def new_table(lake: Lake, client: str) -> Table:
    name = f"interop.blobs_{client}"
    lake.drop_table(name, ignore_if_not_exists=True)
    return lake.create_table(name, Schema(FIELDS), options=OPTIONS)


def some_bytes(k: int) -> bytes | None:
    if k % 5 == 3:
        return None
    return hashlib.sha256(bytes([k])).digest() * (k % 20)


def rows(keys: range) -> pa.Table:
    schema = pa.schema(
        [("k", pa.int64()), ("b", pa.large_binary()), ("s", pa.string()), ("c", pa.large_binary())]
    )
    columns = {
        "k": list(keys),
        "b": [some_bytes(k) for k in keys],
        "s": [f"s{k}" for k in keys],
        "c": [some_bytes(k + 1) for k in keys],
    }
    return pa.table(columns, schema=schema)


def in_order(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=lambda row: row["k"])


@pytest.mark.interop_java
def test_java_and_headwater_share_blobs(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], Any],
    tmp_path: Path,
) -> None:
    java = JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)
    table = new_table(lake, java.label)
    table.write(rows(range(30)))
    assert in_order(java.read(table.name)) == rows(range(30)).to_pylist()
    copied = new_table(lake, f"{java.label}_copied")
    java.copy(table.name, copied.name)
    assert in_order(copied.refresh().scan().to_arrow()) == rows(range(30)).to_pylist()
    java.copy(copied.name, table.name)
    table.refresh().write(rows(range(30, 40)))
    expected = sorted(
        [*rows(range(30)).to_pylist(), *rows(range(40)).to_pylist()], key=lambda row: row["k"]
    )
    found = table.refresh().scan().to_arrow()
    assert in_order(found) == in_order(java.read(table.name)) == expected
    whole = f"{table.name}$row_tracking"
    assert lake.system_table(whole).to_arrow()["_ROW_ID"].to_pylist() == list(range(70))
    # New values of a column, in a newer file.
    java.write_columns(table.name, pa.table({"b": [b"new", None, b""]}), 0)
    found = table.refresh().scan().to_arrow()
    assert found["b"].to_pylist()[:4] == [b"new", None, b"", None]
    assert in_order(found) == in_order(java.read(table.name))
    table.update({"s": "changed"}, where="k < 9")
    found = table.refresh().scan().to_arrow()
    assert in_order(found) == in_order(java.read(table.name))
    assert found["s"].to_pylist()[:10] == ["changed"] * 9 + ["s9"]
    table.update({"b": b"b of Headwater"}, where="k in (1, 8, 12)")
    table.merge({"k": [2, 33], "c": [b"c of Headwater", None], "s": ["x", "y"]}, on=["k"])
    java.write_columns(table.name, pa.table({"c": [b"new", b"of", b"Java"]}), 1)
    found = table.refresh().scan().to_arrow()
    assert in_order(found) == in_order(java.read(table.name))
    assert found["b"].to_pylist()[:2] == [b"new", b"b of Headwater"]
    table.compact()
    assert in_order(table.scan().to_arrow()) == in_order(java.read(table.name)) == in_order(found)
    java.compact_joined(table.name, blobs=True)
    table.refresh().update({"b": None}, where="k = 12")
    found = table.scan().to_arrow()
    assert in_order(found) == in_order(java.read(table.name))


@pytest.mark.interop
def test_descriptors_that_pypaimon_keeps_are_read(
    lake: Lake, pypaimon: Client, tmp_path: Path
) -> None:
    source = new_table(lake, f"{pypaimon.label}_source")
    source.write(rows(range(1, 3)))
    places = source.with_options({"blob-as-descriptor": "true"}).scan(["b"]).to_arrow()
    name = f"interop.blobs_{pypaimon.label}_described"
    lake.drop_table(name, ignore_if_not_exists=True)
    options = {**OPTIONS, "blob-descriptor-field": "b"}
    table = lake.create_table(name, Schema(FIELDS), options=options, for_another_engine=True)
    pypaimon.write(name, rows(range(1, 3)).set_column(1, "b", places["b"]))
    assert in_order(pypaimon.read(name)) == rows(range(1, 3)).to_pylist()
    table.refresh()
    told = table.with_options({"blob-as-descriptor": "true"}).scan(["b"]).to_arrow()
    assert told["b"].to_pylist() == places["b"].to_pylist()
    assert table.scan(["c"]).to_arrow()["c"].to_pylist() == [some_bytes(2), some_bytes(3)]
    with pytest.raises(Unsupported, match="'blob-as-descriptor' = 'true'"):
        table.scan(["b", "c"]).to_arrow()


@pytest.mark.interop
def test_pypaimon_and_headwater_share_blobs(lake: Lake, pypaimon: Client) -> None:
    table = new_table(lake, pypaimon.label)
    table.write(rows(range(30)))
    assert in_order(pypaimon.read(table.name)) == rows(range(30)).to_pylist()
    pypaimon.write(table.name, rows(range(30, 40)))
    table.refresh().write(rows(range(40, 50)))
    expected = rows(range(50)).to_pylist()
    assert in_order(table.refresh().scan().to_arrow()) == expected
    assert in_order(pypaimon.read(table.name)) == expected
    table.update({"b": b"b of Headwater", "s": "new"}, where="k in (1, 8, 12)")
    for at in (1, 8, 12):
        expected[at] |= {"b": b"b of Headwater", "s": "new"}
    assert in_order(table.scan().to_arrow()) == expected
    assert in_order(pypaimon.read(table.name)) == expected
    table.compact()
    assert in_order(pypaimon.read(table.name)) == expected
