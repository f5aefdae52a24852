"""The least and the greatest key of a file, as values that order as its rows do."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import total_ordering
from typing import TypeAlias

from headwater.storage.manifest.data_file import DataFile
from headwater.storage.rows.binary_row import deserialize_row
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField, DataType
from headwater.storage.types.padded_text import greatest_padded
from headwater.storage.types.values import StorageValue

__all__ = [
    "ComparableKey",
    "clustered_range",
    "comparable_key",
    "end_fields",
    "is_sorted_by_key",
    "key_range",
]

ComparableKey: TypeAlias = tuple[object, ...]
"""One value for each key column; compares with those of the same table, nulls first."""

_NULL = (0,)


@total_ordering
class _Greatest:
    """A value above all others."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Greatest)

    def __lt__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


_EVERYTHING: tuple[ComparableKey, ComparableKey] = (), (_Greatest(),)


def is_sorted_by_key(storage: TableStorage, file: DataFile) -> bool:
    """Whether the rows of a file of a primary-key table are in the order of their keys."""
    return file.level == 0 or not storage.schema.table_options.overrides_key_order


def end_fields(storage: TableStorage, file: DataFile) -> Sequence[DataField]:
    """The columns, as they were then, of which a file's `min_key` and `max_key` are values."""
    written = storage.schema_by_id(file.schema_id)
    if is_sorted_by_key(storage, file):
        return written.key_fields
    return written.columns(written.table_options.clustering_columns)


def key_range(storage: TableStorage, file: DataFile) -> tuple[ComparableKey, ComparableKey]:
    """The least and the greatest key of a file of a primary-key table.

    Of a file in another order than that of the key they may be less, and greater, than any. So may
    they of an ORC file with CHAR values, which are padded when they are read.

    Raises:
        CorruptData: A key cannot be read.
    """
    fields = storage.schema_by_id(file.schema_id).key_fields
    types = [item.type for item in fields]
    least, greatest = file.min_key, file.max_key
    if not is_sorted_by_key(storage, file):
        least, greatest = file.key_stats.min_values, file.key_stats.max_values
        if {_arity(least), _arity(greatest)} != {len(fields)} or any(map(_is_untold, types)):
            return _EVERYTHING
    low, high = deserialize_row(least, types), deserialize_row(greatest, types)
    if not is_sorted_by_key(storage, file) and (None in low or None in high):
        return _EVERYTHING
    if file.file_name.endswith(".orc"):
        high = tuple(map(greatest_padded, high, types))
    return comparable_key(storage, low), comparable_key(storage, high)


def clustered_range(
    storage: TableStorage, file: DataFile
) -> tuple[ComparableKey, ComparableKey] | None:
    """The ends of a file that is not sorted by key, in the order that it is sorted by.

    None if a column had another type then, whose values may have another order.

    Raises:
        CorruptData: An end cannot be read.
    """
    fields = end_fields(storage, file)
    present = storage.schema.columns(storage.schema.table_options.clustering_columns)
    types = [item.type for item in fields]
    if _kinds(types) != _kinds([item.type for item in present]):
        return None
    low, high = (
        _nulls_first(tuple(map(_ordered, deserialize_row(end, types))))
        for end in (file.min_key, file.max_key)
    )
    return low, high


def _is_untold(data_type: DataType) -> bool:
    """Whether statistics may leave out values of a type: nulls, and what is not a number."""
    floats = (Root.FLOAT, Root.DOUBLE)
    return data_type.nullable or (isinstance(data_type, AtomicType) and data_type.root in floats)


def _kinds(types: Sequence[DataType]) -> list[str]:
    return [str(each).removesuffix(" NOT NULL") for each in types]


def _arity(row: bytes) -> int:
    return int(struct.unpack_from(">i", row)[0]) if len(row) >= 4 else 0


def comparable_key(storage: TableStorage, values: Sequence[StorageValue]) -> ComparableKey:
    """The storage values of a primary-key table's key columns as they compare."""
    key = tuple(map(_ordered, values))
    if not any(item.type.nullable for item in storage.schema.key_fields):
        return key
    return _nulls_first(key)


def _nulls_first(values: ComparableKey) -> ComparableKey:
    return tuple(_NULL if value is None else (1, value) for value in values)


def _ordered(value: StorageValue) -> object:
    return _total_order(value) if isinstance(value, float) else value


def _total_order(value: float) -> int:
    """A number that orders floats as ``Double.compare``: -0.0 below 0.0, NaN greatest."""
    if value != value:
        return 1 << 63
    bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1
