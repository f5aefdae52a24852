"""Requests that take too long: each is answered, what they hold is no others', nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count

import httpx
import pytest
from anyio import CancelScope, create_task_group, to_thread
from starlette.types import Message, Receive, Scope, Send
from tests import plain_http
from tests.server.test_metrics import counts

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.server.access.operations import OPERATIONS
from headwater.server.dependencies import Services
from headwater.server.metrics import Metrics
from headwater.server.readiness import Readiness
from headwater.server.request_bound import (
    _READS,
    LateRequests,
    RequestBound,
    Start,
    starting,
)
from headwater.server.settings import load_settings
from headwater.server.thread_shares import ThreadShares
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema

Serve = Callable[..., str]
Snapshot = Callable[..., dict[str, object]]

ORDERS = Identifier("sales", "orders")
TABLE = "/v1/main/databases/sales/tables/orders"
# The threads that requests about one warehouse have.
THREADS = 20


@dataclass
class Storage:
    """Storage that does not answer while it hangs."""

    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    answers: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """Storage that hangs where snapshots are written, until it is told to answer."""
    storage = Storage()
    write_if_absent = LocalFileAccess.write_if_absent

    def write(self: LocalFileAccess, path: str, data: bytes) -> bool:
        if "/snapshot/" in path and not storage.answers.is_set():
            storage.waiting.release()
            assert storage.answers.wait(120)
        return write_if_absent(self, path, data)

    monkeypatch.setattr(LocalFileAccess, "write_if_absent", write)
    yield storage
    storage.answers.set()


@pytest.fixture
def client(
    catalog: SqlCatalog, serve: Serve, storage: Storage, schema: dict[str, object]
) -> Iterator[httpx.Client]:
    """A client of a server with an empty table, whose requests may take 300 ms."""
    catalog.databases.create("sales")
    catalog.tables.create(ORDERS, Schema.from_json(schema))  # type: ignore[arg-type]
    address = serve(catalog, request_timeout="300 ms")
    limits = httpx.Limits(max_connections=None)
    with plain_http.Client(base_url=address, timeout=120, limits=limits) as client:
        yield client
        storage.answers.set()


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.02)
    pytest.fail("it did not come")


def _commit(client: httpx.Client, snapshot: Snapshot, way: str = "") -> httpx.Response:
    """The answer to a commit that was begun."""
    body: dict[str, object] = {
        "tableId": None,
        "baseSnapshotUuid": None,
        "snapshot": snapshot(1),
        "statistics": [],
    }
    while True:
        answer = client.post(f"{TABLE}/commit{way}", json=body)
        # A machine that is very busy may not even come to it.
        if answer.status_code != 503:
            assert answer.json() != {"success": False}
            return answer


def _count(client: httpx.Client, name: str, *labels: str) -> float:
    return counts(str(client.base_url)).get((name, *labels), 0)


@pytest.mark.parametrize("way", ["", "?way=ordinary"])
def test_an_open_commit_is_unknown_and_never_a_conflict(
    client: httpx.Client, catalog: SqlCatalog, storage: Storage, snapshot: Snapshot, way: str
) -> None:
    for _ in range(2):
        late = _commit(client, snapshot, way)
        assert (late.status_code, late.json()["code"]) == (500, 500)
        assert late.headers["x-headwater-error"] == "OutcomeUnknown"
        assert "HEADWATER_REQUEST_TIMEOUT" in late.json()["message"]
    # A reader would have to wait for it, too: nothing is lost if it asks again.
    look = client.get(f"{TABLE}/snapshot?way=ordinary")
    assert (look.status_code, look.headers["retry-after"]) == (503, "1")
    assert client.get("/healthz").status_code == 200
    storage.answers.set()
    _until(lambda: _commit(client, snapshot, way).json() == {"success": True})
    assert [each.id for each in catalog.snapshots.list(ORDERS).items] == [1]
    _until(lambda: client.get(f"{TABLE}/snapshot").status_code == 200)


def test_storage_that_hangs_takes_the_threads_and_nothing_else(
    client: httpx.Client, catalog: SqlCatalog, storage: Storage, snapshot: Snapshot
) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            # One waits for storage, and the others for its transaction.
            sent = [pool.submit(_commit, client, snapshot, "?way=o") for _ in range(THREADS)]
            assert {each.result(timeout=120).status_code for each in sent} == {500}
            assert storage.waiting.acquire(timeout=120)
            _see_that_the_rest_works(client)
        finally:
            storage.answers.set()
    _until(lambda: client.get("/v1/main/databases").status_code == 200)
    assert client.get("/v1/main/databases").json()["databases"] == ["sales"]
    _until(lambda: _commit(client, snapshot).json() == {"success": True})
    assert [each.id for each in catalog.snapshots.list(ORDERS).items] == [1]


def _see_that_the_rest_works(client: httpx.Client) -> None:
    for _ in range(3 * THREADS):
        refused = client.post("/v1/main/databases", json={"name": "never"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "all threads of this server for warehouse 'main' are h" in refused.json()["message"]
        assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    # What needs no thread is answered, and the counts say what goes on.
    _until(lambda: client.get(TABLE).json().get("name") == "orders")
    assert _count(client, "headwater_http_requests_in_progress") == 1
    path = "/v1/{prefix}/databases/{database}/tables/{table}/commit"
    assert _count(client, "headwater_http_requests_total", "POST", path, "500") == THREADS


def test_what_was_given_up_never_begins() -> None:
    start = Start()
    assert start.give_up()
    assert not start.begin()
    assert start.give_up()
    begun = Start()
    assert begun.begin()
    assert not begun.give_up()
    # It is offered again the ordinary way.
    assert begun.begin()


def test_reads_have_operations_of_these_names() -> None:
    assert OPERATIONS.keys() >= _READS


@dataclass
class Exchange:
    """A request without a server, and what is answered to it."""

    parts: list[bytes]
    seconds: float
    answers: list[Message] = field(default_factory=list)

    async def receive(self) -> Message:
        await asyncio.sleep(self.seconds)
        body = self.parts.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(self.parts)}

    async def send(self, message: Message) -> None:
        self.answers.append(message)

    @property
    def status(self) -> int:
        return int(self.answers[0]["status"])

    def run(self, app: Callable[[Scope, Receive, Send], object]) -> list[int]:
        bound = RequestBound(app, seconds=0.05, late=LateRequests())  # type: ignore[arg-type]
        asyncio.run(bound(_post(), self.receive, self.send))
        return [each["status"] for each in self.answers if "status" in each]


def test_who_waits_for_a_thread_is_given_up() -> None:
    gate, begun = threading.Event(), list[int]()

    @starting
    def endpoint(number: int) -> None:
        begun.append(number)
        assert gate.wait(120)

    async def scenario() -> Sequence[Exchange]:
        services = Services(
            {}, load_settings({"warehouse_threads": 1}), Metrics(), Readiness({}, SYSTEM_RUNTIME)
        )
        late, numbers = LateRequests(), count()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await to_thread.run_sync(endpoint, next(numbers))
            await _ok(send)

        bound = RequestBound(
            ThreadShares(app, services=services, late=late), seconds=0.05, late=late
        )
        exchanges = [Exchange([b""], seconds=0) for _ in range(3)]
        async with create_task_group() as tasks:
            for each in exchanges[:2]:
                tasks.start_soon(bound, _post(), each.receive, each.send)
            while not all(each.answers for each in exchanges[:2]):
                await asyncio.sleep(0.001)
            await bound(_post(), exchanges[2].receive, exchanges[2].send)
            gate.set()
        return exchanges

    exchanges = asyncio.run(scenario())
    while begun != [0]:
        # On a machine that is very busy the first, too, may have waited for its thread too long.
        assert exchanges[0].status == 503
        gate.clear()
        begun.clear()
        exchanges = asyncio.run(scenario())
    assert [each.status for each in exchanges] == [500, 503, 503]
    assert b"nothing was done" in exchanges[1].answers[1]["body"]
    assert b"all threads" in exchanges[2].answers[1]["body"]


def _post() -> Scope:
    return {"type": "http", "method": "POST", "path": "/v1", "state": {}}


async def _ok(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def test_the_time_that_a_client_takes_to_send_does_not_count() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        await _ok(send)

    assert Exchange([b"a", b"b", b"c"], seconds=0.1).run(app) == [200]


def test_an_answer_that_has_begun_goes_on() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(0.2)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    exchange = Exchange([b""], seconds=0)
    assert exchange.run(app) == [200]
    assert [each["type"] for each in exchange.answers][1:] == ["http.response.body"]


def test_an_error_that_comes_too_late_is_no_second_answer() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            with CancelScope(shield=True):
                await _ok(send)
            raise RuntimeError("too late")

    exchange = Exchange([b""], seconds=0)
    with pytest.raises(RuntimeError):
        exchange.run(app)
    assert [each["status"] for each in exchange.answers if "status" in each] == [503]
    assert [each["type"] for each in exchange.answers] == [
        "http.response.start",
        "http.response.body",
    ]
