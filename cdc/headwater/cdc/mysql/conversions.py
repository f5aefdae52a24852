"""Which columns of MySQL and MariaDB become which types of the lake, and checked conversions.

A column of the lake may be wider than its source's: it keeps its type when the source narrows the
column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from enum import Enum, auto
from functools import lru_cache
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from headwater.cdc.model.tables import SourceColumn
from headwater.cdc.mysql.column_types import GEOMETRIES, SourceType, parse_source_type
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root
from headwater.storage.types.data_type import ArrayType, parse_type

_MAX_SHOWN_CHARACTERS = 100
# Source types with a number of fractional digits, and the lake's types with a length.
_TIMES = frozenset({"time", "datetime", "timestamp"})
_LENGTHS = frozenset({Root.CHAR, Root.VARCHAR, Root.BINARY, Root.VARBINARY})


class Family(Enum):
    """Source types whose values are converted in one way."""

    INTEGER = auto()
    YEAR = auto()
    BIT = auto()
    FLOAT = auto()
    DOUBLE = auto()
    DECIMAL = auto()
    TEXT = auto()
    SET = auto()
    BYTES = auto()
    GEOMETRY = auto()
    UUID = auto()
    INET4 = auto()
    INET6 = auto()
    DATE = auto()
    DATETIME = auto()
    TIMESTAMP = auto()
    TIME = auto()


_F = Family
_FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), _F.INTEGER),
        **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext"), _F.TEXT),
        **dict.fromkeys(("longtext", "enum", "json"), _F.TEXT),
        **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob"), _F.BYTES),
        **dict.fromkeys(("mediumblob", "longblob"), _F.BYTES),
        **dict.fromkeys(GEOMETRIES, _F.GEOMETRY),
        **{
            family.name.lower(): family
            for family in (_F.YEAR, _F.BIT, _F.FLOAT, _F.DOUBLE, _F.DECIMAL, _F.SET)
        },
        **{family.name.lower(): family for family in (_F.UUID, _F.INET4, _F.INET6)},
        **{family.name.lower(): family for family in (_F.DATE, _F.DATETIME, _F.TIMESTAMP, _F.TIME)},
    }
)
_INTEGERS = frozenset({_F.INTEGER, _F.YEAR})
_STRINGS = frozenset(Family) - {_F.GEOMETRY}
_BYTES = frozenset({_F.BYTES, _F.TEXT, _F.BIT, _F.GEOMETRY})
_SOURCES: Mapping[Root, frozenset[Family]] = MappingProxyType(
    {
        **dict.fromkeys((Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT), _INTEGERS),
        Root.BOOLEAN: frozenset({_F.INTEGER, _F.BIT}),
        Root.FLOAT: frozenset({_F.FLOAT}),
        Root.DOUBLE: frozenset({_F.FLOAT, _F.DOUBLE, _F.INTEGER}),
        Root.DECIMAL: frozenset({_F.DECIMAL, _F.INTEGER}),
        Root.CHAR: _STRINGS,
        Root.VARCHAR: _STRINGS,
        Root.BINARY: _BYTES,
        Root.VARBINARY: _BYTES,
        Root.DATE: frozenset({_F.DATE}),
        Root.TIMESTAMP: frozenset({_F.DATE, _F.DATETIME}),
        Root.TIMESTAMP_LTZ: frozenset({_F.TIMESTAMP}),
        Root.TIME: frozenset({_F.TIME}),
    }
)


@lru_cache(maxsize=4096)
def source_family(column: SourceColumn) -> Family:
    """Return the family of a column's source type.

    Raises:
        Unsupported: The column's type in the lake does not hold values of the source's.
    """
    source = parse_source_type(column.source_type)
    family = _FAMILIES.get(source.name)
    if family is None or not _is_supported(source, family, column):
        raise Unsupported(
            f"cannot convert column '{column.name}': {column.source_type} of the source does not "
            f"become {column.type} of the lake; drop the table of the lake and read it again"
        )
    return family


def _is_supported(source: SourceType, family: Family, column: SourceColumn) -> bool:
    type_ = column.type
    if isinstance(type_, ArrayType):
        element = type_.element
        return family is _F.SET and replace(element, nullable=True) == parse_type("STRING")
    if not isinstance(type_, AtomicType) or family not in _SOURCES.get(type_.root, ()):
        return False
    if type_.root is Root.BOOLEAN:
        return source.length == 1
    if type_.root in (Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and source.name in _TIMES:
        return (source.length or 0) <= type_.precision
    return True


def length_limit(column: SourceColumn) -> int | None:
    """The most characters or bytes of the lake's type; None if the source's values fit."""
    type_ = column.type
    if (
        not isinstance(type_, AtomicType)
        or type_.root not in _LENGTHS
        or type_.length == MAX_LENGTH
    ):
        return None
    source = parse_source_type(column.source_type)
    is_sized = source.name in ("char", "varchar", "binary", "varbinary")
    return None if is_sized and (source.length or 0) <= type_.length else type_.length


def convert_checked(
    values: pa.Array, column: SourceColumn, convert: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """Convert a column's values.

    Args:
        values: The values.
        column: The column.
        convert: Converts them to the Arrow form of the column's type.

    Raises:
        Invalid: The lake's type does not hold a value, which is named.
    """
    try:
        converted = convert(values)
    except pa.ArrowInvalid as error:
        raise _does_not_hold(column, _first_rejected(values, convert)) from error
    limit = length_limit(column)
    if limit is not None:
        is_text = pa.types.is_string(converted.type)
        lengths = pc.utf8_length(converted) if is_text else pc.binary_length(converted)
        is_long = pc.greater(lengths, limit)
        if pc.any(is_long).as_py():
            raise _does_not_hold(column, converted.filter(is_long)[0])
    return converted


def _first_rejected(values: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> pa.Scalar:
    """The first value that cannot be converted, found by halving the values."""
    while len(values) > 1:
        half = values.slice(0, len(values) // 2)
        try:
            convert(half)
        except pa.ArrowInvalid:
            values = half
        else:
            values = values.slice(len(half))
    return values[0]


def _does_not_hold(column: SourceColumn, value: pa.Scalar) -> Invalid:
    text = _shown(value.as_py())
    if len(text) > _MAX_SHOWN_CHARACTERS:
        text = f"{text[:_MAX_SHOWN_CHARACTERS]}…"
    return Invalid(
        f"column '{column.name}' of type {column.source_type} has the value '{text}', which "
        f"{column.type} of the lake does not hold; change the value at the source, or the column's "
        "type"
    )


def _shown(value: object) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"0x{value.hex()}"
    return str(value)


def split_set(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Split the members of sets, joined by commas; the empty string is the empty set."""
    filled = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
    lists = pc.split_pattern(filled, ",")
    mask = values.is_null() if values.null_count else None
    return pa.ListArray.from_arrays(lists.offsets, lists.values, type=type_, mask=mask)


def padded_bits(values: pa.Array, column: SourceColumn) -> pa.Array:
    """Extend the bytes of bits to the length of the lake's type, with zeros before them."""
    assert isinstance(column.type, AtomicType)
    width = column.type.length
    if column.type.root is not Root.BINARY or not len(values):
        return values
    if pc.min(pc.binary_length(values)).as_py() in (None, width):
        return values
    zeros = pc.binary_join_element_wise(bytes(width), values, b"")
    return pc.binary_slice(zeros, -width)
