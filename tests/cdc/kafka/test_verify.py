"""The comparison of the lake's tables with what the messages of their topics leave."""

from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from tests.cdc.kafka.conftest import Follower
from tests.cdc.kafka.connector import Column, EventTable, connect_type
from tests.cdc.task_executors import PickledTasks
from tests.cdc.waiting import until

from headwater.cdc.service.options import PipelineOptions
from headwater.cdc.service.running import check, start
from headwater.cdc.service.verify import TableVerdict, verify
from headwater.storage.errors import Unsupported

pytestmark = pytest.mark.cdc_kafka

COMPACTED = {"cleanup.policy": "compact"}


def verdicts(follower: Follower) -> dict[str, TableVerdict]:
    return {verdict.table.table: verdict for verdict in follower.verdicts()}


def changed(follower: Follower, name: str, topic: str) -> EventTable:
    """A table with many kinds of changes."""
    table = follower.table(name, topic)
    for number in range(500):
        table.insert({"id": number, "item": f"i{number}", "amount": number})
    for number in range(0, 500, 3):
        table.update((number,), amount=-number, item=None)
    for number in range(0, 500, 7):
        table.delete((number,))
    for number in range(1, 500, 35):
        table.move((number,), id=1000 + number)
    return table


def test_equal_tables(follower: Follower) -> None:
    topic = follower.topic("all", 3)
    orders, items = changed(follower, "orders", topic), changed(follower, "items", topic)
    assert follower.once()
    note = Column("note", connect_type("string"))
    items.columns = [*items.columns, note]
    items.insert({"id": 5000, "item": "y", "amount": 1, "note": "new"})
    emptied = follower.table("emptied", follower.topic("emptied"))
    emptied.insert({"id": 1, "item": "x", "amount": 1})
    emptied.truncate()
    emptied.insert({"id": 2, "item": "x", "amount": 1})
    assert follower.once()
    follower.check(orders, items, emptied)
    # What the lake does not have yet is not a difference.
    orders.insert({"id": 6000, "item": "late", "amount": 1})
    orders.update((2,), amount=7)
    follower.flush()
    equal = verdicts(follower)
    for table in (items, emptied):
        count = len(table.rows)
        verdict = equal[table.name.table]
        assert (verdict.source_rows, verdict.lake_rows) == (count, count)
    assert all(verdict.is_equal for verdict in equal.values()), equal
    assert equal.keys() == {"orders", "items", "emptied"}


