"""`headwater cdc demo`: real flights, followed from a MariaDB server into a lake."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headwater.cli.cdc.demo_source import DATABASE, TABLES, changing, load, mariadb_server
from headwater.cli.demo.display import Display, Step
from headwater.cli.extras import require
from headwater.storage.errors import Unavailable

if TYPE_CHECKING:
    from headwater.cdc.mysql.server import MySQLServer
    from headwater.client import Lake
    from headwater.client.cdc import FollowedSource, FollowOptions

__all__ = ["demo"]

_STEPS = 6
_TARGET = "nyc_lake"
_LOOK_SECONDS = 0.5


def demo(
    seconds: Annotated[
        float, typer.Option(min=1, help="How long rows and schemas change, in seconds.")
    ] = 45.0,
) -> None:
    """Follow a year of real flights from a MariaDB server into a lake while they change.

    It needs MariaDB's server programs. At the end each table is compared with its source; a
    difference ends the demo with exit code 1. It leaves nothing behind.
    """
    require("demo", "headwater cdc demo")
    display = Display(Console(), _STEPS)
    with display.shown(), _folder() as folder:
        is_equal = _run(display, folder, seconds)
    if not is_equal:
        raise typer.Exit(1)
    display.say(f"All tables are equal. It took {display.seconds:.0f} seconds.")


def _run(display: Display, folder: Path, seconds: float) -> bool:
    from headwater.cdc.mysql.server import Address, MySQLServer
    from headwater.client import connect

    for name in ("server", "source"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        with display.step("Start MariaDB") as step:
            url = stack.enter_context(mariadb_server(folder / "server"))
            step.note = f"{url}, its log is on"
        admin = stack.enter_context(MySQLServer(Address.from_url(url)))
        with display.step("Load a year of flights into it") as step:
            step.note = f"{load(admin, folder / 'source'):,} rows in {len(TABLES)} tables"
        lake = stack.enter_context(connect(folder / "lake"))
        lake.create_database(_TARGET)
        return _follow(display, lake, admin, url, seconds)


def _follow(display: Display, lake: Lake, admin: MySQLServer, url: str, seconds: float) -> bool:
    options: FollowOptions = {
        "source": url,
        "include": [f"{DATABASE}.*"],
        "target": _TARGET,
        "name": "demo",
        "batch_seconds": 1.0,
    }
    with changing(url, seconds) as writer, lake.cdc.mysql(**options) as pipeline:
        with display.step("Take the snapshot while rows change") as step:
            _wait(pipeline, step, lambda: _is_streaming(pipeline))
        with display.step("Follow changes of rows and schemas") as step:
            _wait(pipeline, step, lambda: not writer.is_alive())
            if writer.exitcode != 0:
                raise Unavailable("the process that changes rows ended; see its message above")
    with display.step("Go on after a stop, up to the end of the log") as step:
        last = lake.cdc.mysql(**options, once=True)
        all_followed = last.wait()
        step.note = _state(last)
    with display.step("Compare each table with its source") as step:
        rows, is_equal = _compared(lake, admin)
        step.note = "all keys and values, at one position"
    display.table(["table", "rows", "in the lake", "differences", "snapshots"], rows)
    return all_followed and is_equal


def _wait(pipeline: FollowedSource, step: Step, is_done: Callable[[], bool]) -> None:
    """Wait for something, and show how far the pipeline is."""
    while not is_done():
        if not pipeline.is_running:
            pipeline.wait()  # raises what ended it
        step.at(_state(pipeline))
        sleep(_LOOK_SECONDS)
    step.note = _state(pipeline)


def _is_streaming(pipeline: FollowedSource) -> bool:
    tables = pipeline.status().tables.values()
    return len(tables) >= len(TABLES) and all(str(table.phase) == "streaming" for table in tables)


def _state(pipeline: FollowedSource) -> str:
    progress = pipeline.status()
    rows = sum(table.rows for table in progress.tables.values())
    phases = Counter(str(table.phase) for table in progress.tables.values())
    counts = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
    reasons = {table.reason for table in progress.tables.values() if table.reason}
    return f"batch {max(progress.batch, 0)}, {rows:,} rows, {'; '.join([counts, *sorted(reasons)])}"


def _compared(lake: Lake, admin: MySQLServer) -> tuple[list[list[str]], bool]:
    """A line for each table, and whether all are equal."""
    from headwater.cdc.service.status import the_pipeline
    from headwater.cdc.service.verify import verify

    settings = the_pipeline(lake, _TARGET).started_with()
    lines, is_equal = [], True
    for verdict in verify(lake, admin.address, settings):
        differences = verdict.differences.num_rows
        is_equal &= verdict.is_equal
        snapshots = len(lake.table(f"{_TARGET}.{verdict.table.table}").snapshots())
        difference = verdict.problem or f"{differences:,}"
        counts = (f"{verdict.source_rows:,}", f"{verdict.lake_rows:,}", difference)
        lines.append([str(verdict.table), *counts, f"{snapshots:,}"])
    return lines, is_equal


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="headwater-cdc-demo-"))
    # The server runs as another user, and reads its files there.
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
