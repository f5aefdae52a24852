"""Conditions on columns of CHAR, which Spark asks of values that are filled up with spaces.

Files have the values as they were written, which other engines may not have filled up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headwater.storage.predicate.tree import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    without_not,
)

__all__ = ["of_stored_values", "stored_forms"]

# A value of more forms is asked for by its bounds.
_MOST_FORMS = 64


def stored_forms(value: str, length: int) -> tuple[str, ...]:
    """The values that are this one when they are filled up to so many characters.

    None for a value that is shorter: no value that is filled up is.
    """
    if len(value) < length:
        return ()
    if len(value) > length:
        # A value that is too long for its column stays as it is.
        return (value,)
    bare = value.rstrip(" ")
    return tuple(value[:count] for count in range(len(bare), length + 1))


def of_stored_values(
    predicate: Predicate, lengths: Mapping[str, int], *, exact: bool
) -> Predicate | None:
    """A condition on values as they are stored, for one on values that are filled up.

    Args:
        predicate: The condition.
        lengths: The characters that columns are filled up to, by name; others are left alone.
        exact: True if it must be true for the same rows; otherwise it may be for others, too.

    Returns:
        None where nothing can be said.
    """
    if not lengths:
        return predicate
    return _stored(without_not(predicate), lengths, exact)


def _stored(predicate: Predicate, lengths: Mapping[str, int], exact: bool) -> Predicate | None:
    match predicate:
        case And():
            parts = [_stored(each, lengths, exact) for each in predicate.operands]
            told = tuple(each for each in parts if each is not None)
            if not told or (exact and len(told) < len(parts)):
                return None
            return told[0] if len(told) == 1 else And(told)
        case Or():
            parts = [_stored(each, lengths, exact) for each in predicate.operands]
            told = tuple(each for each in parts if each is not None)
            return Or(told) if len(told) == len(parts) else None
        case Constant() | Not() | IsNull():
            return predicate
    length = lengths.get(predicate.column)
    if length is None:
        return predicate
    match predicate:
        case Comparison(op="=" | "!="):
            same = In(predicate.column, (predicate.value,), negated=predicate.op == "!=")
            return _among(same, length, exact)
        case In():
            return _among(predicate, length, exact)
        case StartsWith():
            bare = predicate.prefix.rstrip(" ")
            if bare == predicate.prefix:
                return predicate
            # Spaces at its end may be those that are filled in.
            return None if exact or predicate.negated else replace(predicate, prefix=bare)
        case Comparison():
            return None if exact else _beyond(predicate)


def _among(predicate: In, length: int, exact: bool) -> Predicate | None:
    forms = [
        form for value in predicate.values if isinstance(value, str)
        for form in stored_forms(value, length)
    ]  # fmt: skip
    if exact or len(forms) <= _MOST_FORMS:
        return replace(predicate, values=tuple(dict.fromkeys(forms)))
    if predicate.negated:
        return None
    lowest = _beyond(Comparison(predicate.column, ">=", min(forms)))
    highest = Comparison(predicate.column, "<=", max(forms))
    return highest if lowest is None else And((lowest, highest))


def _beyond(predicate: Comparison) -> Predicate | None:
    """A bound of stored values, of which none is greater than what it is filled up to."""
    if predicate.op in ("<", "<="):
        return predicate
    value = str(predicate.value)
    if any(sign < " " for sign in value):
        # Spaces are greater than these.
        return None
    return Comparison(predicate.column, ">=", value.rstrip(" "))
