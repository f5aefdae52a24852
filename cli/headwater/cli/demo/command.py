"""`headwater demo`: Headwater's main job on real data, and then where to look."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from headwater.cli.demo.checks import Difference
from headwater.cli.demo.display import Display
from headwater.cli.demo.server_process import ServerProcess
from headwater.cli.demo.session import require_java, spark_session
from headwater.cli.extras import require

__all__ = ["demo"]

_COLUMNS = ["table", "rows", "snapshots", "files before", "after", "seconds"]


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the server running and the data in place.")
    ] = False,
) -> None:
    """Run a year of real flights through a server, Spark and a streaming consumer.

    Every result is compared with what plain Spark computes from the source data; a difference
    ends the demo with exit code 1. It leaves nothing behind, unless told to.
    """
    require("demo", "headwater demo")
    require_java()
    console = Console()
    with _terminated_as_interrupted():
        try:
            _run(console, keep)
        except Difference as difference:
            console.print(f"[red]✗[/red] {difference}", highlight=False, soft_wrap=True)
            sys.exit(1)


def _run(console: Console, keep: bool) -> None:
    from headwater.cli.demo.source import Feed, prepare
    from headwater.cli.demo.story import CHAPTERS, FLIGHTS, HALF, Story
    from headwater.client import connect
    from headwater.spark import connect as connect_spark

    display = Display(console, CHAPTERS + 3)
    with ExitStack() as stack:
        stack.enter_context(display.shown())
        folder = stack.enter_context(_folder(keep))
        with display.step("Start the server") as step:
            server = stack.enter_context(ServerProcess(folder, keep=keep))
            step.note = f"{server.url}, SQLite, warehouse in {folder}"
        with display.step("Start Spark"):
            spark = stack.enter_context(spark_session(folder))
            lake = connect_spark(spark, server.url, warehouse=server.warehouse)
            client = stack.enter_context(connect(server.url, warehouse=server.warehouse))
        with display.step("Read the source data") as step:
            (folder / "source").mkdir()
            prepare(folder / "source")
            feed = Feed(spark, folder / "source", added_from=HALF + 1)
            step.note = (
                f"{feed.flights.count():,} flights, {feed.weather.count():,} hours of weather"
            )
        story = Story(spark, lake, client, feed, folder, display)
        stack.callback(story.stop)
        story.tell()
        rows = story.summary()
    display.table(_COLUMNS, rows)
    display.say(
        f"Every result is what plain Spark computes. It took {display.seconds:.0f} seconds."
    )
    if keep:
        display.say(f"Look at {server.url}/docs, or ask:")
        display.say(f"  headwater table snapshots {FLIGHTS} --catalog {server.url}")
        display.say(f"Stop the server with: kill {server.pid}; then delete {folder}")
    else:
        display.say(
            "Next: run 'headwater demo --keep', which leaves the server running, "
            f"and look at {server.url}/docs"
        )


@contextmanager
def _folder(keep: bool) -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="headwater-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _terminated_as_interrupted() -> Generator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that nothing is left running."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
