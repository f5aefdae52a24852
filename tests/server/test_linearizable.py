"""Many clients of several servers on one database: what they were answered fits one order.

Each client notes when it asked, when it was answered, and what. A history is linearizable when
every operation can be given one moment between its question and its answer so that a plain list
of snapshots, used by one client at a time, would have answered the same. An operation without an
answer may have happened at any moment after its question, or never.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import IO

import httpx
import pytest
from tests import plain_http
from tests.conftest import NewSqlite
from tests.ports import free_port
from tests.processes import ServerProcess

# One of the processes that share the tests starts what servers are forked off.
pytestmark = pytest.mark.xdist_group("processes")

REPLICAS = 2
CLIENTS = 9
NEVER = float("inf")
# What is asked for how often, in a hundred.
CHANCES = {"read": 30, "commit": 40, "lost": 8, "again": 10, "stale": 6, "rollback": 6}

History = tuple[str, ...]


@dataclass(frozen=True)
class Commit:
    """A snapshot offered on top of another; `base` is None for the first."""

    number: int
    uuid: str
    base: str | None

    def apply(self, history: History) -> tuple[History, object]:
        """The history after it, and the answer: whether it was taken."""
        latest = history[-1] if history else None
        if len(history) == self.number - 1 and latest == self.base:
            return (*history, self.uuid), True
        is_replay = len(history) >= self.number and history[self.number - 1] == self.uuid
        return history, is_replay


@dataclass(frozen=True)
class Read:
    """The latest snapshot asked for."""

    def apply(self, history: History) -> tuple[History, object]:
        """The history as it is, and the answer: the latest snapshot's number and uuid."""
        return history, (len(history), history[-1]) if history else None


@dataclass(frozen=True)
class Rollback:
    """Back to a snapshot, if the latest still is another."""

    number: int
    latest: int

    def apply(self, history: History) -> tuple[History, object]:
        """The history after it, and the answer: whether it was done."""
        if len(history) != self.latest:
            return history, False
        return history[: self.number], True


@dataclass(frozen=True)
class Answered:
    """An operation, when it was asked for, when answered (NEVER for not), and the answer."""

    operation: Commit | Read | Rollback
    asked: float
    answered: float = NEVER
    answer: object = None


def linearization(events: Sequence[Answered]) -> History | None:
    """The history after all operations in an order that explains the answers; None without one."""
    order = sorted(events, key=lambda event: event.asked)
    seen: set[tuple[int, History]] = set()
    # Which operations have had their moment, as bits; and the history then.
    stack: list[tuple[int, History]] = [(0, ())]
    while stack:
        done, history = stack.pop()
        if (done, history) in seen:
            continue
        seen.add((done, history))
        open_events = [(at, event) for at, event in enumerate(order) if not done >> at & 1]
        deadline = min((event.answered for _, event in open_events), default=NEVER)
        if deadline == NEVER:
            return history
        for at, event in open_events:
            if event.asked > deadline:
                break
            following, answer = event.operation.apply(history)
            if event.answered == NEVER:
                if following != history:
                    stack.append((done | 1 << at, following))
            elif answer == event.answer:
                stack.append((done | 1 << at, following))
    return None


class Replicas:
    """Server processes on one database, each at a port of its own that it keeps."""

    def __init__(self, url: str, location: Path) -> None:
        self._settings = {"database_url": url, "warehouses": {"main": str(location)}}
        self._ports = [free_port() for _ in range(REPLICAS)]
        self._processes: list[ServerProcess | None] = [None] * REPLICAS
        self.addresses = [f"http://127.0.0.1:{port}" for port in self._ports]

    def start(self, at: int) -> None:
        process = ServerProcess({**self._settings, "port": self._ports[at]})
        self._processes[at] = process
        for line in process.stderr:
            if self.addresses[at] in line:
                break
        # Somebody must read on, or the pipe fills; what went wrong inside a server is shown.
        Thread(target=_show_exceptions, args=(process.stderr,)).start()

    def end(self, at: int, how: signal.Signals = signal.SIGTERM) -> None:
        process = self._processes[at]
        if process is not None:
            process.send_signal(how)
            process.wait()
            self._processes[at] = None


