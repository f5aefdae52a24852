"""Default values in the place of nulls, as Paimon's Java library writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.client.lake import Lake
from headwater.storage.schema.change import UpdateColumnDefaultValue
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, Json, parse_type

from .conftest import TOKEN, Service
from .java_client import JavaClient

_SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("p", pa.string()),
        ("a", pa.int32()),
        ("b", pa.string()),
        ("c", pa.float64()),
    ]
)
_DEFAULTS = {"p": "'none'", "a": "7", "b": "", "k": "0"}
_ROWS: Sequence[Mapping[str, object]] = [
    {"k": 1, "p": "x", "a": None, "b": None, "c": None},
    {"k": 2, "p": "y", "a": 1, "b": "b", "c": 0.5},
    {"k": 3, "p": None, "a": None, "b": "b", "c": None},
    {"k": 1, "p": None, "a": 2, "b": None, "c": 1.5},
    {"k": 2, "p": "y", "a": None, "b": "c", "c": None},
]
_TABLES: Mapping[str, tuple[Sequence[str], Sequence[str], Mapping[str, str]]] = {
    "append": ((), ("p",), {}),
    "deduplicate": (("k",), (), {"bucket": "2"}),
    "sequence": (("k",), (), {"bucket": "2", "sequence.field": "a"}),
    "partial": (("k",), (), {"bucket": "2", "merge-engine": "partial-update"}),
    "sum": (
        ("k",), (),
        {"bucket": "2", "merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    ),
}  # fmt: skip


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    rows = table.select(_SCHEMA.names).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


@pytest.mark.interop_java
@pytest.mark.parametrize("kind", _TABLES)
def test_nulls_become_what_java_makes_of_them(
    lake: Lake,
    service: Service,
    java_gateway: JavaGateway,
    java_version: str,
    tmp_path: Path,
    kind: str,
) -> None:
    client = JavaClient(java_gateway, java_version, service.uri, TOKEN, tmp_path)
    keys, partitions, options = _TABLES[kind]
    found = []
    for whose in ("ours", "theirs"):
        name = f"interop.defaults_{kind}_{client.label}_{whose}"
        lake.drop_table(name, ignore_if_not_exists=True)
        lake.create_table(
            name, _SCHEMA, primary_keys=keys, partition_keys=partitions, options=options
        )
        # What is there before stays null.
        before = pa.Table.from_pylist([{"k": 9, "p": "x"}], schema=_SCHEMA)
        lake.table(name).write(before)
        lake.alter_table(
            name, *(UpdateColumnDefaultValue((each,), text) for each, text in _DEFAULTS.items())
        )
        for row in _ROWS:
            data = pa.Table.from_pylist([row], schema=_SCHEMA)
            if whose == "ours":
                lake.table(name).write(data)
            else:
                client.write(name, data)
        table = lake.table(name)
        assert _rows(client.read(name)) == _rows(table.scan().to_arrow())
        found.append(table)
    ours, theirs = found
    assert _rows(ours.scan().to_arrow()) == _rows(theirs.scan().to_arrow())
    assert [each.spec for each in ours.partitions()] == [each.spec for each in theirs.partitions()]
    missing = [row for row in _rows(ours.scan().to_arrow()) if row[2] is None]
    assert missing == [(9, "x", None, None, None)]


_INTS: Json = {"type": "ARRAY", "element": "INT"}
_NESTED: Mapping[str, tuple[Json, str]] = {
    "ints": (_INTS, "[1, 2,null,,3]"),
    "function": (_INTS, "'ARRAY( 1 )'"),
    "nothing": (_INTS, "[ ]"),
    "texts": ({"type": "ARRAY", "element": "STRING"}, "[a b, , c,,{d, e},]"),
    "lists": ({"type": "ARRAY", "element": _INTS}, "[[1, 2], null, []]"),
    "map": (
        {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}, "{a -> 1, b->null, a -> 3}",
    ),
    "empty": ({"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}, "map()"),
    "dates": (
        {"type": "MAP", "key": "INT NOT NULL", "value": "DATE"}, "MAP(1, 2020-01-01, 2, null)",
    ),
    "row": (
        {
            "type": "ROW",
            "fields": [{"name": "a", "type": "DECIMAL(5, 2)"}, {"name": "b", "type": _INTS}],
        },
        "{1.5, [2, 3]}",
    ),
    "nulls": ({"type": "ROW", "fields": [{"name": "a", "type": "INT"}]}, "STRUCT()"),
}  # fmt: skip


@pytest.mark.interop_java
def test_defaults_of_nested_columns_are_what_java_makes_of_them(
    lake: Lake, service: Service, java_gateways: Callable[[str], JavaGateway], tmp_path: Path
) -> None:
    # Releases before it refuse maps with null in them.
    client = JavaClient(java_gateways("2.0.0"), "2.0.0", service.uri, TOKEN, tmp_path)
    columns = [DataField(0, "k", parse_type("INT"))]
    for at, (name, (kind, _)) in enumerate(_NESTED.items(), 1):
        columns.append(DataField(at, name, parse_type(kind)))
    names = [f"interop.nested_defaults_{client.label}_{each}" for each in ("source", "ours", "its")]
    for name in names:
        lake.create_table(name, Schema(tuple(columns)), options={"bucket": "1", "bucket-key": "k"})
    for name in names[1:]:
        lake.alter_table(
            name,
            *(UpdateColumnDefaultValue((each,), text) for each, (_, text) in _NESTED.items()),
        )
    lake.table(names[0]).write({"k": [1, 2]})
    lake.table(names[1]).write({"k": [1, 2]})
    client.copy(names[0], names[2])
    ours, its = (lake.table(name).scan().to_arrow().to_pylist() for name in names[1:])
    assert [_without_order(row) for row in ours] == [_without_order(row) for row in its]
    assert ours[0]["ints"] == [1, 2, None, 3]


def _without_order(row: Mapping[str, object]) -> Mapping[str, object]:
    """A row whose maps' entries are sorted."""
    return {k: sorted(v, key=repr) if isinstance(v, list) else v for k, v in row.items()}
