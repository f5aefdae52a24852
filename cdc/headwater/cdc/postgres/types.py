"""The types of PostgreSQL's columns, and those of their columns in the lake.

Where Paimon's jobs lose values, the types differ from theirs: times with more than milliseconds are
text, and so are numbers that a DECIMAL does not hold, and bits whose number varies. Source of the
others and of the first options' names: ``PostgresTypeUtils.java``, ``TypeMapping.java``.

A source type is what ``format_type`` writes with an empty search path, after domains have been
resolved: ``numeric(12,2)``, ``timestamp(3) without time zone``, ``integer[]``, ``public.mood``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from functools import lru_cache
from types import MappingProxyType

from headwater.cdc.source.options import parse_choices
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import ArrayType, DataType, parse_type

__all__ = [
    "Family",
    "SourceType",
    "TypeMapping",
    "holds",
    "lake_type",
    "parse_source_type",
    "parse_type_mapping",
]

_MAX_DECIMAL_DIGITS = 38
# Of a numeric without digits, with `TypeMapping.NUMERIC_TO_DECIMAL`: as in Paimon.
_UNBOUNDED_DECIMAL = (38, 18)
# Digits of a second of the lake's TIME, which has milliseconds.
_MAX_TIME_DIGITS = 3
_MAX_DIGITS = 6
_TYPE = re.compile(r"([^(\[]*?) ?(?:\(([^()]*)\))?( with(?:out)? time zone)?((?:\[\])*)", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]+")
_WITHOUT_ZONE = " without time zone"


class Family(Enum):
    """Source types whose values are converted in one way."""

    BOOLEAN = auto()
    INTEGER = auto()
    FLOAT = auto()
    DOUBLE = auto()
    NUMERIC = auto()
    CHAR = auto()
    TEXT = auto()
    BYTES = auto()
    BITS = auto()
    DATE = auto()
    TIME = auto()
    TIMESTAMP = auto()
    TIMESTAMP_TZ = auto()


_F = Family
# Others of pg_catalog are names of objects, which change without the row, or the server's own.
_FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "boolean": _F.BOOLEAN,
        **dict.fromkeys(("smallint", "integer", "bigint", "oid", "xid", "cid", "xid8"), _F.INTEGER),
        "real": _F.FLOAT,
        "double precision": _F.DOUBLE,
        "numeric": _F.NUMERIC,
        **dict.fromkeys(("character", "bpchar"), _F.CHAR),
        **dict.fromkeys(("character varying", "text", "name", '"char"'), _F.TEXT),
        **dict.fromkeys(("uuid", "json", "jsonb", "jsonpath", "xml", "money"), _F.TEXT),
        **dict.fromkeys(("inet", "cidr", "macaddr", "macaddr8", "bit varying"), _F.TEXT),
        **dict.fromkeys(("tsvector", "tsquery", "pg_lsn", "tid", "refcursor"), _F.TEXT),
        **dict.fromkeys(("point", "line", "lseg", "box", "path", "polygon", "circle"), _F.TEXT),
        **dict.fromkeys(("pg_snapshot", "txid_snapshot", "time with time zone"), _F.TEXT),
        # Bits of a column that was made without their number, by CREATE TABLE AS.
        '"bit"': _F.TEXT,
        **dict.fromkeys(("int4range", "int8range", "numrange", "daterange"), _F.TEXT),
        **dict.fromkeys(("int4multirange", "int8multirange", "nummultirange"), _F.TEXT),
        **dict.fromkeys(("tsrange", "tstzrange", "tsmultirange", "tstzmultirange"), _F.TEXT),
        **dict.fromkeys(("datemultirange", "interval"), _F.TEXT),
        "bytea": _F.BYTES,
        "bit": _F.BITS,
        "date": _F.DATE,
        "time": _F.TIME,
        "timestamp": _F.TIMESTAMP,
        "timestamp with time zone": _F.TIMESTAMP_TZ,
    }
)
_INTEGERS = MappingProxyType(
    {
        "smallint": "SMALLINT",
        "integer": "INT",
        "bigint": "BIGINT",
        **dict.fromkeys(("oid", "xid", "cid"), "BIGINT"),
        "xid8": "DECIMAL(20, 0)",
    }
)
_PLAIN = MappingProxyType(
    {
        _F.BOOLEAN: "BOOLEAN",
        _F.FLOAT: "FLOAT",
        _F.DOUBLE: "DOUBLE",
        _F.BYTES: "BYTES",
        _F.DATE: "DATE",
        _F.TEXT: "STRING",
    }
)
_INTEGER = frozenset({_F.INTEGER})
# Which values a type of the lake takes, which may be wider than its source's.
_SOURCES: Mapping[Root, frozenset[Family]] = MappingProxyType(
    {
        **dict.fromkeys((Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT), _INTEGER),
        Root.BOOLEAN: frozenset({_F.BOOLEAN, _F.BITS}),
        Root.FLOAT: frozenset({_F.FLOAT}),
        Root.DOUBLE: frozenset({_F.FLOAT, _F.DOUBLE, _F.INTEGER}),
        Root.DECIMAL: frozenset({_F.NUMERIC, _F.INTEGER}),
        Root.CHAR: frozenset(Family),
        Root.VARCHAR: frozenset(Family),
        Root.BINARY: frozenset({_F.BYTES, _F.BITS}),
        Root.VARBINARY: frozenset({_F.BYTES, _F.CHAR, _F.TEXT}),
        Root.DATE: frozenset({_F.DATE}),
        Root.TIME: frozenset({_F.TIME}),
        Root.TIMESTAMP: frozenset({_F.DATE, _F.TIMESTAMP}),
        Root.TIMESTAMP_LTZ: frozenset({_F.TIMESTAMP_TZ}),
    }
)


class TypeMapping(StrEnum):
    """Choices of types in the lake; the first three have the names of Paimon's ``type_mapping``.

    ``to-nullable``: Columns take nulls, whatever the source says.
    ``to-string``: Every column is STRING, with the text that the source shows.
    ``char-to-string``: CHAR and VARCHAR are STRING.
    ``array-to-string``: Arrays are STRING, with the text that the source shows.
    ``numeric-to-decimal``: A numeric without digits is DECIMAL(38, 18), as in Paimon, rather than
    STRING; a value that it does not hold is an error.
    ``numeric-not-string``: A numeric that a DECIMAL may not hold is rejected.
    """

    TO_NULLABLE = "to-nullable"
    TO_STRING = "to-string"
    CHAR_TO_STRING = "char-to-string"
    ARRAY_TO_STRING = "array-to-string"
    NUMERIC_TO_DECIMAL = "numeric-to-decimal"
    NUMERIC_NOT_STRING = "numeric-not-string"


@dataclass(frozen=True)
class SourceType:
    """A column's type.

    Attributes:
        name: Its name, with `` with time zone`` but without `` without time zone``.
        arguments: The numbers in its brackets.
        is_array: Whether it is an array of such values.
    """

    name: str
    arguments: tuple[int, ...] = ()
    is_array: bool = False

    @property
    def element(self) -> SourceType:
        """The type of an array's elements."""
        return replace(self, is_array=False)

    @property
    def family(self) -> Family:
        """How its values are converted.

        Raises:
            Unsupported: Its values cannot be in the lake.
        """
        # Types with a schema are enums, composites, ranges, and types of extensions.
        family = _FAMILIES.get(self.name, Family.TEXT if "." in self.name else None)
        if family is None:
            raise Unsupported(
                f"column type '{self.name}' is not followed: its values are names of the server's "
                "objects, or of the server's own; leave the column's table out, or change the "
                "column's type"
            )
        return family

    @property
    def digits(self) -> int:
        """How many digits of a second it has, for types with a time."""
        return self.arguments[0] if self.arguments else _MAX_DIGITS


