"""Readers that hold a consumer: alive, dead, paused and awake again."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.catalog.conftest import Clock

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.consumer import Consumer
from headwater.catalog.table.consumer_hold import LEASE, ConsumerHold
from headwater.client import Lake
from headwater.storage.errors import Conflict
from headwater.storage.runtime import Runtime
from headwater.storage.schema.change import SetOption

HALF = LEASE.total_seconds() / 2


@pytest.fixture
def consumer(lake: Lake) -> Consumer:
    made = lake.create_table("sales.log", pa.schema([("id", pa.int64())]))
    made.consumer("billing").reset(1)
    return made.consumer("billing")


def test_a_live_reader_keeps_the_consumer(lake: Lake, consumer: Consumer, clock: Clock) -> None:
    first = consumer.hold()

    def sleep(seconds: float) -> None:
        clock.turn(seconds=seconds)
        first.renew()

    told = clock.runtime
    runtime = Runtime(told.now_millis, told.new_uuid, sleep, monotonic=told.monotonic)
    log = Identifier.parse("sales.log")
    second = ConsumerHold(lake.catalog.consumers, log, "billing", runtime, LEASE)
    first.take()
    # The second looks again and again; meanwhile the first renews its lease.
    with pytest.raises(Conflict, match=r"is in use by 'process .*which is alive"):
        second.take()
    first.advance(2)
    assert consumer.next_snapshot == 2
    with pytest.raises(Conflict, match="may not move consumer"):
        second.advance(9)
    with pytest.raises(Conflict, match="in use by"):
        consumer.reset(9)
    assert consumer.next_snapshot == 2


def test_a_dead_readers_consumer_is_taken_over_and_it_cannot_move_it_when_it_wakes(
    consumer: Consumer, clock: Clock
) -> None:
    paused, successor = consumer.hold(), consumer.hold()
    paused.take()
    paused.advance(2)
    began = clock.millis
    successor.take()  # it waits, while the first does not renew
    waited = timedelta(milliseconds=clock.millis - began)
    assert LEASE <= waited <= LEASE + timedelta(seconds=1)
    with pytest.raises(Conflict, match="may not move consumer"):
        paused.advance(5)
    with pytest.raises(Conflict, match="was taken over by"):
        paused.renew()
    with pytest.raises(Conflict, match="was taken over by"):
        paused.check()
    successor.advance(3)
    assert consumer.next_snapshot == 3
    # Not even when the successor has gone meanwhile.
    successor.release()
    with pytest.raises(Conflict):
        paused.advance(9)
    with pytest.raises(Conflict):
        paused.renew()
    paused.release()
    assert consumer.next_snapshot == 3


def test_a_paused_reader_goes_on_if_nobody_took_its_place(consumer: Consumer, clock: Clock) -> None:
    hold = consumer.hold()
    hold.take()
    clock.turn(hours=1)
    hold.advance(2)
    hold.renew()
    assert consumer.next_snapshot == 2


def test_a_move_by_hand_of_a_dead_readers_consumer_is_not_undone_when_it_wakes(
    consumer: Consumer, clock: Clock
) -> None:
    hold = consumer.hold()
    hold.take()
    hold.advance(5)
    clock.turn(seconds=2 * HALF + 1)
    consumer.reset(1)
    with pytest.raises(Conflict):
        hold.advance(6)
    assert consumer.next_snapshot == 1


def test_force_moves_a_consumer_and_fails_its_reader(consumer: Consumer) -> None:
    hold = consumer.hold()
    hold.take()
    consumer.reset(4, force=True)
    with pytest.raises(Conflict, match="was taken from it"):
        hold.renew()
    with pytest.raises(Conflict):
        hold.advance(5)
    assert consumer.next_snapshot == 4


def test_a_reader_that_ends_leaves_the_consumer_to_the_next_at_once(
    consumer: Consumer, clock: Clock
) -> None:
    began = clock.millis
    for position in (2, 3, 4):
        with consumer.hold() as hold:
            hold.advance(position)
    assert consumer.next_snapshot == 4
    assert clock.millis == began


def test_a_renewal_keeps_the_position_of_a_live_reader_from_expiring(
    lake: Lake, consumer: Consumer, clock: Clock
) -> None:
    lake.alter_table("sales.log", SetOption("consumer.expiration-time", "1 h"))
    location = Path(lake.table("sales.log").storage.layout.location.removeprefix("file://"))
    file = location / "consumer" / "consumer-billing"
    hold = consumer.hold()
    hold.take()
    before = file.read_text()
    os.utime(file, (1, 1))
    assert consumer.next_snapshot is None
    hold.renew()
    assert consumer.next_snapshot == 1
    assert file.read_text() == before
