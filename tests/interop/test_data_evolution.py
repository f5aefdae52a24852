"""Tables with data evolution, whose columns several engines write: all read the same rows."""

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

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def rows(keys: range) -> pa.Table:
    columns = {"k": list(keys), "v": [k * 10 for k in keys], "s": [f"s{k}" for k in keys]}
    return pa.table(columns, schema=SCHEMA)


def new_table(lake: Lake, client: str, **options: str) -> Table:
    name = f"interop.evolved_{client}"
    lake.drop_table(name, ignore_if_not_exists=True)
    return lake.create_table(name, SCHEMA, options={**OPTIONS, **options})


def in_order(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=lambda row: row["k"])


@pytest.mark.interop_java
def test_java_and_headwater_join_the_same_columns(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], JavaGateway],
    tmp_path: Path,
) -> None:
    java = JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)
    table = new_table(lake, java.label)

    def same() -> list[dict[str, object]]:
        found = in_order(table.scan().to_arrow())
        assert found == in_order(java.read(table.name))
        whole = f"{table.name}$row_tracking"
        assert in_order(lake.system_table(whole).to_arrow()) == in_order(java.read(whole))
        return found

    table.write(rows(range(4)))
    java.write(table.name, rows(range(4, 6)))
    java.write_columns(table.name, pa.table({"v": [1, 2, 3, 4]}), 0)
    assert [row["v"] for row in same()] == [1, 2, 3, 4, 40, 50]
    java.write_columns(table.name, pa.table({"s": ["x", None], "k": pa.array([14, 15])}), 4)
    java.write_columns(table.name, pa.table({"v": [7, None, 9, 10]}), 0)
    table.write(rows(range(20, 22)))
    assert same() == [
        {"k": 0, "v": 7, "s": "s0"},
        {"k": 1, "v": None, "s": "s1"},
        {"k": 2, "v": 9, "s": "s2"},
        {"k": 3, "v": 10, "s": "s3"},
        {"k": 14, "v": 40, "s": "x"},
        {"k": 15, "v": 50, "s": None},
        {"k": 20, "v": 200, "s": "s20"},
        {"k": 21, "v": 210, "s": "s21"},
    ]
    assert table.scan(["k"], "v >= 9 and v < 40").to_arrow()["k"].to_pylist() == [2, 3]
    table.update({"v": 77}, where="k in (1, 15)")
    table.merge(pa.table({"k": [14, 30], "s": ["m", "n"]}), on=["k"])
    java.write_columns(table.name, pa.table({"s": ["q", "r"]}), 6)
    assert [(row["k"], row["v"], row["s"]) for row in same()] == [
        (0, 7, "s0"),
        (1, 77, "s1"),
        (2, 9, "s2"),
        (3, 10, "s3"),
        (14, 40, "m"),
        (15, 77, None),
        (20, 200, "q"),
        (21, 210, "r"),
        (30, None, "n"),
    ]


@pytest.mark.interop_java
def test_java_and_headwater_compact_the_same_columns(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], JavaGateway],
    tmp_path: Path,
) -> None:
    java = JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)
    options = {"deletion-vectors.enabled": "true", "compaction.min.file-num": "2"}
    table = new_table(lake, f"{java.label}_compacted", **options)

    def same() -> list[tuple[object, ...]]:
        found = in_order(table.refresh().scan().to_arrow())
        assert found == in_order(java.read(table.name))
        whole = f"{table.name}$row_tracking"
        told = in_order(lake.system_table(whole).to_arrow())
        assert told == in_order(java.read(whole))
        return [tuple(row.values()) for row in told]

    table.write(rows(range(4)))
    java.write(table.name, rows(range(4, 6)))
    java.write_columns(table.name, pa.table({"v": [1, 2, 3, 4]}), 0)
    table.refresh().delete("k = 1 or k = 4")
    before = same()
    table.compact()
    assert len(table.files()) == 1
    after = same()
    # The version of rows that are joined is the greatest.
    assert [row[:4] for row in after] == [row[:4] for row in before]
    table.update({"s": "new"}, where="k = 5")
    java.write(table.name, rows(range(6, 8)))
    table.refresh().delete("k = 0 or k = 7")
    before = same()
    java.compact_joined(table.name)
    after = same()
    assert [row[:4] for row in after] == [row[:4] for row in before]
    assert len(table.files()) == 1
    table.update({"v": 0}, where="k = 2")
    assert [row[:2] for row in same()] == [(2, 0), (3, 4), (5, 50), (6, 60)]


@pytest.mark.interop
def test_pypaimon_and_headwater_join_the_same_columns(lake: Lake, pypaimon: Client) -> None:
    table = new_table(lake, pypaimon.label, **{"deletion-vectors.enabled": "true"})

    def same() -> list[dict[str, object]]:
        found = in_order(table.scan().to_arrow())
        assert found == in_order(pypaimon.read(table.name))
        names = ["k", "_ROW_ID"]
        told = in_order(table.scan(names).to_arrow())
        assert told == in_order(pypaimon.read(table.name, names))
        return found

    table.write(rows(range(4)))
    pypaimon.write(table.name, rows(range(4, 6)))
    ids = pa.array([1, 3, 4], pa.int64())
    pypaimon.update_columns(table.name, pa.table({"_ROW_ID": ids, "v": pa.array([7, 8, 9])}))
    assert [row["v"] for row in same()] == [0, 7, 20, 8, 9, 50]
    pypaimon.update_columns(
        table.name, pa.table({"_ROW_ID": ids, "s": ["x", "y", "z"], "v": pa.array([1, None, 3])})
    )
    assert [row["v"] for row in same()] == [0, 1, 20, None, 3, 50]
    table.write(rows(range(20, 22)))
    pypaimon.delete_by_row_id(table.name, [0, 4, 6])
    assert same() == [
        {"k": 1, "v": 1, "s": "x"},
        {"k": 2, "v": 20, "s": "s2"},
        {"k": 3, "v": None, "s": "y"},
        {"k": 5, "v": 50, "s": "s5"},
        {"k": 21, "v": 210, "s": "s21"},
    ]
    assert table.scan().count() == 5
    table.update({"v": 6}, where="k >= 5")
    table.delete("k = 2 or k = 21")
    pypaimon.update_columns(table.name, pa.table({"_ROW_ID": [5], "s": ["last"]}))
    assert same() == [
        {"k": 1, "v": 1, "s": "x"},
        {"k": 3, "v": None, "s": "y"},
        {"k": 5, "v": 6, "s": "last"},
    ]
    table.refresh().compact()
    assert len(table.files()) == 1
    kept = same()
    pypaimon.update_columns(table.name, pa.table({"_ROW_ID": [1], "s": ["first"]}))
    assert same() == [{**kept[0], "s": "first"}, *kept[1:]]


@pytest.mark.interop
def test_paimon_rust_reads_what_headwater_appends(lake: Lake, rust: Client) -> None:
    table = new_table(lake, rust.label)
    table.write(rows(range(4)))
    assert in_order(rust.read(table.name)) == in_order(table.scan().to_arrow())
