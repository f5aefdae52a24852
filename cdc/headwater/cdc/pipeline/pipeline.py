"""A pipeline: it reads batches, plans them, commits them, and goes on where it was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import replace
from threading import Event
from time import monotonic

from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.pipeline.batch_commit import BatchCommit
from headwater.cdc.pipeline.batch_tags import BatchTags
from headwater.cdc.pipeline.cascades import Cascades
from headwater.cdc.pipeline.catching_up import CatchingUp, Parts
from headwater.cdc.pipeline.joining import Joining
from headwater.cdc.pipeline.progress import ProgressLog
from headwater.cdc.pipeline.redefinitions import RedefinitionWatch
from headwater.cdc.pipeline.schema_events import SchemaEvents
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.start_check import (
    check_all_matched,
    check_no_more_selected,
    check_same_layout,
    start_problems,
)
from headwater.cdc.pipeline.state import BatchPlan, PipelineState, TablePhase, TableState
from headwater.cdc.pipeline.table_states import after_batch, quarantined, read_again
from headwater.cdc.pipeline.targets import Targets
from headwater.cdc.source.log_batches import BatchLimits, LogBatch, LogReader
from headwater.cdc.source.positions import Position
from headwater.cdc.source.source import Source
from headwater.client.lake import Lake
from headwater.storage.errors import Conflict, Invalid, Unavailable
from headwater.storage.jobs.executor import ParallelExecutor

__all__ = ["MAX_WAIT_SECONDS", "Pipeline"]

MAX_WAIT_SECONDS = 30.0
"""How long a pipeline waits at most before it connects again."""

_FIRST_WAIT = 0.5
_JOINING_SECONDS = 0.2
# Of a batch's time, for which changes are collected although the batch before took longer.
_MIN_SHARE = 0.2
# Of a batch's time, after which a first change is committed if nothing has followed it.
_IDLE_SHARE = 0.02
# Batches that are one while tables are read and nothing of them changes.
_READING_BATCHES = 12
# The properties of the plan of a batch that no table has a part in.
_EMPTY_BATCH = {"cdc.source-time": "0", "cdc.tables": "[]"}

States = Mapping[TableName, TableState]


class Pipeline:
    """Follows the tables of a source into the lake.

    Args:
        lake: The lake.
        open_source: Connects to the source.
        settings: What is followed, and how.
        executor: Runs tasks elsewhere, such as Spark's; None does all the work in this process.
    """

    def __init__(
        self,
        lake: Lake,
        open_source: Callable[[], Source],
        settings: PipelineSettings,
        executor: ParallelExecutor | None = None,
    ) -> None:
        self.settings = settings
        self.executor = executor
        self.progress = ProgressLog()
        self._lake, self._open_source = lake, open_source
        self._stop = Event()
        # A request that was meant for a process that ended before it saw it.
        self._late_stop: str | None = None

    def stop(self) -> None:
        """End after the batch that is being written; may be called by any thread."""
        self._stop.set()

    def run(self, *, once: bool = False) -> bool:
        """Follow the source until it is stopped.

        Args:
            once: Whether to end when all that the source has at the start is committed.

        Returns:
            Whether all tables are followed; False if some are quarantined.

        Raises:
            Conflict: Another process runs the pipeline; or the source lacks what was read from it.
            Invalid: The settings do not fit the source or the lake; or with `once`, a pattern is of
                none of the tables that messages had.
            NotFound: The source's log was purged; or the lake's database does not exist.
            Unavailable: With `once`, the source or the lake cannot be reached.
        """
        wait, is_first = _FIRST_WAIT, True
        goal: Position | None = None
        while True:
            begun = monotonic()
            try:
                state = self._state()
                if is_first:
                    self._late_stop, is_first = self._requested_stop(state), False
                with closing(self._open_source()) as source:
                    source.lock(self.settings.name, self.settings.lock_seconds)
                    session = _Session(self, self._lake, source, self._stop, state, self._late_stop)
                    session.look()
                    # A topic that the goal of before has may be gone.
                    if once and (goal is None or not source.has_rows):
                        goal = source.position()
                    self.progress.waits(None)
                    return session.run(goal)
            except Unavailable as error:
                if monotonic() - begun > 2 * MAX_WAIT_SECONDS:
                    wait = _FIRST_WAIT
                if once and wait > MAX_WAIT_SECONDS / 2:
                    raise
                self.progress.waits(error.message)
            if self._stop.wait(wait) or self._is_asked_to_stop():
                return True
            wait = min(2 * wait, MAX_WAIT_SECONDS)

    def _state(self) -> PipelineState | None:
        return PipelineState.existing(self._lake, self.settings.target, self.settings.name)

    def _requested_stop(self, state: PipelineState | None, *, takes: bool = False) -> str | None:
        """The request to stop that waits; it is removed if this process takes it."""
        request = None if state is None else state.requests().get("stop")
        if takes and state is not None and request is not None and request != self._late_stop:
            state.answer({"stop": request})
        return request

    def _is_asked_to_stop(self) -> bool:
        """Whether another process has asked this one to stop while it waits for its source."""
        try:
            request = self._requested_stop(self._state(), takes=True)
            return request not in (None, self._late_stop)
        except Unavailable:
            # The lake is not there either.
            return False


class _Session:
    """A pipeline from a start, or an interruption, to the next one."""

    def __init__(
        self,
        pipeline: Pipeline,
        lake: Lake,
        source: Source,
        stop: Event,
        state: PipelineState | None,
        late_stop: str | None,
    ) -> None:
        self._settings, self._progress = pipeline.settings, pipeline.progress
        self._source, self._stop, self._late_stop = source, stop, late_stop
        self._executor = pipeline.executor
        self._goal: Position | None = None
        self._state = self._opened_state(lake, state)
        self._targets = Targets(lake, self._settings)
        self._cascades = Cascades(source, self._targets, self._settings.bad_dates)
        self._joining = Joining(source, self._settings, self._targets)
        self._redefinitions = RedefinitionWatch(source, self._settings)
        self._events = SchemaEvents(
            source, self._settings, self._targets, self._cascades, self._progress
        )
        self._catching_up = CatchingUp(
            source,
            self._settings,
            self._targets,
            self._cascades,
            self._events,
            self._joining,
            self._progress,
        )
        self._tags = BatchTags(self._settings, self._targets, self._state)
        self._recorded = self._next_look = monotonic()
        self._turn = 0
        self._followed: dict[TableName, tuple[TableState, SourceTable]] = {}
        self._obeyed_requests: dict[str, str] = {}
        # Tables of which the last batch could read no range.
        self._stalled: frozenset[TableName] = frozenset()
        # What was read last of the source's log, and whether anything was.
        self._log_file: str | None = None
        self._has_read = False

    def look(self) -> None:
        """Ask for what the log does not have: all of it until now is to be followed."""
        plan = self._state.plan()
        self._redefinitions.look({} if plan is None else self._selected(plan))

    def run(self, goal: Position | None) -> bool:
        """Follow the source to a position, or until it is stopped."""
        self._goal = goal
        plan = self._state.plan() or self._first_plan()
        requests, stored = self._state.requests(), self._state.settings()
        check_same_layout(stored, self._settings, self._selected(plan))
        if not self._source.has_rows and plan.number > 0 and "restart" not in requests:
            check_no_more_selected(stored, self._settings)
        self._state.save_settings(self._settings.stored())
        if "restart" in requests:
            plan = self._restarted(plan, requests)
        if self._late_stop is not None:
            self._state.answer({"stop": self._late_stop})
        end = self._source.parse(plan.end)
        self._source.check_holds(end)
        self._log_file = None if "restart" in requests else self._state.log_file()
        if self._log_file is not None:
            self._source.check_log_file(self._log_file, end, is_read=False)
        start = self._source.parse(plan.end if plan.start is None else plan.start)
        log = self._source.open_log(
            start, self._settings.memory_bytes, self._settings.selection().matches
        )
        with closing(log) as reader, closing(self._catching_up), self._targets.writers:
            states = self._selected(plan)
            self._joining.begin(states)
            names = {*states, *self._joining.wanted}
            self._source.check_logs({name.database for name in names})
            if plan.number > 0:
                states = self._finish(plan, states, reader)
            states = self._watched(states, reader.position)
            while True:
                states = self._obeyed(states, reader.position)
                states = self._joining.renewed(states, self._stalled, reader.position)
                if self._is_done(plan, states, reader):
                    break
                plan, states = self._next(plan, states, reader)
        self._end(plan, states)
        if "stop" in self._obeyed_requests:
            self._state.answer({"stop": self._obeyed_requests["stop"]})
        is_all_read = goal is not None and self._has_read and not self._stop.is_set()
        if is_all_read and not self._source.has_rows:
            check_all_matched(self._settings, states)
        return all(state.is_followed or not state.reason for state in states.values())

    def _selected(self, plan: BatchPlan) -> States:
        """The tables of a plan that are still selected.

        The log has no rows of the others. They leave the pipeline with the next plan, and begin
        with a snapshot if they are selected again.
        """
        matches = self._settings.selection().matches
        return {name: state for name, state in _by_name(plan).items() if matches(name)}

    def _opened_state(self, lake: Lake, state: PipelineState | None) -> PipelineState:
        """The pipeline's state; a new pipeline is checked before anything is created."""
        settings = self._settings
        # Another process may have begun the pipeline since.
        state = state or PipelineState.existing(lake, settings.target, settings.name)
        if state is not None and state.plan() is not None:
            return state
        findings = start_problems(lake, self._source, settings)
        if findings:
            raise Invalid(
                f"pipeline '{settings.name}' cannot start: {'; '.join(map(str, findings))}"
            )
        return PipelineState.open(lake, settings.target, settings.name)

    def _first_plan(self) -> BatchPlan:
        """Batch 0 has nothing: it tells where the log is read from."""
        return self._state.record(BatchPlan(0, None, str(self._source.start())))

    def _restarted(self, plan: BatchPlan, requests: Mapping[str, str]) -> BatchPlan:
        """Go on where the source is now, and read all tables again: the log between may be lost."""
        tables: Mapping[str, TableState] = {}
        if self._source.has_rows:
            every = {
                "resnapshot:" + name: ""
                for name, state in plan.tables.items()
                if state.phase is not TablePhase.GONE
            }
            tables = _escaped(self._asked_again(_by_name(plan), {**every, **requests}))
        else:
            # The log describes them again.
            for state in plan.tables.values():
                if state.target:
                    self._targets.drop(state.target)
        position = str(self._source.start())
        # Two, as the log of the last one is read again.
        for start in (plan.end, position):
            plan = self._state.record(
                BatchPlan(plan.number + 1, start, position, tables), _EMPTY_BATCH
            )
        self._state.save_log_file(None)
        self._state.answer({name: value for name, value in requests.items() if name != "stop"})
        return plan

    def _is_done(self, plan: BatchPlan, states: States, reader: LogReader) -> bool:
        if self._stop.is_set():
            return True
        # Others are told of the states by the plan.
        is_recorded = _has(plan, states) and not self._obeyed_requests
        waits = self._joining.has_some or self._redefinitions.is_pending
        if self._goal is None or waits or not is_recorded:
            return False
        is_read = not any(
            (state.is_followed and state.is_read) or state.is_behind for state in states.values()
        )
        return is_read and reader.position.contains(self._goal)

    def _end(self, plan: BatchPlan, states: States) -> None:
        """Record that the last batch is committed: the next start does not need its log."""
        if plan.start not in (None, plan.end) and _has(plan, states):
            self._state.record(replace(plan, number=plan.number + 1, start=plan.end), _EMPTY_BATCH)

    def _checked_log(self, reader: LogReader) -> str | None:
        """Check that what is read is of the log that was read before; its file, if that is new.

        Raises:
            Conflict: The source has begun another log.
        """
        file = reader.log_file
        if file is None or file == self._log_file:
            return None
        if self._log_file is not None:
            self._source.check_log_file(self._log_file, reader.position, is_read=True)
        self._log_file = file
        return file

    # Batches ----------------------------------------------------------------------------------

    def _finish(self, plan: BatchPlan, states: States, reader: LogReader) -> States:
        """Commit what an earlier process planned, and perhaps did not commit."""
        self._follow(reader, states)
        batch = reader.read_until(self._source.parse(plan.end))
        self._has_read = batch.transactions > 0
        self._save_log_file(self._checked_log(reader))
        states, parts = self._catching_up.read_planned(states)
        # Ranges are read behind the batch: nothing in it changes their rows without an event.
        with self._commit(plan.number, states, batch.end, is_repeated=True) as commit:
            return self._committed(plan, states, batch, commit, reader, parts, is_repeated=True)

    def _next(self, plan: BatchPlan, states: States, reader: LogReader) -> tuple[BatchPlan, States]:
        """Read, plan and commit a batch, if there is anything in it."""
        self._redefinitions.look(states)
        self._joining.read(states, reader.position)
        self._progress.awaits(self._joining.waits)
        self._follow(reader, states)
        number = plan.number + 1
        with self._commit(number, states, reader.position) as commit:
            limits = self._limits(states, commit)
            batch = self._redefinitions.batch(states, reader.position, self._joining.awaited)
            if batch is None:
                # A table that catches up waits for the batch's end.
                waits = any(state.is_behind for state in states.values())
                batch = reader.read_batch(
                    limits, lambda: self._should_end(commit, is_waited_for=waits)
                )
            self._turn += 1
            self._has_read |= batch.transactions > 0
            commit.take_snapshot(reader, batch, self._turn)
            states = commit.finish_reading(states)
            self._stalled = frozenset(commit.stalled)
            log_file = self._checked_log(reader)
            states, parts = self._catching_up.read(states, batch.end, self._stop.is_set)
            if not self._is_worth_a_plan(plan, states, batch, commit, parts):
                self._save_log_file(log_file)
                if batch.ended:
                    raise Unavailable(
                        f"the source at {self._source.address} has ended its log; check that the "
                        "server runs"
                    )
                self._progress.lags(reader.lag_bytes())
                return plan, self._joined(plan.number, states, batch)
            states = self._catching_up.planned(states, parts)
            plan = BatchPlan(number, plan.end, str(batch.end), _escaped(states))
            properties = {
                "cdc.source-time": str(batch.source_time),
                "cdc.tables": json.dumps(
                    [
                        name.escaped
                        for name in (
                            *commit.tables(batch),
                            *(name for name, part in parts.items() if part.rows),
                        )
                    ]
                ),
            }
            self._record(plan, properties, log_file)
            self._recorded = monotonic()
            # A start that is interrupted from now on reads the log from here.
            reader.confirm(self._source.parse(plan.start or plan.end))
            self._state.answer(self._obeyed_requests)
            self._obeyed_requests = {}
            return plan, self._committed(plan, states, batch, commit, reader, parts)

    def _save_log_file(self, file: str | None) -> None:
        if file is not None:
            self._state.save_log_file(file)

    def _record(self, plan: BatchPlan, properties: Mapping[str, str], log_file: str | None) -> None:
        """Record a plan, and with it a file of the log that is new.

        Raises:
            Unavailable: A process that was killed has planned the batch: its request came late.
                Its plan is the one to go by.
        """
        late = (
            f"pipeline '{self._settings.name}': another process has planned batch {plan.number}, "
            "too; its plan is carried out"
        )
        try:
            if self._state.record(plan, properties, log_file) != plan:
                raise Unavailable(late)
        except Conflict as error:
            if self._state.plan() is None:
                raise
            raise Unavailable(late) from error

    def _commit(
        self, number: int, states: States, seen: Position, *, is_repeated: bool = False
    ) -> BatchCommit:
        return BatchCommit(
            self._source,
            self._settings,
            self._targets,
            self._cascades,
            number,
            states,
            seen,
            is_repeated=is_repeated,
            executor=self._executor,
        )

    def _committed(
        self,
        plan: BatchPlan,
        states: States,
        batch: LogBatch,
        commit: BatchCommit,
        reader: LogReader,
        parts: Parts,
        *,
        is_repeated: bool = False,
    ) -> States:
        """Commit a planned batch, with parts of backlogs; the tables' states after it."""
        outcome = commit.commit(batch)
        # Tables that they changed are read again with later batches.
        self._source.await_ends(batch.xa)
        for name, rows in outcome.rows.items():
            self._progress.wrote(name, rows)
        position = str(batch.end)
        committed = after_batch(states, batch, outcome, self._source, self._cascades)
        caught_up = self._catching_up.commit(
            plan.number, states, parts, batch, is_repeated=is_repeated
        )
        states = self._events.apply(plan.number, states, committed, batch, self._joining)
        # A statement of the batch may have renamed a table, or dropped it.
        for name, state in caught_up.items():
            if name in states and states[name].is_behind:
                # Until it is at the batch's end, the batch tells which XA transactions are open.
                own = state if state.is_followed else replace(state, prepared=states[name].prepared)
                states[name] = own
        states = self._joined(plan.number, states, batch, caught_up.keys())
        self._tags.tag(plan.number, states, is_complete=not self._joining.has_some)
        self._progress.states(states)
        lag = reader.lag_bytes()
        self._progress.batch_done(plan.number, position, batch.source_time, lag)
        reader.released()
        return states

    def _joined(
        self,
        number: int,
        states: States,
        batch: LogBatch,
        caught_up: Collection[TableName] = (),
    ) -> States:
        """The states with the tables that have joined, at the end of a batch.

        Args:
            number: The number of the last planned batch.
            states: The tables.
            batch: The batch.
            caught_up: Those that were not followed when it began.
        """
        all_joined = self._joining.joined(states, batch, number)
        if batch.changes or all_joined is not states:
            self._cascades.forget()
            self._redefinitions.forget(all_joined)
        joined = dict(all_joined)
        before = {name for name, state in states.items() if state.is_followed}.difference(caught_up)
        for parent in {name for name, state in joined.items() if state.is_followed} - before:
            # They may have changed with its rows before these were followed.
            for child in self._cascades.descendants(parent, joined) & before:
                reason = f"their rows go with those of {parent}, which was not followed"
                joined[child] = read_again(joined[child], reason, batch.end)
        return self._watched(joined, batch.end)

    def _watched(self, states: States, position: Position) -> States:
        """The states where no table is followed whose rows go with those of one that is not."""
        watched, awaited = dict(states), self._joining.awaited
        while unwatched := self._cascades.unwatched(watched, awaited, position):
            for child, parent in unwatched.items():
                watched[child] = quarantined(watched[child], _unwatched(child, parent), position)
        return watched

    def _is_worth_a_plan(
        self,
        plan: BatchPlan,
        states: States,
        batch: LogBatch,
        commit: BatchCommit,
        parts: Parts,
    ) -> bool:
        if batch.has_content or commit.has_content:
            return True
        if any(part.has_content or part.end.contains(batch.end) for part in parts.values()):
            return True
        if self._obeyed_requests or not _has(plan, states):
            return True
        # Recorded again at the same end, it needs no log of before.
        moved = (plan.start or plan.end) != str(batch.end)
        is_quiet = monotonic() - self._recorded > self._settings.quiet_seconds
        return moved and (is_quiet or self._goal is not None or self._stop.is_set())

    def _limits(self, states: States, commit: BatchCommit) -> BatchLimits:
        settings = self._settings
        seconds, quiet_seconds = settings.batch_seconds, 0.0
        min_seconds: float | None = None
        waits = self._joining.is_near or any(
            state.awaits_snapshot and not state.reason for state in states.values()
        )
        if commit.has_feeds and not waits:
            # Nobody waits for a change. Each commit ends what is read, and leaves files to compact.
            quiet_seconds = _READING_BATCHES * settings.batch_seconds
        elif waits and not commit.has_feeds:
            # Tables that wait for their rows wait for a position only.
            seconds = _JOINING_SECONDS
        elif not commit.has_feeds:
            # What came while the batch before was committed has waited already.
            min_seconds = seconds * _MIN_SHARE
            seconds = max(seconds - (monotonic() - self._recorded), min_seconds)
            quiet_seconds = settings.batch_seconds
        idle_seconds = None if min_seconds is None else settings.batch_seconds * _IDLE_SHARE
        return BatchLimits(seconds, settings.batch_bytes, quiet_seconds, min_seconds, idle_seconds)

    def _should_end(self, commit: BatchCommit, *, is_waited_for: bool) -> bool:
        if self._stop.is_set():
            return True
        if commit.has_feeds:
            return commit.is_read or self._is_asked()
        return self._goal is not None or is_waited_for

    def _is_asked(self) -> bool:
        """Whether another process asks for something; looked up once in a batch's usual time."""
        if monotonic() < self._next_look:
            return False
        self._next_look = monotonic() + self._settings.batch_seconds
        return not self._state.requests().items() <= self._obeyed_requests.items()

    def _follow(self, reader: LogReader, states: States) -> None:
        followed = {name: state for name, state in states.items() if state.is_followed}
        reader.follow(
            {name: state.id for name, state in followed.items()},
            lambda name: followed[name].source_table(name) if name in followed else None,
        )
        self._progress.states(states)

    def _obeyed(self, states: States, position: Position) -> States:
        """Carry out what other processes ask for."""
        requests = self._state.requests()
        if not requests:
            return states
        if "stop" in requests:
            self._stop.set()
        # They are answered when the states are recorded.
        self._obeyed_requests = dict(requests)
        return self._asked_again(states, requests, position)

    def _asked_again(
        self, states: States, requests: Mapping[str, str], position: Position | None = None
    ) -> dict[TableName, TableState]:
        """The states when the tables that requests name are read again.

        Args:
            states: The tables.
            requests: The requests.
            position: Where the log is; None where another log begins, from which nothing is left.
        """
        changed = dict(states)
        for name, value in requests.items():
            if name.startswith("resnapshot:"):
                table = TableName.from_escaped(name.removeprefix("resnapshot:"))
                self._joining.ask_again(changed, table, replaces=value == "replace")
            elif name.startswith("begin again:") and position is not None:
                table = TableName.from_escaped(name.removeprefix("begin again:"))
                start = self._source.parse(value)
                self._catching_up.begin_again(changed, table, start, position)
            elif name.startswith("catchup:"):
                table = TableName.from_escaped(name.removeprefix("catchup:"))
                self._catching_up.ask(changed, table)
        return changed


def _by_name(plan: BatchPlan) -> States:
    return {TableName.from_escaped(name): state for name, state in plan.tables.items()}


def _escaped(states: States) -> Mapping[str, TableState]:
    return {name.escaped: state for name, state in states.items()}


def _unwatched(child: TableName, parent: TableName) -> str:
    return (
        f"a foreign key changes rows of {child} with those of {parent} without an event in the "
        f"log, and {parent} is not followed; follow it, or drop the foreign key, and read the "
        f"table again: headwater cdc resnapshot {child}"
    )


def _has(plan: BatchPlan, states: States) -> bool:
    """Whether a plan has the tables' states."""
    return plan.tables == _escaped(states)
