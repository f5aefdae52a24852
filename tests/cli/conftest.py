"""The real command, and a catalog for it to look at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from tests.processes import run_command

from headwater.cli.main import app, main

Headwater = Callable[..., "subprocess.CompletedProcess[str]"]


@cache
def _command() -> Callable[[], object]:
    """The command line, which takes a tenth of a second to build from its functions."""
    return typer.main.get_command(app)


@pytest.fixture
def headwater(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Headwater:
    """Runs `headwater` with arguments in an empty folder; keyword arguments are variables.

    It runs in this process, because loading Arrow anew for each test takes a second.
    """
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        code = 0
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["headwater", *arguments])
            patch.setattr("headwater.cli.main.app", _command())
            for name, value in variables.items():
                patch.setenv(name, value)
            try:
                main()
            except SystemExit as exit_:
                code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        output = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, output.out, output.err)

    return run


@pytest.fixture
def headwater_process(tmp_path: Path) -> Headwater:
    """The same as a process of its own."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")}
        return subprocess.run(
            [sys.executable, "-m", "headwater.cli.main", *arguments],
            cwd=tmp_path,
            env={**inherited, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture
def headwater_fork(tmp_path: Path) -> Headwater:
    """The same as a process of its own that finds all modules imported."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")}
        return run_command(arguments, tmp_path, {**inherited, **variables})

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An embedded catalog: two databases, a primary-key table with two commits and a tag."""
    from headwater.client import connect

    place = tmp_path_factory.mktemp("lake")
    with connect(place) as lake:
        lake.create_database("empty")
        lake.create_database("sales")
        orders = lake.create_table(
            "sales.orders",
            pa.schema(
                [
                    pa.field("order_id", pa.int64(), nullable=False),
                    pa.field("dt", pa.string(), nullable=False),
                    pa.field("amount", pa.float64()),
                ]
            ),
            primary_keys=["dt", "order_id"],
            partition_keys=["dt"],
            options={"bucket": "1"},
            comment="what was sold",
        )
        orders.write({"order_id": [1, 2], "dt": ["a", "b"], "amount": [1.5, 2.5]})
        orders.write({"order_id": [2], "dt": ["b"], "amount": [3.5]})
        lake.catalog.consumers.reset(orders.info.identifier, "billing", 2)
        lake.create_table("sales.unwritten", pa.schema([("id", pa.int64())]))
    return place
