"""A pipeline's display on a terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from tests.cdc.source_logs import SourceServer

from headwater.cdc.service import PipelineOptions
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
