"""Rows with the kinds of their changes: the audit log, and the binlog with both sides of updates.

Source: ``AuditLogTable.java``, ``BinlogTable.java``, ``PackChangelogReader.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.formats.system_columns import SEQUENCE_FIELD
from headwater.storage.rows.kinds import KIND_NAMES, RowKind
from headwater.storage.schema.system_fields import (
    ROW_KIND,
    ROW_KIND_COLUMN,
    check_row_kind_column,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import arrow_field

__all__ = [
    "ROW_KIND",
    "audit_log_schema",
    "binlog_schema",
    "in_lists",
    "packed",
    "with_row_kind_first",
]

_BEFORE, _AFTER = KIND_NAMES[RowKind.UPDATE_BEFORE], KIND_NAMES[RowKind.UPDATE_AFTER]


def _system_fields(sequence_numbers: bool) -> list[pa.Field]:
    fields = [pa.field(ROW_KIND, pa.string())]
    return [*fields, arrow_field(SEQUENCE_FIELD)] if sequence_numbers else fields


def audit_log_schema(
    schema: TableSchema, columns: Sequence[str] | None = None, *, sequence_numbers: bool = False
) -> pa.Schema:
    """The columns of an audit log: the row kind, the sequence number if wanted, the table's.

    Raises:
        NotFound: A column does not exist.
        Unsupported: One of them has the name of the column of row kinds.
    """
    names = list(schema.field_by_name) if columns is None else columns
    check_row_kind_column(names, ROW_KIND)
    own = [arrow_field(field) for field in schema.columns(names)]
    return pa.schema([*_system_fields(sequence_numbers), *own])


def binlog_schema(
    schema: TableSchema, columns: Sequence[str] | None = None, *, sequence_numbers: bool = False
) -> pa.Schema:
    """The columns of a binlog: those of the table become lists of their values.

    Raises:
        NotFound: A column does not exist.
        Unsupported: One of them has the name of the column of row kinds.
    """
    names = list(schema.field_by_name) if columns is None else columns
    check_row_kind_column(names, ROW_KIND)
    own = [
        pa.field(field.name, pa.list_(arrow_field(field).type)) for field in schema.columns(names)
    ]
    return pa.schema([*_system_fields(sequence_numbers), *own])


def with_row_kind_first(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of `read_split` as one of `audit_log_schema`."""
    names = [ROW_KIND_COLUMN, *schema.names[1:]]
    return pa.RecordBatch.from_arrays([batch.column(name) for name in names], schema=schema)


def packed(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Audit-log batches as a binlog: each ``-U`` and the ``+U`` after it become one ``+U``.

    Args:
        batches: Rows of one bucket in their order.
        schema: From `binlog_schema`.
    """
    waiting: pa.RecordBatch | None = None
    for batch in batches:
        if waiting is not None:
            batch = pa.concat_batches([waiting, batch])
            waiting = None
        if batch.num_rows and batch.column(ROW_KIND)[-1].as_py() == _BEFORE:
            # What it became is the first row of the next batch.
            waiting = batch.slice(batch.num_rows - 1)
            batch = batch.slice(0, batch.num_rows - 1)
        if batch.num_rows:
            yield _packed(batch, schema)
    if waiting is not None:
        yield _packed(waiting, schema)


def in_lists(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of an audit log as a binlog of rows, none of which is one side of an update."""
    return _listed(batch, schema, np.zeros(batch.num_rows, bool))


def _packed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    kinds = batch.column(ROW_KIND)
    before = _mask(pc.equal(kinds, _BEFORE))
    after = _mask(pc.equal(kinds, _AFTER))
    is_second = np.zeros(len(kinds), bool)
    is_second[1:] = before[:-1] & after[1:]
    return _listed(batch, schema, is_second)


def _listed(
    batch: pa.RecordBatch, schema: pa.Schema, is_second: npt.NDArray[np.bool_]
) -> pa.RecordBatch:
    """Rows with lists of values; a row that is a second one is put into the list of the first."""
    kinds = batch.column(ROW_KIND)
    starts = np.flatnonzero(~is_second)
    offsets = np.append(starts, len(kinds)).astype(np.int32)
    columns: list[pa.Array] = []
    for field in schema:
        column = batch.column(field.name)
        if field.name == ROW_KIND:
            columns.append(column.take(pa.array(offsets[1:] - 1)))
        elif field.name == SEQUENCE_FIELD.name:
            columns.append(column.take(pa.array(starts)))
        else:
            lists = pa.ListArray.from_arrays(pa.array(offsets), column)
            columns.append(lists.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _mask(flags: pa.Array) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = flags.to_numpy(zero_copy_only=False)
    return result
