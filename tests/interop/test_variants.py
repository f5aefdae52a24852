"""Columns of type VARIANT, whole and shredded, shared with Paimon's Java."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import VariantVal

from headwater.catalog.table.table import Table
from headwater.client.lake import Lake
from headwater.storage.files.local import local_path
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, Json, parse_type, to_arrow

from .conftest import TOKEN, Service
from .java_client import JavaClient

pytestmark = pytest.mark.interop_java

FIELDS = (
    DataField(0, "k", parse_type("INT NOT NULL")),
    DataField(1, "v", parse_type("VARIANT")),
)
TEXTS = [
    '{"a": 1, "b": ["x", null, 2.5]}',
    "true",
    "null",
    '"naïve"',
    "[]",
    "{}",
    None,
    '{"b": [], "a": "text", "other": {"a": 1, "z": [1, {"deep": null}]}}',
    '{"a": null, "row": {"x": 300, "y": 1.25, "w": [1]}}',
    '{"a": 70000, "row": {"x": -129, "y": 12345678901.25}, "b": [["p"], "q"]}',
    '{"a": 5000000000, "row": {}, "b": ["' + "long " * 60 + '", "r"]}',
    '{"a": -1, "row": {"x": 1e300, "y": true}, "b": {"a": 1}, "☃": "snow", "zz": 1.5e10}',
    '{"row": [1, 2], "numbers": [1, 2.5, "three"], "flag": false, "other": []}',
    "[1, " + ", ".join(map(str, range(300))) + "]",
    json.dumps({f"k{number:03}": number for number in range(300)} | {"a": 3}),
]
ROW: Json = {
    "type": "ROW",
    "fields": [
        {"name": "x", "type": "INT"},
        {"name": "y", "type": "DECIMAL(15, 2)"},
    ],
}
WANTED: Json = {
    "type": "ROW",
    "fields": [
        {"name": "a", "type": "BIGINT"},
        {"name": "b", "type": {"type": "ARRAY", "element": "STRING"}},
        {"name": "row", "type": ROW},
        {"name": "flag", "type": "BOOLEAN"},
        {"name": "zz", "type": "DOUBLE"},
        {"name": "other", "type": "VARIANT"},
    ],
}
EXPLICIT = json.dumps({"type": "ROW", "fields": [{"name": "v", "type": WANTED}]})
SHREDDINGS = {
    "explicit": {"variant.shreddingSchema": EXPLICIT},
    "older": {"parquet.variant.shreddingSchema": EXPLICIT},
    "inferred": {"variant.inferShreddingSchema": "true"},
    "rare": {
        "variant.inferShreddingSchema": "true",
        "variant.shredding.minFieldCardinalityRatio": "0.01",
    },
}


def create(
    lake: Lake, name: str, options: Mapping[str, str] | None = None, *, keyed: bool = False
) -> Table:
    return lake.create_table(
        f"interop.{name}",
        Schema(FIELDS),
        primary_keys=["k"] if keyed else [],
        options={"bucket": "1", "bucket-key": "k", **(options or {})},
    )


def read_json(table: Table) -> list[object]:
    """The content of each variant, as Spark's Python library reads it."""
    rows = table.refresh().scan().to_arrow().sort_by("k").column("v").to_pylist()
    return [None if row is None else VariantVal(**row).toPython() for row in rows]


def variants(gateway: Any, texts: list[str | None]) -> pa.Table:
    """Rows of these texts, as Paimon's Java encodes them."""
    generic = gateway.jvm.org.apache.paimon.data.variant.GenericVariant
    values = [None if text is None else generic.fromJson(text) for text in texts]
    rows = [
        None if each is None else {"value": bytes(each.value()), "metadata": bytes(each.metadata())}
        for each in values
    ]
    schema = pa.schema([pa.field(f.name, to_arrow(f.type), f.type.nullable) for f in FIELDS])
    return pa.table(
        [pa.array(range(len(rows)), pa.int32()), pa.array(rows, schema.types[1])], schema=schema
    )


def is_shredded(table: Table) -> bool:
    root = Path(local_path(table.storage.layout.location))
    types = [pq.read_schema(path).field("v").type for path in root.rglob("*.parquet")]
    assert types
    return all(each.get_field_index("typed_value") >= 0 for each in types)


@pytest.mark.parametrize("keyed", [False, True])
def test_whole_variants(
    lake: Lake, service: Service, java_gateways: Callable[[str], Any], tmp_path: Path, keyed: bool
) -> None:
    gateway = java_gateways("2.0.0")
    java = JavaClient(gateway, "2.0.0", service.uri, TOKEN, tmp_path)
    data = variants(gateway, TEXTS)
    tables = [create(lake, f"variants_{keyed}_{at}".lower(), keyed=keyed) for at in range(2)]
    tables[0].write(data)
    java.copy(tables[0].name, tables[1].name)
    found = tables[1].refresh().scan().to_arrow().sort_by("k")
    assert found.to_pylist() == data.to_pylist()


@pytest.mark.parametrize("shredding", SHREDDINGS)
def test_java_shreds_and_headwater_reads(
    lake: Lake,
    service: Service,
    java_gateways: Callable[[str], Any],
    tmp_path: Path,
    shredding: str,
) -> None:
    gateway = java_gateways("2.0.0")
    java = JavaClient(gateway, "2.0.0", service.uri, TOKEN, tmp_path)
    plain = create(lake, f"variants_plain_{shredding}")
    # A column is shredded by inference only where all its values are of one kind.
    objects = [text for text in TEXTS if text is None or text.startswith("{")]
    plain.write(variants(gateway, objects if "infer" in str(SHREDDINGS[shredding]) else TEXTS))
    shredded = create(lake, f"variants_{shredding}", SHREDDINGS[shredding])
    java.copy(plain.name, shredded.name)
    assert is_shredded(shredded.refresh())
    assert read_json(shredded) == read_json(plain)
