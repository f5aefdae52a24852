"""Polars expressions as predicates, as far as predicates can say the same.

Polars hands the filter of a lazy frame to its source as an expression whose types it has made
agree. What is translated selects exactly the rows that Polars selects; the parts of a conjunction
that cannot be translated are left to Polars.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.storage.errors import HeadwaterError
from headwater.storage.predicate.char_columns import compared_as_they_are
from headwater.storage.predicate.literal import comparison, membership, starts_with
from headwater.storage.predicate.tree import (
    MIRRORED,
    And,
    Constant,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import Json

if TYPE_CHECKING:
    import polars as pl

__all__ = ["from_polars"]

_COMPARISONS: Mapping[str, Operator] = {
    "Eq": "=",
    "NotEq": "!=",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
}
_BETWEEN: Mapping[str, tuple[Operator, Operator]] = {
    "Both": (">=", "<="),
    "Left": (">=", "<"),
    "Right": (">", "<="),
    "None": (">", "<"),
}


class _Untranslatable(Exception):
    """A part of an expression has no equal among predicates."""


def from_polars(
    expression: pl.Expr, schema: TableSchema, types: Mapping[str, pl.DataType]
) -> Predicate | None:
    """The part of a filter that a predicate can say.

    Args:
        expression: The filter, as Polars gives it to a source.
        schema: The schema of the rows.
        types: The columns' Polars types.

    Returns:
        A predicate that is true for every row that the filter selects, and for few others; None
        when nothing of the filter can be said.
    """
    from polars.exceptions import PolarsError

    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except PolarsError:  # It calls Python, which has no such form.
        return None
    result = _Translation(schema, types).needed(tree)
    if result is None:
        return None
    return compared_as_they_are(result, schema, types.keys(), exact=False)


class _Translation:
    def __init__(self, schema: TableSchema, types: Mapping[str, pl.DataType]) -> None:
        self._schema = schema
        self._types = types

    def needed(self, tree: Json) -> Predicate | None:
        """A condition that holds wherever the expression is true."""
        match tree:
            case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
                parts = [part for side in (left, right) if (part := self.needed(side)) is not None]
                return And(tuple(parts)) if parts else None
        try:
            return self._exact(tree)
        except (_Untranslatable, HeadwaterError):
            return None

    def _exact(self, tree: Json) -> Predicate:
        match tree:
            case {"Column": str(name)}:
                return comparison(self._schema, name, "=", True)
            case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
                return And((self._exact(left), self._exact(right)))
            case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
                return Or((self._exact(left), self._exact(right)))
            case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op), "right": right}}:
                return self._comparison(name, self._operator(op), right)
            case {"BinaryExpr": {"left": left, "op": str(op), "right": {"Column": str(name)}}}:
                return self._comparison(name, MIRRORED[self._operator(op)], left)
            case {"Function": {"input": [operand], "function": {"Boolean": "Not"}}}:
                return Not(self._exact(operand))
            case {
                "Function": {
                    "input": [{"Column": str(name)}],
                    "function": {"Boolean": "IsNull" | "IsNotNull" as test},
                }
            }:
                self._schema.column(name)
                return IsNull(name, negated=test == "IsNotNull")
            case {
                "Function": {
                    "input": [{"Column": str(name)}, low, high],
                    "function": {"Boolean": {"IsBetween": {"closed": str(closed)}}},
                }
            } if closed in _BETWEEN:
                above, below = _BETWEEN[closed]
                return And(
                    (self._comparison(name, above, low), self._comparison(name, below, high))
                )
            case {
                "Function": {
                    "input": [{"Column": str(name)}, members],
                    "function": {"Boolean": {"IsIn": {"nulls_equal": False}}},
                }
            }:
                return self._membership(name, members)
            case {
                "Function": {
                    "input": [{"Column": str(name)}, prefix],
                    "function": {"StringExpr": "StartsWith"},
                }
            }:
                text = self._literal(name, prefix)
                if isinstance(text, str):
                    return starts_with(self._schema, name, text)
        raise _Untranslatable

    def _operator(self, op: str) -> Operator:
        if op not in _COMPARISONS:
            raise _Untranslatable
        return _COMPARISONS[op]

    def _comparison(self, column: str, op: Operator, tree: Json) -> Predicate:
        value = self._literal(column, tree)
        return Constant(None) if value is None else comparison(self._schema, column, op, value)

    def _membership(self, column: str, tree: Json) -> Predicate:
        import polars as pl

        literal = _evaluated(tree)
        if not isinstance(literal.dtype, pl.List) or literal.dtype.inner != self._types[column]:
            raise _Untranslatable
        # To Polars a null among the members equals nothing, and changes nothing.
        members = literal.explode().drop_nulls()
        return membership(self._schema, column, _values(members))

    def _literal(self, column: str, tree: Json) -> object:
        import polars as pl

        literal = _evaluated(tree)
        same = literal.dtype == self._types[column]
        # Numbers of any scale are compared exactly.
        both = isinstance(literal.dtype, pl.Decimal) and self._types[column].is_decimal()
        if len(literal) != 1 or not (same or both):
            raise _Untranslatable
        return _values(literal)[0]


def _evaluated(tree: Json) -> pl.Series:
    """A literal's value, as Polars reads it."""
    import polars as pl

    match tree:
        case {"Literal": _}:
            try:
                expression = pl.Expr.deserialize(json.dumps(tree).encode(), format="json")
            except pl.exceptions.PolarsError:  # NaN and infinities, which JSON cannot hold.
                raise _Untranslatable from None
            return pl.select(expression.alias("literal")).to_series()
    raise _Untranslatable


def _values(literals: pl.Series) -> list[object]:
    """The literals as Python values, if nothing of them is lost."""
    import polars as pl

    values: list[object] = literals.to_list()
    if not pl.Series(literals.name, values, dtype=literals.dtype).equals(literals):
        raise _Untranslatable
    return values
