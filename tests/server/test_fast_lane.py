"""The requests that are sent most: many at the same time, and whatever is odd about one of them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from threading import Event

import httpx
import pytest
from sqlalchemy import create_engine, func, literal_column, select, text
from sqlalchemy.pool import NullPool, QueuePool
from tests import plain_http
from tests.server.conftest import TOKEN
from tests.server.test_metrics import counts

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.async_reads import MOST_CONNECTIONS
from headwater.catalog.sql.database.engine import SqlDatabase, open_engine
from headwater.catalog.sql.database.prepared import Prepared
from headwater.catalog.sql.tables.bulk_reads import MOST_AT_ONCE
from headwater.migrations import upgrade
from headwater.server.logs import JsonLines
from headwater.server.metrics import Metrics
from headwater.server.request_log import ACCESS_LOGGER
from headwater.storage.errors import Unavailable
from headwater.storage.files.access import FileAccess
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.runtime import SYSTEM_RUNTIME

TABLES = 5
_TABLE = "/v1/{prefix}/databases/{database}/tables/{table}"
ROUNDS = 8


@pytest.fixture
def tables(http: httpx.Client, sales: str, schema: dict[str, object]) -> list[str]:
    """Paths of tables, of which the odd ones have a snapshot."""
    for number in range(TABLES):
        body = {"identifier": {"database": "sales", "object": f"t{number}"}, "schema": schema}
        assert http.post(f"{sales}/tables", json=body).status_code == 200
    return [f"{sales}/tables/t{number}" for number in range(TABLES)]


def test_everybody_is_told_of_what_was_asked_for(
    http: httpx.Client,
    sales: str,
    tables: list[str],
    commit: Callable[..., httpx.Response],
) -> None:
    for number in range(1, TABLES, 2):
        commit(tables[number], 1, commitUser=f"user-{number}")
    # In the same batches: what is not there, what not every database can look for, a branch.
    odd = [f"{sales}/tables/nothing", f"{sales}/tables/n%00ul", f"{sales}/tables/t1%24branch_b"]

    def ask(path: str) -> tuple[str, httpx.Response, httpx.Response]:
        return path, http.get(path), http.get(f"{path}/snapshot")

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, [*tables, *odd] * ROUNDS))
    for path, table, snapshot in answers:
        name = path.rpartition("/")[2]
        if path in odd:
            assert {table.status_code, snapshot.status_code} <= {400, 404}
            continue
        assert table.json()["name"] == name
        number = int(name[1:])
        if number % 2:
            latest = snapshot.json()["snapshot"]["snapshot"]
            assert latest["commitUser"] == f"user-{number}"
        else:
            assert snapshot.status_code == 404
            assert snapshot.json()["resourceType"] == "SNAPSHOT"


def test_equal_names_with_different_ids_are_told_apart(
    http: httpx.Client, tables: list[str], commit: Callable[..., httpx.Response]
) -> None:
    commit(tables[0], 1)
    present = http.get(tables[0]).json()["id"]

    def ask(table_id: str | None) -> tuple[str | None, list[int]]:
        headers = {} if table_id is None else {"x-headwater-table-id": table_id}
        paths = (tables[0], f"{tables[0]}/snapshot")
        return table_id, [http.get(path, headers=headers).status_code for path in paths]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, [None, present, "another"] * (2 * ROUNDS)))
    for table_id, statuses in answers:
        assert statuses == ([404, 404] if table_id == "another" else [200, 200])


def test_a_change_is_told_at_once(http: httpx.Client, tables: list[str]) -> None:
    for number in range(3):
        update = {"action": "setOption", "key": "write-buffer-size", "value": f"{number + 1} mb"}
        assert http.post(tables[0], json={"changes": [update]}).status_code == 200
        present = http.get(tables[0]).json()
        assert present["schemaId"] == number + 1
        assert present["schema"]["options"]["write-buffer-size"] == f"{number + 1} mb"


def test_what_waits_for_storage_is_left_to_others(
    catalog: SqlCatalog,
    http: httpx.Client,
    tables: list[str],
    commit: Callable[..., object],
    tmp_path: Path,
) -> None:
    commit(tables[0], 1)
    table, other = Identifier("sales", "t0"), Identifier("sales", "t1")
    assert [found is None for found in catalog.bulk.latest_snapshots([table, other])] == [
        False,
        True,
    ]
    table_id = catalog.tables.get(table).id
    engine = create_engine(f"sqlite:///{tmp_path}/headwater.db")
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO hw_outbox (warehouse, table_id, branch, action, number, path, "
                "created_at) VALUES ('main', :id, 'main', 'snapshot', 1, '', 0)"
            ),
            {"id": table_id},
        )
    engine.dispose()
    assert catalog.bulk.latest_snapshots([table]) == [None]
    assert catalog.bulk.tables([table])[0] is not None  # it does not concern the schema
    assert http.get(f"{tables[0]}/snapshot").status_code == 200
    assert catalog.bulk.latest_snapshots([table]) != [None]


def test_as_many_as_fit_are_looked_up_at_once(catalog: SqlCatalog, tables: list[str]) -> None:
    names = [Identifier("sales", f"t{number % TABLES}") for number in range(MOST_AT_ONCE)]
    stored = catalog.bulk.tables(names)
    assert [table and table.info() for table in stored] == [catalog.tables.get(n) for n in names]


def _told(answer: httpx.Response) -> tuple[object, ...]:
    kept = {k: v for k, v in answer.headers.items() if k not in {"date", "x-request-id"}}
    return answer.status_code, kept, answer.content


@pytest.mark.parametrize(
    ("method", "end", "body"),
    [
        ("GET", "", None),
        ("GET", "/snapshot", None),
        ("POST", "/commit", b"{}"),
        ("POST", "/commit", b"not JSON"),
        ("POST", "/commit", b"\xff\xfe"),
        ("POST", "/commit", b"[" * 5_000),
        ("POST", "/commit", b""),
        ("POST", "/commit", b'{"snapshot": {"id": NaN}}'),
        ("POST", "/commit", b'{"snapshot": {"id": "one"}, "statistics": 7}'),
        ("PUT", "/commit", b"{}"),
        ("DELETE", "/snapshot", None),
    ],
)
def test_the_answer_is_the_one_of_the_ordinary_way(
    http: httpx.Client,
    tables: list[str],
    commit: Callable[..., httpx.Response],
    method: str,
    end: str,
    body: bytes | None,
) -> None:
    commit(tables[0], 1)
    for path in (*tables[:2], tables[0].replace("t0", "none"), tables[0].replace("main", "other")):
        # Nothing about these two takes parameters, but only what has none is plain.
        plain = http.request(method, f"{path}{end}", content=body)
        ordinary = http.request(method, f"{path}{end}?way=ordinary", content=body)
        assert _told(plain) == _told(ordinary)
        assert plain.headers["x-request-id"] != ordinary.headers["x-request-id"]


@pytest.mark.parametrize("authorization", ["", "Bearer another", "Basic YTpi", "Bearer"])
def test_whoever_is_not_let_in_is_told_so(
    address: str, tables: list[str], authorization: str
) -> None:
    headers = {"authorization": authorization}
    with plain_http.Client(base_url=address, headers=headers) as stranger:
        for method, end in (("GET", ""), ("GET", "/snapshot"), ("POST", "/commit")):
            answer = stranger.request(method, f"{tables[0]}{end}", content=b"{}")
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"


def test_a_body_in_pieces_is_taken(
    http: httpx.Client, tables: list[str], snapshot: Callable[..., dict[str, object]]
) -> None:
    body = json.dumps({"snapshot": snapshot(1)}).encode()
    pieces = (body[at : at + 7] for at in range(0, len(body), 7))
    answer = http.post(f"{tables[0]}/commit", content=pieces)
    assert answer.json() == {"success": True}
    assert http.get(f"{tables[0]}/snapshot").json()["snapshot"]["snapshot"] == snapshot(1)


def test_everybody_who_commits_at_once_is_told_what_came_of_it(
    http: httpx.Client,
    address: str,
    tables: list[str],
    commit: Callable[..., httpx.Response],
) -> None:
    def work(at: int) -> list[bool]:
        path = tables[at % TABLES]
        return [
            commit(path, number, commitUser=f"user-{at % TABLES}").json()["success"]
            for number in range(1, ROUNDS + 1)
        ]

    with ThreadPoolExecutor(2 * TABLES) as pool:
        answers = list(pool.map(work, range(2 * TABLES)))
    # Of the two who commit to a table both offer the same: the second one repeats.
    assert answers == [[True] * ROUNDS] * (2 * TABLES)
    for path in tables:
        listed = http.get(f"{path}/snapshots").json()["snapshots"]
        assert [item["id"] for item in listed] == list(range(ROUNDS, 0, -1))
    told = counts(address, TOKEN)
    commits = 2 * TABLES * ROUNDS
    assert told["headwater_commits_total", "success", "main"] == commits
    assert told["headwater_commit_seconds_count", "success"] == commits
    route = f"{_TABLE}/commit"
    assert told["headwater_http_requests_total", "POST", route, "200"] == commits
    assert told[("headwater_http_requests_in_progress",)] == 1


class GatedFiles(LocalFileAccess):
    """The local disk, which takes no snapshot of table ``t0`` until its gate is opened."""

    def __init__(self) -> None:
        self.reached, self.gate = Event(), Event()

    def write_if_absent(self, path: str, data: bytes) -> bool:
        if "/t0/snapshot/" in path:
            self.reached.set()
            assert self.gate.wait(60)
        return super().write_if_absent(path, data)


@dataclass(frozen=True)
class Served:
    """A server over a database, with some tables.

    Attributes:
        url: The database's URL.
        catalog: The catalog behind it.
        metrics: What it counts.
        http: A client of it.
        tables: The tables' paths.
        commit: Commits a snapshot of some number to a table's path.
    """

    url: str
    catalog: SqlCatalog
    metrics: Metrics
    http: httpx.Client
    tables: list[str]
    commit: Callable[[str, int], object]


@pytest.fixture
def on_postgresql(
    serve_on: Callable[..., Served], new_postgresql_database: Callable[[], str]
) -> Callable[..., Served]:
    """Serves a warehouse, with files that are given or those of the disk."""

    def begin(files: FileAccess | None = None) -> Served:
        return serve_on(new_postgresql_database(), files)

    return begin


@pytest.fixture
def serve_on(
    tmp_path: Path,
    serve: Callable[..., str],
    schema: dict[str, object],
    snapshot: Callable[..., dict[str, object]],
) -> Iterator[Callable[..., Served]]:
    """Serves a warehouse of an empty database, with some tables."""
    with ExitStack() as opened:

        def begin(url: str, files: FileAccess | None = None) -> Served:
            upgrade(url)
            catalog = opened.enter_context(
                closing(
                    SqlCatalog.open(
                        url, warehouse="main", location=str(tmp_path / "lake"), files=files
                    )
                )
            )
            metrics = Metrics()
            metrics.watch(catalog.operation.database)
            address = serve(catalog, parts={"metrics": metrics})
            http = opened.enter_context(plain_http.Client(base_url=address))
            sales = "/v1/main/databases/sales"
            http.post("/v1/main/databases", json={"name": "sales", "options": {}})
            for number in range(TABLES):
                name = {"database": "sales", "object": f"t{number}"}
                body = {"identifier": name, "schema": schema}
                assert http.post(f"{sales}/tables", json=body).status_code == 200

            def commit(path: str, number: int) -> object:
                base = None if number == 1 else f"uuid-{number - 1}"
                body = {"snapshot": snapshot(number), "baseSnapshotUuid": base}
                return http.post(f"{path}/commit", json=body, timeout=60).json()

            paths = [f"{sales}/tables/t{number}" for number in range(TABLES)]
            return Served(url, catalog, metrics, http, paths, commit)

        yield begin


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ]
)
def any_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/any.db"
    create: Callable[[], str] = request.getfixturevalue(f"new_{request.param}_database")
    return create()


def test_plain_requests_take_the_fast_lane(
    any_database: str, serve_on: Callable[..., Served]
) -> None:
    served = serve_on(any_database)
    address = str(served.http.base_url).rstrip("/")
    for number in (1, 2, 3):
        for path in served.tables:
            assert served.commit(path, number) == {"success": True}
            assert served.http.get(path).status_code == 200
            assert served.http.get(f"{path}/snapshot").status_code == 200
    # A conflict is an answer, too; what is not there, or not plain, goes the ordinary way.
    assert served.commit(served.tables[0], 2) == {"success": True}
    assert served.http.get(f"{served.tables[0]}?way=ordinary").status_code == 200
    assert served.http.get(f"{served.tables[0]}-none").status_code == 404
    told = counts(address)
    fast, table = "headwater_fast_lane_requests_total", _TABLE
    assert told[fast, table] == told[fast, f"{table}/snapshot"] == 3 * TABLES
    assert told[fast, f"{table}/commit"] == 3 * TABLES + 1
    requests = "headwater_http_requests_total"
    assert told[requests, "GET", table, "200"] == 3 * TABLES + 1
    assert told[requests, "GET", table, "404"] == 1
    assert told[requests, "POST", f"{table}/commit", "200"] == 3 * TABLES + 1


def test_the_fast_lane_logs_as_the_ordinary_way_does(
    http: httpx.Client, tables: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, ACCESS_LOGGER):
        for way in ("", "?way=ordinary"):
            http.get(f"{tables[0]}{way}", headers={"x-request-id": "mine"})
        http.get("/healthz")  # on the same connection: the lines before it are written by now
    fast, ordinary = (
        {key: value for key, value in line.items() if key not in ("time", "milliseconds")}
        for line in (json.loads(JsonLines().format(record)) for record in caplog.records[:2])
    )
    assert fast == ordinary
    assert (fast["request_id"], fast["status"], fast["principal"]) == ("mine", 200, "configured")


@pytest.mark.postgresql
def test_storage_that_stalls_for_one_table_stops_no_other(
    on_postgresql: Callable[..., Served],
) -> None:
    files = GatedFiles()
    served = on_postgresql(files)
    with ThreadPoolExecutor(1) as pool:
        stalled = pool.submit(served.commit, served.tables[0], 1)
        assert files.reached.wait(60)
        for number in (1, 2, 3):
            assert served.commit(served.tables[1], number) == {"success": True}
        assert not stalled.done()
        files.gate.set()
        assert stalled.result() == {"success": True}


@pytest.mark.modes
@pytest.mark.postgresql
def test_a_database_that_hangs_up_is_called_again(on_postgresql: Callable[..., Served]) -> None:
    """Whatever is asked of PostgreSQL at once, before and after every connection was cut."""
    served = on_postgresql()
    http, paths = served.http, served.tables

    def ask(path: str) -> tuple[str, int | None]:
        latest = http.get(f"{path}/snapshot")
        assert latest.status_code in (200, 404)
        number = latest.json()["snapshot"]["snapshot"]["id"] if latest.is_success else None
        return http.get(path).json()["name"], number

    killer = create_engine(served.url.replace("postgresql:", "postgresql+psycopg:"))
    with ThreadPoolExecutor(8) as pool:
        for number in (1, 2, 3):
            taken = list(pool.map(served.commit, paths, [number] * TABLES))
            assert taken == [{"success": True}] * TABLES
            for _ in range(2):
                told = list(pool.map(ask, paths * 4))
                assert told == [(f"t{at}", number) for at in range(TABLES)] * 4
                with killer.begin() as connection:
                    connection.execute(
                        text(
                            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                        )
                    )
    killer.dispose()


@pytest.mark.postgresql
def test_every_connection_to_the_database_is_counted(on_postgresql: Callable[..., Served]) -> None:
    served = on_postgresql()

    def counted(state: str) -> float:
        address = str(served.http.base_url).rstrip("/")
        return counts(address)["headwater_database_connections", state]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(served.http.get, served.tables * 8))
    watcher = create_engine(
        served.url.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool
    )
    with watcher.connect() as connection:
        there = connection.execute(
            text(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        ).scalar_one()
    ordinary = served.catalog.operation.database.engine.pool
    assert isinstance(ordinary, QueuePool)
    assert counted("open") == there > ordinary.checkedin() + ordinary.checkedout()
    assert counted("in_use") == 0
    served.catalog.close()
    assert counted("open") == 0


@pytest.mark.postgresql
def test_an_event_loop_looks_with_no_more_connections_than_it_may(
    new_postgresql_database: Callable[[], str],
) -> None:
    database = SqlDatabase(open_engine(new_postgresql_database()), SYSTEM_RUNTIME)
    opened: list[int] = []
    used: list[int] = []
    database.watch(opened.append, used.append)
    slow = Prepared(select(func.pg_sleep(literal_column("0.02"))))

    async def look() -> None:
        reads = database.async_reads()
        assert reads is not None
        await asyncio.gather(*(reads.rows(slow) for _ in range(3 * MOST_CONNECTIONS)))
        broken = Prepared(select(literal_column("1 / 0")))
        with pytest.raises(Unavailable, match="division by zero"):
            await reads.rows(broken)
        late = asyncio.create_task(reads.rows(slow))
        await asyncio.sleep(0)
        reads.close()
        await late

    asyncio.run(look())
    assert max(accumulate(opened)) == max(accumulate(used)) == MOST_CONNECTIONS
    assert sum(opened) == sum(used) == 0
    database.close()
