"""The merge engine ``partial-update``: values that are there replace older ones, column by column.

Columns of a sequence group are replaced together, nulls included, by rows whose sequence fields
are not older; functions may compute them instead. Source: ``PartialUpdateMergeFunction.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.merge.column_functions import ColumnFunction, refused_retractions
from headwater.storage.merge.engine import Indices, Kinds, Mask, MergeEngine, RowGroups
from headwater.storage.merge.field_aggregates import FirstFunction
from headwater.storage.merge.late_rows import Steps, first_positions, merge_steps
from headwater.storage.merge.sequence_order import (
    SequenceOrder,
    last_of_mask,
    removing_rows,
)
from headwater.storage.rows.kinds import RowKind
from headwater.storage.rows.ordering import OrderColumn, RowOrder
from headwater.storage.schema.sequence_groups import SequenceGroup, sequence_groups
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import to_arrow

__all__ = ["PartialUpdate"]

_WAYS = (
    "set 'ignore-delete' to drop them, 'partial-update.remove-record-on-delete' to have -D rows "
    "end their key's row, or 'fields.<column>.sequence-group' to take back a group's columns"
)


@dataclass(frozen=True)
class _Rows:
    """The rows that count: those of each key since the last that removed what was there.

    Attributes:
        batch: Their columns.
        firsts: The position of each key's first.
        retracts: A mask of those that take values back.
        removed: A mask of the keys whose first row removed what was there.
    """

    batch: pa.RecordBatch
    firsts: Indices
    retracts: Mask
    removed: Mask

    @property
    def base(self) -> Mask:
        """A mask of the keys whose first row's values are all there is, whatever its group.

        The first row is, too, if it takes values back; only then are they taken back.
        """
        return self.removed | self.retracts[self.firsts]


class PartialUpdate(MergeEngine):
    """Keeps the newest value that is there of each column, and updates groups together.

    Args:
        schema: The table's schema.

    Raises:
        Invalid: Options contradict each other, or name columns that do not exist.
        Unsupported: A column is in two sequence groups, or Headwater does not have its function.
    """

    def __init__(self, schema: TableSchema) -> None:
        options = schema.table_options
        self._groups = sequence_groups(schema)
        self._orders = [_order(schema, group) for group in self._groups]
        self._group_of = _groups_of_columns(self._groups)
        self._functions = {
            item.name: ColumnFunction.of(item, name, options)
            for group in self._groups
            for item in schema.columns(group.columns)
            if (name := options.aggregate_function(item.name)) is not None
            and item.name not in schema.primary_keys
        }
        self._removes = options.partial_update_removes_on_delete
        self._removing = [at for at, group in enumerate(self._groups) if group.removes_record]

    def refused_kinds(self, kinds: Kinds) -> str | None:
        """Say why rows of some kinds must not be written: nothing could merge them."""
        retracts = (kinds & 1) == 1
        if not self._groups:
            if self._removes or not retracts.any():
                return None
            return f"{int(retracts.sum())} rows of kind -U or -D cannot be merged; {_WAYS}"
        if self._removing:
            # One that does not end its key's row, for it is too old, is refused when it is merged.
            retracts &= kinds != RowKind.DELETE
        return refused_retractions(self._functions, int(retracts.sum()))

    def inputs(self, columns: Sequence[str]) -> Sequence[str]:
        """The columns, the sequence fields of their groups, and those that may remove rows."""
        needed = {self._group_of[name] for name in columns if name in self._group_of}
        fields = [name for at in {*needed, *self._removing} for name in self._groups[at].fields]
        return [*columns, *fields]

    def merge(self, groups: RowGroups, columns: Sequence[str]) -> pa.RecordBatch:
        """Merge each group into one row.

        Raises:
            Invalid: A result does not fit its column's type, or there are rows that retract,
                which the table's options do not say how to merge.
        """
        names = dict.fromkeys([*self.inputs(columns), KIND_FIELD.name])
        batch = groups.gather(list(names))
        kinds = batch.column(KIND_FIELD.name).to_numpy()
        retracts = (kinds & 1) == 1
        orders: dict[int, SequenceOrder] = {}

        def order(at: int) -> SequenceOrder:
            """The order of all rows by a group."""
            if at not in orders:
                fields = [batch.column(name) for name in self._groups[at].fields]
                orders[at] = SequenceOrder.of(self._orders[at], fields, groups.firsts)
            return orders[at]

        if not retracts.any():
            nowhere = np.zeros(len(groups.firsts), np.bool_)
            rows, kept = _Rows(batch, groups.firsts, retracts, nowhere), None
            removals = retracts
            result_kinds = np.full(len(groups.firsts), RowKind.INSERT.value, np.int8)
        else:
            if not self._groups and not self._removes:
                raise Invalid(
                    f"{int(retracts.sum())} rows are of kind -U or -D, which merge-engine="
                    f"partial-update does not merge; {_WAYS}"
                )
            deletes = kinds == RowKind.DELETE
            removals = np.zeros(len(kinds), np.bool_)
            if self._removes:
                removals = deletes
            elif self._removing and deletes.any():
                by_group = [order(at) for at in self._removing]
                removals = removing_rows(groups.firsts, deletes, by_group)
            last = last_of_mask(removals, groups.firsts)
            rows, kept = _later(batch, groups, retracts, last)
            gone = (last == groups.lasts) | np.logical_and.reduceat(retracts, groups.firsts)
            result_kinds = np.where(gone, RowKind.DELETE.value, RowKind.INSERT.value)
        merged: list[pa.Array] = []
        for name in columns:
            at = self._group_of.get(name)
            if at is None:
                merged.append(_newest(rows, name))
                continue
            function = self._functions.get(name)
            if function is not None and isinstance(function.function, FirstFunction):
                values = batch.column(name)
                merged.append(_first(groups, values, retracts, removals, order(at), function))
                continue
            own = order(at) if kept is None else order(at).take(kept)
            if function is not None:
                merged.append(_computed(rows, name, own, function))
            else:
                is_sequence = name in self._groups[at].fields
                merged.append(_updated(rows, name, own, clears=not is_sequence))
        return pa.RecordBatch.from_arrays(
            [*merged, pa.array(result_kinds, pa.int8())], names=[*columns, KIND_FIELD.name]
        )


def _order(schema: TableSchema, group: SequenceGroup) -> RowOrder:
    fields = schema.columns(group.fields)
    return RowOrder([OrderColumn(to_arrow(item.type), len(fields) > 1) for item in fields])


def _groups_of_columns(groups: Sequence[SequenceGroup]) -> dict[str, int]:
    found: dict[str, int] = {}
    for at, group in enumerate(groups):
        for name in (*group.fields, *group.columns):
            if found.setdefault(name, at) != at:
                # Which of them counts depends on the order of a hash map in Paimon.
                raise Unsupported(
                    f"column '{name}' is in two sequence groups, '{groups[found[name]].option}' "
                    f"and '{group.option}'; take it out of one of them"
                )
    return found


def _later(
    batch: pa.RecordBatch, groups: RowGroups, retracts: Mask, removals: Indices
) -> tuple[_Rows, Indices | None]:
    """The rows since the last that removed what was there, and their positions; None is all."""
    removed = removals >= 0
    if not removed.any():
        return _Rows(batch, groups.firsts, retracts, removed), None
    starts = np.where(removed, removals, groups.firsts)
    kept = np.flatnonzero(np.arange(len(retracts)) >= np.repeat(starts, groups.sizes))
    sizes = groups.lasts + 1 - starts
    firsts = np.cumsum(sizes) - sizes
    later = retracts[kept]
    later[firsts[removed]] = False
    return _Rows(batch.take(pa.array(kept)), firsts, later, removed), kept


def _newest(rows: _Rows, name: str) -> pa.Array:
    """The newest value that is there; a row that retracts counts only as a key's first."""
    values = rows.batch.column(name)
    if not values.null_count and not rows.retracts.any():
        lasts = np.append(rows.firsts[1:], len(values)) - 1
        return values.take(pa.array(lasts))
    counted = values.is_valid().to_numpy(zero_copy_only=False)
    if rows.retracts.any():
        first = np.zeros(len(values), np.bool_)
        first[rows.firsts] = True
        counted = counted & (first | ~rows.retracts)
    return _taken(values, last_of_mask(counted, rows.firsts))


