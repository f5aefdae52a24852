"""Columns of type BLOB in tables with a primary key: several files refer to the packs of values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.files.local import local_path
from headwater.storage.formats.blob_references import parsed_references
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, parse_type

from .conftest import TOKEN, Service
from .java_client import JavaClient

FIELDS = (
    DataField(0, "k", parse_type("BIGINT NOT NULL")),
    DataField(1, "b", parse_type("BLOB")),
    DataField(2, "s", parse_type("STRING")),
    DataField(3, "c", parse_type("BLOB")),
)
ARROW = pa.schema(
    [("k", pa.int64()), ("b", pa.large_binary()), ("s", pa.string()), ("c", pa.large_binary())]
)


def rows(keys: range, tag: str) -> pa.Table:
    columns = {
        "k": list(keys),
        "b": [None if k % 4 == 3 else f"{tag}{k}".encode() * (k % 9) for k in keys],
        "s": [f"{tag}{k}" for k in keys],
        "c": [None if k % 5 == 3 else f"{tag} of {k}".encode() for k in keys],
    }
    return pa.table(columns, schema=ARROW)


def in_order(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=lambda row: row["k"])


def packs_of(table: Table) -> set[Path]:
    return set(Path(local_path(table.storage.layout.location)).rglob("*.managed.blob"))


def named_packs(table: Table) -> set[str]:
    """The packs that the lists beside data files name, as those who wrote them call them."""
    found = Path(local_path(table.storage.layout.location)).rglob("*.blobref")
    return {uri for path in found for uri in parsed_references(path.read_bytes(), str(path))}


@pytest.mark.interop_java
@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "2", "file.format": "orc", "blob.target-file-size": "100 b"},
        {"bucket": "1", "file.format": "avro", "deletion-vectors.enabled": "true"},
        {"bucket": "-1", "data-file.thin-mode": "true"},
    ],
    ids=lambda options: "-".join(options.values()).replace(" ", ""),
)
def test_java_and_headwater_share_packs(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], Any],
    tmp_path: Path,
    options: dict[str, str],
) -> None:
    java = JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)
    name = "interop.managed_blobs"
    lake.drop_table(name, ignore_if_not_exists=True)
    table = lake.create_table(name, Schema(FIELDS, primary_keys=("k",)), options=options)
    table.write(rows(range(20), "h"))
    java.write(name, rows(range(10, 30), "j"))
    table.refresh().write(rows(range(25, 35), "hh"))
    if options["bucket"] != "-1":
        for bucket in range(int(options["bucket"])):
            java.compact(name, bucket)
    parts = [rows(range(10), "h"), rows(range(10, 25), "j"), rows(range(25, 35), "hh")]
    expected = pa.concat_tables(parts).to_pylist()
    assert in_order(table.refresh().scan().to_arrow()) == expected
    assert in_order(java.read(name)) == expected
    packs = packs_of(table)
    # Both call them the same: else a collector would take them for two.
    assert named_packs(table) == {f"file:{pack}" for pack in packs}
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert packs_of(table) == packs
    assert in_order(java.read(name)) == in_order(table.scan().to_arrow()) == expected
    table.delete("k = 5")
    table.update({"b": b"updated"}, where="k = 6")
    table.update({"s": "updated"}, where="k = 12")
    expected[6]["b"], expected[12]["s"] = b"updated", "updated"
    del expected[5]
    assert in_order(table.scan().to_arrow()) == expected
    assert in_order(java.read(name)) == expected
    java.write(name, rows(range(100, 101), "j"))
    expected += rows(range(100, 101), "j").to_pylist()
    assert in_order(table.refresh().scan().to_arrow()) == in_order(java.read(name)) == expected
    assert not table.check_files(deep=True).damages
