"""Which changes of a column's type are possible (`DataTypeCasts.java`).

A table that holds data takes only those that keep every value. One that holds none has no value to
lose: there, Paimon's explicit casts are taken, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headwater.storage.errors import Invalid
from headwater.storage.types import AtomicType, DataType, Root

__all__ = ["is_cast", "is_widening", "refuse_lossy_change"]

_INTEGER_DIGITS = {Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 19}
_EXACT_IN = {
    Root.FLOAT: (Root.TINYINT, Root.SMALLINT),
    Root.DOUBLE: (Root.TINYINT, Root.SMALLINT, Root.INT, Root.FLOAT),
}
_CHARACTERS = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY)
_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_TIMES = (Root.DATE, Root.TIME, *_TIMESTAMPS)
_NUMBERS = (*_INTEGER_DIGITS, Root.FLOAT, Root.DOUBLE, Root.DECIMAL)
# What each type can be cast from, explicitly.
_CAST_FROM: Mapping[Root, tuple[Root, ...]] = {
    **dict.fromkeys(_CHARACTERS, tuple(root for root in Root if not root.is_opaque)),
    **dict.fromkeys(_BYTES, (*_CHARACTERS, *_BYTES)),
    **dict.fromkeys(_NUMBERS, (*_NUMBERS, *_CHARACTERS, Root.BOOLEAN, *_TIMESTAMPS)),
    **dict.fromkeys(_TIMESTAMPS, (*_TIMES, *_CHARACTERS, *_NUMBERS)),
    Root.BOOLEAN: (Root.BOOLEAN, *_CHARACTERS, *_INTEGER_DIGITS),
    Root.DATE: (Root.DATE, *_CHARACTERS, *_TIMESTAMPS),
    Root.TIME: (Root.TIME, *_CHARACTERS, *_TIMESTAMPS),
}


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


def is_cast(old: DataType, new: DataType) -> bool:
    """Whether Paimon casts values of `old` to `new` when it is told to; some may be lost."""
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    return old.root in _CAST_FROM.get(new.root, ())


def refuse_lossy_change(column: str, old: DataType, new: DataType) -> None:
    """Raises Invalid when a column of type `old` cannot become one of type `new`."""
    if not is_widening(old, new):
        raise Invalid(
            f"column '{column}' of type {old} cannot become {new}: values could be lost; "
            "add a column of the new type instead"
        )
