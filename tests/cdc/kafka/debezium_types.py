"""Columns of databases that Debezium follows, and when a value of the lake is the database's."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

__all__ = ["MYSQL", "POSTGRES", "Columns", "Kind"]

EPOCH = datetime(1970, 1, 1)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Kind:
    """Values of some types.

    Attributes:
        is_same: Whether a value of the lake is one of the database.
        sent: Reads the text that a message without a schema leaves in the lake; None where the text
            itself is compared.
    """

    is_same: Callable[[Any, Any], bool]
    sent: Callable[[str], Any] | None = None


def _equal(ours: Any, theirs: Any) -> bool:
    return bool(ours == theirs)


def _number(ours: Any, theirs: Any) -> bool:
    """A number with all digits, perhaps as text; or the nearest float."""
    return ours == float(theirs) if isinstance(ours, float) else Decimal(ours) == Decimal(theirs)


def _single(ours: Any, theirs: Any) -> bool:
    return np.array_equal(np.float32(ours), np.float32(theirs), equal_nan=True)


def _double(ours: Any, theirs: Any) -> bool:
    return np.array_equal(float(ours), float(theirs), equal_nan=True)


def _money(ours: Any, theirs: Any) -> bool:
    return _number(ours, theirs.removeprefix("$").replace(",", ""))


def _json(ours: Any, theirs: Any) -> bool:
    known = json.loads(theirs) if isinstance(theirs, str) else theirs
    return bool(json.loads(ours) == known)


def _text(ours: Any, theirs: Any) -> bool:
    return bool(ours == str(theirs))


def _flag(ours: Any, theirs: Any) -> bool:
    known = theirs == "1" if isinstance(theirs, str) else theirs not in (b"\0", False)
    return bool(ours is known)


def _bits(ours: Any, theirs: Any) -> bool:
    known = int(theirs, 2) if isinstance(theirs, str) else int.from_bytes(theirs, "big")
    return int.from_bytes(ours, "little") == known


def _bytes(ours: Any, theirs: Any) -> bool:
    """Bytes, or what an option of the connector makes of them: hexadecimal text, or Base64."""
    if isinstance(ours, str):
        return bool(ours in (theirs.hex(), base64.b64encode(theirs).decode()))
    return bool(ours == theirs)


def _day(ours: Any, theirs: Any) -> bool:
    return bool(str(ours).removesuffix("Z") == theirs.isoformat())


def _span(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, time):
        return datetime.combine(EPOCH, value) - EPOCH
    hours, minutes, seconds = value.removeprefix("-").removesuffix("Z").split(":")
    micros = int(Decimal(seconds) * 1_000_000)
    span = timedelta(hours=int(hours), minutes=int(minutes), microseconds=micros)
    return -span if value.startswith("-") else span


def _clock(ours: Any, theirs: Any) -> bool:
    """A time; Debezium has those beyond a day as null where its type has times of a day."""
    known = _span(theirs)
    if ours is None:
        return not timedelta() <= known < _DAY
    if isinstance(ours, time):
        known -= known % timedelta(milliseconds=1)
    return _span(ours) == known


def _timestamp(ours: Any, theirs: Any) -> bool:
    """A timestamp, whose microseconds Debezium leaves out where its type has milliseconds."""
    if isinstance(ours, str):
        ours = datetime.fromisoformat(ours.removesuffix("Z"))
    in_millis = theirs.replace(microsecond=theirs.microsecond // 1000 * 1000)
    return ours in (theirs, in_millis)


def _instant(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, str):
        ours = datetime.fromisoformat(ours)
    return bool(ours.replace(tzinfo=None) == theirs.replace(tzinfo=None))


def _point(ours: Any, theirs: Any) -> bool:
    """A point of PostgreSQL, which has no SRID."""
    x, y = json.loads(theirs.replace("(", "[").replace(")", "]"))
    return bool(ours == struct.pack("<IBIdd", 0, 1, 1, x, y))


def _sent_decimal(scale: int) -> Callable[[str], Decimal]:
    def read(text: str) -> Decimal:
        number = int.from_bytes(base64.b64decode(text), "big", signed=True)
        # Not by `scaleb`, which rounds to the digits of the context.
        sign, digits, _ = Decimal(number).as_tuple()
        return Decimal((sign, digits, -scale))

    return read


def _sent_variable(text: str) -> Decimal:
    value = json.loads(text)
    return _sent_decimal(value["scale"])(value["value"])


def _sent_day(text: str) -> date:
    return (EPOCH + timedelta(days=int(text))).date()


def _sent_span(unit: int) -> Callable[[str], Any]:
    return lambda text: timedelta(microseconds=int(text) * unit)


def _sent_timestamp(unit: int) -> Callable[[str], Any]:
    return lambda text: EPOCH + timedelta(microseconds=int(text) * unit)


def _sent_geometry(text: str) -> bytes:
    value = json.loads(text)
    return struct.pack("<I", value["srid"] or 0) + base64.b64decode(value["wkb"])


def _items(kind: Kind) -> Kind:
    """Arrays of values."""

    def is_same(ours: Any, theirs: Any) -> bool:
        return len(ours) == len(theirs) and all(
            our is their is None or kind.is_same(our, their)
            for our, their in zip(ours, theirs, strict=True)
        )

    def sent(text: str) -> list[Any]:
        read = kind.sent or (lambda item: item)
        return [None if item is None else read(item) for item in json.loads(text)]

    return Kind(is_same, sent)


TEXT, NUMBER, DOUBLE = Kind(_text), Kind(_number), Kind(_double)
DAY, INSTANT = Kind(_day, _sent_day), Kind(_instant)
BYTES, BITS = Kind(_bytes, base64.b64decode), Kind(_bits, base64.b64decode)
FLAG, JSON = Kind(_flag, json.loads), Kind(_json)
GEOMETRY = Kind(_equal, _sent_geometry)
MILLIS, MICROS = (Kind(_timestamp, _sent_timestamp(unit)) for unit in (1000, 1))
CLOCK, CLOCK_MILLIS = (Kind(_clock, _sent_span(unit)) for unit in (1, 1000))


def _decimal(scale: int) -> Kind:
    return Kind(_number, _sent_decimal(scale))


Columns = Mapping[str, tuple[str, str, Kind]]
"""Columns by their names: the type, a value as SQL has it, and what it is."""

MYSQL: Columns = {
    "tiny": ("TINYINT", "-128", NUMBER),
    "flag": ("TINYINT(1)", "1", NUMBER),
    "small": ("SMALLINT UNSIGNED", "65535", NUMBER),
    "medium": ("MEDIUMINT", "-8388608", NUMBER),
    "natural_number": ("INT UNSIGNED", "4294967295", NUMBER),
    # Debezium makes larger ones negative, unless bigint.unsigned.handling.mode is another one.
    "large": ("BIGINT UNSIGNED", "9223372036854775807", NUMBER),
    "bits": ("BIT(9)", "b'101000001'", BITS),
    "bit": ("BIT(1)", "b'1'", FLAG),
    "born": ("YEAR", "1999", NUMBER),
    "single": ("FLOAT", "1.1", Kind(_single)),
    "weight": ("DOUBLE", "0.1", DOUBLE),
    "amount": ("DECIMAL(12,2)", "9999999999.99", _decimal(2)),
    "whole": ("DECIMAL(18,0)", "-123456789012345678", _decimal(0)),
    "exact": ("DECIMAL(38,10)", "'-1234567890123456789012345678.0123456789'", _decimal(10)),
    "huge": ("DECIMAL(65,30)", f"'{'9' * 35}.{'8' * 30}'", _decimal(30)),
    "day": ("DATE", "'2024-02-29'", DAY),
    "clock": ("TIME", "'23:59:59'", CLOCK),
    "beyond": ("TIME(3)", "'-25:00:59.999'", CLOCK),
    "fine": ("TIME(6)", "'12:34:56.789012'", CLOCK),
    "second": ("DATETIME", "'1000-01-01 00:00:00'", MILLIS),
    "milli": ("DATETIME(3)", "'2026-11-28 12:34:56.987'", MILLIS),
    "micro": ("DATETIME(6)", "'2026-11-28 12:34:56.987654'", MICROS),
    "instant": ("TIMESTAMP(3) NULL", "'2038-01-19 03:14:07.123'", INSTANT),
    "fine_instant": ("TIMESTAMP(6) NULL", "'1970-01-01 00:00:01.000001'", INSTANT),
    "code": ("CHAR(10)", "'code'", TEXT),
    "name": ("VARCHAR(80)", "'日本😀 \\\\ \\\"'", TEXT),
    "western": ("VARCHAR(40) CHARACTER SET latin1", "'€uro'", TEXT),
    "note": ("TEXT", "REPEAT('long text\\n', 500)", TEXT),
    "status": ("ENUM('new', 'paid', 'packed')", "'packed'", TEXT),
    "flags": ("SET('a', 'b', 'c')", "'a,c'", TEXT),
    "fixed": ("BINARY(4)", "x'61000000'", BYTES),
    "bytes": ("VARBINARY(300)", "x'00ff'", BYTES),
    "picture": ("BLOB", "REPEAT(x'80ff', 200)", BYTES),
    "doc": ("JSON", '\'{"a": [1, 2.5, null, "ü"]}\'', JSON),
    "place": ("POINT", "ST_GeomFromText('POINT(1 2)')", GEOMETRY),
    "way": ("GEOMETRY", "ST_GeomFromText('LINESTRING(1 2, 3 4)', 4326)", GEOMETRY),
}
POSTGRES: Columns = {
    "small": ("SMALLINT", "-32768", NUMBER),
    "large": ("BIGINT", "-9223372036854775808", NUMBER),
    "single": ("REAL", "1.1", Kind(_single)),
    "weight": ("DOUBLE PRECISION", "0.1", DOUBLE),
    "missing": ("DOUBLE PRECISION", "'NaN'", DOUBLE),
    "endless": ("REAL", "'-Infinity'", Kind(_single)),
    "amount": ("NUMERIC(12,2)", "9999999999.99", _decimal(2)),
    "exact": ("NUMERIC", "-123.4567", Kind(_number, _sent_variable)),
    "whole": ("NUMERIC(20)", "12345678901234567890", _decimal(0)),
    "huge": ("NUMERIC(40,3)", f"{'9' * 37}.123", _decimal(3)),
    "price": ("MONEY", "12.34", Kind(_money, _sent_decimal(2))),
    "flag": ("BOOLEAN", "true", FLAG),
    "code": ("CHAR(10)", "'code'", TEXT),
    "name": ("VARCHAR(20)", "'日本😀 \\ \"'", TEXT),
    "note": ("TEXT", "repeat('long text', 500)", TEXT),
    "bytes": ("BYTEA", r"'\x00ff'", BYTES),
    "day": ("DATE", "'2024-02-29'", DAY),
    "clock": ("TIME", "'23:59:59.999999'", CLOCK),
    "milli_clock": ("TIME(3)", "'12:34:56.789'", CLOCK_MILLIS),
    "second": ("TIMESTAMP(0)", "'1000-01-01 00:00:00'", MILLIS),
    "milli": ("TIMESTAMP(3)", "'2026-11-28 12:34:56.987'", MILLIS),
    "micro": ("TIMESTAMP", "'2026-11-28 12:34:56.987654'", MICROS),
    "instant": ("TIMESTAMPTZ", "'2026-11-28 12:34:56.987654+02'", INSTANT),
    "id_": ("UUID", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", TEXT),
    "doc": ("JSON", "'{\"a\": [1, 2.5]}'", JSON),
    "binary_doc": ("JSONB", '\'{"a": [1, 2.5, null, "ü"]}\'', JSON),
    "markup": ("XML", "'<a>x</a>'", TEXT),
    "address": ("INET", "'10.0.0.1'", TEXT),
    "network": ("CIDR", "'10.0.0.0/8'", TEXT),
    "device": ("MACADDR", "'08:00:2b:01:02:03'", TEXT),
    "bit": ("BIT(1)", "b'1'", FLAG),
    "bits": ("BIT(9)", "b'101000001'", BITS),
    "more_bits": ("BIT VARYING(20)", "b'10101'", BITS),
    "mood": ("mood", "'happy'", TEXT),
    "numbers": ("INT[]", "'{1,NULL,3}'", _items(NUMBER)),
    "words": ("TEXT[]", "'{a,NULL,\"b c\"}'", _items(TEXT)),
    "amounts": ("NUMERIC(10,2)[]", "'{1.50,-2.25}'", _items(_decimal(2))),
    "days": ("DATE[]", "'{2024-02-29,NULL}'", _items(DAY)),
    "micros": ("TIMESTAMP[]", "'{2024-02-29 01:02:03.000004}'", _items(MICROS)),
    "instants": ("TIMESTAMPTZ[]", "'{2026-11-28 12:34:56+00}'", _items(INSTANT)),
    "ids": ("UUID[]", "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'", _items(TEXT)),
    "place": ("POINT", "'(1,2)'", Kind(_point, _sent_geometry)),
    "words_of": ("TSVECTOR", "'fat cat'", TEXT),
    "object_id": ("OID", "4294967295", NUMBER),
    "count": ("positive", "7", NUMBER),
}
