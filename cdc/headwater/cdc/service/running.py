"""A pipeline that runs in a thread of this process."""

from __future__ import annotations

from contextlib import closing
from threading import Thread
from types import TracebackType
from typing import Self

from headwater.cdc.model.tables import Finding
from headwater.cdc.pipeline.pipeline import Pipeline
from headwater.cdc.pipeline.progress import PipelineProgress
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.start_check import start_findings, start_problems
from headwater.cdc.pipeline.state import PipelineState
from headwater.cdc.service.executors import executor_findings
from headwater.cdc.service.options import PipelineOptions
from headwater.cdc.service.sources import SourceKind, open_source, source_kind
from headwater.client.lake import Lake
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.jobs.executor import ParallelExecutor

__all__ = ["RunningPipeline", "check", "start"]


class RunningPipeline:
    """A pipeline that runs in a thread. As a context manager it is stopped at the end.

    Args:
        pipeline: The pipeline.
        once: Whether it ends when all that the source has at the start is committed.
    """

    def __init__(self, pipeline: Pipeline, *, once: bool = False) -> None:
        self._pipeline, self._once = pipeline, once
        self._error: BaseException | None = None
        self._all_followed = True
        self._thread = Thread(target=self._run, name=f"cdc-{self.name}", daemon=True)
        self._thread.start()

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self._pipeline.settings.name

    @property
    def settings(self) -> PipelineSettings:
        """What it runs with."""
        return self._pipeline.settings

    @property
    def is_running(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive()

    def status(self) -> PipelineProgress:
        """What it does."""
        return self._pipeline.progress.read()

    def stop(self) -> None:
        """Ask it to end after the batch that is being written."""
        self._pipeline.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended; raise what ended it.

        Args:
            timeout: How long to wait at most, in seconds.

        Returns:
            Whether all tables are followed; False if some are quarantined.

        Raises:
            TimeoutError: It still runs.
            HeadwaterError: What ended it.
        """
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"pipeline '{self.name}' still runs after {timeout:g} s; stop it")
        if self._error is not None:
            raise self._error
        return self._all_followed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if isinstance(error, KeyboardInterrupt):
            # Asked twice: what was planned is committed by the next start.
            return
        self._thread.join()
        # What went wrong in the block is not hidden by what ended the pipeline.
        if error is None:
            self.wait()

    def __repr__(self) -> str:
        progress = self.status()
        state = "running" if self.is_running else "ended" if self._error is None else "failed"
        return (
            f"Pipeline {self.name}: {state}, {len(progress.tables)} tables into "
            f"{self.settings.target}, batch {max(progress.batch, 0)}"
        )

    def _run(self) -> None:
        try:
            self._all_followed = self._pipeline.run(once=self._once)
        except BaseException as error:  # noqa: BLE001 - it is raised by `wait`
            self._error = error


def start(
    lake: Lake, options: PipelineOptions, executor: ParallelExecutor | None = None
) -> RunningPipeline:
    """Start a pipeline.

    Args:
        lake: The lake.
        options: The pipeline's.
        executor: Runs tasks elsewhere, such as Spark's; None does all the work in this process.

    Raises:
        Invalid: An option is wrong; or a new pipeline cannot follow its tables. Nothing was
            created.
        Forbidden: The source rejects the user or the password.
        Unavailable: A new pipeline cannot reach its source; one that ran before waits for it.
        Unsupported: The source is Kafka, and tasks are to be run elsewhere.
    """
    address, settings = options.address(), options.settings()
    _check_executor(executor, settings)
    state = PipelineState.existing(lake, settings.target, settings.name)
    is_new = state is None or state.plan() is None
    findings: list[Finding] = []
    if is_new:
        with closing(open_source(address, settings)) as source:
            findings += start_problems(lake, source, settings)
    if executor is not None and not findings:
        # One that ran before waits for its source.
        findings += executor_findings(executor, settings, address if is_new else None)
    if findings:
        raise Invalid(f"pipeline '{settings.name}' cannot start: {'; '.join(map(str, findings))}")
    pipeline = Pipeline(lake, lambda: open_source(address, settings), settings, executor)
    return RunningPipeline(pipeline, once=options.once)


def check(
    lake: Lake, options: PipelineOptions, executor: ParallelExecutor | None = None
) -> list[Finding]:
    """Everything that keeps a pipeline from being started, and notes; nothing is created.

    Args:
        lake: The lake.
        options: The pipeline's.
        executor: Would run tasks of the pipeline elsewhere.

    Raises:
        Invalid: An option is wrong.
        Forbidden: The source rejects the user or the password.
        Unavailable: It cannot be reached.
        Unsupported: The source is Kafka, and tasks are to be run elsewhere.
    """
    address, settings = options.address(), options.settings()
    _check_executor(executor, settings)
    with closing(open_source(address, settings)) as source:
        findings = start_findings(lake, source, settings)
    if executor is None:
        return findings
    # Notes stay at the end.
    return [*executor_findings(executor, settings, address), *findings]


def _check_executor(executor: ParallelExecutor | None, settings: PipelineSettings) -> None:
    """Check that tasks of a pipeline may be run elsewhere; Unsupported."""
    if executor is not None and source_kind(settings.source) is SourceKind.KAFKA:
        raise Unsupported(
            "the source is Kafka, which is not followed with Spark; leave --spark out, or use the "
            "lake of headwater.client.connect"
        )
