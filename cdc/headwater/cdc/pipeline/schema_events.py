"""Statements in the log, applied to the lake's tables and to what is known of the source's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.cdc.ddl import (
    Change,
    CreateTable,
    DropDatabase,
    DropTables,
    ForeignKeyChange,
    NotUnderstood,
    RenameTables,
    Truncate,
)
from headwater.cdc.ddl.changes import TableChange
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.model.type_changes import holds
from headwater.cdc.pipeline.batch_commit import commit_properties
from headwater.cdc.pipeline.cascades import Cascades
from headwater.cdc.pipeline.joining import Joining, is_made_by_tool, unknown_again
from headwater.cdc.pipeline.progress import ProgressLog
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import TablePhase, TableState
from headwater.cdc.pipeline.table_states import (
    quarantined,
    read_again,
    read_once_more,
    without_target,
)
from headwater.cdc.pipeline.targets import BATCH_OPTION, DEFINITION_OPTION, Targets
from headwater.cdc.sink.schema_changes import Narrowing, schema_changes
from headwater.cdc.source.log_batches import LogBatch
from headwater.cdc.source.redefinitions import Described
from headwater.cdc.source.source import Source
from headwater.cdc.source.table_changes import TableChanges
from headwater.storage.errors import (
    Conflict,
    HeadwaterError,
    Invalid,
    Unavailable,
    Unsupported,
)
from headwater.storage.schema.change import DropColumn, SchemaChange, SetOption

__all__ = ["SchemaEvents"]

_EXCERPT = 120

States = Mapping[TableName, TableState]


class SchemaEvents:
    """Applies the statement of a batch. Applied twice, it changes nothing the second time.

    Args:
        source: The source.
        settings: The pipeline's.
        targets: The lake's tables.
        cascades: Tells which tables' rows go with those of another one.
        progress: Is told of changed columns.
    """

    def __init__(
        self,
        source: Source,
        settings: PipelineSettings,
        targets: Targets,
        cascades: Cascades,
        progress: ProgressLog,
    ) -> None:
        self._source, self._settings = source, settings
        self._targets, self._cascades, self._progress = targets, cascades, progress
        self._selection = settings.selection()

    def apply(
        self,
        number: int,
        before: States,
        states: dict[TableName, TableState],
        batch: LogBatch,
        joining: Joining,
    ) -> dict[TableName, TableState]:
        """Apply the statement of a batch.

        Args:
            number: The batch's number.
            before: The tables' states when the batch begins.
            states: The tables' states without it.
            batch: The batch.
            joining: Is told of tables whose definition is to be read.

        Returns:
            The states after it.
        """
        ahead = {name for name, state in before.items() if state.is_ahead}
        event = _Event(number, dict(states), batch, joining, ahead)
        for change in batch.changes:
            if isinstance(change, NotUnderstood):
                self._not_understood(event, change)
                self._created_unclearly(event, change)
            elif isinstance(change, RenameTables):
                self._rename(event, change)
            elif isinstance(change, DropTables | DropDatabase):
                for name in _concerned(event.states, change):
                    event.joining.leave(event.states, name, batch.end)
            elif isinstance(change, CreateTable):
                self._create(event, change)
            elif isinstance(change, Described) and change.table not in event.states:
                event.states[change.table] = event.joining.described(
                    event.states, change, batch.end, event.number
                )
            elif isinstance(change, Truncate | ForeignKeyChange):
                for name in _concerned(event.states, change):
                    self._change_rows(event, name, change)
        self._alter(_renamed(event))
        return event.states

    # Statements -------------------------------------------------------------------------------

    def _not_understood(self, event: _Event, change: NotUnderstood) -> None:
        for name in _concerned(event.states, change):
            state = event.states[name]
            if not state.is_followed:
                continue
            if change.changes_rows:
                reason = "a session with binlog_format=STATEMENT changed rows"
                event.states[name] = read_once_more(state, reason, event.batch.end)
                continue
            excerpt = event.batch.statement[:_EXCERPT]
            event.states[name] = quarantined(
                state,
                f"a statement is not understood: {change.reason} in '{excerpt}'; look at what it "
                f"did, and read the table again: headwater cdc resnapshot {name}",
                event.batch.start,
            )

    def _created_unclearly(self, event: _Event, change: NotUnderstood) -> None:
        """Look for tables that a statement may have created, of which it is not understood."""
        for name in () if change.changes_rows else change.names:
            state = event.states.get(name)
            is_there = state is not None and state.phase is not TablePhase.GONE
            if not is_there and self._is_followed(event, name):
                event.joining.want(name)

    def _change_rows(
        self, event: _Event, name: TableName, change: Truncate | ForeignKeyChange
    ) -> None:
        """Apply a change that leaves the columns as they are."""
        state = event.states[name]
        if not state.is_followed:
            return
        if isinstance(change, Truncate):
            self._truncate(event, name, state)
            return
        is_silent = self._cascades.is_needed and any(key.cascades for key in change.added)
        if is_silent and state.is_appended:
            event.states[name] = quarantined(
                state,
                f"a foreign key was added to {name} that changes its rows without events, and it "
                f"has no primary key; drop the foreign key, or add a primary key, and read the "
                f"table again: headwater cdc resnapshot {name} --replace",
                event.batch.start,
            )
            return
        if not change.dropped:
            return
        # It may have changed rows until then, which nobody looks for any more.
        for other in self._cascades.descendants(name, event.states):
            if other in event.states and event.states[other].is_followed:
                event.states[other] = read_again(
                    event.states[other], f"a foreign key of {name} was dropped", event.batch.end
                )

    def _truncate(self, event: _Event, name: TableName, state: TableState) -> None:
        if state.awaits_snapshot:
            # All rows of the lake's table are replaced.
            return
        try:
            # By its number, so that a process that is late removes no rows that came after it.
            self._clear(event, name, state)
        except (Unavailable, Conflict) as error:
            raise Unavailable(error.message) from error
        except HeadwaterError as error:
            event.states[name] = quarantined(state, error.message, event.batch.start)

    def _clear(self, event: _Event, name: TableName, state: TableState) -> None:
        self._targets.clear(
            state.target,
            name,
            event.number,
            commit_properties(event.number, event.batch),
        )

    def _alter(self, event: _Event) -> None:
        """Apply the changes of columns, those of a table together."""
        others = (
            *(NotUnderstood, RenameTables, DropTables, DropDatabase, CreateTable),
            *(Truncate, ForeignKeyChange),
        )
        changes = [change for change in event.batch.changes if not isinstance(change, others)]
        names = dict.fromkeys(
            name for change in changes for name in _concerned(event.states, change)
        )
        for name in names:
            state = event.states[name]
            if not state.is_followed:
                continue
            try:
                self._alter_table(event, name, state)
            except (Unavailable, Conflict) as error:
                raise Unavailable(error.message) from error
            except HeadwaterError as error:
                event.states[name] = quarantined(state, error.message, event.batch.start)
            self._progress.schema_changed(name, event.batch.statement[:_EXCERPT])

    def _alter_table(self, event: _Event, name: TableName, state: TableState) -> None:
        old, batch = state.source_table(name), event.batch
        result = self._source.altered(old, batch, self._settings.type_mapping)
        if result.unknown is not None:
            event.states[name] = unknown_again(state, result.unknown)
            event.joining.want(name)
            return
        if result.key_changed:
            raise Invalid(
                f"the primary key of {name} changed; replace the lake's table: headwater cdc "
                f"resnapshot {name} --replace"
            )
        table, number = self._targets.own(state.target, name), str(event.number)
        layout = self._settings.layout.layout(name)
        if layout.is_merged:
            self._unite(event, state, old, result)
            return
        options = table.schema.options
        definition = state.with_source(result.table).definition
        applied = None if self._source.logs_statements else options.get(DEFINITION_OPTION)
        if applied not in (None, state.definition, definition):
            event.states[name] = unknown_again(state, "it changed again after an interruption")
            event.joining.want(name)
            return
        if options.get(BATCH_OPTION) != number and applied != definition:
            alterations = schema_changes(
                table.schema,
                layout.expanded(old),
                layout.expanded(result.table),
                result.renames,
                narrowing=self._settings.narrowing,
            )
            if alterations and not self._source.has_rows:
                _check_kept(name, alterations)
            if not self._source.logs_statements and (alterations or applied is not None):
                # The batch that is repeated does not have the change, which is found again.
                alterations = [*alterations, SetOption(DEFINITION_OPTION, definition)]
            if alterations:
                self._targets.alter(state.target, *alterations, SetOption(BATCH_OPTION, number))
        reason = result.rereads
        if not reason and result.renames and name in event.ahead:
            # Rows that were read ahead of the log may have the values under their new names.
            reason = "columns were renamed while rows were read"
        state = state.with_source(result.table)
        event.states[name] = read_again(state, reason, batch.end) if reason else state
        if result.renames:
            self._read_misnamed(event, (name,))

    def _unite(
        self, event: _Event, state: TableState, old: SourceTable, result: TableChanges
    ) -> None:
        """Apply changed columns of a table that is merged with others.

        Others may have a column under a name that it does not have any more: rows are read again
        so that they have none.
        """
        new = result.table
        for column in new.columns if self._settings.narrowing is Narrowing.FAIL else ():
            before = {each.name: each.type for each in old.columns}.get(column.name, column.type)
            if not holds(column.type, before):
                raise Unsupported(
                    f"column '{column.name}' of {new.name} was {before} and is {column.type}, "
                    "which holds less; allow the lake to keep the wider type (narrowing)"
                )
        dropped = {each.name for each in old.columns} - {each.name for each in new.columns}
        others = [
            other
            for name, other in event.states.items()
            if name != new.name and other.target == state.target
        ]
        used = {column.name for other in others for column in other.columns}
        is_known = all(other.columns for other in others)
        self._targets.unite(state.target, new, dropped - used if is_known else ())
        reason = result.rereads
        if not reason and dropped & self._targets.open(state.target).schema.field_by_name.keys():
            reason = "it lost a column that the lake's table keeps for others"
        elif not reason and result.renames:
            reason = "a column was renamed, which is another one of a merged table"
        state = state.with_source(new)
        event.states[new.name] = read_again(state, reason, event.batch.end) if reason else state
        if result.renames:
            self._read_misnamed(event, (new.name,))

    def _create(self, event: _Event, change: CreateTable) -> None:
        name = change.table
        state = event.states.get(name)
        is_there = state is not None and state.phase is not TablePhase.GONE
        if is_there and change.if_not_exists and not change.or_replace:
            return
        if not self._is_followed(event, name):
            return
        # One that is gone stays as it is until the source has it: the lake's table may be kept.
        if state is not None and is_there:
            event.states[name] = unknown_again(state, "it was created again")
        event.joining.want(name)

    def _rename(self, event: _Event, change: RenameTables) -> None:
        replaced = set(change.replaced)
        moves = change.moves
        before = dict(event.states)
        for old, new in moves.items():
            state = before.get(old)
            if old in replaced:
                # Another table has its name now: the lake's follows the name.
                if state is not None:
                    event.states[old] = unknown_again(state, "another table took its name")
                    event.joining.want(old)
                if new not in replaced:
                    self._take_name(event, new, before)
                continue
            if state is None or state.phase is TablePhase.GONE:
                if new not in replaced:
                    self._take_name(event, new, before)
                continue
            if new in replaced or not self._is_followed(event, new) or new in before:
                event.joining.leave(event.states, old, event.batch.end)
                if new in before and new not in replaced:
                    self._take_name(event, new, before)
                continue
            if self._settings.layout.merges:
                self._move_part(event, old, new, state)
                continue
            del event.states[old]
            event.joining.forget(old)
            renamed = event.states[new] = self._renamed(event, old, new, state)
            if not renamed.target:
                continue
            if state.is_behind:
                event.states[new] = unknown_again(renamed, "it was renamed while it caught up")
            elif not state.is_followed:
                # What the log has of it since then is of its old name.
                event.states[new] = replace(renamed, backlog=None)
            if renamed.is_followed and old in event.ahead:
                event.ahead.add(new)
                # Rows that were read ahead of the log may be of another table of its name.
                event.states[new] = read_again(
                    event.states[new], "it was renamed while rows were read", event.batch.end
                )
            if not before[old].is_followed:
                event.joining.want(new)
        self._read_misnamed(event, change.tables)

    def _take_name(self, event: _Event, new: TableName, before: States) -> None:
        """Follow a table under the name that a rename gave it; all of its rows are read."""
        if new in before:
            event.states[new] = unknown_again(before[new], "another table took its name")
        if new in before or self._is_followed(event, new):
            event.joining.want(new)

    def _move_part(self, event: _Event, old: TableName, new: TableName, state: TableState) -> None:
        """Take the rows of a renamed table out of a merged one; they are read by the new name."""
        if state.target:
            try:
                # A table that is quarantined may not have one, or somebody else's.
                if self._targets.is_own(state.target):
                    self._clear(event, old, state)
            except (Unavailable, Conflict) as error:
                raise Unavailable(error.message) from error
            except HeadwaterError as error:
                event.states[old] = quarantined(state, error.message, event.batch.start)
                return
        del event.states[old]
        event.joining.forget(old)
        event.joining.want(new)

    def _check_layout(self, old: TableName, new: TableName) -> None:
        """Check that the options give a renamed table the same keys and columns; Invalid."""
        before = self._settings.layout.layout(old)
        after = self._settings.layout.layout(new)
        if after != replace(before, target=after.target, metadata=after.metadata):
            raise Invalid(
                f"table {old} was renamed to {new}, for which the options have other keys or "
                f"columns; create the lake's table again: headwater cdc resnapshot {new} --replace"
            )

    def _renamed(
        self, event: _Event, old: TableName, new: TableName, state: TableState
    ) -> TableState:
        """Give the lake's table its name after a rename; the state of the renamed table."""
        reason = event.joining.taken(event.states, new)
        if reason is not None:
            return without_target(reason, event.batch.end)
        target = self._targets.name(new)
        try:
            self._check_layout(old, new)
            self._targets.rename(state.target, target)
        except (Unavailable, Conflict) as error:
            raise Unavailable(error.message) from error
        except HeadwaterError as error:
            event.joining.forget(new)
            # What the log has of it from here on is not of the table of the lake.
            failed = quarantined(state, error.message, event.batch.end)
            return replace(failed, backlog=None)
        state = replace(state, target=target)
        metadata = [self._settings.layout.layout(name).metadata for name in (old, new)]
        if state.is_followed and metadata[0] != metadata[1]:
            reason = "it was renamed, and its name is in metadata columns"
            return read_again(state, reason, event.batch.end)
        return state

    def _read_misnamed(self, event: _Event, names: Collection[TableName]) -> None:
        """Read children again that were looked for by foreign keys with later names."""
        for name in self._cascades.misnamed(names, event.states, event.batch.start):
            state = event.states.get(name)
            if state is not None and state.is_followed:
                event.states[name] = read_again(
                    state, "foreign keys were read behind a rename", event.batch.end
                )

    def _is_followed(self, event: _Event, name: TableName) -> bool:
        """Whether a table that appears is to be followed."""
        if not self._selection.matches(name):
            return False
        return name in event.states or not is_made_by_tool(name, event.states)


