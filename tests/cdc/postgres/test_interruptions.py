"""Sources that are not where a pipeline has read them: it stops, and names the command."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import psycopg
import pytest
from tests.cdc.postgres.conftest import Follower, PostgresDatabase
from tests.cdc.postgres.server_process import PostgresProcess
from tests.conftest import postgresql_programs, postgresql_server
from tests.ports import free_port

from headwater.cdc.postgres.server import Address
from headwater.cdc.service.requests import request_resnapshot
from headwater.cdc.service.running import RunningPipeline
from headwater.cdc.service.status import StoredPipeline
from headwater.client import Lake
from headwater.storage.errors import Conflict, HeadwaterError, NotFound

pytestmark = pytest.mark.postgresql

SLOT = "headwater_shop"
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
    "INSERT INTO t SELECT n, n FROM generate_series(1, 50) n",
)
CHANGES = ("UPDATE t SET v = 100 WHERE id < 10", "DELETE FROM t WHERE id > 40")
CREATE_SLOT = f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')"
RESNAPSHOT = "headwater cdc resnapshot --all"


def stops(follower: Follower, error: type[HeadwaterError], reason: str) -> None:
    """Check that a pipeline stops with an error that names the command, which then helps."""
    for _ in range(2):
        with pytest.raises(error, match=f"{reason}.*{RESNAPSHOT}"):
            follower.once()
    request_resnapshot(StoredPipeline(follower.lake, "lake", "shop"), password="")
    follower.once()
    follower.check("t")
    follower.database.run("INSERT INTO t VALUES (1000, 1)", "DELETE FROM t WHERE id = 2")
    follower.once()
    follower.check("t")


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_slot_that_was_dropped(
    postgres: PostgresDatabase, follower: Follower, is_made_again: bool
) -> None:
    postgres.run(*TABLE)
    follower.once()
    postgres.drop_slots()
    postgres.run(*CHANGES)
    if is_made_again:
        postgres.rows(CREATE_SLOT)
        stops(follower, Conflict, "is past the position .* changes are missing")
    else:
        stops(follower, NotFound, "does not exist: changes are missing")


def test_a_slot_that_another_reader_has_moved(
    postgres: PostgresDatabase, follower: Follower
) -> None:
    postgres.run(*TABLE)
    follower.once()
    postgres.run(*CHANGES)
    postgres.rows(f"SELECT pg_replication_slot_advance('{SLOT}', pg_current_wal_lsn())")
    stops(follower, Conflict, "is past the position .* changes are missing")


def test_a_second_start_waits_and_fails(postgres: PostgresDatabase, follower: Follower) -> None:
    postgres.run(*TABLE)
    follower.once()
    with RunningPipeline(follower.pipeline()) as running:
        _until(running, lambda: running.status().batch >= 0)
        follower.change(lock_seconds=0.3)
        with pytest.raises(Conflict, match=r"runs in another process.*headwater cdc stop"):
            follower.once()
        assert running.is_running
    follower.once()
    follower.check("t")


def _until(running: RunningPipeline, condition: Callable[[], bool]) -> None:
    """Wait for what a pipeline does."""
    wake = Event()
    while not condition():
        assert running.is_running
        wake.wait(0.02)


# Servers of their own ---------------------------------------------------------------------------


@contextmanager
def own_server(*settings: str) -> Iterator[tuple[str, PostgresDatabase]]:
    """A server's URL, and a database of it."""
    with postgresql_server("wal_level=logical", *settings) as url:
        with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")
        with database(url) as shop:
            yield url, shop


@contextmanager
def database(url: str) -> Iterator[PostgresDatabase]:
    with psycopg.connect(f"{url}/shop", autocommit=True) as connection:
        yield PostgresDatabase(f"{url}/shop", "shop", connection)


def moved(follower: Follower, other: PostgresDatabase) -> Follower:
    """The same pipeline, whose source is found elsewhere."""
    result = Follower(other, follower.lake)
    # A URL is recorded by a start.
    result.settings, result.address = follower.settings, Address.from_url(other.url)
    result.change(source=other.url)
    return result


