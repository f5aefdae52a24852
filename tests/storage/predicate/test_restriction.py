"""Row filters and column masks over Arrow rows: Paimon's functions, and closed in doubt."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence

import pyarrow as pa
import pytest

from headwater.storage.errors import Forbidden
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.predicate.restriction import RestrictedRows, Restriction
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.types.data_type import Json

ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("text", pa.string()),
        ("number", pa.float64()),
        ("day", pa.date32()),
    ]
)
FIELDS = Schema.from_arrow(ARROW).fields
SCHEMA = TableSchema(0, FIELDS, len(FIELDS), (), (), {}, None, 0)
ROWS = pa.RecordBatch.from_pydict(
    {
        "id": [1, 2, 3, 4],
        "text": ["alpha", "a_b%", "line\nbreak", None],
        "number": [1.5, float("nan"), -0.0, None],
        "day": [dt.date(2026, 1, day) for day in (1, 2, 3)] + [None],
    },
    schema=ARROW,
)


def _field(name: str) -> dict[str, Json]:
    return {"name": "FIELD_REF", "fieldRef": {"index": 0, "name": name, "type": "STRING"}}


def _leaf(function: str, transform: Json, *literals: Json) -> dict[str, Json]:
    return {
        "kind": "LEAF",
        "transform": transform,
        "function": function,
        "literals": list(literals),
    }


def _shown(
    filters: Sequence[Json], masks: dict[str, Json] | None = None, where: str | None = None
) -> pa.RecordBatch:
    restriction = Restriction(
        tuple(json.dumps(each) for each in filters),
        {name: json.dumps(each) for name, each in (masks or {}).items()},
    )
    condition = None if where is None else parse_predicate(where, SCHEMA)
    return RestrictedRows("t", restriction, SCHEMA, condition, lambda: dt.UTC).shown(ROWS)


TEXT, NUMBER, DAY = _field("text"), _field("number"), _field("day")
UPPER: Json = {"name": "UPPER", "inputs": [{"name": "text"}]}
YEAR: Json = {"name": "CAST", "fieldRef": {"name": "day"}, "type": "STRING"}


@pytest.mark.parametrize(
    ("document", "ids"),
    [
        (_leaf("EQUAL", TEXT, "alpha"), [1]),
        (_leaf("NOT_EQUAL", TEXT, "alpha"), [2, 3]),
        (_leaf("EQUAL", UPPER, "ALPHA"), [1]),
        (_leaf("LESS_THAN", NUMBER, 1), [3]),
        (_leaf("LESS_OR_EQUAL", NUMBER, 1.5), [1, 3]),
        (_leaf("GREATER_THAN", NUMBER, 1), [1, 2]),
        (_leaf("GREATER_OR_EQUAL", DAY, "2026-01-02"), [2, 3]),
        (_leaf("EQUAL", DAY, [2026, 1, 3]), [3]),
        (_leaf("EQUAL", NUMBER, 0), [3]),
        (_leaf("IN", TEXT, "alpha", "x"), [1]),
        (_leaf("NOT_IN", TEXT, "alpha", "x"), [2, 3]),
        (_leaf("BETWEEN", DAY, "2026-01-02", "2026-01-03"), [2, 3]),
        (_leaf("NOT_BETWEEN", DAY, "2026-01-02", "2026-01-03"), [1]),
        (_leaf("IS_NULL", TEXT), [4]),
        (_leaf("IS_NOT_NULL", TEXT), [1, 2, 3]),
        (_leaf("STARTS_WITH", TEXT, "al"), [1]),
        (_leaf("ENDS_WITH", YEAR, "-03"), [3]),
        (_leaf("CONTAINS", TEXT, "_b"), [2]),
        (_leaf("LIKE", TEXT, "a%"), [1, 2]),
        (_leaf("LIKE", TEXT, "a\\_b\\%"), [2]),
        (_leaf("LIKE", TEXT, "line%"), [3]),
        (_leaf("LIKE", TEXT, "line_break"), []),
        (_leaf("TRUE", {"name": "NULL"}), [1, 2, 3, 4]),
        (_leaf("FALSE", {"name": "NULL"}), []),
        (
            {
                "kind": "COMPOUND",
                "function": "OR",
                "children": [_leaf("IS_NULL", TEXT), _leaf("EQUAL", TEXT, "alpha")],
            },
            [1, 4],
        ),
        (
            {
                "kind": "COMPOUND",
                "function": "AND",
                "children": [_leaf("LIKE", TEXT, "a%"), _leaf("GREATER_THAN", NUMBER, 100)],
            },
            [2],
        ),
    ],
)
def test_a_filter_shows_the_rows_that_it_is_true_of(document: Json, ids: list[int]) -> None:
    assert _shown([document])["id"].to_pylist() == ids


def test_all_filters_hold_before_masks_and_the_condition_after() -> None:
    mask: Json = {"name": "CONCAT", "inputs": ["<", {"name": "text"}, ">"]}
    filters = [_leaf("LIKE", TEXT, "a%"), _leaf("EQUAL", NUMBER, 1.5)]
    assert _shown(filters, {"text": mask}).to_pydict()["text"] == ["<alpha>"]
    assert _shown(filters, {"text": mask}, "text = 'alpha'").num_rows == 0
    assert _shown(filters, {"text": mask}, "text = '<alpha>'").num_rows == 1


@pytest.mark.parametrize(
    ("transform", "texts"),
    [
        ({"name": "NULL"}, [None] * 4),
        (UPPER, ["ALPHA", "A_B%", "LINE\nBREAK", None]),
        ({"name": "LOWER", "inputs": ["XyZ"]}, ["xyz"] * 4),
        (
            {"name": "CONCAT", "inputs": ["*", {"name": "text"}]},
            ["*alpha", "*a_b%", "*line\nbreak", None],
        ),
        (
            {"name": "CONCAT_WS", "inputs": ["-", "x", {"name": "text"}]},
            ["x-alpha", "x-a_b%", "x-line\nbreak", "x"],
        ),
        (YEAR, ["2026-01-01", "2026-01-02", "2026-01-03", None]),
    ],
)
def test_a_mask_takes_the_place_of_values(transform: Json, texts: list[str | None]) -> None:
    shown = _shown([], {"text": transform})
    assert shown["text"].to_pylist() == texts
    assert shown.schema == ARROW


@pytest.mark.parametrize(
    ("filters", "masks"),
    [
        ([_leaf("IS_NAN", NUMBER)], {}),
        ([_leaf("EQUAL", TEXT, "a", "b")], {}),
        ([_leaf("EQUAL", {"name": "SUBSTRING", "inputs": []}, "a")], {}),
        ([_leaf("EQUAL", _field("gone"), "a")], {}),
        ([_leaf("LIKE", TEXT, "broken\\")], {}),
        ([{"kind": "NOT"}], {}),
        ([], {"text": {"name": "HASH"}}),
        ([], {"id": {"name": "NULL"}}),
        ([], {"number": {"name": "CAST", "fieldRef": {"name": "text"}, "type": "DOUBLE"}}),
    ],
)
def test_what_is_not_understood_or_fails_shows_nothing(
    filters: list[Json], masks: dict[str, Json]
) -> None:
    with pytest.raises(Forbidden) as caught:
        _shown(filters, masks)
    assert "alpha" not in str(caught.value)


def test_the_columns_that_policies_need_are_read_with_those_that_are_shown() -> None:
    mask = json.dumps({"name": "CONCAT", "inputs": [{"name": "day"}]})
    restriction = Restriction((json.dumps(_leaf("EQUAL", NUMBER, 1)),), {"text": mask})
    assert restriction.columns_for(["id"]) == ["id", "number"]
    assert restriction.columns_for(["text"]) == ["text", "day", "number"]
    assert not Restriction()
    assert restriction.fingerprint != Restriction().fingerprint
