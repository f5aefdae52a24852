"""Tables that catch up: what the log has of them since their quarantine is read by other readers.

A batch has a part of the backlog of such a table where it has the log's rows of others, under the
same number. The part's end is in the batch's plan, so that a restart reads exactly that part again.
Once a part ends where its batch does, the table is followed with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headwater.cdc.ddl import (
    Change,
    CreateTable,
    DropDatabase,
    DropTables,
    ForeignKeyChange,
    RenameTables,
    Truncate,
)
from headwater.cdc.model.tables import TableName
from headwater.cdc.pipeline.batch_commit import BatchCommit
from headwater.cdc.pipeline.cascades import Cascades
from headwater.cdc.pipeline.joining import Joining, unknown_again
from headwater.cdc.pipeline.progress import ProgressLog
from headwater.cdc.pipeline.schema_events import SchemaEvents
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import Backlog, TablePhase, TableState
from headwater.cdc.pipeline.table_states import after_batch, quarantined
from headwater.cdc.pipeline.targets import Targets
from headwater.cdc.source.log_batches import BatchLimits, LogBatch, LogReader
from headwater.cdc.source.positions import Position
from headwater.cdc.source.source import Source
from headwater.storage.errors import Conflict, HeadwaterError, NotFound, Unavailable

__all__ = ["CatchingUp"]

_CANNOT = "; it cannot catch up: "

States = Mapping[TableName, TableState]
Parts = Mapping[TableName, LogBatch]


class CatchingUp:
    """Reads and commits the backlogs of tables, part by part.

    Args:
        source: The source.
        settings: The pipeline's.
        targets: The lake's tables.
        cascades: Tells which tables' rows go with those of another one.
        events: Applies the statements of a backlog.
        joining: Is told of tables that must be read again.
        progress: Is told of committed rows.
    """

    def __init__(
        self,
        source: Source,
        settings: PipelineSettings,
        targets: Targets,
        cascades: Cascades,
        events: SchemaEvents,
        joining: Joining,
        progress: ProgressLog,
    ) -> None:
        self._source, self._settings, self._targets = source, settings, targets
        self._cascades, self._events, self._joining = cascades, events, joining
        self._progress = progress
        self._readers: dict[TableName, LogReader] = {}

    def close(self) -> None:
        """End the readers."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    # Requests ---------------------------------------------------------------------------------

    def ask(self, states: dict[TableName, TableState], name: TableName) -> None:
        """Let a quarantined table catch up, or note in its reason why it cannot."""
        state = states.get(name)
        if state is None or state.phase is not TablePhase.QUARANTINED:
            return
        problem = self._problem(states, name, state)
        if problem is not None:
            reason = (state.reason or "").partition(_CANNOT)[0]
            states[name] = replace(state, reason=f"{reason}{_CANNOT}{problem}")
            return
        self._forget(name)
        # Somebody may have mended the lake's table.
        self._targets.forget(state.target)
        states[name] = replace(state, phase=TablePhase.CATCHING_UP, reason=None)

    def begin_again(
        self,
        states: dict[TableName, TableState],
        name: TableName,
        start: Position,
        position: Position,
    ) -> None:
        """Let a table's rows be removed and come again, from where the log has all of them.

        Args:
            states: The tables.
            name: The table.
            start: Where the log has all of its rows from.
            position: Where the other tables are.
        """
        state = states.get(name)
        if state is None or not state.columns:
            return
        self._forget(name)
        self._targets.forget(state.target)
        try:
            self._own(name, state)
        except Unavailable:
            raise
        except HeadwaterError as error:
            states[name] = quarantined(state, error.message, position)
            return
        backlog = Backlog(str(start), clears=True)
        states[name] = replace(
            state, phase=TablePhase.CATCHING_UP, reason=None, reading=None, backlog=backlog
        )

    def _own(self, name: TableName, state: TableState) -> None:
        """Check that the lake's table is the pipeline's; one that is gone is created again.

        Raises:
            Invalid: It is another one.
        """
        if self._targets.exists(state.target):
            self._targets.own(state.target, name)
        else:
            self._targets.create(state.target, state.source_table(name))

    def _forget(self, name: TableName) -> None:
        """End a table's reader: its next part begins where the table's state says."""
        if name in self._readers:
            self._readers.pop(name).close()

    def _problem(self, states: States, name: TableName, state: TableState) -> str | None:
        """Why a table cannot catch up; None if it can."""
        help_ = f"read it again: headwater cdc resnapshot {name}"
        if not self._source.keeps_log:
            return f"the source keeps no log that the other tables have had; {help_}"
        if state.backlog is None:
            return f"the position of its rows in the log is not known; {help_}"
        if name in self._cascades.children({**states, name: _followed(state)}):
            return f"a foreign key changes its rows without an event in the log; {help_}"
        if self._settings.layout.layout(name).is_merged:
            return f"table {state.target} has the rows of other tables, too; {help_}"
        if not self._targets.is_own(state.target):
            return f"table {state.target} is not the one that the pipeline wrote; {help_}"
        return None

    # Parts ------------------------------------------------------------------------------------

    def read(
        self, states: States, end: Position, should_end: Callable[[], bool]
    ) -> tuple[States, Parts]:
        """Read a part of the backlogs.

        Args:
            states: The tables.
            end: Where the batch ends: no part goes beyond it.
            should_end: Whether to end a part now.

        Returns:
            The states, where a table whose log was purged is quarantined; and the parts.

        Raises:
            Unavailable: The connection is lost.
        """
        behind = {name for name, state in states.items() if state.is_behind}
        for name in self._readers.keys() - behind:
            self._forget(name)
        limits = BatchLimits(self._settings.batch_seconds, self._settings.batch_bytes, end=end)
        changed, parts = dict(states), dict[TableName, LogBatch]()
        # Those that have a reader go first, lest two tables take turns.
        for name in sorted(behind, key=lambda name: (name not in self._readers, name)):
            if len(parts) == self._settings.readers:
                break
            try:
                reader = self._reader(name, states[name])
                parts[name] = _clearing(name, states[name], reader) or reader.read_batch(
                    limits, should_end
                )
            except Unavailable:
                raise
            except HeadwaterError as error:
                changed[name] = self._lost(name, states[name], error)
        return changed, parts

    def read_planned(self, states: States) -> tuple[States, Parts]:
        """Read the parts again that an earlier process has planned; see `read`."""
        changed, parts = dict(states), dict[TableName, LogBatch]()
        for name, state in states.items():
            if not state.is_behind or state.backlog is None or state.backlog.until is None:
                continue
            until = self._source.parse(state.backlog.until)
            try:
                reader = self._reader(name, state)
                parts[name] = _clearing(name, state, reader) or reader.read_until(until)
            except Unavailable:
                raise
            except HeadwaterError as error:
                changed[name] = self._lost(name, state, error, is_planned=True)
        return changed, parts

    def planned(self, states: States, parts: Parts) -> States:
        """The states with the ends of parts, for the batch's plan."""
        changed = dict(states)
        for name, part in parts.items():
            state = states[name]
            assert state.backlog is not None
            backlog = replace(state.backlog, until=str(part.end))
            changed[name] = replace(state, backlog=backlog)
        return changed

    def commit(
        self,
        number: int,
        states: States,
        parts: Parts,
        batch: LogBatch,
        *,
        is_repeated: bool = False,
    ) -> States:
        """Commit parts of backlogs.

        Args:
            number: The batch's number.
            states: The tables when it begins.
            parts: The parts.
            batch: The batch.
            is_repeated: Whether an earlier process planned the batch.

        Returns:
            The states of their tables after it; the batch tells which XA transactions are open.

        Raises:
            Unavailable: The lake or the source is not there.
        """
        return {
            name: self._committed(number, name, states, part, batch, is_repeated)
            for name, part in parts.items()
        }

    def _committed(
        self,
        number: int,
        name: TableName,
        states: States,
        part: LogBatch,
        batch: LogBatch,
        is_repeated: bool,
    ) -> TableState:
        state = states[name]
        before = {name: _followed(state)}
        with BatchCommit(
            self._source,
            self._settings,
            self._targets,
            self._cascades,
            number,
            before,
            part.start,
            is_repeated=is_repeated,
        ) as commit:
            outcome = commit.commit(part)
        self._source.await_ends(part.xa)
        self._progress.wrote(name, outcome.rows.get(name, 0))
        after = after_batch(before, part, outcome, self._source, self._cascades)
        if any(_replaces(change, name) for change in part.changes):
            return self._again(name, state, "another table had its name")
        changed = self._events.apply(number, before, after, part, self._joining)[name]
        if name in self._readers:
            self._readers[name].released()
        if changed.phase is TablePhase.REREADING:
            return self._again(name, state, changed.reason or "its definition changed")
        if changed.phase is not TablePhase.STREAMING:
            backlog = changed.backlog
            if backlog is not None and state.backlog is not None and state.backlog.clears:
                backlog = replace(backlog, clears=True)
            return replace(changed, backlog=backlog)
        if self._has_new_parents(name, {**states, name: changed}, part):
            return self._again(name, state, "a foreign key changes its rows without an event")
        is_at_end = part.end.contains(batch.end) and batch.end.contains(part.end)
        # What the batch changes was not applied to the table: its own reader comes to it.
        if is_at_end and not batch.changes:
            return replace(changed, position=str(batch.end))
        return replace(
            changed,
            phase=TablePhase.CATCHING_UP,
            backlog=Backlog(str(part.end), prepared=changed.prepared),
        )

    def _has_new_parents(self, name: TableName, states: States, part: LogBatch) -> bool:
        """Whether a foreign key that came since it was asked for changes a table's rows silently.

        What it has changed is in batches that others have had.
        """
        added = any(
            key.cascades
            for change in part.changes
            if isinstance(change, ForeignKeyChange) and name in change.tables
            for key in change.added
        )
        return self._cascades.is_needed and (added or name in self._cascades.children(states))

    def _lost(
        self,
        name: TableName,
        state: TableState,
        error: HeadwaterError,
        *,
        is_planned: bool = False,
    ) -> TableState:
        """The state of a table whose backlog cannot be read."""
        problem, backlog = error.message, state.backlog
        assert backlog is not None
        # A source without rows says itself what helps.
        if self._source.has_rows:
            if isinstance(error, NotFound | Conflict):
                problem = f"the source does not have its log from '{backlog.after}' on any more"
            problem += f"; read the table again: headwater cdc resnapshot {name}"
        # A planned part may be committed already: appended rows would come twice.
        is_lost = is_planned and state.is_appended
        return replace(
            state,
            phase=TablePhase.QUARANTINED,
            reason=problem,
            position=backlog.after,
            backlog=None if is_lost else replace(backlog, until=None),
        )

    def _again(self, name: TableName, state: TableState, reason: str) -> TableState:
        """The state of a table whose rows the log does not have, so that all are read again."""
        self._joining.want(name)
        return unknown_again(state, reason)

    def _reader(self, name: TableName, state: TableState) -> LogReader:
        if name not in self._readers:
            assert state.backlog is not None
            start = self._source.parse(state.backlog.after)
            self._source.check_holds(start)
            self._readers[name] = self._source.open_log(
                start, self._settings.memory_bytes, lambda other: other == name
            )
        self._readers[name].follow({name: state.id}, state.source_table)
        return self._readers[name]


def _clearing(name: TableName, state: TableState, reader: LogReader) -> LogBatch | None:
    """A part that removes a table's rows, before the log has all of them; None if they stay."""
    if state.backlog is None or not state.backlog.clears:
        return None
    start = reader.position
    return LogBatch(start, start, changes=[Truncate(name)], statement=f"truncate {name}")


def _followed(state: TableState) -> TableState:
    """The state of a table as it is at the beginning of a part of its backlog."""
    prepared = () if state.backlog is None else state.backlog.prepared
    return replace(
        state,
        phase=TablePhase.STREAMING,
        reason=None,
        reading=None,
        backlog=None,
        prepared=prepared,
    )


def _replaces(change: Change, name: TableName) -> bool:
    """Whether another table has a table's name after a statement, or none has."""
    if isinstance(change, CreateTable) and change.if_not_exists and not change.or_replace:
        return False
    replacing = (RenameTables, DropTables, DropDatabase, CreateTable)
    return isinstance(change, replacing) and change.concerns(name)
