"""The parts of Arrow's lists, maps and structs, whatever slice of a larger array they are, and
lists, maps and structs with other parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "holds_maps",
    "list_offsets",
    "list_with",
    "map_entries",
    "map_with",
    "ordered_maps",
    "struct_with",
]


def list_offsets(array: pa.Array) -> pa.Array:
    """Offsets into a list or map column's parts, of which a null list or map has none."""
    lists = _pairs(array) if pa.types.is_map(array.type) else array
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.array(offsets)


def list_with(array: pa.Array, values: pa.Array, target: pa.DataType) -> pa.Array:
    """A list column with other values in place of its ``flatten()``."""
    return pa.ListArray.from_arrays(list_offsets(array), values, target, mask=array.is_null())


def map_entries(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The keys and the values of a map column, end to end."""
    entries = _pairs(array).flatten()
    return entries.field(0), entries.field(1)


def _pairs(array: pa.Array) -> pa.Array:
    # Flattening a list minds slices and nulls; a map's own `keys` does not. Not by a cast, which
    # takes no null row of a struct that has a NOT NULL field.
    fields = [array.type.key_field, array.type.item_field]
    entries = pa.StructArray.from_arrays([array.keys, array.items], fields=fields)
    return pa.Array.from_buffers(
        pa.list_(entries.type),
        len(array),
        array.buffers()[:2],
        array.null_count,
        array.offset,
        children=[entries],
    )


def map_with(array: pa.Array, keys: pa.Array, values: pa.Array, target: pa.DataType) -> pa.Array:
    """A map column, or a list column of pairs, as maps with other entries."""
    return pa.MapArray.from_arrays(list_offsets(array), keys, values, target, mask=array.is_null())


def struct_with(
    array: pa.Array, children: Sequence[pa.Array], fields: Sequence[pa.Field]
) -> pa.Array:
    """A struct column with other fields."""
    return pa.StructArray.from_arrays(children, fields=list(fields), mask=array.is_null())


def holds_maps(data_type: pa.DataType) -> bool:
    """True if an Arrow type is a map, or has one in it."""
    parts = (data_type.field(at).type for at in range(data_type.num_fields))
    return bool(pa.types.is_map(data_type)) or any(map(holds_maps, parts))


def ordered_maps(array: pa.Array) -> pa.Array:
    """A column with the entries of its maps in the order of their keys, if these have one."""
    kind = array.type
    if not holds_maps(kind):
        return array
    if pa.types.is_list(kind):
        return list_with(array, ordered_maps(array.flatten()), kind)
    if pa.types.is_struct(kind):
        children = [ordered_maps(array.field(at)) for at in range(kind.num_fields)]
        return struct_with(array, children, list(kind))
    if not pa.types.is_map(kind):
        return array
    keys, values = map_entries(array)
    values = ordered_maps(values)
    if not pa.types.is_nested(keys.type):
        owners = np.repeat(np.arange(len(array)), np.diff(list_offsets(array).to_numpy()))
        entries = pa.table([pa.array(owners), keys], names=["owner", "key"])
        order = pc.sort_indices(entries, [("owner", "ascending"), ("key", "ascending")])
        keys, values = keys.take(order), values.take(order)
    return map_with(array, keys, values, kind)
