"""`/readyz` tells whether the server can work."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import httpx
import psycopg
import pyarrow as pa
import pytest
from tests import plain_http

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.open_database import opened_database
from headwater.catalog.table.table import Table
from headwater.migrations import upgrade
from headwater.server.probes import WarehouseStorage, probes_of
from headwater.server.readiness import KEPT_MILLIS, SECONDS_TO_WAIT, Readiness
from headwater.storage.errors import Forbidden, Unavailable
from headwater.storage.files.layout import WAREHOUSE_MARKER
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.runtime import Runtime
from headwater.storage.schema.table_schema import Schema

Serve = Callable[..., str]


class Watch:
    """A clock that a test turns, and may set wrong by so many milliseconds."""

    millis = 1_700_000_000_000
    wrong_by = 0

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            lambda: self.millis + self.wrong_by,
            lambda: str(uuid.uuid4()),
            lambda _: None,
            monotonic=lambda: self.millis / 1000,
        )


class Switch:
    """A probe that a test turns on and off, and that counts how often it is asked."""

    def __init__(self) -> None:
        self.is_on = True
        self.asked = 0

    def __call__(self) -> None:
        self.asked += 1
        if not self.is_on:
            raise Unavailable("connection to 10.1.2.3 refused")


def test_it_needs_no_token_and_says_what_fails_but_not_why(
    catalog: SqlCatalog, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    watch, database, storage = Watch(), Switch(), Switch()
    probes = {"database": database, "storage": storage}
    parts = {"probes": probes, "runtime": watch.runtime}
    address = serve(catalog, parts=parts, tokens=["secret"])
    well = plain_http.get(f"{address}/readyz")
    assert (well.status_code, well.json()["status"]) == (200, "ok")

    database.is_on = False
    watch.millis += KEPT_MILLIS
    ill = plain_http.get(f"{address}/readyz")
    assert (ill.status_code, ill.json()["code"]) == (503, 503)
    assert "database" in ill.json()["message"]
    assert "storage" not in ill.json()["message"]
    assert "10.1.2.3" not in ill.text
    assert "10.1.2.3" in caplog.text
    # It lives all the same.
    assert plain_http.get(f"{address}/healthz").status_code == 200

    database.is_on = True
    watch.millis += KEPT_MILLIS
    assert plain_http.get(f"{address}/readyz").status_code == 200


def test_asking_often_makes_no_work() -> None:
    watch, probe = Watch(), Switch()

    async def play() -> None:
        readiness = Readiness({"database": probe}, watch.runtime)
        for _ in range(50):
            assert await readiness.failed() == ()
        assert probe.asked == 1
        watch.millis += KEPT_MILLIS
        await readiness.failed()
        assert probe.asked == 2

    anyio.run(play)


def test_a_wrong_clock_neither_keeps_an_answer_nor_loses_it() -> None:
    watch, probe = Watch(), Switch()

    async def play() -> None:
        readiness = Readiness({"database": probe}, watch.runtime)
        await readiness.failed()
        watch.wrong_by = 60 * KEPT_MILLIS
        await readiness.failed()
        assert probe.asked == 1
        watch.wrong_by = -60 * KEPT_MILLIS
        watch.millis += KEPT_MILLIS
        await readiness.failed()
        assert probe.asked == 2

    anyio.run(play)


def test_what_hangs_is_not_asked_again_until_it_answers() -> None:
    watch, release = Watch(), threading.Event()
    asked = 0

    def hang() -> None:
        nonlocal asked
        asked += 1
        release.wait()

    async def play() -> None:
        readiness = Readiness(
            {"storage": hang, "database": Switch()}, watch.runtime, seconds_to_wait=0.05
        )
        for _ in range(3):
            assert await readiness.failed() == ("storage",)
            watch.millis += KEPT_MILLIS
        assert asked == 1
        release.set()
        with anyio.fail_after(60):
            while await readiness.failed():
                watch.millis += KEPT_MILLIS
        assert asked == 1

    anyio.run(play)


class Refusing(LocalFileAccess):
    """Storage that refuses everything."""

    def check_directory(self, directory: str) -> None:
        raise Forbidden(f"{directory}: access denied")


class Hanging(LocalFileAccess):
    """Storage that answers when a test lets it, and counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()
        self.asked = 0

    def check_directory(self, directory: str) -> None:
        self.asked += 1
        self.release.wait()


