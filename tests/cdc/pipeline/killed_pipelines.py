"""Pipelines in processes that are killed, and a writer that changes their source meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from headwater.cdc.mysql.server import Address, MySQLServer
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.service.sources import Address as SourceAddress
from headwater.cdc.service.sources import open_source
from headwater.client import Lake, connect
from headwater.storage.errors import Conflict, HeadwaterError, Unavailable
from headwater.storage.jobs.executor import ParallelExecutor

NewExecutor = Callable[[], ParallelExecutor]
"""Makes what runs tasks of a pipeline, in the pipeline's process."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["headwater.cdc.service.sources", "headwater.client"])


def _run(
    lake: str,
    address: SourceAddress,
    settings: PipelineSettings,
    log: Path,
    options: Mapping[str, str] | None,
    new_executor: NewExecutor | None,
) -> None:
    """The process: it follows the source until it is killed."""
    warehouse = _connected(lake, options)
    executor = None if new_executor is None else new_executor()
    while True:
        try:
            Pipeline(warehouse, lambda: open_source(address, settings), settings, executor).run()
        except Conflict as error:
            # The source has not noticed yet that the process before is gone.
            if "runs in another process" in error.message:
                continue
            _note(log, error)
            raise
        except Exception as error:
            _note(log, error)
            raise


def _connected(lake: str, options: Mapping[str, str] | None) -> Lake:
    while True:
        with suppress(Unavailable):
            return connect(lake, options=options)


def _note(log: Path, error: Exception) -> None:
    with log.open("a") as file:
        file.writelines(traceback.format_exception(error))


@contextmanager
def running(
    lake: str,
    address: SourceAddress,
    settings: PipelineSettings,
    log: Path,
    options: Mapping[str, str] | None = None,
    new_executor: NewExecutor | None = None,
) -> Iterator[multiprocessing.process.BaseProcess]:
    """A pipeline in a process of its own, which is killed at the end."""
    process = _CONTEXT.Process(
        target=_run, args=(lake, address, settings, log, options, new_executor), daemon=True
    )
    process.start()
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid or 0, signal.SIGKILL)
        process.join()


class Writer:
    """Changes a source until it is stopped.

    Args:
        address: The source.
        database: Its database.
        statements: Gives the next transaction's statements.
        seed: Of the random numbers that it is given.
        pause_seconds: How long it pauses after each transaction, so that a pipeline whose batches
            are slow keeps up.
    """

    def __init__(
        self,
        address: Address,
        database: str,
        statements: Callable[[random.Random], list[str]],
        seed: int,
        pause_seconds: float = 0.0,
    ) -> None:
        self._address, self._database = address, database
        self._statements, self._random = statements, random.Random(seed)
        self._stop, self._pause_seconds = Event(), pause_seconds
        self.transactions = 0
        self.errors: list[str] = []
        self._thread = Thread(target=self._write, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        server: MySQLServer | None = None
        while not self._stop.wait(self._pause_seconds):
            try:
                if server is None:
                    server = MySQLServer(self._address)
                    server.rows(f"USE `{self._database}`")
                for statement in self._statements(self._random):
                    server.rows(statement)
                self.transactions += 1
            except HeadwaterError as error:
                self.errors.append(error.message)
                if server is not None:
                    server.close()
                server = None
        if server is not None:
            server.close()
