"""The types of MySQL's and MariaDB's columns, and those of their columns in the lake.

Where Paimon's jobs lose values, the types differ from theirs: TIMESTAMP is an instant, TIME with
more than milliseconds is text, and geometries are bytes. Source of the others and of the options'
names: ``MySqlTypeUtils.java``, ``TypeMapping.java``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from headwater.cdc.source.options import parse_choices
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.types.data_type import ArrayType, DataType, parse_type

__all__ = [
    "GEOMETRIES",
    "SourceType",
    "TypeMapping",
    "lake_type",
    "parse_source_type",
    "parse_type_mapping",
]

_MAX_DECIMAL_DIGITS = 38
# Digits of a second of the lake's TIME, which has milliseconds.
_MAX_TIME_DIGITS = 3
# MariaDB shows a column's compression in a comment behind its type.
_TYPE = re.compile(
    r"([a-z][a-z0-9_]*(?: precision)?)\s*(?:\((.*)\))?\s*([a-z ]*)(?:/\*.*\*/)?", re.DOTALL
)
_ARGUMENT = re.compile(r"'((?:[^'\\]|''|\\.)*)'|([0-9]+)", re.DOTALL)
_ESCAPE = re.compile(r"''|\\(.)", re.DOTALL)
_ESCAPED = {"0": "\0", "n": "\n", "r": "\r"}
_TEXT = frozenset({"tinytext", "text", "mediumtext", "longtext", "enum", "json"})
_BYTES = frozenset({"tinyblob", "blob", "mediumblob", "longblob"})
_ADDRESSES = frozenset({"uuid", "inet4", "inet6"})
GEOMETRIES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)
_NUMBERS = {
    ("tinyint", False): "TINYINT",
    ("tinyint", True): "SMALLINT",
    ("smallint", False): "SMALLINT",
    ("smallint", True): "INT",
    ("mediumint", False): "INT",
    ("mediumint", True): "BIGINT",
    ("int", False): "INT",
    ("int", True): "BIGINT",
    ("bigint", False): "BIGINT",
    ("bigint", True): "DECIMAL(20, 0)",
    ("float", False): "FLOAT",
    ("float", True): "FLOAT",
    ("double", False): "DOUBLE",
    ("double", True): "DOUBLE",
    ("year", False): "INT",
    ("year", True): "INT",
}


class TypeMapping(StrEnum):
    """Choices of types in the lake, by the names of Paimon's option ``type_mapping``."""

    TINYINT1_NOT_BOOL = "tinyint1-not-bool"
    TO_NULLABLE = "to-nullable"
    TO_STRING = "to-string"
    CHAR_TO_STRING = "char-to-string"
    LONGTEXT_TO_BYTES = "longtext-to-bytes"
    BIGINT_UNSIGNED_TO_BIGINT = "bigint-unsigned-to-bigint"


@dataclass(frozen=True)
class SourceType:
    """A column's type, as ``COLUMN_TYPE`` of the information schema has it.

    Attributes:
        name: Its name in small letters, such as ``varchar``.
        arguments: What is in its brackets: numbers as text, values of ENUM and SET without quotes.
        is_unsigned: Whether it has no negative values.
    """

    name: str
    arguments: tuple[str, ...] = ()
    is_unsigned: bool = False

    @property
    def length(self) -> int | None:
        """The first number in its brackets; None without one."""
        is_number = bool(self.arguments) and self.arguments[0].isdecimal()
        return int(self.arguments[0]) if is_number else None


def parse_source_type(text: str) -> SourceType:
    """Read a type such as ``decimal(12,2) unsigned`` or ``enum('a','it''s')``; Invalid."""
    match = _TYPE.fullmatch(text.strip())
    if match is None:
        raise Invalid(f"column type {text!r} is malformed; expected one such as 'int(10) unsigned'")
    name, inside, attributes = match.groups()
    arguments = _ARGUMENT.findall(inside or "")
    return SourceType(
        name,
        tuple(number or _unescaped(quoted) for quoted, number in arguments),
        "unsigned" in attributes.split(),
    )


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escaped = match.group(1)
        return "'" if escaped is None else _ESCAPED.get(escaped, escaped)

    return _ESCAPE.sub(character, text)


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
        Unsupported: Its values are not read from the log.
    """
    nullable = nullable or TypeMapping.TO_NULLABLE in mapping
    if TypeMapping.TO_STRING in mapping:
        type_ = _text_type(source, mapping)
    elif source.name == "set":
        type_ = ArrayType(parse_type("STRING"))
    else:
        type_ = parse_type(_atomic_type(source, mapping))
    return type_ if nullable else replace(type_, nullable=False)


def _text_type(source: SourceType, mapping: Collection[TypeMapping]) -> DataType:
    if source.name in GEOMETRIES:
        raise Unsupported(
            f"column type '{source.name}' does not become text; leave the column's table out, or "
            f"choose a type_mapping without {TypeMapping.TO_STRING.value}"
        )
    if source.name != "set":
        _atomic_type(source, mapping)  # a type whose values are not read is rejected
    return parse_type("STRING")


def _atomic_type(source: SourceType, mapping: Collection[TypeMapping]) -> str:
    name, length = source.name, source.length
    if name == "tinyint" and length == 1 and not source.is_unsigned:
        return "TINYINT" if TypeMapping.TINYINT1_NOT_BOOL in mapping else "BOOLEAN"
    if name == "bigint" and TypeMapping.BIGINT_UNSIGNED_TO_BIGINT in mapping:
        return "BIGINT"
    if name == "longtext" and TypeMapping.LONGTEXT_TO_BYTES in mapping:
        return "BYTES"
    if (name, source.is_unsigned) in _NUMBERS:
        return _NUMBERS[name, source.is_unsigned]
    if name in _TEXT | _ADDRESSES:
        return "STRING"
    if name in _BYTES | GEOMETRIES:
        return "BYTES"
    return _sized_type(source, length or 0, mapping)


def _sized_type(source: SourceType, length: int, mapping: Collection[TypeMapping]) -> str:
    match source.name:
        case "bit":
            return "BOOLEAN" if length <= 1 else f"BINARY({(length + 7) // 8})"
        case "decimal":
            # The information schema always has both.
            digits, scale = (int(argument) for argument in source.arguments)
            return f"DECIMAL({digits}, {scale})" if digits <= _MAX_DECIMAL_DIGITS else "STRING"
        case "char" | "varchar":
            if length == 0 or TypeMapping.CHAR_TO_STRING in mapping:
                return "STRING"
            return f"{source.name.upper()}({length})"
        case "binary" | "varbinary":
            return f"VARBINARY({length})" if length else "BYTES"
        case "date":
            return "DATE"
        case "time":
            return f"TIME({length})" if length <= _MAX_TIME_DIGITS else "STRING"
        case "datetime":
            return f"TIMESTAMP({length})"
        case "timestamp":
            return f"TIMESTAMP({length}) WITH LOCAL TIME ZONE"
        case name:
            raise Unsupported(
                f"column type '{name}' is not read from the log; leave the column's table out, or "
                "change the column's type"
            )
