"""Columns of old files as columns of the present schema."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.evolution import StoredColumn, evolve
from headwater.storage.types import DataField, Json, parse_type, to_arrow


def _row(*fields: tuple[int, str, Json]) -> Json:
    return {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, n, t in fields]}


_OLD = _row((5, "x", "INT"), (6, "y", "STRING"))
_NEW = _row((6, "renamed", "STRING"), (9, "added", "BIGINT"), (5, "x", "BIGINT"))
_BEFORE = [{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}]
_AFTER = [
    {"renamed": "a", "added": None, "x": 1},
    None,
    {"renamed": "b", "added": None, "x": None},
]


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("INT", "BIGINT", [1, None], [1, None]),
        ("INT", "DECIMAL(12, 2)", [7, None], [Decimal("7.00"), None]),
        ("FLOAT", "DOUBLE", [0.5, None], [0.5, None]),
        ("DECIMAL(5, 1)", "DECIMAL(9, 3)", [Decimal("1.5")], [Decimal("1.500")]),
        ("VARCHAR(3)", "STRING", ["abc"], ["abc"]),
        (
            "TIMESTAMP(3)",
            "TIMESTAMP(6)",
            [dt.datetime(2024, 1, 1, 1)],
            [dt.datetime(2024, 1, 1, 1)],
        ),
        (_OLD, _NEW, _BEFORE, _AFTER),
        (
            {"type": "ARRAY", "element": _OLD},
            {"type": "ARRAY", "element": _NEW},
            [_BEFORE, None, []],
            [_AFTER, None, []],
        ),
        (
            {"type": "MAP", "key": "STRING", "value": _OLD},
            {"type": "MAP", "key": "STRING", "value": _NEW},
            [None, [("a", _BEFORE[0]), ("b", None)], []],
            [None, [("a", _AFTER[0]), ("b", None)], []],
        ),
        # The same names with other ids are other fields.
        (
            _row((1, "x", "INT")),
            _row((2, "x", "INT")),
            [{"x": 1}],
            [{"x": None}],
        ),
    ],
)
def test_values_survive(old: Json, new: Json, before: list[object], after: list[object]) -> None:
    stored, wanted = parse_type(old), parse_type(new)
    for start in range(2):
        array = pa.array([before[0], *before], to_arrow(stored)).slice(1)
        result = evolve(array.slice(start), stored, wanted)
        result.validate(full=True)
        assert result.type == to_arrow(wanted)
        assert result.to_pylist() == after[start:]


@pytest.mark.parametrize(
    ("old", "new"), [("BIGINT", "INT"), ("STRING", "INT"), ("INT", _OLD), ("TIMESTAMP(6)", "DATE")]
)
def test_lossy_changes_are_refused(old: Json, new: Json) -> None:
    stored, wanted = parse_type(old), parse_type(new)
    column = StoredColumn(DataField(1, "c", wanted), DataField(1, "c", stored))
    with pytest.raises(Unsupported, match=r"file x: column 'c'"):
        column.convert(pa.nulls(1, to_arrow(stored)), 1, "file x")


def test_a_column_of_another_type_than_its_schema_says_is_corrupt() -> None:
    column = StoredColumn(
        DataField(1, "c", parse_type("BIGINT")), DataField(1, "old", parse_type("INT"))
    )
    with pytest.raises(CorruptData, match=r"file x: column 'old' is stored as string"):
        column.convert(pa.array(["a"]), 1, "file x")


def test_a_column_the_file_does_not_know_is_null() -> None:
    column = StoredColumn(DataField(1, "c", parse_type("DATE")), None)
    assert column.convert(None, 2, "file x").equals(pa.nulls(2, pa.date32()))