@lru_cache(maxsize=4096)
def parse_source_type(text: str) -> SourceType:
    """Read a type such as ``numeric(12,2)`` or ``timestamp(3) with time zone[]``; Invalid."""
    if '."' in text or text.startswith('"'):
        # A quoted name may contain anything, and such types are text in any case.
        is_array = text.endswith("[]")
        return SourceType(text.removesuffix("[]"), (), is_array)
    match = _TYPE.fullmatch(text)
    if match is None:
        raise Invalid(f"column type {text!r} is malformed; expected one such as 'numeric(12,2)'")
    name, inside, zone, brackets = match.groups(default="")
    is_qualified = "." in name
    numbers = () if is_qualified else tuple(map(int, _NUMBER.findall(inside)))
    if name.startswith("interval"):
        # Its fields and digits do not change how it is written.
        name, numbers = "interval", ()
    return SourceType(name + ("" if zone in ("", _WITHOUT_ZONE) else zone), numbers, bool(brackets))


def parse_type_mapping(text: str) -> frozenset[TypeMapping]:
    """Read the option ``type_mapping``, names with commas between them; Invalid."""
    return parse_choices(text, TypeMapping)


def lake_type(
    source: SourceType, *, nullable: bool, mapping: Collection[TypeMapping] = ()
) -> DataType:
    """The type in the lake of a source's column.

    Args:
        source: The source's type.
        nullable: Whether the source's column takes NULL.
        mapping: Choices.

    Raises:
        Unsupported: Its values cannot be in the lake, or not as the choices want.
    """
    nullable = nullable or TypeMapping.TO_NULLABLE in mapping
    atomic = _atomic_type(source.element, mapping)
    type_: DataType
    if TypeMapping.TO_STRING in mapping:
        type_ = parse_type("STRING")
    elif not source.is_array:
        type_ = parse_type(atomic)
    elif TypeMapping.ARRAY_TO_STRING in mapping:
        type_ = parse_type("STRING")
    else:
        type_ = ArrayType(parse_type(atomic))
    return type_ if nullable else replace(type_, nullable=False)


