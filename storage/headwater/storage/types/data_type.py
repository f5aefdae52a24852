"""Paimon's data types, their JSON form and their Arrow form.

The JSON form is that of a schema file: a string such as ``DECIMAL(10, 2) NOT NULL`` for an atomic
type, an object for a nested one (``docs/concepts/spec/schema.md``, ``DataTypeJsonParser.java``).

Arrow forms: TIMESTAMP(p) is ``timestamp[ms]`` for p <= 3, ``[us]`` for p <= 6, ``[ns]`` above, and
the same with time zone UTC for TIMESTAMP_LTZ; TIME is ``time32[ms]``; CHAR and VARCHAR are
``string``; BINARY and VARBINARY are ``binary``; BLOB is ``large_binary``; VECTOR<t, n> is
``fixed_size_list<t>[n]``; MULTISET<t> is ``map<t, int32>``; VARIANT is
``struct<value: binary, metadata: binary>``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from headwater.storage.capabilities import INNER_BLOB, INNER_VECTOR, unsupported_type
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.atomic_type import (
    MAX_LENGTH,
    VECTOR_ELEMENTS,
    AtomicType,
    Root,
    VectorType,
    is_nullable,
    parse_atomic,
    vector_type,
)

__all__ = [
    "MAX_LENGTH",
    "VARIANT_ARROW",
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

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True)
class ArrayType:
    """A list of elements of one type."""

    element: DataType
    nullable: bool = True

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>" + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True)
class MapType:
    """A map from keys of one type to values of another."""

    key: DataType
    value: DataType
    nullable: bool = True

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>" + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True)
class MultisetType:
    """A bag of elements of one type: a map from each element to how often it occurs."""

    element: DataType
    nullable: bool = True

    def __str__(self) -> str:
        return f"MULTISET<{self.element}>" + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True)
class RowType:
    """A nested row."""

    fields: tuple[DataField, ...]
    nullable: bool = True

    def __str__(self) -> str:
        inner = ", ".join(f"`{f.name}` {f.type}" for f in self.fields)
        return f"ROW<{inner}>" + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True)
class VariantType:
    """A value that brings its type with it, as Spark and Parquet encode it."""

    nullable: bool = True

    def __str__(self) -> str:
        return "VARIANT" + ("" if self.nullable else " NOT NULL")


DataType: TypeAlias = (
    AtomicType | ArrayType | MapType | MultisetType | RowType | VariantType | VectorType
)


@dataclass(frozen=True)
class DataField:
    """A column, or a field of a nested row.

    Attributes:
        id: The field's id: it survives renames and is never used again within the table.
        name: Its present name.
        type: Its type.
        description: A comment, or None.
        default_value: The default as SQL text, or None.
    """

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None

    def to_json(self) -> dict[str, Json]:
        """The field's object in a schema file."""
        document: dict[str, Json] = {
            "id": self.id,
            "name": self.name,
            "type": type_json(self.type),
        }
        if self.description is not None:
            document["description"] = self.description
        if self.default_value is not None:
            document["defaultValue"] = self.default_value
        return document

    @staticmethod
    def from_json(document: Json) -> DataField:
        """Read a field's object; raises Invalid when it is malformed.

        A nested field may lack an id (Java accepts that in a request); it reads as -1.
        """
        if not isinstance(document, dict):
            raise Invalid(f"a field must be a JSON object, not {document!r}")
        name = document.get("name")
        identifier = document.get("id", -1)
        if not isinstance(name, str) or not name:
            raise Invalid(f"a field needs a non-empty string 'name'; got {name!r}")
        if not isinstance(identifier, int) or isinstance(identifier, bool):
            raise Invalid(f"field '{name}': 'id' must be an integer, not {identifier!r}")
        if "type" not in document:
            raise Invalid(f"field '{name}' has no 'type'")
        description = document.get("description")
        default_value = document.get("defaultValue")
        if description is not None and not isinstance(description, str):
            raise Invalid(f"field '{name}': 'description' must be a string")
        if default_value is not None and not isinstance(default_value, str):
            raise Invalid(f"field '{name}': 'defaultValue' must be a string")
        return DataField(identifier, name, parse_type(document["type"]), description, default_value)


