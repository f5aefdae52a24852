"""Indexes that Java builds of the columns of primary-key tables, and rows that Headwater writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.index.manifest import index_entries

from .conftest import TOKEN, Service
from .java_client import JavaClient

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        ("n", pa.int32()),
        ("s", pa.string()),
    ]
)
OPTIONS = {
    "bucket": "1",
    "deletion-vectors.enabled": "true",
    "pk-btree.index.columns": "n",
    "pk-bitmap.index.columns": "s",
}


def rows(keys: range, add: int) -> pa.Table:
    columns = [list(keys), [k + add for k in keys], [f"s{(k + add) % 7}" for k in keys]]
    return pa.table(columns, schema=SCHEMA)


def built(table: Table) -> list[str]:
    """The names of the index files that Java built."""
    snapshot = table.refresh().latest_snapshot()
    return sorted(
        entry.index_file.file_name
        for entry in index_entries(table.storage, snapshot)
        if entry.index_file.index_type in ("btree", "bitmap")
    )


@pytest.mark.interop_java
def test_java_finds_rows_that_its_indexes_do_not_cover(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], Any],
    tmp_path: Path,
) -> None:
    java = JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)
    name = "interop.key_indexes"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, schema=SCHEMA, primary_keys=["k"], options=OPTIONS)

    def check() -> None:
        found = sorted(table.refresh().scan().to_arrow().to_pylist(), key=lambda row: row["k"])
        assert sorted(java.read(name).to_pylist(), key=lambda row: row["k"]) == found
        for column, values in (("n", (0, 7, 103, 1005, 2001)), ("s", ("s0", "s3", "none"))):
            for value in values:
                _, read = java.read_where(name, column, "equal", value)
                expected = [row for row in found if row[column] == value]
                assert sorted(read.to_pylist(), key=lambda row: row["k"]) == expected

    # Of files that a compaction writes: one alone is moved to a level as it is.
    java.write(name, rows(range(60), 0))
    java.write(name, rows(range(40, 100), 0))
    java.compact(name)
    first = built(table)
    assert len(first) == 2
    assert java.uses_index(name, "n", "equal", 7)
    check()
    # Rows of files that no index covers, beside those of one that they do.
    table.with_options({"write-only": "true"}).write(rows(range(90, 120), 1000))
    assert built(table) == first
    check()
    table.refresh().write(rows(range(50, 60), 100))
    table.update({"n": 2001}, where="k = 7")
    table.delete("k = 3")
    check()
    table.compact(full=True)
    # Their files are gone, and they stay until Java writes again.
    assert built(table) == first
    assert not java.uses_index(name, "n", "equal", 8)
    check()
    java.write(name, rows(range(200, 210), 0))
    java.compact(name)
    assert len(built(table)) == 2
    assert not set(built(table)) & set(first)
    check()