def holds(type_: DataType, source: SourceType) -> bool:
    """Whether a type of the lake takes values of a source's type."""
    if isinstance(type_, ArrayType):
        return source.is_array and holds(type_.element, source.element)
    if not isinstance(type_, AtomicType):
        return False
    if source.is_array:
        return type_.root is Root.VARCHAR
    if source.family not in _SOURCES.get(type_.root, ()):
        return False
    if type_.root is Root.BOOLEAN and source.family is Family.BITS:
        return source.arguments in ((), (1,))
    if type_.root is Root.BINARY and source.family is Family.BITS:
        return (source.arguments or (1,))[0] <= 8 * type_.length
    times = (Family.TIME, Family.TIMESTAMP, Family.TIMESTAMP_TZ)
    if type_.root in (Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and source.family in times:
        return source.digits <= type_.precision
    return True


def _atomic_type(source: SourceType, mapping: Collection[TypeMapping]) -> str:
    family = source.family
    if family in _PLAIN and source.name != "character varying":
        return _PLAIN[family]
    length = source.arguments[0] if source.arguments else None
    match family:
        case Family.INTEGER:
            return _INTEGERS[source.name]
        case Family.NUMERIC:
            return _numeric_type(source, mapping)
        case Family.CHAR | Family.TEXT:
            if length is None or TypeMapping.CHAR_TO_STRING in mapping:
                return "STRING"
            return f"{'CHAR' if family is Family.CHAR else 'VARCHAR'}({length})"
        case Family.BITS:
            bits = length or 1
            return "BOOLEAN" if bits == 1 else f"BINARY({(bits + 7) // 8})"
        case Family.TIME:
            return f"TIME({source.digits})" if source.digits <= _MAX_TIME_DIGITS else "STRING"
        case Family.TIMESTAMP:
            return f"TIMESTAMP({source.digits})"
        case _:
            return f"TIMESTAMP({source.digits}) WITH LOCAL TIME ZONE"


def _numeric_type(source: SourceType, mapping: Collection[TypeMapping]) -> str:
    if source.arguments:
        precision, scale = (*source.arguments, 0)[:2]
        # A negative scale counts zeros before the point, a large one zeros behind it.
        digits = precision - scale if scale < 0 else max(precision, scale)
        if digits <= _MAX_DECIMAL_DIGITS:
            return f"DECIMAL({digits}, {max(scale, 0)})"
    elif TypeMapping.NUMERIC_TO_DECIMAL in mapping:
        return "DECIMAL({}, {})".format(*_UNBOUNDED_DECIMAL)
    if TypeMapping.NUMERIC_NOT_STRING in mapping:
        shown = f"({','.join(map(str, source.arguments))})" if source.arguments else ""
        raise Unsupported(
            f"column type 'numeric{shown}' has values that the lake's DECIMAL does not hold; give "
            f"it at most {_MAX_DECIMAL_DIGITS} digits, leave the column's table out, or choose a "
            f"type_mapping without {TypeMapping.NUMERIC_NOT_STRING.value}"
        )
    return "STRING"
