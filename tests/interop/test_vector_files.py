"""Files of vectors alone, which Java and Headwater write beside those of other columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.files.local import local_path

from .conftest import TOKEN, Service
from .java_client import JavaClient

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("v", pa.list_(pa.float32(), 3)),
        ("s", pa.string()),
        ("w", pa.list_(pa.float32(), 2)),
    ]
)
OPTIONS = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
    "vector.target-file-size": "1 kb",
}


def new_table(lake: Lake, name: str, vectors: str) -> Table:
    whole = f"interop.vector_files_{name}"
    lake.drop_table(whole, ignore_if_not_exists=True)
    options = {**OPTIONS, "vector.file.format": vectors}
    return lake.create_table(whole, SCHEMA, options=options)


def rows(keys: range) -> pa.Table:
    columns = [
        list(keys),
        [None if k % 3 == 2 else [k + 0.5, -k, float("inf")] for k in keys],
        [f"s{k}" for k in keys],
        [[k, 1] for k in keys],
    ]
    return pa.table(columns, schema=SCHEMA)


def in_order(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=lambda row: row["k"])


def vector_files(table: Table) -> int:
    return len(list(Path(local_path(table.storage.layout.location)).rglob("*.vector.*")))


@pytest.mark.interop_java
@pytest.mark.parametrize("vectors", ["parquet", "avro"])
def test_java_and_headwater_share_files_of_vectors(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], Any],
    tmp_path: Path,
    vectors: str,
) -> None:
    java = JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)
    table = new_table(lake, f"{java.label}_{vectors}", vectors)
    table.write(rows(range(600)))
    assert vector_files(table) > 1
    assert in_order(java.read(table.name)) == rows(range(600)).to_pylist()
    copied = new_table(lake, f"{java.label}_{vectors}_copied", vectors)
    java.copy(table.name, copied.name)
    assert vector_files(copied) > 0
    assert in_order(copied.refresh().scan().to_arrow()) == rows(range(600)).to_pylist()
    copied.write(rows(range(600, 900)))
    copied.update({"s": "updated"}, where="k = 5")
    copied.delete("k in (6, 700)")
    expected = rows(range(900)).to_pylist()
    expected[5]["s"] = "updated"
    expected = [row for row in expected if row["k"] not in (6, 700)]
    assert in_order(copied.scan().to_arrow()) == in_order(java.read(copied.name)) == expected
    copied.compact(full=True)
    assert in_order(copied.scan().to_arrow()) == in_order(java.read(copied.name)) == expected
    copied.write(rows(range(900, 910)))
    java.compact_joined(copied.name)
    expected += rows(range(900, 910)).to_pylist()
    found = copied.refresh().scan().to_arrow()
    assert in_order(found) == in_order(java.read(copied.name)) == expected
    ids = lake.system_table(f"{copied.name}$row_tracking").to_arrow()
    assert {row["_ROW_ID"]: row["k"] for row in ids.to_pylist()} == {
        row["k"]: row["k"] for row in expected
    }
