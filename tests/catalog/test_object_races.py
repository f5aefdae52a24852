"""Many make, change, rename and drop views and grants at the same time, through two replicas."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Engine, event, text
from tests.catalog.databases import POSTGRESQL_IN_MODES

from headwater.catalog.labels import Entity, EntityType, Label
from headwater.catalog.model.events import EventType
from headwater.catalog.model.functions import AddDefinition, FunctionSpec, SqlDefinition
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.labels import MOST_LABELS
from headwater.catalog.model.named_objects import create_or_replace
from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.model.views import AddDialect, ViewSchema
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.engine import open_engine
from headwater.catalog.sql.events.feed import EventFeed
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, ResourceType
from headwater.storage.schema.table_schema import Schema

T = TypeVar("T")

MANY = 8
VIEW = Identifier("sales", "recent")


@pytest.fixture
def replicas(migrated_url: str, tmp_path: Path) -> Iterator[list[SqlCatalog]]:
    with ExitStack() as stack:
        opened: list[SqlCatalog] = []
        for _ in range(2):
            catalog = SqlCatalog.open(
                migrated_url, warehouse="main", location=str(tmp_path / "lake")
            )
            stack.callback(catalog.close)
            opened.append(catalog)
        opened[0].databases.create("sales")
        yield opened


def _at_once(work: Callable[[int], T], many: int = MANY) -> list[T]:
    """Run it in many threads, which begin together."""
    start = threading.Barrier(many)

    def begin(at: int) -> T:
        start.wait()
        return work(at)

    with ThreadPoolExecutor(many) as pool:
        return list(pool.map(begin, range(many)))


def test_one_of_many_creations_wins(replicas: list[SqlCatalog]) -> None:
    def create(at: int) -> bool:
        try:
            replicas[at % 2].views.create(VIEW, ViewSchema((), f"SELECT {at}"))
        except AlreadyExists:
            return False
        return True

    won = _at_once(create)
    assert won.count(True) == 1
    assert replicas[0].views.get(VIEW).schema.query == f"SELECT {won.index(True)}"


def test_changes_of_many_all_arrive(replicas: list[SqlCatalog]) -> None:
    area = Identifier("sales", "area")
    replicas[0].views.create(VIEW, ViewSchema((), "SELECT 0"))
    replicas[0].functions.create(area, FunctionSpec())

    def change(at: int) -> None:
        replicas[at % 2].views.alter(VIEW, [AddDialect(f"engine{at}", f"SELECT {at}")])
        definition = SqlDefinition(str(at))
        replicas[at % 2].functions.alter(area, [AddDefinition(f"engine{at}", definition)])

    _at_once(change)
    names = {f"engine{at}" for at in range(MANY)}
    assert set(replicas[0].views.get(VIEW).schema.dialects) == names
    assert set(replicas[0].functions.get(area).spec.definitions) == names


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_readers_find_a_view_while_many_replace_it(replicas: list[SqlCatalog]) -> None:
    views = [catalog.views for catalog in replicas]
    done = threading.Event()

    def replace_or_read(at: int) -> set[str]:
        if at % 2:
            for round_ in range(10):
                content = ViewSchema((), f"SELECT {at}", {"spark": f"SELECT {round_}"})
                create_or_replace(views[at // 2 % 2], ResourceType.VIEW, VIEW, content)
            done.set()
            return set()
        found = set()
        while not done.is_set():
            found.add(views[at // 2 % 2].get(VIEW).id)
        return found

    # They begin without it, as `CREATE OR REPLACE` does not ask.
    _at_once(
        lambda at: create_or_replace(
            views[at % 2], ResourceType.VIEW, VIEW, ViewSchema((), f"SELECT {at}")
        )
    )
    before = views[0].get(VIEW)
    seen = set().union(*_at_once(replace_or_read))
    assert seen <= {before.id} == {views[1].get(VIEW).id}
    feed = EventFeed(replicas[0].operation.database).read(limit=1000)
    counts = Counter(event.type for event in feed.events if event.subject.name == VIEW.name)
    assert counts == {EventType.CREATE_VIEW: 1, EventType.REPLACE_VIEW: MANY - 1 + MANY // 2 * 10}


def test_a_view_gets_one_of_many_names(replicas: list[SqlCatalog]) -> None:
    replicas[0].views.create(VIEW, ViewSchema((), "SELECT 0"))

    def rename(at: int) -> bool:
        try:
            replicas[at % 2].views.rename(VIEW, Identifier("sales", f"view{at}"))
        except NotFound:
            return False
        return True

    won = _at_once(rename)
    assert won.count(True) == 1
    assert list(replicas[0].views.list("sales").items) == [f"view{won.index(True)}"]


def test_a_name_is_given_to_one_of_many_views(replicas: list[SqlCatalog]) -> None:
    for at in range(MANY):
        replicas[0].views.create(Identifier("sales", f"view{at}"), ViewSchema((), f"SELECT {at}"))

    def rename(at: int) -> bool:
        try:
            replicas[at % 2].views.rename(Identifier("sales", f"view{at}"), VIEW)
        except AlreadyExists:
            return False
        return True

    won = _at_once(rename)
    assert won.count(True) == 1
    assert replicas[0].views.get(VIEW).schema.query == f"SELECT {won.index(True)}"
    assert len(replicas[0].views.list("sales").items) == MANY


def test_a_database_is_dropped_while_views_are_made(
    replicas: list[SqlCatalog], migrated_url: str
) -> None:
    for _ in range(3):
        replicas[0].databases.create("brief")

        def work(at: int) -> None:
            if at == 0:
                replicas[1].databases.drop("brief")
                return
            view = Identifier("brief", f"view{at}")
            target = PermissionTarget(TargetType.VIEW, "brief", view=view.name)
            try:
                replicas[at % 2].views.create(view, ViewSchema((), "SELECT 1"))
                replicas[at % 2].permissions.grant(Grant(target, Access.SELECT, "ada"))
            except NotFound:
                return

        _at_once(work)
        assert list(replicas[0].databases.list().items) == ["sales"]
    assert _rows(migrated_url, "hw_views") == _rows(migrated_url, "hw_grants") == 0


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_table_is_dropped_while_grants_are_made(
    replicas: list[SqlCatalog], migrated_url: str, orders_schema: Schema
) -> None:
    target = PermissionTarget(TargetType.TABLE, "sales", "brief")
    for _ in range(3):
        replicas[0].tables.create(Identifier("sales", "brief"), orders_schema)

        def work(at: int) -> None:
            if at == 0:
                replicas[1].tables.drop(Identifier("sales", "brief"))
                return
            try:
                replicas[at % 2].permissions.grant(Grant(target, Access.SELECT, f"user{at}"))
            except NotFound:
                return

        _at_once(work)
    assert _rows(migrated_url, "hw_grants") == 0


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_grant_that_has_begun_ends_before_its_table_goes(
    replicas: list[SqlCatalog], migrated_url: str, orders_schema: Schema
) -> None:
    table = Identifier("sales", "brief")
    target = PermissionTarget(TargetType.TABLE, "sales", "brief")
    replicas[0].tables.create(table, orders_schema)
    dropping: list[Future[None]] = []
    with ThreadPoolExecutor(1) as pool:

        def drop_meanwhile(_: Any, __: Any, statement: str, *___: Any) -> None:
            if statement.startswith("INSERT INTO hw_grants"):
                dropping.append(pool.submit(replicas[1].tables.drop, table))
                # Time enough to end, for a drop that does not wait for the grant.
                wait(dropping, timeout=0.5)

        event.listen(Engine, "before_cursor_execute", drop_meanwhile)
        try:
            replicas[0].permissions.grant(Grant(target, Access.SELECT, "ada"))
        finally:
            event.remove(Engine, "before_cursor_execute", drop_meanwhile)
        (dropped,) = dropping
        dropped.result()
    assert _rows(migrated_url, "hw_grants") == 0


def test_a_grant_on_a_name_that_another_thing_gets_meanwhile_is_given_to_neither(
    replicas: list[SqlCatalog], migrated_url: str, orders_schema: Schema
) -> None:
    table, later = Identifier("sales", "brief"), Identifier("sales", "later")
    target = PermissionTarget(TargetType.TABLE, "sales", "brief")
    replicas[0].tables.create(table, orders_schema)
    renaming: list[Future[None]] = []
    has_begun = threading.Event()
    is_sqlite = migrated_url.startswith("sqlite")

    def rename() -> None:
        replicas[1].tables.rename(table, later)
        replicas[1].tables.create(table, orders_schema)

    with ThreadPoolExecutor(1) as pool:

        def rename_meanwhile(_: Any, __: Any, statement: str, *___: Any) -> None:
            # The statement that locks the row whose name has been looked up.
            locks = statement.startswith("SELECT hw_tables.id") and "hw_tables.id = " in statement
            if locks and not has_begun.is_set():
                has_begun.set()
                renaming.append(pool.submit(rename))
                # On SQLite, which has one writer, it waits for the grant; else it ends before.
                wait(renaming, timeout=0.5 if is_sqlite else 120)

        event.listen(Engine, "before_cursor_execute", rename_meanwhile)
        try:
            replicas[0].permissions.grant(Grant(target, Access.SELECT, "ada"))
            is_granted = True
        except NotFound:
            is_granted = False
        finally:
            event.remove(Engine, "before_cursor_execute", rename_meanwhile)
        renaming[0].result()
    # Where the rename waits, the grant stays with the table that it is for.
    assert is_granted is is_sqlite
    assert _rows(migrated_url, "hw_grants") == is_granted


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_labels_of_many_are_all_kept_up_to_their_number_and_go_with_the_table(
    replicas: list[SqlCatalog], migrated_url: str, orders_schema: Schema
) -> None:
    table = Identifier("sales", "brief")
    entity = Entity(EntityType.TABLE, str(table))
    replicas[0].tables.create(table, orders_schema)
    for at in range(MOST_LABELS - MANY // 2):
        replicas[0].labels.set(entity, Label(f"old {at}", "v"))

    def label(at: int) -> bool:
        try:
            replicas[at % 2].labels.set(entity, Label(f"new {at}", "v"))
        except Invalid:
            return False
        return True

    assert _at_once(label).count(True) == MANY // 2
    assert len(replicas[0].labels.list(entity).items) == MOST_LABELS

    def label_or_drop(at: int) -> None:
        if at == 0:
            replicas[1].tables.drop(table)
            return
        try:
            replicas[at % 2].labels.unset(entity, f"old {at}")
            replicas[at % 2].labels.set(entity, Label(f"late {at}", "v"))
        except NotFound:
            return

    _at_once(label_or_drop)
    assert _rows(migrated_url, "hw_labels") == 0


def test_the_same_grant_by_many_is_one(replicas: list[SqlCatalog]) -> None:
    target = PermissionTarget(TargetType.DATABASE, "sales")
    # Far more than a grant that finds another in its way is tried again.
    ends = [4_102_444_800_000 + at for at in range(3 * MANY)]

    def grant(at: int) -> None:
        grant = Grant(target, Access.LIST, "ada", expires_at=ends[at])
        replicas[at % 2].permissions.grant(grant)

    _at_once(grant, len(ends))
    (found,) = replicas[0].permissions.list(target).items
    assert found.expires_at in ends


def _rows(url: str, table: str) -> int:
    engine = open_engine(url)
    with engine.connect() as connection:
        count = connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()
    engine.dispose()
    return int(count)
