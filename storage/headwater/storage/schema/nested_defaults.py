"""Defaults of columns of nested types: text such as ``[1, 2]``, ``{a -> 1}`` or ``STRUCT(1, x)``.

Source: ``StringToArrayCastRule.java``, ``StringToMapCastRule.java``, ``StringToRowCastRule.java``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pyarrow as pa

from headwater.storage.types.data_type import (
    ArrayType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
    to_arrow,
)

__all__ = ["NestedType", "nested_value"]

NestedType = ArrayType | MapType | MultisetType | RowType | VariantType | VectorType

_OPENING, _CLOSING = "[{(", "]})"
_ENTRY = re.compile(r"(.+?)\s*->\s*(.+)")
# What Java's String.trim() takes off.
_BLANKS = "".join(map(chr, range(0x21)))


def nested_value(
    data_type: NestedType, text: str, cast: Callable[[DataType, str], pa.Array]
) -> pa.Array:
    """The value that a text stands for, as an array of one row.

    Args:
        data_type: The type.
        text: The text.
        cast: Makes one row of a type without parts of a text.

    Raises:
        ValueError: The text is no value of the type, or Paimon has no such values of it.
    """
    text = text.strip(_BLANKS)
    if text.upper() == "NULL":
        # Java takes it for maps alone; Spark keeps it for all.
        return pa.nulls(1, to_arrow(data_type))
    match data_type:
        case ArrayType():
            parts = _parts(_inner(text, "[]", "ARRAY"))
            elements = [_part(data_type.element, part, cast) for part in parts]
            target = to_arrow(data_type)
            return pa.ListArray.from_arrays(
                pa.array([0, len(elements)], pa.int32()),
                _together(elements, target.value_type),
                target,
            )
        case MapType():
            return _map(data_type, text, cast)
        case RowType():
            inner = _inner(text, "{}", "STRUCT")
            parts = _parts(inner) if inner else ["null"] * len(data_type.fields)
            if len(parts) != len(data_type.fields):
                raise ValueError(f"it has {len(parts)} values for {len(data_type.fields)} fields")
            children = [
                _part(child.type, part, cast)
                for child, part in zip(data_type.fields, parts, strict=True)
            ]
            return pa.StructArray.from_arrays(children, fields=list(to_arrow(data_type)))
        case MultisetType() | VariantType() | VectorType():
            raise ValueError("Paimon makes none of text")


def _map(data_type: MapType, text: str, cast: Callable[[DataType, str], pa.Array]) -> pa.Array:
    parts = _parts(_inner(text, "{}", "MAP"))
    if text.startswith("{"):
        parts = [each for part in parts for each in _entry(part)]
    if len(parts) % 2:
        raise ValueError("it has a key without a value")
    # Of equal keys the last counts.
    entries: dict[object, tuple[pa.Array, pa.Array]] = {}
    for key, value in zip(parts[::2], parts[1::2], strict=True):
        made = _part(data_type.key, key, cast)
        if made.null_count:
            raise ValueError("a key is null")
        entries[repr(made[0].as_py())] = made, _part(data_type.value, value, cast)
    keys, values = [key for key, _ in entries.values()], [value for _, value in entries.values()]
    target = to_arrow(data_type)
    return pa.MapArray.from_arrays(
        pa.array([0, len(entries)], pa.int32()),
        _together(keys, target.key_type),
        _together(values, target.item_type),
        target,
    )


def _entry(part: str) -> tuple[str, str]:
    found = _ENTRY.fullmatch(part)
    if found is None:
        raise ValueError(f"'{part}' is not a key, '->' and a value")
    return found[1], found[2]


def _together(rows: Iterable[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([pa.nulls(0, kind), *rows])


def _inner(text: str, brackets: str, function: str) -> str:
    """The text between brackets, or a function's arguments."""
    start, end = map(re.escape, brackets)
    for pattern in (rf"{start}(.*){end}", rf"(?i:{function})\s*\((.*)\)"):
        found = re.fullmatch(pattern, text)
        if found is not None:
            return found[1].strip(_BLANKS)
    raise ValueError(
        f"it is neither in {' and '.join(brackets)} nor the arguments of {function}(…)"
    )


def _parts(text: str) -> list[str]:
    """The texts between the commas that are in no brackets.

    Paimon's rules take quotes and backslashes for parts of some values and not of others, and
    Spark's for parts of none: what would differ is refused.
    """
    if any(mark in text for mark in "'\"\\"):
        raise ValueError("it has quotes or backslashes in it, which engines do not agree about")
    parts: list[str] = []
    depth = start = 0
    for at, character in enumerate(text):
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth = max(depth - 1, 0)
        elif character == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    # Nothing at all between two commas is no value, blanks are.
    return [part.strip(_BLANKS) for part in parts if part]


def _part(data_type: DataType, text: str, cast: Callable[[DataType, str], pa.Array]) -> pa.Array:
    if text == "null":
        if not data_type.nullable:
            raise ValueError(f"null is no value of {data_type}")
        return pa.nulls(1, to_arrow(data_type))
    if isinstance(data_type, NestedType):
        return nested_value(data_type, text, cast)
    return cast(data_type, text)
