"""A server that is told to stop finishes the commits that have begun, and no others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest
from tests import plain_http
from tests.processes import ServerProcess, address_in
from tests.server import gated_server

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.sql import SqlCatalog
from headwater.storage.schema.table_schema import Schema

# One of the processes that share the tests starts what servers are forked off.
pytestmark = pytest.mark.xdist_group("processes")

Process: TypeAlias = "subprocess.Popen[str] | ServerProcess"
ORDERS = Identifier("sales", "orders")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.modes)], ids=["one", "workers"])
def process(request: pytest.FixtureRequest, tmp_path: Path, gate: Path) -> Iterator[Process]:
    settings = {
        "port": 0,
        "database_url": f"sqlite:///{tmp_path}/headwater.db",
        "warehouses": {"main": str(tmp_path / "lake")},
        "workers": request.param,
        "shutdown_timeout": "60 s" if request.node.originalname.endswith("finished") else "1 s",
    }
    if request.param == 1:
        with ServerProcess(settings, gated_server.serve, str(gate)) as forked:
            yield forked
        return
    # Workers load the program of the process that starts them.
    command = [sys.executable, gated_server.__file__, json.dumps(settings), str(gate)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
        yield started
        started.kill()


@pytest.fixture
def running(process: Process) -> str:
    """The server's address."""
    assert process.stderr is not None
    address = address_in(process.stderr)
    _until(lambda: _answers(address))
    return address


def _answers(address: str) -> bool:
    try:
        return plain_http.get(f"{address}/healthz").status_code == 200
    except httpx.TransportError:
        return False


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _commit(address: str, snapshot: dict[str, object]) -> httpx.Response:
    body: dict[str, object] = {
        "tableId": None,
        "baseSnapshotUuid": None,
        "snapshot": snapshot,
        "statistics": [],
    }
    path = f"{address}/v1/main/databases/sales/tables/orders/commit"
    return plain_http.post(path, json=body, timeout=120)


def test_a_commit_in_flight_is_finished(
    process: Process,
    running: str,
    gate: Path,
    tmp_path: Path,
    schema: dict[str, object],
    snapshot: Callable[..., dict[str, object]],
) -> None:
    database = f"sqlite:///{tmp_path}/headwater.db"
    behind = SqlCatalog.open(database, warehouse="main", location=str(tmp_path / "lake"))
    behind.databases.create("sales")
    behind.tables.create(ORDERS, Schema.from_json(schema))  # type: ignore[arg-type]
    gate.touch()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(_commit, running, snapshot(1))
        _until(gate.with_suffix(".waiting").exists)
        process.send_signal(signal.SIGTERM)
        _until(lambda: not _answers(running))
        assert not answer.done()
        assert process.poll() is None
        gate.unlink()
        assert answer.result(timeout=120).json() == {"success": True}
    assert process.stderr is not None
    log = process.stderr.read()
    assert process.wait(timeout=120) in (0, -signal.SIGTERM)
    assert "Traceback" not in log
    latest = behind.snapshots.latest(ORDERS)
    assert latest is not None
    assert latest.snapshot.uuid == "uuid-1"
    assert behind.operation.backlog().decisions == 0
    behind.close()


@pytest.mark.parametrize("process", [1], indirect=True)
def test_storage_that_never_answers_does_not_keep_it_for_ever(
    process: Process,
    running: str,
    gate: Path,
    tmp_path: Path,
    schema: dict[str, object],
    snapshot: Callable[..., dict[str, object]],
) -> None:
    database = f"sqlite:///{tmp_path}/headwater.db"
    behind = SqlCatalog.open(database, warehouse="main", location=str(tmp_path / "lake"))
    behind.databases.create("sales")
    behind.tables.create(ORDERS, Schema.from_json(schema))  # type: ignore[arg-type]
    gate.touch()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(_commit, running, snapshot(1))
        _until(gate.with_suffix(".waiting").exists)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)
        # Unknown to the client: no answer, or a 5xx; never a success or a refusal.
        error = answer.exception(timeout=120)
        assert isinstance(error, httpx.TransportError) or answer.result().status_code >= 500
    # It is decided, though, and whoever comes by next makes storage follow.
    assert behind.operation.backlog().decisions == 1
    assert behind.operation.sweep().repaired.settled == 1
    latest = behind.snapshots.latest(ORDERS)
    assert latest is not None
    assert latest.snapshot.uuid == "uuid-1"
    behind.close()
