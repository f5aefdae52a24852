"""A running pipeline on a terminal, or as a line of JSON per interval elsewhere."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater.cdc.pipeline.state import TablePhase
from headwater.cdc.service.figures import Figures, Sampler, TableFigures
from headwater.cdc.service.running import RunningPipeline
from headwater.storage.printable import printable, printable_json

__all__ = ["show"]

_TERMINAL_SECONDS = 0.5
# The lines above the tables, and the one that the cursor is in.
_OTHER_LINES = 3
_COLORS = {"streaming": "green", "quarantined": "red", "gone": "dim"}
_COLUMNS = (
    *("table", "phase", "rows", "rows/s", "lag s", "lag bytes"),
    *("last schema change", "reason"),
)
_NUMBERS = ("rows", "rows/s", "lag s", "lag bytes")


def show(pipeline: RunningPipeline, console: Console, interval: float) -> bool:
    """Show a pipeline until it has ended.

    Args:
        pipeline: The pipeline.
        console: Where to; one that is not a terminal gets a line of JSON per interval.
        interval: How long an interval is, in seconds.

    Returns:
        Whether all tables are followed; False if some are quarantined.

    Raises:
        HeadwaterError: What ended it.
    """
    sampler = Sampler(pipeline)
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    shown: AbstractContextManager[object] = live if live is not None else nullcontext()
    with shown:
        while True:
            try:
                followed = pipeline.wait(_TERMINAL_SECONDS if live is not None else interval)
            except TimeoutError:
                _print(sampler.sample(), console, live)
                continue
            finally:
                if not pipeline.is_running:
                    _print(sampler.sample(), console, live)
            return followed


def _print(figures: Figures, console: Console, live: Live | None) -> None:
    if live is not None:
        live.update(_drawn(figures, console.height), refresh=True)
        return
    line = printable_json(json.dumps(figures.document(), ensure_ascii=False))
    console.file.write(line + "\n")
    console.file.flush()


def _drawn(figures: Figures, height: int) -> Group:
    rows, hidden = list(figures.tables), 0
    if len(rows) > height - _OTHER_LINES:
        # Those that need attention come first.
        rows.sort(key=lambda row: row.phase == TablePhase.STREAMING)
        hidden = len(rows) - max(1, height - _OTHER_LINES - 1)
        rows = rows[: len(rows) - hidden]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name in _NUMBERS else "left")
    for row in rows:
        table.add_row(*_cells(row))
    if not hidden:
        return Group(_head(figures), table)
    more = Text(f"and {hidden} more tables, see: headwater cdc status", style="dim")
    return Group(_head(figures), table, more)


def _head(figures: Figures) -> Text:
    head = Text(f"{figures.pipeline}: ")
    if figures.waits_for is not None:
        return head.append(f"waits: {printable(figures.waits_for)}", style="yellow")
    if figures.batch < 0:
        return head.append("starting")
    seconds = "unknown" if figures.lag_seconds is None else f"{figures.lag_seconds:,.1f} s"
    size = "unknown" if figures.lag_bytes is None else f"{figures.lag_bytes:,} bytes"
    return head.append(f"batch {figures.batch}, lag {seconds}, {size} of the log left")


def _cells(row: TableFigures) -> tuple[Text, ...]:
    return (
        Text(printable(row.table)),
        Text(row.phase, style=_COLORS.get(row.phase, "yellow")),
        Text(f"{row.rows:,}"),
        Text(f"{row.rows_per_second:,.0f}"),
        Text("-" if row.lag_seconds is None else f"{row.lag_seconds:,.1f}"),
        Text("-" if row.lag_bytes is None else f"{row.lag_bytes:,}"),
        Text(printable(row.schema_change or "")),
        Text(printable(row.reason or "")),
    )
