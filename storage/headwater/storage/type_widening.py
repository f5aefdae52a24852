"""Which changes of a column's type keep every value (`DataTypeCasts.java`, the lossless part)."""

from __future__ import annotations

from dataclasses import replace

from headwater.storage.errors import Invalid
from headwater.storage.types import AtomicType, DataType, Root

__all__ = ["is_widening", "refuse_lossy_change"]

_INTEGER_DIGITS = {Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 19}
_EXACT_IN = {
    Root.FLOAT: (Root.TINYINT, Root.SMALLINT),
    Root.DOUBLE: (Root.TINYINT, Root.SMALLINT, Root.INT, Root.FLOAT),
}
_CHARACTERS = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY)
_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


def is_widening(old: DataType, new: DataType) -> bool:
    """Whether every value of `old` is a value of `new`, nullability aside."""
    if replace(old, nullable=True) == replace(new, nullable=True):
        return True
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    if old.root in _INTEGER_DIGITS:
        digits = _INTEGER_DIGITS[old.root]
        if new.root in _INTEGER_DIGITS:
            return digits <= _INTEGER_DIGITS[new.root]
        if new.root is Root.DECIMAL:
            return digits <= new.precision - new.scale
    if old.root is Root.DECIMAL and new.root is Root.DECIMAL:
        return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    if old.root in _EXACT_IN.get(new.root, ()):
        return True
    for family in (_CHARACTERS, _BYTES):
        if old.root in family and new.root in family:
            return new.length >= old.length
    if old.root in _TIMESTAMPS and new.root is old.root:
        return new.precision >= old.precision
    if old.root is Root.TIME and new.root is Root.TIME:
        return new.precision >= old.precision
    return False


def refuse_lossy_change(column: str, old: DataType, new: DataType) -> None:
    """Raises Invalid when a column of type `old` cannot become one of type `new`."""
    if not is_widening(old, new):
        raise Invalid(
            f"column '{column}' of type {old} cannot become {new}: values could be lost; "
            "add a column of the new type instead"
        )
