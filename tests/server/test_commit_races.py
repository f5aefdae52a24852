"""Commits through real server processes: many at once, and with the server killed meanwhile."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from tests import plain_http
from tests.catalog.databases import POSTGRESQL_IN_MODES
from tests.conftest import NewSqlite
from tests.forks import Forks
from tests.ports import free_port
from tests.processes import serving

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.table import Table
from headwater.client import Lake, RestCatalog, connect
from headwater.storage.commit.fate import commit_snapshot
from headwater.storage.errors import Conflict
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime
from headwater.storage.snapshot.snapshot import Snapshot

TABLE = Identifier("sales", "orders")
SCHEMA = pa.schema([("id", pa.int64()), ("by", pa.string())])
DATABASE_SERVERS = [
    pytest.param("postgresql", marks=pytest.mark.postgresql),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
    pytest.param("mysql", marks=pytest.mark.mysql),
]
COMMITTERS = 8
COMMITS = 5
MOST_STEPS = 40


def _server(url: str, location: Path) -> AbstractContextManager[str]:
    """A server process; its address."""
    return serving({"port": 0, "database_url": url, "warehouses": {"main": str(location)}})


def _check_agreement(catalog: Catalog) -> list[Snapshot]:
    """That database and files tell the same history, without gaps; the snapshots."""
    directory = Path(catalog.tables.get(TABLE).path.removeprefix("file://"), "snapshot")
    history: list[Snapshot] = []
    token: str | None = None
    while True:
        page = catalog.snapshots.list(TABLE, page_token=token)
        history.extend(page.items)
        token = page.next_token
        if token is None:
            break
    history.reverse()
    assert [item.id for item in history] == list(range(1, len(history) + 1))
    on_disk = {
        path.name: json.loads(path.read_text())
        for path in directory.glob("snapshot-*")
        if path.name.removeprefix("snapshot-").isdigit()
    }
    assert on_disk == {f"snapshot-{item.id}": item.document for item in history}
    latest = catalog.snapshots.latest(TABLE)
    assert latest is not None
    assert latest.snapshot == history[-1]
    assert (directory / "LATEST").read_text() == str(len(history))
    return history


def _write_rows(address: str, committer: int) -> int:
    """Write some rows, one commit each; how many conflicts were met on the way."""
    conflicts = 0
    with connect(address) as lake:
        table = lake.table(str(TABLE))
        for number in range(COMMITS):
            row = {"id": [committer * COMMITS + number], "by": [f"committer {committer}"]}
            while True:
                try:
                    table.write(pa.table(row, schema=SCHEMA))
                    break
                except Conflict:  # it says for certain that nothing was written
                    conflicts += 1
    return conflicts


def _race(addresses: list[str]) -> None:
    with connect(addresses[0]) as lake:
        lake.create_database(TABLE.database)
        lake.create_table(str(TABLE), SCHEMA)
    with ThreadPoolExecutor(COMMITTERS) as pool:
        turns = [
            pool.submit(_write_rows, addresses[committer % len(addresses)], committer)
            for committer in range(COMMITTERS)
        ]
        for turn in turns:
            turn.result()
    for address in addresses:
        with connect(address) as lake:
            history = _check_agreement(lake.catalog)
            assert len(history) == COMMITTERS * COMMITS
            assert len({item.uuid for item in history}) == len(history)
            read = lake.table(str(TABLE)).scan().to_arrow()
            assert sorted(read["id"].to_pylist()) == list(range(COMMITTERS * COMMITS))
            assert history[-1].total_record_count == COMMITTERS * COMMITS


@pytest.mark.modes
@pytest.mark.parametrize("kind", DATABASE_SERVERS)
def test_eight_committers_through_two_servers_on_one_database(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    url: str = request.getfixturevalue(f"{kind}_catalog")
    with ExitStack() as servers:
        _race([servers.enter_context(_server(url, tmp_path / "lake")) for _ in range(2)])


@pytest.mark.modes
def test_eight_committers_through_one_server_on_sqlite(tmp_path: Path) -> None:
    with _server(f"sqlite:///{tmp_path}/headwater.db", tmp_path / "lake") as address:
        _race([address])


class MortalServer:
    """A server process that dies when told, and lives again when somebody waits for it.

    A client that meets a dead server waits before it tries again: `runtime` uses the wait to start
    the server anew, so that no test sleeps.
    """

    def __init__(self, forks: Forks, url: str, folder: Path) -> None:
        self._forks = forks
        self._place = (url, str(folder / "lake"))
        self._trigger = folder / "trigger"
        self.deaths = 0
        self.on_revival: Callable[[], None] | None = None
        self._port = free_port()
        self.address = f"http://127.0.0.1:{self._port}"
        self.runtime: Runtime = replace(SYSTEM_RUNTIME, sleep=self._wait)

    def start(self) -> None:
        self._forks.start(*self._place, str(self._port), str(self._trigger))
        assert self._forks.line() == "ready"

    def die_at(self, step: int) -> None:
        """Arm it: the step, counted from now, at which it dies."""
        fresh = self._trigger.with_suffix(".new")
        fresh.write_text(str(step))
        fresh.rename(self._trigger)

    def disarm(self) -> bool:
        """Whether it died since it was armed; it lives again in any case."""
        if self._trigger.exists() and not self._answers():
            # The client needed no second answer: the table's files told it.
            self._wait(0)
        died = not self._trigger.exists()
        self._trigger.unlink(missing_ok=True)
        return died

    def _answers(self) -> bool:
        try:
            return plain_http.get(f"{self.address}/healthz").is_success
        except httpx.TransportError:
            return False

    def _wait(self, seconds: float) -> None:
        if not self._trigger.exists():
            SYSTEM_RUNTIME.sleep(seconds)  # an ordinary wait, between two rivals
            return
        assert self._forks.ended() == -signal.SIGKILL
        self._trigger.unlink()
        self.deaths += 1
        self.start()
        revival, self.on_revival = self.on_revival, None
        if revival is not None:
            revival()


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    """Where the servers die."""
    made = Forks("tests.server.crashing_server")
    yield made
    made.close()


@pytest.fixture(params=["sqlite", *DATABASE_SERVERS])
def server(
    request: pytest.FixtureRequest, tmp_path: Path, forks: Forks, new_sqlite: NewSqlite
) -> Iterator[MortalServer]:
    """A mortal server with an empty table."""
    if request.param == "sqlite":
        url = new_sqlite(tmp_path / "headwater.db")
    else:
        url = request.getfixturevalue(f"{request.param}_catalog")
    mortal = MortalServer(forks, url, tmp_path)
    mortal.start()
    with _client(mortal) as lake:
        lake.create_database(TABLE.database)
        lake.create_table(str(TABLE), SCHEMA)
    yield mortal
    forks.kill()


def _client(server: MortalServer) -> Lake:
    return Lake(RestCatalog(server.address, runtime=server.runtime), server.runtime)


@pytest.mark.modes
@pytest.mark.parametrize("server", POSTGRESQL_IN_MODES, indirect=True)
def test_a_write_outlives_a_server_killed_at_any_step(server: MortalServer) -> None:
    """The client's own retry makes each write happen exactly once."""
    with _client(server) as lake:
        table = lake.table(str(TABLE))
        for step in range(1, MOST_STEPS):
            server.die_at(step)
            table.write(pa.table({"id": [step], "by": ["me"]}, schema=SCHEMA))
            history = _check_agreement(lake.catalog)
            assert len(history) == step
            read = lake.table(str(TABLE)).scan().to_arrow()
            assert sorted(read["id"].to_pylist()) == list(range(1, step + 1))
            if not server.disarm():
                break
        else:
            pytest.fail("a commit has more steps than were tried")
    assert server.deaths == step - 1
    assert server.deaths >= 6


