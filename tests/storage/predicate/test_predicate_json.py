"""Paimon's JSON predicates: what is understood is exact, what is not selects more, never less."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from headwater.storage.errors import Invalid
from headwater.storage.predicate.filter import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Or,
    Predicate,
    StartsWith,
)
from headwater.storage.predicate.json_form import predicate_from_json
from headwater.storage.schema.table_schema import Schema, TableSchema

TRUE = Constant(True)


@pytest.fixture(scope="module")
def schema() -> TableSchema:
    columns = pa.schema([("dt", pa.string()), ("hour", pa.int32()), ("day", pa.date32())])
    asked = Schema.from_arrow(columns)
    return TableSchema(0, asked.fields, 2, (), (), {}, None, 0)


def _leaf(
    column: str, function: str, *literals: object, kind: str = "INT", transform: str = "FIELD_REF"
) -> dict[str, object]:
    return {
        "kind": "LEAF",
        "transform": {"name": transform, "fieldRef": {"index": 0, "name": column, "type": kind}},
        "function": function,
        "literals": list(literals),
    }


def _read(document: object, schema: TableSchema) -> Predicate:
    return predicate_from_json(json.dumps(document), schema)


@pytest.mark.parametrize(
    ("function", "literals", "expected"),
    [
        ("EQUAL", [7], Comparison("hour", "=", 7)),
        ("NOT_EQUAL", [7], Comparison("hour", "!=", 7)),
        ("LESS_THAN", [7], Comparison("hour", "<", 7)),
        ("LESS_OR_EQUAL", [7], Comparison("hour", "<=", 7)),
        ("GREATER_THAN", [7], Comparison("hour", ">", 7)),
        ("GREATER_OR_EQUAL", [7], Comparison("hour", ">=", 7)),
        ("IS_NULL", [], IsNull("hour")),
        ("IS_NOT_NULL", [], IsNull("hour", negated=True)),
        ("IN", [1, 2], In("hour", (1, 2))),
        ("NOT_IN", [1, 2], In("hour", (1, 2), negated=True)),
        ("BETWEEN", [1, 3], And((Comparison("hour", ">=", 1), Comparison("hour", "<=", 3)))),
        ("NOT_BETWEEN", [1, 3], Or((Comparison("hour", "<", 1), Comparison("hour", ">", 3)))),
        ("FALSE", [], Constant(False)),
        ("TRUE", [], TRUE),
    ],
)
def test_functions(
    schema: TableSchema, function: str, literals: list[object], expected: Predicate
) -> None:
    assert _read(_leaf("hour", function, *literals), schema) == expected


def test_compounds(schema: TableSchema) -> None:
    document = {
        "kind": "COMPOUND",
        "function": "AND",
        "children": [
            _leaf("dt", "STARTS_WITH", "2026", kind="STRING"),
            {
                "kind": "COMPOUND",
                "function": "OR",
                "children": [_leaf("hour", "EQUAL", 1), _leaf("hour", "EQUAL", 2)],
            },
        ],
    }
    hours = Or((Comparison("hour", "=", 1), Comparison("hour", "=", 2)))
    assert _read(document, schema) == And((StartsWith("dt", "2026"), hours))


@pytest.mark.parametrize("written", ["2026-01-02", [2026, 1, 2]])
def test_dates_are_text_or_parts(schema: TableSchema, written: object) -> None:
    assert _read(_leaf("day", "EQUAL", written), schema) == Comparison("day", "=", 20455)


@pytest.mark.parametrize(
    "document",
    [
        _leaf("nope", "EQUAL", 1),
        _leaf("nope", "IS_NULL"),
        _leaf("hour", "SOUNDS_LIKE", 1),
        _leaf("hour", "EQUAL", "seven"),
        _leaf("hour", "EQUAL"),
        _leaf("hour", "BETWEEN", 1),
        _leaf("dt", "STARTS_WITH", 1),
        _leaf("dt", "EQUAL", "A", transform="UPPER"),
        {"kind": "LEAF", "function": "EQUAL"},
        {"kind": "NEITHER"},
        {"kind": "COMPOUND", "function": "XOR", "children": []},
        {},
    ],
)
def test_what_is_not_known_is_true(schema: TableSchema, document: object) -> None:
    assert _read(document, schema) == TRUE


def test_what_is_not_known_does_not_hide_what_is(schema: TableSchema) -> None:
    children = [_leaf("nope", "EQUAL", 1), _leaf("hour", "EQUAL", 1)]
    document = {"kind": "COMPOUND", "function": "AND", "children": children}
    assert _read(document, schema) == And((TRUE, Comparison("hour", "=", 1)))


@pytest.mark.parametrize("text", ["", "dt = 1", "[]", "null", '"dt"', "[" * 100_000])
def test_other_text_is_refused(schema: TableSchema, text: str) -> None:
    with pytest.raises(Invalid, match="filter"):
        predicate_from_json(text, schema)
