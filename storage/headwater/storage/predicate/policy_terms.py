"""Paimon's policy JSON over Arrow rows: the transforms of columns and the tests of their results.

Sources: ``Transform.java`` and its implementations, ``LeafPredicate.java``,
``CompoundPredicate.java``, ``Like.java``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.storage.casts.cast import cast
from headwater.storage.errors import Invalid
from headwater.storage.predicate.json_form import literal_from_json
from headwater.storage.predicate.literal import comparison, membership
from headwater.storage.predicate.tree import And, Constant, IsNull, Operator, Or, Predicate
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root
from headwater.storage.types.data_type import DataField, DataType, Json, parse_type
from headwater.storage.types.local_time import Zone

__all__ = ["Term", "Terms", "like_pattern", "transform_columns", "transformed"]

Term = Callable[[pa.RecordBatch], pa.Array]
"""A column computed from the columns of some rows."""

_STRING = AtomicType(Root.VARCHAR, length=MAX_LENGTH)
_BOOLEAN = AtomicType(Root.BOOLEAN)
_OPERATORS: Mapping[str, Operator] = {
    "EQUAL": "=",
    "NOT_EQUAL": "!=",
    "LESS_THAN": "<",
    "LESS_OR_EQUAL": "<=",
    "GREATER_THAN": ">",
    "GREATER_OR_EQUAL": ">=",
}
_ANY_CHARACTERS = "(?s:.*)"
# Java's dot ends lines with more than RE2's does.
_ONE_CHARACTER = "[^\\n\\r\\x{85}\\x{2028}\\x{2029}]"


class Terms:
    """The computed columns that a predicate compares, as they are met while it is read.

    Args:
        schema: The schema that columns are found in, by name.
        zone: Gives the zone of local times for casts.
    """

    def __init__(self, schema: TableSchema, zone: Zone) -> None:
        self._schema = schema
        self._zone = zone
        self._terms: list[Term] = []
        self._fields: list[DataField] = []

    @property
    def terms(self) -> Sequence[Term]:
        """The columns, in the order of `schema`."""
        return self._terms

    @property
    def schema(self) -> TableSchema:
        """The schema of the computed columns, over which the predicate is."""
        return TableSchema(0, tuple(self._fields), len(self._fields), (), (), {}, None, 0)

    def predicate(self, node: Json) -> Predicate:
        """The predicate that a node of the JSON is, over the computed columns.

        Raises:
            Invalid: Something in it is not understood, so that nothing of it can be applied.
            NotFound: The schema lacks a column of it.
        """
        match node:
            case {"kind": "COMPOUND", "function": "AND", "children": list(children)} if children:
                return And(tuple(map(self.predicate, children)))
            case {"kind": "COMPOUND", "function": "OR", "children": list(children)} if children:
                return Or(tuple(map(self.predicate, children)))
            case {"kind": "LEAF", "function": "TRUE"}:
                return Constant(True)
            case {"kind": "LEAF", "function": "FALSE"}:
                return Constant(False)
            case {
                "kind": "LEAF",
                "function": str(function),
                "transform": dict(transform),
                "literals": list(literals),
            }:
                return self._leaf(function, transform, literals)
        raise Invalid("a row filter has a part that is not understood")

    def _leaf(self, function: str, transform: Json, literals: Sequence[Json]) -> Predicate:
        term, data_type = transformed(transform, self._schema, self._zone)
        match function, literals:
            case (("STARTS_WITH" | "ENDS_WITH" | "CONTAINS" | "LIKE"), [str(text)]):
                test = _text_test(function, text)
                name = self._added(lambda rows: test(term(rows)), _BOOLEAN)
                return comparison(self.schema, name, "=", True)
        name = self._added(term, data_type)
        schema = self.schema
        values = [literal_from_json(literal) for literal in literals]
        match function, values:
            case "IS_NULL", []:
                return IsNull(name)
            case "IS_NOT_NULL", []:
                return IsNull(name, negated=True)
            case "IN", [_, *_]:
                return membership(schema, name, values)
            case "NOT_IN", [_, *_]:
                return membership(schema, name, values, negated=True)
            case "BETWEEN", [low, high]:
                least = comparison(schema, name, ">=", low)
                return And((least, comparison(schema, name, "<=", high)))
            case "NOT_BETWEEN", [low, high]:
                below = comparison(schema, name, "<", low)
                return Or((below, comparison(schema, name, ">", high)))
            case _, [value] if function in _OPERATORS:
                return comparison(schema, name, _OPERATORS[function], value)
        raise Invalid(f"a row filter's function {function} is not understood")

    def _added(self, term: Term, data_type: DataType) -> str:
        name = f"term{len(self._terms)}"
        self._terms.append(term)
        self._fields.append(DataField(len(self._fields), name, data_type))
        return name


def transformed(node: Json, schema: TableSchema, zone: Zone) -> tuple[Term, DataType]:
    """The column that a transform computes, and its type; that of ``NULL`` is any.

    Raises:
        Invalid: Something in it is not understood.
        NotFound: The schema lacks a column of it.
    """
    match node:
        case {"name": "NULL"}:
            return lambda rows: pa.nulls(rows.num_rows, pa.bool_()), _BOOLEAN
        case {"name": "FIELD_REF", "fieldRef": {"name": str(name)}}:
            return lambda rows: rows.column(name), schema.column(name).type
        case {"name": "CAST", "fieldRef": {"name": str(name)}, "type": wanted}:
            stored, target = schema.column(name).type, parse_type(wanted)
            return lambda rows: cast(rows.column(name), stored, target, zone), target
        case {"name": "UPPER", "inputs": [only]}:
            text = _input(only, schema)
            return lambda rows: pc.utf8_upper(text(rows)), _STRING
        case {"name": "LOWER", "inputs": [only]}:
            text = _input(only, schema)
            return lambda rows: pc.utf8_lower(text(rows)), _STRING
        case {"name": "CONCAT", "inputs": [_, *_] as inputs}:
            texts = [_input(each, schema) for each in inputs]
            return lambda rows: _joined(texts, rows), _STRING
        case {"name": "CONCAT_WS", "inputs": [separator, _, *_] as inputs}:
            between = _input(separator, schema)
            texts = [_input(each, schema) for each in inputs[1:]]
            return lambda rows: _joined_with(between, texts, rows), _STRING
    raise Invalid("a policy's transform is not understood")


def transform_columns(node: Json) -> frozenset[str]:
    """The names of the columns that a transform or predicate reads, anywhere in it."""
    match node:
        case {"fieldRef": {"name": str(name)}}:
            return frozenset({name})
        case {"inputs": list(inputs)}:
            named = (each.get("name") for each in inputs if isinstance(each, dict))
            return frozenset(name for name in named if isinstance(name, str))
        case {"transform": transform}:
            return transform_columns(transform)
        case {"children": list(children)}:
            return frozenset().union(*map(transform_columns, children))
    return frozenset()


def like_pattern(pattern: str) -> str:
    """A LIKE pattern as a regular expression of RE2; raises Invalid."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        match character:
            case "\\":
                escaped = next(characters, "")
                if escaped not in ("_", "%", "\\"):
                    raise Invalid(f"'{pattern}': in LIKE, a backslash goes before %, _ or itself")
                parts.append(re.escape(escaped))
            case "_":
                parts.append(_ONE_CHARACTER)
            case "%":
                parts.append(_ANY_CHARACTERS)
            case _:
                parts.append(re.escape(character))
    return f"\\A(?:{''.join(parts)})\\z"


def _text_test(function: str, text: str) -> Callable[[pa.Array], pa.Array]:
    match function:
        case "STARTS_WITH":
            return lambda values: pc.starts_with(values, text)
        case "ENDS_WITH":
            return lambda values: pc.ends_with(values, text)
        case "CONTAINS":
            return lambda values: pc.match_substring(values, text)
    pattern = like_pattern(text)
    return lambda values: pc.match_substring_regex(values, pattern)


def _input(node: Json, schema: TableSchema) -> Term:
    match node:
        case str(text):
            return lambda rows: pa.repeat(pa.scalar(text, pa.string()), rows.num_rows)
        case {"name": str(name)}:
            schema.column(name)
            return lambda rows: rows.column(name)
    raise Invalid("an input of a policy's transform is not understood")


def _joined(texts: Sequence[Term], rows: pa.RecordBatch) -> pa.Array:
    return pc.binary_join_element_wise(*[text(rows) for text in texts], "")


def _joined_with(between: Term, texts: Sequence[Term], rows: pa.RecordBatch) -> pa.Array:
    parts = [text(rows) for text in texts]
    return pc.binary_join_element_wise(*parts, between(rows), null_handling="skip")
