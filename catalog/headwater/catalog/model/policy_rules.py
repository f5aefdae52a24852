"""The JSON of row filters and column masks, checked against a table's schema.

Unlike a filter of a listing, which may select too much, a policy that is not understood in every
part is refused: left out, a part of it would show what it is there to hide. The form is that of
``LeafPredicate.java``, ``CompoundPredicate.java`` and ``Transform.java``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NoReturn

from headwater.catalog.model.policies import ColumnMask, Policy, RowFilter, Rule
from headwater.storage.capabilities import QUERY_AUTH
from headwater.storage.casts.type_changes import equal_types, has_cast
from headwater.storage.errors import Invalid
from headwater.storage.predicate.json_form import literal_from_json
from headwater.storage.predicate.literal import comparison
from headwater.storage.predicate.policy_terms import like_pattern
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import MAX_LENGTH, AtomicType, Root
from headwater.storage.types.data_type import DataField, DataType, Json, parse_type, type_json

__all__ = ["NULL_TRANSFORM", "QUERY_AUTH", "canonical_policy"]

NULL_TRANSFORM = '{"name":"NULL"}'
"""The mask that shows nothing of a column."""

_STRING = AtomicType(Root.VARCHAR, length=MAX_LENGTH)
_CHARACTERS = (Root.CHAR, Root.VARCHAR)
_COMPARISONS = (
    "EQUAL",
    "NOT_EQUAL",
    "LESS_THAN",
    "LESS_OR_EQUAL",
    "GREATER_THAN",
    "GREATER_OR_EQUAL",
)
_LISTS = ("IN", "NOT_IN")
_RANGES = ("BETWEEN", "NOT_BETWEEN")
_NULL_TESTS = ("IS_NULL", "IS_NOT_NULL")
_TEXT_TESTS = ("STARTS_WITH", "ENDS_WITH", "CONTAINS", "LIKE")
_CONSTANTS = ("TRUE", "FALSE")
_FUNCTIONS = (*_COMPARISONS, *_LISTS, *_RANGES, *_NULL_TESTS, *_TEXT_TESTS, *_CONSTANTS)


def canonical_policy(policy: Policy, schema: TableSchema) -> Policy:
    """A policy as it is stored: columns are found by name, and carry the schema's index and type.

    Raises:
        NotFound: The table lacks a column that the policy names (COLUMN).
        Invalid: The JSON is not a predicate or transform that Paimon's clients evaluate, a literal
            does not fit its column, or a mask's result is not of the masked column's type.
    """
    try:
        return replace(policy, rule=_canonical_rule(policy.rule, schema))
    except RecursionError:
        raise Invalid(f"policy {policy.name} is nested too deeply") from None


def _canonical_rule(rule: Rule, schema: TableSchema) -> Rule:
    reader = _Reader(schema)
    match rule:
        case RowFilter(text):
            document = reader.predicate(_parsed(text, "rowFilter.predicate"), "rowFilter.predicate")
            return RowFilter(_text(document))
        case ColumnMask(column, text):
            masked = schema.column(column)
            where = "columnMask.transform"
            document, result = reader.transform(_parsed(text, where), where)
            _check_result(masked, document, result)
            return ColumnMask(column, _text(document))


def _check_result(masked: DataField, transform: Mapping[str, Json], result: DataType) -> None:
    if transform["name"] == "NULL":
        if not masked.type.nullable:
            raise Invalid(f"columnMask: column '{masked.name}' is {masked.type} and cannot be NULL")
    elif not equal_types(result, masked.type):
        raise Invalid(
            f"columnMask: the transform gives {result}, but column '{masked.name}' is "
            f"{masked.type}; a mask must give the column's own type"
        )


class _Reader:
    """Reads the parts of a policy, each of which `where` names in errors."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._indexes = {item.name: index for index, item in enumerate(schema.fields)}

    def predicate(self, node: Json, where: str) -> dict[str, Json]:
        """A tree of comparisons."""
        document = _object(node, where)
        match document.get("kind"):
            case "COMPOUND":
                return self._compound(document, where)
            case "LEAF":
                return self._leaf(document, where)
            case other:
                raise Invalid(f"{where}: 'kind' must be LEAF or COMPOUND, not {_shown(other)}")

    def _compound(self, document: Mapping[str, Json], where: str) -> dict[str, Json]:
        function = document.get("function")
        if function not in ("AND", "OR"):
            raise Invalid(f"{where}: 'function' must be AND or OR, not {_shown(function)}")
        children = document.get("children")
        if not isinstance(children, list) or not children:
            raise Invalid(f"{where}: 'children' must be a list of at least one predicate")
        return {
            "kind": "COMPOUND",
            "function": function,
            "children": [
                self.predicate(child, f"{where}.children[{at}]")
                for at, child in enumerate(children)
            ],
        }

    def _leaf(self, document: Mapping[str, Json], where: str) -> dict[str, Json]:
        function = document.get("function")
        if not isinstance(function, str) or function not in _FUNCTIONS:
            raise Invalid(
                f"{where}: function {_shown(function)} is not supported; use one of "
                f"{', '.join(_FUNCTIONS)}"
            )
        transform, data_type = self.transform(document.get("transform"), f"{where}.transform")
        if transform["name"] == "NULL" and function not in _CONSTANTS:
            raise Invalid(f"{where}.transform: NULL compares with nothing; name a column")
        literals = document.get("literals") or []
        if not isinstance(literals, list):
            raise Invalid(f"{where}: 'literals' must be a list")
        _check_literals(function, literals, data_type, where)
        return {
            "kind": "LEAF",
            "transform": transform,
            "function": function,
            "literals": literals,
        }

    def transform(self, node: Json, where: str) -> tuple[dict[str, Json], DataType]:
        """A transform and the type of its result."""
        document = _object(node, where)
        match document.get("name"):
            case "NULL":
                return {"name": "NULL"}, AtomicType(Root.BOOLEAN)
            case "FIELD_REF":
                reference, data_type = self._reference(document.get("fieldRef"), where)
                return {"name": "FIELD_REF", "fieldRef": reference}, data_type
            case "CAST":
                return self._cast(document, where)
            case ("UPPER" | "LOWER" | "CONCAT" | "CONCAT_WS") as name:
                return {"name": name, "inputs": self._inputs(name, document, where)}, _STRING
            case other:
                raise Invalid(
                    f"{where}: transform {_shown(other)} is not supported; use NULL, FIELD_REF, "
                    "CAST, UPPER, LOWER, CONCAT, CONCAT_WS"
                )

    def _cast(self, document: Mapping[str, Json], where: str) -> tuple[dict[str, Json], DataType]:
        reference, data_type = self._reference(document.get("fieldRef"), where)
        try:
            wanted = parse_type(document.get("type"))
        except Invalid as error:
            raise Invalid(f"{where}.type: {error.message}") from None
        if not has_cast(data_type, wanted):
            raise Invalid(f"{where}: {data_type} cannot be cast to {wanted}")
        return {"name": "CAST", "fieldRef": reference, "type": type_json(wanted)}, wanted

    def _inputs(self, name: str, document: Mapping[str, Json], where: str) -> list[Json]:
        inputs = document.get("inputs")
        least, most = {"UPPER": (1, 1), "LOWER": (1, 1), "CONCAT_WS": (2, None)}.get(
            name, (1, None)
        )
        if (
            not isinstance(inputs, list)
            or len(inputs) < least
            or (most is not None and len(inputs) > most)
        ):
            count = f"{least}" if most == least else f"at least {least}"
            raise Invalid(f"{where}: {name} takes {count} 'inputs'")
        return [self._text_input(each, f"{where}.inputs[{at}]") for at, each in enumerate(inputs)]

    def _text_input(self, node: Json, where: str) -> Json:
        if isinstance(node, str):
            return node
        reference, data_type = self._reference(node, where)
        if not isinstance(data_type, AtomicType) or data_type.root not in _CHARACTERS:
            raise Invalid(f"{where}: column '{reference['name']}' is {data_type}, not a string")
        return reference

    def _reference(self, node: Json, where: str) -> tuple[dict[str, Json], DataType]:
        name = node.get("name") if isinstance(node, dict) else None
        if not isinstance(name, str):
            raise Invalid(f"{where}: name a column with {{'name': …}}, not {_shown(node)}")
        column = self._schema.column(name)
        reference: dict[str, Json] = {
            "index": self._indexes[name],
            "name": name,
            "type": type_json(column.type),
        }
        return reference, column.type