def test_more_messages_than_the_memory_holds(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.cdc.kafka.log_reader._MAX_MESSAGES", 10)
    small, large = (follower.table(name, follower.topic(name)) for name in ("small", "large"))
    small.insert({"id": 1, "item": "x", "amount": 1})
    for number in range(400):
        large.insert({"id": number, "item": "x" * 20_000, "amount": number})
    follower.options["memory_bytes"] = 50_000
    assert follower.once()
    assert [verdict.is_equal for verdict in follower.verdicts()] == [True, True]


def test_differences(follower: Follower) -> None:
    orders = changed(follower, "orders", follower.topic("orders", 2))
    assert follower.once()
    table = follower.lake.table("lake.orders")
    table.delete("id IN (2, 4)")
    table.write([{"id": 5, "item": "other", "amount": 1}, {"id": 9999, "item": "x", "amount": 1}])
    verdict = verdicts(follower)["orders"]
    assert not verdict.is_equal
    assert verdict.problem is None
    assert (verdict.source_rows, verdict.lake_rows) == (len(orders.rows), len(orders.rows) - 1)
    differing = {row["id"]: row["difference"] for row in verdict.differences.to_pylist()}
    assert differing == {
        2: "missing in the lake",
        4: "missing in the lake",
        5: "different",
        9999: "not in the source",
    }


def test_a_compacted_topic(follower: Follower) -> None:
    config = {
        **COMPACTED,
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": "0",
        "min.compaction.lag.ms": "0",
    }
    topic = follower.topic("orders", config=config)
    orders = changed(follower, "orders", topic)
    assert follower.once()
    follower.check(orders)
    # Compaction removes what the lake has of these keys.
    for number in range(0, 500, 2):
        if (number,) in orders.rows:
            orders.update((number,), amount=1)

    def is_compacted() -> bool:
        orders.update((3,), amount=0)
        follower.flush()
        consumer = follower.broker.consumer()
        try:
            consumer.assign([TopicPartition(topic, 0, 4)])
            (first,) = consumer.consume(1, 30)
            return first.offset() != 4
        finally:
            consumer.close()

    until(is_compacted)
    verdict = verdicts(follower)["orders"]
    assert verdict.is_equal, verdict
    follower.lake.table("lake.orders").delete("id = 11")
    verdict = verdicts(follower)["orders"]
    assert [row["id"] for row in verdict.differences.to_pylist()] == [11]


def test_a_key_that_the_lake_has_twice_whatever_a_compacted_topic_has(follower: Follower) -> None:
    orders = follower.table("orders", follower.topic("orders", config=COMPACTED))
    for number in range(3):
        orders.insert({"id": number, "item": "x", "amount": number})
    assert follower.once()
    table = follower.lake.table("lake.orders")
    snapshot, rows = table.latest_snapshot(), table.scan().to_arrow()
    assert snapshot is not None
    # A table without a key has each row that is written.
    follower.lake.drop_table("lake.orders")
    owner = {"headwater.cdc.pipeline": "p"}
    without_key = follower.lake.create_table("lake.orders", rows.schema, options=owner)
    without_key.write(
        pa.concat_tables([rows, rows.slice(0, 1)]),
        commit_user=snapshot.commit_user,
        commit_identifier=snapshot.commit_identifier,
        properties=snapshot.properties,
    )
    orders.update((0,), amount=9)
    orders.update((1,), amount=9)
    follower.flush()
    verdict = verdicts(follower)["orders"]
    assert verdict.problem is None
    assert {(row["id"], row["difference"]) for row in verdict.differences.to_pylist()} == {
        (0, "duplicated in the lake")
    }


def test_spark_is_rejected_by_name(follower: Follower) -> None:
    changed(follower, "orders", follower.topic("orders"))
    assert follower.once()
    options = PipelineOptions.parse(follower.settings())
    tasks = PickledTasks()
    with pytest.raises(Unsupported, match="not followed with Spark; leave --spark out"):
        start(follower.lake, options, executor=tasks)
    with pytest.raises(Unsupported, match="not followed with Spark; leave --spark out"):
        check(follower.lake, options, executor=tasks)
    compared = verify(follower.lake, options.address(), options.settings(), tasks)
    with pytest.raises(Unsupported, match="not compared with Spark; leave --spark out"):
        list(compared)


def test_removed_messages(follower: Follower) -> None:
    topic = follower.topic("orders")
    changed(follower, "orders", topic)
    assert follower.once()
    admin = follower.broker.admin
    for future in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        future.result(30)
    with pytest.raises(
        Unsupported, match=r"begins at offset 3, as messages before it were removed"
    ):
        verdicts(follower)


def test_a_pipeline_that_began_later(follower: Follower) -> None:
    orders = changed(follower, "orders", follower.topic("orders"))
    follower.flush()
    follower.conf["scan.startup.mode"] = "latest-offset"
    assert follower.once()
    orders.insert({"id": 6000, "item": "late", "amount": 1})
    assert follower.once()
    with pytest.raises(Unsupported, match=r"scan.startup.mode is 'latest-offset'.*behind the conn"):
        verdicts(follower)


def test_tables_that_cannot_be_compared(follower: Follower) -> None:
    topic = follower.topic("all")
    orders, log = follower.table("orders", topic), follower.table("log", topic, key=0)
    orders.insert({"id": 1, "item": "x", "amount": 1})
    log.insert({"id": 1, "item": "x", "amount": 1})
    follower.options["tables_without_key"] = "append"
    assert follower.once()
    orders.columns = [*orders.columns[:2], Column("amount", connect_type("boolean"))]
    orders.insert({"id": 2, "item": "x", "amount": True})
    assert not follower.once()
    by_table = verdicts(follower)
    assert "has no key and is appended to" in (by_table["log"].problem or "")
    assert "cannot be compared yet: quarantined" in (by_table["orders"].problem or "")
