"""How rows of a source's table become rows of the lake's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.cdc.model.layout import TableLayout
from headwater.cdc.model.tables import SourceTable
from headwater.storage.predicate.tree import And, Comparison, Predicate
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.rows.kinds import RowKind
from headwater.storage.types.data_type import to_arrow

__all__ = ["RowMapping", "any_values", "row_schema", "with_kind"]


def row_schema(table: SourceTable) -> pa.Schema:
    """The Arrow schema of rows of a table, with the column of their kinds."""
    fields = [pa.field(column.name, to_arrow(column.type)) for column in table.columns]
    return pa.schema([*fields, pa.field(ROW_KIND_COLUMN, pa.int8())])


def with_kind(batch: pa.RecordBatch, kind: RowKind, schema: pa.Schema) -> pa.RecordBatch:
    """Rows that all have one kind.

    Args:
        batch: The rows, with the table's columns.
        kind: Their kind.
        schema: The schema with the kinds.
    """
    kinds = pa.array(np.full(batch.num_rows, kind, np.int8))
    return pa.RecordBatch.from_arrays([*batch.columns, kinds], schema=schema)


def any_values(type_: pa.DataType, count: int) -> pa.Array:
    """Values of a type, for rows of which only the key counts."""
    if pa.types.is_list(type_):
        return pa.ListArray.from_arrays(
            np.zeros(count + 1, np.int32), pa.nulls(0, type_.value_type)
        )
    if pa.types.is_binary(type_) or pa.types.is_string(type_):
        return pa.repeat(pa.scalar("", pa.string()), count).cast(type_)
    zeros = pa.py_buffer(bytes((count * type_.bit_width + 7) // 8))
    return pa.Array.from_buffers(type_, count, [None, zeros])


@dataclass(frozen=True)
class RowMapping:
    """How rows of a source's table become rows of the lake's. It can be pickled.

    Attributes:
        source: The source's table, with the types that its columns have in the lake.
        target: The lake's table, as a source's: with columns that are not the source's, or of other
            tables that are merged with it.
        layout: What these columns are.
        identity: The columns of the source that decide on a row's key in the lake.
    """

    source: SourceTable
    target: SourceTable
    layout: TableLayout
    identity: tuple[str, ...]

    @property
    def where(self) -> Predicate | None:
        """Which rows of the lake's table are the source's; None for all."""
        parts = [Comparison(name, "=", value) for name, value in self.layout.part.items()]
        return And(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None

    @property
    def has_source_key(self) -> bool:
        """Whether the key at the source tells the key in the lake."""
        return set(self.identity) == set(self.source.primary_key)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as the lake has them.

        Args:
            batch: Rows with the source's columns, and perhaps their kinds in the last column.

        Raises:
            Invalid: A value does not fit into a computed column.
        """
        if not self.layout.own_columns:
            return batch
        has_kinds = ROW_KIND_COLUMN in batch.schema.names
        return self._mapped(batch, self.target, [ROW_KIND_COLUMN] if has_kinds else [])

    def keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The lake's keys of rows, of which the batch needs the columns of `identity` only."""
        names = set(self.target.primary_key)
        columns = tuple(column for column in self.target.columns if column.name in names)
        return self._mapped(batch, SourceTable(self.target.name, columns), [])

    def _mapped(self, batch: pa.RecordBatch, table: SourceTable, kept: list[str]) -> pa.RecordBatch:
        present = dict(zip(batch.schema.names, batch.columns, strict=True))
        computed = {column.name: column for column in self.layout.computed}
        metadata = dict(self.layout.metadata)
        arrays: list[pa.Array] = []
        for column in table.columns:
            if column.name in computed:
                array = computed[column.name].values(present, batch.num_rows, column.type)
            elif column.name in metadata:
                value = pa.scalar(metadata[column.name], pa.string())
                array = pa.repeat(value, batch.num_rows)
            elif column.name in present:
                array = present[column.name]
            else:
                array = pa.nulls(batch.num_rows, to_arrow(column.type))
            arrays.append(array)
        schema = row_schema(table)
        if not kept:
            schema = schema.remove(len(arrays))
        return pa.RecordBatch.from_arrays(
            [*arrays, *(present[name] for name in kept)], schema=schema
        )
