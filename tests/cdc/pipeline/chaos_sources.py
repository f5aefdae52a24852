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
from tests.cdc.postgres.server_process import PostgresProcess
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
        arguments = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")[:-1]
        # The user is there.
        self._command = [part for part in arguments if not part.startswith("--init-file=")]
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
        self._process = subprocess.Popen(
            self._command,
            user=self._owner,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
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


class PostgresChaos(PostgresProcess):
    """A server of PostgreSQL.

    Args:
        url: Its URL, without a database's name.
        seed: Of the writer's choices.
    """

    include = "public.*"
    tables: Sequence[str] = postgres_chaos_writer.TABLES

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url)
        with psycopg.connect(f"{url}/postgres", autocommit=True) as server:
            server.execute(f"CREATE DATABASE {_DATABASE}".encode())
        self._database = f"{url}/{_DATABASE}"
        self.address: Address = PostgresAddress.from_url(self._database)
        with psycopg.connect(self._database, autocommit=True) as session:
            postgres_chaos_writer.create_tables(session)
        self.writer: ChaosWriter[Any] = PostgresChaosWriter(self._database, seed)

    def kill_connections(self, numbers: random.Random) -> None:
        """Kill some connections, which are the pipeline's and the writer's."""
        with psycopg.connect(self._database, autocommit=True) as server:
            rows = server.execute(
                "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type "
                "IN ('client backend', 'walsender') ORDER BY pid"
            )
            for (pid,) in rows.fetchall():
                if numbers.random() < 0.6:
                    server.execute("SELECT pg_terminate_backend(%s)", [pid])

    def columns(self) -> Mapping[str, Sequence[str]]:
        """The names of the tables' columns, in their order."""
        with psycopg.connect(self._database) as server:
            rows = server.execute(
                "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE "
                "table_schema = 'public' ORDER BY table_name, ordinal_position"
            )
            return _grouped(rows.fetchall())


def _grouped(rows: Sequence[Sequence[object]]) -> Mapping[str, Sequence[str]]:
    grouped: dict[str, list[str]] = {}
    for table, column in rows:
        grouped.setdefault(str(table), []).append(str(column))
    return grouped