_SUFFIXED = re.compile(
    r"\s*(?P<inner>.*\S)\s+(?P<root>ARRAY|MULTISET)(?P<null>(?:\s+NOT)?\s+NULL)?\s*",
    re.IGNORECASE | re.DOTALL,
)


def parse_type(document: Json) -> DataType:
    """Read a type from its JSON form.

    Raises:
        Invalid: The text or object is not a type.
    """
    if isinstance(document, str):
        return _parse_text(document)
    if not isinstance(document, dict):
        raise Invalid(f"a type must be a string or an object, not {document!r}")
    head = document.get("type")
    if not isinstance(head, str):
        raise Invalid(f"a nested type needs a string 'type'; got {head!r}")
    # pypaimon before 2.1 repeats the parts in the head, `MAP<INT, STRING NOT NULL> NOT NULL`: what
    # stands between the brackets says nothing that the document's other keys do not say.
    root, _, rest = head.upper().partition("<")
    words = (root + rest.rpartition(">")[2]).split()
    nullable = words[-2:] != ["NOT", "NULL"] and document.get("nullable") is not False
    try:
        match words[0] if words else "":
            case "ARRAY":
                return ArrayType(parse_type(document["element"]), nullable)
            case "MULTISET":
                return MultisetType(parse_type(document["element"]), nullable)
            case "MAP":
                return MapType(parse_type(document["key"]), parse_type(document["value"]), nullable)
            case "ROW":
                fields = document["fields"]
                if not isinstance(fields, list):
                    raise Invalid("the 'fields' of a ROW type must be a list")
                return RowType(tuple(DataField.from_json(item) for item in fields), nullable)
            case "VECTOR":
                return _parse_vector(document, nullable)
    except KeyError as error:
        raise Invalid(f"type '{head}' lacks its {error} part") from None
    raise Invalid(f"unknown type '{head}'")


def _parse_text(text: str) -> DataType:
    suffixed = _SUFFIXED.fullmatch(text)
    if suffixed is None:
        return _parse_word(text)
    nested = ArrayType if suffixed["root"].upper() == "ARRAY" else MultisetType
    return nested(_parse_word(suffixed["inner"]), is_nullable(suffixed["null"]))


def _parse_word(text: str) -> AtomicType | VariantType | VectorType:
    found = parse_atomic(text)
    if isinstance(found, AtomicType) and found.root is Root.VARIANT:
        return VariantType(found.nullable)
    return found


def _parse_vector(document: Mapping[str, Json], nullable: bool) -> VectorType:
    element, length = parse_type(document["element"]), document["length"]
    if not isinstance(element, AtomicType):
        raise Invalid(f"a VECTOR cannot hold {element}")
    if not isinstance(length, int) or isinstance(length, bool):
        raise Invalid(f"the 'length' of a VECTOR must be an integer, not {length!r}")
    return vector_type(element, length, nullable)


def type_json(data_type: DataType) -> Json:
    """The type's JSON form, as it stands in a schema file."""
    suffix = "" if data_type.nullable else " NOT NULL"
    match data_type:
        case VectorType():
            return {
                "type": "VECTOR" + suffix,
                "element": type_json(data_type.element),
                "length": data_type.length,
            }
        case AtomicType() | VariantType():
            return str(data_type)
        case ArrayType():
            return {"type": "ARRAY" + suffix, "element": type_json(data_type.element)}
        case MultisetType():
            return {"type": "MULTISET" + suffix, "element": type_json(data_type.element)}
        case MapType():
            return {
                "type": "MAP" + suffix,
                "key": type_json(data_type.key),
                "value": type_json(data_type.value),
            }
        case RowType():
            return {"type": "ROW" + suffix, "fields": [f.to_json() for f in data_type.fields]}


