"""`deploy/compose.yaml` and the Dockerfile: what they name exists, and starts in this order."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import plain_http
from tests.processes import run_command

from headwater.server.settings import ServerSettings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SETTINGS = {
    "HEADWATER_WAREHOUSES",
    "HEADWATER_TOKENS",
    *(f"HEADWATER_{name.upper()}" for name in ServerSettings.model_fields),
}


def _variables(text: str) -> dict[str, str]:
    """The variables that the Dockerfile's ENV sets."""
    joined = text.replace("\\\n", " ")
    lines = [line.removeprefix("ENV ") for line in joined.splitlines() if line.startswith("ENV ")]
    return dict(pair.split("=", 1) for line in lines for pair in shlex.split(line))


def test_every_variable_is_a_setting() -> None:
    named = {name for name in _variables(DOCKERFILE) if name.startswith("HEADWATER_")}
    named |= set(COMPOSE["services"]["server"]["environment"])
    # The last is PostgreSQL's own.
    assert named - SETTINGS == {"PGPASSWORD"}


def test_every_folder_of_the_build_is_there_and_sent() -> None:
    sent = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }
    lines = [line for line in DOCKERFILE.splitlines() if line.startswith("COPY ")]
    names = {name for line in lines if "--from" not in line for name in line.split()[1:-1]}
    assert names == sent
    assert all((ROOT / name).exists() for name in names)
    for root in re.findall(r'"(\w+)/headwater"', (ROOT / "pyproject.toml").read_text()):
        assert root in names


def test_the_server_waits_for_the_upgrade_and_that_for_the_database() -> None:
    services = COMPOSE["services"]
    assert services["server"]["depends_on"] == {
        "upgrade": {"condition": "service_completed_successfully"}
    }
    assert services["upgrade"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    # Only this machine, unless somebody decides otherwise.
    assert all(port.startswith("127.0.0.1:") for port in services["server"]["ports"])
    grace = int(services["server"]["stop_grace_period"].removesuffix("s"))
    assert grace > ServerSettings().shutdown_timeout.total_seconds()


@pytest.mark.modes
@pytest.mark.postgresql
def test_its_steps_bring_up_a_server(
    tmp_path: Path, new_postgresql_database: Callable[[], str]
) -> None:
    """The commands of its services, with the variables of the Dockerfile and of its own."""
    url = new_postgresql_database()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")}
    environment = {k: v for k, v in _variables(DOCKERFILE).items() if k.startswith("HEADWATER_")}
    for name, value in COMPOSE["services"]["server"]["environment"].items():
        if value is not None:
            environment[name] = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
    assert environment["HEADWATER_DATABASE_URL"].startswith("postgresql://")
    environment |= {
        "HEADWATER_DATABASE_URL": url,
        "HEADWATER_WAREHOUSES": f"main={tmp_path}/warehouse",
        "HEADWATER_HOST": "127.0.0.1",
        "HEADWATER_PORT": "0",
    }

    variables = {**inherited, **environment}

    def ends(*words: str) -> subprocess.CompletedProcess[str]:
        return run_command(words, tmp_path, variables)

    early = ends("serve")
    assert early.returncode == 1
    assert "headwater db upgrade" in early.stderr
    upgraded = ends(*COMPOSE["services"]["upgrade"]["command"])
    assert upgraded.returncode == 0, upgraded.stderr
    made = ends("token", "create", "me", "--scope", "administer")
    assert made.returncode == 0, made.stderr
    headers = {"authorization": f"Bearer {made.stdout.strip()}"}
    log = tmp_path / "log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "headwater.cli.main", "serve"],
            stderr=output,
            env=variables,
            cwd=tmp_path,
        )
    try:
        deadline = time.monotonic() + 120
        while not (found := re.search(r"serving main at (http://[^\"]+)", log.read_text())):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with plain_http.Client(base_url=found[1], timeout=120) as client:
            assert client.get("/readyz").status_code == 200
            assert client.get("/v1/config").status_code == 401
            assert client.get("/v1/config", headers=headers).status_code == 200
    finally:
        server.terminate()
        server.wait(timeout=120)
