"""Arrow tables from records of metadata."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

__all__ = ["BIGINT", "INT", "STRING", "TIMESTAMP", "from_records", "required"]

STRING = pa.string()
INT = pa.int32()
BIGINT = pa.int64()
TIMESTAMP = pa.timestamp("ms")
"""A TIMESTAMP(3): local time, without a zone."""


def required(name: str, data_type: pa.DataType) -> pa.Field:
    """A column that is never null."""
    return pa.field(name, data_type, nullable=False)


def from_records(schema: pa.Schema, records: Iterable[Sequence[object]]) -> pa.Table:
    """A table with a row for each record.

    Args:
        schema: Its columns.
        records: The values of each row, in the order of the columns.
    """
    rows = list(records)
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
