"""Rows of children that foreign keys change at the source without an event in the log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.cdc.pipeline.log_rows import UNEXPECTED, LogRows
from headwater.cdc.pipeline.referring_rows import referring_rows, rows_without_parent
from headwater.cdc.pipeline.state import TableState
from headwater.cdc.pipeline.targets import Targets
from headwater.cdc.sink.row_mapping import row_schema
from headwater.cdc.source.foreign_keys import (
    Comparison,
    ForeignKeyAction,
    affected_children,
    keys_that_reach,
)
from headwater.cdc.source.log_batches import TableRows
from headwater.cdc.source.positions import Position
from headwater.cdc.source.source import Source
from headwater.storage.errors import HeadwaterError, Unavailable
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.rows.kinds import RowKind

__all__ = ["Cascades"]

States = Mapping[TableName, TableState]
Ranges = Mapping[TableName, Sequence[pa.RecordBatch]]
Rows = Mapping[TableName, Sequence[TableRows]]


@dataclass
class CascadeReads:
    """What a batch must read again of children of foreign keys.

    Attributes:
        keys: Single keys.
        rereads: Tables all of whose rows are read again, with the reason. They do not commit the
            batch, so that it is known when the batch is repeated.
    """

    keys: dict[TableName, pa.Table] = field(default_factory=dict)
    rereads: dict[TableName, str] = field(default_factory=dict)


class Cascades:
    """Finds the children's rows that a batch of their parents' changes may have changed.

    Args:
        source: The source.
        targets: The lake's tables.
        bad_dates: What to do with dates that the lake does not have.
    """

    def __init__(self, source: Source, targets: Targets, bad_dates: BadDates) -> None:
        self._source, self._targets, self._bad_dates = source, targets, bad_dates
        self._is_needed = not source.logs_cascades
        self._actions: Sequence[ForeignKeyAction] = ()
        # A position that has all statements which these keys are of; None if they are not known.
        self._read_at: Position | None = None
        if self._is_needed:
            self._known()

    @property
    def is_needed(self) -> bool:
        """Whether the source changes rows by foreign keys without an event."""
        return self._is_needed

    def forget(self) -> None:
        """Read the foreign keys again: a statement may have changed them."""
        self._read_at = None

    def search(
        self,
        rows: Rows,
        states: States,
        ranges: Ranges,
        committed: Collection[TableName] = (),
    ) -> CascadeReads:
        """What must be read again of children after a batch.

        Args:
            rows: The rows of the batch.
            states: The tables when it begins.
            ranges: The columns of `columns` of the rows that were read of tables meanwhile.
            committed: Tables that have the batch already.

        Raises:
            Unavailable: The lake or the source is not there.
        """
        reads = CascadeReads()
        if not self._is_needed:
            return reads
        actions = self._read(states)
        search = _Search(self, rows, states, actions, ranges, committed, reads)
        for parent in {action.parent for action in actions} & rows.keys():
            try:
                search.follow_parent(parent)
            except Unavailable:
                raise
            except HeadwaterError as error:
                # What cannot be read of a table is told where its own part is committed.
                search.read_again(parent, f"rows that go with those of {parent}: {error.message}")
            except UNEXPECTED as error:
                if isinstance(error, MemoryError):
                    raise
                kind = type(error).__name__
                search.read_again(parent, f"rows that go with those of {parent}: {kind}: {error}")
        for name in reads.rereads:
            reads.keys.pop(name, None)
        return reads

    def children(self, states: States) -> frozenset[TableName]:
        """The followed tables whose rows foreign keys change."""
        return self._followed(states, lambda action: (action.child,))

    def related(self, states: States) -> frozenset[TableName]:
        """The followed tables whose rows foreign keys change, and their followed parents."""
        return self._followed(states, lambda action: (action.child, action.parent))

    def _followed(
        self, states: States, tables: Callable[[ForeignKeyAction], tuple[TableName, ...]]
    ) -> frozenset[TableName]:
        """The followed ones among some tables of each foreign key."""
        if not self._is_needed:
            return frozenset()
        names = {name for action in self._read(states) for name in tables(action)}
        return frozenset(name for name in names if name in states and states[name].is_followed)

    def columns(self, name: TableName, states: States) -> Sequence[str]:
        """The columns by which rows of a table are found; none if no foreign key changes them."""
        if not self._is_needed:
            return ()
        actions = self._read(states)
        if not any(action.child == name for action in actions):
            return ()
        table = states[name].source_table(name)
        bound = [
            column
            for action in actions
            for side, columns in (
                (action.child, action.columns),
                (action.parent, action.parent_columns),
            )
            if side == name
            for column in columns
        ]
        present = {column.name for column in table.columns}
        return [each for each in dict.fromkeys([*table.primary_key, *bound]) if each in present]

    def misnamed(
        self, names: Collection[TableName], states: States, position: Position
    ) -> Collection[TableName]:
        """Tables of which rows may have been missed, as the foreign keys had other names already.

        Args:
            names: The old and the new name of a table that is renamed, or has renamed columns.
            states: The tables.
            position: Where the log is before that.
        """
        if not self._is_needed:
            return frozenset()
        if position.contains(self._known()):
            return frozenset()
        own = {action.child for action in self._actions if action.child in names}
        return own.union(*(_children(self._actions, name) for name in names))

    def descendants(self, name: TableName, states: States) -> frozenset[TableName]:
        """A table, and those whose rows go with its rows."""
        if not self._is_needed:
            return frozenset({name})
        return _children(self._read(states), name) | {name}

    def unwatched(
        self, states: States, awaited: Collection[TableName], position: Position
    ) -> Mapping[TableName, TableName]:
        """Followed tables whose rows go with those of a parent that is not, each with the parent.

        None while the log is before the statements that the foreign keys are of, as tables may have
        had other names then.

        Args:
            states: The tables.
            awaited: Tables that are about to be followed.
            position: Where the log is.
        """
        if not self._is_needed or not position.contains(self._known()):
            return {}
        followed = {name for name, state in states.items() if state.is_followed}
        return {
            action.child: action.parent
            for action in self._read(states)
            if action.child in followed and action.parent not in followed.union(awaited)
        }

    def _read(self, states: States) -> Sequence[ForeignKeyAction]:
        self._known()
        followed = [name for name, state in states.items() if state.is_followed]
        return keys_that_reach(self._actions, followed)

    def _known(self) -> Position:
        """Read the foreign keys unless they are known; a position that has their statements."""
        if self._read_at is None:
            self._actions = self._source.silent_foreign_keys()
            self._read_at = self._source.position()
        return self._read_at

    def lake_table(self, name: TableName, states: States) -> SourceTable:
        """A source's table with the types of the lake's."""
        state = states[name]
        return self._targets.lake_table(state.target, state.source_table(name))

    def logged(
        self, name: TableName, rows: Rows, states: States
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows of a table in the batch, with their kinds, also those before updates.

        Returns:
            The rows that the log has whole, and those that it has in part.
        """
        log_rows = LogRows(
            self.lake_table(name, states),
            rows.get(name, ()),
            self._bad_dates,
            keeps_before=True,
            keeps_updates=True,
        )
        log_rows.check()
        frames = [pl.DataFrame(pa.table(batch)) for batch in log_rows.batches()]
        parts = [pl.DataFrame(part) for part in log_rows.partial]
        empty = pl.DataFrame(row_schema(log_rows.table).empty_table())
        return pl.concat([empty, *frames]), pl.concat([empty, *parts])

    def stored(self, name: TableName, states: States, columns: Sequence[str]) -> list[pl.DataFrame]:
        """Columns of the lake's table, batch by batch."""
        table, state = states[name].source_table(name), states[name]
        where = self._targets.mapping(state.target, table).where
        scan = self._targets.open(state.target).scan(columns=list(columns), where=where)
        return [pl.DataFrame(pa.table(batch)) for batch in scan.to_batches()]


