"""The possible changes of a column's type (``DataTypeCasts.java``, ``CastExecutors.java``).

Paimon takes every cast that has a rule; with ``disable-explicit-type-casting`` only those that it
calls implicit, of which some lose values, too. `headwater.storage.casts.cast` does what is taken
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headwater.storage.errors import Invalid
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import (
    MAX_LENGTH,
    ArrayType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    timestamp_unit,
)

__all__ = ["equal_types", "has_cast", "is_widening", "keeps_form", "refuse_type_change"]

_INTEGER_DIGITS = {Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 19}
_EXACT_IN = {
    Root.FLOAT: (Root.TINYINT, Root.SMALLINT),
    Root.DOUBLE: (Root.TINYINT, Root.SMALLINT, Root.INT, Root.FLOAT),
}
_INTEGERS = tuple(_INTEGER_DIGITS)
_CHARACTERS = (Root.CHAR, Root.VARCHAR)
_BYTES = (Root.BINARY, Root.VARBINARY)
# Why a cast that may lose values is not made.
_BY_OPTION = "'disable-explicit-type-casting' is true; add a column of the new type instead"
_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_TIMES = (Root.DATE, Root.TIME, *_TIMESTAMPS)
_NUMBERS = (*_INTEGERS, Root.FLOAT, Root.DOUBLE, Root.DECIMAL)
_SECONDS = (Root.INT, Root.BIGINT)
_STRING = AtomicType(Root.VARCHAR, length=MAX_LENGTH)

# What each type may become of without anybody saying so, as Paimon sees it, …
_IMPLICIT_FROM: Mapping[Root, tuple[Root, ...]] = {
    Root.CHAR: (Root.CHAR,),
    Root.VARCHAR: _CHARACTERS,
    Root.BOOLEAN: (Root.BOOLEAN,),
    Root.BINARY: (Root.BINARY,),
    Root.VARBINARY: _BYTES,
    Root.DECIMAL: _NUMBERS,
    Root.TINYINT: _INTEGERS[:1],
    Root.SMALLINT: _INTEGERS[:2],
    Root.INT: _INTEGERS[:3],
    Root.BIGINT: _INTEGERS,
    Root.FLOAT: (*_INTEGERS, Root.FLOAT, Root.DECIMAL),
    Root.DOUBLE: _NUMBERS,
    Root.DATE: (Root.DATE, Root.TIMESTAMP),
    Root.TIME: (Root.TIME, Root.TIMESTAMP),
    **dict.fromkeys(_TIMESTAMPS, _TIMESTAMPS),
}
# … and what it can be cast from. Both hold as far as there is a rule for the cast.
_CAST_FROM: Mapping[Root, tuple[Root, ...]] = {
    **dict.fromkeys(_CHARACTERS, (*_NUMBERS, Root.BOOLEAN, *_CHARACTERS, *_BYTES)),
    **dict.fromkeys(_BYTES, (*_CHARACTERS, *_BYTES)),
    **dict.fromkeys(_NUMBERS, (*_NUMBERS, *_CHARACTERS, Root.BOOLEAN)),
    **dict.fromkeys(_SECONDS, (*_NUMBERS, *_CHARACTERS, Root.BOOLEAN, *_TIMESTAMPS)),
    **dict.fromkeys(_TIMESTAMPS, (*_TIMES, *_CHARACTERS, *_SECONDS)),
    Root.BOOLEAN: (*_CHARACTERS, *_INTEGERS),
    Root.DATE: (*_CHARACTERS, *_TIMESTAMPS),
    Root.TIME: (*_CHARACTERS, *_TIMESTAMPS),
}


def equal_types(old: DataType, new: DataType) -> bool:
    """Whether two types are equal but for their own nullability."""
    return replace(old, nullable=True) == replace(new, nullable=True)


def is_widening(old: DataType, new: DataType) -> bool:
    """Whether every value of `old` is a value of `new`, nullability aside."""
    if equal_types(old, new):
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


def keeps_form(old: DataType, new: DataType) -> bool:
    """Whether every value of `old` is one of `new` as it stands: same bits, same hash, same order.

    A CHAR that is longer is not: it is padded.
    """
    if equal_types(old, new):
        return True
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    if not is_widening(old, new):
        return False
    if new.root in (Root.VARCHAR, Root.VARBINARY, Root.TIME):
        return True
    return new.root in _TIMESTAMPS and timestamp_unit(old.precision) == timestamp_unit(
        new.precision
    )


def has_cast(old: DataType, new: DataType) -> bool:
    """Whether Paimon has a rule for the cast (``CastExecutors.resolve``)."""
    if not isinstance(new, AtomicType):
        return False
    if isinstance(old, ArrayType | MapType | RowType):
        return new.root in _CHARACTERS
    if not isinstance(old, AtomicType):
        return False
    if old.root in _TIMES and new.root in _CHARACTERS:
        return new == _STRING
    return old.root in _CAST_FROM.get(new.root, ())


def refuse_type_change(
    column: str,
    old: DataType,
    new: DataType,
    *,
    explicit: bool,
    forbidden: str = _BY_OPTION,
) -> None:
    """Raises Invalid when Paimon does not let a column of type `old` become one of type `new`.

    Args:
        column: Its name, for the error.
        old: The present type.
        new: The wanted type. One that is the same but for its nullability is always taken, though
            Paimon has no rule for some of those.
        explicit: Allow casts that Paimon does not call implicit.
        forbidden: The reason why those are not allowed, and a way out, for the error.
    """
    reason = _refusal(old, new, explicit, forbidden)
    if reason is not None:
        # The first sentence is Paimon's, to the full stop: clients match on it.
        raise Invalid(
            f"Column type {column}[{old}] cannot be converted to {new} without losing "
            f"information. Reason: {reason}"
        )


def _refusal(old: DataType, new: DataType, explicit: bool, forbidden: str) -> str | None:
    if not explicit and old.nullable and not new.nullable:
        return (
            "it may hold nulls, and with 'disable-explicit-type-casting' a change of type must not "
            "forbid them"
        )
    if equal_types(old, new):
        return None
    if isinstance(old, ArrayType | MapType | RowType | MultisetType) and type(old) is type(new):
        return (
            "change the types inside one by one, by their paths: a field's name, 'element', 'value'"
        )
    if isinstance(old, AtomicType) and old.root in _TIMES and isinstance(new, AtomicType):
        if new.root in _CHARACTERS and new != _STRING:
            return "of text types, Paimon casts dates and times only to STRING that may be null"
        if old.root is new.root is Root.TIME:
            return "Paimon cannot read a TIME as one of another precision"
    if not has_cast(old, new):
        return "Paimon has no cast between them; add a column of the new type instead"
    assert isinstance(new, AtomicType)
    implicit = isinstance(old, AtomicType) and old.root in _IMPLICIT_FROM[new.root]
    if not (explicit or implicit):
        return f"values could be lost, and {forbidden}"
    return None
