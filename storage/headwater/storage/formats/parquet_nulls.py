"""Nulls of a NOT NULL field below a null row, which Arrow's Parquet writer refuses."""

from __future__ import annotations

import pyarrow as pa

from headwater.storage.errors import Invalid
from headwater.storage.types.data_type import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
)
from headwater.storage.types.nested_arrays import (
    list_offsets,
    list_with,
    map_entries,
    map_with,
    struct_with,
)

__all__ = ["filled_below_nulls"]


def filled_below_nulls(array: pa.Array, data_type: DataType, column: str) -> pa.Array:
    """The same values, with something in place of the nulls of NOT NULL fields of null rows.

    Args:
        array: A column, or a part of one.
        data_type: Its type.
        column: The column's name in errors.

    Raises:
        Invalid: A row that is not null has a null in such a field.
    """
    match data_type:
        case AtomicType():
            return array
        case ArrayType():
            values = filled_below_nulls(array.flatten(), data_type.element, column)
            return list_with(array, values, array.type)
        case MultisetType() | VectorType():
            return array
        case MapType():
            keys, values = map_entries(array)
            values = filled_below_nulls(values, data_type.value, column)
            return map_with(array, keys, values, array.type)
        case VariantType():
            types: list[DataType | None] = [None, None]
        case RowType():
            types = [child.type for child in data_type.fields]
    children: list[pa.Array] = []
    for at, (own, child_type) in enumerate(zip(array.flatten(), types, strict=True)):
        child = array.field(at)
        if child_type is not None:
            child = filled_below_nulls(child, child_type, column)
        if child.null_count and not (child_type is not None and child_type.nullable):
            if own.null_count > array.null_count:
                name = array.type.field(at).name
                raise Invalid(f"column '{column}': its field '{name}' is NOT NULL but holds a null")
            child = _without_nulls(child)
        children.append(child)
    return struct_with(array, children, list(array.type))


def _without_nulls(array: pa.Array) -> pa.Array:
    """The array with what lies under its nulls in their place."""
    if pa.types.is_struct(array.type):
        children = [array.field(at) for at in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(array.type))
    if pa.types.is_map(array.type):
        return pa.MapArray.from_arrays(list_offsets(array), *map_entries(array), array.type)
    if pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(list_offsets(array), array.flatten(), array.type)
    buffers = [None, *array.buffers()[1:]]
    return pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset)
