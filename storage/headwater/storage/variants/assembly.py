"""Variants of which parts lie in typed columns (shredded), put together.

Source: ``VariantShredding.md`` of the Parquet format, ``ShreddingUtils.java``. A value keeps the
dictionary of names that lies beside it; Paimon's library makes a new one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.types.data_type import (
    VARIANT_ARROW,
    ArrayType,
    DataType,
    MapType,
    RowType,
    VariantType,
)
from headwater.storage.types.nested_arrays import list_with, map_entries, map_with, struct_with
from headwater.storage.variants.containers import (
    OBJECT,
    Parts,
    arrays,
    basic_types,
    objects,
    parts,
)
from headwater.storage.variants.layout import Numbers, check
from headwater.storage.variants.names import Names
from headwater.storage.variants.scalars import encoded

__all__ = ["assembled", "is_shredded"]

_NULL = b"\x00"
_TYPED = "typed_value"


def is_shredded(arrow: pa.DataType, data_type: DataType) -> bool:
    """True if a column of a file has variants in it that are to be put together.

    Args:
        arrow: Its type in the file.
        data_type: Its type in the table.
    """
    match data_type:
        case VariantType():
            return bool(pa.types.is_struct(arrow)) and arrow.get_field_index(_TYPED) >= 0
        case ArrayType() if pa.types.is_list(arrow):
            return is_shredded(arrow.value_type, data_type.element)
        case MapType() if pa.types.is_map(arrow):
            return is_shredded(arrow.item_type, data_type.value)
        case RowType() if pa.types.is_struct(arrow):
            types = {child.name: child.type for child in data_type.fields}
            return any(
                item.name in types and is_shredded(item.type, types[item.name]) for item in arrow
            )
        case _:
            return False


def assembled(array: pa.Array, data_type: DataType) -> pa.Array:
    """A column as `is_shredded` knows them, with whole variants.

    Raises:
        ValueError: The file does not hold variants there.
    """
    if not is_shredded(array.type, data_type):
        return array
    match data_type:
        case VariantType():
            return _variants(array)
        case ArrayType():
            values = assembled(array.flatten(), data_type.element)
            return list_with(array, values, pa.list_(values.type))
        case MapType():
            keys, values = map_entries(array)
            values = assembled(values, data_type.value)
            return map_with(array, keys, values, pa.map_(keys.type, values.type))
        case RowType():
            types = {child.name: child.type for child in data_type.fields}
            children = [
                assembled(array.field(at), types[item.name])
                if item.name in types
                else array.field(at)
                for at, item in enumerate(array.type)
            ]
            fields = [
                item.with_type(child.type) for item, child in zip(array.type, children, strict=True)
            ]
            return struct_with(array, children, fields)
        case _:
            return array


def _variants(array: pa.Array) -> pa.Array:
    own = _fields(array)
    if "metadata" not in own:
        raise ValueError("it has no metadata")
    metadata = own["metadata"].cast(pa.large_binary())
    if metadata.null_count > array.null_count:
        raise ValueError("it has no metadata")
    names = Names(metadata)
    values = pc.fill_null(_values(array, names.codes, names), _NULL)
    made = {"value": values, "metadata": pc.fill_null(metadata, b"")}
    children = [made[item.name].cast(item.type) for item in VARIANT_ARROW]
    return struct_with(array, children, list(VARIANT_ARROW))


def _fields(array: pa.Array) -> dict[str, pa.Array]:
    """The fields of a struct column, null where the struct is."""
    if not pa.types.is_struct(array.type):
        raise ValueError(f"there is a part of type {array.type} where a group must be")
    return dict(zip((item.name for item in array.type), array.flatten(), strict=True))


def _values(array: pa.Array, codes: Numbers, names: Names) -> pa.Array:
    """The variants of groups of ``value`` and ``typed_value``; null for those that are missing."""
    own = _fields(array)
    typed = own.get(_TYPED)
    plain = own.get("value", pa.nulls(len(array), pa.binary())).cast(pa.large_binary())
    if typed is None:
        return plain
    is_typed = typed.is_valid()
    if pa.types.is_struct(typed.type):
        rest = pc.if_else(is_typed, plain, pa.scalar(None, pa.large_binary()))
        return pc.if_else(is_typed, _objects(typed, rest, codes, names), plain)
    if pc.any(pc.and_(is_typed, plain.is_valid())).as_py():
        raise ValueError("it has both a typed and another value")
    if pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type):
        return pc.if_else(is_typed, _arrays(typed, codes, names), plain)
    return pc.coalesce(encoded(typed), plain)


def _objects(typed: pa.Array, rest: pa.Array, codes: Numbers, names: Names) -> pa.Array:
    """Objects of typed fields, and of the fields of the objects in `rest`."""
    is_rest = rest.is_valid().to_numpy(zero_copy_only=False)
    check(basic_types(rest)[is_rest] == OBJECT, "the rest of an object is no object")
    found = [parts(rest, OBJECT)]
    for name, child in _fields(typed).items():
        values = _values(child, codes, names)
        there = values.is_valid()
        owners = np.flatnonzero(there.to_numpy(zero_copy_only=False))
        ids = names.ids(name)[codes[owners]]
        check(ids >= 0, f"its metadata lacks the name '{name}'")
        found.append(Parts(owners, ids, values.filter(there)))
    fields = Parts(
        np.concatenate([each.owners for each in found]),
        np.concatenate([each.ids for each in found]),
        pa.concat_arrays([each.values for each in found]),
    )
    return objects(len(typed), fields, names.ranks(codes[fields.owners], fields.ids))


def _arrays(typed: pa.Array, codes: Numbers, names: Names) -> pa.Array:
    counts = pc.fill_null(pc.list_value_length(typed), 0).to_numpy(zero_copy_only=False)
    counts = counts.astype(np.int64)
    elements = _values(typed.flatten(), np.repeat(codes, counts), names)
    # The specification has an element that must be there and is not stand for null.
    return arrays(counts, pc.fill_null(elements, _NULL))
