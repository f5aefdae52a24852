"""Tables that begin to be followed: their definition is read between two positions."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from time import monotonic

from headwater.cdc.ddl import Change
from headwater.cdc.ddl.online_changes import is_tool_table
from headwater.cdc.model.tables import Finding, SourceColumn, SourceTable, TableName
from headwater.cdc.pipeline.settings import OnDrop, PipelineSettings
from headwater.cdc.pipeline.state import ColumnState, Reading, TablePhase, TableState
from headwater.cdc.pipeline.table_states import gone, quarantined, without_target
from headwater.cdc.pipeline.targets import CLASH_REMEDY, Targets
from headwater.cdc.sink.appended_rows import APPENDED_KIND
from headwater.cdc.sink.schema_changes import schema_changes
from headwater.cdc.source.log_batches import LogBatch
from headwater.cdc.source.positions import Position
from headwater.cdc.source.redefinitions import Described
from headwater.cdc.source.source import Source
from headwater.storage.errors import Conflict, HeadwaterError, Invalid, Unavailable

__all__ = ["Joining", "is_made_by_tool", "unknown_again"]

# How long tables wait that the source has to be asked for again, in seconds.
_ASK_AGAIN_SECONDS = 1.0
_REPLACE = "; the lake's table is replaced"

States = Mapping[TableName, TableState]


class Joining:
    """Brings tables into a pipeline.

    What the information schema says of a table holds at a position in the log if the log has no
    statement about the table around it. So it is asked once, and asked again if there was one.

    Args:
        source: The source.
        settings: The pipeline's.
        targets: The lake's tables.
    """

    def __init__(self, source: Source, settings: PipelineSettings, targets: Targets) -> None:
        self._source, self._settings, self._targets = source, settings, targets
        self._selection = settings.selection()
        # Tables whose definition is not known yet.
        self._wanted: set[TableName] = set()
        # Those of them that cannot be read now, each with what it waits for.
        self._waits: Mapping[TableName, str] = {}
        self._next = monotonic()
        self._read: dict[TableName, SourceTable | Finding | None] = {}
        self._settled: Position | None = None
        # Tables whose ranges cannot be read: their columns, and where the log has the reason.
        self._stalled: dict[TableName, tuple[Sequence[ColumnState], Position]] = {}
        # XA transactions that may have changed these tables, and are still open, in their order.
        self._prepared: dict[str, None] = {}

    @property
    def has_some(self) -> bool:
        """Whether tables wait to be followed."""
        return bool(self._wanted or self._read)

    @property
    def is_near(self) -> bool:
        """Whether tables wait for a position of the log only, or to be asked for."""
        return bool(self._read or self._wanted - self._waits.keys())

    @property
    def waits(self) -> Mapping[TableName, str]:
        """Tables that cannot be read now, each with what it waits for."""
        return {name: why for name, why in self._waits.items() if name in self._wanted}

    @property
    def awaited(self) -> frozenset[TableName]:
        """Tables that wait to be followed, also those whose definition is known."""
        return frozenset(self._wanted | self._read.keys())

    @property
    def wanted(self) -> frozenset[TableName]:
        """Tables whose definition is not known yet."""
        return frozenset(self._wanted)

    def begin(self, states: States) -> None:
        """Look for tables that are not followed yet."""
        settings = self._settings
        tables = self._source.tables(mapping=settings.type_mapping, without_key=settings.appends)
        # One that has another name now is renamed where the log has come to it.
        ids = {state.id for state in states.values() if state.id is not None}
        names = {table.name for table in tables.followed if table.id not in ids}
        names |= {finding.table for finding in tables.findings if finding.table is not None}
        known = {
            name
            for name, state in states.items()
            if not (_is_unknown(state) or state.phase is TablePhase.GONE)
        }
        chosen = {name for name in names if self._selection.matches(name)}
        self._wanted = {
            name for name in chosen - known if not is_made_by_tool(name, chosen | states.keys())
        }
        self._wanted |= {name for name, state in states.items() if _is_unknown(state)}

    def want(self, name: TableName) -> None:
        """Follow a table from one of the next batches on."""
        self._read.pop(name, None)
        self._wanted.add(name)

    def forget(self, name: TableName) -> None:
        """Do not wait for a table: it is gone."""
        self._read.pop(name, None)
        self._wanted.discard(name)

    def ask_again(
        self, states: dict[TableName, TableState], name: TableName, *, replaces: bool
    ) -> None:
        """Read a table again because somebody asks for it."""
        state = states.get(name)
        if state is None:
            return
        reason = "somebody asked for it" + (_REPLACE if replaces else "")
        if not _is_unknown(state) or state.reason != reason:
            states[name] = unknown_again(state, reason)
            self.want(name)

    def renewed(self, states: States, stalled: Collection[TableName], position: Position) -> States:
        """The states, with tables to be defined again that no statement in the log has changed.

        Args:
            states: The tables.
            stalled: Those of which a batch could read no range.
            position: The end of the batch.
        """
        self._stalled = {name: since for name, since in self._stalled.items() if name in stalled}
        changed: dict[TableName, TableState] = {}
        for name in stalled:
            state = states.get(name)
            if state is None or not (state.is_followed and state.is_read):
                continue
            columns, reached = self._stalled.setdefault(
                name, (state.columns, self._source.position())
            )
            if columns == state.columns and not position.contains(reached):
                continue
            del self._stalled[name]
            if columns == state.columns and self._is_redefined(name, state, position):
                reason = "its definition changed, and the log has no statement of it"
                changed[name] = unknown_again(state, reason)
                self.want(name)
        return {**states, **changed} if changed else states

    def _is_redefined(self, name: TableName, state: TableState, position: Position) -> bool:
        """Whether the source has another definition of a table; nothing waits for its locks."""
        try:
            with self._source.consistent_read(position) as read:
                tables = read.tables(
                    {name}, mapping=self._settings.type_mapping, without_key=self._settings.appends
                ).followed
        except Conflict:
            return False
        now, known = (tables[0] if tables else None), state.source_table(name)
        return now is None or _definition(now) != _definition(known)

    def read(self, states: States, seen: Position) -> None:
        """Ask the source for definitions, if some are wanted."""
        is_later = bool(self._read) or monotonic() < self._next
        if not self._wanted or (self._wanted <= self._waits.keys() and is_later):
            return
        with self._source.consistent_read(seen) as read:
            tables = read.tables(
                self._wanted,
                mapping=self._settings.type_mapping,
                without_key=self._settings.appends,
            )
            # Reads of the tables see those that end before this.
            self._prepared = dict.fromkeys(self._source.prepared_transactions())
            tables = self._source.publish(tables)
            settled = self._source.position()
        self._waits, self._next = tables.awaited, monotonic() + _ASK_AGAIN_SECONDS
        # None is a table that the source does not have any more.
        present: dict[TableName, SourceTable | Finding | None] = {
            name: None
            for name in self._wanted - self._waits.keys()
            if name in states and states[name].phase is not TablePhase.GONE
        }
        present |= {table.name: table for table in tables.followed}
        for finding in tables.findings:
            if finding.table is not None:
                present[finding.table] = present.get(finding.table) or finding
        self._read |= present
        self._wanted &= self._waits.keys()
        self._settled = settled

    def changed(self, change: Change) -> None:
        """Ask again for tables that a statement is about."""
        for name in [name for name in self._read if change.concerns(name)]:
            self.want(name)

    def joined(self, states: States, batch: LogBatch, number: int) -> States:
        """The states with the tables whose definition holds at the end of a batch.

        Args:
            states: The tables.
            batch: The batch.
            number: That of the last planned batch.
        """
        for change in batch.changes:
            self.changed(change)
        # The log comes to what the source has told of, or to its end, before rows are read.
        for end in batch.xa if self._read else ():
            if end.committed is None:
                self._prepared[end.xid] = None
            else:
                self._prepared.pop(end.xid, None)
        if not self._read or self._settled is None or not batch.end.contains(self._settled):
            return states
        result, definitions = dict(states), dict(self._read)
        for name, definition in definitions.items():
            if definition is None:
                self.leave(result, name, batch.end)
                continue
            reason = self.taken(result, name)
            if reason is not None:
                result[name] = without_target(reason, batch.end)
                continue
            result[name] = self._join(name, states.get(name), definition, batch.end, number)
        self._read.clear()
        return result

    def leave(
        self, states: dict[TableName, TableState], name: TableName, position: Position
    ) -> None:
        """Do not follow a table any more that the source does not have."""
        self.forget(name)
        state = states.pop(name)
        if not state.target:
            return
        if self._settings.on_drop is OnDrop.DROP:
            self._targets.drop(state.target)
        else:
            states[name] = gone(state, position)

    def described(
        self, states: States, change: Described, position: Position, number: int
    ) -> TableState:
        """The state of a table that the log has begun to have rows of, and describes.

        All of its rows are in the log, so that none are read.

        Args:
            states: The tables.
            change: What the log says of it.
            position: The end of the batch.
            number: That of the last planned batch.
        """
        name, definition = change.table, change.definition
        reason = self.taken(states, name)
        if reason is not None:
            return quarantined(TableState("", TablePhase.SNAPSHOT), reason, position)
        if isinstance(definition, SourceTable) and not (
            definition.primary_key or self._settings.appends
        ):
            definition = without_key(name)
        target = self._targets.name(name)
        if isinstance(definition, SourceTable) and self._targets.is_own(target):
            try:
                definition = self._with_own_columns(target, definition)
            except HeadwaterError as error:
                definition = Finding(f"table {target} of the lake", error.message, "drop it", name)
        state = self._join(name, None, definition, position, number)
        if not state.is_followed:
            return state
        return replace(state, phase=TablePhase.STREAMING, reason=None, reading=None)

    def _with_own_columns(self, target: str, definition: SourceTable) -> SourceTable:
        """A table with the columns that an earlier process, or an earlier time, gave the lake's."""
        known = {column.name for column in definition.columns}
        fields = self._targets.open(target).schema.fields
        others = [
            SourceColumn(field.name, "", field.type, comment=field.description or "")
            for field in fields
            if field.name not in known and (definition.primary_key or field.name != APPENDED_KIND)
        ]
        return replace(definition, columns=(*definition.columns, *others))

    def taken(self, states: States, name: TableName) -> str | None:
        """Why a table cannot have the lake's table of its name; None if it can."""
        target = self._targets.name(name)
        if name in states and states[name].target:
            return None
        for other, state in states.items():
            is_same = state.target.lower() == target.lower()
            if other != name and is_same and self._settings.layout.clash(name, other):
                return f"table {target} of the lake follows {other}; {CLASH_REMEDY}"
        return None

    def _join(
        self,
        name: TableName,
        state: TableState | None,
        definition: SourceTable | Finding,
        position: Position,
        number: int,
    ) -> TableState:
        target = (state.target if state is not None else "") or self._targets.name(name)
        # Somebody may have made it again, or changed it.
        self._targets.forget(target)
        exists = self._targets.exists(target)
        is_new = state is None or not exists
        phase = TablePhase.SNAPSHOT if is_new else TablePhase.REREADING
        joined = TableState(
            target,
            phase,
            str(position),
            None if is_new else (state and state.reason) or "its definition changed",
            reading=Reading(deletes=exists),
            # The log told nothing of a table whose columns were not known.
            prepared=tuple(self._prepared),
        )
        if isinstance(definition, Finding):
            return quarantined(joined, str(definition), position)
        try:
            self._prepare(target, state, definition)
            self._targets.check_number(target, name, number)
        except Unavailable:
            raise
        except HeadwaterError as error:
            return quarantined(joined.with_source(definition), error.message, position)
        return joined.with_source(definition)

    def _prepare(self, target: str, state: TableState | None, definition: SourceTable) -> None:
        """Create the lake's table, replace it, or give it the columns that the source has now."""
        # It may have been made before an interruption, and the source's changed meanwhile. One of
        # somebody else is taken as it is, or rejected.
        if self._targets.is_own(target):
            if state is None or not _is_replaced(state):
                self._evolve(target, definition)
                return
            self._check_replaceable(definition.name, target)
            self._targets.drop(target)
        self._targets.create(target, definition)

    def _check_replaceable(self, name: TableName, target: str) -> None:
        if self._settings.layout.merges:
            raise Invalid(
                f"table {target} of the lake cannot be replaced for {name}: it may have rows of "
                f"other tables; leave --replace out: headwater cdc resnapshot {name}"
            )

    def _evolve(self, target: str, definition: SourceTable) -> None:
        """Give a table of the lake the columns that the source has now."""
        if self._settings.layout.merges:
            self._targets.unite(target, definition)
            return
        schema = self._targets.open(target).schema
        layout = self._settings.layout.layout(definition.name)
        expanded = layout.expanded(definition)
        if tuple(schema.primary_keys) != tuple(expanded.primary_key):
            key = ", ".join(expanded.primary_key)
            raise Invalid(
                f"table {definition.name} is to have the primary key ({key}), and {target} has "
                f"({', '.join(schema.primary_keys)}); replace the lake's table: headwater cdc "
                f"resnapshot {definition.name} --replace"
            )
        known = [
            SourceColumn(field.name, "", field.type, comment=field.description or "")
            for field in schema.fields
            if definition.primary_key or field.name != APPENDED_KIND
        ]
        old = SourceTable(
            definition.name, tuple(known), tuple(schema.primary_keys), schema.comment or ""
        )
        changes = schema_changes(schema, old, expanded, narrowing=self._settings.narrowing)
        self._targets.alter(target, *changes)


