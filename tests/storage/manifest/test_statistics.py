from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.storage.errors import Invalid
from headwater.storage.manifest.data_file import SimpleStats
from headwater.storage.manifest.statistics import (
    EMPTY_STATS,
    column_statistics,
    statistics_modes,
    value_statistics,
)
from headwater.storage.options import TableOptions
from headwater.storage.options.statistics_mode import StatisticsMode
from headwater.storage.rows.binary_row import deserialize_row
from headwater.storage.types.data_type import DataField, Json, parse_type, to_arrow
from headwater.storage.types.values import StorageValue

Range = tuple[StorageValue, StorageValue, int | None]


def _field(text: Json, name: str = "c") -> DataField:
    return DataField(0, name, parse_type(text))


def _one(values: Sequence[object], text: Json, mode: str = "truncate(16)") -> Range:
    field = _field(text)
    table = pa.table({"c": pa.array(values, to_arrow(field.type))})
    stats = column_statistics(table, [field], StatisticsMode.parse(mode))
    (low,) = deserialize_row(stats.min_values, [field.type])
    (high,) = deserialize_row(stats.max_values, [field.type])
    return low, high, stats.null_counts[0]


@pytest.mark.parametrize(
    ("values", "text", "expected"),
    [
        ([3, None, -1], "INT", (-1, 3, 1)),
        ([], "INT", (None, None, 0)),
        ([None, None], "STRING", (None, None, 2)),
        ([True, False], "BOOLEAN", (False, True, 0)),
        ([2**62, -(2**62)], "BIGINT", (-(2**62), 2**62, 0)),
        (
            [Decimal("1.50"), Decimal("-2")],
            "DECIMAL(20, 2)",
            (Decimal("-2.00"), Decimal("1.50"), 0),
        ),
        ([5, -5, None], "DATE", (-5, 5, 1)),
        ([5, 6], "TIME(3)", (5, 6, 0)),
        ([5, -5], "TIMESTAMP(3)", (-5, 5, 0)),
        ([5, -5], "TIMESTAMP(6) WITH LOCAL TIME ZONE", (-5, 5, 0)),
        ([b"\x80", b"\x7f"], "BYTES", (b"\x7f", b"\x80", 0)),
        (["\U0001f30d", "\uffff"], "STRING", ("\uffff", "\U0001f30d", 0)),
        # Parquet gives INT96 no order.
        ([5, -5, None], "TIMESTAMP(9)", (None, None, 1)),
        # A NaN has no place in a range; the sign of a zero is not told apart.
        ([1.0, math.nan, None], "DOUBLE", (None, None, 1)),
        ([math.nan], "FLOAT", (None, None, 0)),
        ([-math.inf, math.inf], "DOUBLE", (-math.inf, math.inf, 0)),
        ([[1], None], {"type": "ARRAY", "element": "INT"}, (None, None, 1)),
    ],
)
def test_a_column_has_its_true_range(values: list[object], text: Json, expected: Range) -> None:
    assert _one(values, text) == expected


def test_a_zero_is_both_zeros() -> None:
    low, high, _ = _one([0.0], "DOUBLE")
    assert (repr(low), repr(high)) == ("-0.0", "0.0")
    low, high, _ = _one([-0.0], "FLOAT")
    assert (repr(low), repr(high)) == ("-0.0", "0.0")


@pytest.mark.parametrize(
    ("values", "text", "expected"),
    [
        (["abcdef", "ab"], "STRING", ("ab", "abd", 0)),
        (["abc"], "STRING", ("abc", "abc", 0)),
        (["abcd"], "STRING", ("abc", "abd", 0)),
        (["世界世界"], "STRING", ("世界世", "世界丗", 0)),
        # Surrogates are skipped, and a last code point that cannot grow is dropped.
        (["ab\ud7ffx"], "STRING", ("ab\ud7ff", "ab\ue000", 0)),
        (["ab\U0010ffffx"], "STRING", ("ab\U0010ffff", "ac", 0)),
        (["\U0010ffff" * 4, None], "STRING", (None, None, 1)),
        ([b"\x01\x02\x03\x04"], "BYTES", (b"\x01\x02\x03", b"\x01\x02\x04", 0)),
        ([b"\x01\xff\xff\x04"], "BYTES", (b"\x01\xff\xff", b"\x02", 0)),
        ([b"\xff" * 4], "BYTES", (None, None, 0)),
        ([b"\xff" * 3], "BYTES", (b"\xff" * 3, b"\xff" * 3, 0)),
    ],
)
def test_long_values_are_cut_outwards(values: list[object], text: str, expected: Range) -> None:
    assert _one(values, text, "truncate(3)") == expected


