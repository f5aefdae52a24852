"""The merge engine ``aggregation``: each column of a key's rows becomes one value by a function.

Source: ``AggregateMergeFunction.java``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.merge.column_functions import ColumnFunction, refused_retractions
from headwater.storage.merge.engine import Indices, Kinds, Mask, MergeEngine, RowGroups
from headwater.storage.merge.field_aggregates import FirstFunction, GroupedColumn, Sum
from headwater.storage.options import TableOptions
from headwater.storage.rows.kinds import RowKind
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import DataField

__all__ = ["Aggregation"]


class Aggregation(MergeEngine):
    """Computes each column of a key's row from those of all its rows.

    Args:
        schema: The table's schema.

    Raises:
        Invalid: A column's type is not one that its function takes, or options contradict each
            other.
        Unsupported: Headwater does not have a column's function.
    """

    def __init__(self, schema: TableSchema) -> None:
        options = schema.table_options
        keys = {*schema.primary_keys}
        self._deletes_keys = options.removes_record_on_delete
        self._functions = {
            item.name: ColumnFunction.of(item, _function_name(item, options), options)
            for item in schema.fields
            if item.name not in keys
        }
        # Others lose what a retraction finds no value for, and a deletion its older rows.
        self.merges_retractions_partially = not self._deletes_keys and all(
            isinstance(field.function, Sum) and not field.ignores_retractions
            for field in self._functions.values()
        )

    def refused_kinds(self, kinds: Kinds) -> str | None:
        """Say why rows of some kinds must not be written: a function could never merge them."""
        retracts = (kinds & 1) == 1
        if self._deletes_keys:
            retracts &= kinds != RowKind.DELETE
        return refused_retractions(self._functions, int(retracts.sum()))

    def inputs(self, columns: Sequence[str]) -> Sequence[str]:
        """The columns themselves: each is computed from its own values."""
        return columns

    def merge(self, groups: RowGroups, columns: Sequence[str]) -> pa.RecordBatch:
        """Merge each group into one row.

        Raises:
            Invalid: A result does not fit its column's type, or a function does not take
                retractions.
        """
        rows = groups.gather([*columns, KIND_FIELD.name])
        kinds = rows.column(KIND_FIELD.name).to_numpy()
        positions = np.arange(len(kinds))
        deletes = kinds == RowKind.DELETE if self._deletes_keys else np.zeros(len(kinds), np.bool_)
        # A deleted row's values are those that later rows are added to.
        begins = np.maximum.reduceat(np.where(deletes, positions, -1), groups.firsts)
        kept = positions >= np.repeat(begins, groups.sizes)
        sizes = np.add.reduceat(kept, groups.firsts, dtype=np.int64)
        firsts = np.cumsum(sizes) - sizes
        retracts = ((kinds & 1) == 1) & ~deletes
        begun = begins >= 0 if deletes.any() else None
        later = rows if begun is None else rows.filter(pa.array(kept))
        merged: list[pa.Array] = []
        for name in columns:
            function = self._functions[name].function
            if begun is not None and isinstance(function, FirstFunction):
                merged.append(
                    _first_values(rows.column(name), groups, retracts | deletes, begins, function)
                )
                continue
            column = GroupedColumn(later.column(name), firsts, retracts[kept], begun)
            merged.append(self._functions[name].merge(column))
        result_kinds = np.where(
            begins == groups.lasts, RowKind.DELETE.value, RowKind.INSERT.value
        ).astype(np.int8)
        return pa.RecordBatch.from_arrays(
            [*merged, pa.array(result_kinds)], names=[*columns, KIND_FIELD.name]
        )


def _first_values(
    values: pa.Array, groups: RowGroups, retracts: Mask, begins: Indices, function: FirstFunction
) -> pa.Array:
    """The first values of groups in some of which a row was deleted.

    A deleted row's value stays if a first one was found before it, for none is looked for again.

    Args:
        values: The rows' values.
        groups: The rows.
        retracts: A mask of those that retract, deleted ones among them.
        begins: The position of each group's last deleted row; -1 where there is none.
        function: The function.
    """
    column = GroupedColumn(values, groups.firsts, retracts)
    chosen = function.chosen(column)
    return column.take(np.where((begins >= 0) & (chosen < begins), begins, chosen))


def _function_name(item: DataField, options: TableOptions) -> str:
    if item.name in options.sequence_fields:
        return "last_value"
    return options.aggregate_function(item.name) or "last_non_null_value"
