"""A log that is read on after its server was shut down, or was killed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest
from tests.cdc.postgres.certificates import encrypted_postgresql_server
from tests.cdc.postgres.conftest import PostgresDatabase
from tests.cdc.postgres.logs import LIMITS, SourceLog, contents, name, source_log
from tests.conftest import postgresql_programs, postgresql_server

from headwater.cdc.postgres.positions import LogPosition
from headwater.cdc.postgres.relations import Relation
from headwater.storage.errors import Unavailable

pytestmark = pytest.mark.postgresql


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SourceLog]:
    """The log of a server that may be restarted."""
    server = partial(encrypted_postgresql_server, tmp_path) if request.param else postgresql_server
    with server("wal_level=logical", "synchronous_commit=on") as url:
        with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
            database = PostgresDatabase(f"{url}/postgres", "postgres", connection)
            database.run("CREATE TABLE t (id int PRIMARY KEY)")
            log = source_log(database)
            yield log
        log.database.connection.close()


def test_a_server_that_is_shut_down_ends_its_log(log: SourceLog) -> None:
    with log.reader("t") as reader, ThreadPoolExecutor(1) as threads:
        log.database.run("INSERT INTO t SELECT generate_series(1, 1000)")
        restart = threads.submit(_restart, log, "fast")
        # The server waits until all that it has sent is confirmed.
        batches = [reader.read_batch(LIMITS)]
        while not batches[-1].ended:
            reader.confirm(reader.position)
            batches.append(reader.read_batch(LIMITS))
        restart.result()
        known = reader.known(name("t"))
    assert len(contents(batches, "t").rows) == 1000
    assert known is not None
    _check_goes_on(log, reader.position, known)


def test_a_server_that_was_killed_goes_on_where_it_was(log: SourceLog) -> None:
    log.database.run("INSERT INTO t VALUES (1)")
    with log.reader("t") as reader:
        log.read(reader)
        # The server has kept it in memory.
        reader.confirm(reader.position)
        _restart(log, "immediate")
        with pytest.raises(Unavailable, match="the test's server"):
            log.read(reader)
        known = reader.known(name("t"))
    assert known is not None
    _check_goes_on(log, reader.position, known)


def _check_goes_on(log: SourceLog, position: LogPosition, known: Relation) -> None:
    log.database.run("INSERT INTO t VALUES (-1)", "INSERT INTO t VALUES (-2)")
    with log.reader("t", start=position, known=[known]) as reader:
        rows = contents(log.read(reader), "t").rows
    assert [row["id"] for _, row in rows] == ["-1", "-2"]


def _restart(log: SourceLog, mode: str) -> None:
    programs = postgresql_programs()
    assert programs is not None
    with psycopg.connect(log.database.url) as connection:
        ((data,),) = connection.execute("SHOW data_directory").fetchall()
    subprocess.run(
        [programs / "pg_ctl", "-D", data, "-m", mode, "-w", "-l", Path(data, "log"), "restart"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=Path(data).parent,
        user="postgres" if os.geteuid() == 0 else None,
    )
    log.database.connection = psycopg.connect(log.database.url, autocommit=True)
