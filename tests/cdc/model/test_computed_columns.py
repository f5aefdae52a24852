"""Computed columns: definitions, types and values."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.model.computed_columns import ComputedColumn
from headwater.storage.errors import Invalid
from headwater.storage.types.data_type import DataType, parse_type, to_arrow

AT = datetime(2024, 2, 29, 23, 5, 9, 999_999)


def computed(definition: str, type_: str, *values: object) -> tuple[str, list[Any]]:
    """The type and the values of a column that is computed from a column ``a``."""
    column = ComputedColumn.parse(f"c={definition}")
    source = parse_type(type_)
    result: DataType = column.type({"a": source})
    array = column.values({"a": pa.array(values, to_arrow(source))}, len(values), result)
    assert array.type == to_arrow(result)
    assert pickle.loads(pickle.dumps(column)) == column
    return str(result), array.to_pylist()


@pytest.mark.parametrize(
    ("definition", "type_", "value", "expected"),
    [
        ("year(a)", "TIMESTAMP(6)", AT, ("INT", 2024)),
        ("MONTH( a )", "TIMESTAMP(3) NOT NULL", AT, ("INT NOT NULL", 2)),
        ("day(a)", "DATE", date(2024, 2, 29), ("INT", 29)),
        ("hour(a)", "DATE", date(2024, 2, 29), ("INT", 0)),
        ("hour(a)", "TIMESTAMP(6)", AT, ("INT", 23)),
        ("minute(a)", "TIMESTAMP(9)", AT, ("INT", 5)),
        ("second(a)", "TIMESTAMP_LTZ(6)", AT.replace(tzinfo=UTC), ("INT", 9)),
        ("year(a)", "BIGINT", 86400 * 366, ("INT", 1971)),
        ("second(a, 3)", "BIGINT", 61_999, ("INT", 1)),
        ("minute(a, 9)", "BIGINT", -1, ("INT", 59)),
        ("date_format(a, yyyy-MM-dd)", "DATE", date(99, 1, 2), ("STRING", "0099-01-02")),
        ("date_format(a, yyyyMMdd HH:mm:ss)", "TIMESTAMP(6)", AT, ("STRING", "20240229 23:05:09")),
        ("date_format(a, 'h'HH''%,)", "TIMESTAMP(3)", AT, None),
        ("date_format(a, 'h'HH''%)", "TIMESTAMP(3)", AT, ("STRING", "h23'%")),
        ("date_format(a, yyyy, 6)", "BIGINT NOT NULL", 0, ("STRING NOT NULL", "1970")),
        ("substring(a, 1)", "VARCHAR(9)", "aé𝄞x", ("STRING", "é𝄞x")),
        ("substring(a, 1, 3)", "STRING", "aé𝄞x", ("STRING", "é𝄞")),
        ("substring(a, 5)", "STRING", "ab", ("STRING", "")),
        ("truncate(a, 10)", "INT", -7, ("INT", -10)),
        ("truncate(a, 10)", "TINYINT NOT NULL", 127, ("TINYINT NOT NULL", 120)),
        ("truncate(a, 7)", "BIGINT", 2**62, ("BIGINT", 2**62 - 2**62 % 7)),
        ("truncate(a, 2)", "VARCHAR(5)", "abc", ("VARCHAR(5)", "ab")),
        ("upper(a)", "CHAR(3)", "aéx", ("STRING", "AÉX")),
        ("lower(a)", "STRING", "ABC", ("STRING", "abc")),
        ("trim(a)", "STRING", "\t a b\n\x00", ("STRING", "a b")),
        ("cast(7, INT)", "STRING", "x", ("INT NOT NULL", 7)),
        ("cast(north)", "STRING", None, ("STRING NOT NULL", "north")),
    ],
)
def test_values(definition: str, type_: str, value: object, expected: tuple[str, Any]) -> None:
    if expected is None:
        with pytest.raises(Invalid):
            computed(definition, type_, value)
        return
    assert computed(definition, type_, value) == (expected[0], [expected[1]])
    if "NOT NULL" not in expected[0]:
        assert computed(definition, type_, None, value)[1] == [None, expected[1]]


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
def test_times_are_formatted_as_python_does(value: datetime) -> None:
    _, texts = computed("date_format(a, yyyy/MM/dd-HH.mm.ss)", "TIMESTAMP(6)", value)
    assert texts == [f"{value.year:04}" + value.strftime("/%m/%d-%H.%M.%S")]
    seconds = (value - datetime(1970, 1, 1)) // timedelta(seconds=1)
    assert computed("date_format(a, yyyy/MM/dd-HH.mm.ss)", "BIGINT", seconds)[1] == texts


@pytest.mark.parametrize(
    ("definition", "type_", "problem"),
    [
        ("year(b)", "INT", "the table has no column 'b'"),
        ("year(a)", "STRING", "column 'a' is STRING, and year takes DATE, TIMESTAMP"),
        ("upper(a)", "INT", "column 'a' is INT, and upper takes CHAR, VARCHAR"),
        ("truncate(a, 3)", "DECIMAL(9, 2)", "and truncate takes CHAR, VARCHAR, TINYINT"),
        ("truncate(a, 3)", "BIGINT", "a multiple of 3 is below the least BIGINT"),
        ("truncate(a, 100)", "TINYINT", "a value cannot be computed"),
    ],
)
def test_columns_that_do_not_fit_are_rejected(definition: str, type_: str, problem: str) -> None:
    least = {"BIGINT": -(2**63), "TINYINT": -128}.get(type_)
    with pytest.raises(Invalid, match=f"^computed column 'c=.*{problem}"):
        computed(definition, type_, least)
