"""Databases that can be killed, frozen and started again, with what they had."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from tests.conftest import mariadb_programs, postgresql_programs
from tests.ports import free_port

from headwater.catalog.sql.database.drivers import database_url

__all__ = ["KINDS", "Database", "MariaDb", "PostgreSql", "Sqlite", "open_database"]

KINDS = ("sqlite", "postgresql", "mariadb")
_PATIENCE_SECONDS = 120


class Database(Protocol):
    """A database of a catalog.

    Attributes:
        kind: One of `KINDS`.
        port: The port on which it listens; 0 for none.
    """

    kind: str
    port: int

    def url(self, port: int | None = None) -> str:
        """The catalog's URL, through another port if one is given."""
        ...

    def start(self) -> None:
        """Start it, and wait until it answers."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to each of its processes; after SIGKILL wait until they are gone."""
        ...

    def close(self) -> None:
        """Kill it."""
        ...


def open_database(kind: str, folder: Path) -> Database:
    """Make a database in a folder; it runs.

    Raises:
        RuntimeError: Its programs are not installed.
    """
    made: Database
    match kind:
        case "sqlite":
            made = Sqlite(folder)
        case "postgresql":
            made = PostgreSql(folder)
        case "mariadb":
            made = MariaDb(folder)
        case _:
            raise RuntimeError(f"no chaos on '{kind}'; choose of {', '.join(KINDS)}")
    made.start()
    return made


class Sqlite:
    """A file; it dies with its server."""

    kind = "sqlite"
    port = 0

    def __init__(self, folder: Path) -> None:
        self._path = folder / "headwater.db"

    def url(self, port: int | None = None) -> str:
        """The file's."""
        return f"sqlite:///{self._path}"

    def start(self) -> None:
        """Nothing is to be started."""

    def signal(self, number: signal.Signals) -> None:
        """Nobody is there."""

    def close(self) -> None:
        """Nothing is to be closed."""


class _Server:
    """A database server's process and those that it starts."""

    kind: str

    def __init__(self, folder: Path, owner: str) -> None:
        # Its own user does not get into the folders of tests.
        self._folder = folder
        self._owner = owner if os.geteuid() == 0 else None
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, port: int | None = None) -> str:
        """The catalog's."""
        return f"{self.kind}://headwater@127.0.0.1:{port or self.port}/chaos"

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _begin(self, administration: str) -> None:
        self.start()
        engine = create_engine(database_url(administration), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("CREATE DATABASE chaos"))
        engine.dispose()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = (self._folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                self._command(),
                user=self._owner,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        administration = {"postgresql": "postgres", "mariadb": "mysql"}[self.kind]
        url = self.url().removesuffix("chaos") + administration
        engine = create_engine(database_url(url))
        end = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                with engine.connect() as connection:
                    connection.execute(text("SELECT 1"))
                break
            except DBAPIError:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise
                time.sleep(0.1)
        engine.dispose()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to each process; after SIGKILL wait until they are gone."""
        process = self._process
        if process is None:
            return
        family = [process.pid, *_children(process.pid)]
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if number is signal.SIGKILL:
            process.wait()
            self._process = None
            end = time.monotonic() + _PATIENCE_SECONDS
            while any(Path(f"/proc/{pid}").exists() for pid in family):
                assert time.monotonic() < end, "a killed database does not end"
                time.sleep(0.02)

    def close(self) -> None:
        """Kill it."""
        self.signal(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)


class PostgreSql(_Server):
    """A PostgreSQL server that loses nothing of what it says is committed when it is killed."""

    kind = "postgresql"

    def __init__(self, folder: Path) -> None:
        programs = postgresql_programs()
        if programs is None:
            raise RuntimeError("PostgreSQL's server programs are not installed")
        super().__init__(_room("postgresql", "postgres"), "postgres")
        self._programs = programs
        subprocess.run(
            [str(programs / "initdb"), "-D", str(self._folder / "data"), "-U", "headwater",
             "-A", "trust", "-E", "UTF8", "--no-sync"],
            user=self._owner, cwd=self._folder, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self._begin(self.url().removesuffix("chaos") + "postgres")
        self.signal(signal.SIGKILL)

    def _command(self) -> list[str]:
        # What is written survives the process, flushed or not: the machine goes on.
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self._folder),
            "fsync": "off",
            "full_page_writes": "on",
            "synchronous_commit": "on",
            "max_connections": "200",
        }
        return [
            *(str(self._programs / "postgres"), "-D", str(self._folder / "data")),
            *("-p", str(self.port)),
            *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
        ]


class MariaDb(_Server):
    """A MariaDB server likewise."""

    kind = "mariadb"

    def __init__(self, folder: Path) -> None:
        programs = mariadb_programs()
        if programs is None:
            raise RuntimeError("MariaDB's server programs are not installed")
        super().__init__(_room("mariadb", "mysql"), "mysql")
        install, self._program = map(str, programs)
        subprocess.run(
            [install, "--no-defaults", f"--datadir={self._folder}/data",
             f"--tmpdir={self._folder}", "--auth-root-authentication-method=normal",
             "--skip-test-db"],
            user=self._owner, cwd=self._folder, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        (self._folder / "grants.sql").write_text(
            "CREATE USER IF NOT EXISTS headwater@'127.0.0.1';\n"
            "GRANT ALL ON *.* TO headwater@'127.0.0.1';\n"
        )
        self._begin(self.url().removesuffix("chaos") + "mysql")
        self.signal(signal.SIGKILL)

    def _command(self) -> list[str]:
        folder = self._folder
        return [
            self._program, "--no-defaults", f"--port={self.port}", f"--datadir={folder}/data",
            f"--socket={folder}/socket", f"--pid-file={folder}/pid", f"--tmpdir={folder}",
            f"--init-file={folder}/grants.sql", "--bind-address=127.0.0.1", "--skip-name-resolve",
            "--max-connections=300", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=1",
            "--innodb-use-native-aio=0", "--innodb-flush-method=nosync",
            "--innodb-buffer-pool-size=128M",
        ]  # fmt: skip


def _room(name: str, owner: str) -> Path:
    import tempfile

    room = Path(tempfile.mkdtemp(prefix=f"headwater-chaos-{name}-"))
    if os.geteuid() == 0:
        shutil.chown(room, owner)
    return room


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):
                # After the name, which may hold anything: state, parent.
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent:
                    found.append(int(path.name))
    return found
