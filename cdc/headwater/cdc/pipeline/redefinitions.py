"""Definitions of tables that are asked for, where a source's log has no statements."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from time import monotonic

from headwater.cdc.ddl import Change, CreateTable, DropTables, RenameTables
from headwater.cdc.model.tables import Finding, SourceTable, TableName
from headwater.cdc.pipeline.joining import is_made_by_tool
from headwater.cdc.pipeline.settings import PipelineSettings
from headwater.cdc.pipeline.state import TablePhase, TableState
from headwater.cdc.source.log_batches import LogBatch
from headwater.cdc.source.positions import Position
from headwater.cdc.source.redefinitions import Redefinition, Unlogged
from headwater.cdc.source.source import Source

__all__ = ["RedefinitionWatch"]

States = Mapping[TableName, TableState]


class RedefinitionWatch:
    """Looks for tables that were created, dropped, renamed or altered.

    What is found holds from a position on that has all until the question. Once the log has reached
    it, it is a batch of its own, as a statement is. If the log has told something of a table
    meanwhile, that may be of a later time, and the question is asked again.

    Args:
        source: The source.
        settings: The pipeline's.
    """

    def __init__(self, source: Source, settings: PipelineSettings) -> None:
        self._source, self._settings = source, settings
        self._selection = settings.selection()
        self._next = monotonic()
        self._found: Mapping[TableName, SourceTable] | None = None
        # Tables that are there and cannot be followed.
        self._rejected: frozenset[TableName] = frozenset()
        self._unlogged: Mapping[TableName, Finding] = {}
        self._settled: Position | None = None
        # Tables of the source, and the states that were found to be alike.
        self._alike: dict[TableName, tuple[SourceTable, tuple[object, ...]]] = {}

    def look(self, states: States) -> None:
        """Ask for the definitions, unless the log has statements or they were asked for lately."""
        if self._source.logs_statements or self._found is not None or monotonic() < self._next:
            return
        followed = {name for name, state in states.items() if state.is_followed}
        # Before the tables: one that is renamed in between has left its name, not the publication.
        self._unlogged = self._source.unlogged(followed)
        tables = self._source.tables(
            mapping=self._settings.type_mapping, without_key=self._settings.appends
        )
        self._found = {table.name: table for table in tables.followed}
        rejected = (finding.table for finding in tables.findings)
        self._rejected = frozenset(name for name in rejected if name is not None)
        self._settled = self._source.position()

    @property
    def is_pending(self) -> bool:
        """Whether the log has not reached the place of what was asked for."""
        return self._found is not None

    def forget(self, states: States) -> None:
        """Ask again: tables have changed since, by what the log told of them."""
        self._found = self._settled = None
        self._next = monotonic()
        self.look(states)

    def batch(
        self, states: States, position: Position, awaited: Collection[TableName] = ()
    ) -> LogBatch | None:
        """What was found, once the log has reached its place; None if nothing was.

        Args:
            states: The tables.
            position: Where the log was read to.
            awaited: Tables that wait to be followed, so that they are not new.
        """
        if self._found is None or self._settled is None or not position.contains(self._settled):
            return None
        changes = list(self._changes(states, self._found, awaited))
        self._found = self._settled = None
        self._next = monotonic() + self._settings.look_seconds
        return LogBatch(position, position, changes=changes) if changes else None

    def _changes(
        self, states: States, found: Mapping[TableName, SourceTable], awaited: Collection[TableName]
    ) -> Iterator[Change]:
        known = {
            name: state for name, state in states.items() if state.phase is not TablePhase.GONE
        }
        names = {table.id: name for name, table in found.items()}
        renames: dict[TableName, TableName] = {}
        for name, state in known.items():
            table = found.get(name)
            new = names.get(state.id)
            if state.columns and new not in (None, name) and new not in known:
                renames[name] = new
            elif table is None and name not in self._rejected:
                yield DropTables((name,))
            elif not state.is_followed:
                continue
            elif table is None or table.id != state.id:
                yield CreateTable(name, or_replace=True)
            elif name in self._unlogged:
                yield Unlogged(name, self._unlogged[name])
            elif not self._is_alike(table, state):
                yield Redefinition(table)
        if renames:
            yield RenameTables(tuple(renames.items()))
        chosen = {name for name in found if self._selection.matches(name)}
        for name in chosen - known.keys() - set(renames.values()) - set(awaited):
            if not is_made_by_tool(name, chosen | states.keys()):
                yield CreateTable(name)

    def _is_alike(self, table: SourceTable, state: TableState) -> bool:
        """Whether a table is as its state says; most are the objects that were compared before."""
        # Tables are equal without what their storage tells.
        stored = table.storage, state.storage
        both = table, (state.columns, state.key, state.comment, state.id, *stored)
        if self._alike.get(table.name) == both:
            return True
        known = state.source_table(table.name)
        if table.storage != state.storage or _shape(table) != _shape(known):
            return False
        self._alike[table.name] = both
        return True


def _shape(table: SourceTable) -> SourceTable:
    """A table without the defaults of its columns, which no rows follow."""
    columns = tuple(replace(column, default=None) for column in table.columns)
    return replace(table, columns=columns, primary_key=tuple(table.primary_key))
