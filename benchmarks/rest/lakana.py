"""lakana, a Python server of the Iceberg REST catalog, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.rest.http import Connection
from benchmarks.rest.postgresql import free_port

__all__ = ["LakanaCommitter", "create_tables", "environment", "headers", "server", "table_path"]

_PACKAGES = ("lakana[server]==0.20.0", "psycopg[binary]")
_KEY, _SECRET = "benchmark0000000", "b" * 43
_PREFIX = "bench"
# The namespaces of an environment are given.
_NAMESPACE = "bronze"
_START_SECONDS = 120.0


def environment(folder: Path) -> Path:
    """The programs of an environment with lakana, made on first use."""
    programs = folder / "bin"
    if not (folder / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(programs / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", *_PACKAGES], check=True)
        (folder / ".ready").touch()
    return programs


@contextmanager
def server(programs: Path, database_url: str, folder: Path) -> Iterator[str]:
    """The address of a server over an empty PostgreSQL database; its files are in `folder`."""
    port = free_port()
    variables = {
        **os.environ,
        "LAKANA_DATABASE__URL": database_url.replace("postgresql:", "postgresql+psycopg:", 1),
        "LAKANA_BOOTSTRAP_PAT_KEY_ID": _KEY,
        "LAKANA_BOOTSTRAP_PAT_SECRET": _SECRET,
        "LAKANA_PORT": str(port),
        "LAKANA_LOG__ACCESS": "false",
        "LAKANA_LOG__LEVEL": "WARNING",
    }
    program = str(programs / "lakana-server")
    subprocess.run([program, "migrate"], env=variables, check=True, stderr=subprocess.DEVNULL)
    log = folder.with_suffix(".log")
    with log.open("wb") as sink, subprocess.Popen([program], env=variables, stderr=sink) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            _wait_for(address, process, log)
            yield address
        finally:
            process.terminate()


def headers() -> dict[str, str]:
    """What every request must carry."""
    return {"Authorization": f"Bearer lakana_pat_{_KEY}_{_SECRET}"}


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.perf_counter() + _START_SECONDS
    while time.perf_counter() < end and process.poll() is None:
        try:
            Connection(address, headers()).close()
        except OSError:
            time.sleep(0.05)
            continue
        return
    raise SystemExit(f"lakana's server did not start:\n{log.read_text()[-2000:]}")


def table_path(table: str) -> str:
    """The path of a table's resource."""
    return f"/v1/{_PREFIX}/namespaces/{_NAMESPACE}/tables/{table}"


def create_tables(address: str, folder: Path, names: Sequence[str]) -> None:
    """Make an environment whose files are in `folder`, with tables."""
    connection = Connection(address, headers())
    storage = {"scheme": "file", "root": folder.as_uri(), "options": {}}
    connection.post("/api/v1/environments", {"name": _PREFIX, "storage": storage})
    types = ["long", "string", "string", "string", "decimal(12, 2)", "int", "timestamp"]
    fields = [
        {"id": at, "name": f"column_{at}", "type": kind, "required": at <= 2}
        for at, kind in enumerate(types, 1)
    ]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    for name in names:
        body = {"name": name, "schema": schema}
        connection.post(f"/v1/{_PREFIX}/namespaces/{_NAMESPACE}/tables", body)
    connection.close()


class LakanaCommitter:
    """Commits a property to one table, again and again.

    A snapshot would cost more: lakana reads the manifests that it names, and its metadata file
    grows with each. What is compared is thus the cheapest commit that it has.

    Args:
        address: The server's.
        path: The table's path.
    """

    def __init__(self, address: str, path: str) -> None:
        self._connection = Connection(address, headers())
        self._path = path

    def __call__(self) -> None:
        """Commit once."""
        update = {"action": "set-properties", "updates": {"commit": str(uuid.uuid4())}}
        self._connection.post(self._path, {"requirements": [], "updates": [update]})
