"""The Arrow schema of an ORC file, with the field ids that Paimon gives its columns.

A column's id is its type's attribute ``paimon.id``. Readers find columns by their names; CHAR and
VARCHAR are ORC's ``string``, which every reader takes for either. TIME is a number of milliseconds.

Source: ``OrcTypeUtil.java``, ``OrcFileFormat.java``, ``SpecialFields.java``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headwater.storage.errors import Unsupported
from headwater.storage.formats.parquet_schema import nested_ids
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
    refuse_kept,
    to_arrow,
)
from headwater.storage.types.type_parts import type_parts

__all__ = ["orc_schema", "refuse_for_orc"]


def orc_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema of a file with these columns."""
    return pa.schema([_with_id(item) for item in fields])


def refuse_for_orc(fields: Sequence[DataField]) -> None:
    """Refuse columns that ORC files cannot hold.

    Raises:
        Unsupported: The message names the column.
    """
    for item in fields:
        refuse_kept(item)
        if isinstance(item.type, VectorType):
            raise Unsupported(
                f"column '{item.name}' is of type {item.type}, which ORC files do not hold; set "
                "the option 'file.format' to parquet"
            )
        if any(isinstance(part, VariantType) for part in type_parts(item.type)):
            raise Unsupported(
                f"column '{item.name}' has type VARIANT in it, which ORC files do not hold; set "
                "the option 'file.format' to parquet"
            )


def _with_id(item: DataField) -> pa.Field:
    return _field(item.name, _type(item.type, item.id, 0), item.id)


def _field(name: str, arrow: pa.DataType, identifier: int) -> pa.Field:
    return pa.field(name, arrow, metadata={"paimon.id": str(identifier)})


def _type(data_type: DataType, identifier: int, depth: int) -> pa.DataType:
    depth += 1
    up, down = nested_ids(identifier, depth)
    match data_type:
        case AtomicType(root=Root.TIME):
            return pa.int32()
        case AtomicType() | VariantType():
            return to_arrow(data_type)
        case ArrayType() | VectorType():
            return pa.list_(_field("element", _type(data_type.element, identifier, depth), up))
        case MapType():
            key = _type(data_type.key, identifier, depth)
            return pa.map_(
                # Arrow's maps have keys without nulls.
                _field("key", key, down).with_nullable(False),
                _field("value", _type(data_type.value, identifier, depth), up),
            )
        case MultisetType():
            key = _type(data_type.element, identifier, depth)
            return pa.map_(
                _field("key", key, down).with_nullable(False), _field("value", pa.int32(), up)
            )
        case RowType():
            return pa.struct([_with_id(child) for child in data_type.fields])
