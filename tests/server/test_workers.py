"""Several processes answer as one server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.server.test_metrics import counts

from headwater.server.settings import load_settings
from headwater.storage.errors import Invalid


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [
        *(sys.executable, "-m", "headwater.cli.main", "serve", "--port", "0", "--workers", "2"),
        *("--database-url", f"sqlite:///{tmp_path}/headwater.db"),
        *("--warehouse", f"main={tmp_path}/lake", "--log-format", "json"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
        yield started
        started.terminate()
        assert started.wait(timeout=120) in (0, -signal.SIGTERM)


def _get(address: str, path: str) -> httpx.Response | None:
    try:
        return httpx.get(address + path, trust_env=False, timeout=120)
    except httpx.TransportError:
        return None


def test_their_counts_add_up_and_one_that_dies_is_replaced(server: subprocess.Popen[str]) -> None:
    assert server.stderr is not None
    lines = (json.loads(line) for line in server.stderr)
    started = next(line for line in lines if str(line.get("message")).startswith("serving "))
    address = started["message"].rpartition(" ")[2]
    deadline = time.monotonic() + 120
    pids: set[int] = set()
    asked = 0
    while len(pids) < 2:
        assert time.monotonic() < deadline
        if _get(address, "/v1/config") is not None:
            asked += 1
            line = next(line for line in lines if line.get("path") == "/v1/config")
            pids.add(line["process"])
    assert server.pid not in pids
    config = ("headwater_http_requests_total", "GET", "/v1/config", "200")
    assert counts(address)[config] == asked

    os.kill(min(pids), signal.SIGKILL)
    while len(pids) < 3:
        assert time.monotonic() < deadline
        if _get(address, "/v1/config") is not None:
            asked += 1
            line = next(line for line in lines if line.get("path") == "/v1/config")
            pids.add(line["process"])
    found = counts(address)
    # What the dead one counted still counts; what it had open is open no longer.
    assert found[config] == asked
    assert found[("headwater_http_requests_in_progress",)] == 1


@pytest.mark.parametrize("workers", [0, -1, 1000])
def test_their_number_has_bounds(workers: int) -> None:
    with pytest.raises(Invalid, match="workers"):
        load_settings({"workers": workers})


@pytest.mark.parametrize("text", ["soon", "-1 s", "1 fortnight", "9999999999999 d"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="undrop_retention"):
        load_settings({"undrop_retention": text})
