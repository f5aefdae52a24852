"""Debezium's events in Avro, as Confluent's serializer writes them."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.cdc.kafka.schema_registry import Registry, running_registry

from headwater.cdc.columns import BadDates
from headwater.cdc.kafka.avro_events import avro_events, avro_tombstones
from headwater.cdc.kafka.events import EventGroup, Events, Messages
from headwater.cdc.kafka.registry import SchemaRegistry
from headwater.cdc.kafka.table_rows import KafkaTableRows, definition
from headwater.cdc.model.tables import TableName
from headwater.storage.errors import CorruptData, Invalid, NotFound, Unsupported


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    """A schema registry."""
    with running_registry() as registry:
        yield registry


def connect(base: object, name: str = "", **more: object) -> dict[str, Any]:
    """A type as the converter of Kafka Connect writes it."""
    return {"type": base, **({"connect.name": name} if name else {}), **more}


def optional(type_: object) -> list[object]:
    return ["null", type_]


def named(type_: object, name: str) -> dict[str, object]:
    return {"name": name, "type": type_, "default": None}


DECIMAL = connect(
    "bytes",
    "org.apache.kafka.connect.data.Decimal",
    scale=2,
    precision=10,
    logicalType="decimal",
    **{"connect.parameters": {"scale": "2", "connect.decimal.precision": "10"}},
)
POINT = {
    "type": "record",
    "name": "Point",
    "namespace": "io.debezium.data.geometry",
    "fields": [
        {"name": "x", "type": "double"},
        {"name": "y", "type": "double"},
        named(optional("bytes"), "wkb"),
        named(optional("int"), "srid"),
    ],
    "connect.name": "io.debezium.data.geometry.Point",
}
VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}
COLUMNS: list[tuple[str, object, list[Any], str, list[Any]]] = [
    ("small", connect("int", **{"connect.type": "int16"}), [1, -1], "SMALLINT", [1, -1]),
    ("flag", "boolean", [True, None], "BOOLEAN", [True, None]),
    ("real", "double", [0.5, float("inf")], "DOUBLE", [0.5, float("inf")]),
    ("note", "string", ["ü", None], "STRING", ["ü", None]),
    ("data", "bytes", [b"\x00\xff", None], "BYTES", [b"\x00\xff", None]),
    (
        *("price", DECIMAL, [Decimal("12.50"), Decimal("-0.01")], "DECIMAL(10, 2)"),
        [Decimal("12.50"), Decimal("-0.01")],
    ),
    (
        *("day", connect("int", "io.debezium.time.Date"), [19_000, None], "DATE"),
        [date(2022, 1, 8), None],
    ),
    (
        *("at", connect("long", "io.debezium.time.MicroTimestamp"), [1, None], "TIMESTAMP(6)"),
        [datetime(1970, 1, 1, 0, 0, 0, 1), None],
    ),
    (
        *("zoned", connect("string", "io.debezium.time.ZonedTimestamp")),
        *(["2024-02-29T12:30:45.5Z", None], "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        [datetime(2024, 2, 29, 12, 30, 45, 500_000, UTC), None],
    ),
    (
        *("place", POINT, [{"x": 1.0, "y": 2.0, "wkb": b"w", "srid": 7}, None], "BYTES"),
        [b"\x07\x00\x00\x00w", None],
    ),
    (
        *("number", VARIABLE, [{"scale": 1, "value": b"\x0f"}, None], "STRING"),
        ["1.5", None],
    ),
    (
        *("tags", {"type": "array", "items": ["null", "string"]}, [["a", None], []]),
        *("ARRAY<STRING>", [["a", None], []]),
    ),
]


def envelope(table: str = "t") -> dict[str, Any]:
    """The schema of events of a table."""
    space = f"server.shop.{table}"
    value = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "id", "type": "long"},
            *(named(optional(type_), name) for name, type_, *_ in COLUMNS),
        ],
        "connect.name": f"{space}.Value",
    }
    source = {
        "type": "record",
        "name": "Source",
        "namespace": "io.debezium.connector.mysql",
        "fields": [
            {"name": "ts_ms", "type": "long"},
            {"name": "db", "type": "string"},
            {"name": "table", "type": optional("string"), "default": None},
        ],
    }
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": space,
        "fields": [
            named(optional(value), "before"),
            named(optional("Value"), "after"),
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
        ],
        "connect.name": f"{space}.Envelope",
    }


def key_schema(table: str = "t") -> dict[str, Any]:
    """The schema of a table's keys."""
    fields = [{"name": "id", "type": "long"}]
    return {"type": "record", "name": "Key", "namespace": f"server.shop.{table}", "fields": fields}