def _show_exceptions(log: IO[str]) -> None:
    with log:
        for line in log:
            if '"exception"' in line:
                print(json.loads(line)["exception"])


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.modes]),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ],
)
def replicas(
    request: pytest.FixtureRequest, tmp_path: Path, new_sqlite: NewSqlite
) -> Iterator[Replicas]:
    """Two servers on one database."""
    if request.param == "sqlite":
        url = new_sqlite(tmp_path / "headwater.db")
    else:
        url = request.getfixturevalue(f"{request.param}_catalog")
    started = Replicas(url, tmp_path / "lake")
    with ExitStack() as stack:
        for at in range(REPLICAS):
            stack.callback(started.end, at)
            started.start(at)
        yield started


class Client:
    """Asks for random things and notes what it was answered.

    Args:
        seed: Which random things.
        addresses: The servers'; each request goes to any.
        path: The table's path.
    """

    def __init__(self, seed: int, addresses: Sequence[str], path: str) -> None:
        self._random = random.Random(seed)
        self._path = path
        self._addresses = addresses
        self._http = plain_http.Client(timeout=60)
        self._latest: tuple[int, str] | None = None
        self._offers: list[Commit] = []
        self.events: list[Answered] = []

    def run(self, count: int, stop: Event | None = None) -> list[Answered]:
        with self._http:
            for _ in range(count):
                if stop is not None and stop.is_set():
                    break
                self._step()
        return self.events

    def _step(self) -> None:
        what = self._random.choices(list(CHANCES), list(CHANCES.values()))[0]
        address = self._random.choice(self._addresses)
        if what == "again" and self._offers:
            self._commit(address, self._random.choice(self._offers[-3:]))
        elif what == "rollback" and self._latest is not None:
            number = self._latest[0]
            target = self._random.randint(max(1, number - 2), number)
            self._roll_back(address, Rollback(target, number))
        elif what in ("commit", "lost", "stale"):
            if what != "lost" or self._latest is None:
                self._read(address)
            number, base = self._latest or (0, None)
            if what == "stale":
                # The next number, on top of something else than what is there.
                base = self._random.choice([offer.uuid for offer in self._offers] or [None])
            offer = Commit(number + 1, str(uuid.UUID(int=self._random.getrandbits(128))), base)
            self._offers.append(offer)
            if what == "lost":
                self._lose(address, offer)
            else:
                self._commit(address, offer)
        else:
            self._read(address)

    def _read(self, address: str) -> None:
        asked = time.monotonic()
        try:
            answer = self._http.get(f"{address}{self._path}/snapshot")
        except httpx.TransportError:
            return  # a read without an answer says nothing
        answered = time.monotonic()
        if answer.status_code == 404:
            assert answer.json()["resourceType"] == "SNAPSHOT"
            self._latest = None
        elif answer.status_code == 503:
            return
        else:
            assert answer.status_code == 200, answer.text
            found = answer.json()["snapshot"]["snapshot"]
            self._latest = (found["id"], found["uuid"])
        self.events.append(Answered(Read(), asked, answered, self._latest))

    def _commit(self, address: str, offer: Commit) -> None:
        asked = time.monotonic()
        try:
            answer = self._http.post(f"{address}{self._path}/commit", content=_body(offer))
        except httpx.TransportError:
            self.events.append(Answered(offer, asked))
            return
        if answer.status_code >= 500:
            self.events.append(Answered(offer, asked))
            return
        assert answer.status_code == 200, answer.text
        taken = answer.json()["success"]
        self.events.append(Answered(offer, asked, time.monotonic(), taken))
        if taken:
            self._latest = (offer.number, offer.uuid)

    def _lose(self, address: str, offer: Commit) -> None:
        """Send a commit and hang up before the answer."""
        host, port = address.removeprefix("http://").split(":")
        body = _body(offer)
        head = f"POST {self._path}/commit HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}"
        self.events.append(Answered(offer, time.monotonic()))
        try:
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(head.encode() + b"\r\n\r\n" + body)
        except OSError:
            return

    def _roll_back(self, address: str, operation: Rollback) -> None:
        body = {
            "instant": {"type": "snapshot", "snapshotId": operation.number},
            "fromSnapshot": operation.latest,
        }
        asked = time.monotonic()
        try:
            answer = self._http.post(f"{address}{self._path}/rollback", json=body)
        except httpx.TransportError:
            self.events.append(Answered(operation, asked))
            return
        if answer.status_code >= 500:
            self.events.append(Answered(operation, asked))
            return
        # 404 when the target is gone as well, by a rollback that came first.
        assert answer.status_code in (200, 404, 409), answer.text
        done = answer.status_code == 200
        self.events.append(Answered(operation, asked, time.monotonic(), done))


