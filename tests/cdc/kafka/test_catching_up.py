"""Tables that catch up by their topics, or are read from them again, while others go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.cdc.kafka.conftest import ORDERS, Follower
from tests.cdc.kafka.connector import Column, EventTable, connect_type
from tests.cdc.waiting import until

from headwater.catalog.table.table import Table
from headwater.cdc.pipeline.state import PipelineState, TablePhase
from headwater.storage.errors import Invalid, Unavailable, Unsupported

pytestmark = pytest.mark.cdc_kafka

AT = Column("at", connect_type("string", "io.debezium.time.ZonedTimestamp"))
COLUMNS = (*ORDERS, AT)
GOOD = "2026-01-02T03:04:05Z"
NOTE = Column("note", connect_type("string"))


def filled(follower: Follower, name: str, topic: str, count: int = 200) -> EventTable:
    table = follower.table(name, topic, COLUMNS)
    for number in range(count):
        table.insert(row(number))
    return table


def row(number: int, **values: Any) -> dict[str, Any]:
    return {"id": number, "item": "x", "amount": number, "at": GOOD, **values}


def check(follower: Follower, *tables: EventTable) -> None:
    """Compare tables of the lake with what their events leave, and with the topics."""
    for table in tables:
        shown = [
            {name: value for name, value in shown_row.items() if name != "at"}
            for shown_row in follower.rows(table.name.table)
        ]
        expected = [
            {column.name: values.get(column.name) for column in table.columns if column is not AT}
            for _, values in sorted(table.rows.items())
        ]
        assert shown == expected
    verdicts = {verdict.table.table: verdict for verdict in follower.verdicts()}
    assert all(verdict.is_equal for verdict in verdicts.values()), verdicts
    assert verdicts.keys() >= {table.name.table for table in tables}


def phases(follower: Follower) -> dict[str, TablePhase]:
    return {name: state.phase for name, state in follower.states().items()}


def remove(follower: Follower, *ends: TopicPartition) -> None:
    """Remove the messages of partitions before some offsets."""
    admin = follower.broker.admin
    for future in admin.delete_records(list(ends)).values():
        future.result(30)


@pytest.fixture
def quarantined(follower: Follower) -> tuple[EventTable, EventTable]:
    """Orders, quarantined for a date with changes behind it; and items, which are followed."""
    return quarantine(follower, follower.topic("all", 3))


def quarantine(follower: Follower, topic: str) -> tuple[EventTable, EventTable]:
    orders, items = filled(follower, "orders", topic), filled(follower, "items", topic)
    assert follower.once()
    orders.update((3,), amount=-3)
    orders.insert(row(1000, at="infinity"))
    items.update((1,), amount=-1)
    assert not follower.once()
    assert "'infinity'" in follower.reason("orders")
    orders.columns = [*orders.columns, NOTE]
    orders.update((7,), amount=70, note="new")
    orders.delete((8,))
    orders.move((9,), id=1009)
    items.update((1,), amount=-2)
    assert not follower.once()
    follower.options["bad_dates"] = "null"
    return orders, items


def commits(follower: Follower, table: str) -> list[str]:
    return [
        snapshot.properties["cdc.position"]
        for snapshot in follower.lake.table(f"lake.{table}").snapshots()
        if "cdc.position" in snapshot.properties
    ]


def test_a_table_catches_up(follower: Follower, quarantined: tuple[EventTable, EventTable]) -> None:
    before = len(commits(follower, "orders"))
    follower.lake.cdc.catchup("shop.orders")
    assert follower.once()
    check(follower, *quarantined)
    assert set(phases(follower).values()) == {TablePhase.STREAMING}
    assert len(commits(follower, "orders")) > before
    for table in quarantined:
        table.insert(row(5000))
    assert follower.once()
    check(follower, *quarantined)


def test_its_cause_is_there_still(
    follower: Follower, quarantined: tuple[EventTable, EventTable]
) -> None:
    del follower.options["bad_dates"]
    follower.lake.cdc.catchup("shop.orders")
    assert not follower.once()
    assert "'infinity'" in follower.reason("orders")
    follower.options["bad_dates"] = "null"
    follower.lake.cdc.catchup("shop.orders")
    assert follower.once()
    check(follower, *quarantined)


def test_a_request_that_is_obeyed_twice(
    follower: Follower,
    quarantined: tuple[EventTable, EventTable],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer, lost = PipelineState.answer, list[str]()

    def answered(self: PipelineState, requests: Mapping[str, str]) -> None:
        if requests and not lost:
            lost.extend(requests)
            raise Unavailable("the lake is not there")
        answer(self, requests)

    del follower.options["bad_dates"]
    follower.options["lock_seconds"] = 30
    # Its new column is a part of its own.
    follower.lake.cdc.catchup("shop.orders")
    assert not follower.once()
    follower.lake.cdc.catchup("shop.orders")
    monkeypatch.setattr(PipelineState, "answer", answered)
    assert not follower.once()
    monkeypatch.undo()
    assert lost == ["catchup:shop.orders"]
    assert "'infinity'" in follower.reason("orders")
    follower.options["bad_dates"] = "null"
    follower.lake.cdc.catchup("shop.orders")
    assert follower.once()
    check(follower, *quarantined)


def test_a_truncation_where_the_others_are(follower: Follower) -> None:
    orders, items = quarantine(follower, follower.topic("all"))
    orders.truncate()
    orders.insert(row(4000, note="after"))
    follower.flush()
    follower.lake.cdc.catchup("shop.orders")
    assert follower.once()
    check(follower, orders, items)


def test_new_columns_where_the_others_are(
    follower: Follower, quarantined: tuple[EventTable, EventTable]
) -> None:
    more = Column("more", connect_type("int32"))
    for table in quarantined:
        table.columns = [*table.columns, more]
        table.insert(row(4000, note=None, more=7))
    follower.flush()
    follower.lake.cdc.catchup("shop.orders")
    assert follower.once()
    check(follower, *quarantined)


def test_a_topic_that_came_meanwhile(
    follower: Follower, quarantined: tuple[EventTable, EventTable]
) -> None:
    orders, items = quarantined
    more = follower.topic("more", 2)
    orders.topic = items.topic = more
    for number in range(3000, 3050):
        orders.insert(row(number, note=None))
        items.insert(row(number))
    assert not follower.once()
    follower.lake.cdc.catchup("shop.orders")
    follower.options["batch_bytes"] = 1000
    assert follower.once()
    check(follower, orders, items)


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("is_whole", [False, True])
def test_interrupted(
    follower: Follower,
    quarantined: tuple[EventTable, EventTable],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_done: bool,
    is_whole: bool,
) -> None:
    orders, items = quarantined
    if is_whole:
        follower.lake.cdc.resnapshot("shop.orders")
    else:
        follower.lake.cdc.catchup("shop.orders")
    follower.options["lock_seconds"] = 30
    write_steps, interrupted = Table.write_steps, list[str]()

    def write(self: Table, *arguments: object, **options: object) -> object:
        is_of_orders = self.name.endswith(".orders") and "commit_user" in options
        if not is_of_orders or len(interrupted) == 3:
            return write_steps(self, *arguments, **options)  # type: ignore[arg-type]
        if is_done:
            write_steps(self, *arguments, **options)  # type: ignore[arg-type]
        items.update((2,), amount=-len(interrupted))
        orders.update((2,), amount=-len(interrupted))
        follower.flush()
        interrupted.append(phases(follower)["orders"])
        raise Unavailable("the lake is not there")

    monkeypatch.setattr(Table, "write_steps", write)
    # The pipeline begins again by itself, with what the lake has of it.
    while len(interrupted) < 3:
        assert follower.once()
    assert interrupted[0] == TablePhase.CATCHING_UP
    assert follower.once()
    check(follower, orders, items)


def test_while_both_change(follower: Follower, quarantined: tuple[EventTable, EventTable]) -> None:
    orders, items = quarantined
    follower.options["batch_bytes"] = 1000
    with follower.lake.cdc.kafka(**follower.settings()) as pipeline:
        until(lambda: bool(pipeline.status().tables))
        follower.lake.cdc.catchup("shop.orders")

        def has_caught_up() -> bool:
            orders.update((11,), amount=orders.rows[11,]["amount"] + 1)
            items.update((11,), amount=items.rows[11,]["amount"] + 1)
            follower.flush()
            return phases(follower)["orders"] is TablePhase.STREAMING

        until(has_caught_up)
        pipeline.stop()
        assert pipeline.wait(60)
    assert follower.once()
    check(follower, orders, items)


def test_a_table_is_read_again(
    follower: Follower, quarantined: tuple[EventTable, EventTable]
) -> None:
    orders, items = quarantined
    # Somebody else changed the lake's tables.
    for name in ("orders", "items"):
        follower.lake.table(f"lake.{name}").delete("id IN (4, 5)")
        follower.lake.table(f"lake.{name}").write([{**row(7777), "at": None}])
    orders.truncate()
    orders.insert(row(1, note="after"))
    differing = {verdict.table.table: verdict.is_equal for verdict in follower.verdicts()}
    assert not differing["items"]
    follower.flush()
    follower.lake.cdc.resnapshot("shop.items")
    follower.options["batch_bytes"] = 4000
    assert not follower.once()
    assert phases(follower)["items"] is TablePhase.STREAMING
    shown = {shown_row["id"] for shown_row in follower.rows("items")}
    assert shown == {key for (key,) in items.rows}


def test_a_table_without_a_key_is_read_again(follower: Follower) -> None:
    topic = follower.topic("events", 2)
    events = follower.table("events", topic, COLUMNS, key=0)
    keyed = filled(follower, "orders", topic)
    for number in range(50):
        events.write(topic, None, events.event("c", None, row(number)))
    follower.options["tables_without_key"] = "append"
    assert follower.once()
    follower.lake.table("lake.events").delete("id < 10")
    follower.lake.cdc.resnapshot("shop.events", "shop.orders")
    follower.options["batch_bytes"] = 1000
    assert follower.once()
    shown = follower.lake.table("lake.events").scan().to_arrow()["id"].to_pylist()
    assert sorted(shown) == list(range(50))
    assert len(follower.rows("orders")) == len(keyed.rows)


def test_a_table_of_the_lake_that_is_gone(
    follower: Follower, quarantined: tuple[EventTable, EventTable]
) -> None:
    follower.lake.drop_table("lake.orders")
    follower.lake.cdc.resnapshot("shop.orders")
    assert follower.once()
    check(follower, *quarantined)


def test_a_table_of_the_lake_that_is_another_one(
    follower: Follower, quarantined: tuple[EventTable, EventTable]
) -> None:
    follower.lake.drop_table("lake.items")
    schema = follower.lake.table("lake.orders").scan().to_arrow().schema
    other = {"headwater.cdc.pipeline": "other"}
    follower.lake.create_table("lake.items", schema, primary_keys=["id"], options=other)
    follower.lake.table("lake.items").write([{**row(1), "at": None, "item": "mine"}])
    follower.lake.cdc.resnapshot("shop.items")
    assert not follower.once()
    assert "not the one that the pipeline wrote; drop or rename it" in follower.reason("items")
    assert [shown_row["item"] for shown_row in follower.rows("items")] == ["mine"]
    follower.lake.drop_table("lake.items")
    follower.lake.cdc.catchup("shop.orders")
    follower.lake.cdc.resnapshot("shop.items")
    assert follower.once()
    check(follower, *quarantined)


def test_what_is_rejected(follower: Follower, quarantined: tuple[EventTable, EventTable]) -> None:
    with pytest.raises(Invalid, match="only a quarantined table catches up"):
        follower.lake.cdc.catchup("shop.items")
    with pytest.raises(Invalid, match="leave --replace out"):
        follower.lake.cdc.resnapshot("shop.items", replace=True)
    with pytest.raises(Invalid, match=r"name tables, or create all of them again"):
        follower.lake.cdc.resnapshot()
    remove(follower, TopicPartition(quarantined[0].topic, 0, 5))
    with pytest.raises(Unsupported, match=r"read again alone: partition 0 .* begins at offset 5"):
        follower.lake.cdc.resnapshot("shop.items")
    assert len(follower.rows("items")) == 200


def test_messages_that_are_gone(
    follower: Follower, quarantined: tuple[EventTable, EventTable]
) -> None:
    orders, items = quarantined
    producer_end = json.loads(follower.states()["orders"].position or "")
    topic = orders.topic
    ends = [offset + 1 for offset in producer_end["topics"][topic][1]]
    remove(follower, *(TopicPartition(topic, partition, end) for partition, end in enumerate(ends)))
    follower.lake.cdc.catchup("shop.orders")
    items.update((1,), amount=-9)
    assert not follower.once()
    assert "were purged" in follower.reason("orders")
