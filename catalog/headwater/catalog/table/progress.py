"""Progress of long work, shown while somebody watches: in a terminal or a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import TypeVar

from headwater.storage.jobs.executor import Executor

__all__ = ["WatchedExecutor", "progress_bar"]

Task = TypeVar("Task")
Result = TypeVar("Result")

# Seconds; what takes less needs no bar.
_DELAY = 0.5


@contextmanager
def progress_bar(title: str, total: int) -> Generator[Callable[[int], None]]:
    """Show a bar on standard error while the block runs, and take it away at its end.

    It appears when the block has run for half a second, and only where standard error is a terminal
    or the program is a notebook.

    Args:
        title: The name of the work.
        total: The steps there are.

    Yields:
        A function to be told that so many more steps are done.
    """
    if not _is_watched():
        yield lambda steps: None
        return
    # Here, as programs that nobody watches need not wait for it.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = progress.add_task(title, total=total)
    appearance = Timer(_DELAY, progress.start)
    appearance.daemon = True
    appearance.start()
    try:
        yield lambda steps: progress.advance(task, steps)
    finally:
        appearance.cancel()
        appearance.join()
        progress.stop()


def _is_watched() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() or type(shell).__name__ == "ZMQInteractiveShell"


@dataclass(frozen=True)
class WatchedExecutor:
    """Runs tasks by another executor, and shows how many are done.

    Attributes:
        title: The name of the work.
        inner: Runs them.
    """

    title: str
    inner: Executor

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Run every task, and give the results as they come."""
        with progress_bar(self.title, len(tasks)) as advance:
            for result in self.inner.run(work, tasks):
                advance(1)
                yield result
