"""The rows that a statement answers with when Spark has nothing to compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

__all__ = ["answer"]

_TYPES: Mapping[type, pa.DataType] = {
    str: pa.string(), int: pa.int64(), bool: pa.bool_(), list: pa.list_(pa.string()),
}  # fmt: skip


def answer(columns: Mapping[str, type], rows: Iterable[Sequence[object]]) -> pa.Table:
    """Rows as a table.

    Args:
        columns: The columns' names, as Spark has them, and their Python types: str, int, bool or
            list (of texts).
        rows: The rows, each with a value or None for each column.
    """
    schema = pa.schema([pa.field(name, _TYPES[kind]) for name, kind in columns.items()])
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
