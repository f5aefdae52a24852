"""Columns of one type as columns of another, with the values that Paimon's Java library gives.

Where Java throws, where it would give a value that Arrow cannot hold, and where it would give one
that no reader could understand, an error is raised; no value is another than Java's.

Source: ``org.apache.paimon.casting``.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa

from headwater.storage.casts.from_text import cast_from_text, sized_bytes
from headwater.storage.casts.numbers import cast_number
from headwater.storage.casts.times import cast_time
from headwater.storage.casts.to_text import cast_to_text
from headwater.storage.casts.type_changes import has_cast
from headwater.storage.errors import Invalid, Unsupported
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
from headwater.storage.types.local_time import Zone

__all__ = ["cast"]

_CHARACTERS = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY)
_TIMES = (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


def cast(array: pa.Array, stored: DataType, wanted: DataType, zone: Zone) -> pa.Array:
    """Cast a column.

    Args:
        array: Values of `stored`, in its Arrow form.
        stored: The type they have.
        wanted: The type they are to have; nulls that the cast makes (of decimals without room) are
            refused where it is NOT NULL.
        zone: Gives the zone of local times, asked only where one of the types is a TIMESTAMP_LTZ.
            Java takes its process's zone.

    Returns:
        Values of `wanted`, in its Arrow form.

    Raises:
        Invalid: A value has no counterpart in the new type; the message shows it.
        Unsupported: Paimon has no cast between the types.
    """
    # Nullability says nothing of the values, but Paimon's rules ask for it.
    as_nullable = replace(wanted, nullable=True)
    if not isinstance(as_nullable, AtomicType) or not has_cast(stored, as_nullable):
        raise Unsupported(f"Paimon has no cast from {stored} to {wanted}")
    local = zone() if _has_moments(stored) or _has_moments(wanted) else dt.UTC
    result = _cast(array, stored, as_nullable, local)
    if not wanted.nullable and result.null_count > array.null_count:
        raise Invalid(f"a value is too great for {wanted}, and Paimon would make it null")
    return result


def _has_moments(data_type: DataType) -> bool:
    match data_type:
        case AtomicType():
            return data_type.root is Root.TIMESTAMP_LTZ
        case VariantType() | VectorType():
            return False
        case RowType():
            return any(_has_moments(child.type) for child in data_type.fields)
        case MapType():
            return _has_moments(data_type.key) or _has_moments(data_type.value)
        case ArrayType() | MultisetType():
            return _has_moments(data_type.element)


def _cast(array: pa.Array, stored: DataType, wanted: AtomicType, zone: dt.tzinfo) -> pa.Array:
    if wanted.root in _CHARACTERS:
        return cast_to_text(array, stored, wanted, zone)
    assert isinstance(stored, AtomicType)
    if stored.root in _CHARACTERS:
        return cast_from_text(array, wanted, zone)
    if wanted.root in _BYTES:
        return sized_bytes(array, wanted)
    if stored.root in _TIMES or wanted.root in _TIMES:
        return cast_time(array, stored, wanted, zone)
    return cast_number(array, stored, wanted)
