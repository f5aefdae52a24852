"""What keeps the tasks of an executor from the work of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from headwater.cdc.model.tables import Finding
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.service.sources import Address, open_source
from headwater.storage.errors import HeadwaterError, Unsupported
from headwater.storage.jobs.executor import Executor

__all__ = ["executor_findings"]

_SUBJECT = "executors"


@dataclass(frozen=True)
class _Probe:
    """A task that finds out what it can do.

    Attributes:
        address: The source to reach; None loads the modules only.
        settings: The pipeline's.
    """

    address: Address | None
    settings: PipelineSettings


def executor_findings(
    executor: Executor,
    settings: PipelineSettings,
    address: Address | None = None,
) -> Sequence[Finding]:
    """What keeps an executor's tasks from the work of a pipeline.

    Args:
        executor: Runs the tasks.
        settings: The pipeline's.
        address: The source, if the tasks are to reach it now.

    Raises:
        Unavailable: The task was lost.
    """
    try:
        problems = list(executor.run(_problem, [_Probe(address, settings)]))
    except Unsupported as error:
        problem = error.message.partition("; ")[0]
        return [Finding(_SUBJECT, problem, "install 'headwater[cdc]' for the Python of each")]
    return [
        Finding(_SUBJECT, problem, "let the executors reach the source as this process does")
        for problem in problems
        if problem is not None
    ]


def _problem(probe: _Probe) -> str | None:
    """Why a task does not reach the source."""
    if probe.address is None:
        return None
    try:
        with closing(open_source(probe.address, probe.settings)):
            return None
    except HeadwaterError as error:
        return error.message
