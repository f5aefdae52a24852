"""Data types and single values: what a column may hold, in Paimon's and in Arrow's form.

May import errors, options. The names here are public; the modules hold them."""

from __future__ import annotations

from headwater.storage.types.data_type import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    Json,
    MapType,
    MultisetType,
    Root,
    RowType,
    VariantType,
    VectorType,
    arrow_field,
    from_arrow,
    parse_type,
    refuse_kept,
    to_arrow,
    type_json,
)

__all__ = [
    "MAX_LENGTH",
    "ArrayType",
    "AtomicType",
    "DataField",
    "DataType",
    "Json",
    "MapType",
    "MultisetType",
    "Root",
    "RowType",
    "VariantType",
    "VectorType",
    "arrow_field",
    "from_arrow",
    "parse_type",
    "refuse_kept",
    "to_arrow",
    "type_json",
]
