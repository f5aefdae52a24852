"""A private PostgreSQL server on a loopback port, as durable as a real one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

__all__ = ["free_port", "postgresql"]

_USER = "headwater"


def free_port() -> int:
    """A port on which nobody listens just now."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def postgresql(*more: str) -> Iterator[str]:
    """The URL of a new server, without a database's name; it is gone when the context ends.

    Commits are flushed to the disk: what is measured is what a user would get.

    Args:
        more: More settings, such as ``wal_level=logical``.
    """
    programs = _programs()
    owner = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    home = Path(tempfile.mkdtemp(prefix="headwater-bench-postgresql-"))
    if owner is not None:
        shutil.chown(home, owner)
    data, port = str(home / "data"), free_port()

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=owner, cwd=home)

    settings = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} "
        "-c max_connections=200 -c shared_buffers=256MB -c max_wal_size=4GB "
        "-c autovacuum_naptime=600s"
    ) + "".join(f" -c {setting}" for setting in more)
    try:
        run("initdb", "-D", data, "-U", _USER, "-A", "trust", "-E", "UTF8")
        run("pg_ctl", "-D", data, "-w", "-l", str(home / "log"), "-o", settings, "start")
        try:
            yield f"postgresql://{_USER}@127.0.0.1:{port}"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _programs() -> Path:
    program = shutil.which("initdb")
    programs = [program] if program else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        raise SystemExit(
            "the benchmark needs PostgreSQL's server programs; on Debian: "
            "apt-get install postgresql"
        )
    return Path(programs[-1]).parent
