"""The demo's progress: a line for each step done, the step under way, the closing table."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = ["Display", "Step"]


class Step:
    """One step under way.

    Attributes:
        note: The result, shown when it is done.
    """

    def __init__(self, progress: Progress, task: TaskID, title: str) -> None:
        self._progress = progress
        self._task = task
        self._title = title
        self.note = ""

    def at(self, text: str) -> None:
        """Say which part of the step is under way."""
        self._progress.update(self._task, description=f"{self._title}: {text}")


class Display:
    """The demo's progress on a console; in a file, just its lines.

    Args:
        console: The console to show it on.
        steps: The number of steps.
    """

    def __init__(self, console: Console, steps: int) -> None:
        self._console = console
        self._steps = steps
        self._started = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=steps)

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._started

    @contextmanager
    def shown(self) -> Generator[None]:
        """Show the progress on the console while the block runs."""
        with self._progress:
            yield

    @contextmanager
    def step(self, title: str) -> Generator[Step]:
        """A step; when it is done, its title, its note and its seconds stay on the console."""
        started = time.monotonic()
        self._progress.update(self._task, description=title)
        step = Step(self._progress, self._task, title)
        yield step
        seconds = time.monotonic() - started
        console = self._progress.console
        console.print(f"[green]✓[/green] {title} [cyan]{seconds:.1f} s[/cyan]", highlight=False)
        if step.note:
            console.print(f"  [dim]{escape(step.note)}[/dim]", highlight=False, soft_wrap=True)
        self._progress.advance(self._task)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """The closing table: the first column is names, the others are numbers."""
        drawn = Table(header_style="bold")
        for position, name in enumerate(columns):
            drawn.add_column(name, justify="right" if position else "left", no_wrap=True)
        for row in rows:
            drawn.add_row(*row)
        self._console.print(drawn)

    def say(self, text: str) -> None:
        """A line of text."""
        self._console.print(escape(text), highlight=False, soft_wrap=True)
