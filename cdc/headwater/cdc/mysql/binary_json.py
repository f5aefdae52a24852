"""MySQL's binary JSON, as the text that MySQL's SELECT returns.

A value is decoded by itself, as nothing in it has a fixed offset. MariaDB's JSON is text.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterator
from decimal import Decimal

from headwater.cdc.columns.decimals import digit_groups
from headwater.storage.errors import CorruptData

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_DOUBLE, _STRING, _OPAQUE = 0x0B, 0x0C, 0x0F
_INTEGERS = {
    0x05: struct.Struct("<h"),
    0x06: struct.Struct("<H"),
    0x07: struct.Struct("<i"),
    0x08: struct.Struct("<I"),
    0x09: struct.Struct("<q"),
    0x0A: struct.Struct("<Q"),
}
_LITERALS = ("null", "true", "false")
# Types of MySQL's columns that an opaque value may have.
_OPAQUE_TIMESTAMP, _OPAQUE_DATE, _OPAQUE_TIME, _OPAQUE_DATETIME, _OPAQUE_DECIMAL = (
    7,
    10,
    11,
    12,
    246,
)
MAX_DEPTH = 100
# Characters of base64 in a line.
_LINE = 76


def json_text(data: bytes | memoryview) -> str:
    """Decode one binary JSON value to text, with ``", "`` and ``": "`` between its parts.

    Raises:
        CorruptData: The bytes are not binary JSON.
    """
    if not len(data):
        return "null"
    view = memoryview(data)
    try:
        return "".join(_value(view[1:], view[0], 0))
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise CorruptData(
            f"cannot decode a JSON value of {len(view)} bytes: {error}; read the log again from "
            "its source"
        ) from error


def _value(data: memoryview, type_: int, depth: int) -> Iterator[str]:
    """The parts of a value, whose bytes begin with `data`."""
    if type_ <= _LARGE_ARRAY:
        if depth > MAX_DEPTH:
            raise IndexError(f"values are nested more than {MAX_DEPTH} deep")
        yield from _container(data, type_, depth)
    elif type_ == _LITERAL:
        yield _LITERALS[data[0]]
    elif type_ in _INTEGERS:
        yield str(_INTEGERS[type_].unpack_from(data)[0])
    elif type_ == _DOUBLE:
        yield double_text(struct.unpack_from("<d", data)[0])
    elif type_ == _STRING:
        yield _quoted(str(_sized(data), "utf-8"))
    elif type_ == _OPAQUE:
        yield _opaque(data[0], _sized(data[1:]))
    else:
        raise IndexError(f"type {type_} is unknown")


def _container(data: memoryview, type_: int, depth: int) -> Iterator[str]:
    """An object: (count, size, keys' offsets and sizes, values' types and offsets); an array."""
    is_large = type_ in (_LARGE_OBJECT, _LARGE_ARRAY)
    is_object = type_ in (_SMALL_OBJECT, _LARGE_OBJECT)
    number = struct.Struct("<I" if is_large else "<H")
    count, size = (number.unpack_from(data, number.size * index)[0] for index in range(2))
    if size > len(data):
        raise IndexError(f"expected {size} bytes, got {len(data)}")
    key_entry = number.size + 2
    values = 2 * number.size + (key_entry * count if is_object else 0)
    yield "{" if is_object else "["
    for index in range(count):
        if index:
            yield ", "
        if is_object:
            entry = 2 * number.size + key_entry * index
            start = number.unpack_from(data, entry)[0]
            (length,) = struct.unpack_from("<H", data, entry + number.size)
            yield _quoted(str(data[start : start + length], "utf-8")) + ": "
        entry = values + (1 + number.size) * index
        value_type = data[entry]
        if _is_inline(value_type, is_large):
            yield from _value(data[entry + 1 :], value_type, depth + 1)
        else:
            start = number.unpack_from(data, entry + 1)[0]
            yield from _value(data[start:], value_type, depth + 1)
    yield "}" if is_object else "]"


def _is_inline(type_: int, is_large: bool) -> bool:
    """Whether a value lies in place of its offset."""
    return type_ in (_LITERAL, 0x05, 0x06) or (is_large and type_ in (0x07, 0x08))


def _sized(data: memoryview) -> memoryview:
    """Bytes after their size, which has seven bits in each byte, the lowest first."""
    size = 0
    for index in range(5):
        size |= (data[index] & 0x7F) << 7 * index
        if data[index] < 0x80:
            if index + 1 + size > len(data):
                raise IndexError(f"expected {size} bytes, got {len(data) - index - 1}")
            return data[index + 1 : index + 1 + size]
    raise IndexError("a size takes more than 5 bytes")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def double_text(value: float) -> str:
    """A double as MySQL prints it: the shortest digits that read back, with an exponent if shorter.

    MySQL writes an exponent without a plus sign or leading zeros, from 1e15 on or below 1e-15.
    """
    if not math.isfinite(value):
        raise IndexError(f"{value} is not a JSON number")
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    exponent += len(digits) - len(text)
    minus = "-" if sign else ""
    if not text:
        return f"{minus}0.0"
    point = len(text) + exponent
    if not -14 <= point <= 15:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        return f"{minus}{text[0]}{fraction}e{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    if point >= len(text):
        return f"{minus}{text}{'0' * (point - len(text))}.0"
    return f"{minus}{text[:point]}.{text[point:]}"


def _opaque(type_: int, data: memoryview) -> str:
    if type_ == _OPAQUE_DECIMAL:
        return _decimal(data)
    if type_ in (_OPAQUE_DATE, _OPAQUE_TIME, _OPAQUE_DATETIME, _OPAQUE_TIMESTAMP):
        (packed,) = struct.unpack_from("<q", data)
        return f'"{_temporal(type_, packed)}"'
    text = base64.b64encode(data).decode()
    # As MySQL writes it: in lines, whose ends are escaped in JSON.
    lines = "\\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))
    return f'"base64:type{type_}:{lines}"'


def _temporal(type_: int, packed: int) -> str:
    sign = "-" if packed < 0 else ""
    packed = abs(packed)
    seconds, micros = packed >> 24, packed & 0xFFFFFF
    minute, second = seconds >> 6 & 63, seconds & 63
    if type_ == _OPAQUE_TIME:
        return f"{sign}{seconds >> 12 & 0x3FF:02}:{minute:02}:{second:02}.{micros:06}"
    months, day = seconds >> 22, seconds >> 17 & 31
    date = f"{months // 13:04}-{months % 13:02}-{day:02}"
    if type_ == _OPAQUE_DATE:
        return date
    return f"{date} {seconds >> 12 & 31:02}:{minute:02}:{second:02}.{micros:06}"


def _decimal(data: memoryview) -> str:
    precision, scale, packed = data[0], data[1], bytearray(data[2:])
    negative = not packed[0] & 0x80
    packed[0] ^= 0x80
    digits = ""
    offset = 0
    for width, count in digit_groups(precision, scale):
        group = int.from_bytes(packed[offset : offset + width], "big")
        if negative:
            group ^= (1 << 8 * width) - 1
        digits += f"{group:0{count}}"
        offset += width
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    text = whole.lstrip("0") or "0"
    return f"{'-' if negative else ''}{text}{'.' + fraction if fraction else ''}"
