"""The executors of a job's tasks: this process, or anything else that runs a function elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol, TypeVar

__all__ = ["Executor", "LocalExecutor", "ParallelExecutor"]

Task = TypeVar("Task")
Result = TypeVar("Result")


class Executor(Protocol):
    """A way to run the tasks of a job."""

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Run every task, and give the results as they come, in any order.

        When a task fails, the results of those that are done or under way still come before its
        error is raised, so that the caller knows of all that was done; others may be left out.

        Args:
            work: Does a task. It pickles, and so do tasks and results.
            tasks: The tasks, the longest first.
        """
        ...


class ParallelExecutor(Executor, Protocol):
    """An executor for work that is divided by how many tasks run at once."""

    @property
    def at_once(self) -> int:
        """How many tasks run at once, at most."""
        ...


@dataclass(frozen=True)
class LocalExecutor:
    """Runs tasks in this process.

    Attributes:
        threads: Tasks that run at once, at most; with one they run in the order given.
    """

    threads: int = 1

    @property
    def at_once(self) -> int:
        """How many tasks run at once, at most."""
        return self.threads

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Run every task, and give the results as they come."""
        if self.threads == 1 or len(tasks) < 2:
            yield from map(work, tasks)
            return
        failure: BaseException | None = None
        with ThreadPoolExecutor(self.threads) as pool:
            running = [pool.submit(work, task) for task in tasks]
            try:
                for done in as_completed(running):
                    if done.cancelled():
                        continue
                    error = done.exception()
                    if error is None:
                        yield done.result()
                    elif failure is None:
                        failure = error
                        _cancel(running)
            finally:
                _cancel(running)
        if failure is not None:
            raise failure


def _cancel(running: Sequence[Future[Result]]) -> None:
    """Let nothing begin that has not begun."""
    for future in running:
        future.cancel()
