"""Many commit to one table at the same time: none is lost, none doubled, ids are dense."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.catalog.databases import POSTGRESQL_IN_MODES
from tests.catalog.worker import commit_many

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.migrations import current, newest, upgrade
from headwater.storage.errors import AlreadyExists, NotFound
from headwater.storage.schema.change import AddColumn
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.data_type import parse_type

COMMITTERS = 8
COMMITS = 6
ROOT = Path(__file__).parents[2]


@pytest.fixture
def open_catalog(
    migrated_url: str, tmp_path: Path, orders: Identifier, orders_schema: Schema
) -> Iterator[Callable[[], SqlCatalog]]:
    with ExitStack() as stack:

        def open_one() -> SqlCatalog:
            catalog = SqlCatalog.open(
                migrated_url, warehouse="main", location=str(tmp_path / "lake")
            )
            stack.callback(catalog.close)
            return catalog

        catalog = open_one()
        catalog.databases.create(orders.database)
        catalog.tables.create(orders, orders_schema)
        yield open_one


def _check_history(catalog: SqlCatalog, table: Identifier, users: list[str]) -> None:
    history = list(catalog.snapshots.list(table).items)[::-1]
    assert [item.id for item in history] == list(range(1, len(users) * COMMITS + 1))
    made = Counter((item.commit_user, item.commit_identifier) for item in history)
    assert made == Counter((user, number) for user in users for number in range(COMMITS))
    directory = Path(catalog.tables.get(table).path.removeprefix("file://"), "snapshot")
    for item in history:
        on_disk = json.loads((directory / f"snapshot-{item.id}").read_text())
        assert on_disk == item.document
    assert (directory / "LATEST").read_text() == str(len(history))


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_threads_of_one_catalog(open_catalog: Callable[[], SqlCatalog], orders: Identifier) -> None:
    catalog = open_catalog()
    users = [f"user-{number}" for number in range(COMMITTERS)]
    with ThreadPoolExecutor(COMMITTERS) as pool:
        for done in [pool.submit(commit_many, catalog, user, COMMITS) for user in users]:
            done.result()
    _check_history(catalog, orders, users)


@pytest.mark.modes
@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_processes_on_one_database(
    open_catalog: Callable[[], SqlCatalog], migrated_url: str, tmp_path: Path, orders: Identifier
) -> None:
    users = [f"user-{number}" for number in range(COMMITTERS)]
    command = [sys.executable, "-m", "tests.catalog.worker", migrated_url, str(tmp_path / "lake")]
    ended = subprocess.run(
        [*command, str(COMMITS), *users], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert ended.returncode == 0, ended.stderr
    _check_history(open_catalog(), orders, users)


def test_of_many_on_the_same_base_one_wins(
    open_catalog: Callable[[], SqlCatalog], orders: Identifier, snapshot: Callable[..., Snapshot]
) -> None:
    catalogs = [open_catalog(), open_catalog()]
    base: str | None = None
    for number in range(1, 6):
        offered = [snapshot(number) for _ in range(COMMITTERS)]
        start = threading.Barrier(COMMITTERS)

        def offer(
            at: int,
            offered: list[Snapshot] = offered,
            start: threading.Barrier = start,
            base: str | None = base,
        ) -> bool:
            start.wait()
            catalog = catalogs[at % len(catalogs)]
            return catalog.snapshots.commit(orders, None, offered[at], base, []).decided()

        with ThreadPoolExecutor(COMMITTERS) as pool:
            won = list(pool.map(offer, range(COMMITTERS)))
        assert won.count(True) == 1
        latest = catalogs[0].snapshots.latest(orders)
        assert latest is not None
        assert latest.snapshot == offered[won.index(True)]
        base = latest.snapshot.uuid


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_one_of_many_creations_wins(
    open_catalog: Callable[[], SqlCatalog], orders_schema: Schema
) -> None:
    catalog = open_catalog()
    table = Identifier("sales", "new")
    start = threading.Barrier(COMMITTERS)

    def create(_: int) -> bool:
        start.wait()
        try:
            catalog.tables.create(table, orders_schema)
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(COMMITTERS) as pool:
        assert list(pool.map(create, range(COMMITTERS))).count(True) == 1
    directory = Path(catalog.tables.get(table).path.removeprefix("file://"))
    assert [p.name for p in directory.rglob("*") if p.is_file()] == ["schema-0"]


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_changes_of_many_all_arrive(
    open_catalog: Callable[[], SqlCatalog], orders: Identifier
) -> None:
    catalogs = [open_catalog(), open_catalog()]
    names = [f"column_{number}" for number in range(COMMITTERS)]

    def add(at: int) -> None:
        change = AddColumn((names[at],), parse_type("INT"))
        catalogs[at % len(catalogs)].tables.alter(orders, [change])

    with ThreadPoolExecutor(COMMITTERS) as pool:
        list(pool.map(add, range(COMMITTERS)))
    schema = catalogs[0].tables.get(orders).schema
    assert schema.id == COMMITTERS
    assert {column.name for column in schema.fields} == {"order_id", "dt", "amount", *names}
    assert len({column.id for column in schema.fields}) == len(schema.fields)


def test_a_database_is_dropped_while_tables_are_made(
    open_catalog: Callable[[], SqlCatalog], orders_schema: Schema, tmp_path: Path
) -> None:
    catalogs = [open_catalog(), open_catalog()]
    for _ in range(3):
        catalogs[0].databases.create("brief")
        start = threading.Barrier(COMMITTERS + 1)

        def create(at: int, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                catalogs[at % 2].tables.create(Identifier("brief", f"t{at}"), orders_schema)
            except NotFound:
                return

        with ThreadPoolExecutor(COMMITTERS) as pool:
            created = [pool.submit(create, at) for at in range(COMMITTERS)]
            start.wait()
            catalogs[1].databases.drop("brief")
            for done in created:
                done.result()
        assert "brief" not in catalogs[0].databases.list().items
    left = [path for path in (tmp_path / "lake" / "brief.db").rglob("*") if path.is_file()]
    assert left == []


def test_many_upgrade_one_database(database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(upgrade, [database_url] * 4)) == {newest()}
    assert current(database_url) == newest()