@dataclass(frozen=True)
class _Event:
    """The statement of a batch, while it is applied.

    Attributes:
        number: The batch's number.
        states: The tables' states, which change.
        batch: The batch.
        joining: Is told of tables whose definition is to be read.
        ahead: Tables of which rows may be as the source had them after the statement.
    """

    number: int
    states: dict[TableName, TableState]
    batch: LogBatch
    joining: Joining
    ahead: set[TableName]


def _renamed(event: _Event) -> _Event:
    """A statement without its renames of tables, and its changes under their new names.

    ALTER TABLE … RENAME has all its changes under the name from before.
    """
    renames = [change for change in event.batch.changes if isinstance(change, RenameTables)]
    moves = {old: new for change in renames for old, new in change.moves.items()}
    changes = tuple(
        replace(change, table=moves.get(change.table, change.table))
        if isinstance(change, TableChange)
        else change
        for change in event.batch.changes
        if not isinstance(change, RenameTables)
    )
    return replace(event, batch=replace(event.batch, changes=changes)) if moves else event


def _check_kept(name: TableName, alterations: Sequence[SchemaChange]) -> None:
    """Check that no column loses its values, which cannot be read again.

    Raises:
        Unsupported: One does.
    """
    for alteration in alterations:
        if isinstance(alteration, DropColumn):
            raise Unsupported(
                f"column '{alteration.path[0]}' of the lake's table of {name} has another "
                "type than the log's rows, which do not fit into one type; change it back, or "
                "create the lake's tables again: headwater cdc resnapshot --all --replace"
            )


def _concerned(states: States, change: Change) -> list[TableName]:
    if isinstance(change, NotUnderstood) and change.any_table:
        return list(states)
    if isinstance(change, DropDatabase):
        return [name for name in states if name.database == change.database]
    return [name for name in change.tables if name in states]
