"""Tables with deletion vectors, shared with Paimon's Java library, pypaimon and paimon-rust."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from fastavro.schema import to_parsing_canonical_form
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.formats.avro_container import read_blocks
from headwater.storage.index.manifest import INDEX_MANIFEST_SCHEMA, index_entries

from .conftest import TOKEN, Client, Service
from .java_client import JavaClient

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
KEYED = {"bucket": "2", "deletion-vectors.enabled": "true"}
FORMS = pytest.mark.parametrize("bitmap64", ["false", "true"], ids=["32 bits", "64 bits"])


def rows(keys: range, version: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [version * 1000 + k for k in keys]}, schema=SCHEMA)


def found(table: pa.Table) -> dict[int, int]:
    assert len(set(table["k"].to_pylist())) == table.num_rows
    return dict(zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True))


def new_table(
    lake: Lake, client: str, options: Mapping[str, str], primary_keys: tuple[str, ...] = ("k",)
) -> Table:
    name = f"interop.vectors_{client}"
    lake.drop_table(name, ignore_if_not_exists=True)
    return lake.create_table(
        name,
        SCHEMA,
        primary_keys=primary_keys,
        options=options,
    )


@FORMS
@pytest.mark.interop_java
def test_rows_that_java_s_compaction_deleted_are_left_out(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    bitmap64: str,
) -> None:
    java = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    options = {**KEYED, "deletion-vectors.bitmap64": bitmap64}
    table = new_table(lake, java.label, options)
    name = str(table.identifier)
    java.write(name, rows(range(200), 1))
    java.write(name, rows(range(20, 80), 2))
    java.write(name, rows(range(70, 80), 3), "-D")
    expected = found(rows(range(200), 1)) | found(rows(range(20, 80), 2))
    for key in range(70, 80):
        del expected[key]
    assert found(java.read(name)) == expected
    entries = index_entries(table.storage, table.latest_snapshot())
    deleted = sum(v.cardinality or 0 for e in entries for v in e.index_file.vectors or ())
    assert deleted >= 60
    assert found(table.scan().to_arrow()) == expected
    assert table.scan().count() == len(expected)
    assert table.scan(where="v >= 2000 AND v < 2040").count() == 20
    assert table.scan(where="k = 75").count() == 0
    assert table.scan(snapshot_id=1).count() + table.scan(snapshot_id=2).count() > 0
    if java_version == "2.0.0":
        # Headwater writes index manifests with the schema that Java writes.
        path = table.storage.layout.manifest(str(_latest_index(table)))
        (block, *_) = read_blocks(table.storage.files.read(path), path)
        theirs = json.loads(block.reader.schema_text)
        assert to_parsing_canonical_form(theirs) == to_parsing_canonical_form(INDEX_MANIFEST_SCHEMA)


MERGED_ON_WRITE: Mapping[str, Mapping[str, str]] = {
    "32 bits": {},
    "64 bits": {"deletion-vectors.bitmap64": "true"},
    "sums": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": "true",
        "changelog-producer": "lookup",
    },
    "partial updates": {
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": "true",
        "index-file-in-data-file-dir": "true",
    },
    "newest value": {"sequence.field": "v", "bucket": "-1", "changelog-producer": "lookup"},
}


class _Expected:
    """The rows of a table that several engines write in turns."""

    def __init__(self, kind: str) -> None:
        self.rows: dict[int, int] = {}
        self._sums, self._newest = kind == "sums", kind == "newest value"

    def upsert(self, keys: range, version: int) -> pa.Table:
        new = rows(keys, version)
        for key, value in found(new).items():
            old = self.rows.get(key)
            if old is None or not (self._sums or self._newest):
                self.rows[key] = value
            else:
                self.rows[key] = old + value if self._sums else max(old, value)
        return new

    def delete(self, keys: range, version: int) -> pa.Table:
        for key in keys:
            del self.rows[key]
        return rows(keys, version)


@pytest.mark.parametrize("kind", MERGED_ON_WRITE)
@pytest.mark.interop_java
def test_java_and_headwater_write_the_same_table_that_merges_on_write(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    kind: str,
) -> None:
    java = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    # As Paimon picks: files of so few rows are about as large, and would all be merged.
    options = {**KEYED, **MERGED_ON_WRITE[kind], "compaction.size-ratio": "1"}
    table = new_table(lake, java.label, options)
    name, expected = str(table.identifier), _Expected(kind)

    def agree() -> None:
        assert found(java.read(name)) == expected.rows == found(table.scan().to_arrow())

    table.write(expected.upsert(range(200), 1))
    agree()
    table.write(expected.upsert(range(20, 80), 2))
    table.write(expected.delete(range(70, 80), 9), pa.array(["-D"] * 10))
    agree()
    assert _vectors(table)
    # Java looks keys up in our files, and marks rows of them.
    java.write(name, expected.upsert(range(10, 40), 3))
    java.write(name, expected.delete(range(100, 110), 9), "-D")
    agree()
    # We look keys up in Java's.
    table.write(expected.upsert(range(30, 105), 4))
    table.write(expected.delete(range(15, 25), 9), pa.array(["-D"] * 10))
    agree()
    table.compact()
    agree()
    assert not _vectors(table)
    java.write(name, expected.upsert(range(150, 260), 5))
    for bucket in sorted({file.bucket for file in table.files()}):
        java.compact(name, bucket)
    agree()
    table.write(expected.upsert(range(0, 300, 7), 6))
    agree()
    table.overwrite(expected.upsert(range(5), 7))
    expected.rows = found(rows(range(5), 7))
    java.write(name, expected.upsert(range(3, 8), 8))
    agree()


# pypaimon 2.1.0 refuses the options by which the other merge engines delete.
@pytest.mark.parametrize("kind", ["32 bits", "newest value"])
@pytest.mark.interop
def test_pypaimon_heeds_what_is_merged_on_write(lake: Lake, pypaimon: Client, kind: str) -> None:
    _read_by(lake, pypaimon, kind)


@pytest.mark.parametrize("kind", MERGED_ON_WRITE)
@pytest.mark.interop
def test_paimon_rust_heeds_what_is_merged_on_write(lake: Lake, rust: Client, kind: str) -> None:
    _read_by(lake, rust, kind)


def _read_by(lake: Lake, client: Client, kind: str) -> None:
    table = new_table(lake, client.label, {**KEYED, **MERGED_ON_WRITE[kind]})
    expected = _Expected(kind)
    table.write(expected.upsert(range(200), 1))
    table.write(expected.upsert(range(20, 80), 2))
    table.write(expected.delete(range(70, 80), 9), pa.array(["-D"] * 10))
    assert found(client.read(str(table.identifier))) == expected.rows
    table.compact()
    assert found(client.read(str(table.identifier))) == expected.rows


APPEND = {
    "plain": {"deletion-vectors.enabled": "true"},
    "64 bits": {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
    "buckets": {"deletion-vectors.enabled": "true", "bucket": "2", "bucket-key": "k"},
    "beside data": {"deletion-vectors.enabled": "true", "index-file-in-data-file-dir": "true"},
}
append_tables = pytest.mark.parametrize("kind", APPEND)


def deleted_from(lake: Lake, client: str, kind: str) -> tuple[Table, dict[int, int]]:
    """An append table with rows deleted twice, and the rows that are left."""
    table = new_table(lake, client, APPEND[kind], ())
    table.write(rows(range(300), 1))
    table.write(rows(range(300, 400), 1))
    table.delete("k >= 10 AND k < 120")
    table.delete("k = 3 OR k = 115 OR k > 390")
    left = found(rows(range(400), 1))
    for key in (3, *range(10, 120), *range(391, 400)):
        del left[key]
    assert found(table.scan().to_arrow()) == left
    return table, left


@append_tables
@pytest.mark.interop_java
def test_java_heeds_deletions_of_append_tables(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    kind: str,
) -> None:
    if java_version == "1.4.2" and kind != "plain":
        pytest.skip("the releases before and after are asked")
    java = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    table, left = deleted_from(lake, java.label, kind)
    name = str(table.identifier)
    assert found(java.read(name)) == left
    # Java's commits keep the vectors, and ours its rows.
    java.write(name, rows(range(500, 505), 2))
    left |= found(rows(range(500, 505), 2))
    assert found(java.read(name)) == left == found(table.scan().to_arrow())
    table.delete("k = 500 OR k = 200")
    for key in (500, 200):
        del left[key]
    assert found(java.read(name)) == left
    table.update({"v": 5}, where="k < 3")
    table.merge(rows(range(3, 6), 9), on=["k"])
    left |= dict.fromkeys(range(3), 5) | found(rows(range(3, 6), 9))
    assert found(java.read(name)) == left
    table.compact()
    assert found(java.read(name)) == left == found(table.scan().to_arrow())


# pypaimon 2.1.0 does not know the 64-bit form (`DeletionVector.read`).
@pytest.mark.parametrize("kind", [kind for kind in APPEND if kind != "64 bits"])
@pytest.mark.interop
def test_pypaimon_heeds_deletions_of_append_tables(lake: Lake, pypaimon: Client, kind: str) -> None:
    table, left = deleted_from(lake, pypaimon.label, kind)
    assert found(pypaimon.read(str(table.identifier))) == left


@append_tables
@pytest.mark.interop
def test_paimon_rust_heeds_deletions_of_append_tables(lake: Lake, rust: Client, kind: str) -> None:
    table, left = deleted_from(lake, rust.label, kind)
    assert found(rust.read(str(table.identifier))) == left


def _vectors(table: Table) -> int:
    """The number of data files with deletion vectors."""
    entries = index_entries(table.storage, table.latest_snapshot())
    return sum(len(entry.index_file.vectors or ()) for entry in entries)


def _latest_index(table: Table) -> str | None:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    return snapshot.index_manifest