def _check_literals(function: str, literals: Sequence[Json], kind: DataType, where: str) -> None:
    least, most = 1, 1
    if function in _NULL_TESTS or function in _CONSTANTS:
        least, most = 0, 0
    elif function in _RANGES:
        least, most = 2, 2
    elif function in _LISTS:
        least, most = 1, len(literals)
    if not least <= len(literals) <= most:
        count = f"{least}" if function not in _LISTS else "at least 1"
        raise Invalid(f"{where}: {function} takes {count} literals, not {len(literals)}")
    if function in _TEXT_TESTS and (
        not isinstance(kind, AtomicType)
        or kind.root not in _CHARACTERS
        or not all(isinstance(each, str) for each in literals)
    ):
        raise Invalid(f"{where}: {function} compares a string with a string, not {kind}")
    if function == "LIKE":
        like_pattern(str(literals[0]))
    if not literals:
        return
    beside = TableSchema(0, (DataField(0, "value", kind),), 0, (), (), {}, None, 0)
    for literal in literals:
        if literal is None:
            raise Invalid(f"{where}: null equals nothing; use IS_NULL or IS_NOT_NULL")
        try:
            comparison(beside, "value", "=", literal_from_json(literal))
        except Invalid:
            raise Invalid(f"{where}: {_shown(literal)} is not a literal of type {kind}") from None


def _object(node: Json, where: str) -> dict[str, Json]:
    if not isinstance(node, dict):
        raise Invalid(f"{where}: a JSON object is wanted here, not {_shown(node)}")
    return node


def _parsed(text: str, where: str) -> Json:
    refuse: Callable[[str], NoReturn] = _refuse_number
    try:
        document: Json = json.loads(text, parse_float=_exact, parse_constant=refuse)
    except Invalid as error:
        raise Invalid(f"{where}: {error.message}") from None
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{where} is not JSON: {error}") from error
    return document


def _exact(text: str) -> float:
    value = float(text)
    if Decimal(text) != Decimal(repr(value)):
        raise Invalid(f"{text} has more digits than Paimon's clients keep of a number")
    return value


def _refuse_number(text: str) -> NoReturn:
    raise Invalid(f"{text} is not a number of JSON")


def _text(document: Mapping[str, Json]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"
