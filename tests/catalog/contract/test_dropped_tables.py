"""Dropped tables come back whole, over every catalog that keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.catalog.conftest import Clock
from tests.catalog.databases import POSTGRESQL_IN_MODES, set_database_clock

from headwater.catalog.labels import Entity, EntityType, Label
from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.policies import ColumnMask, Policy
from headwater.catalog.sql import SqlCatalog
from headwater.client import Lake
from headwater.client.rest import RestCatalog
from headwater.storage.errors import AlreadyExists, NotFound, ResourceType
from headwater.storage.schema.change import SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot

WEEK = 7 * 24 * 3600 * 1000

MakeSnapshot = Callable[..., Snapshot]

pytestmark = pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)


@pytest.fixture
def behind(migrated_url: str, tmp_path: Path, clock: Clock) -> Iterator[SqlCatalog]:
    """A catalog that keeps dropped tables for a week."""
    opened = SqlCatalog.open(
        migrated_url,
        warehouse="main",
        location=str(tmp_path / "lake"),
        runtime=clock.runtime,
        undrop_millis=WEEK,
    )
    set_database_clock(opened.operation.database.engine, lambda: clock.millis)
    yield opened
    opened.close()


@pytest.fixture(params=["embedded", "served"])
def catalog(request: pytest.FixtureRequest, behind: SqlCatalog) -> Iterator[Catalog]:
    if request.param == "embedded":
        yield behind
        return
    serve: Callable[..., str] = request.getfixturevalue("serve")
    client = RestCatalog(serve(behind), warehouse="main")
    yield client
    client.close()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_dropped_table_is_gone_and_comes_back_whole(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot, directory: Path, clock: Clock
) -> None:
    first = snapshot(1)
    assert catalog.snapshots.commit(table, None, first, None, []).decided()
    catalog.tags.create(table, "v1", 1)
    catalog.consumers.reset(table, "billing", 1)
    catalog.tables.alter(table, [SetOption("write-only", "true")])
    before, files = catalog.tables.get(table), _files(directory)

    catalog.tables.drop(table)

    with pytest.raises(NotFound) as error:
        catalog.tables.get(table)
    assert error.value.resource_type is ResourceType.TABLE
    assert list(catalog.tables.list(table.database).items) == []
    assert list(catalog.databases.list().items) == [table.database]
    (dropped,) = catalog.dropped_tables.list().items
    assert (dropped.id, dropped.identifier, dropped.path) == (before.id, table, before.path)
    assert (dropped.dropped_at, dropped.kept_until) == (clock.millis, clock.millis + WEEK)
    assert _files(directory) == files

    assert catalog.dropped_tables.restore(dropped.id) == table

    after = catalog.tables.get(table)
    assert (after.id, after.path, after.schema) == (before.id, before.path, before.schema)
    assert list(catalog.dropped_tables.list().items) == []
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert latest.snapshot == first
    assert list(catalog.tags.list(table).items) == ["v1"]
    assert [item.next_snapshot for item in catalog.consumers.list(table).items] == [1]
    assert catalog.snapshots.commit(table, before.id, snapshot(2), first.uuid, []).decided()


def test_a_restored_table_has_its_grants(
    catalog: Catalog, table: Identifier, orders_schema: Schema
) -> None:
    target = PermissionTarget(TargetType.TABLE, table.database, table.name)
    grant = Grant(target, Access.SELECT, "ada")
    catalog.permissions.grant(grant)
    dropped = catalog.tables.get(table).id
    catalog.tables.drop(table)
    with pytest.raises(NotFound):
        catalog.permissions.list(target)
    catalog.tables.create(table, orders_schema)
    assert list(catalog.permissions.list(target).items) == []
    catalog.tables.drop(table)
    catalog.dropped_tables.restore(dropped)
    assert list(catalog.permissions.list(target).items) == [grant]


def test_a_restored_table_has_its_policies_and_labels(
    catalog: Catalog, table: Identifier, orders_schema: Schema
) -> None:
    asking = SetOption("query-auth.enabled", "true")
    policy = Policy("ada", ColumnMask("amount", '{"name":"NULL"}'))
    catalog.tables.alter(table, [asking])
    catalog.policies.create(table, policy)
    entity, label = Entity(EntityType.TABLE, str(table)), Label("domain", "sales")
    catalog.labels.set(entity, label)
    dropped = catalog.tables.get(table).id
    catalog.tables.drop(table)
    with pytest.raises(NotFound):
        catalog.policies.list(table)
    with pytest.raises(NotFound):
        catalog.labels.list(entity)
    catalog.tables.create(table, orders_schema)
    assert catalog.policies.list(table).items == ()
    assert catalog.labels.list(entity).items == ()
    catalog.tables.drop(table)
    catalog.dropped_tables.restore(dropped)
    assert catalog.policies.list(table).items == (policy,)
    assert catalog.labels.list(entity).items == (label,)
    catalog.tables.drop(table)
    catalog.dropped_tables.purge(dropped)


def test_a_name_is_free_after_a_drop(
    catalog: Catalog, table: Identifier, orders_schema: Schema
) -> None:
    old = catalog.tables.get(table)
    catalog.tables.drop(table)
    catalog.tables.create(table, orders_schema)
    new = catalog.tables.get(table)
    assert new.id != old.id
    assert new.path != old.path
    with pytest.raises(AlreadyExists) as error:
        catalog.dropped_tables.restore(old.id)
    assert error.value.resource_type is ResourceType.TABLE
    other = Identifier(table.database, "orders_old")
    assert catalog.dropped_tables.restore(old.id, other) == other
    assert (catalog.tables.get(other).id, catalog.tables.get(table).id) == (old.id, new.id)


def test_tables_of_a_dropped_database_come_back_elsewhere(
    catalog: Catalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    first = snapshot(1)
    assert catalog.snapshots.commit(table, None, first, None, []).decided()
    catalog.databases.drop(table.database)
    (dropped,) = catalog.dropped_tables.list(database=table.database).items
    with pytest.raises(NotFound) as error:
        catalog.dropped_tables.restore(dropped.id)
    assert error.value.resource_type is ResourceType.DATABASE
    catalog.databases.create("archive")
    restored = catalog.dropped_tables.restore(dropped.id, Identifier("archive", "orders"))
    latest = catalog.snapshots.latest(restored)
    assert latest is not None
    assert latest.snapshot == first


def test_a_purged_table_is_gone_for_good(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    catalog.tables.drop(table)
    (dropped,) = catalog.dropped_tables.list().items
    assert _files(directory)
    catalog.dropped_tables.purge(dropped.id)
    assert not directory.exists()
    assert list(catalog.dropped_tables.list().items) == []
    for action in (
        lambda: catalog.dropped_tables.purge(dropped.id),
        lambda: catalog.dropped_tables.restore(dropped.id),
    ):
        with pytest.raises(NotFound) as error:
            action()
        assert error.value.resource_type is ResourceType.TABLE


def test_a_clock_that_jumps_purges_nothing_too_early(
    catalog: Catalog, behind: SqlCatalog, table: Identifier, directory: Path, clock: Clock
) -> None:
    catalog.tables.drop(table)
    clock.set_wrong(days=30)
    assert behind.operation.sweep().purged == 0
    clock.turn(seconds=3)
    clock.set_wrong()
    assert behind.operation.sweep().purged == 0
    assert _files(directory)
    # One that stays ahead keeps nothing for ever, either.
    clock.set_wrong(days=30)
    clock.turn(days=7, seconds=-4)
    assert behind.operation.sweep().purged == 0
    clock.turn(seconds=1)
    assert behind.operation.sweep().purged == 1
    assert not directory.exists()


def test_a_clock_that_is_set_back_purges_nothing_too_early(
    catalog: Catalog, behind: SqlCatalog, table: Identifier, directory: Path, clock: Clock
) -> None:
    catalog.tables.drop(table)
    clock.turn(days=7, seconds=1)
    clock.set_wrong(days=-1)
    assert behind.operation.sweep().purged == 0
    assert _files(directory)
    clock.set_wrong()
    assert behind.operation.sweep().purged == 1
    assert not directory.exists()


def test_a_sweep_purges_what_is_old_enough(
    catalog: Catalog, behind: SqlCatalog, table: Identifier, orders_schema: Schema, clock: Clock
) -> None:
    other = Identifier(table.database, "other")
    catalog.tables.create(other, orders_schema)
    paths = [Path(catalog.tables.get(name).path.removeprefix("file://")) for name in (table, other)]
    catalog.tables.drop(table)
    clock.turn(days=1)
    catalog.tables.drop(other)
    clock.turn(days=6, milliseconds=-1)
    assert behind.operation.sweep().purged == 0
    clock.turn(milliseconds=1)
    assert behind.operation.sweep().purged == 1
    assert [info.identifier for info in catalog.dropped_tables.list().items] == [other]
    assert [path.exists() for path in paths] == [False, True]
    clock.turn(days=1)
    assert behind.operation.sweep().purged == 1
    assert [path.exists() for path in paths] == [False, False]


def test_dropped_tables_are_listed_in_pages(catalog: Catalog, orders_schema: Schema) -> None:
    names = []
    for database in ("b/x".replace("/", "-"), "a b"):
        catalog.databases.create(database)
        for name in ("t+1", "t%2", "t"):
            for _ in range(2):  # called the same, and dropped twice
                identifier = Identifier(database, name)
                catalog.tables.create(identifier, orders_schema)
                catalog.tables.drop(identifier)
                names.append(str(identifier))
    listed: list[str] = []
    ids: set[str] = set()
    token = None
    while True:
        page = catalog.dropped_tables.list(max_results=5, page_token=token)
        assert len(page.items) <= 5
        listed += [str(info.identifier) for info in page.items]
        ids |= {info.id for info in page.items}
        token = page.next_token
        if token is None:
            break
    assert listed == sorted(names)
    assert len(ids) == len(names)
    only = catalog.dropped_tables.list(database="a b").items
    assert {info.identifier.database for info in only} == {"a b"}
    assert len(only) == 6


def test_no_name_leads_to_a_dropped_table(catalog: Catalog, table: Identifier) -> None:
    table_id = catalog.tables.get(table).id
    catalog.tables.drop(table)
    for database in ("$dropped", "dropped", "main/dropped"):
        with pytest.raises(NotFound):
            catalog.tables.get(Identifier(database, table_id))
        with pytest.raises(NotFound):
            catalog.databases.get(database)
    with pytest.raises(NotFound):
        catalog.tables.get_by_id(table_id)
    assert list(catalog.tables.list_globally().items) == []


def test_a_drop_that_keeps_nothing_is_for_good(
    behind: SqlCatalog, table: Identifier, migrated_url: str, tmp_path: Path
) -> None:
    at_once = SqlCatalog.open(migrated_url, warehouse="main", location=str(tmp_path / "lake"))
    path = Path(at_once.tables.get(table).path.removeprefix("file://"))
    at_once.tables.drop(table)
    at_once.close()
    assert not path.exists()
    assert list(behind.dropped_tables.list().items) == []


def test_a_commit_that_lost_to_a_drop_is_not_lost_by_its_undoing(
    behind: SqlCatalog, table: Identifier, snapshot: MakeSnapshot
) -> None:
    first, second = snapshot(1), snapshot(2)
    assert behind.snapshots.commit(table, None, first, None, []).decided()
    table_id = behind.tables.get(table).id
    behind.tables.drop(table)
    with pytest.raises(NotFound):
        behind.snapshots.commit(table, table_id, second, first.uuid, []).decided()
    behind.dropped_tables.restore(table_id)
    latest = behind.snapshots.latest(table)
    assert latest is not None
    assert latest.snapshot == first
    assert behind.snapshots.commit(table, table_id, second, first.uuid, []).decided()


def test_a_handle_works_again_when_its_table_is_restored(
    catalog: Catalog, table: Identifier
) -> None:
    lake = Lake(catalog)
    handle = lake.table(str(table))
    rows = {"order_id": [1], "dt": ["2026-01-01"], "amount": [5]}
    handle.write(rows)
    lake.drop_table(handle.name)
    other = lake.create_table(handle.name, handle.schema.to_schema())
    with pytest.raises(NotFound, match="was dropped, and there is another of its name now"):
        handle.write(rows)
    lake.drop_table(other.name)
    with pytest.raises(NotFound, match=f"table {table} does not exist"):
        handle.refresh()
    catalog.dropped_tables.restore(handle.info.id)
    handle.write({**rows, "order_id": [2]})
    assert sorted(handle.refresh().scan().to_arrow()["order_id"].to_pylist()) == [1, 2]
    assert lake.table(handle.name, table_id=handle.info.id).info == handle.info
    with pytest.raises(NotFound, match="was dropped, and there is another"):
        lake.table(handle.name, table_id=other.info.id)
