"""Refused requests are events, and however many there are, the feed does not fill up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import plain_http
from tests.conftest import NewSqlite
from tests.processes import serving

from headwater.catalog.model.events import Event, EventType, ObjectKind, Outcome, Subject
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import Access, Grant, PermissionTarget, TargetType
from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.catalog.sql.events.counted_requests import CountedRequests
from headwater.catalog.sql.events.feed import EventFeed
from headwater.server.denials import MOST_CALLERS, MOST_THINGS, Denials
from headwater.server.request_counts import NotedRequest
from headwater.storage.errors import Unavailable
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema

ORDERS = Identifier("sales", "orders")
MOST_EVENTS_OF_A_TURN = 2 * (MOST_CALLERS * (MOST_THINGS + 5) + 5)


def _refused(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.type is EventType.REFUSED]


def test_who_is_refused_leaves_an_event(
    tmp_path: Path, new_sqlite: NewSqlite, serve: Callable[..., str]
) -> None:
    url = new_sqlite(tmp_path / "headwater.db")
    with (
        opened_database(url) as database,
        closing(SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))) as catalog,
    ):
        catalog.databases.create("sales")
        catalog.tables.create(ORDERS, Schema.from_arrow(pa.schema([("id", pa.int64())])))
        tokens, feed = Tokens(database, SYSTEM_RUNTIME), EventFeed(database)
        secrets = {
            name: tokens.create(name, scopes=[scope]).secret
            for name, scope in (("ada", Scope.WRITE), ("bob", Scope.READ), ("eve", Scope.WRITE))
        }
        seen = PermissionTarget(TargetType.TABLE, ORDERS.database, ORDERS.table)
        for name in ("ada", "bob"):
            catalog.permissions.grant(Grant(seen, Access.SELECT, name))
        denials = Denials(SYSTEM_RUNTIME)
        parts = {"find_token": tokens.find, "denials": denials, "feed": feed}
        address = serve(catalog, parts=parts, require_token=True)
        after = feed.read(limit=1000).next_after
        table = "/v1/main/databases/sales/tables/orders"
        with plain_http.Client(base_url=address) as client:

            def ask(method: str, path: str, who: str | None, times: int = 1) -> httpx.Response:
                headers = {} if who is None else {"authorization": f"Bearer {secrets[who]}"}
                for _ in range(times):
                    answer = client.request(method, path, headers=headers, json={"changes": []})
                return answer

            assert ask("GET", table, None, 3).status_code == 401
            first = ask("DELETE", table, "ada")
            assert first.status_code == 403
            ask("DELETE", table, "ada", 4)
            assert ask("POST", table, "bob").status_code == 403
            # Not seen, and so not there; in the fast lane and not.
            assert ask("GET", table, "eve").status_code == 404
            assert ask("POST", table, "eve").status_code == 404
            # No denials: what is not there for whoever could see it, and mistakes.
            assert ask("GET", table, "ada").status_code == 200
            assert ask("GET", "/v1/main/nothing", "ada").status_code == 404
            assert ask("POST", f"{table}/commit", "bob").status_code == 403
        denials.write(feed.record_requests)
        denials.write(feed.record_requests)
        events = feed.read(after=after).events
    told = {
        (event.principal, event.details["operation"], event.details["status"]): (
            event.subject,
            event.warehouse,
            event.details["count"],
        )
        for event in events
    }
    orders = Subject(ObjectKind.TABLE, "orders", database="sales")
    assert told == {
        (None, "none", 401): (Subject(ObjectKind.REQUEST, table), "", 3),
        ("ada", "dropTable", 403): (orders, "main", 5),
        ("bob", "alterTable", 403): (orders, "main", 1),
        ("bob", "commitTable", 403): (orders, "main", 1),
        ("eve", "getTable", 404): (orders, "main", 1),
        ("eve", "alterTable", 404): (orders, "main", 1),
    }
    assert {(event.type, event.outcome, event.address) for event in events} == {
        (EventType.REFUSED, Outcome.DENIED, "127.0.0.1")
    }
    (dropping,) = (event for event in events if event.details["operation"] == "dropTable")
    assert dropping.request_id == first.headers["x-request-id"]


_NAMES = st.integers(0, 40).map(str)
_REFUSED = st.builds(
    NotedRequest,
    st.none() | _NAMES,
    _NAMES,
    st.just("main"),
    st.builds(Subject, st.just(ObjectKind.TABLE), _NAMES),
    st.just("getTable"),
    st.sampled_from([401, 403, 404]),
)


@given(st.lists(_REFUSED, max_size=600))
def test_a_flood_leaves_few_events_that_count_it_all(flood: list[NotedRequest]) -> None:
    denials = Denials(SYSTEM_RUNTIME)
    for at, refused in enumerate(flood):
        denials.add(refused, f"request-{at}")

    def fail(refusals: Sequence[CountedRequests]) -> None:
        raise Unavailable("the database is away")

    if flood:
        with pytest.raises(Unavailable):
            denials.write(fail)
    written: list[CountedRequests] = []
    denials.write(written.extend)
    assert sum(each.count for each in written) == len(flood)
    assert len(written) <= MOST_EVENTS_OF_A_TURN
    # Whoever has a name is told of, whatever those do who have none.
    named = list(dict.fromkeys(each.principal for each in flood if each.principal is not None))
    assert {each.principal for each in written} - {None} == set(named[:MOST_CALLERS])
    for each in written:
        assert (each.origin is None) == (each.subject.kind is ObjectKind.REQUEST)
    denials.write(fail)  # nothing is left


def test_of_a_caller_few_things_are_told() -> None:
    denials = Denials(SYSTEM_RUNTIME)
    for number in range(50):
        subject = Subject(ObjectKind.TABLE, f"t{number}")
        refused = NotedRequest("ada", "10.0.0.1", "main", subject, "getTable", 403)
        denials.add(refused, f"request-{number}")
    written: list[CountedRequests] = []
    denials.write(written.extend)
    assert [each.count for each in written] == [1] * MOST_THINGS + [50 - MOST_THINGS]
    assert {each.principal for each in written} == {"ada"}
    assert written[-1].operation == "others"


@pytest.mark.xdist_group("processes")
def test_what_was_refused_before_the_end_is_recorded(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/headwater.db"
    settings = {
        "port": 0,
        "database_url": url,
        "warehouses": {"main": str(tmp_path / "lake")},
        "tokens": ["a-token"],
    }
    with serving(settings) as address:
        assert plain_http.get(f"{address}/v1/config").status_code == 401
    with opened_database(url) as database:
        (event,) = _refused(EventFeed(database).read(limit=1000).events)
    assert (event.outcome, event.details["count"]) == (Outcome.DENIED, 1)
    assert event.subject == Subject(ObjectKind.REQUEST, "/v1/config")
