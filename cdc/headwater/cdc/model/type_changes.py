"""What a column of the lake becomes when its source's type changes.

The lake casts the values that it has to a wider type when they are read. What it cannot cast
without a loss is a new column, for which the table is read from the source again.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.storage.casts.type_changes import has_cast, is_widening
from headwater.storage.types.data_type import AtomicType, DataType, Root

__all__ = ["holds", "keeps_values", "wider_type"]

_MAX_DECIMAL_DIGITS = 38
# Of fixed length: a cast to a longer one pads the values.
_PADDED = (Root.CHAR, Root.BINARY)


def holds(wide: DataType, narrow: DataType) -> bool:
    """Whether a column holds all values of another type as they are, nullability aside."""
    if _is_time(wide) and _is_time(narrow):
        # Of the lake's TIME only the text depends on the precision: all have milliseconds.
        return _precision(wide) >= _precision(narrow)
    if isinstance(wide, AtomicType) and wide.root in _PADDED:
        return replace(wide, nullable=True) == replace(narrow, nullable=True)
    return is_widening(narrow, wide)


def wider_type(existing: DataType, new: DataType) -> DataType | None:
    """The type with which a column holds its values and those of a new type.

    The existing type where it holds both; None where the column must be replaced.
    """
    if holds(existing, new):
        return existing
    if holds(new, existing) and not _is_time(new) and has_cast(existing, new):
        return replace(new, nullable=existing.nullable)
    if not (isinstance(existing, AtomicType) and isinstance(new, AtomicType)):
        return None
    if existing.root is Root.DECIMAL and new.root is Root.DECIMAL:
        scale = max(existing.scale, new.scale)
        digits = scale + max(existing.precision - existing.scale, new.precision - new.scale)
        if digits <= _MAX_DECIMAL_DIGITS:
            return replace(existing, precision=digits, scale=scale)
    return None


def keeps_values(old: DataType, new: DataType) -> bool:
    """Whether values that the lake has under the old type are right under what it becomes."""
    return wider_type(old, new) is not None


def _is_time(type_: DataType) -> bool:
    return isinstance(type_, AtomicType) and type_.root is Root.TIME


def _precision(type_: DataType) -> int:
    return type_.precision if isinstance(type_, AtomicType) else 0
