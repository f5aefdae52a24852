"""Reads leave events if the settings say so: who read what, how often, and none is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from threading import Event

import httpx
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests import plain_http
from tests.processes import serving

from headwater.catalog.model.events import Event as FeedEvent
from headwater.catalog.model.events import EventType, ObjectKind, Outcome, Subject
from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.open_database import opened_database
from headwater.catalog.sql.events.counted_requests import CountedRequests
from headwater.catalog.sql.events.feed import EventFeed
from headwater.client.lake import Lake
from headwater.server import read_audit
from headwater.server.access.operations import OPERATIONS
from headwater.server.audited_reads import AuditedReads
from headwater.server.metrics import Metrics
from headwater.server.read_audit import ReadAudit
from headwater.server.request_counts import NotedRequest, recording
from headwater.server.settings import load_settings
from headwater.storage.errors import Invalid, Unavailable
from headwater.storage.runtime import SYSTEM_RUNTIME

TABLE = "/v1/main/databases/sales/tables/orders"


@pytest.fixture
def orders(catalog: SqlCatalog) -> str:
    """The id of a table ``sales.orders`` with some rows."""
    lake = Lake(catalog, catalog.runtime)
    lake.create_database("sales")
    options = {"query-auth.enabled": "true"}
    table = lake.create_table("sales.orders", pa.schema([("id", pa.int64())]), options=options)
    table.write({"id": [1, 2, 3]})
    return table.info.id


def _ask_everything(client: httpx.Client, table_id: str) -> None:
    """Read what there is, and do what is no read."""

    def ask(method: str, path: str, body: object = None, status: int = 200) -> None:
        answer = client.request(method, path, json=body)
        assert answer.status_code == status, (path, answer.text)

    for _ in range(3):
        ask("GET", TABLE)  # the fast lane's
    ask("GET", f"{TABLE}?a=b")  # the ordinary way
    ask("GET", f"/v1/main/tables/id/{table_id}")
    ask("GET", "/v1/main/databases/sales/table-details")
    ask("POST", f"{TABLE}/read", {"select": ["id"]})
    ask("POST", f"{TABLE}/auth", {"select": ["id"]})
    ask("GET", f"{TABLE}/token")
    # Neither a failure nor what only shows names is a read of data.
    ask("GET", "/v1/main/databases/sales/tables/nothing", status=404)
    ask("GET", "/v1/main/databases/sales/tables")
    ask("GET", f"{TABLE}/snapshot")


LOADED = {
    ("getTable", "sales.orders", 4),
    ("getTableById", "ID", 1),
    ("listTableDetails", "sales", 1),
}
GIVEN = {
    ("readTable", "sales.orders", 1),
    ("authTableQuery", "sales.orders", 1),
    ("getTableToken", "sales.orders", 1),
}


@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        (None, set()),
        pytest.param("none", set(), marks=pytest.mark.modes),
        pytest.param("data", GIVEN, marks=pytest.mark.modes),
        ("tables", GIVEN | LOADED),
    ],
)
def test_reads_leave_events_as_the_settings_say(
    catalog: SqlCatalog,
    orders: str,
    tmp_path: Path,
    reads: str | None,
    expected: set[tuple[str, str, int]],
) -> None:
    url = f"sqlite:///{tmp_path}/headwater.db"
    with opened_database(url) as database:
        secret = Tokens(database, SYSTEM_RUNTIME).create("ada", scopes=[Scope.ADMINISTER]).secret
        last = EventFeed(database).bounds().numbered
    chosen = {} if reads is None else {"audit_reads": reads}
    served = {
        "port": 0,
        "database_url": url,
        "warehouses": {"main": str(tmp_path / "lake")},
        "require_token": True,
        "data_token_seconds": 7200,
        **chosen,
    }
    headers = {"authorization": f"Bearer {secret}"}
    with (
        serving(served) as address,
        plain_http.Client(base_url=address, headers=headers) as client,
    ):
        _ask_everything(client, orders)
    with opened_database(url) as database:
        events = EventFeed(database).read(after=last, limit=1000).events
    assert {_told(event, orders) for event in events} == expected
    for event in events:
        assert (event.type, event.outcome) == (EventType.READ, Outcome.DONE)
        assert (event.principal, event.address) == ("ada", "127.0.0.1")
        assert event.warehouse == "main"
        assert event.request_id


def _told(event: FeedEvent, table_id: str) -> tuple[str, str, int]:
    operation, count = event.details["operation"], event.details["count"]
    assert isinstance(operation, str)
    assert isinstance(count, int)
    return operation, str(event.subject).replace(table_id, "ID"), count


def test_another_setting_is_refused() -> None:
    assert AuditedReads.TABLES.operations <= set(OPERATIONS)
    with pytest.raises(Invalid, match="audit_reads"):
        load_settings({"audit_reads": "some"})


_READS = st.builds(
    NotedRequest,
    st.none() | st.integers(0, 5).map(str),
    st.sampled_from(["10.0.0.1", "10.0.0.2"]),
    st.just("main"),
    st.builds(Subject, st.just(ObjectKind.TABLE), st.integers(0, 9).map(str)),
    st.sampled_from(sorted(AuditedReads.TABLES.operations)),
    st.just(200),
)


@settings(max_examples=50)
@given(st.lists(_READS, max_size=200), st.integers(1, 20))
def test_every_read_is_counted_whatever_fails(flood: list[NotedRequest], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_audit, "MOST_READS", most)
        reads = ReadAudit(SYSTEM_RUNTIME, AuditedReads.TABLES)

        def fail(requests: Sequence[CountedRequests]) -> None:
            raise Unavailable("the database is away")

        for at, read in enumerate(flood):
            reads.add(read, f"request-{at}")
            if at == len(flood) // 2:
                with pytest.raises(Unavailable):
                    reads.write(fail)
        written: list[CountedRequests] = []
        reads.write(written.extend)
    assert sum(each.count for each in written) == len(flood)
    # Callers are told of, even where what they read is added up.
    assert len(written) <= 2 * most + 1
    for each in written:
        if each.operation != "others":
            same = (each.principal, each.subject, each.operation)
            alike = [(read.principal, read.subject, read.operation) for read in flood]
            assert each.count <= alike.count(same)
    reads.write(fail)  # nothing is left


def test_events_that_could_not_be_written_are_counted_and_kept() -> None:
    reads, metrics = ReadAudit(SYSTEM_RUNTIME, AuditedReads.DATA), Metrics()
    written: list[CountedRequests] = []
    subject = Subject(ObjectKind.TABLE, "orders", database="sales")
    reads.add(NotedRequest("ada", "10.0.0.1", "main", subject, "readTable", 200), "first")
    attempts = count(1)
    is_written = Event()

    def record(requests: Sequence[CountedRequests]) -> None:
        if next(attempts) < 3:
            raise Unavailable("the database is away")
        written.extend(requests)
        is_written.set()

    with recording([reads], record, metrics.audit_failed, seconds=0.01):
        assert is_written.wait(60)
    (event,) = written
    assert (event.principal, event.count, event.subject) == ("ada", 1, subject)
    text = metrics.text().decode()
    samples = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "headwater_audit_failures_total"
    ]
    assert samples == [2]
