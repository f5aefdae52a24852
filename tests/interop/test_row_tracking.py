"""Tables with row tracking, written by several engines in turns, which keep each other's ids."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake

from .conftest import TOKEN, Client, Service
from .java_client import JavaClient

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
TRACKED = {"row-tracking.enabled": "true"}
MARKED = {**TRACKED, "deletion-vectors.enabled": "true"}
NAMES = ["_ROW_ID", "k", "p", "v", "_SEQUENCE_NUMBER"]
FORMS = pytest.mark.parametrize("options", [TRACKED, MARKED], ids=["rewritten", "marked"])


def rows(keys: range, version: int) -> pa.Table:
    columns = {
        "k": list(keys),
        "p": ["ab"[k % 2] for k in keys],
        "v": [version * 1000 + k for k in keys],
    }
    return pa.table(columns, schema=SCHEMA)


def by_id(found: pa.Table) -> dict[int, tuple[int, str, int, int]]:
    result = {
        row[0]: row[1:] for row in zip(*found.select(NAMES).to_pydict().values(), strict=True)
    }
    assert len(result) == found.num_rows
    return result


def ours(table: Table) -> dict[int, tuple[int, str, int, int]]:
    return by_id(table.scan(NAMES).to_arrow())


def new_table(lake: Lake, client: str, options: dict[str, str]) -> Table:
    name = f"interop.tracked_{client}"
    lake.drop_table(name, ignore_if_not_exists=True)
    return lake.create_table(name, SCHEMA, partition_keys=["p"], options=options)


@FORMS
@pytest.mark.interop_java
def test_java_and_headwater_keep_each_other_s_ids(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], JavaGateway],
    tmp_path: Path,
    options: dict[str, str],
) -> None:
    java = JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)
    table = new_table(lake, java.label, options)
    whole = f"{table.name}$row_tracking"

    def same() -> dict[int, tuple[int, str, int, int]]:
        found = by_id(java.read(whole))
        assert found == ours(table)
        return found

    java.write(table.name, rows(range(6), 1))
    table.write(rows(range(6, 10), 2))
    java.write(table.name, rows(range(10, 12), 3))
    assert sorted(same()) == list(range(12))
    table.update({"v": 7}, where="k in (1, 8)")
    table.delete("k = 2 or k = 10")
    expected = same()
    assert {row[3] for row in expected.values()} == {1, 2, 3, 4}
    table.compact(full=True)
    assert same() == expected
    java.write(table.name, rows(range(20, 22), 4))
    table.update({"v": 9}, where="k in (1, 20)")
    expected = same()
    assert sorted(expected)[-2:] == [12, 13]
    assert sum(row[2] == 9 for row in expected.values()) == 2
    # Its columns and its rows without them.
    assert java.columns(whole) == [
        ("k", "BIGINT"),
        ("p", "STRING"),
        ("v", "BIGINT"),
        ("_ROW_ID", "BIGINT NOT NULL"),
        ("_SEQUENCE_NUMBER", "BIGINT NOT NULL"),
    ]
    assert sorted(java.read(table.name)["k"].to_pylist()) == sorted(
        row[0] for row in expected.values()
    )


@FORMS
@pytest.mark.interop
def test_pypaimon_and_headwater_keep_each_other_s_ids(
    lake: Lake, pypaimon: Client, options: dict[str, str]
) -> None:
    table = new_table(lake, pypaimon.label, options)
    pypaimon.write(table.name, rows(range(6), 1))
    table.write(rows(range(6, 10), 2))
    pypaimon.write(table.name, rows(range(10, 12), 3))

    def same() -> dict[int, tuple[int, str, int, int]]:
        found = by_id(pypaimon.read(table.name, NAMES))
        assert found == ours(table)
        return found

    assert sorted(same()) == list(range(12))
    table.update({"v": 7}, where="k in (1, 8)")
    table.delete("k = 2 or k = 10")
    table.compact(full=True)
    # Of rows that were moved pypaimon gives no id, whoever moved them, but all else.
    found, expected = pypaimon.read(table.name, NAMES), ours(table)
    assert found["_ROW_ID"].null_count == found.num_rows
    told = zip(*found.select(NAMES[1:]).to_pydict().values(), strict=True)
    assert sorted(told) == sorted(expected.values())
    pypaimon.write(table.name, rows(range(20, 22), 4))
    assert sorted(ours(table))[-2:] == [12, 13]


@pytest.mark.interop
def test_paimon_rust_reads_rows_that_were_not_moved(lake: Lake, rust: Client) -> None:
    table = new_table(lake, rust.label, TRACKED)
    table.write(rows(range(6), 1))
    assert sorted(rust.read(table.name)["v"].to_pylist()) == list(range(1000, 1006))
    table.update({"v": 7}, where="k in (1, 3)")
    # Whoever moves a row, it has its id in the file, which has no first one: as Java does it.
    with pytest.raises(RuntimeError, match="missing first_row_id"):
        rust.read(table.name)
