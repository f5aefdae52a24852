"""Predicates as values: what a filter on a table's columns says.

Literals are storage values of the column's type (`headwater.storage.types.values`). Logic is SQL's,
with three values: what is asked of a null is neither true nor false, and only true selects a row.
Floating-point numbers are ordered as Spark and Paimon order them: NaN equals itself and is greater
than every other number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from headwater.storage.types.values import StorageValue

__all__ = [
    "MIRRORED",
    "And",
    "Comparison",
    "Constant",
    "In",
    "IsNull",
    "Not",
    "Operator",
    "Or",
    "Predicate",
    "StartsWith",
    "columns_of",
    "negate",
    "pinned_values",
    "without_not",
]

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Comparison:
    """A column against one value, which is not null."""

    column: str
    op: Operator
    value: StorageValue


@dataclass(frozen=True)
class In:
    """A column among values, none of them null; among no values it is false, or null for null."""

    column: str
    values: tuple[StorageValue, ...]
    negated: bool = False


@dataclass(frozen=True)
class IsNull:
    """A column being null, or with `negated` not being null."""

    column: str
    negated: bool = False


@dataclass(frozen=True)
class StartsWith:
    """A string column beginning with a text."""

    column: str
    prefix: str
    negated: bool = False


@dataclass(frozen=True)
class And:
    """All of several; of none, true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or:
    """One of several; of none, false."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True)
class Not:
    """The opposite; of null, null."""

    operand: Predicate


@dataclass(frozen=True)
class Constant:
    """True, false or null for every row."""

    value: bool | None


Predicate: TypeAlias = Comparison | In | IsNull | StartsWith | And | Or | Not | Constant

_OPPOSITE: Mapping[Operator, Operator] = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}


MIRRORED: Mapping[Operator, Operator] = {
    "=": "=",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}
"""The operator that says the same of two values in the other order."""


def negate(predicate: Predicate) -> Predicate:
    """The predicate that is true where the given one is false, without a `Not` in it."""
    match predicate:
        case Comparison():
            return replace(predicate, op=_OPPOSITE[predicate.op])
        case In() | IsNull() | StartsWith():
            return replace(predicate, negated=not predicate.negated)
        case And():
            return Or(tuple(negate(operand) for operand in predicate.operands))
        case Or():
            return And(tuple(negate(operand) for operand in predicate.operands))
        case Not():
            return without_not(predicate.operand)
        case Constant():
            return Constant(None if predicate.value is None else not predicate.value)


def without_not(predicate: Predicate) -> Predicate:
    """The same predicate with every `Not` pushed down into the leaves."""
    match predicate:
        case And():
            return And(tuple(without_not(operand) for operand in predicate.operands))
        case Or():
            return Or(tuple(without_not(operand) for operand in predicate.operands))
        case Not():
            return negate(predicate.operand)
        case _:
            return predicate


def columns_of(predicate: Predicate) -> set[str]:
    """The names of the columns that a predicate reads."""
    match predicate:
        case And() | Or():
            return {name for operand in predicate.operands for name in columns_of(operand)}
        case Not():
            return columns_of(predicate.operand)
        case Constant():
            return set()
        case _:
            return {predicate.column}


def pinned_values(predicate: Predicate) -> dict[str, frozenset[StorageValue]]:
    """The columns that can only have certain values where the predicate is true.

    Found from ``=`` and ``IN`` under ``AND``: enough to pick buckets and partitions. A column that
    is absent may have any value. A float is not pinned by a zero, which is two values.
    """
    match predicate:
        case Comparison(op="="):
            return _pinned(predicate.column, (predicate.value,))
        case In(negated=False):
            return _pinned(predicate.column, predicate.values)
        case Not():
            return pinned_values(negate(predicate.operand))
        case And():
            found: dict[str, frozenset[StorageValue]] = {}
            for operand in predicate.operands:
                for column, values in pinned_values(operand).items():
                    found[column] = found[column] & values if column in found else values
            return found
        case Or(operands=(first, *others)):
            united = pinned_values(first)
            for operand in others:
                other = pinned_values(operand)
                united = {c: v | other[c] for c, v in united.items() if c in other}
            return united
        case _:
            return {}


def _pinned(column: str, values: tuple[StorageValue, ...]) -> dict[str, frozenset[StorageValue]]:
    if any(isinstance(value, float) and (value == 0 or value != value) for value in values):
        return {}
    return {column: frozenset(values)}
