"""The process of a PostgreSQL server that a test has for itself."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psycopg

__all__ = ["PostgresProcess"]


class PostgresProcess:
    """A server that is killed and started again, with its data and its port.

    Args:
        url: The server's URL, without a database's name.

    Attributes:
        data: The folder of its data.
        owner: The user that it runs as.
    """

    def __init__(self, url: str) -> None:
        self._url = f"{url}/postgres"
        with psycopg.connect(self._url) as server:
            row = server.execute("SHOW data_directory").fetchone()
            assert row is not None
        self.data = Path(row[0])
        self._pid = int((self.data / "postmaster.pid").read_text().split()[0])
        command = Path(f"/proc/{self._pid}/cmdline").read_text(encoding="utf-8")
        self._command = command.split("\0")[:-1]
        self.owner = os.stat(f"/proc/{self._pid}").st_uid
        self._process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """Kill its first process, and all that it has started."""
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
        for lock in (self.data / "postmaster.pid", *self.data.parent.glob(".s.*.lock")):
            lock.unlink()

    def start(self) -> None:
        """Start it again, and wait until it answers."""
        log = self.data.parent / "log"
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                self._command, user=self.owner, cwd=self.data, stdout=file, stderr=file
            )
        self._pid = self._process.pid
        while True:
            assert self._process.poll() is None, log.read_text()[-2000:]
            with suppress(psycopg.OperationalError):
                psycopg.connect(self._url).close()
                return

    def close(self) -> None:
        """Let it run, for who has started it first to end it."""
        if not _is_running(self._pid):
            self.start()


def _is_running(pid: int) -> bool:
    """Whether a process is there, and not only its number."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")
