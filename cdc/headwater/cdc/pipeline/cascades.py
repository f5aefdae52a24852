"""Rows of children that foreign keys change at the source without an event in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pyarrow as pa

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceTable, TableName
from headwater.cdc.mysql.foreign_keys import (
    ForeignKeyAction,
    affected_children,
    logs_cascades,
    read_foreign_keys,
)
from headwater.cdc.mysql.source import MySQLSource
from headwater.cdc.mysql.transactions import TableRows
from headwater.cdc.pipeline.log_rows import LogRows
from headwater.cdc.pipeline.state import TableState
from headwater.cdc.pipeline.targets import Targets
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.rows.kinds import RowKind

__all__ = ["Cascades"]

States = Mapping[TableName, TableState]
Rows = Mapping[TableName, Sequence[TableRows]]


class Cascades:
    """Finds the children's rows that a batch of their parents' changes may have changed.

    Args:
        source: The source.
        targets: The lake's tables.
        bad_dates: What to do with dates that the lake does not have.
    """

    def __init__(self, source: MySQLSource, targets: Targets, bad_dates: BadDates) -> None:
        self._source, self._targets, self._bad_dates = source, targets, bad_dates
        self._is_needed = not logs_cascades(source.server)
        self._actions: Sequence[ForeignKeyAction] | None = None

    def forget(self) -> None:
        """Read the foreign keys again: a statement may have changed them."""
        self._actions = None

    def keys_to_read(self, rows: Rows, states: States) -> dict[TableName, pa.Table]:
        """The keys of children whose rows must be read again after a batch.

        Args:
            rows: The rows of the batch.
            states: The tables when it begins.

        Raises:
            HeadwaterError: Rows cannot be decoded, or the lake cannot be read.
        """
        if not self._is_needed:
            return {}
        actions = self._read(states)
        search = _Search(self, rows, states, actions)
        for parent in {action.parent for action in actions} & rows.keys():
            search.follow_parent(parent)
        return search.keys

    def descendants(self, name: TableName, states: States) -> frozenset[TableName]:
        """A table, and those whose rows go with its rows."""
        if not self._is_needed:
            return frozenset({name})
        children = affected_children(self._read(states), name, is_deleted=True)
        return children | {name}

    def _read(self, states: States) -> Sequence[ForeignKeyAction]:
        if self._actions is None:
            followed = [name for name, state in states.items() if state.is_followed]
            self._actions = read_foreign_keys(self._source.server, followed)
        return self._actions

    def lake_table(self, name: TableName, states: States) -> SourceTable:
        """A source's table with the types of the lake's."""
        state = states[name]
        return self._targets.lake_table(state.target, state.source_table(name))

    def logged(self, name: TableName, rows: Rows, states: States) -> pl.DataFrame:
        """The rows of a table in the batch, with their kinds, also those before updates."""
        log_rows = LogRows(
            self.lake_table(name, states), rows.get(name, ()), self._bad_dates, keeps_before=True
        )
        frames = [pl.DataFrame(pa.table(batch)) for batch in log_rows.batches()]
        return pl.concat(frames) if frames else pl.DataFrame()

    def stored(self, name: TableName, states: States, columns: Sequence[str]) -> list[pl.DataFrame]:
        """Columns of the lake's table, batch by batch."""
        scan = self._targets.open(states[name].target).scan(columns=list(columns))
        return [pl.DataFrame(pa.table(batch)) for batch in scan.to_batches()]


class _Search:
    """The search of one batch."""

    def __init__(
        self,
        cascades: Cascades,
        rows: Rows,
        states: States,
        actions: Sequence[ForeignKeyAction],
    ) -> None:
        self._cascades, self._rows, self._states = cascades, rows, states
        self._actions = actions
        self.keys: dict[TableName, pa.Table] = {}

    def follow_parent(self, parent: TableName) -> None:
        """Find the children of rows that the log has as deleted or with other values."""
        state = self._states.get(parent)
        if state is None or not state.is_followed:
            return
        frame = self._cascades.logged(parent, self._rows, self._states)
        if frame.is_empty():
            return
        for action in [action for action in self._actions if action.parent == parent]:
            self._follow(action, _values_gone(frame, action.parent_columns))

    def _follow(self, action: ForeignKeyAction, values: pl.DataFrame) -> None:
        """Note the child's rows that have some values, and go on with their own children."""
        child = action.child
        state = self._states.get(child)
        if values.is_empty() or state is None or not state.is_followed:
            return
        table = self._cascades.lake_table(child, self._states)
        key = list(table.primary_key)
        further = [other for other in self._actions if other.parent == child]
        columns = dict.fromkeys(
            [*key, *action.columns, *(name for other in further for name in other.parent_columns)]
        )
        frames = self._cascades.stored(child, self._states, list(columns))
        logged = self._cascades.logged(child, self._rows, self._states)
        if not logged.is_empty():
            frames.append(logged.select(list(columns)))
        wanted = values.rename(dict(zip(values.columns, action.columns, strict=True)))
        hits = [frame.join(wanted, on=list(action.columns), how="semi") for frame in frames]
        rows = pl.concat(hits).unique() if hits else pl.DataFrame()
        if rows.is_empty():
            return
        keys = rows.select(key).unique()
        known = self.keys.get(child)
        if known is not None:
            before = pl.DataFrame(known)
            keys = keys.join(before, on=key, how="anti")
            if keys.is_empty():
                return
            rows = rows.join(keys, on=key, how="semi")
            keys = pl.concat([before, keys])
        self.keys[child] = keys.to_arrow()
        for other in further:
            gone = rows.select(list(other.parent_columns)).drop_nulls().unique()
            self._follow(other, gone)


def _values_gone(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The values that rows had before they were deleted, or before these columns changed."""
    kinds = frame[ROW_KIND_COLUMN]
    is_deleted = kinds == int(RowKind.DELETE)
    is_before = kinds == int(RowKind.UPDATE_BEFORE)
    changed = pl.Series([False]).extend_constant(False, len(frame) - 1)
    for name in columns:
        column = frame[name]
        # The row after an update follows the one before it.
        changed = changed | ~column.eq_missing(column.shift(-1))
    return frame.filter(is_deleted | (is_before & changed)).select(columns).drop_nulls().unique()