class _Search:
    """The search of one batch."""

    def __init__(
        self,
        cascades: Cascades,
        rows: Rows,
        states: States,
        actions: Sequence[ForeignKeyAction],
        ranges: Ranges,
        committed: Collection[TableName],
        reads: CascadeReads,
    ) -> None:
        self._cascades, self._rows, self._states = cascades, rows, states
        self._actions, self._ranges, self._committed = actions, ranges, committed
        self._reads, self._keys = reads, reads.keys

    def follow_parent(self, parent: TableName) -> None:
        """Find the children of rows that the log has as deleted or with other values."""
        state = self._states.get(parent)
        if state is None or not state.is_followed:
            return
        frame, partial = self._cascades.logged(parent, self._rows, self._states)
        for action in [action for action in self._actions if action.parent == parent]:
            columns = list(action.parent_columns)
            if any(column not in frame.columns for column in columns):
                self.read_again(parent, f"a column of {parent} was renamed")
                return
            values = [_values_gone(frame, columns), partial.select(columns)]
            if len(partial):
                before = self._values_before(parent, columns, frame, partial)
                if before is None:
                    reason = (
                        f"a session wrote parts of rows of {parent}, whose values are not known"
                    )
                    self.read_again(parent, reason)
                    return
                values += before
            is_moved = any(_is_updated(part, columns).any() for part in (frame, partial))
            self._follow(action, pl.concat(values).drop_nulls().unique(), is_moved=is_moved)

    def _values_before(
        self,
        parent: TableName,
        columns: Sequence[str],
        frame: pl.DataFrame,
        partial: pl.DataFrame,
    ) -> list[pl.DataFrame] | None:
        """What rows may have had in columns that the log lacks; None if that is not known."""
        table = self._cascades.lake_table(parent, self._states)
        key = list(table.primary_key)
        if set(columns) <= set(key):
            return []
        changed = _changed_keys(partial, table, columns)
        if changed.is_empty():
            return []
        is_inserted = partial[ROW_KIND_COLUMN] == int(RowKind.INSERT)
        inserted = partial.filter(is_inserted).join(changed, on=key, how="semi")
        if self._states[parent].is_ahead or parent in self._committed or len(inserted):
            # The lake does not have the rows as they were before they changed.
            return None
        names = [*dict.fromkeys([*key, *columns])]
        frames = [*self._cascades.stored(parent, self._states, names), frame.select(names)]
        return [rows.join(changed, on=key, how="semi").select(columns) for rows in frames]

    def read_again(self, parent: TableName, reason: str) -> None:
        """Read all tables again whose rows go with those of a table."""
        self._note_rereads(self._cascades.descendants(parent, self._states) - {parent}, reason)

    def _note_rereads(self, names: Collection[TableName], reason: str) -> None:
        for child in names:
            state = self._states.get(child)
            if state is not None and state.is_followed and child not in self._committed:
                self._reads.rereads[child] = reason

    def _follow(
        self, action: ForeignKeyAction, values: pl.DataFrame, *, is_moved: bool = False
    ) -> None:
        """Note the child's rows that have some values, and go on with their own children.

        Args:
            action: The foreign key of the child.
            values: The values that its parent had.
            is_moved: Whether rows of the parent have others instead.
        """
        child = action.child
        state = self._states.get(child)
        if values.is_empty() or state is None or not state.is_followed:
            return
        key = list(self._cascades.lake_table(child, self._states).primary_key)
        if not key:
            self.read_again(action.parent, f"rows of {action.parent} changed those of {child}")
            return
        is_moved &= action.on_update.changes_rows
        moves_keys = is_moved and not set(key).isdisjoint(action.columns)
        if moves_keys and state.is_ahead:
            # Its rows may have other keys already, or lie before what is read of it.
            self._read_moved_again(action)
            return
        further = [other for other in self._actions if other.parent == child]
        if further and child in self._committed:
            # The lake does not have its rows as they were.
            self.read_again(child, f"rows of {child} were deleted before an interruption")
            return
        frames = self._frames(action, key, further)
        if frames is None:
            return
        hits = referring_rows(frames, values, self._compared(action))
        if hits is None:
            self._read_compared_again(action)
            return
        if moves_keys and any(map(len, hits)):
            self._read_moved_again(action)
            return
        keys = self._note_keys(child, key, hits)
        # Also what they had besides these values, which parts of rows lack.
        rows = pl.concat(frame.join(keys, on=key, how="semi") for frame in frames)
        for other in further:
            gone = rows.select(list(other.parent_columns)).drop_nulls().unique()
            is_updated = is_moved and not set(action.columns).isdisjoint(other.parent_columns)
            self._follow(other, gone, is_moved=is_updated)
            if state.is_ahead:
                self._follow_orphans(other, frames)

    def _follow_orphans(self, action: ForeignKeyAction, parents: Sequence[pl.DataFrame]) -> None:
        """Note the child's rows whose parent is gone: it was read when the source had deleted it.

        Args:
            action: The foreign key of the child.
            parents: The parent's rows.
        """
        child = action.child
        state = self._states.get(child)
        if state is None or not state.is_followed:
            return
        key = list(self._cascades.lake_table(child, self._states).primary_key)
        further = [other for other in self._actions if other.parent == child]
        frames = self._frames(action, key, further) if key else None
        if frames is None:
            return
        values = pl.concat(frame.select(list(action.parent_columns)) for frame in parents)
        orphans = rows_without_parent(frames, values.unique(), action.columns)
        if orphans is None:
            self._read_compared_again(action)
            return
        # A table may be its own parent: only what was not noted before leads further.
        keys = self._note_keys(child, key, orphans)
        rows = pl.concat(orphans).join(keys, on=key, how="semi")
        for other in further:
            self._follow(other, rows.select(list(other.parent_columns)).drop_nulls().unique())

    def _frames(
        self, action: ForeignKeyAction, key: list[str], further: Sequence[ForeignKeyAction]
    ) -> list[pl.DataFrame] | None:
        """The rows that a child has or had, in the lake and in the batch.

        Args:
            action: The foreign key of the child.
            key: The columns of its primary key.
            further: The foreign keys of its own children.

        Returns:
            The columns of all these keys; None if a column has another name, and the child is read
            again.
        """
        child = action.child
        names = [
            *key,
            *action.columns,
            *(name for other in further for name in other.parent_columns),
        ]
        columns = list(dict.fromkeys(names))
        table = self._cascades.lake_table(child, self._states)
        if not set(columns) <= {column.name for column in table.columns}:
            self.read_again(action.parent, f"a column of {child} was renamed")
            return None
        frames = self._cascades.stored(child, self._states, columns)
        logged = self._cascades.logged(child, self._rows, self._states)
        frames += [part.select(columns) for part in logged]
        read = self._ranges.get(child, ())
        return frames + [pl.DataFrame(pa.table(batch.select(columns))) for batch in read]

    def _note_keys(
        self, child: TableName, key: list[str], rows: Sequence[pl.DataFrame]
    ) -> pl.DataFrame:
        """Note the keys of rows that must be read again; those that had not been noted."""
        keys = pl.concat(rows).select(key).unique()
        known = self._keys.get(child)
        if known is not None:
            keys = keys.join(pl.DataFrame(known), on=key, how="anti")
        if len(keys):
            every = keys if known is None else pl.concat([pl.DataFrame(known), keys])
            self._keys[child] = every.to_arrow()
        return keys

    def _read_compared_again(self, action: ForeignKeyAction) -> None:
        """Read a child again whose rows cannot be told that refer to values of its parent."""
        self._note_rereads(
            self._cascades.descendants(action.child, self._states),
            f"only the source knows which rows of {action.child} refer to {action.parent}",
        )

    def _compared(
        self, action: ForeignKeyAction
    ) -> list[tuple[SourceColumn, SourceColumn, Comparison]]:
        """The columns of a foreign key, each with the parent's, with their types in the lake."""
        tables = (
            self._cascades.lake_table(name, self._states) for name in (action.child, action.parent)
        )
        child, parent = ({column.name: column for column in table.columns} for table in tables)
        columns = zip(action.columns, action.parent_columns, action.comparisons, strict=True)
        return [(child[name], parent[other], how) for name, other, how in columns]

    def _read_moved_again(self, action: ForeignKeyAction) -> None:
        """Read a child again whose rows have new keys, and those whose rows go with them."""
        self._note_rereads(
            self._cascades.descendants(action.child, self._states),
            f"an update of {action.parent} changed keys of {action.child}",
        )


