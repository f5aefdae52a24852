"""The least and the greatest key of a file, as values that order as its rows do."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

from headwater.storage.manifest.data_file import DataFile
from headwater.storage.rows.binary_row import deserialize_row
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.values import StorageValue

__all__ = ["ComparableKey", "comparable_key", "key_range"]

ComparableKey: TypeAlias = tuple[object, ...]
"""One value for each key column; compares with those of the same table, nulls first."""

_NULL = (0,)


def key_range(storage: TableStorage, file: DataFile) -> tuple[ComparableKey, ComparableKey]:
    """The least and the greatest key of a file of a primary-key table.

    Raises:
        CorruptData: A key cannot be read.
    """
    types = [item.type for item in storage.schema_by_id(file.schema_id).key_fields]
    low, high = deserialize_row(file.min_key, types), deserialize_row(file.max_key, types)
    return comparable_key(storage, low), comparable_key(storage, high)


def comparable_key(storage: TableStorage, values: Sequence[StorageValue]) -> ComparableKey:
    """The storage values of a primary-key table's key columns as they compare."""
    key = tuple(_total_order(value) if isinstance(value, float) else value for value in values)
    if not any(item.type.nullable for item in storage.schema.key_fields):
        return key
    return _nulls_first(key)


def _nulls_first(values: ComparableKey) -> ComparableKey:
    return tuple(_NULL if value is None else (1, value) for value in values)


def _total_order(value: float) -> int:
    """A number that orders floats as ``Double.compare``: -0.0 below 0.0, NaN greatest."""
    if value != value:
        return 1 << 63
    bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1
