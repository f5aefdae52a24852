"""Predicates on CHAR columns, which compare padded values with padded literals.

Files have the values as they were written, which other engines may not have padded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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
    columns_of,
    without_not,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType
from headwater.storage.types.padded_text import has_chars, stored_forms

__all__ = ["char_lengths", "compared_as_they_are", "of_stored_values", "padded_predicate"]

# A value of more forms is asked for by its bounds.
_MAX_FORMS = 64


def char_lengths(schema: TableSchema, columns: Collection[str]) -> dict[str, int]:
    """The lengths that CHAR columns among these are padded to, by name."""
    return {
        name: field.type.length
        for name, field in schema.field_by_name.items()
        if name in columns and isinstance(field.type, AtomicType) and has_chars(field.type)
    }


def padded_predicate(predicate: Predicate, schema: TableSchema) -> Predicate:
    """A predicate whose literals beside CHAR columns have the columns' lengths.

    Spaces beyond the length are cut off, as SQL ignores them, too.
    """
    lengths = char_lengths(schema, columns_of(predicate))
    return _padded(predicate, lengths) if lengths else predicate


def _padded(predicate: Predicate, lengths: Mapping[str, int]) -> Predicate:
    match predicate:
        case And() | Or():
            operands = tuple(_padded(part, lengths) for part in predicate.operands)
            return replace(predicate, operands=operands)
        case Not():
            return Not(_padded(predicate.operand, lengths))
        case Comparison(value=str(value)) if predicate.column in lengths:
            return replace(predicate, value=_fitted(value, lengths[predicate.column]))
        case In() if predicate.column in lengths:
            length = lengths[predicate.column]
            values = (_fitted(v, length) if isinstance(v, str) else v for v in predicate.values)
            return replace(predicate, values=tuple(dict.fromkeys(values)))
    return predicate


def _fitted(value: str, length: int) -> str:
    return value if value[length:].strip(" ") else value[:length].ljust(length)


def compared_as_they_are(
    predicate: Predicate, schema: TableSchema, padded: Collection[str], *, exact: bool
) -> Predicate | None:
    """A predicate for one whose literals beside CHAR columns are not padded.

    Spark and Polars compare padded values so.

    Args:
        predicate: The other predicate.
        schema: The schema of the rows.
        padded: The columns whose values are padded where they are compared; nothing can be said
            of other CHAR columns.
        exact: Whether it must be true for the same rows; otherwise it may be for others.

    Returns:
        None where nothing can be said.
    """
    lengths = char_lengths(schema, columns_of(predicate))
    if not lengths:
        return predicate

    def leaf(part: Predicate, length: int) -> Predicate | None:
        assert not isinstance(part, And | Or | Not | Constant)
        if part.column not in padded and not isinstance(part, IsNull):
            return None
        match part:
            case Comparison(value=str(value)) if _fitted(value, length) != value:
                if part.op not in ("=", "!="):
                    return None
                return In(part.column, (), part.op == "!=")
            case In():
                kept = (v for v in part.values if not isinstance(v, str) or _fitted(v, length) == v)
                return replace(part, values=tuple(kept))
        return part

    return _rewritten(without_not(predicate), lengths, leaf, exact)


def of_stored_values(predicate: Predicate, lengths: Mapping[str, int]) -> Predicate | None:
    """A predicate on values as they are stored, which is true wherever a padded one is.

    Args:
        predicate: From `padded_predicate`.
        lengths: The lengths that columns are padded to, by name; others are left alone.

    Returns:
        None where nothing can be said.
    """
    if not lengths:
        return predicate
    return _rewritten(without_not(predicate), lengths, _stored, exact=False)


def _rewritten(
    predicate: Predicate,
    lengths: Mapping[str, int],
    leaf: Callable[[Predicate, int], Predicate | None],
    exact: bool,
) -> Predicate | None:
    match predicate:
        case And():
            parts = [_rewritten(part, lengths, leaf, exact) for part in predicate.operands]
            said = tuple(part for part in parts if part is not None)
            if not said or (exact and len(said) < len(parts)):
                return None
            return said[0] if len(said) == 1 else And(said)
        case Or():
            parts = [_rewritten(part, lengths, leaf, exact) for part in predicate.operands]
            said = tuple(part for part in parts if part is not None)
            return Or(said) if len(said) == len(parts) else None
        case Constant() | Not():
            return predicate
    length = lengths.get(predicate.column)
    return predicate if length is None else leaf(predicate, length)


def _stored(predicate: Predicate, length: int) -> Predicate | None:
    match predicate:
        case Comparison(op="=" | "!="):
            same = In(predicate.column, (predicate.value,), negated=predicate.op == "!=")
            return _among(same, length)
        case In():
            return _among(predicate, length)
        case StartsWith():
            bare = predicate.prefix.rstrip(" ")
            if bare == predicate.prefix:
                return predicate
            # Spaces at its end may be those of the padding.
            return None if predicate.negated else replace(predicate, prefix=bare)
        case Comparison():
            return _beyond(predicate)
    return predicate


def _among(predicate: In, length: int) -> Predicate | None:
    forms = [
        form for value in predicate.values if isinstance(value, str)
        for form in stored_forms(value, length)
    ]  # fmt: skip
    if len(forms) <= _MAX_FORMS:
        return replace(predicate, values=tuple(dict.fromkeys(forms)))
    if predicate.negated:
        return None
    lowest = _beyond(Comparison(predicate.column, ">=", min(forms)))
    highest = Comparison(predicate.column, "<=", max(forms))
    return highest if lowest is None else And((lowest, highest))


def _beyond(predicate: Comparison) -> Predicate | None:
    """A bound of stored values, of which none is greater than what it is padded to."""
    if predicate.op in ("<", "<="):
        return predicate
    value = str(predicate.value)
    if any(sign < " " for sign in value):
        # Spaces are greater than these.
        return None
    return Comparison(predicate.column, ">=", value.rstrip(" "))