def _children(actions: Sequence[ForeignKeyAction], parent: TableName) -> frozenset[TableName]:
    """The tables whose rows any change of a parent's rows may change."""
    columns = {name for key in actions if key.parent == parent for name in key.parent_columns}
    return affected_children(actions, parent, is_deleted=True, updated=columns)


def _changed_keys(
    partial: pl.DataFrame, table: SourceTable, columns: Sequence[str]
) -> pl.DataFrame:
    """The keys that rows had which may have lost values that the log lacks."""
    kind = pl.col(ROW_KIND_COLUMN)
    # A value that an update leaves as it is is null after it, as one is that it makes null.
    is_nullable = any(column.type.nullable for column in table.columns if column.name in columns)
    is_changed = pl.any_horizontal(
        pl.lit(value=is_nullable),
        *(pl.col(name).shift(-1).is_not_null() for name in columns),
        # The row has its values under another key from then on.
        *(pl.col(name).ne_missing(pl.col(name).shift(-1)) for name in table.primary_key),
    )
    is_gone = (kind == int(RowKind.DELETE)) | ((kind == int(RowKind.UPDATE_BEFORE)) & is_changed)
    lacks = pl.any_horizontal(pl.col(name).is_null() for name in columns)
    return partial.filter(is_gone & lacks).select(table.primary_key).unique()


def _values_gone(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The values that rows had before they were deleted, or before these columns changed."""
    if frame.is_empty():
        return frame.select(columns)
    is_deleted = frame[ROW_KIND_COLUMN] == int(RowKind.DELETE)
    return (
        frame.filter(is_deleted | _is_updated(frame, columns)).select(columns).drop_nulls().unique()
    )


def _is_updated(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """Which rows are those before updates of these columns."""
    changed = pl.repeat(False, len(frame), eager=True)
    for name in columns:
        column = frame[name]
        # The row after an update follows the one before it.
        changed = changed | ~column.eq_missing(column.shift(-1))
    return changed & (frame[ROW_KIND_COLUMN] == int(RowKind.UPDATE_BEFORE))
