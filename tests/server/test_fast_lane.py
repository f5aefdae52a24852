"""The requests that are sent most: many at the same time, and whatever is odd about one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

import httpx
import pytest
from sqlalchemy import create_engine, text
from tests.server.conftest import TOKEN
from tests.server.test_metrics import counts

from headwater.catalog.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.bulk import MOST_AT_ONCE
from headwater.migrations import upgrade
from headwater.storage.local_files import LocalFileAccess

TABLES = 5
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
            found = snapshot.json()["snapshot"]["snapshot"]
            assert found["commitUser"] == f"user-{number}"
        else:
            assert snapshot.status_code == 404
            assert snapshot.json()["resourceType"] == "SNAPSHOT"


def test_a_change_is_told_at_once(http: httpx.Client, tables: list[str]) -> None:
    for number in range(3):
        update = {"action": "setOption", "key": "write-buffer-size", "value": f"{number + 1} mb"}
        assert http.post(tables[0], json={"changes": [update]}).status_code == 200
        found = http.get(tables[0]).json()
        assert found["schemaId"] == number + 1
        assert found["schema"]["options"]["write-buffer-size"] == f"{number + 1} mb"


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
    table_id = catalog.get_table(table).id
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
    found = catalog.bulk.tables(names)
    assert [table and table.info() for table in found] == [catalog.get_table(n) for n in names]


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
    with httpx.Client(base_url=address, headers=headers, trust_env=False) as stranger:
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
            commit(path, number, uuid=f"uuid-{number}", commitUser=f"user-{at}").json()["success"]
            for number in range(1, ROUNDS + 1)
        ]

    with ThreadPoolExecutor(2 * TABLES) as pool:
        answers = list(pool.map(work, range(2 * TABLES)))
    # Of the two who commit to a table both offer the same uuids: whoever is second repeats.
    assert answers == [[True] * ROUNDS] * (2 * TABLES)
    for path in tables:
        found = http.get(f"{path}/snapshots").json()["snapshots"]
        assert [item["id"] for item in found] == list(range(ROUNDS, 0, -1))
    told = counts(address, TOKEN)
    commits = 2 * TABLES * ROUNDS
    assert told["headwater_commits_total", "success", "main"] == commits
    assert told["headwater_commit_seconds_count", "success"] == commits
    route = "/v1/{prefix}/databases/{database}/tables/{table}/commit"
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


@pytest.mark.postgresql
def test_storage_that_stalls_for_one_table_stops_no_other(
    tmp_path: Path,
    new_postgresql_database: Callable[[], str],
    serve: Callable[..., str],
    schema: dict[str, object],
    snapshot: Callable[..., dict[str, object]],
) -> None:
    url, files = new_postgresql_database(), GatedFiles()
    upgrade(url)
    lake = str(tmp_path / "lake")
    with (
        closing(SqlCatalog.open(url, warehouse="main", location=lake, files=files)) as catalog,
        httpx.Client(base_url=serve(catalog), trust_env=False) as http,
        ThreadPoolExecutor(1) as pool,
    ):
        databases = "/v1/main/databases"
        http.post(databases, json={"name": "sales", "options": {}})
        for name in ("t0", "t1"):
            body = {"identifier": {"database": "sales", "object": name}, "schema": schema}
            assert http.post(f"{databases}/sales/tables", json=body).status_code == 200

        def commit(name: str, number: int) -> object:
            body: dict[str, object] = {"snapshot": snapshot(number), "baseSnapshotUuid": None}
            if number > 1:
                body["baseSnapshotUuid"] = f"uuid-{number - 1}"
            path = f"{databases}/sales/tables/{name}/commit"
            return http.post(path, json=body, timeout=60).json()

        stalled = pool.submit(commit, "t0", 1)
        assert files.reached.wait(60)
        for number in (1, 2, 3):
            assert commit("t1", number) == {"success": True}
        assert not stalled.done()
        files.gate.set()
        assert stalled.result() == {"success": True}


@pytest.mark.postgresql
def test_a_database_that_hangs_up_is_called_again(
    tmp_path: Path,
    new_postgresql_database: Callable[[], str],
    serve: Callable[..., str],
    schema: dict[str, object],
    snapshot: Callable[..., dict[str, object]],
) -> None:
    """Whatever is asked of PostgreSQL at once, before and after every connection was cut."""
    url = new_postgresql_database()
    upgrade(url)
    lake = str(tmp_path / "lake")
    with (
        closing(SqlCatalog.open(url, warehouse="main", location=lake)) as catalog,
        httpx.Client(base_url=serve(catalog), trust_env=False) as http,
        ThreadPoolExecutor(8) as pool,
    ):
        databases = "/v1/main/databases"
        http.post(databases, json={"name": "sales", "options": {}})
        paths = [f"{databases}/sales/tables/t{number}" for number in range(TABLES)]
        for number in range(TABLES):
            body = {"identifier": {"database": "sales", "object": f"t{number}"}, "schema": schema}
            assert http.post(f"{databases}/sales/tables", json=body).status_code == 200

        def ask(path: str) -> tuple[str, int | None]:
            latest = http.get(f"{path}/snapshot")
            assert latest.status_code in (200, 404)
            found = latest.json()["snapshot"]["snapshot"]["id"] if latest.is_success else None
            return http.get(path).json()["name"], found

        def commit(path: str, number: int) -> object:
            base = None if number == 1 else f"uuid-{number - 1}"
            body = {"snapshot": snapshot(number), "baseSnapshotUuid": base}
            return http.post(f"{path}/commit", json=body).json()

        killer = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        for number in (1, 2, 3):
            taken = list(pool.map(commit, paths, [number] * TABLES))
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
