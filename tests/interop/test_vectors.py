"""Columns of type VECTOR, written and read by several engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake

from .conftest import TOKEN, Client, Service
from .java_client import JavaClient

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.list_(pa.float32(), 3))])
EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "parquet": {},
    "avro": {"options": {"file.format": "avro"}},
    "evolved": {"options": EVOLUTION},
    "keyed": {"primary_keys": ["k"], "options": {"bucket": "1"}},
}


def new_table(lake: Lake, name: str, kind: str) -> Table:
    whole = f"interop.vectors_{name}_{kind}"
    lake.drop_table(whole, ignore_if_not_exists=True)
    return lake.create_table(whole, SCHEMA, **KINDS[kind])


def rows(*keys: int) -> pa.Table:
    vectors = [None if k % 3 == 2 else [k + 0.5, -k, float("inf")] for k in keys]
    return pa.table({"k": list(keys), "v": vectors}, schema=SCHEMA)


def in_order(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=lambda row: row["k"])


@pytest.mark.interop_java
@pytest.mark.parametrize("kind", KINDS)
def test_java_and_headwater_share_vectors(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], Any],
    tmp_path: Path,
    kind: str,
) -> None:
    java = JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)
    source = new_table(lake, "java_source", "parquet")
    table = new_table(lake, java.label, kind)
    assert java.columns(table.name)[1] == ("v", "VECTOR<FLOAT, 3>")
    source.write(rows(1, 2, 3))
    assert in_order(java.read(source.name)) == in_order(rows(1, 2, 3))
    if kind == "keyed":
        table.write(rows(1, 2, 3, 4))
    else:
        java.copy(source.name, table.name)
        table.write(rows(4))
    assert in_order(java.read(table.name)) == in_order(rows(1, 2, 3, 4))
    assert in_order(table.refresh().scan().to_arrow()) == in_order(rows(1, 2, 3, 4))


@pytest.mark.interop
@pytest.mark.parametrize("kind", KINDS)
def test_pypaimon_and_headwater_share_vectors(lake: Lake, pypaimon: Client, kind: str) -> None:
    table = new_table(lake, pypaimon.label, kind)
    # It fails to write a null vector to Parquet, but reads one.
    pypaimon.write(table.name, rows(1, 3))
    table.write(rows(2, 4))
    assert in_order(table.refresh().scan().to_arrow()) == in_order(rows(1, 2, 3, 4))
    assert in_order(pypaimon.read(table.name)) == in_order(rows(1, 2, 3, 4))
