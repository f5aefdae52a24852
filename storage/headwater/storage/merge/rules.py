"""A table's keys, the age of its rows, and its merge engine.

Of two rows of one key the newer is the one with the greater ``sequence.field`` values, then the
greater sequence number, then the one that adds rather than retracts
(``SortMergeReaderWithMinHeap.java``, ``UserDefinedSeqComparator.java``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.errors import Invalid
from headwater.storage.formats.system_columns import KIND_FIELD, SEQUENCE_FIELD
from headwater.storage.merge.engine import Indices, MergeEngine, RowGroups
from headwater.storage.merge.registry import merge_engine
from headwater.storage.rows.ordering import Comparable, OrderColumn, RowOrder
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.arrow_numbers import arrow_mask, arrow_values, numpy_values
from headwater.storage.types.data_type import to_arrow

__all__ = ["MergeRules", "added_rows"]

_NUMBER = OrderColumn(pa.int64())
_ADDED = OrderColumn(pa.bool_())


@dataclass(frozen=True)
class MergeRules:
    """The rules by which a table's rows are merged.

    Attributes:
        keys: Key columns, in the order files are sorted by.
        partition_keys: Partition columns, which are alike in all rows of a file.
        sequence_fields: Columns that decide before the sequence number does.
        key_order: The order of `keys`.
        sequence_order: The order of `sequence_fields`, newest greatest.
        ignore_delete: True if retracting rows count for nothing.
        engine: The merge engine, which makes one row of those of a key.
        not_null: The columns that must not be null.
        lowest_level_counts: True if of a key's rows above level 0 only that on the lowest level
            counts: a compaction that looks keys up has put into it what the others hold
            (``LookupMergeFunction.java``).
    """

    keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    sequence_fields: tuple[str, ...]
    key_order: RowOrder
    sequence_order: RowOrder
    ignore_delete: bool
    engine: MergeEngine
    not_null: frozenset[str] = frozenset()
    lowest_level_counts: bool = False

    @staticmethod
    def of(schema: TableSchema) -> MergeRules:
        """The rules of a primary-key table; the columns are called as in its schema.

        Raises:
            Unsupported: Headwater does not have the table's merge engine.
        """
        options = schema.table_options
        sequence = schema.columns(options.sequence_fields)
        descending = options.sequence_descending
        return MergeRules(
            tuple(item.name for item in schema.key_fields),
            schema.partition_keys,
            options.sequence_fields,
            RowOrder(
                [OrderColumn(to_arrow(item.type), item.type.nullable) for item in schema.key_fields]
            ),
            RowOrder([OrderColumn(to_arrow(item.type), True, descending) for item in sequence]),
            options.ignore_delete,
            merge_engine(schema),
            frozenset(item.name for item in schema.fields if not item.type.nullable),
            # Of rows that stay as they are, it is the newest, or the oldest, anyway.
            options.needs_lookup and options.computes_rows,
        )

    @property
    def age_columns(self) -> tuple[str, ...]:
        """The columns that tell how old a row is."""
        return (*self.sequence_fields, SEQUENCE_FIELD.name, KIND_FIELD.name)

    def newness(self, rows: pa.RecordBatch) -> Comparable:
        """A comparable array that is greater for newer rows of one key.

        Args:
            rows: With `age_columns`; ``_VALUE_KIND`` may be left out when no row retracts.
        """
        columns = [*self.sequence_order.columns, _NUMBER]
        arrays = [rows.column(name) for name in (*self.sequence_fields, SEQUENCE_FIELD.name)]
        added = added_rows(rows)
        # Nearly always a single array of integers, which is much the fastest to compare.
        if added is not None:
            columns.append(_ADDED)
            arrays.append(added)
        return RowOrder(columns).encode(arrays)

    def merge(self, groups: RowGroups, columns: Sequence[str]) -> Indices | pa.RecordBatch:
        """Merge each group into one row, see `MergeEngine.merge`.

        Args:
            groups: At least one group.
            columns: The wanted columns of the result, keys and system columns among them.

        Returns:
            The position of the row that stays, for each group; or the merged rows with all of
            `columns` and ``_VALUE_KIND``.

        Raises:
            Invalid: The engine cannot merge the rows, or leaves null in a column that must not be.
        """
        alike = (*self.keys, *self.partition_keys)
        system = (SEQUENCE_FIELD.name, KIND_FIELD.name)
        computed = [name for name in columns if name not in alike and name not in system]
        merged = self.engine.merge(groups, computed)
        if not isinstance(merged, pa.RecordBatch):
            return merged
        merged = self._without_nulls(groups, merged)
        copied = [name for name in columns if name in alike or name == SEQUENCE_FIELD.name]
        newest = groups.gather(copied).take(arrow_values(groups.lasts)) if copied else None
        names = dict.fromkeys([*columns, KIND_FIELD.name])
        return pa.RecordBatch.from_arrays(
            [
                newest.column(name) if newest is not None and name in copied
                else merged.column(name)
                for name in names
            ],
            names=list(names),
        )  # fmt: skip

    def _without_nulls(self, groups: RowGroups, merged: pa.RecordBatch) -> pa.RecordBatch:
        """Merged rows whose columns hold null only where they may.

        A row that retracts is gone for readers; it keeps the values of the newest.
        """
        for at, name in enumerate(merged.schema.names):
            values = merged.column(at)
            if name not in self.not_null or not values.null_count:
                continue
            empty = values.is_null()
            added = added_rows(merged)
            wrong = empty if added is None else pc.and_(empty, added)
            if pc.any(wrong).as_py():
                raise Invalid(
                    f"column '{name}' must not be null, but merging leaves "
                    f"{pc.sum(wrong).as_py()} rows without a value there, whose value was taken "
                    "back or never had its group's sequence; write them again, or let the column "
                    "be null"
                )
            newest = groups.gather([name]).column(0).take(arrow_values(groups.lasts))
            kept = pc.if_else(empty, newest, values)
            merged = merged.set_column(at, merged.schema.field(at), kept)
        return merged


def added_rows(batch: pa.RecordBatch) -> pa.BooleanArray | None:
    """A mask of the rows of a batch that do not retract; None when all do not."""
    at = batch.schema.get_field_index(KIND_FIELD.name)
    if at < 0:
        return None
    retracts = (numpy_values(batch.column(at)) & 1) == 1
    return arrow_mask(~retracts) if retracts.any() else None
