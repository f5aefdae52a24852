"""`/readyz` tells whether the server can work."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import anyio
import httpx
import psycopg
import pytest

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.database.open_database import opened_database
from headwater.migrations import upgrade
from headwater.server.probes import probes_of
from headwater.server.readiness import KEPT_MILLIS, Readiness
from headwater.storage.errors import Forbidden, Unavailable
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.runtime import Runtime

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
    well = httpx.get(f"{address}/readyz", trust_env=False)
    assert (well.status_code, well.json()["status"]) == (200, "ok")

    database.is_on = False
    watch.millis += KEPT_MILLIS
    ill = httpx.get(f"{address}/readyz", trust_env=False)
    assert (ill.status_code, ill.json()["code"]) == (503, 503)
    assert "database" in ill.json()["message"]
    assert "storage" not in ill.json()["message"]
    assert "10.1.2.3" not in ill.text
    assert "10.1.2.3" in caplog.text
    # It lives all the same.
    assert httpx.get(f"{address}/healthz", trust_env=False).status_code == 200

    database.is_on = True
    watch.millis += KEPT_MILLIS
    assert httpx.get(f"{address}/readyz", trust_env=False).status_code == 200


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

    def exists(self, path: str) -> bool:
        raise Forbidden(f"{path}: access denied")


def test_one_warehouse_out_of_reach_does_not_take_the_others_out_of_service(
    catalog: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/headwater.db"
    broken = SqlCatalog.open(
        url, warehouse="broken", location=str(tmp_path / "broken"), files=Refusing()
    )
    with opened_database(url) as database:
        probes_of(database, lambda: {"broken": broken, "main": catalog})["storage"]()
        assert "broken" in caplog.text
        with pytest.raises(Forbidden):
            probes_of(database, lambda: {"broken": broken})["storage"]()
        probes_of(database, dict)["storage"]()
        probes_of(database, dict)["database"]()
    broken.close()


@pytest.mark.postgresql
def test_a_database_that_went_away_shows(
    tmp_path: Path, new_postgresql_database: Callable[[], str]
) -> None:
    url = new_postgresql_database()
    upgrade(url)
    with opened_database(url) as database:
        probe = probes_of(database, dict)["database"]
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