def test_a_log_that_was_removed(lake: Lake) -> None:
    with own_server("max_slot_wal_keep_size=1MB", "max_wal_size=32MB") as (_, shop):
        follower = Follower(shop, lake)
        shop.run(*TABLE)
        follower.once()
        for statement in CHANGES:
            shop.run(statement, "SELECT pg_switch_wal()", "INSERT INTO t VALUES (0, 0)")
            shop.run("SELECT pg_switch_wal()", "DELETE FROM t WHERE id = 0")
        shop.run("CHECKPOINT")
        stops(follower, NotFound, "has lost its log.*max_slot_wal_keep_size")


def test_a_server_of_another_origin(postgres: PostgresDatabase, follower: Follower) -> None:
    postgres.run(*TABLE)
    follower.once()
    with own_server() as (_, shop):
        shop.run(*TABLE, *CHANGES)
        shop.rows(CREATE_SLOT)
        stops(moved(follower, shop), Conflict, "is of another one: it was restored")


def test_a_server_whose_files_were_restored(lake: Lake, tmp_path: Path) -> None:
    with own_server() as (url, shop):
        process = PostgresProcess(url)
        follower = Follower(shop, lake)
        shop.run(*TABLE)
        follower.once()
        process.kill()
        saved = tmp_path / "saved"
        shutil.copytree(process.data, saved)
        process.start()
        with database(url) as later:
            later.run(*CHANGES)
            moved(follower, later).once()
        process.kill()
        shutil.copytree(saved, process.data, dirs_exist_ok=True)
        subprocess.run(["chown", "-R", str(process.owner), str(process.data)], check=True)
        process.start()
        with database(url) as restored:
            stops(moved(follower, restored), Conflict, "has lost transactions")


def test_a_source_that_is_away(lake: Lake) -> None:
    with own_server("fsync=on", "synchronous_commit=on") as (url, shop):
        process = PostgresProcess(url)
        follower = Follower(shop, lake)
        shop.run(*TABLE)
        with RunningPipeline(follower.pipeline()) as running:
            _until(running, lambda: running.status().batch >= 0)
            process.kill()
            _until(running, lambda: running.status().waits_for is not None)
            process.start()
            with database(url) as back:
                back.run(*CHANGES)
                _until(running, lambda: running.status().waits_for is None)
        with database(url) as back:
            follower = moved(follower, back)
            follower.once()
            follower.check("t")


@pytest.mark.parametrize("has_slot", [False, True])
def test_a_promoted_replica(lake: Lake, has_slot: bool) -> None:
    programs = postgresql_programs()
    assert programs is not None
    base_backup = shutil.which("pg_basebackup", path=os.environ.get("HEADWATER_POSTGRES_BIN"))
    if base_backup is None:
        pytest.skip("needs pg_basebackup")
    with own_server("max_wal_senders=5", "hot_standby=on") as (url, shop):
        follower = Follower(shop, lake)
        shop.run(*TABLE)
        follower.once()
        shop.run("UPDATE t SET v = 7 WHERE id = 7")
        process = PostgresProcess(url)
        replica, port = process.data.parent / "replica", free_port()
        run = ["setpriv", f"--reuid={process.owner}", "--clear-groups"]
        copy: list[str | Path] = [*run, base_backup, "-d", f"{url}/postgres", "-D", replica, "-R"]
        copy.append("--checkpoint=fast")
        subprocess.run(copy, check=True)
        control: list[str | Path] = [
            *run,
            programs / "pg_ctl",
            "-D",
            replica,
            "-w",
            "-l",
            f"{replica}.log",
        ]
        # A replica needs as many connections as its primary has.
        options = (
            f"-p {port} -c unix_socket_directories={process.data.parent} -c max_connections=200 "
            "-c wal_level=logical"
        )
        subprocess.run([*control, "-o", options, "start"], check=True)
        try:
            subprocess.run([*control, "promote"], check=True)
            with database(f"postgresql://headwater@127.0.0.1:{port}") as promoted:
                promoted.run(*CHANGES, "CHECKPOINT")
                if has_slot:
                    promoted.rows(CREATE_SLOT)
                    stops(moved(follower, promoted), Conflict, "a replica was promoted")
                else:
                    stops(moved(follower, promoted), NotFound, "does not exist")
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True)
