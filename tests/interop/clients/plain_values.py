"""Rows of Spark as values that JSON has, the same in each process that makes them so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def plain_rows(rows: Iterable[Any]) -> list[list[Any]]:
    """Rows as lists, sorted."""
    return sorted(([plain(value) for value in row] for row in rows), key=repr)


def plain(value: Any) -> Any:
    """Numbers, booleans and texts as they are; others as texts or lists of such."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Mapping):
        return sorted(([plain(key), plain(each)] for key, each in value.items()), key=repr)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value)