class Writer:
    """Writes messages as Confluent's serializer does."""

    def __init__(self, registry: Registry, table: str = "t") -> None:
        import json

        client = SchemaRegistryClient({"url": registry.url})
        self._table = table
        self._value, self._key = (
            AvroSerializer(client, json.dumps(schema))
            for schema in (envelope(table), key_schema(table))
        )
        self.messages: list[tuple[bytes | None, bytes | None]] = []

    def write(
        self, op: str, key: int, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
    ) -> None:
        source = {"ts_ms": 5, "db": "shop", "table": self._table}
        event = {"before": before, "after": after, "source": source, "op": op}
        value = self._value(event, SerializationContext("t", MessageField.VALUE))
        self.messages.append((self.key(key), value))

    def key(self, key: int) -> bytes:
        written = self._key({"id": key}, SerializationContext("t", MessageField.KEY))
        assert isinstance(written, bytes)
        return written


def as_messages(pairs: list[tuple[bytes | None, bytes | None]], topic: str = "t") -> Messages:
    zeros = np.zeros(len(pairs), np.int32)
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    return Messages([topic], zeros, zeros, np.arange(len(pairs)), keys, values)


def rows_of(*groups: EventGroup, changed: str = "id") -> tuple[list[dict[str, Any]], list[int]]:
    source = definition(groups[0])
    rows = KafkaTableRows([column.name for column in source.columns], [groups])
    (logged,) = rows.decoded(source, BadDates.FAIL, [changed])
    return logged.rows.to_pylist(), logged.kinds.to_pylist()


def written(registry: Registry, schema: Mapping[str, Any], record: Mapping[str, Any]) -> bytes:
    """A record after the number of its schema."""
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(dict(schema)), record)
    return struct.pack(">bI", 0, registry.add(schema)) + data.getvalue()


def events_with(
    registry: Registry, type_: object, *values: object, op: str = "u", key: str = "id"
) -> Events:
    """Events of a table with the columns ``id`` and ``v``, which has the values before and after.

    Args:
        registry: Has the schemas.
        type_: The type of ``v``.
        values: The values.
        op: The operation.
        key: The column that is the key.
    """
    schema = envelope()
    fields: list[dict[str, object]]
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": type_}]
    schema["fields"][0]["type"][1]["fields"] = fields
    keys = {**key_schema(), "fields": [field for field in fields if field["name"] == key]}
    pairs: list[tuple[bytes | None, bytes | None]] = []
    for number, value in enumerate(values):
        row = {"id": number, "v": value}
        event = {"before": row, "after": row, "source": {"ts_ms": 5, "db": "shop", "table": "t"}}
        written_key = written(registry, keys, {key: row[key]})
        pairs.append((written_key, written(registry, schema, {**event, "op": op})))
    return avro_events(as_messages(pairs), SchemaRegistry(registry.url))


def test_an_array_of_uuids_that_an_update_left_as_it_was(registry: Registry) -> None:
    uuids = {"type": "array", "items": optional(connect("string", "io.debezium.data.Uuid"))}
    (group,) = events_with(registry, uuids, ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]).groups
    with pytest.raises(Invalid, match="TOAST"):
        rows_of(group)


def test_a_key_that_is_a_decimal_with_its_scale(registry: Registry) -> None:
    number = {"scale": 1, "value": b"\x0f"}
    (group,) = events_with(registry, VARIABLE, number, number, key="v").groups
    rows, kinds = rows_of(group, changed="v")
    assert rows == [{"id": 0, "v": "1.5"}, {"id": 1, "v": "1.5"}]
    assert kinds == [2, 2]


