"""A Spark cluster whose executors and drivers can be killed at any time."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import spark_home
from tests.spark_sessions import spark_cluster

if TYPE_CHECKING:
    from headwater.spark.jobs.executor import SparkExecutor

__all__ = ["ChaosCluster"]

_EXECUTOR = "CoarseGrainedExecutorBackend"
_DRIVER = "org.apache.spark.deploy.SparkSubmit"


class ChaosCluster:
    """A standalone cluster of two workers.

    Args:
        folder: A folder that is not there yet.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder / "cluster"
        self._folder.mkdir()
        self._home = str(spark_home(folder / "home"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SPARK_HOME", self._home)
            patch.setenv("PYSPARK_PYTHON", sys.executable)
            self._cluster = spark_cluster(self._folder)
            self._master = self._cluster.__enter__()

    def close(self) -> None:
        """Stop it."""
        self._cluster.__exit__(None, None, None)

    @property
    def new_executor(self) -> Callable[[], SparkExecutor]:
        """Makes a session's executor in another process; it pickles."""
        return partial(_executor, self._master, self._home)

    def kill_executor(self, numbers: random.Random) -> None:
        """Kill an executor with its tasks, if one runs."""
        executors = [
            process
            for process, command in _commands()
            if _EXECUTOR in command and self._is_ours(process)
        ]
        if executors:
            _kill(numbers.choice(sorted(executors)))

    def kill_driver(self, pipeline: int) -> None:
        """Kill the Java process of a pipeline's session, if it has one."""
        for process, command in _commands():
            if _DRIVER in command and _parent(process) == pipeline:
                _kill(process)

    def _is_ours(self, process: int) -> bool:
        try:
            return Path(f"/proc/{process}/cwd").resolve().is_relative_to(self._folder)
        except OSError:
            return False


def _executor(master: str, home: str) -> SparkExecutor:
    os.environ |= {"SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable}
    # Here, as the processes of other tests do without it.
    from headwater.spark.jobs.executor import SparkExecutor
    from headwater.spark.session import session_at

    settings = {
        "spark.log.level": "FATAL",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    return SparkExecutor(session_at(master, "chaos", memory="512m", settings=settings))


def _commands() -> Iterator[tuple[int, str]]:
    """All processes and their command lines."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield int(folder.name), (folder / "cmdline").read_bytes().decode(errors="replace")


def _parent(process: int) -> int | None:
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    return int(status.rpartition(")")[2].split()[1])


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
