"""Variants made and shredded value by value, as the specification words it."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import TypeAlias
from uuid import UUID

import pyarrow as pa
from pyspark.sql.types import VariantVal

__all__ = ["Value", "dictionary", "group", "meaning", "names_of", "put_apart", "variant"]

Value: TypeAlias = object
"""What JSON has, and Decimal, bytes, date, datetime, UUID."""


def names_of(value: Value) -> set[str]:
    """All names in a value."""
    if isinstance(value, dict):
        return set(value).union(*map(names_of, value.values()))
    return set().union(*map(names_of, value)) if isinstance(value, list) else set()


def dictionary(names: list[str]) -> bytes:
    """The metadata that has these names."""
    texts = [name.encode() for name in names]
    ends = [sum(map(len, texts[:at])) for at in range(len(texts) + 1)]
    width = _width(max(ends[-1], len(texts)))
    numbers = b"".join(number.to_bytes(width, "little") for number in [len(texts), *ends])
    return bytes([1 | (width - 1) << 6]) + numbers + b"".join(texts)


def _width(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def variant(value: Value, ids: dict[str, int]) -> bytes:
    """The bytes of a value; an object's fields lie in the order of the dictionary."""
    match value:
        case None:
            return b"\x00"
        case bool():
            return bytes([(1 if value else 2) << 2])
        case int():
            bits = next(b for b in (8, 16, 32, 64) if -(1 << b - 1) <= value < 1 << b - 1)
            kind = 3 + (8, 16, 32, 64).index(bits)
            return bytes([kind << 2]) + value.to_bytes(bits // 8, "little", signed=True)
        case float():
            return bytes([7 << 2]) + struct.pack("<d", value)
        case Decimal():
            sign, digits, exponent = value.as_tuple()
            assert isinstance(exponent, int)
            number = int("".join(map(str, digits))) * (-1 if sign else 1)
            size = 0 if abs(number) < 10**9 else 1 if abs(number) < 10**18 else 2
            data = number.to_bytes(4 << size, "little", signed=True)
            return bytes([(8 + size) << 2, -exponent]) + data
        case str():
            data = value.encode()
            if len(data) < 64:
                return bytes([len(data) << 2 | 1]) + data
            return bytes([16 << 2]) + len(data).to_bytes(4, "little") + data
        case bytes():
            return bytes([15 << 2]) + len(value).to_bytes(4, "little") + value
        case UUID():
            return bytes([20 << 2]) + value.bytes
        case dt.datetime():
            epoch = dt.datetime(1970, 1, 1, tzinfo=value.tzinfo)
            micros = (value - epoch) // dt.timedelta(microseconds=1)
            kind = 13 if value.tzinfo is None else 12
            return bytes([kind << 2]) + micros.to_bytes(8, "little", signed=True)
        case dt.date():
            days = (value - dt.date(1970, 1, 1)).days
            return bytes([11 << 2]) + days.to_bytes(4, "little", signed=True)
        case dict():
            laid = sorted(value, key=ids.__getitem__)
            return _container([variant(value[n], ids) for n in laid], [ids[n] for n in laid], laid)
        case list():
            return _container([variant(each, ids) for each in value], None, [])
        case _:
            raise TypeError(value)


def _container(items: list[bytes], ids: list[int] | None, names: list[str]) -> bytes:
    places = [sum(map(len, items[:at])) for at in range(len(items) + 1)]
    width, big = _width(places[-1]), len(items) > 255
    count = len(items).to_bytes(4 if big else 1, "little")
    if ids is None:
        head = bytes([(big << 2 | width - 1) << 2 | 3]) + count
        return head + b"".join(p.to_bytes(width, "little") for p in places) + b"".join(items)
    id_width = _width(max(ids, default=0))
    order = sorted(range(len(items)), key=lambda at: names[at].encode())
    head = bytes([(big << 4 | (id_width - 1) << 2 | width - 1) << 2 | 2]) + count
    head += b"".join(ids[at].to_bytes(id_width, "little") for at in order)
    head += b"".join(places[at].to_bytes(width, "little") for at in [*order, -1])
    return head + b"".join(items)


def meaning(value: bytes, metadata: bytes) -> object:
    """The content of a variant as another library reads it, with the types of its numbers."""
    return _exact(VariantVal(value, metadata).toPython())


def _exact(value: object) -> object:
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    return (type(value).__name__, value)


def group(kind: pa.DataType | None) -> pa.StructType:
    """The columns of a value that is shredded as a type; None is none."""
    fields = [pa.field("value", pa.binary())]
    if kind is not None:
        fields.append(pa.field("typed_value", _typed(kind)))
    return pa.struct(fields)


def _typed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, group(_or_none(f.type)), False) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", group(_or_none(kind.value_type)), False))
    return kind


def _or_none(kind: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_null(kind) else kind


def put_apart(value: Value, kind: pa.DataType | None, ids: dict[str, int]) -> dict[str, object]:
    """A value as a row of its `group`."""
    plain: dict[str, object] = {"value": variant(value, ids)}
    if kind is None:
        return plain
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            return plain
        own = {field.name: _or_none(field.type) for field in kind}
        typed: dict[str, object] = {
            name: put_apart(value[name], wanted, ids) if name in value else {}
            for name, wanted in own.items()
        }
        rest = {name: item for name, item in value.items() if name not in own}
        return {"value": variant(rest, ids) if rest else None, "typed_value": typed}
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            return plain
        return {"typed_value": [put_apart(e, _or_none(kind.value_type), ids) for e in value]}
    return {"typed_value": value} if _fits(value, kind) else plain


def _fits(value: Value, kind: pa.DataType) -> bool:
    if pa.types.is_integer(kind):
        limit = 1 << kind.bit_width - 1
        return type(value) is int and -limit <= value < limit
    if pa.types.is_decimal(kind):
        return isinstance(value, Decimal) and value.as_tuple().exponent == -kind.scale
    own = {pa.bool_(): bool, pa.float64(): float, pa.string(): str, pa.binary(): bytes,
           pa.date32(): dt.date}  # fmt: skip
    return type(value) is own.get(kind)
