"""Run a plan: several tables at once, each step by a job's executor."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock

from headwater.catalog.table.progress import progress_bar
from headwater.catalog.table.upkeep import THIS_PROCESS
from headwater.client.lake import Lake
from headwater.client.maintenance.actions import Rules, do
from headwater.client.maintenance.plan import MaintenancePlan, State, Step
from headwater.storage.errors import HeadwaterError, Invalid
from headwater.storage.jobs.executor import Executor
from headwater.storage.runtime import SYSTEM_RUNTIME, Runtime

__all__ = ["Limits", "run_maintenance"]


@dataclass(frozen=True)
class Limits:
    """The bounds of one run; steps beyond them wait for another.

    Attributes:
        time: No step begins later than this after the start.
        size: Bytes that are rewritten at most, as the plan counted them.
    """

    time: timedelta | None = None
    size: int | None = None


def run_maintenance(
    lake: Lake,
    plan: MaintenancePlan,
    *,
    executor: Executor = THIS_PROCESS,
    tables_at_once: int = 2,
    limits: Limits | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
    runtime: Runtime = SYSTEM_RUNTIME,
) -> None:
    """Do the steps of a plan that wait. A step that fails keeps no other from being done.

    Each step is one or more commits of its own, and what an interrupted one left undone is found
    again when it is repeated: a plan that was cut off at any point can be run again.

    Args:
        lake: The warehouse that the plan was made for.
        plan: The plan; what becomes of its steps is recorded in it.
        executor: Runs the tasks of the steps; this process unless given.
        tables_at_once: The tables that are worked on at once.
        limits: The bounds of this run.
        on_step: Called with each step that was done, failed or was left waiting, never twice at
            once: the place to save it, and to show it.
        runtime: The clock.

    Raises:
        Invalid: The plan is one for another warehouse.
    """
    if plan.warehouse != lake.warehouse:
        raise Invalid(
            f"the plan is for warehouse {plan.warehouse}, and this one is {lake.warehouse}"
        )
    if tables_at_once < 1:
        raise Invalid(f"tables_at_once must be at least 1, not {tables_at_once}")
    run = _Run(lake, plan, executor, limits or Limits(), on_step, runtime)
    tables: dict[str, list[Step]] = {}
    for step in plan.in_state(State.WAITING):
        tables.setdefault(step.table, []).append(step)
    # The largest first, so that none is left alone at the end.
    order = sorted(tables.values(), key=lambda steps: -sum(step.size for step in steps))
    waiting = sum(map(len, order))
    with (
        progress_bar("upkeep", waiting) as advance,
        ThreadPoolExecutor(min(tables_at_once, max(len(order), 1))) as threads,
    ):
        try:
            for count in threads.map(run.keep_up, order):
                advance(count)
        finally:
            # After an interruption the steps under way come to their end, and no other begins.
            run.ended = True


class _Run:
    def __init__(
        self,
        lake: Lake,
        plan: MaintenancePlan,
        executor: Executor,
        limits: Limits,
        on_step: Callable[[Step], None],
        runtime: Runtime,
    ) -> None:
        self._plan = plan
        self._lake = lake
        self._executor = executor
        self._limits = limits
        self._on_step = on_step
        self._runtime = runtime
        self._started = runtime.monotonic()
        self._size = 0
        self.ended = False
        self._lock = Lock()

    def keep_up(self, steps: list[Step]) -> int:
        """Do the steps of a table; the number that were looked at."""
        for step in steps:
            if self.ended:
                break
            reason = self._beyond_limits(step)
            if reason is None:
                self._settle(_done(self._lake, step, self._plan.rules, self._executor))
            else:
                self._settle(replace(step, outcome=reason))
        return len(steps)

    def _beyond_limits(self, step: Step) -> str | None:
        time, size = self._limits.time, self._limits.size
        passed = timedelta(seconds=self._runtime.monotonic() - self._started)
        if time is not None and passed >= time:
            return "the time is over"
        with self._lock:
            if size is not None and self._size + step.size > size:
                return "it rewrites more bytes than are left for this run"
            self._size += step.size
        return None

    def _settle(self, step: Step) -> None:
        with self._lock:
            self._plan.record(step)
            try:
                self._on_step(step)
            except BaseException:
                self.ended = True
                raise


def _done(lake: Lake, step: Step, rules: Rules, executor: Executor) -> Step:
    try:
        outcome = do(step.action, lake.table(step.table), rules, executor)
    except HeadwaterError as error:
        return replace(step, state=State.FAILED, outcome=error.message)
    return replace(step, state=State.DONE, outcome=outcome)
