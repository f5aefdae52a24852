"""CHAR keys in ORC files, which Flink and Spark fill up with spaces before Paimon hashes them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from headwater.client.lake import Lake
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, parse_type

from .java_client import JavaClient

pytestmark = pytest.mark.interop_java

FIELDS = (
    DataField(0, "k", parse_type("CHAR(4) NOT NULL")),
    DataField(1, "v", parse_type("BIGINT")),
)
KINDS: Mapping[str, Mapping[str, str]] = {
    "one bucket": {"bucket": "1"},
    "buckets": {"bucket": "5"},
    "dynamic": {"bucket": "-1"},
    "marked": {"bucket": "2", "deletion-vectors.enabled": "true"},
    "lookup": {"bucket": "2", "changelog-producer": "lookup"},
}


@pytest.fixture(params=["2.0.0"])
def java_version(request: pytest.FixtureRequest) -> str:
    version: str = request.param
    return version


def rows(keys: range, v: int) -> pa.Table:
    """Keys as Flink and Spark fill them up."""
    texts = [f"k{key}".ljust(4) for key in keys]
    return pa.table({"k": texts, "v": pa.array([v * 100 + key for key in keys], pa.int64())})


def found(table: pa.Table) -> dict[str, int]:
    pairs = [(str(row["k"]).rstrip(), row["v"]) for row in table.to_pylist()]
    assert len(dict(pairs)) == len(pairs), sorted(pairs)
    return dict(pairs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_key_is_one_key(lake: Lake, java: JavaClient, kind: str) -> None:
    name = f"interop.padded_{java.label}_{kind.replace(' ', '_')}"
    lake.drop_table(name, ignore_if_not_exists=True)
    schema = Schema(FIELDS, primary_keys=("k",))
    table = lake.create_table(name, schema, options={"file.format": "orc", **KINDS[kind]})
    expected = found(rows(range(20), 1))
    java.write(name, rows(range(20), 1))
    assert found(table.scan().to_arrow()) == expected
    assert found(table.scan(where="k = 'k7'").to_arrow()) == {"k7": 107}
    assert found(table.scan(where="k IN ('k7', 'k9', 'k8x')").to_arrow()) == {"k7": 107, "k9": 109}
    table.write(rows(range(5, 15), 2))
    expected |= found(rows(range(5, 15), 2))
    assert found(table.scan().to_arrow()) == expected
    table.delete("k = 'k3' OR k = 'k6'")
    expected = {key: v for key, v in expected.items() if key not in ("k3", "k6")}
    assert found(table.scan().to_arrow()) == expected
    table.update({"v": 7}, where="k = 'k2'")
    expected["k2"] = 7
    java.write(name, rows(range(8, 10), 3))
    expected |= found(rows(range(8, 10), 3))
    assert found(table.scan().to_arrow()) == expected
    table.compact(full=True)
    assert found(table.scan().to_arrow()) == expected
    assert found(java.read(name)) == expected