def test_modes_keep_more_or_less() -> None:
    values: list[object] = ["abcdef", None]
    assert _one(values, "STRING", "full") == ("abcdef", "abcdef", 1)
    assert _one(values, "STRING", "counts") == (None, None, 1)
    assert _one(values, "STRING", "none") == (None, None, None)
    assert _one(values, "STRING", "TRUNCATE(2)") == ("ab", "ac", 1)


@pytest.mark.parametrize("text", ["", "all", "truncate", "truncate(0)", "truncate(-1)", "full(3)"])
def test_another_mode_is_invalid(text: str) -> None:
    with pytest.raises(Invalid):
        StatisticsMode.parse(text)


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1), st.integers(1, 6))
def test_cut_texts_bound_all_values(values: list[str], length: int) -> None:
    low, high, _ = _one(values, "STRING", f"truncate({length})")
    if low is not None:
        assert isinstance(low, str)
        assert isinstance(high, str)
        encoded = [value.encode() for value in values]
        assert low.encode() <= min(encoded)
        assert high.encode() >= max(encoded)
        assert max(len(low), len(high)) <= length


@settings(deadline=None)
@given(st.lists(st.binary(max_size=8), min_size=1), st.integers(1, 6))
def test_cut_bytes_bound_all_values(values: list[bytes], length: int) -> None:
    low, high, _ = _one(values, "BYTES", f"truncate({length})")
    if low is not None:
        assert isinstance(low, bytes)
        assert isinstance(high, bytes)
        assert low <= min(values)
        assert high >= max(values)
        assert max(len(low), len(high)) <= length


def test_columns_are_found_by_name_in_any_arrow_form() -> None:
    table = pa.table(
        {
            "s": pa.chunked_array([["b"], ["a"]], pa.large_string()),
            "d": pa.array(["x", None]).dictionary_encode(),
        }
    )
    fields = [_field("STRING", "d"), _field("STRING", "s")]
    stats = column_statistics(table, fields, StatisticsMode.parse("full"))
    types = [field.type for field in fields]
    assert deserialize_row(stats.min_values, types) == ("x", "a")
    assert deserialize_row(stats.max_values, types) == ("x", "b")
    assert stats.null_counts == (1, 0)


TABLE = pa.table({name: ["x" * 200] for name in "abc"})
FIELDS = [_field("STRING", name) for name in "abc"]


def _lengths(stats: SimpleStats, count: int) -> list[int | None]:
    row = deserialize_row(stats.min_values, [FIELDS[0].type] * count)
    return [len(value) if isinstance(value, str) else None for value in row]


def test_value_statistics_follow_the_options() -> None:
    stats, columns = value_statistics(TABLE, FIELDS, TableOptions({}))
    assert (_lengths(stats, 3), columns) == ([16, 16, 16], None)

    options = {"metadata.stats-mode": "none", "fields.b.stats-mode": "truncate(5)"}
    stats, columns = value_statistics(TABLE, FIELDS, TableOptions(options))
    assert (_lengths(stats, 1), columns) == ([5], ("b",))

    sparse = TableOptions(options | {"metadata.stats-dense-store": "false"})
    stats, columns = value_statistics(TABLE, FIELDS, sparse)
    assert (_lengths(stats, 3), columns) == ([None, 5, None], None)
    assert stats.null_counts == (None, 0, None)

    stats, columns = value_statistics(TABLE, FIELDS, TableOptions({"metadata.stats-mode": "none"}))
    assert (stats, columns) == (EMPTY_STATS, ())

    stats, columns = value_statistics(
        TABLE, FIELDS, TableOptions({"metadata.stats-keep-first-n-columns": "1"})
    )
    assert (_lengths(stats, 1), columns) == ([16], ("a",))


def test_the_keys_of_a_thin_file_keep_longer_values() -> None:
    options = TableOptions({"metadata.stats-keep-first-n-columns": "1"})
    modes = statistics_modes(FIELDS, options, thin_keys={"a"})
    assert modes == [StatisticsMode.parse(t) for t in ("truncate(128)", "truncate(16)", "none")]