def test_one_warehouse_out_of_reach_does_not_take_the_others_out_of_service(
    catalog: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/headwater.db"
    broken = SqlCatalog.open(
        url, warehouse="broken", location=str(tmp_path / "broken"), files=Refusing()
    )
    warehouses = {"broken": broken, "main": catalog}
    storage = WarehouseStorage(lambda: warehouses, Watch().runtime)
    storage()
    while "broken" not in storage.states():
        storage()
    assert storage.states() == {"broken": False, "main": True}
    assert "the storage of warehouse broken: " in caplog.text
    del warehouses["main"]
    with pytest.raises(Forbidden):
        storage()
    assert storage.states() == {"broken": False}
    warehouses.clear()
    storage()
    assert storage.states() == {}
    broken.close()


def test_one_warehouse_that_hangs_does_not_take_the_others_out_of_service(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    files, watch = Hanging(), Watch()
    url = f"sqlite:///{tmp_path}/headwater.db"
    hanging = SqlCatalog.open(url, warehouse="hang", location=str(tmp_path / "hang"), files=files)
    storage = WarehouseStorage(lambda: {"hang": hanging, "main": catalog}, watch.runtime)
    for _ in range(int(SECONDS_TO_WAIT)):
        storage()
        assert storage.states() == {"main": True}
        watch.millis += KEPT_MILLIS
    assert storage.states() == {"hang": False, "main": True}
    assert files.asked == 1
    files.release.set()
    while not storage.states()["hang"]:
        storage()
    assert storage.states() == {"hang": True, "main": True}
    hanging.close()


@pytest.mark.parametrize("hangs", [False, pytest.param(True, marks=pytest.mark.modes)])
def test_a_database_that_is_away_is_not_taken_for_storage(
    catalog: SqlCatalog, tmp_path: Path, hangs: bool
) -> None:
    is_away, release = threading.Event(), threading.Event()

    def warehouses() -> dict[str, SqlCatalog]:
        if is_away.is_set():
            if not hangs:
                raise Unavailable("the catalog's database did not answer")
            release.wait()
        return {"main": catalog}

    catalog.databases.create("sales")
    schema = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))
    catalog.tables.create(Identifier("sales", "orders"), schema)
    seen = WarehouseStorage(warehouses, Watch().runtime)
    seen()
    is_away.set()
    # One that is asked for the first time knows those of the settings.
    for storage in (seen, WarehouseStorage(warehouses, Watch().runtime, {"main": catalog})):
        storage()
        assert storage.states() == {"main": True}
    (tmp_path / "lake").rename(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="is missing: mount it"):
        storage()
    assert storage.states() == {"main": False}
    release.set()


def _readiness(catalog: SqlCatalog, serve: Serve) -> Callable[[], httpx.Response]:
    """Asks a server of one warehouse whether it is ready, each time anew."""
    watch = Watch()
    with opened_database(str(catalog.operation.database.engine.url)) as database:
        probes = probes_of(database, WarehouseStorage(lambda: {"main": catalog}, watch.runtime))
    address = serve(catalog, parts={"probes": probes, "runtime": watch.runtime})

    def ask() -> httpx.Response:
        watch.millis += KEPT_MILLIS
        return plain_http.get(f"{address}/readyz", timeout=60)

    return ask


def test_a_warehouse_whose_folder_is_gone_is_not_ready_and_not_made_anew(
    catalog: SqlCatalog, serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ask = _readiness(catalog, serve)
    assert ask().status_code == 200
    orders = Identifier("sales", "orders")
    catalog.databases.create("sales")
    schema = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))
    catalog.tables.create(orders, schema)
    table = Table(catalog, catalog.tables.get(orders))
    (tmp_path / "lake").rename(tmp_path / "elsewhere")
    answer = ask()
    assert (answer.status_code, "storage" in answer.json()["message"]) == (503, True)
    assert "is missing: mount it" in caplog.text
    with pytest.raises(Unavailable, match="is missing, and nothing is written"):
        table.write({"order_id": [1]})
    with pytest.raises(Unavailable, match="is missing, and nothing is written"):
        catalog.tables.create(Identifier("sales", "more"), schema)
    catalog.databases.create("more")
    # Nor when a server starts.
    catalog.begin()
    assert not (tmp_path / "lake").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "lake")
    assert ask().status_code == 200
    table.write({"order_id": [1]})
    assert table.scan().to_arrow().num_rows == 1


