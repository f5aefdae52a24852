"""Predicates as Paimon's JSON: a tree of ``LEAF`` and ``COMPOUND`` nodes.

Source: ``Predicate.java``, ``LeafPredicate.java``, ``CompoundPredicate.java``,
``PredicateBuilder.convertToJavaObject``. The JSON has no negation around other nodes, so a node
that is not understood may be read as true: what is then selected is a superset, which is all that
readers of a catalog's listing rely on.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence

from headwater.storage.errors import Invalid, NotFound
from headwater.storage.predicate.literal import comparison, membership, starts_with
from headwater.storage.predicate.tree import (
    And,
    Constant,
    IsNull,
    Operator,
    Or,
    Predicate,
)
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.data_type import Json

__all__ = ["literal_from_json", "predicate_from_json"]

_TRUE = Constant(True)
_OPERATORS: Mapping[str, Operator] = {
    "EQUAL": "=",
    "NOT_EQUAL": "!=",
    "LESS_THAN": "<",
    "LESS_OR_EQUAL": "<=",
    "GREATER_THAN": ">",
    "GREATER_OR_EQUAL": ">=",
}
_DATE_PARTS = 3


def predicate_from_json(text: str, schema: TableSchema) -> Predicate:
    """A predicate on a table's columns that is true wherever the JSON's is, and perhaps elsewhere.

    Columns are found by name. A function, transform, column or literal that is not known counts as
    true, as in the reference server: clients of other versions evaluate the rest themselves.

    Raises:
        Invalid: The text is not JSON, or not an object.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the filter is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise Invalid("the filter is not a predicate: it must be a JSON object with a 'kind'")
    try:
        return _node(document, schema)
    except RecursionError:
        return _TRUE


def _node(document: Json, schema: TableSchema) -> Predicate:
    if not isinstance(document, dict):
        return _TRUE
    match document.get("kind"), document.get("function"), document.get("children"):
        case "COMPOUND", "AND", list(children):
            return And(tuple(_node(child, schema) for child in children))
        case "COMPOUND", "OR", list(children):
            return Or(tuple(_node(child, schema) for child in children))
        case "LEAF", str(function), _:
            try:
                return _leaf(function, document, schema)
            except (Invalid, NotFound):
                return _TRUE
    return _TRUE


def _leaf(function: str, document: Mapping[str, Json], schema: TableSchema) -> Predicate:
    if function == "FALSE":
        return Constant(False)
    column = _column(document.get("transform"))
    literals = document.get("literals")
    if column is None or not isinstance(literals, list):
        return _TRUE
    values = [literal_from_json(literal) for literal in literals]
    operator = _OPERATORS.get(function)
    if operator is not None:
        return comparison(schema, column, operator, *values) if len(values) == 1 else _TRUE
    read = _FUNCTIONS.get(function)
    return _TRUE if read is None else read(schema, column, values)


def _column(transform: Json) -> str | None:
    if not isinstance(transform, dict) or transform.get("name") != "FIELD_REF":
        return None
    reference = transform.get("fieldRef")
    name = reference.get("name") if isinstance(reference, dict) else None
    return name if isinstance(name, str) else None


def literal_from_json(literal: Json) -> object:
    """A literal as a Python value."""
    # Java writes a date as text or as [year, month, day].
    if isinstance(literal, list) and len(literal) == _DATE_PARTS:
        parts = [part for part in literal if isinstance(part, int)]
        if len(parts) == _DATE_PARTS:
            try:
                return dt.date(*parts)
            except ValueError:
                pass
    return literal


def _null(schema: TableSchema, column: str, _: Sequence[object]) -> Predicate:
    return IsNull(schema.column(column).name)


def _not_null(schema: TableSchema, column: str, _: Sequence[object]) -> Predicate:
    return IsNull(schema.column(column).name, negated=True)


def _in(schema: TableSchema, column: str, values: Sequence[object]) -> Predicate:
    return membership(schema, column, values)


def _not_in(schema: TableSchema, column: str, values: Sequence[object]) -> Predicate:
    return membership(schema, column, values, negated=True)


def _between(schema: TableSchema, column: str, values: Sequence[object]) -> Predicate:
    if len(values) != 2:
        return _TRUE
    low, high = values
    return And((comparison(schema, column, ">=", low), comparison(schema, column, "<=", high)))


def _not_between(schema: TableSchema, column: str, values: Sequence[object]) -> Predicate:
    if len(values) != 2:
        return _TRUE
    low, high = values
    return Or((comparison(schema, column, "<", low), comparison(schema, column, ">", high)))


def _starts_with(schema: TableSchema, column: str, values: Sequence[object]) -> Predicate:
    match values:
        case [str(prefix)]:
            return starts_with(schema, column, prefix)
    return _TRUE


_FUNCTIONS: Mapping[str, Callable[[TableSchema, str, Sequence[object]], Predicate]] = {
    "IS_NULL": _null,
    "IS_NOT_NULL": _not_null,
    "IN": _in,
    "NOT_IN": _not_in,
    "BETWEEN": _between,
    "NOT_BETWEEN": _not_between,
    "STARTS_WITH": _starts_with,
}
