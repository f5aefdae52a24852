"""Where pipelines are, from their state in the lake: whichever process runs them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from headwater.catalog.table.table import Table
from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import (
    STATE_TABLE,
    BatchPlan,
    PipelineState,
    TablePhase,
    TableState,
)
from headwater.cdc.service.sources import open_source, source_address
from headwater.cdc.source.source import Source
from headwater.client.lake import Lake
from headwater.storage.errors import Forbidden, HeadwaterError, Invalid, NotFound

__all__ = ["PipelineStatus", "StoredPipeline", "TableStatus", "find_pipelines", "the_pipeline"]

# Of a table whose other snapshots are compactions, or of other pipelines.
_RECENT_SNAPSHOTS = 20
_START = "headwater cdc mysql, postgres or kafka"


@dataclass(frozen=True)
class TableStatus:
    """Where a table is.

    Attributes:
        source: The source's table.
        target: The lake's table.
        phase: What the pipeline does with it.
        batch: The last batch that was committed into it; None without one.
        reason: Why it is quarantined, or read again.
        source_time: When the last change in it was written at the source; None if not known.
    """

    source: TableName
    target: str
    phase: TablePhase
    batch: int | None
    reason: str | None
    source_time: datetime | None


@dataclass(frozen=True)
class PipelineStatus:
    """Where a pipeline is.

    Attributes:
        name: The pipeline's name.
        source: The source's URL, without a password.
        target: The lake's database.
        batch: The last batch that all tables have.
        position: The position that the last planned batch ends at.
        lag_seconds: How long ago the last change that was read was written at the source; 0 if the
            lake has all of them; None if not known.
        is_running: Whether a process runs it; None if the source cannot be asked.
        problem: Why the source cannot be asked.
        tables: The tables.
    """

    name: str
    source: str
    target: str
    batch: int
    position: str
    lag_seconds: float | None
    is_running: bool | None
    problem: str | None
    tables: list[TableStatus]

    def __repr__(self) -> str:
        running = {True: "running", False: "not running", None: "perhaps running"}
        return (
            f"Pipeline {self.name}: {running[self.is_running]}, {len(self.tables)} tables into "
            f"{self.target}, batch {self.batch}"
        )


class StoredPipeline:
    """A pipeline as its state in the lake has it.

    Args:
        lake: The lake.
        target: The lake's database.
        name: The pipeline's name.
    """

    def __init__(self, lake: Lake, target: str, name: str) -> None:
        self._lake, self.target, self.name = lake, target, name
        state = PipelineState.existing(lake, target, name)
        if state is None:
            raise NotFound(f"no pipeline has its state in database {target}; start one")
        self.state = state

    def started_with(self) -> PipelineSettings:
        """What it was started with last.

        Raises:
            NotFound: It never was.
        """
        stored = self.state.settings()
        if not stored:
            raise NotFound(
                f"pipeline '{self.name}' into {self.target} was never started; start it: {_START}"
            )
        return PipelineSettings.from_stored(self.name, self.target, stored)

    def plan(self) -> BatchPlan:
        """The last plan.

        Raises:
            NotFound: The pipeline has never been started.
        """
        plan = self.state.plan()
        if plan is None:
            raise NotFound(
                f"pipeline '{self.name}' into {self.target} has not begun; start it: {_START}"
            )
        return plan

    def source(self, password: str | None = None) -> Source:
        """A connection to the source.

        Raises:
            HeadwaterError: The source cannot be reached, or rejects the password.
        """
        settings = self.started_with()
        return open_source(source_address(settings.source, password), settings)

    def status(self, password: str | None = None) -> PipelineStatus:
        """Where it is; the source is asked if it can be."""
        plan = self.plan()
        user = self.state.commit_user
        table = self._lake.table(f"{self.target}.{STATE_TABLE}")
        properties = list(_properties(table, user, "cdc.position"))
        tables = [
            self._table(TableName.from_escaped(name), state.target, state.phase, _reason(state))
            for name, state in plan.tables.items()
        ]
        is_running, is_current, problem = None, False, None
        try:
            with closing(self.source(password)) as source:
                is_running = source.is_locked(self.name)
                end = source.parse(plan.end)
                is_current = end.contains(source.position())
        except HeadwaterError as error:
            problem = error.message
        batch = _last_of_all(plan, properties, tables)
        return PipelineStatus(
            self.name,
            self.state.settings().get("source", ""),
            self.target,
            batch,
            plan.end,
            0.0 if is_current and batch == plan.number else self._lag(properties),
            is_running,
            problem,
            sorted(tables, key=lambda table: table.source),
        )

    def _table(
        self, name: TableName, target: str, phase: TablePhase, reason: str | None
    ) -> TableStatus:
        batch, time = None, None
        user = self._user(name)
        if self._lake.table_exists(target):
            table = self._lake.table(target)
            with suppress(Forbidden):  # Only writers may ask.
                batch = table.last_committed(user)
            for properties in _properties(table, user, "cdc.batch"):
                batch = batch if batch is not None else int(properties["cdc.batch"])
                time = _time(properties.get("cdc.source-time"))
                break
        return TableStatus(name, target, phase, batch, reason, time)

    def _user(self, name: TableName) -> str:
        """The user of the commits of a table's rows."""
        return self.started_with().user(name) if self.state.settings() else self.state.commit_user

    def _lag(self, plans: list[Mapping[str, str]]) -> float | None:
        times = (_time(properties.get("cdc.source-time")) for properties in plans)
        last = next((time for time in times if time is not None), None)
        if last is None:
            return None
        now = datetime.fromtimestamp(self._lake.runtime.now_millis() / 1000, UTC)
        return max(0.0, (now - last).total_seconds())


