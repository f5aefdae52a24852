"""pypaimon calls the operations that its own REST tests leave out."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from .conftest import ROOT, TOKEN, Service


@pytest.mark.interop
def test_pypaimon_renames_asks_and_grants(service: Service) -> None:
    python = ROOT / ".interop" / "pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("no environment for pypaimon: run tests/interop/environments")
    done = subprocess.run(
        [str(python), str(Path(__file__).parent / "clients" / "pypaimon_operations.py")],
        input=json.dumps({"uri": service.uri, "warehouse": "main", "token": TOKEN}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.strip().splitlines()[-1]) == {
        "renamed": [["new name"], ["id"]],
        "authorised": [[], {}],
        "granted": [[["ann", "DESCRIBE"]], []],
    }
