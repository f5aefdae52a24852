"""Progress of long work, shown while somebody watches: in a terminal or a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, Timer
from typing import TYPE_CHECKING, TypeVar

from headwater.storage.jobs.executor import Executor

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

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
    task = _BOARD.add(title, total)
    try:
        yield lambda steps: _BOARD.advance(task, steps)
    finally:
        _BOARD.remove(task)


class _Board:
    """The bars of all that runs at once, in one place of the screen.

    It appears half a second after its first bar was added, and goes with its last.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._progress: Progress | None = None
        self._bars = 0
        self._appearance: Timer | None = None

    def add(self, title: str, total: int) -> TaskID:
        with self._lock:
            if self._progress is None:
                self._progress = _new_progress()
                self._appearance = Timer(_DELAY, self._progress.start)
                self._appearance.daemon = True
                self._appearance.start()
            self._bars += 1
            return self._progress.add_task(title, total=total)

    def advance(self, task: TaskID, steps: int) -> None:
        if self._progress is not None:
            self._progress.advance(task, steps)

    def remove(self, task: TaskID) -> None:
        with self._lock:
            if self._progress is None or self._appearance is None:
                return
            self._progress.remove_task(task)
            self._bars -= 1
            if not self._bars:
                self._appearance.cancel()
                self._appearance.join()
                self._progress.stop()
                self._progress = self._appearance = None


_BOARD = _Board()


def _new_progress() -> Progress:
    # Here, as programs that nobody watches need not wait for it.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


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
