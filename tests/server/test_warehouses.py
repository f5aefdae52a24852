"""Warehouses that are managed while servers run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection, event, text
from tests.conftest import Serve

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.drivers import PoolSettings
from headwater.catalog.sql.database.engine import SqlDatabase, open_engine
from headwater.catalog.sql.database.open_database import opened_database
from headwater.client.rest import RestCatalog
from headwater.migrations import upgrade
from headwater.server.managed_catalogs import KEPT_MILLIS, ManagedCatalogs
from headwater.storage.errors import Invalid, NotFound, OutcomeUnknown
from headwater.storage.runtime import SYSTEM_RUNTIME

MANAGEMENT = "/management/v1/warehouses"


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.millis = 1_700_000_000_000

    def now_millis(self) -> int:
        return self.millis


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def servers(serve: Serve, tmp_path: Path, clock: Clock) -> Iterator[tuple[str, str]]:
    """Two servers of one database; they were started with a warehouse ``main``."""
    url = f"sqlite:///{tmp_path}/headwater.db"
    upgrade(url)
    runtime = SYSTEM_RUNTIME.__class__(
        clock.now_millis, SYSTEM_RUNTIME.new_uuid, SYSTEM_RUNTIME.sleep
    )
    with ExitStack() as stack:
        addresses = []
        for _ in range(2):
            database = stack.enter_context(opened_database(url, runtime))
            main = SqlCatalog.on(database, warehouse="main", location=str(tmp_path / "main"))
            managed = ManagedCatalogs(database, runtime)
            addresses.append(serve({"main": main}, parts={"managed": managed}))
        yield addresses[0], addresses[1]


@pytest.fixture
def http(servers: tuple[str, str]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=servers[0], trust_env=False) as client:
        yield client


def test_a_warehouse_is_served_by_every_server_at_once(
    http: httpx.Client, servers: tuple[str, str], tmp_path: Path
) -> None:
    with pytest.raises(NotFound), closing(RestCatalog(servers[1], warehouse="lake")) as early:
        early.connect()
    answer = http.post(MANAGEMENT, json={"name": "lake", "location": str(tmp_path / "lake")})
    assert answer.status_code == 200
    for address in servers:
        with closing(RestCatalog(address, warehouse="lake")) as catalog:
            catalog.databases.create("sales", ignore_if_exists=True)
            assert list(catalog.databases.list().items) == ["sales"]
    with closing(RestCatalog(servers[0], warehouse="main")) as other:
        assert list(other.databases.list().items) == []
    assert http.get(MANAGEMENT).json()["warehouses"] == [answer.json()]
    assert http.get(f"{MANAGEMENT}/lake").json() == answer.json()


def test_secrets_are_neither_returned_nor_logged(
    http: httpx.Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = {"s3.secret-key": "hunter2", "s3.region": "eu"}
    place = {"name": "lake", "location": str(tmp_path / "lake")}
    answers = [
        http.post(MANAGEMENT, json={**place, "options": secrets}),
        http.post(MANAGEMENT, json={**place, "options": secrets}),
        http.post(MANAGEMENT, json={**place, "options": {"s3.secret-key": ["hunter2"]}}),
        http.post(f"{MANAGEMENT}/lake", json={"updates": {"token": "hunter2"}}),
        http.get(f"{MANAGEMENT}/lake"),
        http.get(MANAGEMENT),
        http.get("/v1/config", params={"warehouse": "lake"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 409, 400, 200, 200, 200, 200]
    assert answers[4].json()["options"] == {
        "s3.region": "eu",
        "s3.secret-key": "***",
        "token": "***",
    }
    assert not any("hunter2" in answer.text for answer in answers)
    assert "hunter2" not in caplog.text


def test_a_change_reaches_the_other_server_within_seconds(
    http: httpx.Client, servers: tuple[str, str], tmp_path: Path, clock: Clock
) -> None:
    http.post(MANAGEMENT, json={"name": "lake", "location": str(tmp_path / "lake")})
    with closing(RestCatalog(servers[1], warehouse="lake")) as elsewhere:
        assert list(elsewhere.databases.list().items) == []
        assert http.delete(f"{MANAGEMENT}/lake").status_code == 200
        assert http.get("/v1/lake/databases").status_code == 400
        clock.millis += KEPT_MILLIS
        with pytest.raises(Invalid, match="'lake' is not served here, but 'main'"):
            elsewhere.databases.list()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "", {"name": "main", "location": "/x"}, 409),
        ("POST", "", {"name": "a b", "location": "/x"}, 400),
        ("POST", "", {"name": "a", "location": "ftp://x/y"}, 501),
        ("POST", "", {"name": "a"}, 400),
        ("GET", "/none", None, 404),
        ("POST", "/none", {"updates": {"a": "b"}}, 404),
        ("DELETE", "/none", None, 404),
        ("GET", "?maxResults=-1", None, 400),
    ],
)
def test_what_cannot_be_is_refused(
    http: httpx.Client, method: str, path: str, body: object, status: int
) -> None:
    answer = http.request(method, MANAGEMENT + path, json=body)
    assert answer.status_code == status
    assert answer.json()["code"] == status
    assert http.get(MANAGEMENT).json()["warehouses"] == []


def test_none_lies_in_one_that_the_server_was_started_with(
    http: httpx.Client, tmp_path: Path
) -> None:
    for place in (tmp_path / "main", tmp_path / "main" / "sales.db", tmp_path):
        answer = http.post(MANAGEMENT, json={"name": "lake", "location": str(place)})
        assert answer.status_code == 400
        assert "'main'" in answer.json()["message"]
    assert http.get(MANAGEMENT).json()["warehouses"] == []


def test_a_warehouse_in_use_stays(http: httpx.Client, tmp_path: Path) -> None:
    http.post(MANAGEMENT, json={"name": "lake", "location": str(tmp_path / "lake")})
    http.post("/v1/lake/databases", json={"name": "sales", "options": {}})
    answer = http.delete(f"{MANAGEMENT}/lake")
    assert (answer.status_code, "is not empty" in answer.json()["message"]) == (409, True)


def test_a_server_without_a_database_manages_none(serve: Serve, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/headwater.db"
    opened = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"), create=True)
    with closing(opened):
        assert httpx.get(serve(opened) + MANAGEMENT, trust_env=False).status_code == 501


@pytest.mark.postgresql
def test_with_all_connections_in_use_the_answer_is_503_and_when_to_retry(
    serve: Serve, new_postgresql_database: Callable[[], str], tmp_path: Path
) -> None:
    url = new_postgresql_database()
    upgrade(url)
    engine = open_engine(url, PoolSettings(connections=1, wait_seconds=0.05))
    database = SqlDatabase(engine, SYSTEM_RUNTIME)
    main = SqlCatalog.on(database, warehouse="main", location=str(tmp_path / "main"))
    address = serve(main)
    new = {"name": "sales", "options": {}}
    with httpx.Client(base_url=address, trust_env=False) as client:
        with database.read():
            for answer in (
                client.get("/v1/main/databases"),
                client.post("/v1/main/databases", json=new),
            ):
                assert answer.status_code == 503
                assert int(answer.headers["retry-after"]) > 0
                assert "connections" in answer.json()["message"]
        assert client.post("/v1/main/databases", json=new).status_code == 200
    database.close()


@pytest.mark.postgresql
def test_an_unknown_outcome_is_500_and_nobody_repeats_it(
    serve: Serve, new_postgresql_database: Callable[[], str], tmp_path: Path
) -> None:
    url = new_postgresql_database()
    upgrade(url)
    killer = open_engine(url)
    killed: list[int] = []

    def lose(connection: Connection) -> None:
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        with killer.connect() as other:
            other.execute(text(f"SELECT pg_terminate_backend({pid}, 5000)"))
        killed.append(pid)

    with opened_database(url) as database:
        main = SqlCatalog.on(database, warehouse="main", location=str(tmp_path / "main"))
        event.listen(database.engine, "commit", lose)
        with (
            closing(RestCatalog(serve(main), warehouse="main")) as catalog,
            pytest.raises(OutcomeUnknown, match="whether the change was made is not known"),
        ):
            catalog.databases.create("sales")
    killer.dispose()
    assert len(killed) == 1
