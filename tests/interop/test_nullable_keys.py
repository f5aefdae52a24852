"""Primary keys that hold nulls, shared with Paimon's Java library."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.client import connect

from .java_client import JavaClient

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.string()), ("v", pa.int32())])
KEYS = [(k, n) for k in (None, 0, 1, 5) for n in (None, "", "x")]


def rows(keys: list[tuple[int | None, str | None]], value: int) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "n": n, "v": value} for k, n in keys], SCHEMA)


def found(table: pa.Table) -> dict[tuple[object, object], object]:
    result = {(row["k"], row["n"]): row["v"] for row in table.to_pylist()}
    assert len(result) == table.num_rows
    return result


@pytest.mark.interop_java
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_null_keys_are_the_same_rows_to_either_side(
    java_gateway: JavaGateway, java_version: str, tmp_path: Path, format: str
) -> None:
    # On files alone: of a catalog's answer these releases make keys NOT NULL.
    on_files = {"metastore": "filesystem", "warehouse": str(tmp_path / "lake" / "warehouse")}
    java = JavaClient(java_gateway, java_version, "", "", tmp_path, on_files)
    name = "d.t"
    with connect(tmp_path / "lake") as lake:
        lake.create_database("d")
        options = {"primary-key.nullable": "true", "bucket": "3", "file.format": format}
        table = lake.create_table(name, SCHEMA, primary_keys=["k", "n"], options=options)
        table.with_options({"write-only": "true"}).write(rows(KEYS, 1))
        table.with_options({"write-only": "true"}).write(rows([(None, "x"), (5, None)], 2))
        truth = dict.fromkeys(KEYS, 1) | {(None, "x"): 2, (5, None): 2}
        assert found(java.read(name)) == truth
        java.write(name, rows([(None, None), (5, None), (1, "")], 3))
        truth |= {(None, None): 3, (5, None): 3, (1, ""): 3}
        assert found(java.read(name)) == truth
        lake.reconcile(name, apply=True)
        table = lake.table(name)
        assert found(table.scan().to_arrow()) == truth
        table.compact(full=True)
        assert found(table.scan().to_arrow()) == truth
        assert found(java.read(name)) == truth
