"""Warehouses whose storage hangs: each takes its own threads and connections, and no others'."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import insert
from tests import plain_http
from tests.conftest import NewSqlite, Serve

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.principal import Scope
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.admin.groups import Groups
from headwater.catalog.sql.admin.tokens import Tokens
from headwater.catalog.sql.admin.warehouses import Warehouses
from headwater.catalog.sql.database.drivers import PoolSettings, Timeouts
from headwater.catalog.sql.database.models import OutboxRow
from headwater.catalog.sql.database.open_database import opened_database
from headwater.catalog.table.table import Table
from headwater.migrations import upgrade
from headwater.server import run
from headwater.server.dependencies import Principals
from headwater.server.metrics import Metrics
from headwater.server.settings import load_settings
from headwater.server.sweep import Sweeps
from headwater.storage.files.layout import WAREHOUSE_MARKER
from headwater.storage.files.location import parse_location
from headwater.storage.runtime import SYSTEM_RUNTIME
from headwater.storage.schema.table_schema import Schema

SCHEMA = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))
# More than all the threads that the framework has by itself.
MANY = 60


class Pipes:
    """Named pipes where files are expected: whoever opens one to read waits."""

    def __init__(self) -> None:
        self._paths: list[Path] = []

    def put(self, path: Path) -> None:
        """Let a file hang."""
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        self._paths.append(path)

    def release(self, content: str = "") -> None:
        """Let whoever waits go on, and find that content."""
        for path in self._paths:
            keeper = os.open(path, os.O_RDWR | os.O_NONBLOCK)
            os.write(keeper, content.encode())
            path.unlink()
            os.close(keeper)
        self._paths.clear()


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    pipes = Pipes()
    yield pipes
    pipes.release()


def _two(url: str, room: Path, connections: int, stack: ExitStack) -> Mapping[str, SqlCatalog]:
    """Two warehouses on a database, each with a table; one of them is about to hang."""
    # A transaction is idle while its storage hangs: for as long as the test takes.
    patient = PoolSettings(connections, wait_seconds=60, timeouts=Timeouts(120, 120, 120))
    database = stack.enter_context(opened_database(url, pool=patient))
    locations = {name: parse_location(str(room / name)) for name in ("hang", "well")}
    Warehouses(database, SYSTEM_RUNTIME).claim(locations)
    catalogs = {
        name: SqlCatalog.on(database, warehouse=name, location=location)
        for name, location in locations.items()
    }
    for catalog in catalogs.values():
        catalog.begin()
        catalog.databases.create("sales")
        catalog.tables.create(Identifier("sales", "orders"), SCHEMA)
    return catalogs


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.02)
    pytest.fail("it did not come")


def test_one_that_hangs_leaves_the_threads_of_others_alone(
    tmp_path: Path, new_sqlite: NewSqlite, serve: Serve, pipes: Pipes
) -> None:
    with ExitStack() as stack:
        catalogs = _two(new_sqlite(tmp_path / "headwater.db"), tmp_path, 30, stack)
        pipes.put(tmp_path / "hang" / "sales.db" / "orders" / "tag" / "tag-stuck")
        address = serve(catalogs, warehouse_threads=3, warehouse_wait="100 ms")
        limits = httpx.Limits(max_connections=None)
        client = stack.enter_context(
            plain_http.Client(base_url=address, timeout=120, limits=limits)
        )
        pool = stack.enter_context(ThreadPoolExecutor(MANY))
        stack.callback(pipes.release)
        tag = "/v1/hang/databases/sales/tables/orders/tags/stuck"
        asked = [pool.submit(client.get, tag) for _ in range(MANY)]
        _until(lambda: sum(each.done() for each in asked) == MANY - 3)
        for each in asked:
            _see_a_refusal(each)
        # Everything of the other warehouse, by the ordinary way and by the fast lane.
        for number in range(10):
            made = client.post("/v1/well/databases", json={"name": f"more_{number}"})
            assert made.status_code == 200, made.text
            assert client.get("/v1/well/databases/sales/tables/orders").status_code == 200
            assert client.get("/v1/well/databases/sales/tables/orders/tags").status_code == 200
        assert client.get("/v1/config", params={"warehouse": "well"}).status_code == 200
        assert client.get("/v1/nowhere/databases").status_code == 400
        # What needs no thread of its own is answered for the one that hangs, too.
        _until(lambda: client.get(tag.rpartition("/tags")[0]).status_code == 200)
        assert client.get("/v1/hang/databases").status_code == 503
        pipes.release()
        _until(lambda: client.get("/v1/hang/databases").status_code == 200)


def _see_a_refusal(asked: Future[httpx.Response]) -> None:
    if not asked.done():
        return
    answer = asked.result()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    message = answer.json()["message"]
    assert "warehouse 'hang' have been in use for 0.1 s" in message
    assert "HEADWATER_WAREHOUSE_THREADS" in message


def test_whoever_may_not_know_a_warehouse_is_not_told_that_it_hangs(
    tmp_path: Path, new_sqlite: NewSqlite, serve: Serve, pipes: Pipes
) -> None:
    with ExitStack() as stack:
        catalogs = _two(new_sqlite(tmp_path / "headwater.db"), tmp_path, 30, stack)
        pipes.put(tmp_path / "hang" / "sales.db" / "orders" / "tag" / "tag-stuck")
        database = catalogs["well"].operation.database
        tokens = Tokens(database, SYSTEM_RUNTIME)
        address = serve(
            catalogs,
            parts={"principals": Principals(tokens, Groups(database)), "find_token": tokens.find},
            require_token=True,
            warehouse_threads=1,
            warehouse_wait="100 ms",
        )
        client = stack.enter_context(plain_http.Client(base_url=address, timeout=120))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(pipes.release)

        secrets = {
            name: tokens.create(name, scopes=[Scope.ADMINISTER], warehouses=[name]).secret
            for name in catalogs
        }

        def ask(path: str, name: str) -> httpx.Response:
            return client.get(path, headers={"authorization": f"Bearer {secrets[name]}"})

        pool.submit(ask, "/v1/hang/databases/sales/tables/orders/tags/stuck", "hang")
        _until(lambda: ask("/v1/hang/databases", "hang").status_code == 503)
        assert ask("/v1/hang/databases", "well").status_code == 403


@pytest.mark.postgresql
def test_one_that_hangs_in_transactions_leaves_connections_to_others(
    tmp_path: Path, new_postgresql_database: Callable[[], str], serve: Serve, pipes: Pipes
) -> None:
    url = new_postgresql_database()
    upgrade(url)
    with ExitStack() as stack:
        catalogs = _two(url, tmp_path, 6, stack)
        names = [f"t{number}" for number in range(8)]
        for name in names:
            catalogs["hang"].tables.create(Identifier("sales", name), SCHEMA)
            pipes.put(tmp_path / "hang" / "sales.db" / name / "schema" / "schema-1")
        address = serve(catalogs)
        limits = httpx.Limits(max_connections=None)
        client = stack.enter_context(
            plain_http.Client(base_url=address, timeout=120, limits=limits)
        )
        pool = stack.enter_context(ThreadPoolExecutor(len(names)))
        stack.callback(pipes.release)
        change = {"changes": [{"action": "setOption", "key": "bucket", "value": "-1"}]}
        altered = [
            pool.submit(client.post, f"/v1/hang/databases/sales/tables/{name}", json=change)
            for name in names
        ]
        database = catalogs["hang"].operation.database
        _until(lambda: database.engine.pool.checkedout() == 2)  # type: ignore[attr-defined]
        table = Table(catalogs["well"], catalogs["well"].tables.get(Identifier("sales", "orders")))
        for number in range(5):
            table.write({"order_id": [number]})
            made = client.post("/v1/well/databases", json={"name": f"more_{number}"})
            assert made.status_code == 200, made.text
        assert not any(each.done() for each in altered)
        pipes.release()
        # An empty file was in the place of the schema: no schema, and nobody overwrites it.
        assert {each.result().status_code for each in altered} <= {200, 409, 500}


def test_a_server_starts_although_a_warehouse_hangs(
    tmp_path: Path, new_sqlite: NewSqlite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SECONDS_TO_WAIT", 0.2)
    with closing(socket.create_server(("127.0.0.1", 0))) as sink:
        endpoint = f"http://127.0.0.1:{sink.getsockname()[1]}"
        settings = load_settings(
            {
                "warehouses": {"hang": "s3://lake/hang", "well": str(tmp_path / "well")},
                "storage_options": {
                    "s3.endpoint": endpoint,
                    "s3.access-key": "a",
                    "s3.secret-key": "b",
                },
            }
        )
        with opened_database(new_sqlite(tmp_path / "headwater.db")) as database:
            catalogs = run.catalogs_on(database, settings)
            catalogs["well"].databases.create("sales")
            orders = Identifier("sales", "orders")
            catalogs["well"].tables.create(orders, SCHEMA)
            Table(catalogs["well"], catalogs["well"].tables.get(orders)).write({"order_id": [1]})
            # It was asked, and the others were not kept waiting for it.
            sink.accept()[0].close()


def test_a_sweep_that_hangs_keeps_no_other_warehouse_from_being_swept(
    tmp_path: Path, new_sqlite: NewSqlite, pipes: Pipes
) -> None:
    with ExitStack() as stack:
        catalogs = _two(new_sqlite(tmp_path / "headwater.db"), tmp_path, 30, stack)
        stack.callback(pipes.release)
        orders = catalogs["hang"].tables.get(Identifier("sales", "orders"))
        database = catalogs["hang"].operation.database
        with database.engine.begin() as connection:
            connection.execute(
                insert(OutboxRow).values(
                    warehouse="hang", table_id=orders.id, branch="main", action="schema",
                    number=0, path="", created_at=0,
                )
            )  # fmt: skip
        marker = tmp_path / "hang" / WAREHOUSE_MARKER
        text = marker.read_text()
        marker.unlink()
        pipes.put(marker)
        # As a server that has just been started: it looks for the marker first.
        hang = SqlCatalog.on(database, warehouse="hang", location=catalogs["hang"].location)
        metrics = Metrics()
        sweeps = Sweeps(metrics, 0.05)
        both = {"hang": hang, "well": catalogs["well"]}

        def count(outcome: str, warehouse: str) -> float:
            labels = {"outcome": outcome, "warehouse": warehouse}
            for family in text_string_to_metric_families(metrics.text({}).decode()):
                for sample in family.samples:
                    if sample.name == "headwater_sweeps_total" and sample.labels == labels:
                        return sample.value
            return 0

        def is_swept_again() -> bool:
            sweeps.sweep(both)
            return count("done", "well") >= 2

        _until(is_swept_again)
        assert count("failed", "hang") >= 1
        assert count("done", "hang") == 0
        pipes.release(text)
        marker.write_text(text)

        def is_settled() -> bool:
            sweeps.sweep(both)
            return hang.operation.backlog().decisions == 0

        _until(is_settled)
