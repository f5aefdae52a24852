"""Compacted topics, Avro and startup modes on a real broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin._acl import AclOperation
from tests.cdc.kafka.conftest import ORDERS, Follower
from tests.cdc.kafka.connector import Column, connect_type
from tests.cdc.kafka.schema_registry import running_registry
from tests.cdc.kafka.test_avro import COLUMNS, Writer
from tests.cdc.waiting import until

from headwater.storage.errors import Forbidden, Invalid, NotFound, Unavailable, Unsupported

pytestmark = pytest.mark.cdc_kafka

COMPACTED = {"cleanup.policy": "compact"}


@pytest.mark.parametrize("schemas", [True, False])
def test_a_tombstone_that_compaction_left_of_a_delete(follower: Follower, schemas: bool) -> None:
    topic = follower.topic("shop.orders", config=COMPACTED)
    columns = [Column("id", connect_type("string")), *ORDERS[1:]]
    orders = follower.table("orders", topic, columns, schemas=schemas)
    orders.insert({"id": "a", "item": "x", "amount": 1})
    orders.insert({"id": "b", "item": "x", "amount": 1})
    assert follower.once()
    follower.write(topic, orders.written_key(("a",)), None)
    assert follower.once()
    assert [row["id"] for row in follower.rows("orders")] == ["b"]


KEYS: list[tuple[str, str, Any, Any]] = [
    ("int32", "", 1, 2),
    ("boolean", "", True, False),
    ("string", "", "a", "b"),
    ("string", "io.debezium.data.Uuid", "a", "b"),
]


@pytest.mark.parametrize(("base", "name", "gone", "left"), KEYS)
@pytest.mark.parametrize("apart", [True, False])
def test_a_tombstone_whose_key_has_no_schema(
    follower: Follower, base: str, name: str, gone: object, left: object, apart: bool
) -> None:
    topic = follower.topic("shop.orders", config=COMPACTED)
    columns = [Column("id", connect_type(base, name)), *ORDERS[1:]]
    orders = follower.table("orders", topic, columns, key_schemas=False)
    for id_ in (gone, left):
        orders.insert({"id": id_, "item": "x", "amount": 1})
    if apart:
        assert follower.once()
        before = follower.states()["orders"].columns
    follower.write(topic, orders.written_key((gone,)), None)
    assert follower.once()
    if apart:
        assert follower.states()["orders"].columns == before
    assert [row["id"] for row in follower.rows("orders")] == [left]


def test_a_tombstone_whose_key_needs_its_schema(follower: Follower) -> None:
    topic = follower.topic("shop.orders", config=COMPACTED)
    columns = [Column("id", connect_type("int32", "io.debezium.time.Date")), *ORDERS[1:]]
    orders = follower.table("orders", topic, columns, key_schemas=False)
    orders.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    follower.write(topic, orders.written_key((1,)), None)
    assert not follower.once()
    assert "key.converter.schemas.enable=true" in follower.reason("orders")


def test_a_tombstone_with_another_key(follower: Follower) -> None:
    topic = follower.topic("shop.orders", config=COMPACTED)
    orders = follower.table("orders", topic)
    orders.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    follower.write(topic, b'{"item":"x"}', None)
    assert not follower.once()
    assert "without a value has the key (item)" in follower.reason("orders")


def test_a_compacted_topic_whose_tombstones_tell_no_table(follower: Follower) -> None:
    topic = follower.topic("all.tables", config=COMPACTED)
    orders = follower.table("orders", topic, schemas=False)
    orders.insert({"id": 1, "item": "x", "amount": 1})
    with pytest.raises(Unsupported, match="is compacted, and its name is"):
        follower.once()


def test_topics_whose_settings_cannot_be_read(follower: Follower) -> None:
    topic = follower.topic("all.tables")
    orders = follower.table("orders", topic, schemas=False)
    orders.insert({"id": 1, "item": "x", "amount": 1})
    operations = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
    follower.broker.allow(topic, *operations)
    options = follower.settings()
    until(lambda: follower.lake.cdc.check(**options))
    (note,) = follower.lake.cdc.check(**options)
    assert note.is_note
    assert str(note).endswith("counts as compacted; grant the user DescribeConfigs on it")
    with pytest.raises(Unsupported, match=r"may be compacted, .* grant the user DescribeConfigs"):
        follower.once()
    follower.broker.allow(topic, AclOperation.DESCRIBE_CONFIGS)
    until(lambda: follower.lake.cdc.check(**options) == [])
    assert follower.once()


def test_avro_with_a_schema_registry(follower: Follower) -> None:
    topic = follower.topic("all", 2)
    with running_registry() as registry:
        follower.conf |= {"value.format": "debezium-avro", "schema.registry.url": registry.url}
        writers = [Writer(registry, name) for name in ("a", "b")]
        empty = dict.fromkeys(name for name, *_ in COLUMNS)
        for number in range(200):
            row = {**empty, "id": number, "note": str(number)}
            for writer in writers:
                writer.write("c", number, None, row)
                if number % 4 == 0:
                    writer.write("d", number, row, None)
                    writer.messages.append((writer.messages[-1][0], None))
        for writer in writers:
            for key, value in writer.messages:
                follower.write(topic, key, value)
        assert follower.once()
        for name in ("a", "b"):
            rows = follower.rows(name)
            assert [row["id"] for row in rows] == [id_ for id_ in range(200) if id_ % 4]
            assert all(row["note"] == str(row["id"]) for row in rows)
        schemas, registry.schemas[:] = list(registry.schemas), []
        follower.write(topic, *writers[0].messages[0])
        with pytest.raises(NotFound, match=r"of the registry at .* it is not there"):
            follower.once()
        registry.schemas[:] = schemas
        assert follower.once()


def test_where_a_new_pipeline_begins(follower: Follower) -> None:
    topic = follower.topic("orders")
    orders = follower.table("orders", topic)
    for number in range(10):
        orders.insert({"id": number, "item": "x", "amount": number})
    follower.flush()
    follower.conf |= {"topic": topic, "scan.startup.mode": "latest-offset"}
    assert follower.once()
    assert not follower.lake.table_exists("lake.orders")
    orders.insert({"id": 10, "item": "x", "amount": 1})
    assert follower.once()
    assert [row["id"] for row in follower.rows("orders")] == [10]
    specific = {"scan.startup.mode": "specific-offsets"}
    for name, conf, first in (
        ("s", {**specific, "scan.startup.specific-offsets": "partition:0,offset:7"}, 7),
        ("e", {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "1"}, 0),
    ):
        follower.lake.create_database(name)
        follower.conf = {"topic": topic, **conf}
        follower.options |= {"name": name, "target": name}
        assert follower.once()
        rows = follower.lake.table(f"{name}.orders").scan().to_arrow().to_pylist()
        assert sorted(row["id"] for row in rows) == list(range(first, 11))


def test_what_does_not_work_is_said_before_anything_is_created(follower: Follower) -> None:
    follower.conf["topic"] = f"{follower.prefix}absent"
    (finding,) = follower.lake.cdc.check(**follower.settings())
    assert finding.subject == f"topic '{follower.prefix}absent'"
    with pytest.raises(Invalid, match="it is not at the source"):
        follower.once()
    follower.conf = {}
    with pytest.raises(Invalid, match="it matches no topic"):
        follower.once()
    topic = follower.topic("orders")
    follower.conf = {
        "topic": topic,
        "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": "partition:3,offset:1",
    }
    with pytest.raises(Invalid, match="has no partition 3"):
        follower.once()
    follower.conf["scan.startup.specific-offsets"] = "partition:0,offset:1"
    with pytest.raises(Invalid, match="has the offsets 0 to 0, and not 1"):
        follower.once()
    assert follower.lake.list_tables("lake") == []


def test_a_broker_that_is_not_there(follower: Follower) -> None:
    follower.options["source"] = "kafka://127.0.0.1:1"
    with pytest.raises((Unavailable, Forbidden), match=r"127\.0\.0\.1:1"):
        follower.once()


def test_offsets_are_shown_in_the_consumer_group(follower: Follower) -> None:
    topic = follower.topic("orders")
    orders = follower.table("orders", topic)
    follower.conf["properties.group.id"] = f"{follower.prefix}group"
    for number in range(10):
        orders.insert({"id": number, "item": "x", "amount": number})
    assert follower.once()
    orders.insert({"id": 10, "item": "x", "amount": 1})
    assert follower.once()
    reader = Consumer(
        {
            "bootstrap.servers": follower.broker.address,
            "group.id": follower.conf["properties.group.id"],
        }
    )
    (partition,) = reader.committed([TopicPartition(topic, 0)], timeout=30)
    reader.close()
    assert partition.offset == 10, "the end of the batch before the last one"