def _body(offer: Commit) -> bytes:
    snapshot = {
        "version": 3,
        "uuid": offer.uuid,
        "id": offer.number,
        "schemaId": 0,
        "baseManifestList": f"{offer.uuid}-0",
        "deltaManifestList": f"{offer.uuid}-1",
        "commitUser": "a-user",
        "commitIdentifier": offer.number,
        "commitKind": "APPEND",
        "timeMillis": 1_700_000_000_000,
        "totalRecordCount": offer.number,
    }
    partition = {"spec": {"dt": "a"}, "recordCount": 1, "fileSizeInBytes": 1, "fileCount": 1}
    body = {"baseSnapshotUuid": offer.base, "snapshot": snapshot, "statistics": [partition]}
    return json.dumps(body).encode()


def _create_tables(address: str) -> list[str]:
    """The paths of two tables and of a branch of the first."""
    databases = f"{address}/v1/main/databases"
    fields = [{"id": 0, "name": "dt", "type": "STRING NOT NULL"}]
    schema = {"fields": fields, "partitionKeys": ["dt"], "primaryKeys": [], "options": {}}
    with plain_http.Client(timeout=60) as http:
        http.post(databases, json={"name": "sales"}).raise_for_status()
        for name in ("one", "two"):
            body = {"identifier": {"database": "sales", "object": name}, "schema": schema}
            http.post(f"{databases}/sales/tables", json=body).raise_for_status()
        branches = f"{databases}/sales/tables/one/branches"
        http.post(branches, json={"branch": "b"}).raise_for_status()
    return [f"/v1/main/databases/sales/tables/{name}" for name in ("one", "two", "one%24branch_b")]


def _check_end(addresses: Sequence[str], path: str, tmp_path: Path, expected: History) -> None:
    """Every server, and storage, tell the history that the order of the answers ends with."""
    for address in addresses:
        told: list[str] = []
        token = ""
        while True:
            asked = f"{address}{path}/snapshots?pageToken={token}"
            page = plain_http.get(asked).raise_for_status().json()
            told += [snapshot["uuid"] for snapshot in page["snapshots"]]
            token = page.get("nextPageToken")
            if not token:
                break
        assert tuple(told[::-1]) == expected
        info = plain_http.get(f"{address}{path}/snapshot")
        if expected:
            # The sizes were added up once for each commit, and taken back with each rollback.
            assert info.json()["snapshot"]["recordCount"] == len(expected)
    table, _, branch = path.rpartition("/")[2].partition("%24branch_")
    directory = tmp_path / "lake" / "sales.db" / table
    directory = (directory / "branch" / f"branch-{branch}" if branch else directory) / "snapshot"
    on_disk = {
        int(file.name.removeprefix("snapshot-")): json.loads(file.read_text())["uuid"]
        for file in directory.glob("snapshot-*")
    }
    assert on_disk == dict(enumerate(expected, 1))
    if expected:
        assert (directory / "LATEST").read_text() == str(len(expected))


def _finished(address: str, path: str) -> Answered:
    """A read after all else, which also pins what became of commits without an answer."""
    asked = time.monotonic()
    answer = plain_http.get(f"{address}{path}/snapshot")
    found = None if answer.status_code == 404 else answer.json()["snapshot"]["snapshot"]
    latest = None if found is None else (found["id"], found["uuid"])
    return Answered(Read(), asked, time.monotonic(), latest)


