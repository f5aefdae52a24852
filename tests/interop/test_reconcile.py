"""What Paimon's Java library writes with a catalog of files alone is taken over."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.client import connect

from .java_client import JavaClient

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])


def rows(keys: range, version: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [version] * len(keys)}, schema=SCHEMA)


def values(found: pa.Table) -> dict[int, int]:
    return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


@pytest.mark.interop_java
def test_java_s_tables_and_snapshots_are_taken_over(
    java_gateway: JavaGateway, java_version: str, tmp_path: Path
) -> None:
    lake = connect(str(tmp_path / "lake"))
    lake.create_database("db")
    place = {"metastore": "filesystem", "warehouse": f"file://{tmp_path}/lake/warehouse"}
    java = JavaClient(java_gateway, java_version, "", "", tmp_path / "scratch", place)
    table = lake.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": "2"})
    table.write(rows(range(10), 1))
    for version in (2, 3):
        java.write("db.t", rows(range(5, 15), version))
    java.create("db.made", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    java.write("db.made", rows(range(3), 4))
    java.make_branch("db.made", "b")
    java.write("db.made$branch_b", rows(range(4), 5))
    found = lake.reconcile(apply=True)
    assert found.refused == ()
    assert {f"{each.table} {each.what}" for each in found.changes} >= {
        "db.t snapshot 2",
        "db.t snapshot 3",
        "db.made table",
    }
    assert lake.reconcile(apply=True).changes == ()
    expected = dict.fromkeys(range(5), 1) | dict.fromkeys(range(5, 15), 3)
    assert values(table.scan().to_arrow()) == expected == values(java.read("db.t"))
    made = lake.table("db.made")
    assert values(made.scan().to_arrow()) == dict.fromkeys(range(3), 4)
    assert values(made.branch("b").scan().to_arrow()) == dict.fromkeys(range(4), 5)
    table.write(rows(range(2), 6))
    made.branch("b").write(rows(range(1), 7))
    assert values(java.read("db.t")) == {**expected, 0: 6, 1: 6}
    assert values(java.read("db.made$branch_b")) == {0: 7, 1: 5, 2: 5, 3: 5}
