"""Pipelines that follow topics of a real broker: the lake has what all events leave."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.cdc.kafka.conftest import ORDERS, Follower
from tests.cdc.kafka.connector import Column, connect_type

from headwater.cdc.pipeline.state import TablePhase
from headwater.storage.errors import CorruptData, Invalid, Unsupported

pytestmark = pytest.mark.cdc_kafka

MESSAGE_VALUE = "io.debezium.connector.postgresql.MessageValue"


@pytest.mark.parametrize("schemas", [True, False])
def test_rows_and_changes(follower: Follower, schemas: bool) -> None:
    orders = follower.table("orders", follower.topic("orders", 3), schemas=schemas)
    text = (lambda value: value) if schemas else str
    for number in range(2000):
        row = {"id": text(number), "item": f"i{number}", "amount": text(number * 3)}
        orders.snapshot(row) if number % 2 else orders.insert(row)
    for number in range(0, 2000, 3):
        orders.update((text(number),), amount=text(number), item=None)
    for number in range(0, 2000, 7):
        orders.delete((text(number),))
    assert follower.once()
    follower.check(orders)
    assert follower.states()["orders"].phase is TablePhase.STREAMING
    orders.move((text(1),), id=text(5000))
    orders.insert({"id": text(0), "item": 'again "ü€😀\\', "amount": text(-1)})
    assert follower.once()
    follower.check(orders)


def test_numbers_and_nested_values_without_a_schema_are_their_text(follower: Follower) -> None:
    topic = follower.topic("orders")
    orders = follower.table("orders", topic, schemas=False)
    orders.insert({"id": 9007199254740993, "item": {"a": [1, None]}, "amount": 1.50})
    orders.insert({"id": 2, "item": None, "amount": True})
    orders.insert({"id": 3, "item": "text", "extra": [1, "x"]})
    assert follower.once()
    assert follower.rows("orders") == [
        {"id": "2", "item": None, "amount": "true", "extra": None},
        {"id": "3", "item": "text", "amount": None, "extra": '[1, "x"]'},
        {"id": "9007199254740993", "item": '{"a": [1, null]}', "amount": "1.5", "extra": None},
    ]


def test_many_tables_in_one_topic_and_one_table_in_many(follower: Follower) -> None:
    first, second = follower.topic("all", 2), follower.topic("more")
    orders, items = follower.table("orders", first), follower.table("items", first)
    others = follower.table("others", second)
    hidden = follower.table("hidden", first)
    for number in range(300):
        for table in (orders, items, others, hidden):
            table.insert({"id": number, "item": table.topic, "amount": number})
    for number in range(0, 300, 5):
        orders.delete((number,))
        items.update((number,), amount=None)
    follower.options["exclude"] = ["shop.hidden"]
    assert follower.once()
    follower.check(orders, items, others)
    assert not follower.lake.table_exists("lake.hidden")
    # A topic that appears later, with rows of a table that is followed.
    orders.topic = follower.topic("late")
    orders.insert({"id": 1000, "item": "late", "amount": 1})
    assert follower.once()
    follower.check(orders, items, others)


def test_updates_and_deletes_without_the_row_before(follower: Follower) -> None:
    orders = follower.table("orders", follower.topic("orders"), has_before=False)
    for number in range(50):
        orders.insert({"id": number, "item": "x", "amount": number})
    orders.update((3,), amount=-3)
    orders.delete((4,))
    assert follower.once()
    follower.check(orders)
    orders.update((5,), amount=None)
    orders.delete((6,))
    orders.move((7,), id=700)
    assert follower.once()
    follower.check(orders)


def test_columns_that_appear_widen_and_go(follower: Follower) -> None:
    topic = follower.topic("orders", 2)
    orders = follower.table("orders", topic)
    for number in range(10):
        orders.insert({"id": number, "item": "x", "amount": number})
    note = Column("note", connect_type("string"))
    orders.columns = [*orders.columns, note]
    orders.insert({"id": 10, "item": "y", "amount": 1, "note": "new"})
    assert follower.once()
    follower.check(orders)
    amount = Column("amount", connect_type("int64"))
    orders.columns = [orders.columns[0], amount, note]
    orders.update((10,), amount=1 << 40, item=None)
    orders.insert({"id": 11, "amount": 3, "note": "z"})
    assert follower.once()
    orders.columns = [*ORDERS[:2], amount, note]
    follower.check(orders)
    assert [str(field.type) for field in follower.lake.table("lake.orders").schema.fields] == [
        *("BIGINT NOT NULL", "STRING", "BIGINT", "STRING"),
    ]


def test_a_type_that_does_not_fit_quarantines_the_table(follower: Follower) -> None:
    topic = follower.topic("all")
    orders, items = follower.table("orders", topic), follower.table("items", topic)
    for table in (orders, items):
        table.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    items.columns = [*ORDERS[:2], Column("amount", connect_type("string"))]
    items.insert({"id": 2, "item": "x", "amount": "many"})
    orders.insert({"id": 2, "item": "x", "amount": 2})
    assert not follower.once()
    follower.check(orders)
    assert "column 'amount' of shop.items was INT and is STRING" in follower.reason("items")
    assert follower.rows("items") == [{"id": 1, "item": "x", "amount": 1}]
    # It begins again with the type that the topic's messages have, and fails where they change.
    assert follower.lake.cdc.resnapshot(replace=True) is False
    assert not follower.once()
    follower.check(orders)


def test_beginning_again_with_new_tables(follower: Follower) -> None:
    orders = follower.table("orders", follower.topic("orders", 2))
    for number in range(100):
        orders.insert({"id": number, "item": "x", "amount": number})
    assert follower.once()
    before = follower.lake.table("lake.orders").latest_snapshot()
    for number in range(0, 100, 2):
        orders.delete((number,))
    assert follower.lake.cdc.resnapshot(replace=True) is False
    assert follower.once()
    follower.check(orders)
    assert before is not None
    with pytest.raises(Invalid, match="Kafka, which cannot be asked"):
        follower.lake.cdc.resnapshot("shop.orders", replace=True)
    with pytest.raises(Invalid, match="Kafka, which cannot be asked"):
        follower.lake.cdc.resnapshot()


def test_beginning_again_keeps_the_tables_of_somebody_else(follower: Follower) -> None:
    topic = follower.topic("all")
    orders, items = follower.table("orders", topic), follower.table("items", topic)
    schema = pa.schema([pa.field("k", pa.string(), nullable=False), ("mine", pa.string())])
    foreign = follower.lake.create_table("lake.orders", schema, primary_keys=["k"])
    foreign.write([{"k": "x", "mine": "kept"}])
    for table in (orders, items):
        table.insert({"id": 1, "item": "x", "amount": 1})
    for _ in range(2):
        assert not follower.once()
        assert "table lake.orders of the lake differs from" in follower.reason("orders")
        assert follower.rows("orders") == [{"k": "x", "mine": "kept"}]
        follower.check(items)
        assert follower.lake.cdc.resnapshot(replace=True) is False
    follower.lake.drop_table("lake.orders")
    assert follower.once()
    follower.check(orders, items)


def test_tables_that_were_left_out(follower: Follower) -> None:
    topic = follower.topic("all")
    orders, items = follower.table("orders", topic), follower.table("items", topic)
    follower.options["include"] = ["shop.orders"]
    for number in range(3):
        orders.insert({"id": number, "item": "x", "amount": number})
        items.insert({"id": number, "item": "x", "amount": number})
    assert follower.once()
    items.insert({"id": 9, "item": "x", "amount": 9})
    # All of its earlier messages were passed over.
    follower.options["include"] = ["shop.*"]
    with pytest.raises(Invalid, match=r"select tables .* left out .*resnapshot --all --replace"):
        follower.once()
    assert not follower.lake.table_exists("lake.items")
    assert follower.lake.cdc.resnapshot(replace=True) is False
    assert follower.once()
    follower.check(orders, items)
    # So were those of a table that was selected before.
    follower.options["exclude"] = ["*.items"]
    items.insert({"id": 10, "item": "x", "amount": 10})
    assert follower.once()
    del follower.options["exclude"]
    items.insert({"id": 11, "item": "x", "amount": 11})
    with pytest.raises(Invalid, match=r"select tables .* left out .*resnapshot --all --replace"):
        follower.once()
    assert follower.lake.cdc.resnapshot(replace=True) is False
    assert follower.once()
    follower.check(orders, items)


def test_patterns_and_names_that_no_message_had(follower: Follower) -> None:
    orders = follower.table("orders", follower.topic("all"))
    orders.insert({"id": 1, "item": "x", "amount": 1})
    follower.options |= {"include": ["shop.*", "shpo.*"], "table_mapping": {"ordres": "sales"}}
    with pytest.raises(Invalid) as error:
        follower.once()
    assert "pattern 'shpo.*': it matches no table of the source that has" in error.value.message
    assert "correct it and let the next start create all tables again" in error.value.message
    assert "'table-mapping': no followed table has the name 'ordres'" in error.value.message
    follower.check(orders)
    follower.options |= {"include": ["shop.*"], "table_mapping": {}}
    assert follower.once()


def test_patterns_may_be_corrected_before_a_message_was_read(follower: Follower) -> None:
    orders = follower.table("orders", follower.topic("all"))
    follower.options["include"] = ["shpo.*"]
    assert follower.once()
    follower.options["include"] = ["shop.*"]
    orders.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    follower.check(orders)


def test_a_truncation_in_its_place(follower: Follower) -> None:
    topic = follower.topic("all")
    orders, items = follower.table("orders", topic), follower.table("items", topic)
    for number in range(20):
        orders.insert({"id": number, "item": "x", "amount": number})
        items.insert({"id": number, "item": "x", "amount": number})
    orders.truncate()
    orders.insert({"id": 5, "item": "after", "amount": 0})
    assert follower.once()
    follower.check(orders, items)
    orders.truncate()
    assert follower.once()
    follower.check(orders, items)


def test_a_truncation_among_partitions_quarantines_the_table(follower: Follower) -> None:
    orders = follower.table("orders", follower.topic("orders", 2))
    orders.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    orders.truncate()
    assert not follower.once()
    assert "the topic has 2 partitions" in follower.reason("orders")


def test_tables_without_a_key(follower: Follower) -> None:
    orders = follower.table("orders", follower.topic("orders"), key=0)
    orders.insert({"id": 1, "item": "x", "amount": 1})
    orders.update((), amount=2)
    orders.delete(())
    assert not follower.once()
    assert "has no primary key" in follower.reason("orders")
    follower.options |= {"tables_without_key": "append", "name": "q", "target": "other"}
    follower.lake.create_database("other")
    assert follower.once()
    rows = follower.lake.table("other.orders").scan().to_arrow()
    assert [(row["row_kind"], row["amount"]) for row in rows.to_pylist()] == [
        *(("+I", 1), ("-U", 1), ("+U", 2), ("-D", 2)),
    ]


def test_messages_that_have_no_rows(follower: Follower) -> None:
    topic = follower.topic("all")
    orders = follower.table("orders", topic)
    orders.insert({"id": 1, "item": "x", "amount": 1})
    for name in (
        "io.debezium.connector.common.Heartbeat",
        "io.debezium.connector.common.TransactionMetadataValue",
        "io.debezium.connector.mysql.SchemaChangeValue",
    ):
        schema = {"type": "struct", "fields": [], "name": name}
        message = json.dumps({"schema": schema, "payload": {"ts_ms": 1}}).encode()
        follower.write(topic, b'{"serverName": "s"}', message)
    # A logical message of PostgreSQL is of no table.
    source = {"db": "shop", "schema": "", "table": "", "ts_ms": 1}
    logical = {"op": "m", "source": source, "message": {"prefix": "p", "content": "YQ=="}}
    follower.write(topic, b'{"prefix": "p"}', json.dumps(logical).encode())
    schema = {"type": "struct", "fields": [], "name": MESSAGE_VALUE}
    follower.write(topic, None, json.dumps({"schema": schema, "payload": logical}).encode())
    orders.insert({"id": 2, "item": "x", "amount": 1})
    assert follower.once()
    follower.check(orders)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (b'{"id": 1, "name": "flat"}', "is not an event of Debezium"),
        (b"not JSON", "not an object of JSON"),
        (b'{"op": "z", "source": {"db": "shop", "table": "t"}}', "operation 'z'"),
        (b'{"op": "c", "after": {"id": 1}}', "names no table"),
        (b"\x00\x00\x00\x00\x01\x02", "not an object of JSON"),
    ],
)
def test_other_messages_stop_the_pipeline(follower: Follower, message: bytes, error: str) -> None:
    topic = follower.topic("all")
    orders = follower.table("orders", topic)
    orders.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    follower.write(topic, b'{"id": 1}', message)
    with pytest.raises((CorruptData, Unsupported), match=error):
        follower.once()
    follower.check(orders)
