"""Several processes answer as one server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import plain_http
from tests.processes import address_in
from tests.server.test_metrics import counts

from headwater.server.settings import load_settings
from headwater.storage.errors import Invalid


def _command(tmp_path: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "headwater.cli.main", "serve", "--port", "0", "--workers", "2"),
        *("--database-url", f"sqlite:///{tmp_path}/headwater.db"),
        *("--warehouse", f"main={tmp_path}/lake", "--log-format", "json"),
    ]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(_command(tmp_path), stderr=subprocess.PIPE, text=True) as started:
        yield started
        started.terminate()
        assert started.wait(timeout=120) in (0, -signal.SIGTERM)


@pytest.mark.modes
def test_their_counts_add_up_and_one_that_dies_is_replaced(server: subprocess.Popen[str]) -> None:
    assert server.stderr is not None
    address = address_in(server.stderr)
    lines = (json.loads(line) for line in server.stderr)
    first = {_starting(lines), _starting(lines)}
    assert len(first) == 2
    assert server.pid not in first

    def ask() -> int:
        """Ask something; which process answered."""
        plain_http.get(f"{address}/v1/config", timeout=120).raise_for_status()
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


@pytest.mark.modes
def test_workers_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    """And do not hold its port."""
    with subprocess.Popen(_command(tmp_path), stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        address = address_in(started.stderr)
        lines = (json.loads(line) for line in started.stderr)
        assert len({_starting(lines), _starting(lines)}) == 2
        plain_http.get(f"{address}/healthz", timeout=120).raise_for_status()
        started.kill()
        # Until the last process that writes to it is gone.
        said = [str(line.get("message")) for line in lines]
    assert sum("is gone: stopping" in message for message in said) == 2
    host, port = address.removeprefix("http://").split(":")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen()


@pytest.mark.slow
def test_a_worker_that_takes_long_to_start_is_waited_for(tmp_path: Path) -> None:
    """For longer than the five seconds that its parent gives one by itself."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    hold = "import sys\nif '--multiprocessing-fork' in sys.argv:\n    open({!r}).read()\n"
    (tmp_path / "sitecustomize.py").write_text(hold.format(str(gate)))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    log = tmp_path / "log"
    with (
        log.open("w") as sink,
        subprocess.Popen(_command(tmp_path), stderr=sink, env=environment) as started,
    ):
        with gate.open("w"):  # opens when the first worker is there
            with pytest.raises(subprocess.TimeoutExpired):
                started.wait(timeout=8)
            assert "died" not in log.read_text()
            # It can be stopped meanwhile, too.
            started.terminate()
            ended = threading.Thread(target=started.wait)
            ended.start()
            ended.join(timeout=5)
        ended.join()
    said = log.read_text()
    assert "Received SIGTERM" in said
    assert "died" not in said


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
