"""Headwater's server as a process, and what a client sends it."""

from __future__ import annotations

import json
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

__all__ = [
    "ORDINARY",
    "WAREHOUSE",
    "Committer",
    "create_tables",
    "server",
    "snapshot",
    "table_path",
]

WAREHOUSE = "main"
ORDINARY = "?way=ordinary"
"""A query that means nothing: a request with one does not take the fast lane."""
_START_SECONDS = 60.0
_FIELDS = [
    {"id": 0, "name": "order_id", "type": "BIGINT NOT NULL"},
    {"id": 1, "name": "dt", "type": "STRING NOT NULL"},
    {"id": 2, "name": "customer", "type": "STRING"},
    {"id": 3, "name": "status", "type": "STRING"},
    {"id": 4, "name": "amount", "type": "DECIMAL(12, 2)"},
    {"id": 5, "name": "quantity", "type": "INT"},
    {"id": 6, "name": "ordered_at", "type": "TIMESTAMP(6)"},
]


@contextmanager
def server(database_url: str, folder: Path, options: Sequence[str] = ()) -> Iterator[str]:
    """The address of a server over an upgraded database; its files are in `folder`."""
    port = free_port()
    command = [sys.executable, "-m", "headwater.cli.main", "serve", "--port", str(port)]
    command += ["--database-url", database_url, "--warehouse", f"{WAREHOUSE}={folder}", *options]
    log = folder.with_suffix(".log")
    environment = {**os.environ, "HEADWATER_MAX_REQUESTS_PER_SECOND": "0"}
    with (
        log.open("wb") as sink,
        subprocess.Popen(command, stderr=sink, env=environment) as process,
    ):
        address = f"http://127.0.0.1:{port}"
        try:
            _wait_for(address, process, log)
            yield address
        finally:
            process.terminate()


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.perf_counter() + _START_SECONDS
    while time.perf_counter() < end and process.poll() is None:
        try:
            connection = Connection(address)
            connection.get("/v1/config")
        except OSError:
            time.sleep(0.05)
            continue
        connection.close()
        return
    raise SystemExit(f"Headwater's server did not start:\n{log.read_text()[-2000:]}")


def table_path(database: str, table: str) -> str:
    """The path of a table's resource."""
    return f"/v1/{WAREHOUSE}/databases/{database}/tables/{table}"


def create_tables(address: str, database: str, names: Sequence[str]) -> None:
    """Make a database with partitioned primary-key tables."""
    connection = Connection(address)
    connection.post(f"/v1/{WAREHOUSE}/databases", {"name": database, "options": {}})
    schema = {
        "fields": _FIELDS,
        "partitionKeys": ["dt"],
        "primaryKeys": ["dt", "order_id"],
        "options": {"bucket": "4", "changelog-producer": "input", "snapshot.time-retained": "1 h"},
        "comment": "orders",
    }
    for name in names:
        body = {"identifier": {"database": database, "object": name}, "schema": schema}
        connection.post(f"/v1/{WAREHOUSE}/databases/{database}/tables", body)
    connection.close()


def snapshot(snapshot_id: int, name: str) -> dict[str, object]:
    """A snapshot's JSON, with the fields that Paimon's writers of today send."""
    return {
        "version": 3,
        "uuid": name,
        "id": snapshot_id,
        "schemaId": 0,
        "baseManifestList": f"manifest-list-{name}-0",
        "baseManifestListSize": 1021,
        "deltaManifestList": f"manifest-list-{name}-1",
        "deltaManifestListSize": 994,
        "commitUser": "3f2c1d0e-5b7a-4c9d-8e6f-0a1b2c3d4e5f",
        "commitIdentifier": snapshot_id,
        "commitKind": "APPEND",
        "timeMillis": 1_767_225_600_000 + snapshot_id,
        "totalRecordCount": 1000 * snapshot_id,
        "deltaRecordCount": 1000,
        "watermark": 1_767_225_600_000,
        "nextRowId": 0,
    }


def statistics() -> dict[str, object]:
    """What a commit changed in one partition."""
    return {
        "spec": {"dt": "2026-01-01"},
        "recordCount": 1000,
        "fileSizeInBytes": 65_536,
        "fileCount": 4,
        "lastFileCreationTime": 1_767_225_600_000,
        "totalBuckets": 4,
    }


class Committer:
    """Commits to one table, each snapshot on top of the one before.

    Args:
        address: The server's.
        path: The table's path.
        snapshot_id: The table's latest snapshot; 0 for none.
        base: Its uuid.
        query: The URL's query.
    """

    def __init__(
        self,
        address: str,
        path: str,
        snapshot_id: int = 0,
        base: str | None = None,
        query: str = "",
    ) -> None:
        self._connection = Connection(address)
        self._path = f"{path}/commit{query}"
        self._id = snapshot_id
        self._base = base

    def __call__(self) -> None:
        """Commit once."""
        name = str(uuid.uuid4())
        body = {
            "tableId": None,
            "baseSnapshotUuid": self._base,
            "snapshot": snapshot(self._id + 1, name),
            "statistics": [statistics()],
        }
        answer = json.loads(self._connection.post(self._path, body))
        if answer != {"success": True}:
            raise RuntimeError(f"commit {self._id + 1} of {self._path} was answered {answer}")
        self._id, self._base = self._id + 1, name
