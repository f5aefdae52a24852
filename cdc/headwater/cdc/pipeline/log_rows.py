"""Rows of a table in the log, as rows of the lake with their kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.columns import BadDates
from headwater.cdc.model.tables import SourceTable
from headwater.cdc.pipeline.partial_rows import completed
from headwater.cdc.sink.row_mapping import any_values, row_schema
from headwater.cdc.source.log_batches import LoggedRows, TableRows
from headwater.storage.errors import Conflict, Unsupported
from headwater.storage.rows.kinds import RowKind
from headwater.storage.types.data_type import to_arrow

__all__ = ["UNEXPECTED", "LogRows", "ReadAgainError"]

UNEXPECTED = (ValueError, OverflowError, pa.ArrowException, pl.exceptions.PolarsError)
"""Errors of values that nothing has foreseen. They must not end the other tables."""

_Flags = npt.NDArray[np.bool_]


class ReadAgainError(Conflict):
    """The log does not say what a table has: all of it must be read again."""


@dataclass
class LogRows:
    """The rows of a table in a batch of the log.

    Args:
        table: The source's table, with the types that its columns have in the lake.
        runs: The rows, by their shape.
        bad_dates: What to do with dates that the lake does not have.
        keeps_before: Whether the lake's table needs the rows before updates.
        identity: The columns that decide on a row's key in the lake; by default those of the key.
        keeps_updates: Whether an update that changes the key stays one, instead of a row that is
            deleted and one that is inserted.
        deletes_by_key: Whether a deleted row needs its key only, unless rows before are kept.
        completes: Whether rows get what they lack from rows before them, as the log has all changes
            of rows; unless rows before updates are kept.

    Attributes:
        unclear_keys: Keys of rows that the log has in part only, once they were read.
        partial: These rows with their keys; what the log lacks of them is null.
        rows: How many rows were read.
    """

    table: SourceTable
    runs: Sequence[TableRows]
    bad_dates: BadDates
    keeps_before: bool = False
    identity: Sequence[str] = ()
    keeps_updates: bool = False
    deletes_by_key: bool = False
    completes: bool = False
    unclear_keys: list[pa.Table] = field(default_factory=list)
    partial: list[pa.Table] = field(default_factory=list)
    rows: int = 0

    def __post_init__(self) -> None:
        self.identity = self.identity or tuple(self.table.primary_key)

    def check(self) -> None:
        """Check that the log's rows have the columns that the pipeline knows.

        Raises:
            Unsupported: They have others.
        """
        known = [column.name for column in self.table.columns]
        for run in self.runs:
            columns = list(run.columns)
            if columns != known:
                raise Unsupported(
                    f"table {self.table.name}: the log has rows with the columns "
                    f"{', '.join(columns)}, and {', '.join(known)} are known: a change of its "
                    "columns was not in the log; read it again: headwater cdc resnapshot "
                    f"{self.table.name}"
                )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in their order, with the schema of `row_schema`.

        Raises:
            ReadAgainError: The table must be read again.
            CorruptData, Invalid, Unsupported: A value cannot be in the lake.
        """
        schema = row_schema(self.table)
        # The row before an update says whether it had another key.
        keys = () if self.keeps_before else tuple(self.identity)
        for run in self.runs:
            for decoded in run.decoded(self.table, self.bad_dates, keys):
                self.rows += decoded.rows.num_rows + decoded.left_out
                yield from self._converted(decoded, schema).to_batches()

    def _converted(self, decoded: LoggedRows, schema: pa.Schema) -> pa.Table:
        columns = decoded.rows.columns
        kinds = decoded.kinds.to_numpy().copy()
        rows = pa.Table.from_arrays([*columns, pa.array(kinds)], schema=schema)
        (before,) = np.nonzero(kinds == RowKind.UPDATE_BEFORE)
        keep = np.ones(len(kinds), np.bool_)
        if decoded.column_set is not None and self.table.primary_key:
            rows = self._without_partial(rows, kinds, _present(self.table, decoded), keep)
        elif decoded.column_set is not None:
            rows = self._completed(decoded, rows, before)
        if len(before) and not self.keeps_updates:
            moved = self._changed_keys(rows, before)
            # The row before an update goes away where it had another key.
            kinds[before[moved]] = RowKind.DELETE
            kinds[before[moved] + 1] = RowKind.INSERT
            if not self.keeps_before:
                keep[before[~moved]] = False
            rows = rows.set_column(len(columns), schema.field(len(columns)), pa.array(kinds))
        return rows if keep.all() else rows.filter(pa.array(keep))

    def _changed_keys(self, rows: pa.Table, before: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which updates change the key in the lake."""
        moved = np.zeros(len(before), np.bool_)
        old, new = pa.array(before), pa.array(before + 1)
        for name in self.identity:
            column = rows.column(name)
            is_other = pc.not_equal(column.take(old), column.take(new))
            moved |= np.asarray(pc.fill_null(is_other, True))
        return moved

    def _completed(
        self, decoded: LoggedRows, rows: pa.Table, before: npt.NDArray[np.int64]
    ) -> pa.Table:
        """Rows of a table without a key, where those after updates have what those before have."""
        assert decoded.column_set is not None
        sets = decoded.column_set.to_numpy()
        lacks = self._lack(decoded)[sets]
        is_after = np.zeros(len(sets), np.bool_)
        is_after[before + 1] = True
        # No update is the first row.
        if (lacks & ~(is_after & np.roll(~lacks, 1))).any():
            raise ReadAgainError(
                f"table {self.table.name}: a session wrote parts of rows, which have no key "
                "(binlog_row_image); the table is read again"
            )
        places = np.arange(len(sets))
        for index, column in enumerate(self.table.columns):
            has = np.array([column.name in names for names in decoded.column_sets])[sets]
            values = rows.column(index).take(pa.array(np.where(has, places, places - 1)))
            rows = rows.set_column(index, rows.schema.field(index), values)
        return rows

    def _without_partial(
        self, rows: pa.Table, kinds: npt.NDArray[np.int8], has: dict[str, _Flags], keep: _Flags
    ) -> pa.Table:
        """Rows, those that lack columns with what earlier ones have; the others are kept out."""
        keys = self._keys(rows, kinds, has)
        for name, key in zip(self.table.primary_key, keys, strict=True):
            # Also the key before an update that changes it.
            index = rows.column_names.index(name)
            rows = rows.set_column(index, rows.field(index), key)
            has[name] = np.ones(len(kinds), np.bool_)
        if self.completes and not self.keeps_before:
            rows = completed(rows, kinds, has, keys)
        lacks = ~np.logical_and.reduce(list(has.values()))
        (before,) = np.nonzero(kinds == RowKind.UPDATE_BEFORE)
        is_key_enough = set(self.identity) == set(self.table.primary_key)
        if self.deletes_by_key and is_key_enough and not self.keeps_before:
            # A row goes away by its key, also that before an update that changes it.
            rows = self._deletable(rows, lacks & (kinds != RowKind.INSERT))
            lacks[kinds == RowKind.DELETE] = False
            lacks[before] = lacks[before + 1]
        else:
            # An update is left out whole.
            lacks[before] |= lacks[before + 1]
            lacks[before + 1] = lacks[before]
        (places,) = np.nonzero(lacks)
        if not len(places):
            return rows
        if not is_key_enough:
            raise ReadAgainError(
                f"table {self.table.name}: a session wrote parts of rows (a partial image), whose "
                "keys in the lake are not known; the table is read again"
            )
        keep[places] = False
        partial = rows.take(pa.array(places))
        self.unclear_keys.append(partial.select(list(self.table.primary_key)))
        self.partial.append(partial)
        return rows

    def _keys(
        self, rows: pa.Table, kinds: npt.NDArray[np.int8], has: dict[str, _Flags]
    ) -> list[pa.Array]:
        """The keys of rows. A row after an update has that of the one before, unless it changed."""
        places = np.arange(len(kinds))
        (before,) = np.nonzero(kinds == RowKind.UPDATE_BEFORE)
        is_after = np.zeros(len(kinds), np.bool_)
        is_after[before + 1] = True
        keys = []
        for name in self.table.primary_key:
            source = np.where(is_after & ~has[name], places - 1, places)
            if not has[name][source].all():
                raise ReadAgainError(
                    f"table {self.table.name}: a session wrote rows without their key (a partial "
                    "image); the table is read again"
                )
            keys.append(rows.column(name).take(pa.array(source)))
        return keys

    def _deletable(self, rows: pa.Table, lacks: _Flags) -> pa.Table:
        """Rows that have any value where they lack one of a column that is NOT NULL."""
        for index, column in enumerate(self.table.columns):
            if column.type.nullable or column.name in self.table.primary_key or not lacks.any():
                continue
            values = rows.column(index)
            anything = any_values(to_arrow(column.type), len(values))
            is_filled = pc.and_(pa.array(lacks), pc.is_null(values))
            rows = rows.set_column(
                index, rows.field(index), pc.if_else(is_filled, anything, values)
            )
        return rows

    def _lack(self, decoded: LoggedRows) -> npt.NDArray[np.bool_]:
        """Which kinds of partial images lack a column of the table."""
        every = {column.name for column in self.table.columns}
        return np.array([not every <= set(names) for names in decoded.column_sets], np.bool_)


def _present(table: SourceTable, decoded: LoggedRows) -> dict[str, _Flags]:
    """Which rows have each column of a table."""
    assert decoded.column_set is not None
    sets = decoded.column_set.to_numpy()
    return {
        column.name: np.array([column.name in names for names in decoded.column_sets])[sets]
        for column in table.columns
    }