def test_another_warehouse_in_its_place_is_not_ready_and_not_written(
    catalog: SqlCatalog, serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ask = _readiness(catalog, serve)
    catalog.databases.create("sales")
    schema = Schema.from_arrow(pa.schema([("order_id", pa.int64())]))
    catalog.tables.create(Identifier("sales", "orders"), schema)
    lake = tmp_path / "lake"
    lake.rename(tmp_path / "elsewhere")
    lake.mkdir()
    assert ask().status_code == 503
    assert f"the marker file://{lake}/{WAREHOUSE_MARKER} of warehouse 'main' is mis" in caplog.text
    (lake / WAREHOUSE_MARKER).write_text('{"id": "another"}')
    assert ask().status_code == 503
    assert "is not the marker of warehouse 'main'" in caplog.text
    address = serve(catalog)
    body = {
        "identifier": {"database": "sales", "object": "more"},
        "schema": schema.to_json(),
    }
    refused = plain_http.post(f"{address}/v1/main/databases/sales/tables", json=body)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "nothing is written" in refused.json()["message"]
    assert [path.name for path in lake.rglob("*")] == [WAREHOUSE_MARKER]
    shutil.rmtree(lake)
    (tmp_path / "elsewhere").rename(lake)
    assert ask().status_code == 200
    assert plain_http.post(f"{address}/v1/main/databases/sales/tables", json=body).is_success


_ON_A_SMALL_DISK = """
import os, subprocess, sys
from headwater.storage.errors import HeadwaterError
from headwater.storage.files.local import LocalFileAccess
folder = sys.argv[1]
files = LocalFileAccess()
def check():
    try:
        files.check_directory("file://" + folder)
    except HeadwaterError as error:
        return error.message
    return "well"
print(check())
with open(folder + "/big", "wb") as sink:
    try:
        sink.write(bytes(1 << 20)); sink.flush()
    except OSError:
        pass
    print(check())
    os.truncate(sink.fileno(), 0)
print(check())
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
print(check())
"""


def test_a_full_or_read_only_disk_is_not_ready(tmp_path: Path) -> None:
    """On a disk of its own, which only this test sees."""
    apart = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size=64k tmpfs {tmp_path}"
    if subprocess.run([*apart, "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a disk of their own")
    script = tmp_path.parent / "small_disk.py"
    script.write_text(_ON_A_SMALL_DISK)
    run = [*apart, "sh", "-c", f"{mount} && {sys.executable} {script} {tmp_path}"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    well, full, again, read_only = done.stdout.splitlines()
    assert (well, again) == ("well", "well")
    assert "No space left" in full
    assert "Read-only" in read_only


@pytest.mark.modes
@pytest.mark.postgresql
def test_a_database_that_went_away_shows(
    tmp_path: Path, new_postgresql_database: Callable[[], str]
) -> None:
    url = new_postgresql_database()
    upgrade(url)
    with opened_database(url) as database:
        probe = probes_of(database, WarehouseStorage(dict, Watch().runtime))["database"]
        probe()
        name = url.rpartition("/")[2]
        with psycopg.connect(url.replace(name, "postgres"), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                [name],
            )
            with pytest.raises(Unavailable):
                probe()
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())
        probe()


@pytest.mark.modes
@pytest.mark.postgresql
def test_callers_are_not_told_what_the_database_said(
    tmp_path: Path,
    new_postgresql_database: Callable[[], str],
    serve: Serve,
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = new_postgresql_database()
    upgrade(url)
    name = url.rpartition("/")[2]
    location = str(tmp_path / "elsewhere")
    with closing(SqlCatalog.open(url, warehouse="main", location=location)) as catalog:
        address = serve(catalog)
        with psycopg.connect(url.replace(name, "postgres"), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                [name],
            )
            for path in ("sales", "sales/tables/orders", "sales/tables/orders?way=ordinary"):
                answer = plain_http.get(f"{address}/v1/main/databases/{path}")
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert "database did not answer" in answer.json()["message"]
                assert name not in answer.text
            said = f'"{name}" is not currently accepting'
            assert any(said in message for message in caplog.messages)
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())