def test_logical_messages_have_no_rows(registry: Registry) -> None:
    source = {
        "type": "record",
        "name": "Source",
        "fields": [{"name": name, "type": "string"} for name in ("db", "schema", "table")],
    }
    schema = {
        "type": "record",
        "name": "MessageValue",
        "namespace": "io.debezium.connector.postgresql",
        "fields": [{"name": "op", "type": "string"}, {"name": "source", "type": source}],
    }
    event = {"op": "m", "source": {"db": "shop", "schema": "", "table": ""}}
    pairs: list[tuple[bytes | None, bytes | None]] = [(None, written(registry, schema, event))]
    assert avro_events(as_messages(pairs), SchemaRegistry(registry.url)).groups == []
    assert events_with(registry, "long", 1, op="m").groups == []


def test_types_and_kinds(registry: Registry) -> None:
    writer = Writer(registry)
    rows = [
        {"id": number, **{name: sent[number] for name, _, sent, *_ in COLUMNS}}
        for number in range(2)
    ]
    writer.write("c", 0, None, rows[0])
    writer.write("r", 1, None, rows[1])
    writer.write("u", 0, rows[0], {**rows[0], "note": "changed"})
    writer.write("d", 1, rows[1], None)
    events = avro_events(as_messages(writer.messages), SchemaRegistry(registry.url))
    assert events.source_time == 5
    (group,) = events.groups
    assert group.table == TableName("shop", "t")
    types = {column.name: str(column.type) for column in definition(group).columns}
    assert types == {"id": "BIGINT NOT NULL", **{name: lake for name, _, _, lake, _ in COLUMNS}}
    expected = [
        {"id": number, **{name: values[number] for name, *_, values in COLUMNS}}
        for number in range(2)
    ]
    found_rows, kinds = rows_of(group)
    assert kinds == [0, 0, 2, 3]
    assert found_rows == [*expected, {**expected[0], "note": "changed"}, expected[1]]


def test_many_tables_and_schemas_in_one_topic(registry: Registry) -> None:
    writers = [Writer(registry, name) for name in ("a", "b")]
    pairs: list[tuple[bytes | None, bytes | None]] = []
    empty = dict.fromkeys(name for name, *_ in COLUMNS)
    for number in range(500):
        writer = writers[number % 2]
        writer.write("c", number, None, {**empty, "id": number, "note": str(number)})
        pairs.append(writer.messages[-1])
    events = avro_events(as_messages(pairs), SchemaRegistry(registry.url))
    assert sorted(group.table.table for group in events.groups) == ["a", "b"]
    for group in events.groups:
        rows, _ = rows_of(group)
        assert [row["note"] for row in rows] == [str(row["id"]) for row in rows]
        assert len(rows) == 250


def test_a_tombstone_is_a_delete_by_its_key(registry: Registry) -> None:
    writer = Writer(registry)
    pairs: list[tuple[bytes | None, bytes | None]] = [(writer.key(7), None), (writer.key(8), None)]
    (group,) = avro_tombstones(as_messages(pairs), np.arange(2), SchemaRegistry(registry.url))
    assert group.table == TableName("shop", "t")
    assert rows_of(group) == ([{"id": 7}, {"id": 8}], [3, 3])


def test_messages_that_are_not_in_avro(registry: Registry) -> None:
    reader = SchemaRegistry(registry.url)
    writer = Writer(registry)
    writer.write("c", 0, None, {"id": 1, **dict.fromkeys(name for name, *_ in COLUMNS)})
    (key, value) = writer.messages[0]
    assert value is not None
    for wrong, error in (
        (b'{"a": 1}', "begins with '7b"),
        (b"\x00", "begins with '00'"),
        (value[:-1], "cannot be read"),
        (value + b"\x00", "cannot be read"),
    ):
        with pytest.raises(CorruptData, match=error):
            avro_events(as_messages([(key, value), (key, wrong), (key, value)]), reader)
    with pytest.raises(NotFound, match="schema 999 of the registry"):
        avro_events(as_messages([(key, struct.pack(">bI", 0, 999))]), reader)
    number = registry.add("syntax = 'proto3';", schemaType="PROTOBUF")
    with pytest.raises(Unsupported, match="it is of PROTOBUF"):
        avro_events(as_messages([(key, struct.pack(">bI", 0, number))]), reader)
    other = {"type": "record", "name": "Flat", "namespace": "x", "fields": []}
    number = registry.add(other)
    with pytest.raises(Unsupported, match=r"it has the schema 'x\.Flat'"):
        avro_events(as_messages([(key, struct.pack(">bI", 0, number))]), reader)