def _judge(
    replicas: Replicas, paths: Sequence[str], events: Sequence[list[Answered]], tmp_path: Path
) -> None:
    for at, path in enumerate(paths):
        mine = [event for part in events[at :: len(paths)] for event in part]
        mine.append(_finished(replicas.addresses[0], path))
        end = linearization(mine)
        assert end is not None, f"no order explains what {path} answered"
        _check_end(replicas.addresses, path, tmp_path, end)
        answered = Counter(type(e.operation) for e in mine if e.answered != NEVER)
        assert answered[Commit] > 0


def test_what_two_servers_answer_fits_one_order(replicas: Replicas, tmp_path: Path) -> None:
    paths = _create_tables(replicas.addresses[0])
    clients = [
        Client(seed, replicas.addresses, paths[seed % len(paths)]) for seed in range(CLIENTS)
    ]
    with ThreadPoolExecutor(CLIENTS) as pool:
        events = list(pool.map(lambda client: client.run(15), clients))
    _wait_until_idle(replicas)
    _judge(replicas, paths, events, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_servers_are_killed_meanwhile(replicas: Replicas, tmp_path: Path, seed: int) -> None:
    paths = _create_tables(replicas.addresses[0])
    clients = [
        Client(1000 * seed + number, replicas.addresses, paths[number % len(paths)])
        for number in range(CLIENTS)
    ]
    stop = Event()
    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(client.run, 400, stop) for client in clients]
        for turn in range(4):
            replicas.end(turn % REPLICAS, signal.SIGKILL)
            replicas.start(turn % REPLICAS)
        stop.set()
        events = [turn.result() for turn in running]
    _wait_until_idle(replicas)
    _judge(replicas, paths, events, tmp_path)


def _wait_until_idle(replicas: Replicas) -> None:
    """Commits whose clients hung up may still be under way: a server that ends finishes them."""
    for at in range(REPLICAS):
        replicas.end(at)
        replicas.start(at)


def _event(
    operation: Commit | Read | Rollback, asked: float, answered: float, answer: object
) -> Answered:
    return Answered(operation, asked, answered, answer)


FIRST, SECOND = Commit(1, "a", None), Commit(2, "b", "a")


@pytest.mark.parametrize(
    ("events", "end"),
    [
        pytest.param(
            [_event(FIRST, 0, 1, True), _event(Read(), 2, 3, (1, "a"))], ("a",), id="in order"
        ),
        pytest.param(
            [_event(FIRST, 0, 1, True), _event(Read(), 2, 3, None)], None, id="a stale read"
        ),
        pytest.param(
            [_event(FIRST, 0, 3, True), _event(Read(), 1, 2, None)], ("a",), id="read meanwhile"
        ),
        pytest.param(
            [_event(FIRST, 0, 1, True), _event(Commit(1, "x", None), 0, 1, True)],
            None,
            id="two winners",
        ),
        pytest.param(
            [_event(FIRST, 0, 1, False), _event(Read(), 2, 3, None)], None, id="refused for nothing"
        ),
        pytest.param(
            [Answered(FIRST, 0), _event(Read(), 2, 3, None), _event(Read(), 4, 5, (1, "a"))],
            ("a",),
            id="a lost answer takes effect late",
        ),
        pytest.param([Answered(FIRST, 0), _event(Read(), 2, 3, None)], (), id="or never"),
        pytest.param(
            [Answered(FIRST, 0), _event(FIRST, 1, 2, True), _event(SECOND, 3, 4, True)],
            ("a", "b"),
            id="a replay",
        ),
        pytest.param(
            [
                _event(FIRST, 0, 1, True),
                _event(SECOND, 2, 3, True),
                _event(Rollback(1, 2), 4, 5, True),
                _event(Read(), 6, 7, (2, "b")),
            ],
            None,
            id="a rollback undone",
        ),
        pytest.param(
            [
                _event(FIRST, 0, 1, True),
                _event(Read(), 2, 3, (1, "a")),
                _event(Read(), 4, 5, None),
            ],
            None,
            id="a lost commit",
        ),
    ],
)
def test_the_judge_knows_right_from_wrong(events: list[Answered], end: History | None) -> None:
    assert linearization(events) == end