def _updated(rows: _Rows, name: str, order: SequenceOrder, *, clears: bool) -> pa.Array:
    """The value of the newest row that the group accepts, null though it may be.

    Args:
        rows: The rows.
        name: The column.
        order: The rows' order by the column's group.
        clears: True if a row that retracts leaves null.
    """
    accepted = order.accepted(rows.firsts)
    if not rows.base.any():
        chosen = last_of_mask(accepted, rows.firsts)
    else:
        accepted = accepted.copy()
        accepted[rows.firsts[rows.base]] = True
        chosen = last_of_mask(accepted, rows.firsts)
    if clears and rows.retracts.any():
        cleared = rows.retracts[chosen] & order.active[chosen]
        chosen = np.where(cleared, -1, chosen)
    return _taken(rows.batch.column(name), chosen)


def _computed(rows: _Rows, name: str, order: SequenceOrder, function: ColumnFunction) -> pa.Array:
    """The value that a function computes from the rows of the group."""
    values = rows.batch.column(name)
    base = np.zeros(len(values), np.bool_)
    base[rows.firsts[rows.base]] = True
    takes_back = rows.retracts & order.active
    function.check_retractions(int(takes_back.sum()))
    if function.ignores_retractions:
        takes_back = np.zeros(len(values), np.bool_)
    adds = order.active & ~rows.retracts & ~base
    late = adds & ~order.accepted(rows.firsts)
    # A base whose values are taken back at once makes two steps.
    counts = base.astype(np.int64) + adds + takes_back
    steps = np.repeat(np.arange(len(values)), counts)
    again = np.append(False, steps[1:] == steps[:-1])
    is_base = base[steps] & ~again
    sizes = np.add.reduceat(counts, rows.firsts)
    there = sizes > 0
    if not there.any():
        return pa.nulls(len(sizes), values.type)
    merged = merge_steps(
        function.function,
        Steps(
            values if len(steps) == len(values) and not again.any()
            else values.take(pa.array(steps)),
            (np.cumsum(sizes) - sizes)[there],
            takes_back[steps] & ~is_base,
            late[steps],
            is_base,
        ),
        reverses=function.reverses,
    )  # fmt: skip
    if there.all():
        return merged
    return merged.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _first(
    groups: RowGroups,
    values: pa.Array,
    retracts: Mask,
    removals: Mask,
    order: SequenceOrder,
    function: ColumnFunction,
) -> pa.Array:
    """The first value of the group, which a removal does not have looked for again.

    Args:
        groups: All rows of each key.
        values: Their values.
        retracts: A mask of those that take values back, or remove what was there.
        removals: A mask of those that remove what was there.
        order: All rows' order by the column's group.
        function: The column's function.
    """
    function.check_retractions(int((retracts & order.active & ~removals).sum()))
    base = removals.copy()
    base[groups.firsts] |= retracts[groups.firsts]
    parts = np.flatnonzero(removals)
    late = order.active & ~order.accepted(np.union1d(groups.firsts, parts))
    steps = np.flatnonzero(base | (order.active & ~retracts))
    counts = np.zeros(len(values), np.int64)
    counts[steps] = 1
    sizes = np.add.reduceat(counts, groups.firsts)
    there = sizes > 0
    chosen = np.full(len(sizes), -1)
    if there.any():
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        firsts = (np.cumsum(sizes) - sizes)[there]
        found = first_positions(function.function, valid[steps], firsts, late[steps], base[steps])
        chosen[there] = np.where(found < 0, -1, steps[found])
    return _taken(values, chosen)


def _taken(values: pa.Array, positions: Indices) -> pa.Array:
    """The values at some positions; null at -1."""
    return values.take(pa.array(positions, mask=positions < 0))
