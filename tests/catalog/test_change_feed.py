"""The change feed: nothing is skipped, nothing comes twice, and tables' events are in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection
from sqlalchemy.event import listen, remove
from tests.catalog.databases import DATABASES

from headwater.catalog.model.events import Event, EventFilter, EventType
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import acting_as
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.events.feed import EventFeed
from headwater.catalog.sql.events.sink_position import Lease, SinkPosition
from headwater.catalog.sql.history.commit import Offer
from headwater.catalog.sql.queries.lookup import TableRecord
from headwater.storage.errors import Conflict, Invalid, NotFound
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot

MakeSnapshot = Callable[..., Snapshot]
TABLES = tuple(Identifier("sales", f"t{number}") for number in range(4))
ROUNDS = 12


@pytest.fixture
def catalog(migrated_url: str, tmp_path: Path, orders_schema: Schema) -> Iterator[SqlCatalog]:
    opened = SqlCatalog.open(migrated_url, warehouse="main", location=str(tmp_path / "lake"))
    opened.databases.create("sales")
    for table in TABLES:
        opened.tables.create(table, orders_schema)
    yield opened
    opened.close()


@pytest.fixture
def feed(catalog: SqlCatalog) -> EventFeed:
    return EventFeed(catalog.operation.database)


def _all(feed: EventFeed, after: int = 0) -> list[Event]:
    found: list[Event] = []
    while True:
        page = feed.read(after=after, limit=7)
        found += page.events
        if page.is_end:
            return found
        assert page.next_after > after
        after = page.next_after


def _commit(catalog: SqlCatalog, table: Identifier, snapshot: Snapshot, base: str | None) -> None:
    assert catalog.snapshots.commit(table, None, snapshot, base, ()).decided()


@pytest.mark.parametrize("migrated_url", DATABASES[1:], indirect=True)
def test_an_event_that_is_committed_late_is_not_skipped(
    catalog: SqlCatalog, feed: EventFeed, snapshot: MakeSnapshot
) -> None:
    slow, fast = TABLES[:2]
    is_inside, may_end = threading.Event(), threading.Event()

    def also(connection: Connection, record: TableRecord) -> None:
        # The event's row is there, with its id, and nobody else can see it.
        is_inside.set()
        assert may_end.wait(60)

    offer = Offer(slow, None, snapshot(1), None, ())
    with ThreadPoolExecutor(1) as pool:
        try:
            late = pool.submit(catalog.snapshots.commits.commit, offer, also)
            assert is_inside.wait(60)
            _commit(catalog, fast, snapshot(1), None)
            before = _all(feed)
        finally:
            may_end.set()
        assert late.result().decided()
    assert (before[-1].type, before[-1].subject.name) == (EventType.COMMIT_TABLE, fast.name)
    (event,) = _all(feed, after=before[-1].offset)
    assert (event.subject.name, event.details["snapshot"]) == (slow.name, 1)
    assert _all(feed) == [*before, event]


def test_who_follows_gets_each_commit_once_and_a_table_s_in_their_order(
    catalog: SqlCatalog, feed: EventFeed, snapshot: MakeSnapshot
) -> None:
    start = _all(feed)[-1].offset
    are_done = threading.Event()
    made = {table: [snapshot(n) for n in range(1, ROUNDS + 1)] for table in TABLES}

    def write(table: Identifier) -> None:
        base = None
        for each in made[table]:
            _commit(catalog, table, each, base)
            base = each.uuid

    def follow() -> list[Event]:
        found: list[Event] = []
        after, is_last = start, False
        while True:
            is_last = are_done.is_set()
            page = feed.read(after=after, limit=5)
            found += page.events
            after = page.next_after
            if is_last and page.is_end:
                return found

    with ThreadPoolExecutor(len(TABLES) + 2) as pool:
        followers = [pool.submit(follow) for _ in range(2)]
        try:
            for writer in [pool.submit(write, table) for table in TABLES]:
                writer.result()
        finally:
            are_done.set()
        first, second = (each.result() for each in followers)
    assert first == second
    assert [event.offset for event in first] == list(
        range(start + 1, start + 1 + ROUNDS * len(TABLES))
    )
    for table in TABLES:
        its = [event.details["snapshot"] for event in first if event.subject.name == table.name]
        assert its == list(range(1, ROUNDS + 1))


def test_a_page_is_not_the_end_when_another_reader_numbers_more_meanwhile(
    catalog: SqlCatalog, feed: EventFeed, snapshot: MakeSnapshot
) -> None:
    after = _all(feed)[-1].offset
    is_done = False

    def interfere(*arguments: object) -> None:
        nonlocal is_done
        if not is_done and "ORDER BY hw_events.position" in str(arguments[2]).replace("`", ""):
            is_done = True
            _commit(catalog, TABLES[0], snapshot(1), None)
            feed.number()

    engine = catalog.operation.database.engine
    listen(engine, "before_cursor_execute", interfere)
    try:
        page = feed.read(after=after)
    finally:
        remove(engine, "before_cursor_execute", interfere)
    assert is_done
    assert (page.events, page.next_after, page.is_end) == ((), after, False)
    page = feed.read(after=page.next_after)
    assert [each.details["snapshot"] for each in page.events] == [1]
    assert page.is_end


def test_what_is_rolled_back_leaves_no_event(
    catalog: SqlCatalog, feed: EventFeed, snapshot: MakeSnapshot
) -> None:
    before = _all(feed)

    def also(connection: Connection, record: TableRecord) -> None:
        raise Invalid("no")

    with pytest.raises(Invalid, match="no"):
        catalog.snapshots.commits.commit(Offer(TABLES[0], None, snapshot(1), None, ()), also)
    assert _all(feed) == before


def test_commits_of_one_transaction_have_their_own_authors(
    catalog: SqlCatalog, feed: EventFeed, snapshot: MakeSnapshot
) -> None:
    after = _all(feed)[-1].offset
    offers = []
    for table in TABLES:
        with acting_as(f"writer of {table.name}"):
            offers.append(Offer(table, None, snapshot(1), None, ()))
    # One of them twice: it is one commit.
    catalog.snapshots.commits.commit_each([*offers, offers[0]])
    found = {(event.subject.name, event.principal) for event in _all(feed, after)}
    assert found == {(table.name, f"writer of {table.name}") for table in TABLES}
    assert len(_all(feed, after)) == len(TABLES)


def test_conditions_narrow_what_is_read(
    catalog: SqlCatalog, feed: EventFeed, snapshot: MakeSnapshot
) -> None:
    with acting_as("ada"):
        _commit(catalog, TABLES[1], snapshot(1), None)
        catalog.tables.rename(TABLES[1], Identifier("sales", "other"))
    by_ada = feed.read(only=EventFilter(principal="ada")).events
    assert [event.type for event in by_ada] == [EventType.COMMIT_TABLE, EventType.RENAME_TABLE]
    table_id = by_ada[0].subject.id
    by_id = feed.read(only=EventFilter(object_id=table_id)).events
    assert [event.type for event in by_id] == [EventType.CREATE_TABLE, *(e.type for e in by_ada)]
    assert feed.read(only=EventFilter("sales", "t1")).events == by_id
    of_database = feed.read(only=EventFilter("sales")).events
    assert [event.type for event in of_database[:2]] == [
        EventType.CREATE_DATABASE,
        EventType.CREATE_TABLE,
    ]
    assert feed.read(only=EventFilter("none")).events == ()
    assert feed.read(only=EventFilter("none")).is_end
    assert feed.read(warehouse="none").events == ()
    with pytest.raises(Invalid, match="name its database"):
        EventFilter(table="t1")


def test_one_at_a_time_delivers_to_a_sink(catalog: SqlCatalog) -> None:
    database = catalog.operation.database
    owners = [SinkPosition(database, "file", str(number), 60_000) for number in range(4)]
    with ThreadPoolExecutor(len(owners)) as pool:
        leases = list(pool.map(SinkPosition.take, owners))
    ((owner, lease),) = [(o, each) for o, each in zip(owners, leases, strict=True) if each]
    assert owner.advance(lease, 3).position == 3
    assert owner.take() == Lease(3, lease.fence)
    (other, *_) = [each for each in owners if each is not owner]
    with pytest.raises(Conflict, match="another server delivers"):
        other.advance(lease, 4)
    owner.give_back(lease)
    taken = other.take()
    assert taken == Lease(3, lease.fence + 1)
    # The one before was paused, and comes back.
    for late in (lease, taken):
        with pytest.raises(Conflict):
            owner.advance(late, 2)
    owner.give_back(lease)
    assert owner.take() is None
    other.give_back(taken)
    assert owner.take() == Lease(3, lease.fence + 2)
    with pytest.raises(Conflict):
        owner.advance(lease, 2)
    # A lease that is over by every clock passes to another.
    gone = SinkPosition(database, "webhook", "gone", 0)
    assert gone.take() is not None
    assert SinkPosition(database, "webhook", "next", 60_000).take() == Lease(0, 2)


def test_what_is_expired_is_missed_by_nobody(
    catalog: SqlCatalog, feed: EventFeed, snapshot: MakeSnapshot
) -> None:
    events = _all(feed)
    last = events[-1].offset
    retention = 3_600_000
    assert feed.expire(events[0].at + retention, retention) == 0
    # A sink has not got the last two of them, which are kept for as long again.
    sink = SinkPosition(catalog.operation.database, "file", "somebody", 60_000)
    lease = sink.take()
    assert lease is not None
    sink.advance(lease, last - 2)
    for late in (retention + 1, retention + 2):
        feed.expire(events[-1].at + late, retention)
        assert _all(feed) == events[-2:]
    assert _all(feed, after=last - 2) == events[-2:]
    with pytest.raises(NotFound, match=f"go on after {last - 2}"):
        feed.read(after=1)
    assert feed.expire(events[-1].at + 2 * retention + 1, retention) == 2
    assert feed.read(after=last).is_end
    with pytest.raises(Invalid, match=f"the last one has {last}"):
        feed.read(after=last + 1)
    # Numbers go on, although the ids may begin anew.
    _commit(catalog, TABLES[0], snapshot(1), None)
    assert [event.offset for event in _all(feed)] == [last + 1]
    for wrong in (-1, 2**63):
        with pytest.raises(Invalid, match="not the offset"):
            feed.read(after=wrong)
    for wrong in (0, 1001):
        with pytest.raises(Invalid, match="a page holds"):
            feed.read(limit=wrong)
