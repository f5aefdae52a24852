"""CHAR values padded with spaces to the length of their type, as Spark and Flink have them.

Files of other engines may hold shorter ones, and ORC files do not keep the spaces. Rows keep the
values of their files while they are merged, compacted or changed, as Paimon's Java library tells
keys with and without spaces apart; they are padded when they are given to readers, and compared
with conditions as if they were.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
)
from headwater.storage.types.nested_arrays import list_with, map_entries, map_with, struct_with
from headwater.storage.types.type_parts import atomic_parts
from headwater.storage.types.values import StorageValue

__all__ = [
    "greatest_padded",
    "has_chars",
    "padded_array",
    "padded_batch",
    "padded_value",
    "stored_forms",
]


def has_chars(data_type: DataType) -> bool:
    """Whether a type is CHAR or has it inside."""
    return any(_is_char(part) for part in atomic_parts(data_type))


def _is_char(data_type: DataType) -> bool:
    return (
        isinstance(data_type, AtomicType)
        and data_type.root is Root.CHAR
        and data_type.length < MAX_LENGTH
    )


def padded_array(array: pa.Array, data_type: DataType) -> pa.Array:
    """Pad the CHAR values of a column, at any depth.

    Args:
        array: Values of `data_type`, in its Arrow form.
        data_type: The type.
    """
    if not has_chars(data_type):
        return array
    match data_type:
        case AtomicType():
            return pc.utf8_rpad(array, width=data_type.length, padding=" ")
        case ArrayType():
            return list_with(array, padded_array(array.flatten(), data_type.element), array.type)
        case MapType() | MultisetType():
            keys, values = map_entries(array)
            if isinstance(data_type, MapType):
                values = padded_array(values, data_type.value)
            key_type = data_type.key if isinstance(data_type, MapType) else data_type.element
            return map_with(array, padded_array(keys, key_type), values, array.type)
        case RowType():
            children = [
                padded_array(array.field(at), child.type)
                for at, child in enumerate(data_type.fields)
            ]
            return struct_with(array, children, list(array.type))
        case VariantType() | VectorType():
            return array


def padded_batch(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """Pad the CHAR values of a batch.

    Args:
        batch: The rows.
        fields: Columns, of which some may be missing from the rows.
    """
    for field in fields:
        at = batch.schema.get_field_index(field.name)
        if at >= 0 and has_chars(field.type):
            padded = padded_array(batch.column(at), field.type)
            batch = batch.set_column(at, batch.schema.field(at), padded)
    return batch


def padded_value(value: StorageValue, data_type: DataType) -> StorageValue:
    """Pad a value of a column of CHAR; others stay as they are."""
    if isinstance(value, str) and isinstance(data_type, AtomicType) and _is_char(data_type):
        return value.ljust(data_type.length)
    return value


def greatest_padded(greatest: StorageValue, data_type: DataType) -> StorageValue:
    """A value not below any padded value of a column of CHAR.

    Args:
        greatest: A value that no value is above before it is padded.
        data_type: The column's type; values of other types stay as they are.
    """
    if not isinstance(greatest, str) or not isinstance(data_type, AtomicType):
        return greatest
    if not _is_char(data_type):
        return greatest
    # A text that ends before a character that sorts before a space is padded to a greater one.
    plain = "".join(itertools.takewhile(lambda character: character >= " ", greatest))
    return max(greatest, plain.ljust(data_type.length))


def stored_forms(value: str, length: int) -> tuple[str, ...]:
    """The values that are this one when they are padded.

    None for a value that is shorter: no padded value is.
    """
    if len(value) < length:
        return ()
    if len(value) > length:
        # A value that is too long for its column stays as it is.
        return (value,)
    bare = value.rstrip(" ")
    return tuple(value[:count] for count in range(len(bare), length + 1))
