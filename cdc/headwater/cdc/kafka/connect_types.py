"""Types of Kafka Connect, with Debezium's meanings of them, and what they are in the lake."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.types.data_type import ArrayType, DataType, Json, parse_type

__all__ = ["JSON_TEXT", "NO_SCHEMA", "ConnectType", "RecordSchema", "json_schema", "lake_type"]

_MAX_DECIMAL_DIGITS = 38
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
_PRECISION = "connect.decimal.precision"
_SHAPES = ("Geometry", "Geography", "Point")
_GEOMETRIES = tuple(f"io.debezium.data.geometry.{name}" for name in _SHAPES)

_PLAIN = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "string": "STRING",
    "bytes": "BYTES",
}
# What a name means, by the type that it is of.
_NAMED: Mapping[str, Mapping[str, str]] = {
    "int32": {
        "io.debezium.time.Date": "DATE",
        "io.debezium.time.Time": "TIME(3)",
        "io.debezium.time.Year": "INT",
        "org.apache.kafka.connect.data.Date": "DATE",
        "org.apache.kafka.connect.data.Time": "TIME(3)",
    },
    "int64": {
        # The lake's TIME has milliseconds, and no hours beyond 24.
        "io.debezium.time.MicroTime": "STRING",
        "io.debezium.time.NanoTime": "STRING",
        "io.debezium.time.Timestamp": "TIMESTAMP(3)",
        "io.debezium.time.MicroTimestamp": "TIMESTAMP(6)",
        "io.debezium.time.NanoTimestamp": "TIMESTAMP(9)",
        "io.debezium.time.MicroDuration": "BIGINT",
        "io.debezium.time.NanoDuration": "BIGINT",
        "org.apache.kafka.connect.data.Timestamp": "TIMESTAMP(3)",
    },
    "float64": {"io.debezium.time.MicroDuration": "DOUBLE"},
    "string": {
        "io.debezium.time.ZonedTimestamp": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "io.debezium.time.ZonedTime": "STRING",
        "io.debezium.time.Interval": "STRING",
        "io.debezium.time.IsoDate": "STRING",
        "io.debezium.time.IsoTime": "STRING",
        "io.debezium.time.IsoTimestamp": "STRING",
        "io.debezium.data.Enum": "STRING",
        "io.debezium.data.EnumSet": "STRING",
        "io.debezium.data.Json": "STRING",
        "io.debezium.data.Ltree": "STRING",
        "io.debezium.data.Tsvector": "STRING",
        "io.debezium.data.Uuid": "STRING",
        "io.debezium.data.Xml": "STRING",
    },
    "bytes": {"io.debezium.data.Bits": "BYTES"},
    "struct": {_VARIABLE_DECIMAL: "STRING", **dict.fromkeys(_GEOMETRIES, "BYTES")},
}
# What the converter for JSON calls them.
_JSON_BASES = {"float": "float32", "double": "float64"}
_ARRAYS = ("io.debezium.data.FloatVector", "io.debezium.data.DoubleVector")


@dataclass(frozen=True)
class ConnectType:
    """A type of Kafka Connect.

    Attributes:
        base: ``int8`` … ``int64``, ``float32``, ``float64``, ``boolean``, ``string``, ``bytes``,
            ``array``, ``map`` or ``struct``; ``json`` for a value whose type no schema tells.
        name: What its values mean, such as ``io.debezium.time.Date``; empty without a meaning.
        scale, precision: Of a decimal.
        item: The type of an array's items.
    """

    base: str
    name: str = ""
    scale: int = 0
    precision: int = 0
    item: ConnectType | None = None

    @property
    def is_decimal(self) -> bool:
        """Whether it is a decimal, whose values are bytes."""
        return self.base == "bytes" and self.name == _DECIMAL

    @property
    def is_variable_decimal(self) -> bool:
        """Whether it is a decimal each value of which has its scale."""
        return self.name == _VARIABLE_DECIMAL

    @property
    def is_geometry(self) -> bool:
        """Whether it is a geometry: its WKB and its SRID."""
        return self.name in _GEOMETRIES

    def __str__(self) -> str:
        if self.is_decimal:
            return f"decimal({self.precision or '*'},{self.scale})"
        if self.base == "array":
            return f"array<{self.item}>"
        return f"{self.base} {self.name}" if self.name else self.base


JSON_TEXT = ConnectType("json")
"""The type of values without a schema."""


@dataclass(frozen=True)
class RecordSchema:
    """The schema of messages.

    Attributes:
        name: Its name, such as ``shop.inventory.orders.Envelope``.
        columns: The columns of a table's rows, or of its key.
    """

    name: str
    columns: Sequence[tuple[str, ConnectType]] = ()


NO_SCHEMA = RecordSchema("")
"""That of messages without one."""


def lake_type(type_: ConnectType) -> DataType:
    """The type of the lake's column.

    Raises:
        Unsupported: It is not known.
    """
    if type_.base == "json":
        return parse_type("STRING")
    if type_.is_decimal:
        if type_.precision > _MAX_DECIMAL_DIGITS:
            return parse_type("STRING")
        return parse_type(f"DECIMAL({type_.precision or _MAX_DECIMAL_DIGITS}, {type_.scale})")
    if type_.base == "array" and type_.item is not None and type_.name in ("", *_ARRAYS):
        return ArrayType(lake_type(type_.item))
    known = _NAMED.get(type_.base, {}).get(type_.name)
    if not type_.name:
        known = _PLAIN.get(type_.base)
    if known is None:
        raise Unsupported(f"type '{type_}' of Kafka Connect is not known")
    return parse_type(known)


def json_schema(text: str, where: str, *, is_envelope: bool) -> RecordSchema:
    """Read the ``schema`` of a message in JSON.

    Args:
        text: The schema.
        where: Whose it is, for messages.
        is_envelope: Whether the columns are those within its fields ``after`` and ``before``.

    Raises:
        CorruptData: It is not a schema of Kafka Connect.
    """
    try:
        schema = json.loads(text)
        if "fields" not in schema:
            raise CorruptData(
                f"{where}: its schema is of type '{schema.get('type')}', expected a struct; let "
                "the connector write rows and keys as structs"
            )
        fields = {str(field["field"]): field for field in schema["fields"]}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptData(f"{where}: its schema is not one of Kafka Connect: {error!r}") from error
    if is_envelope:
        row = _mapping(fields.get("after") or fields.get("before") or {}, where)
        inner = row.get("fields")
        parts = [_mapping(part, where) for part in (inner if isinstance(inner, list) else ())]
        fields = {str(part.get("field")): part for part in parts}
    columns = [(column, _type(field, where)) for column, field in fields.items()]
    return RecordSchema(str(schema.get("name") or ""), columns)


def _type(field: Json, where: str) -> ConnectType:
    known = _mapping(field, where)
    base, name = str(known.get("type")), str(known.get("name") or "")
    base = _JSON_BASES.get(base, base)
    parameters = _mapping(known.get("parameters") or {}, where)
    item = _type(known.get("items"), where) if base == "array" else None
    scale = precision = 0
    try:
        if name == _DECIMAL:
            scale = int(str(parameters.get("scale")))
            precision = int(str(parameters.get(_PRECISION, 0)))
    except ValueError as error:
        raise CorruptData(f"{where}: a decimal's scale is not a number: {error}") from error
    return ConnectType(base, name, scale, precision, item)


def _mapping(value: Json, where: str) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise CorruptData(f"{where}: its schema is not one of Kafka Connect: {str(value)[:80]}")
    return value
