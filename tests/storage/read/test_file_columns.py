"""Columns of old files as columns of the present schema."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.storage.errors import CorruptData, Invalid, Unsupported
from headwater.storage.read.file_columns import StoredColumn, evolve
from headwater.storage.types.data_type import DataField, Json, parse_type, to_arrow


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


def _column(old: Json, new: Json, *, newer: bool = False) -> StoredColumn:
    stored, wanted = parse_type(old), parse_type(new)
    return StoredColumn(DataField(1, "c", wanted), DataField(1, "c", stored), newer)


def _lists_in_map(element: Json) -> Json:
    return {"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": element}}


def test_fields_of_nested_types_are_cast() -> None:
    old = _lists_in_map(_row((1, "x", "BIGINT")))
    new = _lists_in_map(_row((1, "y", "CHAR(3)")))
    before = [[("a", [{"x": 12345}, None, {"x": None}]), ("b", None)], None, []]
    array = pa.array([[("z", [{"x": 1}])], *before], to_arrow(parse_type(old))).slice(1)
    result = _column(old, new).convert(array, len(array), "file x")
    result.validate(full=True)
    assert result.to_pylist() == [
        [("a", [{"y": "123"}, None, {"y": None}]), ("b", None)], None, []
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "value", "message"),
    [
        ("STRING", "INT", "abc", "'abc' is no value of INT; change"),
        ("STRING", "DATE", "2023-02-29", "'2023-02-29' is no value of DATE"),
        ("DOUBLE", "DECIMAL(5, 2)", float("nan"), "NaN"),
        ("BYTES", "STRING", b"\xff", "not UTF-8"),
        ("DECIMAL(5, 2)", "DECIMAL(2, 1) NOT NULL", Decimal("99.9"), "too great"),
        ("TIMESTAMP(3)", "TIMESTAMP(9)", dt.datetime(9999, 1, 1), "too far from 1970"),
    ],
)
def test_a_value_that_cannot_be_cast_names_its_file_and_column(
    old: Json, new: Json, value: object, message: str
) -> None:
    array = pa.array([value], to_arrow(parse_type(old)))
    with pytest.raises(Invalid, match=rf"file x: column 'c' was written as .*: .*{message}"):
        _column(old, new).convert(array, 1, "file x")


@pytest.mark.parametrize(
    ("old", "new"), [("INT", _OLD), ("INT", "DATE"), (_OLD, "INT"), ("STRING", _OLD)]
)
def test_types_without_a_cast_between_them_are_not_read(old: Json, new: Json) -> None:
    with pytest.raises(Unsupported, match=r"file x: column 'c' .* no cast from"):
        _column(old, new).convert(pa.nulls(1, to_arrow(parse_type(old))), 1, "file x")


@pytest.mark.parametrize(
    ("old", "new"),
    [("BIGINT", "INT"), ("STRING", "INT"), (_row((5, "x", "BIGINT")), _row((5, "x", "INT")))],
)
def test_a_file_newer_than_the_schema_loses_nothing(old: Json, new: Json) -> None:
    array = pa.nulls(1, to_arrow(parse_type(old)))
    with pytest.raises(Unsupported, match=r"file x: column 'c' became .* open the table again"):
        _column(old, new, newer=True).convert(array, 1, "file x")


def test_a_file_newer_than_the_schema_is_widened() -> None:
    array = pa.array([7], pa.int32())
    assert _column("INT", "BIGINT", newer=True).convert(array, 1, "file x").to_pylist() == [7]


def test_a_column_of_another_type_than_its_schema_says_is_corrupt() -> None:
    column = StoredColumn(
        DataField(1, "c", parse_type("BIGINT")), DataField(1, "old", parse_type("INT"))
    )
    with pytest.raises(CorruptData, match=r"file x: column 'old' is stored as string"):
        column.convert(pa.array(["a"]), 1, "file x")


def test_a_column_the_file_does_not_know_is_null() -> None:
    column = StoredColumn(DataField(1, "c", parse_type("DATE")), None)
    assert column.convert(None, 2, "file x").equals(pa.nulls(2, pa.date32()))
