"""A private MariaDB server with a binary log, on a loopback port."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.rest.postgresql import free_port

_READY_SECONDS = 60
_SETTINGS = (
    "--log-bin=log",
    "--server-id=1",
    "--binlog-format=ROW",
    "--binlog-row-metadata=FULL",
    "--max-binlog-size=1G",
    "--max-allowed-packet=128M",
    # Neither the server's own rate nor its durability is measured.
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-buffer-pool-size=512M",
    "--sync-binlog=0",
)


@dataclass(frozen=True)
class MariaDB:
    """A running server.

    Attributes:
        port: Its port at 127.0.0.1; the user ``root`` has no password.
        data: Its data directory, with the log files.
    """

    port: int
    data: Path

    def connect(self) -> Any:
        """Open a PyMySQL connection."""
        import pymysql

        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", autocommit=True, charset="utf8mb4"
        )

    def run(self, *statements: str) -> None:
        """Run statements in one session."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def next_log_file(self) -> Path:
        """Begin a new log file, and return its path."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("SHOW BINARY LOGS")
            return self.data / str(cursor.fetchall()[-1][0])


@contextmanager
def mariadb(folder: Path) -> Iterator[MariaDB]:
    """Run a new server whose data is in a folder; it is gone when the context ends."""
    programs = [shutil.which(name) for name in ("mariadb-install-db", "mariadbd")]
    if None in programs:
        raise SystemExit(
            "the benchmark needs MariaDB's server programs; on Debian: apt-get install "
            "mariadb-server"
        )
    install, server = map(str, programs)
    home = Path(tempfile.mkdtemp(prefix="mariadb-", dir=folder))
    data, port = home / "data", free_port()
    user = [f"--user={'root' if os.geteuid() == 0 else os.environ.get('USER', '')}"]
    subprocess.run(
        [install, "--no-defaults", f"--datadir={data}", "--skip-test-db", *user,
         "--auth-root-authentication-method=normal"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    process = subprocess.Popen(
        [server, "--no-defaults", f"--datadir={data}", f"--tmpdir={home}", f"--port={port}",
         "--bind-address=127.0.0.1", f"--socket={home}/socket", *user, *_SETTINGS],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    running = MariaDB(port, data)
    try:
        _wait_until_ready(running, process)
        yield running
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def _wait_until_ready(server: MariaDB, process: subprocess.Popen[bytes]) -> None:
    import pymysql

    deadline = time.monotonic() + _READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            server.connect().close()
            return
        except pymysql.err.OperationalError:
            time.sleep(0.1)
    raise RuntimeError("MariaDB did not start")
