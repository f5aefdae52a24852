"""Several processes answer as one server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def test_their_counts_add_up_and_one_that_dies_is_replaced(server: subprocess.Popen[str]) -> None:
    assert server.stderr is not None
    lines = (json.loads(line) for line in server.stderr)
    started = next(line for line in lines if str(line.get("message")).startswith("serving "))
    address = started["message"].rpartition(" ")[2]
    first = {_starting(lines), _starting(lines)}
    assert len(first) == 2
    assert server.pid not in first

    def ask() -> int:
        """Ask something; which process answered."""
        httpx.get(f"{address}/v1/config", trust_env=False, timeout=120).raise_for_status()
        line = next(line for line in lines if line.get("path") == "/v1/config")
        return int(line["process"])

    asked = 10
    answering = [ask() for _ in range(asked)]
    assert set(answering) <= first
    config = ("headwater_http_requests_total", "GET", "/v1/config", "200")
    assert counts(address)[config] == asked

    os.kill(answering[0], signal.SIGKILL)
    assert _starting(lines) not in first
    assert ask() != answering[0]
    found = counts(address)
    # What the dead one counted still counts; what it had open is open no longer.
    assert found[config] == asked + 1
    assert found[("headwater_http_requests_in_progress",)] == 1


def _starting(lines: Iterator[dict[str, Any]]) -> int:
    """The next process that starts to answer requests."""
    started = "Application startup complete."
    return int(next(line["process"] for line in lines if line.get("message") == started))


@pytest.mark.parametrize("workers", [0, -1, 1000])
def test_their_number_has_bounds(workers: int) -> None:
    with pytest.raises(Invalid, match="workers"):
        load_settings({"workers": workers})


@pytest.mark.parametrize("text", ["soon", "-1 s", "1 fortnight", "9999999999999 d"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="undrop_retention"):
        load_settings({"undrop_retention": text})
