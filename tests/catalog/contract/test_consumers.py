"""How far consumers lag, and when they expire, over every catalog."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.consumers import ConsumerLag
from headwater.catalog.model.identifier import Identifier
from headwater.storage.errors import NotFound, ResourceType
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot

MakeSnapshot = Callable[..., Snapshot]

MINUTE = 60_000


def _commit(catalog: Catalog, table: Identifier, *snapshots: Snapshot) -> None:
    latest = catalog.snapshots.latest(table)
    base = None if latest is None else latest.snapshot.uuid
    for made in snapshots:
        assert catalog.snapshots.commit(table, None, made, base, []).decided()
        base = made.uuid


def _lag(catalog: Catalog, table: Identifier, consumer_id: str = "billing") -> ConsumerLag:
    (found,) = [
        item for item in catalog.consumers.list(table).items if item.consumer_id == consumer_id
    ]
    assert found.lag is not None
    return found.lag


def _behind(catalog: Catalog, table: Identifier, position: int) -> tuple[int, int | None]:
    catalog.consumers.reset(table, "billing", position)
    lag = _lag(catalog, table)
    return lag.snapshots, lag.records


def test_lag_without_changelog_counts_what_was_appended(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    _commit(
        catalog,
        table,
        snapshot(1, deltaRecordCount=10),
        snapshot(2, deltaRecordCount=-4, commitKind="COMPACT"),
        snapshot(3, deltaRecordCount=7),
        snapshot(4, deltaRecordCount=100, commitKind="OVERWRITE"),
        snapshot(5, deltaRecordCount=1),
    )
    assert [_behind(catalog, table, position) for position in range(1, 8)] == [
        (5, 18),
        (4, 8),
        (3, 8),
        (2, 1),
        (1, 1),
        (0, 0),
        (0, 0),
    ]


def test_lag_with_changelog_counts_its_rows(
    catalog: Catalog, orders: Identifier, orders_schema: Schema, snapshot: MakeSnapshot
) -> None:
    catalog.databases.create(orders.database)
    options = {**orders_schema.options, "changelog-producer": "input"}
    schema = Schema(
        orders_schema.fields, orders_schema.partition_keys, orders_schema.primary_keys, options
    )
    catalog.tables.create(orders, schema)
    _commit(
        catalog,
        orders,
        snapshot(1, deltaRecordCount=10, changelogRecordCount=12),
        snapshot(2, deltaRecordCount=5, commitKind="COMPACT"),
        snapshot(3, deltaRecordCount=3, changelogRecordCount=4),
    )
    assert [_behind(catalog, orders, position) for position in (1, 2, 3, 4)] == [
        (3, 16),
        (2, 4),
        (1, 4),
        (0, 0),
    ]


def test_lag_is_as_old_as_the_oldest_unread_snapshot(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    now = SYSTEM_RUNTIME.now_millis()
    _commit(
        catalog,
        table,
        snapshot(1, timeMillis=now - 60 * MINUTE),
        snapshot(2, timeMillis=now - 30 * MINUTE),
    )
    ages: list[int | None] = []
    for position in (1, 2, 3):
        catalog.consumers.reset(table, "billing", position)
        ages.append(_lag(catalog, table).millis)
    first, second, none = ages
    assert first is not None
    assert second is not None
    assert 60 * MINUTE <= first <= SYSTEM_RUNTIME.now_millis() - now + 60 * MINUTE
    assert first - 30 * MINUTE - (SYSTEM_RUNTIME.now_millis() - now) <= second < first
    assert none == 0


def test_lag_of_an_empty_table(catalog: Catalog, table: Identifier) -> None:
    assert _behind(catalog, table, 1) == (0, 0)


def test_lag_follows_a_rollback(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    _commit(catalog, table, *(snapshot(number, deltaRecordCount=10) for number in (1, 2, 3)))
    assert _behind(catalog, table, 2) == (2, 20)
    catalog.snapshots.rollback_to_snapshot(table, 2)
    assert _behind(catalog, table, 2) == (1, 10)
    _commit(catalog, table, snapshot(3, deltaRecordCount=5))
    assert _behind(catalog, table, 2) == (2, 15)


def test_a_full_read_is_a_position_of_its_own(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    _commit(catalog, table, *(snapshot(number, deltaRecordCount=10) for number in (1, 2, 3)))

    def told(consumer_id: str) -> tuple[int, bool, bool]:
        consumers = {item.consumer_id: item for item in catalog.consumers.list(table).items}
        item = consumers[consumer_id]
        return item.next_snapshot, item.full_read, item.is_rolled_back

    catalog.consumers.reset(table, "full", 3, full_read=True)
    catalog.consumers.reset(table, "changes", 3)
    assert told("full") == (3, True, False)
    assert told("changes") == (3, False, False)
    # How many rows a full read gives is known when they are merged.
    assert (_lag(catalog, table, "full").snapshots, _lag(catalog, table, "full").records) == (
        1,
        None,
    )
    catalog.snapshots.rollback_to_snapshot(table, 2)
    _commit(catalog, table, snapshot(3, deltaRecordCount=5))
    # It was to read all rows of a snapshot that went; the other only what came before.
    assert told("full") == (3, True, True)
    assert told("changes") == (3, False, False)
    catalog.consumers.reset(table, "full", 4)
    assert told("full") == (4, False, False)


def test_lag_of_a_consumer_whose_snapshots_expired(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: MakeSnapshot
) -> None:
    _commit(catalog, table, *(snapshot(number, deltaRecordCount=10) for number in (1, 2, 3)))
    assert _behind(catalog, table, 1) == (3, 30)
    for number in (1, 2):
        (directory / "snapshot" / f"snapshot-{number}").unlink()
    lag = _lag(catalog, table)
    assert (lag.snapshots, lag.records) == (3, 30)


def test_a_position_that_has_expired_is_rejected(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: MakeSnapshot
) -> None:
    _commit(catalog, table, *(snapshot(number) for number in (1, 2, 3)))
    (directory / "snapshot" / "snapshot-1").unlink()
    with pytest.raises(NotFound, match="has no snapshot 1") as rejected:
        catalog.consumers.reset(table, "billing", 1)
    assert rejected.value.resource_type is ResourceType.SNAPSHOT
    assert catalog.consumers.list(table).items == ()
    # A changelog that outlived its snapshot can be read, but not in full.
    (directory / "changelog").mkdir()
    (directory / "changelog" / "changelog-1").write_text("{}")
    with pytest.raises(NotFound):
        catalog.consumers.reset(table, "billing", 1, full_read=True)
    catalog.consumers.reset(table, "billing", 1)
    assert _lag(catalog, table).snapshots == 3


def test_a_position_that_another_engine_moved_tells_the_lag(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: MakeSnapshot
) -> None:
    _commit(catalog, table, *(snapshot(number, deltaRecordCount=10) for number in (1, 2, 3)))
    (directory / "consumer").mkdir()
    (directory / "consumer" / "consumer-theirs").write_text('{"nextSnapshot":3}')
    lag = _lag(catalog, table, "theirs")
    assert (lag.snapshots, lag.records) == (1, 10)


def test_consumers_that_stood_still_too_long_are_none(
    catalog: Catalog, table: Identifier, directory: Path, snapshot: MakeSnapshot
) -> None:
    _commit(catalog, table, snapshot(1))
    catalog.consumers.reset(table, "idle", 1)
    catalog.consumers.reset(table, "live", 1)
    hour_ago = SYSTEM_RUNTIME.now_millis() / 1000 - 3600
    os.utime(directory / "consumer" / "consumer-idle", (hour_ago, hour_ago))

    def ids() -> list[str]:
        return [item.consumer_id for item in catalog.consumers.list(table).items]

    assert ids() == ["idle", "live"]
    catalog.tables.alter(table, [SetOption("consumer.expiration-time", "2 h")])
    assert ids() == ["idle", "live"]
    catalog.tables.alter(table, [SetOption("consumer.expiration-time", "30 min")])
    assert ids() == ["live"]
    catalog.consumers.reset(table, "idle", 2)
    assert ids() == ["idle", "live"]


def test_pages_of_consumers(catalog: Catalog, table: Identifier, subtests: pytest.Subtests) -> None:
    names = [f"consumer-{number}" for number in range(4)]
    for name in names:
        catalog.consumers.reset(table, name, 1)
    for size in (1, 2, 3, 4):
        with subtests.test(size=size):
            listed: list[str] = []
            token: str | None = None
            while True:
                page = catalog.consumers.list(table, max_results=size, page_token=token)
                assert page.items
                listed += [item.consumer_id for item in page.items]
                token = page.next_token
                if token is None:
                    break
            assert listed == names
