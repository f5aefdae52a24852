"""A broker, topics of its own for each test, and a pipeline that follows them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.cdc.kafka.broker import Broker
from tests.cdc.kafka.connector import Column, EventTable, connect_type

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.state import PipelineState, TablePhase, TableState
from headwater.cdc.service.options import PipelineOptions
from headwater.cdc.service.verify import TableVerdict, verify
from headwater.client import Lake, connect
from headwater.client.cdc import FollowOptions

ORDERS = (
    Column("id", connect_type("int64")),
    Column("item", connect_type("string")),
    Column("amount", connect_type("int32")),
)


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    """A broker that tests share, each with topics of its own.

    HEADWATER_KAFKA names one that runs already, as ``host:port``.
    """
    running = os.environ.get("HEADWATER_KAFKA")
    if running is not None:
        yield Broker(int(running.rpartition(":")[2]))
        return
    with Broker() as broker:
        yield broker


@dataclass
class Follower:
    """A pipeline that follows topics into a lake.

    Attributes:
        broker: The broker.
        lake: The lake.
        prefix: What the test's topics begin with.
    """

    broker: Broker
    lake: Lake
    prefix: str
    conf: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    _producer: Producer | None = None

    def topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new topic."""
        topic = f"{self.prefix}{name}"
        self.broker.create_topic(topic, partitions, config)
        return topic

    def write(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Write a message."""
        if self._producer is None:
            self._producer = self.broker.producer()
        self._producer.produce(topic, key=key, value=value)
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until the broker has all messages."""
        if self._producer is not None:
            assert self._producer.flush(60) == 0

    def table(
        self, name: str, topic: str, columns: Sequence[Column] = ORDERS, **how: Any
    ) -> EventTable:
        """A table of the database ``shop`` whose changes go to a topic."""
        return EventTable(TableName("shop", name), topic, self.write, columns, **how)

    def settings(self) -> FollowOptions:
        """The pipeline's options."""
        conf = {"value.format": "debezium-json"}
        if "topic" not in self.conf:
            conf["topic-pattern"] = f"{self.prefix}.*"
        options: FollowOptions = {
            "source": f"kafka://{self.broker.address}",
            "include": ["shop.*"],
            "target": "lake",
            "name": "p",
            "batch_seconds": 0.5,
            "kafka_conf": {**conf, **self.conf},
        }
        return {**options, **self.options}  # type: ignore[typeddict-item]

    def once(self) -> bool:
        """Follow all that the topics have now; whether no table is quarantined."""
        self.flush()
        return self.lake.cdc.kafka(once=True, **self.settings()).wait(120)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of the lake's table, by its key."""
        lake_table = self.lake.table(f"lake.{table}")
        keys = list(lake_table.schema.primary_keys)
        return sorted(
            lake_table.scan().to_arrow().to_pylist(), key=lambda row: [row[name] for name in keys]
        )

    def check(self, *tables: EventTable) -> None:
        """Compare tables of the lake with what their events leave."""
        for table in tables:
            names = [column.name for column in table.columns]
            expected = [
                {name: row.get(name) for name in names} for _, row in sorted(table.rows.items())
            ]
            assert self.rows(table.name.table) == expected

    def verdicts(self) -> Iterator[TableVerdict]:
        """The comparison of the lake's tables with their topics."""
        options = PipelineOptions.parse(self.settings())
        return verify(self.lake, options.address(), options.settings())

    def states(self) -> dict[str, TableState]:
        """The tables' states."""
        state = PipelineState.existing(self.lake, "lake", "p")
        plan = None if state is None else state.plan()
        assert plan is not None
        return {TableName.from_escaped(name).table: state for name, state in plan.tables.items()}

    def reason(self, table: str) -> str:
        """Why a table is quarantined."""
        state = self.states()[table]
        assert state.phase is TablePhase.QUARANTINED
        return state.reason or ""


@pytest.fixture
def follower(shared_broker: Broker, tmp_path: Path) -> Follower:
    """A pipeline and a lake of the test's own."""
    lake = connect(tmp_path / "lake")
    lake.create_database("lake")
    return Follower(shared_broker, lake, f"t{uuid.uuid4().hex[:10]}.")
