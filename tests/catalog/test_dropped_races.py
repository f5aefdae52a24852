"""Drops, restores, purges, renames and commits at the same time leave one truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
from tests.catalog.databases import POSTGRESQL_IN_MODES

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.storage.errors import AlreadyExists, Conflict, HeadwaterError, NotFound
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer

WEEK = 7 * 24 * 3600 * 1000
ROUNDS = 12


@pytest.fixture
def replicas(
    migrated_url: str, tmp_path: Path, orders: Identifier, orders_schema: Schema
) -> Iterator[list[SqlCatalog]]:
    """Two servers' catalogs over one database."""
    opened = [
        SqlCatalog.open(
            migrated_url, warehouse="main", location=str(tmp_path / "lake"), undrop_millis=WEEK
        )
        for _ in range(2)
    ]
    opened[0].databases.create(orders.database)
    opened[0].tables.create(orders, orders_schema)
    yield opened
    for catalog in opened:
        catalog.close()


def _together(*actions: Callable[[], object]) -> list[object]:
    """Run at the same time; each one's result, or the error that refused it."""
    start = Barrier(len(actions))

    def run(action: Callable[[], object]) -> object:
        start.wait()
        try:
            return action()
        except HeadwaterError as error:
            return error

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(run, actions))


def _dropped(catalog: SqlCatalog) -> list[str]:
    return [info.id for info in catalog.dropped_tables.list().items]


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_table_is_renamed_or_dropped_never_both(
    replicas: list[SqlCatalog], orders: Identifier
) -> None:
    a, b = replicas
    table_id = a.tables.get(orders).id
    renamed = Identifier(orders.database, "renamed")
    for _ in range(ROUNDS):
        drop, rename = _together(
            lambda: a.tables.drop(orders), lambda: b.tables.rename(orders, renamed)
        )
        names = list(a.tables.list(orders.database).items)
        if drop is None:
            assert isinstance(rename, NotFound)
            assert (names, _dropped(b)) == ([], [table_id])
            a.dropped_tables.restore(table_id)
        else:
            assert isinstance(drop, NotFound)
            assert (rename, names, _dropped(b)) == (None, ["renamed"], [])
            a.tables.rename(renamed, orders)


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_dropped_table_is_restored_or_purged_never_both(
    replicas: list[SqlCatalog], orders: Identifier, orders_schema: Schema
) -> None:
    a, b = replicas
    for _ in range(ROUNDS):
        info = a.tables.get(orders)
        a.tables.drop(orders)
        restored, purged = _together(
            partial(a.dropped_tables.restore, info.id), partial(b.dropped_tables.purge, info.id)
        )
        assert _dropped(a) == []
        there = Path(info.path.removeprefix("file://")).exists()
        if restored == orders:
            assert isinstance(purged, NotFound)
            assert there
            assert b.tables.get(orders).id == info.id
        else:
            assert isinstance(restored, NotFound)
            assert purged is None
            assert not there
            a.tables.create(orders, orders_schema)


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_two_restores_do_not_share_a_name(
    replicas: list[SqlCatalog], orders: Identifier, orders_schema: Schema
) -> None:
    a, b = replicas
    for _ in range(ROUNDS):
        ids = []
        for _ in range(2):
            ids.append(a.tables.get(orders).id)
            a.tables.drop(orders)
            a.tables.create(orders, orders_schema)
        a.tables.drop(orders)
        results = _together(
            partial(a.dropped_tables.restore, ids[0]), partial(b.dropped_tables.restore, ids[1])
        )
        assert results.count(orders) == 1
        (refused,) = [result for result in results if result != orders]
        assert isinstance(refused, AlreadyExists | Conflict)
        winner = ids[results.index(orders)]
        assert a.tables.get(orders).id == winner


def test_commits_around_a_drop_are_in_the_history_or_not(
    replicas: list[SqlCatalog], orders: Identifier, snapshot: Callable[..., Snapshot]
) -> None:
    a, b = replicas
    table_id = a.tables.get(orders).id
    base: str | None = None
    for number in range(1, ROUNDS + 1):
        offered = snapshot(number)
        committed, dropped = _together(
            partial(b.snapshots.commit, orders, table_id, offered, base, []),
            partial(a.tables.drop, orders),
        )
        assert dropped is None
        a.dropped_tables.restore(table_id)
        latest = a.snapshots.latest(orders)
        if isinstance(committed, CommitAnswer):
            assert committed.decided()
            assert latest is not None
            assert latest.snapshot == offered
        else:
            assert isinstance(committed, NotFound)
            assert (latest.snapshot.uuid if latest else None) == base
            assert a.snapshots.commit(orders, table_id, offered, base, []).decided()
        base = offered.uuid
    assert [item.id for item in a.snapshots.list(orders).items] == list(range(ROUNDS, 0, -1))


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_table_put_into_a_database_that_is_dropped_is_not_lost(
    replicas: list[SqlCatalog], orders: Identifier
) -> None:
    a, b = replicas
    table_id = a.tables.get(orders).id
    target = Identifier("other", "orders")
    a.tables.drop(orders)
    for _ in range(ROUNDS):
        a.databases.create("other", ignore_if_exists=True)
        restored, dropped = _together(
            lambda: a.dropped_tables.restore(table_id, target), lambda: b.databases.drop("other")
        )
        assert dropped is None
        assert restored == target or isinstance(restored, NotFound | Conflict)
        # Either way it can be restored still.
        assert _dropped(a) == [table_id]
