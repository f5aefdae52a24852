"""Conditions as text that Spark and Headwater read alike."""

from __future__ import annotations

import re

from headwater.storage.predicate.filter import Predicate, columns_of
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.values import parse_moment

__all__ = ["is_local_moment", "is_moment", "is_read_alike"]

_TEXT = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def is_read_alike(condition: str, predicate: Predicate, schema: TableSchema) -> bool:
    """True if Spark reads a condition as Headwater does, whatever the session's time zone.

    Spark reads moments without a zone in the session's, and leaves the time out beside a date.

    Args:
        condition: The text.
        predicate: Its meaning by Headwater's grammar.
        schema: The table's.
    """
    for name in columns_of(predicate):
        kind = schema.column(name).type
        if is_moment(schema, name) and _has_local_moment(condition):
            return False
        is_date = isinstance(kind, AtomicType) and kind.root is Root.DATE
        if is_date and ":" in condition:
            return False
    return True


def is_moment(schema: TableSchema, name: str) -> bool:
    """True for a column of TIMESTAMP_LTZ."""
    field = schema.field_by_name.get(name)
    kind = None if field is None else field.type
    return isinstance(kind, AtomicType) and kind.root is Root.TIMESTAMP_LTZ


def is_local_moment(text: str) -> bool:
    """True for a moment without a zone."""
    try:
        _, is_zoned = parse_moment(text)
    except ValueError:
        return False
    return not is_zoned


def _has_local_moment(condition: str) -> bool:
    return any(is_local_moment(one or other) for one, other in _TEXT.findall(condition))
