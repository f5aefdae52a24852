"""A source, a catalog server, a lake and a pipeline, each of which can be killed at any time."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

from tests.cdc.pipeline.chaos_sources import ChaosSource
from tests.cdc.pipeline.killed_pipelines import running
from tests.chaos.proxy import Mode, Proxy
from tests.ports import free_port
from tests.processes import ServerProcess, address_in

from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import PipelineState, TablePhase, TableState
from headwater.cdc.service.sources import open_source
from headwater.cdc.service.verify import verify
from headwater.client import Lake, connect
from headwater.migrations import upgrade
from headwater.storage.errors import Unavailable
from headwater.storage.jobs.executor import LocalExecutor

if TYPE_CHECKING:
    from tests.cdc.pipeline.chaos_spark import ChaosCluster

__all__ = ["Scene"]

# A stuck pipeline is a failure; a slow one is not.
_PATIENCE_SECONDS = 300


class _Catalog:
    """A catalog server that is killed and started again, with its database and its port."""

    def __init__(self, folder: Path, location: str, options: Mapping[str, str]) -> None:
        url = f"sqlite:///{folder}/catalog.db"
        upgrade(url)
        self._settings: dict[str, object] = {
            "database_url": url,
            "warehouses": {"main": location},
            "storage_options": dict(options),
            "port": free_port(),
        }
        self.url = f"http://127.0.0.1:{self._settings['port']}"
        self._process: ServerProcess | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = ServerProcess(self._settings)
        address_in(self._process.stderr)
        # Nobody reads the rest: let it go rather than fill the pipe.
        Thread(target=_drain, args=(self._process,), daemon=True).start()

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


class Scene:
    """All of it, and a writer that changes the source.

    Args:
        source: The source.
        folder: An empty folder.
        seed: Of all choices.
        object_store: The port of an object store that has the lake, and its URI; None is a folder.
        cluster: Runs the pipeline's tasks; None has no tasks.
    """

    def __init__(
        self,
        source: ChaosSource,
        folder: Path,
        seed: int,
        object_store: tuple[int, str] | None = None,
        cluster: ChaosCluster | None = None,
    ) -> None:
        self._folder, self._numbers = folder, random.Random(seed)
        self._stack = ExitStack()
        self.log = folder / "errors"
        self.source, self.writer, self._cluster = source, source.writer, cluster
        self._stack.callback(source.close)
        self._pipeline = 0
        self._store: Proxy | None = None
        options: dict[str, str] = {}
        location = str(folder / "warehouse")
        if object_store is not None:
            port, location = object_store
            self._store = Proxy(port)
            self._stack.callback(self._store.close)
            options = {
                "s3.endpoint": f"http://127.0.0.1:{self._store.port}",
                "s3.access-key": "test",
                "s3.secret-key": "test",
                "s3.region": "us-east-1",
            }
        self._options = options
        self.catalog = _Catalog(folder, location, options)
        self._stack.callback(self.catalog.kill)
        # Definitions are asked for often, where the log has no statements.
        self.settings = PipelineSettings(
            *("chaos", "mysql://test", "lake", (source.include,)),
            batch_seconds=0.2,
            range_rows=60,
            look_seconds=0.3,
        )
        if cluster is not None:
            self.settings = replace(self.settings, task_rows=30, task_bytes=500)
        self.lake: Lake = connect(self.catalog.url, options=options)
        self.lake.create_database("lake")

    def close(self) -> None:
        """Kill all of it."""
        self.lake.close()
        self._stack.close()

    def run(self, events: int) -> list[str]:
        """Let as many things happen to it while the writer writes; what they were."""
        happened: list[str] = []
        kinds: list[Callable[[], None]] = [
            *(self._kill_pipeline,) * 4,
            *(self._kill_connections,) * 3,
            *(self._kill_catalog,) * 2,
            self._kill_source,
        ]
        if self._store is not None:
            kinds += [self._lose_store] * 4
        if self._cluster is not None:
            kinds += [*(self._kill_executor,) * 8, *(self._kill_driver,) * 2]
        with self.writer:
            while len(happened) < events:
                is_killed = Event()
                with running(
                    self.catalog.url,
                    self.source.address,
                    self.settings,
                    self.log,
                    self._options,
                    None if self._cluster is None else self._cluster.new_executor,
                ) as process:
                    self._pipeline = process.pid or 0
                    while not is_killed.is_set() and len(happened) < events:
                        self.writer.allow(self._numbers.randint(0, 20))
                        self._wait_for_batches(self._numbers.randint(0, 4), process)
                        process.join(self._numbers.uniform(0, 0.3))
                        event = self._numbers.choice(kinds)
                        happened.append(event.__name__.removeprefix("_"))
                        self._note(happened)
                        event()
                        if event in (self._kill_pipeline, self._kill_driver):
                            is_killed.set()
                        else:
                            assert process.exitcode is None, self.log.read_text()
        return happened

    def _note(self, happened: Sequence[str]) -> None:
        """Tell how far it is, for who waits."""
        with (self._folder / "events").open("a") as file:
            file.write(f"{len(happened)} {happened[-1]}: batch {self._batch()}, ")
            file.write(f"{self.writer.changes} changes, {len(self.writer.errors)} errors\n")

    # What happens -----------------------------------------------------------------------------

    def _kill_pipeline(self) -> None:
        """The process is killed where its block ends."""

    def _kill_driver(self) -> None:
        """A session that has lost its driver ends the pipeline."""
        assert self._cluster is not None
        self._cluster.kill_driver(self._pipeline)
        Event().wait(self._numbers.uniform(0, 1))

    def _kill_executor(self) -> None:
        assert self._cluster is not None
        self._cluster.kill_executor(self._numbers)

    def _kill_source(self) -> None:
        self.source.kill()
        self.source.start()

    def _kill_catalog(self) -> None:
        self.catalog.kill()
        self.catalog.start()

    def _lose_store(self) -> None:
        assert self._store is not None
        self._store.set(self._numbers.choice((Mode.RESET, Mode.LOSE_ANSWERS)))
        # As long as some requests take.
        Event().wait(self._numbers.uniform(0, 0.5))
        self._store.set(Mode.PASS)

    def _kill_connections(self) -> None:
        self.source.kill_connections(self._numbers)

    def _wait_for_batches(self, count: int, process: object) -> None:
        goal, end = self._batch() + count, monotonic() + _PATIENCE_SECONDS
        before = -1
        while (batch := self._batch()) < goal:
            if batch != before:
                before, end = batch, monotonic() + _PATIENCE_SECONDS
            assert monotonic() < end, f"the pipeline is stuck at batch {batch}"
            process.join(0.05)  # type: ignore[attr-defined]
            assert process.exitcode is None, self.log.read_text()  # type: ignore[attr-defined]
            self.writer.allow(self._numbers.randint(0, 1))

    def _state(self) -> PipelineState:
        while True:
            with suppress(Unavailable):
                return PipelineState.open(self.lake, "lake", self.settings.name)

    def _batch(self) -> int:
        plan = self._state().plan()
        return -1 if plan is None else plan.number

    # The end ----------------------------------------------------------------------------------

    def finish(self) -> None:
        """Commit all that the source has."""
        connect_to = partial(open_source, self.source.address, self.settings)
        Pipeline(self.lake, connect_to, self.settings).run(once=True)

    def states(self) -> Mapping[str, TableState]:
        """The tables' states in the last plan."""
        plan = self._state().plan()
        assert plan is not None
        return {TableName.from_escaped(name).table: state for name, state in plan.tables.items()}

    def problems(self) -> Sequence[str]:
        """Tables that are not as the source's, with what is known of them."""
        problems = []
        states = self.states()
        for table in self.source.tables:
            state = states.get(table)
            if state is None or state.phase is not TablePhase.STREAMING:
                problems.append(f"{table}: {state and (state.phase, state.reason)}")
        # Ranges are compared as tasks do it.
        executor = None if self._cluster is None else LocalExecutor(2)
        for verdict in verify(self.lake, self.source.address, self.settings, executor):
            if not verdict.is_equal:
                problems.append(
                    f"{verdict.table.table}: {verdict.problem} "
                    f"{verdict.differences.to_pylist()[:10]} ({verdict.differences.num_rows})"
                )
        return problems

    def columns(self) -> Sequence[str]:
        """Tables whose columns in the lake are not the source's, in their order."""
        columns = self.source.columns()
        wrong = []
        for table in self.source.tables:
            names = [field.name for field in self.lake.table(f"lake.{table}").schema.fields]
            if names != columns[table]:
                wrong.append(f"{table}: {names}, not {columns[table]}")
        return wrong


def _drain(process: ServerProcess) -> None:
    with suppress(ValueError, OSError):
        process.stderr.read()
