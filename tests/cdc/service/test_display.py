"""A pipeline's display on a terminal."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.cdc.service.conftest import source_url
from tests.cdc.source_logs import SourceServer
from tests.terminals import run_on_terminal

from headwater.cdc.service import PASSWORD_VARIABLE, PipelineOptions
from headwater.cdc.service.display import show
from headwater.cdc.service.running import start
from headwater.client import Lake

pytestmark = pytest.mark.mariadb


def test_a_terminal_shows_each_table(
    lake: Lake, store: SourceServer, options: dict[str, Any]
) -> None:
    store.run("CREATE TABLE days (id INT PRIMARY KEY, d DATE)", "INSERT INTO days VALUES (1, 0)")
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=240, color_system=None)
    pipeline = start(lake, PipelineOptions.parse({**options, "once": True}))
    assert not show(pipeline, console, 60.0)
    last = output.getvalue().rpartition("shop: ")[2]
    assert "lag 0.0 s, 0 bytes of the log left" in last
    assert "last schema change" in last
    (orders,) = [line for line in last.splitlines() if f"{store.database}.orders" in line]
    _, phase, rows, _, seconds, size = orders.split()
    assert (phase, rows, seconds, size) == ("streaming", "2", "0.0", "0")
    (days,) = [line for line in last.splitlines() if f"{store.database}.days" in line]
    assert "quarantined" in days
    assert "0000-00-00" in days


def test_a_small_terminal_shows_first_what_needs_attention(
    lake: Lake, store: SourceServer, options: dict[str, Any]
) -> None:
    for number in range(9):
        store.run(f"CREATE TABLE t{number} (id INT PRIMARY KEY, d DATE)")
    store.run("INSERT INTO t7 VALUES (1, 0)")
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=240, height=8, color_system=None)
    assert not show(start(lake, PipelineOptions.parse({**options, "once": True})), console, 60.0)
    head, columns, first, *others, last = (
        output.getvalue().rpartition("shop: ")[2].rstrip().splitlines()[:7]
    )
    assert "0 bytes of the log left" in head
    assert columns.startswith("table")
    assert f"{store.database}.t7" in first
    assert "quarantined" in first
    assert [line.split()[1] for line in others] == ["streaming"] * 3
    assert last.startswith("and 6 more tables, see: headwater cdc status")


def test_the_command_draws_on_a_terminal(place: Path, store: SourceServer) -> None:
    headwater = Path(sys.executable).with_name("headwater")
    source = ["--source", source_url(store.address), "--include", f"{store.database}.*"]
    drawn, _ = run_on_terminal(
        [headwater, "cdc", "mysql", "--catalog", place, *source, "--target", "lake", "--once"],
        {"COLUMNS": "200", PASSWORD_VARIABLE: store.address.password},
    )
    last = drawn.rpartition(b"batch ")[2]
    assert b"streaming" in last
    assert b'{"' not in drawn
    # The cursor is shown again.
    assert drawn.rstrip().endswith(b"\x1b[?25h")
