"""Counts by operation and warehouse, of the database and of storage, over several workers."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from tests import plain_http
from tests.processes import address_in
from tests.server.test_metrics import counts

from headwater.catalog.sql import SqlCatalog
from headwater.server.fast.lane import _Kind
from headwater.server.metrics import Metrics
from headwater.server.operation_metrics import MOST_WAREHOUSES, OTHERS, WarehouseLabels
from headwater.server.snapshots.routes import router as snapshots
from headwater.server.storage_metrics import CountedFiles
from headwater.server.sweep import Sweeps
from headwater.server.tables.routes import router as tables
from headwater.storage.errors import Unavailable
from headwater.storage.files.local import LocalFileAccess

Serve = Callable[..., str]
REQUESTS = "headwater_operation_requests_total"


def test_operations_are_counted_by_warehouse(
    http: httpx.Client, address: str, orders: str, commit: Callable[..., httpx.Response]
) -> None:
    assert commit(orders, 1).json() == {"success": True}
    http.post(f"{orders}/commit?way=ordinary", json={})
    http.get(orders)
    http.get(f"{orders}?way=ordinary")
    http.get("/v1/config")
    found = counts(address, "a-token")
    assert found[REQUESTS, "commitTable", "200", "main"] == 1
    assert found[REQUESTS, "commitTable", "400", "main"] == 1
    # The fast lane's and the ordinary way's have one name.
    assert found[REQUESTS, "getTable", "200", "main"] == 2
    assert found[REQUESTS, "getConfig", "200", "main"] == 1
    assert found["headwater_operation_seconds_count", "commitTable", "main"] == 2


def test_warehouses_that_do_not_exist_make_no_series(http: httpx.Client, address: str) -> None:
    for name in ("nowhere", "elsewhere", "main%2Fx"):
        http.get(f"/v1/{name}/databases")
        http.get(f"/v1/{name}/databases/d/tables/t")
        http.get(f"/v1/config?warehouse={name}")
        http.get(f"/management/v1/warehouses/{name}/dropped-tables")
    plain_http.get(f"{address}/v1/main/databases")  # without its token
    found = counts(address, "a-token")
    warehouses = {name[3] for name in found if name[0] == REQUESTS}
    assert warehouses == {""}
    assert found[REQUESTS, "listDatabases", "400", ""] == 3
    assert found[REQUESTS, "none", "401", ""] == 1


def test_many_warehouses_share_a_series_beyond_a_bound() -> None:
    labels = WarehouseLabels()
    names = [f"w{number}" for number in range(MOST_WAREHOUSES + 5)]
    assert [labels.of(name) for name in names[:MOST_WAREHOUSES]] == names[:MOST_WAREHOUSES]
    assert {labels.of(name) for name in names[MOST_WAREHOUSES:]} == {OTHERS}
    assert labels.of(names[0]) == names[0]
    assert labels.of("") == ""


def test_the_fast_lane_names_operations_as_the_framework_does() -> None:
    routes = [*tables.routes, *snapshots.routes]
    named = {
        (route.path, method): route.unique_id  # type: ignore[attr-defined]
        for route in routes
        for method in route.methods  # type: ignore[attr-defined]
    }
    for kind in _Kind:
        method = "POST" if kind is _Kind.COMMIT else "GET"
        assert kind.unique_id == named[kind.path, method]


def test_errors_of_storage_are_counted(catalog: SqlCatalog, serve: Serve, tmp_path: Path) -> None:
    class Refusing(LocalFileAccess):
        def write(self, path: str, data: bytes, *, durable: bool = True) -> None:
            raise Unavailable("the disk is full")

    metrics = Metrics()
    files = metrics.count_files(Refusing(), "main")
    assert isinstance(files, CountedFiles)
    place = f"file://{tmp_path}/a"
    with pytest.raises(Unavailable):
        files.write(place, b"x")
    assert files.write_if_absent(place, b"x")
    with files.open_output(f"{place}-b") as file:
        file.write(b"y")
    assert [status.name for status in files.walk(f"file://{tmp_path}/")]
    assert files.read(place) == b"x"
    found = counts(serve(catalog, parts={"metrics": metrics}))
    assert found["headwater_storage_errors_total", "write", "Unavailable", "main"] == 1
    assert found["headwater_storage_seconds_count", "write", "main"] == 1
    assert found["headwater_storage_seconds_count", "write_if_absent", "main"] == 1
    assert found["headwater_storage_seconds_count", "walk", "main"] == 1
    errors = {name[1] for name in found if name[0] == "headwater_storage_errors_total"}
    assert errors == {"write"}


def test_transactions_are_counted_by_outcome(catalog: SqlCatalog, serve: Serve) -> None:
    metrics, database = Metrics(), catalog.operation.database
    metrics.watch(database)

    def fail(_: object) -> None:
        raise Unavailable("storage is away")

    database.write(lambda connection: connection.exec_driver_sql("SELECT 1"))
    with pytest.raises(Unavailable):
        database.write(fail)
    with pytest.raises(ZeroDivisionError):
        database.write(lambda _: 1 // 0)
    with database.read():
        pass
    found = counts(serve(catalog, parts={"metrics": metrics}))
    transactions = "headwater_database_transactions_total"
    assert found[transactions, "write", "done"] == 1
    assert found[transactions, "write", "failed"] == 1
    assert found[transactions, "write", "refused"] == 1
    assert found[transactions, "read", "done"] >= 1
    assert found[("headwater_database_wait_seconds_count",)] >= 4
    assert found["headwater_database_connections", "limit"] == 50


def test_sweeps_are_counted_by_warehouse(catalog: SqlCatalog, serve: Serve) -> None:
    metrics = Metrics()
    Sweeps(metrics).sweep({"main": catalog})
    metrics.swept("main", None)
    found = counts(serve(catalog, parts={"metrics": metrics}))
    assert found["headwater_sweeps_total", "done", "main"] == 1
    assert found["headwater_sweeps_total", "failed", "main"] == 1
    assert found["headwater_sweep_last_success_timestamp_seconds", "main"] > 1.7e9


def test_what_does_not_answer_is_not_ready(catalog: SqlCatalog, serve: Serve) -> None:
    def fail() -> None:
        raise Unavailable("away")

    probes = {"database": lambda: None, "storage": fail}
    metrics = Metrics(token_expiry=lambda: 90_000)
    metrics.watch_warehouses(lambda: {"main": True, "lost": False})
    found = counts(serve(catalog, parts={"metrics": metrics, "probes": probes}))
    assert found["headwater_ready", "database"] == 1
    assert found["headwater_ready", "storage"] == 0
    assert found["headwater_warehouse_ready", "main"] == 1
    assert found["headwater_warehouse_ready", "lost"] == 0
    assert found[("headwater_token_next_expiry_seconds",)] == 90


def test_a_database_that_hangs_keeps_no_other_metric(catalog: SqlCatalog, serve: Serve) -> None:
    release = Event()

    def hang() -> Any:
        release.wait()

    metrics = Metrics(hang, hang)
    metrics.watch_sinks(hang)

    def fail() -> None:
        raise Unavailable("away")

    probes = {"database": fail, "storage": lambda: None}
    try:
        found = counts(serve(catalog, parts={"metrics": metrics, "probes": probes}))
    finally:
        release.set()
    assert found["headwater_ready", "database"] == 0
    assert found["headwater_ready", "storage"] == 1


def _of_workers(tmp_path: Path, workers: int) -> Mapping[tuple[str, ...], float]:
    """What a server with some workers counts after the same requests."""
    shutil.rmtree(tmp_path / "server", ignore_errors=True)
    folder = tmp_path / "server"
    command = [
        *(sys.executable, "-m", "headwater.cli.main", "serve", "--port", "0"),
        *("--workers", str(workers), "--sweep-interval", "0 s"),
        *("--database-url", f"sqlite:///{folder}/headwater.db"),
        *("--warehouse", f"main={folder}/lake", "--log-format", "json"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        address = address_in(server.stderr)
        told = (str(json.loads(line).get("message")) for line in server.stderr)
        for _ in range(workers):
            next(line for line in told if line == "Application startup complete.")
        for number in range(12):
            # Each on a connection of its own, so that all workers get some.
            plain_http.post(f"{address}/v1/main/databases", json={"name": f"d{number % 3}"})
            plain_http.get(f"{address}/v1/nowhere/databases")
        found = counts(address)
        server.send_signal(signal.SIGTERM)
        server.stderr.read()
    return found


@pytest.mark.modes
def test_several_workers_count_as_one_does(tmp_path: Path) -> None:
    one, three = _of_workers(tmp_path, 1), _of_workers(tmp_path, 3)

    def of_requests(found: Mapping[tuple[str, ...], float]) -> Mapping[tuple[str, ...], float]:
        counted = (REQUESTS, "headwater_operation_seconds_count", "headwater_http_requests_total")
        return {name: value for name, value in found.items() if name[0] in counted}

    assert of_requests(one) == of_requests(three)
    assert of_requests(three)[REQUESTS, "createDatabase", "200", "main"] == 3
    assert of_requests(three)[REQUESTS, "createDatabase", "409", "main"] == 9
    limit = ("headwater_database_connections", "limit")
    assert three[limit] == 3 * one[limit]