def is_made_by_tool(name: TableName, followed: Container[TableName]) -> bool:
    """Whether a table is one that a tool made to change a followed one, see `is_tool_table`."""
    return is_tool_table(name, lambda base: base in followed)


def without_key(name: TableName) -> Finding:
    """What keeps a table without a primary key from being followed."""
    return Finding(
        f"table {name}",
        "it has no primary key: its messages have no key",
        "give it one, or append its changes (tables-without-key: append)",
        name,
    )


def unknown_again(state: TableState, reason: str) -> TableState:
    """The state of a table whose definition is not known until it has joined again."""
    if _is_unknown(state) and _is_replaced(state) and not reason.endswith(_REPLACE):
        reason += _REPLACE
    return replace(
        state,
        phase=TablePhase.REREADING,
        reason=reason,
        columns=(),
        key=(),
        reading=None,
        backlog=None,
    )


def _definition(table: SourceTable) -> tuple[object, ...]:
    """What ranges of a table are checked for before they are read."""
    columns = [(column.name, column.source_type) for column in table.columns]
    return columns, tuple(table.primary_key), table.id


def _is_replaced(state: TableState) -> bool:
    """Whether the lake's table is created again when its table has joined."""
    return (state.reason or "").endswith(_REPLACE)


def _is_unknown(state: TableState) -> bool:
    return state.phase is TablePhase.REREADING and not state.columns
