"""Executors that run a pipeline's tasks in this process, as others would run them elsewhere."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.storage.jobs.executor import ParallelExecutor

Task = TypeVar("Task")
Result = TypeVar("Result")

ON_TASKS = "HEADWATER_TEST_CDC_TASKS"
"""The variable by which all pipelines of the tests run tasks: ``1``."""


class PickledTasks:
    """Runs tasks by threads, each of which gets copies, as another process would.

    Attributes:
        done: How many tasks were run.
    """

    def __init__(self, at_once: int = 2) -> None:
        self.at_once = at_once
        self.done = 0

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Run every task; the results come in the reverse order."""
        self.done += len(tasks)
        sent = [pickle.dumps((work, task)) for task in tasks]
        with ThreadPoolExecutor(self.at_once) as threads:
            running = [threads.submit(_run, pickled) for pickled in sent]
            errors = [error for future in running if (error := future.exception()) is not None]
            for future in reversed(running):
                if future.exception() is None:
                    yield pickle.loads(future.result())
        if errors:
            raise errors[0]


def _run(sent: bytes) -> bytes:
    work, task = pickle.loads(sent)
    return pickle.dumps(work(task))


def chosen_executor() -> ParallelExecutor | None:
    """What the tests' pipelines run tasks by, if they are told to."""
    return PickledTasks() if os.environ.get(ON_TASKS) else None


def with_small_tasks(settings: PipelineSettings) -> PipelineSettings:
    """Settings by which a few rows are many tasks, where pipelines run tasks."""
    return replace(settings, task_rows=3, task_bytes=1) if os.environ.get(ON_TASKS) else settings
