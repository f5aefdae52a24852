"""Warehouses that are managed while servers run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection, event, text
from tests import plain_http
from tests.conftest import NewSqlite, Serve

from headwater.catalog.model.principal import Scope
from headwater.catalog.model.tokens import TokenInfo, token_hash
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.database.drivers import PoolSettings
from headwater.catalog.sql.database.engine import SqlDatabase, open_engine
from headwater.catalog.sql.database.open_database import opened_database
from headwater.client.rest import RestCatalog
from headwater.migrations import upgrade
from headwater.server.managed_catalogs import KEPT_MILLIS, ManagedCatalogs
from headwater.storage.errors import Invalid, NotFound, OutcomeUnknown
from headwater.storage.runtime import SYSTEM_RUNTIME

MANAGEMENT = "/management/v1/warehouses"
AS_MANAGER = {"authorization": "Bearer a-manager"}


def find_token(hash_: str) -> TokenInfo | None:
    """The look-up of a server on which one token manages, and none is needed for the rest."""
    scopes = frozenset({Scope.ADMINISTER, Scope.MANAGE})
    return TokenInfo("ops", 0, scopes=scopes) if hash_ == token_hash("a-manager") else None


class Clock:
    """A clock that a test turns, and may set wrong by so many milliseconds."""

    def __init__(self) -> None:
        self.millis = 1_700_000_000_000
        self.wrong_by = 0

    def now_millis(self) -> int:
        return self.millis + self.wrong_by


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def servers(
    serve: Serve, tmp_path: Path, new_sqlite: NewSqlite, clock: Clock
) -> Iterator[tuple[str, str]]:
    """Two servers of one database; they were started with a warehouse ``main``."""
    url = new_sqlite(tmp_path / "headwater.db")
    runtime = SYSTEM_RUNTIME.__class__(
        clock.now_millis,
        SYSTEM_RUNTIME.new_uuid,
        SYSTEM_RUNTIME.sleep,
        monotonic=lambda: clock.millis / 1000,
    )
    with ExitStack() as stack:
        addresses = []
        for _ in range(2):
            database = stack.enter_context(opened_database(url, runtime))
            main = SqlCatalog.on(database, warehouse="main", location=str(tmp_path / "main"))
            managed = ManagedCatalogs(database, runtime)
            addresses.append(
                serve(
                    {"main": main},
                    parts={"managed": managed, "find_token": find_token},
                    allowed_locations=[str(tmp_path)],
                )
            )
        yield addresses[0], addresses[1]


@pytest.fixture
def http(servers: tuple[str, str]) -> Iterator[httpx.Client]:
    with plain_http.Client(base_url=servers[0], headers=AS_MANAGER) as client:
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
        http.post(f"{MANAGEMENT}/lake", json={"updates": {"s3.access-key": "hunter2"}}),
        http.get(f"{MANAGEMENT}/lake"),
        http.get(MANAGEMENT),
        http.get("/v1/config", params={"warehouse": "lake"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 409, 400, 200, 200, 200, 200]
    assert answers[4].json()["options"] == {
        "s3.access-key": "***",
        "s3.region": "eu",
        "s3.secret-key": "***",
    }
    assert not any("hunter2" in answer.text for answer in answers)
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("wrong_by", [0, -3_600_000])
def test_a_change_reaches_the_other_server_within_seconds(
    http: httpx.Client, servers: tuple[str, str], tmp_path: Path, clock: Clock, wrong_by: int
) -> None:
    http.post(MANAGEMENT, json={"name": "lake", "location": str(tmp_path / "lake")})
    with closing(RestCatalog(servers[1], warehouse="lake")) as elsewhere:
        assert list(elsewhere.databases.list().items) == []
        assert http.delete(f"{MANAGEMENT}/lake").status_code == 200
        assert http.get("/v1/lake/databases").status_code == 400
        clock.millis += KEPT_MILLIS
        clock.wrong_by = wrong_by
        with pytest.raises(Invalid, match="'lake' is not served here, but 'main'"):
            elsewhere.databases.list()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "", {"name": "main", "location": "/x"}, 409),
        ("POST", "", {"name": "a b", "location": "{here}"}, 400),
        ("POST", "", {"name": "a", "location": "ftp://x/y"}, 403),
        ("POST", "", {"name": "a", "location": "s3:/x/y"}, 400),
        ("POST", "", {"name": "a", "location": "{here}/../x"}, 403),
        ("POST", "", {"name": "a"}, 400),
        ("POST", "", {"name": "a", "location": "{here}/x", "storageOptions": "x"}, 400),
        ("GET", "/none", None, 404),
        ("POST", "/none", {"updates": {"s3.region": "b"}}, 404),
        ("POST", "/main", {"updates": {"s3.reigon": "b"}}, 400),
        ("POST", "", {"name": "a", "location": "{here}/x", "options": {"s3.region ": "b"}}, 400),
        ("POST", "", {"name": "a", "location": "{here}/x", "options": {"s3\0": "b"}}, 400),
        ("DELETE", "/none", None, 404),
        ("GET", "?maxResults=-1", None, 400),
    ],
)
def test_what_cannot_be_is_refused(
    http: httpx.Client,
    tmp_path: Path,
    method: str,
    path: str,
    body: dict[str, str] | None,
    status: int,
) -> None:
    if body is not None and "location" in body:
        body = {**body, "location": body["location"].format(here=tmp_path)}
    answer = http.request(method, MANAGEMENT + path, json=body)
    assert answer.status_code == status
    assert answer.json()["code"] == status
    assert http.get(MANAGEMENT).json()["warehouses"] == []


@pytest.fixture
def guarded(
    serve: Serve, tmp_path: Path, new_sqlite: NewSqlite
) -> Iterator[Callable[..., httpx.Response]]:
    """Sends requests to a server with tokens of every kind; the first argument says which."""
    url = new_sqlite(tmp_path / "headwater.db")
    with opened_database(url) as database, plain_http.Client() as client:
        tokens = Tokens(database, SYSTEM_RUNTIME)
        secrets = {
            "plain": "a-token",
            "manager": "a-manager",
            "made": tokens.create("ann").secret,
            "made to manage": tokens.create("bob", scopes=[Scope.READ, Scope.MANAGE]).secret,
            "wrong": "x",
        }
        main = SqlCatalog.on(database, warehouse="main", location=str(tmp_path / "main"))
        (tmp_path / "allowed").mkdir()
        address = serve(
            {"main": main},
            parts={
                "managed": ManagedCatalogs(database, SYSTEM_RUNTIME),
                "find_token": tokens.find,
            },
            tokens="a-token",
            management_tokens="a-manager",
            allowed_locations=f"{tmp_path}/allowed, s3://Lake/in",
            allowed_endpoints="https://minio:9000,http://localhost",
            storage_options={"s3.endpoint": "http://own:1"},
        )

        def send(who: str, method: str, path: str, body: object = None) -> httpx.Response:
            headers = {"authorization": f"Bearer {secrets[who]}"}
            return client.request(method, address + path, json=body, headers=headers)

        yield send


@pytest.mark.parametrize("who", ["plain", "made", "manager", "made to manage", "wrong"])
def test_only_a_token_for_management_manages(
    guarded: Callable[..., httpx.Response], tmp_path: Path, who: str
) -> None:
    may = who in ("manager", "made to manage")
    expected = 200 if may else 401 if who == "wrong" else 403
    new = {"name": "lake", "location": f"{tmp_path}/allowed/lake"}
    for method, path, body in (
        ("POST", "", new),
        ("GET", "", None),
        ("GET", "/lake", None),
        ("POST", "/lake", {"updates": {"s3.region": "b"}}),
        ("DELETE", "/lake", None),
    ):
        answer = guarded(who, method, MANAGEMENT + path, body)
        assert answer.status_code == expected, answer.text
        if expected == 403:
            assert "--management-token" in answer.json()["message"]
    # What does not manage warehouses is for every token.
    if who != "wrong":
        assert guarded(who, "GET", "/v1/config?warehouse=main").status_code == 200
        assert guarded(who, "GET", f"{MANAGEMENT}/main/dropped-tables").status_code == 200


@pytest.mark.parametrize(
    ("location", "status"),
    [
        ("{here}/allowed/lake", 200),
        ("file:{here}/allowed//lake", 200),
        ("{here}/elsewhere", 403),
        ("{here}/allowed/../elsewhere", 403),
        ("{here}/allowed/out/lake", 403),
        ("{here}", 403),
        ("/", 403),
        ("s3a://lake/in/x", 200),
        ("s3://lake/inside", 403),
        ("s3://lake", 403),
        ("s3://evil.example#/in", 403),
    ],
)
def test_a_warehouse_is_added_where_the_settings_allow_it(
    guarded: Callable[..., httpx.Response], tmp_path: Path, location: str, status: int
) -> None:
    (tmp_path / "allowed" / "out").symlink_to(tmp_path)
    new = {"name": "lake", "location": location.format(here=tmp_path)}
    answer = guarded("manager", "POST", MANAGEMENT, new)
    assert answer.status_code == status, answer.text
    if status == 403:
        assert "HEADWATER_ALLOWED_LOCATIONS" in answer.json()["message"]


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({}, 200, ""),
        ({"s3.endpoint": "https://Minio:9000/"}, 200, ""),
        ({"fs.s3.endpoint": "http://localhost:80"}, 200, ""),
        ({"s3.endpoint": "http://own:1"}, 200, ""),
        ({"s3.endpoint": "http://minio:9000"}, 403, "HEADWATER_ALLOWED_ENDPOINTS"),
        ({"s3.endpoint": "https://evil.example"}, 403, "HEADWATER_ALLOWED_ENDPOINTS"),
        ({"s3.endpoint": "https://minio:9000@evil.example"}, 400, "without credentials"),
        ({"s3.endpoint": "https://minio:9000", "fs.s3.endpoint": "http://x"}, 403, "fs.s3"),
        ({"s3.endpoint": "minio:9000"}, 400, "an endpoint is a URL"),
        ({"s3.region": "x.evil.example/#"}, 400, "region"),
        ({"s3.sts.role-arn": "arn:aws:iam::1:role/any"}, 403, "keys of the warehouse's own"),
        ({"s3.sts.endpoint": "http://evil.example"}, 403, "HEADWATER_ALLOWED_ENDPOINTS"),
    ],
)
def test_the_server_sends_its_credentials_nowhere_else(
    guarded: Callable[..., httpx.Response], options: dict[str, str], status: int, words: str
) -> None:
    new = {"name": "lake", "location": "s3://lake/in"}
    answer = guarded("manager", "POST", MANAGEMENT, {**new, "options": options})
    assert (answer.status_code, words in answer.text) == (status, True), answer.text
    if status == 200:
        return
    # Nor by a change.
    assert guarded("manager", "POST", MANAGEMENT, new).status_code == 200
    answer = guarded("manager", "POST", f"{MANAGEMENT}/lake", {"updates": options})
    assert (answer.status_code, words in answer.text) == (status, True), answer.text
    assert guarded("manager", "GET", f"{MANAGEMENT}/lake").json()["options"] == {}


def test_nothing_is_allowed_unless_the_settings_say_so(
    serve: Serve, tmp_path: Path, new_sqlite: NewSqlite
) -> None:
    url = new_sqlite(tmp_path / "headwater.db")
    with opened_database(url) as database:
        main = SqlCatalog.on(database, warehouse="main", location=str(tmp_path / "main"))
        managed = ManagedCatalogs(database, SYSTEM_RUNTIME)
        address = serve(main, parts={"managed": managed, "find_token": find_token})
        new = {"name": "lake", "location": str(tmp_path / "lake")}
        answer = plain_http.post(address + MANAGEMENT, json=new, headers=AS_MANAGER)
    assert (answer.status_code, "HEADWATER_ALLOWED_LOCATIONS" in answer.text) == (403, True)


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
        address = serve(opened, parts={"find_token": find_token})
        assert plain_http.get(address + MANAGEMENT).status_code == 401
        for noun in ("warehouses", "tokens", "groups"):
            path = f"{address}/management/v1/{noun}"
            assert plain_http.get(path, headers=AS_MANAGER).status_code == 501


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
    with plain_http.Client(base_url=address) as client:
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
