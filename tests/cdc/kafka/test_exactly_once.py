"""Interrupted pipelines, lost messages and transactions: every offset counts once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from tests.cdc.kafka.broker import Broker
from tests.cdc.kafka.conftest import Follower
from tests.cdc.pipeline.killed_pipelines import running
from tests.cdc.waiting import until

from headwater.catalog.table.table import Table
from headwater.cdc.kafka.address import Address
from headwater.cdc.kafka.cluster import Cluster
from headwater.cdc.kafka.group import GroupMember
from headwater.cdc.kafka.positions import TopicPosition
from headwater.cdc.kafka.source import KafkaSource
from headwater.cdc.pipeline.state import PipelineState
from headwater.cdc.service.options import PipelineOptions
from headwater.client import connect
from headwater.storage.errors import Conflict, NotFound, Unavailable

pytestmark = pytest.mark.cdc_kafka


def test_a_planned_batch_is_read_again_exactly(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = follower.topic("all", 3)
    tables = [follower.table(name, topic) for name in ("orders", "items", "others")]
    for table in tables:
        for number in range(100):
            table.insert({"id": number, "item": "x", "amount": 0})
    assert follower.once()
    for table in tables:
        for number in range(100):
            table.update((number,), amount=1)
    # One table commits the batch, and the others do not.
    _lose(follower, monkeypatch, lambda name: not name.endswith((".orders", "state")))
    planned = _plan_end(follower)
    for table in tables:
        for number in range(0, 100, 2):
            table.update((number,), amount=2)
            table.update((number,), amount=3)
    assert follower.once()
    follower.check(*tables)
    for table in tables:
        lake_table = follower.lake.table(f"lake.{table.name.table}")
        positions = [
            snapshot.properties["cdc.position"]
            for snapshot in lake_table.snapshots()
            if "cdc.position" in snapshot.properties
        ]
        assert positions.count(planned) == 1, "a batch is committed once"


def test_a_truncation_of_a_planned_batch_is_rejected_again(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = follower.topic("all", 2)
    orders, items = follower.table("orders", topic), follower.table("items", topic)
    for table in (orders, items):
        table.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    orders.truncate()
    items.update((1,), amount=2)
    _lose(follower, monkeypatch, lambda name: name.endswith(".items"))
    assert not follower.once()
    assert "the topic has 2 partitions" in follower.reason("orders")
    follower.check(items)


def _lose(
    follower: Follower, monkeypatch: pytest.MonkeyPatch, is_lost: Callable[[str], bool]
) -> None:
    """Follow while some tables of the lake cannot be written to."""
    write_steps = Table.write_steps

    def write(self: Table, *arguments: object, **options: object) -> object:
        if options.get("commit_user") == "cdc-p" and is_lost(self.name):
            raise Unavailable("the lake is not there")
        return write_steps(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Table, "write_steps", write)
    follower.options["lock_seconds"] = 30
    with pytest.raises(Unavailable):
        follower.once()
    monkeypatch.undo()


def _batch(follower: Follower) -> int:
    state = PipelineState.existing(follower.lake, "lake", "p")
    plan = None if state is None else state.plan()
    return 0 if plan is None else plan.number


def _plan_end(follower: Follower) -> str:
    state = PipelineState.existing(follower.lake, "lake", "p")
    plan = None if state is None else state.plan()
    assert plan is not None
    return plan.end


def test_transactions_count_when_they_are_committed(follower: Follower) -> None:
    orders = follower.table("orders", follower.topic("orders", 2))
    producer = follower.broker.producer(**{"transactional.id": follower.prefix})
    producer.init_transactions(30)
    orders.write = lambda topic, key, value: producer.produce(topic, key=key, value=value)
    for number in range(9):
        producer.begin_transaction()
        kept = dict(orders.rows)
        for row in range(20):
            orders.insert({"id": 20 * number + row, "item": "x", "amount": row})
        if number % 3 == 2:
            # The broker rejects the end of a transaction that it has no messages of yet.
            producer.flush(30)
            producer.abort_transaction(30)
            orders.rows = kept
        else:
            producer.commit_transaction(30)
    assert follower.once()
    follower.check(orders)
    producer.begin_transaction()
    orders.insert({"id": -1, "item": "open", "amount": 1})
    producer.flush(30)
    assert follower.once()
    assert [row for row in follower.rows("orders") if row["id"] == -1] == []
    producer.commit_transaction(30)
    assert follower.once()
    follower.check(orders)


def test_messages_that_retention_removed(follower: Follower) -> None:
    topic = follower.topic("orders")
    orders = follower.table("orders", topic)
    for number in range(20):
        orders.insert({"id": number, "item": "x", "amount": 1})
    assert follower.once()
    for number in range(20):
        orders.insert({"id": 100 + number, "item": "x", "amount": 1})
    follower.flush()
    admin = follower.broker.admin
    for future in admin.delete_records([TopicPartition(topic, 0, 30)]).values():
        future.result(30)
    with pytest.raises(NotFound, match=r"from offset 20 on were purged.*begins at 30"):
        follower.once()
    assert len(follower.rows("orders")) == 20
    follower.lake.cdc.resnapshot(replace=True)
    assert follower.once()
    assert [row["id"] for row in follower.rows("orders")] == list(range(110, 120))


def test_a_topic_that_was_created_again(follower: Follower) -> None:
    topic = follower.topic("orders")
    orders = follower.table("orders", topic)
    orders.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    follower.broker.delete_topic(topic)
    follower.broker.create_topic(topic)
    for number in range(5):
        orders.insert({"id": number, "item": "new", "amount": 2})
    with pytest.raises(Conflict, match="was deleted and created again"):
        follower.once()
    assert follower.rows("orders") == [{"id": 1, "item": "x", "amount": 1}]


def test_a_topic_that_is_gone(follower: Follower) -> None:
    topic, other = follower.topic("orders"), follower.topic("items")
    orders = follower.table("orders", topic)
    orders.insert({"id": 1, "item": "x", "amount": 1})
    follower.conf["topic"] = f"{topic};{other}"
    assert follower.once()
    follower.broker.delete_topic(other)
    with pytest.raises(NotFound, match="is not at the source"):
        follower.once()


def test_a_topic_of_a_planned_batch_that_is_gone(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, other = follower.topic("orders"), follower.topic("items")
    orders, items = follower.table("orders", topic), follower.table("items", other)
    for table in (orders, items):
        table.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    for table in (orders, items):
        table.update((1,), amount=2)
    _lose(follower, monkeypatch, lambda name: name.endswith(".items"))
    follower.broker.delete_topic(other)
    with pytest.raises(NotFound, match=r"\.items' is not at the source .*resnapshot --all --rep"):
        follower.once()
    assert follower.lake.cdc.resnapshot(replace=True) is False
    assert follower.once()
    follower.check(orders)


def test_a_topic_that_goes_before_its_messages_are_read(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, other = follower.topic("orders"), follower.topic("items")
    orders = follower.table("orders", topic)
    for table in (orders, follower.table("items", other)):
        table.insert({"id": 1, "item": "x", "amount": 1})
    position = KafkaSource.position

    def then_deleted(self: KafkaSource) -> TopicPosition:
        monkeypatch.setattr(KafkaSource, "position", position)
        end = position(self)
        follower.broker.delete_topic(other)
        return end

    monkeypatch.setattr(KafkaSource, "position", then_deleted)
    follower.options["lock_seconds"] = 30
    assert follower.once()
    follower.check(orders)


def test_another_cluster(follower: Follower) -> None:
    orders = follower.table("orders", follower.topic("orders"))
    orders.insert({"id": 1, "item": "x", "amount": 1})
    assert follower.once()
    position = TopicPosition.from_text(_plan_end(follower))
    text = json.loads(str(position))
    text["cluster"] = "other"
    other = TopicPosition.from_text(json.dumps(text))
    assert not position.contains(other)
    assert not other.contains(position)


def test_two_processes(follower: Follower) -> None:
    orders = follower.table("orders", follower.topic("orders"))
    orders.insert({"id": 1, "item": "x", "amount": 1})
    follower.flush()
    settings = follower.settings()
    with follower.lake.cdc.kafka(**settings) as pipeline:
        while pipeline.status().batch < 1:
            assert pipeline.is_running
        (status,) = follower.lake.cdc.status()
        assert status.is_running
        settings["lock_seconds"] = 0
        with pytest.raises(Conflict, match="has a member"):
            follower.lake.cdc.kafka(once=True, **settings).wait(120)
        follower.lake.cdc.stop()
        assert pipeline.wait(60)
    (status,) = follower.lake.cdc.status()
    assert not status.is_running
    assert status.lag_seconds == 0.0


def test_a_pipeline_without_changes_stays_in_its_group(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.cdc.kafka.group._MAX_POLL_MILLIS", 6000)
    topic = follower.topic("orders")
    follower.table("orders", topic).insert({"id": 1, "item": "x", "amount": 1})
    follower.flush()
    cluster = Cluster(Address((follower.broker.address,)), {})
    other = f"{follower.prefix}other"
    silent = GroupMember(cluster, other)
    with follower.lake.cdc.kafka(**follower.settings()) as pipeline:
        until(lambda: pipeline.status().batch > 0)
        # A member that joined later, and is not polled, is dropped.
        silent.join([topic], 0)
        until(lambda: not cluster.members(other))
        (status,) = follower.lake.cdc.status()
        assert status.is_running
    silent.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Follower]:
    """A pipeline, a lake and a broker of the test's own."""
    lake = connect(tmp_path / "lake")
    lake.create_database("lake")
    with Broker() as broker:
        yield Follower(broker, lake, "own.")


def test_a_broker_and_a_pipeline_that_are_killed(own: Follower, tmp_path: Path) -> None:
    choices = random.Random(1)
    topic = own.topic("all", 3)
    tables = [own.table(name, topic) for name in ("orders", "items")]
    own.options |= {"lock_seconds": 60.0, "batch_seconds": 0.1}
    options = PipelineOptions.parse(own.settings())
    log, number = tmp_path / "log", 0
    for turn in range(6):
        first = _batch(own)
        with running(str(tmp_path / "lake"), options.address(), options.settings(), log):
            for _ in range(400):
                table = choices.choice(tables)
                key = (choices.randrange(200),)
                if key not in table.rows:
                    table.insert({"id": key[0], "item": f"i{number}", "amount": number})
                elif choices.random() < 0.3:
                    table.delete(key)
                else:
                    table.update(key, amount=number)
                number += 1
            own.flush()
            while _batch(own) < first + choices.randrange(1, 3):
                assert not log.exists(), log.read_text()
        if turn % 2:
            own.broker.kill()
            own.broker.start()
    assert own.once()
    own.check(*tables)
    assert all(verdict.is_equal for verdict in own.verdicts())
