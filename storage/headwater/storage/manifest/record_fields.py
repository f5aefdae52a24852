"""The fields of Avro records in a table's metadata: their schemas, and taking them by name.

Source: ``AvroSchemaConverter.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from headwater.storage.formats.avro_container import Record
from headwater.storage.types.data_type import Json

__all__ = [
    "RECORD_NAME",
    "array_schema",
    "maybe",
    "maybe_list",
    "nullable_schema",
    "record_schema",
    "take",
    "take_list",
]

RECORD_NAME = "org.apache.paimon.avro.generated.record"
"""The name that Paimon gives to a file's records; those in field ``F`` end in ``_F``."""


def array_schema(items: Json) -> Json:
    """The schema of a list."""
    return {"type": "array", "items": items}


def nullable_schema(avro: Json) -> Json:
    """The schema of a value that may be missing."""
    return ["null", avro]


def record_schema(name: str, fields: Sequence[tuple[str, Json]]) -> dict[str, Json]:
    """The schema of records; fields that may be missing are so by default."""
    members: list[Json] = []
    for field, avro in fields:
        member: dict[str, Json] = {"name": field, "type": avro}
        if isinstance(avro, list):
            member["default"] = None
        members.append(member)
    return {"type": "record", "name": name, "fields": members}


# Reading: a missing field is a KeyError, one of another type a TypeError ---


_Kind = TypeVar("_Kind")


def take(record: Record, name: str, kind: type[_Kind]) -> _Kind:
    """A field's value."""
    value = record[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}, not of type {kind.__name__}")
    return value


def maybe(record: Record, name: str, kind: type[_Kind]) -> _Kind | None:
    """A field's value; None when the record has none."""
    return None if record.get(name) is None else take(record, name, kind)


def take_list(record: Record, name: str, kind: type[_Kind]) -> tuple[_Kind, ...]:
    """A field's list of values."""
    items = take(record, name, list)
    if not all(isinstance(item, kind) for item in items):
        raise TypeError(f"{name} is {items!r}, not a list of {kind.__name__}")
    return tuple(items)


def maybe_list(record: Record, name: str, kind: type[_Kind]) -> tuple[_Kind, ...] | None:
    """A field's list of values; None when the record has none."""
    return None if record.get(name) is None else take_list(record, name, kind)
