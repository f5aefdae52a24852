"""Clocks that are wrong, and clocks that are put right, purge nothing and lose nothing."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import NewSqlite

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.model.principal import Principal, Scope
from headwater.catalog.model.rights import Thing
from headwater.catalog.sql import SqlCatalog
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema

if TYPE_CHECKING:
    from tests.catalog.conftest import Clock

DAY = 86_400_000


def test_a_purge_waits_for_the_databases_clock(
    migrated_url: str, tmp_path: Path, orders: Identifier, orders_schema: Schema, clock: Clock
) -> None:
    clock.millis = SYSTEM_RUNTIME.now_millis()
    catalog = SqlCatalog.open(
        migrated_url,
        warehouse="main",
        location=str(tmp_path / "lake"),
        runtime=clock.runtime,
        undrop_millis=DAY,
    )
    with closing(catalog):
        catalog.databases.create(orders.database)
        catalog.tables.create(orders, orders_schema)
        catalog.tables.drop(orders)
        clock.turn(days=2)
        # SQLite has no clock but this one.
        expected = 1 if migrated_url.startswith("sqlite") else 0
        assert catalog.operation.sweep().purged == expected
        assert len(catalog.dropped_tables.list().items) == 1 - expected
        # One that is dropped meanwhile is kept no longer for it, where another clock tells.
        clock.set_wrong(days=30)
        catalog.tables.create(orders, orders_schema)
        catalog.tables.drop(orders)
        newest = max(each.dropped_at for each in catalog.dropped_tables.list().items)
        ahead = newest - SYSTEM_RUNTIME.now_millis()
        assert ahead > 29 * DAY if migrated_url.startswith("sqlite") else ahead < 3 * DAY


def test_a_grant_that_ended_stays_so_when_a_server_starts_with_its_clock_set_back(
    migrated_url: str, tmp_path: Path, orders: Identifier, orders_schema: Schema, clock: Clock
) -> None:
    if migrated_url.startswith("sqlite"):
        pytest.skip("SQLite has no clock but this machine's")
    target = PermissionTarget(TargetType.TABLE, orders.database, orders.table)
    caller = Principal("ada", scopes=frozenset({Scope.WRITE}), asks_permission=True)
    clock.millis = SYSTEM_RUNTIME.now_millis() - 2 * DAY

    def opened() -> SqlCatalog:
        location = str(tmp_path / "lake")
        return SqlCatalog.open(
            migrated_url, warehouse="main", location=location, runtime=clock.runtime
        )

    with closing(opened()) as catalog:
        catalog.databases.create(orders.database)
        catalog.tables.create(orders, orders_schema)
        ends = clock.millis + DAY
        catalog.permissions.grant(Grant(target, Access.SELECT, "ada", expires_at=ends))
    with closing(opened()) as catalog:
        thing = Thing(TargetType.TABLE, orders.database, orders.table)
        assert catalog.access.rights(caller, thing).is_visible
        catalog.operation.database.compare_clocks()
        assert not catalog.access.rights(caller, thing).is_visible


@pytest.mark.parametrize("days", [30, -30])
def test_a_jump_of_the_clock_purges_and_revives_nothing(
    new_sqlite: NewSqlite,
    tmp_path: Path,
    orders: Identifier,
    orders_schema: Schema,
    clock: Clock,
    days: int,
) -> None:
    before, during = Identifier("sales", "before"), Identifier("sales", "during")
    catalog = SqlCatalog.open(
        new_sqlite(tmp_path / "x.db"),
        warehouse="main",
        location=str(tmp_path / "lake"),
        runtime=clock.runtime,
        undrop_millis=DAY,
    )

    def dropped() -> list[str]:
        assert catalog.operation.sweep().repaired.failures == ()
        return [each.identifier.table for each in catalog.dropped_tables.list().items]

    with closing(catalog):
        catalog.databases.create("sales")
        for name in (orders, before, during):
            catalog.tables.create(name, orders_schema)
        catalog.consumers.lease(orders, "job", "its reader", DAY)
        catalog.tables.drop(before)
        clock.set_wrong(days=days)
        catalog.tables.drop(during)
        assert dropped() == ["before", "during"]
        # Whoever had a consumer has it still.
        taken = catalog.consumers.lease(orders, "job", "another", DAY)
        assert taken is not None
        assert taken.owner == "its reader"
        clock.set_wrong()
        assert dropped() == ["before", "during"]
        clock.turn(hours=23)
        assert dropped() == ["before", "during"]
        # In their time, and by then the one that was dropped before.
        clock.turn(hours=2)
        assert dropped() == (["during"] if days > 0 else [])
        clock.turn(days=30)
        assert dropped() == []
