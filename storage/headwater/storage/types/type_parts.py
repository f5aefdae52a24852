"""The types that a type is made of."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    ArrayType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
)

__all__ = ["atomic_parts", "root_of", "type_parts"]


def type_parts(data_type: DataType) -> Iterator[DataType]:
    """A type, and those that it is made of at any depth; a VECTOR has no parts."""
    yield data_type
    match data_type:
        case ArrayType() | MultisetType():
            yield from type_parts(data_type.element)
        case MapType():
            yield from type_parts(data_type.key)
            yield from type_parts(data_type.value)
        case RowType():
            for child in data_type.fields:
                yield from type_parts(child.type)
        case AtomicType() | VariantType() | VectorType():
            pass


def atomic_parts(data_type: DataType) -> Iterator[AtomicType]:
    """The atomic types among `type_parts`."""
    return (part for part in type_parts(data_type) if isinstance(part, AtomicType))


def root_of(data_type: DataType) -> Root | None:
    """The root of an atomic type; None for others."""
    return data_type.root if isinstance(data_type, AtomicType) else None
