"""Sources that are killed and started again, with their data and their port."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import psycopg
from tests.cdc.pipeline import mysql_chaos_writer, postgres_chaos_writer
from tests.cdc.pipeline.chaos_writer import ChaosWriter
from tests.cdc.pipeline.mysql_chaos_writer import MySQLChaosWriter
from tests.cdc.pipeline.postgres_chaos_writer import PostgresChaosWriter
from tests.conftest import DatabaseServer

from headwater.cdc.mysql.server import Address as MySQLAddress
from headwater.cdc.mysql.server import MySQLServer
from headwater.cdc.postgres.server import Address as PostgresAddress
from headwater.cdc.service.sources import Address
from headwater.storage.errors import HeadwaterError

__all__ = ["ChaosSource", "MySQLChaos", "PostgresChaos"]

_DATABASE = "chaos"


class ChaosSource(Protocol):
    """A database server that nobody else uses, with the tables of a writer.

    Attributes:
        address: Where it is.
        include: The pattern of the tables.
        tables: Their names.
        writer: Changes them.
    """

    address: Address
    include: str
    tables: Sequence[str]
    writer: ChaosWriter[Any]

    def kill(self) -> None:
        """Kill the server."""

    def start(self) -> None:
        """Start it again, and wait until it answers."""

    def close(self) -> None:
        """Leave it to who has started it first."""

    def kill_connections(self, numbers: random.Random) -> None:
        """Kill some connections, which are the pipeline's and the writer's."""

    def columns(self) -> Mapping[str, Sequence[str]]:
        """The names of the tables' columns, in their order."""


class MySQLChaos:
    """A server of MySQL or MariaDB.

    Args:
        server: The server.
        seed: Of the writer's choices.
    """

    include = f"{_DATABASE}.*"
    tables: Sequence[str] = mysql_chaos_writer.TABLES

    def __init__(self, server: DatabaseServer, seed: int) -> None:
        self.address: Address = MySQLAddress.from_url(server.url)
        self._address = self.address
        self._folder = server.data.parent
        pid = int((self._folder / "pid").read_text())
        # The user is there.
        self._command = [part for part in _arguments(pid) if not part.startswith("--init-file=")]
        self._pid: int | None = pid
        self._owner = os.stat(f"/proc/{pid}").st_uid
        self._process: subprocess.Popen[bytes] | None = None
        with MySQLServer(self._address) as connection:
            for statement in (f"CREATE DATABASE {_DATABASE}", f"USE {_DATABASE}"):
                connection.rows(statement)
            mysql_chaos_writer.create_tables(connection)
        self.writer: ChaosWriter[Any] = MySQLChaosWriter(self._address, _DATABASE, seed)

    def kill(self) -> None:
        """Kill the server."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        elif self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            # It is a child of this process: until it is waited for, MySQL finds its socket in use.
            os.waitpid(self._pid, 0)
            self._pid = None

    close = kill

    def start(self) -> None:
        """Start it again, and wait until it answers."""
        self._process = _started(self._command, self._owner, self._folder)
        while True:
            logs = [path.read_text()[-2000:] for path in self._folder.glob("log*")]
            assert self._process.poll() is None, logs
            with suppress(HeadwaterError):
                MySQLServer(self._address).close()
                return

    def kill_connections(self, numbers: random.Random) -> None:
        """Kill some connections, which are the pipeline's and the writer's."""
        with MySQLServer(self._address) as server:
            ((own,),) = server.rows("SELECT CONNECTION_ID()")
            for row in server.rows("SHOW PROCESSLIST"):
                if row[0] != own and row[1] == "headwater" and numbers.random() < 0.6:
                    with suppress(HeadwaterError):
                        server.rows(f"KILL {row[0]}")

    def columns(self) -> Mapping[str, Sequence[str]]:
        """The names of the tables' columns, in their order."""
        with MySQLServer(self._address) as server:
            rows = server.rows(
                "SELECT table_name, column_name FROM information_schema.columns WHERE "
                "table_schema = %s ORDER BY table_name, ordinal_position",
                [_DATABASE],
            )
        return _grouped(rows)


class PostgresChaos:
    """A server of PostgreSQL.

    Args:
        url: Its URL, without a database's name.
        seed: Of the writer's choices.
    """

    include = "public.*"
    tables: Sequence[str] = postgres_chaos_writer.TABLES

    def __init__(self, url: str, seed: int) -> None:
        with psycopg.connect(f"{url}/postgres", autocommit=True) as server:
            server.execute(f"CREATE DATABASE {_DATABASE}".encode())
            row = server.execute("SHOW data_directory").fetchone()
            assert row is not None
        self._url = f"{url}/{_DATABASE}"
        self.address: Address = PostgresAddress.from_url(self._url)
        self._folder = Path(row[0])
        self._pid = int((self._folder / "postmaster.pid").read_text().split()[0])
        self._command = _arguments(self._pid)
        self._owner = os.stat(f"/proc/{self._pid}").st_uid
        self._process: subprocess.Popen[bytes] | None = None
        with psycopg.connect(self._url, autocommit=True) as session:
            postgres_chaos_writer.create_tables(session)
        self.writer: ChaosWriter[Any] = PostgresChaosWriter(self._url, seed)

    def kill(self) -> None:
        """Kill the server: its first process, and all that it has started."""
        children = Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()
        pids = [self._pid, *map(int, children)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        while any(map(_is_running, pids)):
            pass
        # Nobody has to wait for its first process, whose number is taken as long as nobody does.
        for lock in (self._folder / "postmaster.pid", *self._folder.parent.glob(".s.*.lock")):
            lock.unlink()

    def close(self) -> None:
        """Leave it to who has started it first: it runs."""
        if not _is_running(self._pid):
            self.start()

    def start(self) -> None:
        """Start it again, and wait until it answers."""
        log = self._folder.parent / "log"
        self._process = _started(self._command, self._owner, self._folder, log)
        self._pid = self._process.pid
        while True:
            assert self._process.poll() is None, log.read_text()[-2000:]
            with suppress(psycopg.OperationalError):
                psycopg.connect(self._url).close()
                return

    def kill_connections(self, numbers: random.Random) -> None:
        """Kill some connections, which are the pipeline's and the writer's."""
        with psycopg.connect(self._url, autocommit=True) as server:
            rows = server.execute(
                "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type "
                "IN ('client backend', 'walsender') ORDER BY pid"
            )
            for (pid,) in rows.fetchall():
                if numbers.random() < 0.6:
                    server.execute("SELECT pg_terminate_backend(%s)", [pid])

    def columns(self) -> Mapping[str, Sequence[str]]:
        """The names of the tables' columns, in their order."""
        with psycopg.connect(self._url) as server:
            rows = server.execute(
                "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE "
                "table_schema = 'public' ORDER BY table_name, ordinal_position"
            )
            return _grouped(rows.fetchall())


def _arguments(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")[:-1]


def _is_running(pid: int) -> bool:
    """Whether a process is there, and not only its number."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def _started(
    command: Sequence[str], owner: int, folder: Path, log: Path | None = None
) -> subprocess.Popen[bytes]:
    with (log or Path(os.devnull)).open("ab") as file:
        return subprocess.Popen(command, user=owner, cwd=folder, stdout=file, stderr=file)


def _grouped(rows: Sequence[Sequence[object]]) -> Mapping[str, Sequence[str]]:
    grouped: dict[str, list[str]] = {}
    for table, column in rows:
        grouped.setdefault(str(table), []).append(str(column))
    return grouped
