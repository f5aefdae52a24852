"""A server whose clock is ahead, and has been since it started, asks the database's."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.catalog.model.identifier import Identifier
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