def timestamp_unit(precision: int) -> str:
    """The Arrow unit that holds a timestamp of so many fractional digits."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


_PLAIN_ARROW: Mapping[Root, pa.DataType] = {
    Root.BOOLEAN: pa.bool_(),
    Root.TINYINT: pa.int8(),
    Root.SMALLINT: pa.int16(),
    Root.INT: pa.int32(),
    Root.BIGINT: pa.int64(),
    Root.FLOAT: pa.float32(),
    Root.DOUBLE: pa.float64(),
    Root.CHAR: pa.string(),
    Root.VARCHAR: pa.string(),
    Root.BINARY: pa.binary(),
    Root.VARBINARY: pa.binary(),
    Root.BLOB: pa.large_binary(),
    Root.DATE: pa.date32(),
    Root.TIME: pa.time32("ms"),
}


VARIANT_ARROW = pa.struct(
    [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)]
)
"""The Arrow form of a VARIANT: what a Parquet file without shredding holds."""


def to_arrow(data_type: DataType) -> pa.DataType:
    """The Arrow type that holds a Paimon type (nullability stands on the Arrow field).

    Raises:
        Unsupported: Headwater does not read or write it (GEOMETRY…).
    """
    match data_type:
        case AtomicType(root=root) if root.is_opaque:
            raise Unsupported(f"Headwater does not read or write type {data_type}")
        case AtomicType(root=Root.DECIMAL):
            return pa.decimal128(data_type.precision, data_type.scale)
        case AtomicType(root=Root.TIMESTAMP):
            return pa.timestamp(timestamp_unit(data_type.precision))
        case AtomicType(root=Root.TIMESTAMP_LTZ):
            return pa.timestamp(timestamp_unit(data_type.precision), tz="UTC")
        case AtomicType():
            return _PLAIN_ARROW[data_type.root]
        case VariantType():
            return VARIANT_ARROW
        case VectorType():
            return pa.list_(_element_field(data_type), data_type.length)
        case ArrayType():
            return pa.list_(_element_field(data_type))
        case MultisetType():
            return pa.map_(to_arrow(data_type.element), pa.field("value", pa.int32(), False))
        case MapType():
            return pa.map_(
                to_arrow(data_type.key),
                pa.field("value", to_arrow(data_type.value), data_type.value.nullable),
            )
        case RowType():
            return pa.struct([arrow_field(f) for f in data_type.fields])


def _element_field(data_type: ArrayType | VectorType) -> pa.Field:
    return pa.field("element", to_arrow(data_type.element), data_type.element.nullable)


def _kept_part(data_type: DataType) -> str | None:
    """The type in a type, or itself, that Headwater keeps for other engines; None for none.

    Returns:
        Its name among `KEPT_TYPES`.
    """
    match data_type:
        case AtomicType(root=Root.BLOB):
            return INNER_BLOB
        case AtomicType():
            return data_type.root if data_type.root.is_opaque else None
        case VectorType():
            return INNER_VECTOR
        case VariantType():
            return None
        case ArrayType() | MultisetType():
            return _kept_part(data_type.element)
        case MapType():
            return _kept_part(data_type.key) or _kept_part(data_type.value)
        case RowType():
            found = (_kept_part(item.type) for item in data_type.fields)
            return next((part for part in found if part is not None), None)


def refuse_kept(data_field: DataField) -> None:
    """Raises Unsupported for a column that Headwater does not read or write."""
    match data_field.type:
        case VectorType() | AtomicType(root=Root.BLOB):
            return
    kept = _kept_part(data_field.type)
    if kept is not None:
        raise unsupported_type(data_field.name, str(data_field.type), kept)


def arrow_field(data_field: DataField) -> pa.Field:
    """A column's Arrow field; raises Unsupported for what Headwater does not read or write."""
    refuse_kept(data_field)
    return pa.field(data_field.name, to_arrow(data_field.type), data_field.type.nullable)


