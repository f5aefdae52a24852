"""Snapshots, tags and consumers through the table handle."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.errors import AlreadyExists, Conflict, Invalid, NotFound, ResourceType
from headwater.storage.scan.stream import StreamPosition
from headwater.storage.snapshot.consumer import Consumer, write_consumer_file

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock


@pytest.fixture
def log(lake: Lake) -> Table:
    table = lake.create_table("sales.log", pa.schema([("n", pa.int64())]))
    for number in range(1, 6):
        table.write({"n": [number]})
    return table


def numbers(table: Table, **moment: object) -> list[int]:
    found: list[int] = table.scan(**moment).to_arrow().column("n").to_pylist()  # type: ignore[arg-type]
    return sorted(found)


def test_snapshots_are_listed_newest_first(log: Table) -> None:
    assert [snapshot.id for snapshot in log.snapshots()] == [5, 4, 3, 2, 1]
    assert log.snapshot(3).total_record_count == 3
    assert log.latest_snapshot() == log.snapshot(5)


def test_tags_name_snapshots(log: Table, clock: Clock) -> None:
    log.create_tag("third", 3)
    log.create_tag("latest", retained=dt.timedelta(days=1))
    assert [(tag.name, tag.snapshot.id) for tag in log.tags()] == [("latest", 5), ("third", 3)]
    assert log.tag("latest").retained_millis == 86_400_000
    assert numbers(log, tag="third") == [1, 2, 3]
    with pytest.raises(AlreadyExists):
        log.create_tag("third")
    with pytest.raises(NotFound):
        log.create_tag("other", 17)
    log.delete_tag("third")
    with pytest.raises(NotFound) as error:
        log.tag("third")
    assert error.value.resource_type is ResourceType.TAG
    with pytest.raises(NotFound):
        log.delete_tag("third")


def test_a_rollback_forgets_what_came_later(log: Table) -> None:
    log.create_tag("second", 2)
    log.create_tag("fourth", 4)
    log.rollback(snapshot_id=3)
    assert numbers(log) == [1, 2, 3]
    assert [tag.name for tag in log.tags()] == ["second"]
    log.write({"n": [40]})
    assert [snapshot.id for snapshot in log.snapshots()] == [4, 3, 2, 1]
    log.rollback(tag="second")
    assert numbers(log) == [1, 2]
    with pytest.raises(Invalid, match="one of"):
        log.rollback()
    with pytest.raises(NotFound):
        log.rollback(snapshot_id=4)


def test_a_consumer_saves_its_position(log: Table) -> None:
    billing = log.consumer("billing")
    assert (billing.next_snapshot, billing.lag) == (None, None)
    billing.advance(3)
    assert (billing.next_snapshot, billing.lag) == (3, 3)
    billing.advance(3)
    billing.advance(6)
    assert (log.consumer("billing").next_snapshot, billing.lag) == (6, 0)
    with pytest.raises(Conflict, match="at snapshot 6 already"):
        billing.advance(5)
    billing.reset(2)
    assert [(one.consumer_id, one.next_snapshot) for one in log.consumers()] == [("billing", 2)]
    billing.delete()
    billing.delete()
    assert log.consumers() == []


def test_a_consumer_that_another_engine_moved_is_seen(log: Table) -> None:
    files, layout = log.storage.files, log.storage.layout
    write_consumer_file(files, layout, Consumer("flink", 4))
    assert log.consumer("flink").next_snapshot == 4
    with pytest.raises(Conflict):
        log.consumer("flink").advance(3)


def test_a_consumer_of_a_history_that_was_rolled_back_is_told(log: Table) -> None:
    billing, early = log.consumer("billing"), log.consumer("early")
    billing.reset(5)
    early.reset(4)
    log.rollback(snapshot_id=3)
    for number in (10, 11):
        assert (billing.is_rolled_back, early.is_rolled_back) == (True, False)
        with pytest.raises(Invalid, match="consumed snapshot 4, which is no longer part"):
            billing.position()
        # The same id, and another snapshot.
        log.write({"n": [number]})
    assert (billing.next_snapshot, early.position()) == (5, StreamPosition(4))
    billing.reset(5)
    assert (billing.is_rolled_back, billing.position()) == (False, StreamPosition(5))
    # One that another engine moved says nothing of what it has consumed.
    write_consumer_file(log.storage.files, log.storage.layout, Consumer("billing", 4))
    log.rollback(snapshot_id=3)
    log.write({"n": [12]})
    assert not billing.is_rolled_back


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_consumer_s_name_must_be_a_name(log: Table, name: str) -> None:
    with pytest.raises(Invalid):
        log.consumer(name).reset(1)


def test_a_dropped_table_is_gone_for_its_handles(lake: Lake, log: Table) -> None:
    lake.drop_table("sales.log")
    with pytest.raises(NotFound) as error:
        log.write({"n": [1]})
    assert error.value.resource_type is ResourceType.TABLE
    with pytest.raises(NotFound):
        log.refresh()
    lake.create_table("sales.log", pa.schema([("n", pa.int64())]))
    with pytest.raises(NotFound):
        # A table of the same name is not the same table.
        log.write({"n": [1]})
    assert lake.table("sales.log").scan().count() == 0


def test_an_external_table_s_files_decide(lake: Lake, tmp_path: Path, clock: Clock) -> None:
    table = lake.create_table(
        "sales.outside",
        pa.schema([pa.field("n", pa.int64(), nullable=False)]),
        primary_keys=["n"],
        options={"path": (tmp_path / "elsewhere").as_uri(), "bucket": "1"},
    )
    assert table.info.is_external
    for number in range(3):
        clock.turn(minutes=1)
        table.write({"n": [number]})
    table.delete("n = 1")
    table.compact()
    assert numbers(table) == [0, 2]
    assert numbers(table, snapshot_id=2) == [0, 1]
    assert numbers(table, timestamp=table.snapshot(1).time_millis) == [0]
    assert [snapshot.id for snapshot in table.snapshots()] == [5, 4, 3, 2, 1]
    assert (tmp_path / "elsewhere" / "snapshot" / "snapshot-5").exists()
    table.expire_snapshots(retain_min=1, retain_max=1)
    assert [snapshot.id for snapshot in table.snapshots()] == [5]