def find_pipelines(
    lake: Lake, target: str | None = None, name: str | None = None
) -> list[StoredPipeline]:
    """The pipelines whose state is in a lake.

    Args:
        lake: The lake.
        target: Only those into this database.
        name: Only those of this name.

    Raises:
        NotFound: No pipeline fits.
    """
    pipelines = []
    for database in [target] if target is not None else lake.list_databases():
        state = PipelineState.existing(lake, database, "any")
        for known in state.pipelines() if state is not None else ():
            if name in (None, known):
                pipelines.append(StoredPipeline(lake, database, known))
    if not pipelines:
        named = "" if name is None else f" '{name}'"
        into = "" if target is None else f" into database {target}"
        raise NotFound(f"the lake has no pipeline{named}{into}; start one: {_START}")
    return pipelines


def the_pipeline(lake: Lake, target: str | None = None, name: str | None = None) -> StoredPipeline:
    """The one pipeline that is meant.

    Raises:
        NotFound: No pipeline fits.
        Invalid: There are several.
    """
    pipelines = find_pipelines(lake, target, name)
    if len(pipelines) > 1:
        names = ", ".join(f"'{pipeline.name}' into {pipeline.target}" for pipeline in pipelines)
        raise Invalid(f"the lake has several pipelines: {names}; choose with --name or --target")
    return pipelines[0]


def _properties(table: Table, user: str, key: str) -> Iterator[Mapping[str, str]]:
    """The properties of a user's last snapshots that have a key, newest first."""
    latest = table.latest_snapshot()
    for back in range(_RECENT_SNAPSHOTS if latest is not None else 0):
        try:
            snapshot = table.snapshot(latest.id - back) if back and latest is not None else latest
        except (NotFound, Invalid):
            return
        if snapshot is not None and snapshot.commit_user == user and key in snapshot.properties:
            yield snapshot.properties


def _reason(state: TableState) -> str | None:
    """Why a table is not as its source's."""
    if state.is_behind and state.backlog is not None:
        return f"its rows are those of '{state.backlog.after}'"
    return state.reason


def _last_of_all(plan: BatchPlan, plans: list[Mapping[str, str]], tables: list[TableStatus]) -> int:
    """The last batch that all tables have, as far as can be seen."""
    if plan.number == 0:
        return 0
    newest = plans[0] if plans else {}
    if newest.get("cdc.position") == plan.end and "cdc.tables" in newest:
        batches = {table.source.escaped: table.batch or 0 for table in tables}
        if all(batches.get(name, 0) >= plan.number for name in json.loads(newest["cdc.tables"])):
            return plan.number
    return plan.number - 1


def _time(text: str | None) -> datetime | None:
    return datetime.fromtimestamp(int(text) / 1000, UTC) if text and text != "0" else None