_FROM_ARROW: Sequence[tuple[pa.DataType, AtomicType]] = (
    (pa.bool_(), AtomicType(Root.BOOLEAN)),
    (pa.int8(), AtomicType(Root.TINYINT)),
    (pa.int16(), AtomicType(Root.SMALLINT)),
    (pa.int32(), AtomicType(Root.INT)),
    (pa.int64(), AtomicType(Root.BIGINT)),
    (pa.uint8(), AtomicType(Root.SMALLINT)),
    (pa.uint16(), AtomicType(Root.INT)),
    (pa.uint32(), AtomicType(Root.BIGINT)),
    (pa.float32(), AtomicType(Root.FLOAT)),
    (pa.float64(), AtomicType(Root.DOUBLE)),
    (pa.string(), AtomicType(Root.VARCHAR, length=MAX_LENGTH)),
    (pa.large_string(), AtomicType(Root.VARCHAR, length=MAX_LENGTH)),
    (pa.string_view(), AtomicType(Root.VARCHAR, length=MAX_LENGTH)),
    (pa.binary(), AtomicType(Root.VARBINARY, length=MAX_LENGTH)),
    (pa.large_binary(), AtomicType(Root.VARBINARY, length=MAX_LENGTH)),
    (pa.binary_view(), AtomicType(Root.VARBINARY, length=MAX_LENGTH)),
    (pa.date32(), AtomicType(Root.DATE)),
    (pa.time32("ms"), AtomicType(Root.TIME, precision=3)),
    (pa.time32("s"), AtomicType(Root.TIME, precision=0)),
)


@dataclass
class FieldIds:
    """Hands out field ids to nested fields, depth first, as Paimon's `ReassignFieldId` does."""

    highest: int = field(default=-1)

    def take(self) -> int:
        """The next id."""
        self.highest += 1
        return self.highest


# Spark says so in a field of the struct that a VARIANT is in Arrow.
_VARIANT_TAG = b"variant"


def from_arrow(arrow: pa.DataType, nullable: bool = True, ids: FieldIds | None = None) -> DataType:
    """The Paimon type that holds an Arrow type.

    Args:
        arrow: The Arrow type.
        nullable: True if null is a value.
        ids: The source of ids for nested fields.

    Raises:
        Unsupported: No Paimon type holds it without loss (uint64, unions, intervals…).
    """
    ids = ids if ids is not None else FieldIds()
    for known, atomic in _FROM_ARROW:
        if arrow.equals(known):
            return replace(atomic, nullable=nullable)
    if pa.types.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return AtomicType(Root.DECIMAL, nullable, precision=arrow.precision, scale=arrow.scale)
    if pa.types.is_fixed_size_binary(arrow):
        return AtomicType(Root.BINARY, nullable, length=arrow.byte_width)
    if pa.types.is_timestamp(arrow):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow.unit]
        root = Root.TIMESTAMP if arrow.tz is None else Root.TIMESTAMP_LTZ
        return AtomicType(root, nullable, precision=precision)
    if pa.types.is_dictionary(arrow):
        return from_arrow(arrow.value_type, nullable, ids)
    if pa.types.is_fixed_size_list(arrow):
        item = arrow.value_field
        element = from_arrow(item.type, item.nullable, ids)
        if isinstance(element, AtomicType) and element.root in VECTOR_ELEMENTS and arrow.list_size:
            return VectorType(element, arrow.list_size, nullable)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        item = arrow.value_field
        return ArrayType(from_arrow(item.type, item.nullable, ids), nullable)
    if pa.types.is_map(arrow):
        item = arrow.item_field
        return MapType(
            from_arrow(arrow.key_type, False, ids),
            from_arrow(item.type, item.nullable, ids),
            nullable,
        )
    if pa.types.is_struct(arrow):
        if any((child.metadata or {}).get(_VARIANT_TAG) == b"true" for child in arrow):
            return VariantType(nullable)
        fields: list[DataField] = []
        for child in arrow:
            identifier = ids.take()
            fields.append(
                DataField(identifier, child.name, from_arrow(child.type, child.nullable, ids))
            )
        return RowType(tuple(fields), nullable)
    raise Unsupported(f"no Paimon type holds Arrow type {arrow}; cast the column first")