def _snapshot(base: Snapshot | None, user: str) -> Snapshot:
    name = SYSTEM_RUNTIME.new_uuid()
    return Snapshot.from_document(
        {
            "version": 3,
            "uuid": name,
            "id": 1 if base is None else base.id + 1,
            "schemaId": 0,
            "baseManifestList": f"{name}-0",
            "deltaManifestList": f"{name}-1",
            "commitUser": user,
            "commitIdentifier": 1,
            "commitKind": "APPEND",
            "timeMillis": SYSTEM_RUNTIME.now_millis(),
        }
    )


def _commit(table: Table, snapshot: Snapshot, base: Snapshot | None) -> bool:
    return commit_snapshot(table.storage, table.pointer, snapshot, base, [])


@pytest.mark.modes
@pytest.mark.parametrize("server", POSTGRESQL_IN_MODES, indirect=True)
def test_an_answer_after_a_kill_is_true_even_with_a_rival(server: MortalServer) -> None:
    """Whoever commits while the server is down: True means in the history, False means not."""
    answers: list[bool] = []
    base: Snapshot | None = None
    with _client(server) as mine, _client(server) as other:
        my_table, other_table = mine.table(str(TABLE)), other.table(str(TABLE))
        for step in range(1, MOST_STEPS):
            offered, rival = _snapshot(base, "me"), _snapshot(base, "rival")
            rivals: list[bool] = []

            def overtake(
                rival: Snapshot = rival,
                base: Snapshot | None = base,
                rivals: list[bool] = rivals,
            ) -> None:
                rivals.append(_commit(other_table, rival, base))

            server.on_revival = overtake
            server.die_at(step)
            answer = _commit(my_table, offered, base)
            died = server.disarm()
            history = _check_agreement(mine.catalog)
            assert len(history) == step
            base = history[-1]
            assert answer is (base == offered)
            assert rivals == ([base == rival] if died else [])
            if not died:
                break
            answers.append(answer)
        else:
            pytest.fail("a commit has more steps than were tried")
    assert answers[0] is False, "killed before the decision, the rival wins"
    assert answers[-1] is True, "killed after the decision, the rival loses"
    # The decision is one point: before it the rival wins, after it never.
    assert answers == sorted(answers)
