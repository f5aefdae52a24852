"""The physical types and field ids that Paimon gives the columns of a Parquet file.

Source: ``spec/fileformat.md``, ``ParquetSchemaConverter.java``, ``SpecialFields.java``. A file with
a timestamp of more than 6 digits holds all its timestamps as INT96 (Arrow's writer decides that
for the file, not for a column); every Paimon reader takes INT96 for any precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
    to_arrow,
)

__all__ = ["has_nanoseconds", "leaves", "nested_ids", "parquet_schema"]

_NESTED_ID_START = (2**31 - 1) // 4
_NESTED_ID_STEP = 1 << 10


def parquet_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema of a file with these columns: names, types, nullability, field ids."""
    return pa.schema([_arrow_with_id(item) for item in fields])


def _arrow_with_id(item: DataField) -> pa.Field:
    arrow = _arrow_type(item.type, item.id, 0)
    return _field(item.name, arrow, item.type.nullable, item.id)


def _field(name: str, arrow: pa.DataType, nullable: bool, identifier: int) -> pa.Field:
    return pa.field(name, arrow, nullable, metadata={"PARQUET:field_id": str(identifier)})


def _arrow_type(data_type: DataType, identifier: int, depth: int) -> pa.DataType:
    """`to_arrow` with the field ids that nested parts carry; `identifier` is the column's."""
    depth += 1
    up, down = nested_ids(identifier, depth)
    match data_type:
        case AtomicType():
            return to_arrow(data_type)
        case VariantType():
            parts = ("value", "metadata")
            return pa.struct([_field(n, pa.binary(), False, at) for at, n in enumerate(parts)])
        case ArrayType() | VectorType():
            inner = _arrow_type(data_type.element, identifier, depth)
            return pa.list_(_field("element", inner, data_type.element.nullable, up))
        case MapType():
            return pa.map_(
                _field("key", _arrow_type(data_type.key, identifier, depth), False, down),
                _field(
                    "value",
                    _arrow_type(data_type.value, identifier, depth),
                    data_type.value.nullable,
                    up,
                ),
            )
        case MultisetType():
            inner = _arrow_type(data_type.element, identifier, depth)
            return pa.map_(
                _field("key", inner, False, down), _field("value", pa.int32(), False, up)
            )
        case RowType():
            return pa.struct([_arrow_with_id(child) for child in data_type.fields])


def nested_ids(identifier: int, depth: int) -> tuple[int, int]:
    """The field id of an element or a value, and that of a key, so deep in a column."""
    step = identifier * _NESTED_ID_STEP + depth
    return _NESTED_ID_START + step, _NESTED_ID_START - step


def has_nanoseconds(data_type: DataType) -> bool:
    """True if a type is, or holds, a timestamp of more than 6 digits."""
    match data_type:
        case AtomicType():
            timestamp = data_type.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
            return timestamp and data_type.precision > 6
        case ArrayType() | MultisetType():
            return has_nanoseconds(data_type.element)
        case MapType():
            return has_nanoseconds(data_type.key) or has_nanoseconds(data_type.value)
        case VariantType() | VectorType():
            return False
        case RowType():
            return any(has_nanoseconds(child.type) for child in data_type.fields)


def leaves(path: str, data_type: DataType) -> Iterator[tuple[str, AtomicType | None]]:
    """A column's leaves: their paths, as Arrow's writer names them, and types.

    The parts of a variant have no type.
    """
    match data_type:
        case AtomicType():
            yield path, data_type
        case VariantType():
            yield from ((f"{path}.value", None), (f"{path}.metadata", None))
        case ArrayType() | VectorType():
            yield from leaves(f"{path}.list.element", data_type.element)
        case MultisetType():
            yield from leaves(f"{path}.key_value.key", data_type.element)
        case MapType():
            yield from leaves(f"{path}.key_value.key", data_type.key)
            yield from leaves(f"{path}.key_value.value", data_type.value)
        case RowType():
            for child in data_type.fields:
                yield from leaves(f"{path}.{child.name}", child.type)
