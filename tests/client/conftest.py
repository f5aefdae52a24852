"""A catalog behind a real server, and a proxy that loses, delays or replaces answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests import plain_http
from tests.conftest import NewSqlite

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

ORDERS = Identifier("sales", "orders")


@pytest.fixture
def behind(tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[SqlCatalog]:
    """The catalog behind the server."""
    url = new_sqlite(tmp_path / "headwater.db")
    opened = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))
    yield opened
    opened.close()


@pytest.fixture
def address(behind: SqlCatalog, serve: Callable[..., str]) -> str:
    """The server's address."""
    return serve(behind)


@pytest.fixture
def orders(behind: SqlCatalog) -> Identifier:
    """An empty append table."""
    behind.databases.create(ORDERS.database)
    behind.tables.create(ORDERS, Schema((DataField(0, "id", AtomicType(Root.BIGINT)),)))
    return ORDERS


@dataclass
class Clock:
    """A runtime that does not wait, and remembers how long it should have.

    Attributes:
        slept: The seconds of each wait.
        alarms: What happens once somebody has waited for so many seconds in all.
    """

    slept: list[float] = field(default_factory=list)
    alarms: list[tuple[float, Callable[[], object]]] = field(default_factory=list)

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            SYSTEM_RUNTIME.now_millis,
            SYSTEM_RUNTIME.new_uuid,
            self._sleep,
            monotonic=lambda: sum(self.slept),
        )

    def after(self, seconds: float, happens: Callable[[], object]) -> None:
        """Something happens once so many more seconds have been waited for."""
        self.alarms.append((sum(self.slept) + seconds, happens))

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        now = sum(self.slept)
        due = [alarm for alarm in self.alarms if alarm[0] <= now]
        self.alarms = [alarm for alarm in self.alarms if alarm[0] > now]
        for _, happens in due:
            happens()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_snapshot() -> Callable[..., Snapshot]:
    """Makes a snapshot with a uuid of its own; keywords replace fields, None leaves one out."""

    def make(snapshot_id: int, **fields: object) -> Snapshot:
        name = SYSTEM_RUNTIME.new_uuid()
        document: dict[str, object] = {
            "version": 3,
            "uuid": name,
            "id": snapshot_id,
            "schemaId": 0,
            "baseManifestList": f"{name}-0",
            "deltaManifestList": f"{name}-1",
            "commitUser": "a-user",
            "commitIdentifier": snapshot_id,
            "commitKind": "APPEND",
            "timeMillis": 1_700_000_000_000,
            **fields,
        }
        return Snapshot.from_document({k: v for k, v in document.items() if v is not None})  # type: ignore[misc]

    return make


class Fault(Enum):
    """What a proxy does to a request."""

    LOSE_REQUEST = auto()
    """It never reaches the server."""
    LOSE_ANSWER = auto()
    """The server does it, and its answer is lost."""
    GO = auto()
    """It never reaches the server, and nobody is there from then on."""


@dataclass(frozen=True)
class Reply:
    """An answer of the proxy's own, given instead of the server's, or after it did the work."""

    status: int
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_done: bool = False


@dataclass
class Proxy:
    """Stands between a client and a server.

    Attributes:
        target: The server's address.
        url: Its own.
        faults: What to do to the next requests, by ``METHOD end-of-path``; the rest passes.
        seen: Every request: method, path with query, headers by name in lower case.
    """

    target: str
    url: str = ""
    faults: list[tuple[str, Fault | Reply | Callable[[], object]]] = field(default_factory=list)
    seen: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)
    stop: Callable[[], None] = lambda: None
    """Nobody listens at its address any more."""
    start: Callable[[], object] = lambda: None
    """It listens at its address again."""

    def lose_request(self, request: str) -> None:
        """The next request of this kind never reaches the server."""
        self.faults.append((request, Fault.LOSE_REQUEST))

    def lose_answer(self, request: str) -> None:
        """The server does the next request of this kind, and its answer is lost."""
        self.faults.append((request, Fault.LOSE_ANSWER))

    def go(self, request: str) -> None:
        """The next request of this kind never reaches the server, nor does any after it."""
        self.faults.append((request, Fault.GO))

    def reply(
        self,
        request: str,
        status: int,
        text: str = "",
        *,
        is_done: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """The next request of this kind is answered so; the server does it if `is_done`."""
        self.faults.append((request, Reply(status, text, headers or {}, is_done)))

    def meanwhile(self, request: str, happens: Callable[[], object]) -> None:
        """Something else happens before the server gets the next request of this kind."""
        self.faults.append((request, happens))

    def requests(self, method: str, ending: str) -> int:
        """How many requests there were with this method and end of their path."""
        return sum(
            each == method and path.partition("?")[0].endswith(ending)
            for each, path, _ in self.seen
        )

    def next_fault(self, method: str, path: str) -> Fault | Reply | Callable[[], object] | None:
        """The fault for a request, taken from the list."""
        for at, (wanted, fault) in enumerate(self.faults):
            expected, _, ending = wanted.partition(" ")
            if expected == method and path.partition("?")[0].endswith(ending):
                del self.faults[at]
                return fault
        return None


@pytest.fixture
def proxy(address: str) -> Iterator[Proxy]:
    """A proxy before the server."""
    with open_proxy(address) as proxy:
        yield proxy


@contextmanager
def open_proxy(address: str) -> Iterator[Proxy]:
    """Run a proxy before the server at an address."""
    proxy = Proxy(address)

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            proxy.seen.append((self.command, self.path, headers))
            fault = proxy.next_fault(self.command, self.path)
            self.close_connection = True
            if fault is Fault.GO:
                proxy.stop()
            if fault in (Fault.LOSE_REQUEST, Fault.GO):
                return
            if isinstance(fault, Reply) and not fault.is_done:
                self._answer(fault.status, fault.text, fault.headers)
                return
            if callable(fault):
                fault()  # something else happens meanwhile
            answer = plain_http.request(
                self.command,
                proxy.target + self.path,
                content=body,
                headers={k: v for k, v in headers.items() if k != "host"},
            )
            if fault is Fault.LOSE_ANSWER:
                return
            if isinstance(fault, Reply):
                self._answer(fault.status, fault.text, fault.headers)
                return
            kept = ("content-type", "x-request-id", "x-headwater-error", "retry-after")
            back = {k: v for k, v in answer.headers.items() if k in kept}
            self._answer(answer.status_code, answer.text, back)

        def _answer(self, status: int, text: str, headers: Mapping[str, str]) -> None:
            content = text.encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

        do_GET = do_POST = do_DELETE = _handle

    with ExitStack() as stack:
        servers: list[ThreadingHTTPServer] = []

        def start(port: int) -> int:
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", port), Handler))
            servers.append(server)
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return int(server.server_address[1])

        def stop() -> None:
            servers[-1].shutdown()
            servers[-1].socket.close()

        port = start(0)
        proxy.url = f"http://127.0.0.1:{port}"
        proxy.stop, proxy.start = stop, lambda: start(port)
        yield proxy
