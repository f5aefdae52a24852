"""Comparable arrays order rows as Paimon's generated comparators do."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.storage.errors import Invalid
from headwater.storage.rows.ordering import (
    Comparable,
    OrderColumn,
    RowOrder,
    argsort,
    sorted_distinct,
)


def _java_double(value: float) -> tuple[int, float, int]:
    """A key that orders floats as ``Double.compare`` does."""
    if math.isnan(value):
        return (1, 0.0, 0)
    return (0, value, 0 if math.copysign(1.0, value) < 0 else 1)


_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_DECIMAL = st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-3))
_CASES = [
    (pa.int8(), st.integers(-128, 127), lambda v: v),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1), lambda v: v),
    (pa.int32(), _INT32, lambda v: v),
    (pa.int64(), _INT64, lambda v: v),
    (pa.bool_(), st.booleans(), lambda v: v),
    (pa.float64(), st.floats(), _java_double),
    (pa.float32(), st.floats(width=32), _java_double),
    (pa.string(), st.text(max_size=6), lambda v: v.encode()),
    (pa.binary(), st.binary(max_size=6), lambda v: v),
    (pa.decimal128(23, 3), _DECIMAL, lambda v: v),
]


@pytest.mark.parametrize(("arrow", "values", "key"), _CASES, ids=lambda case: str(case)[:12])
@given(data=st.data())
def test_one_column_is_ordered_by_value(
    arrow: pa.DataType,
    values: st.SearchStrategy[Any],
    key: Callable[[Any], Any],
    data: st.DataObject,
) -> None:
    column = data.draw(st.lists(values, max_size=30))
    rows = RowOrder([OrderColumn(arrow)]).encode([pa.array(column, arrow)])
    assert len(rows) == len(column)
    for i, a in enumerate(column):
        for j, b in enumerate(column):
            assert bool(np.less(rows[i], rows[j])) == (key(a) < key(b))
            assert bool(np.equal(rows[i], rows[j])) == (key(a) == key(b))


@given(
    st.lists(st.tuples(_INT32, st.text("ab\0é", max_size=3), st.none() | _INT64), max_size=25),
    st.booleans(),
)
def test_several_columns_with_nulls_lowest_either_way(
    column: list[tuple[int, str, int | None]], descending: bool
) -> None:
    order = RowOrder(
        [
            OrderColumn(pa.int32()),
            OrderColumn(pa.string()),
            OrderColumn(pa.int64(), nullable=True, descending=descending),
        ]
    )
    types = [pa.int32(), pa.string(), pa.int64()]
    arrays = [pa.array([row[i] for row in column], t) for i, t in enumerate(types)]
    rows = order.encode(arrays)

    def key(row: tuple[int, str, int | None]) -> tuple[int, bytes, tuple[bool, int]]:
        number, text, last = row
        sign = -1 if descending else 1
        return (number, text.encode(), (last is not None, sign * (last or 0)))

    expected = sorted(range(len(column)), key=lambda i: key(column[i]))
    assert [column[i] for i in argsort(rows)] == [column[i] for i in expected]


def test_slices_and_widths_of_other_arrays() -> None:
    order = RowOrder([OrderColumn(pa.string())])
    short, long = pa.array(["zz", "b", "é"]).slice(1), pa.array(["b", "bbbbbb"])
    encoding = order.encoding([[short], [long]])
    left, right = order.encode([short], encoding), order.encode([long], encoding)
    assert left.tolist()[0] == right.tolist()[0]
    assert left.tolist()[1] > right.tolist()[1]


_LARGE = st.integers(0, 5) | st.sampled_from([2**61, 2**62, 2**63 - 1])


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40))
def test_argsort_of_narrow_rows(values: list[int]) -> None:
    rows: Comparable = np.array(values, np.int32)
    assert argsort(rows).tolist() == sorted(range(len(values)), key=lambda i: values[i])


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@given(st.lists(_LARGE, max_size=40))
def test_argsort_keeps_the_order_of_equal_rows(dtype: type, values: list[int]) -> None:
    if dtype is np.int64:
        values = [value - 2**62 for value in values]
    rows: Comparable = np.array(values, dtype)
    assert argsort(rows).tolist() == sorted(range(len(values)), key=lambda i: values[i])


@pytest.mark.parametrize("width", [9, 16, 50])
@given(st.data())
def test_argsort_keeps_the_order_of_equal_bytes(width: int, data: st.DataObject) -> None:
    few = st.sampled_from([b"\0", b"a", b"\xff"])
    one = st.lists(few, min_size=width, max_size=width).map(b"".join)
    distinct = data.draw(st.lists(one, min_size=1, max_size=8))
    values = data.draw(st.lists(st.sampled_from(distinct), max_size=30))
    rows = np.array(values, f"S{width}")
    assert argsort(rows).tolist() == sorted(range(len(values)), key=lambda i: values[i])


def test_negative_zero_is_below_zero() -> None:
    rows = RowOrder([OrderColumn(pa.float64())]).encode([pa.array([0.0, -0.0])])
    assert rows.tolist()[1] < rows.tolist()[0]
    assert struct.pack(">d", -0.0) != struct.pack(">d", 0.0)


def test_nested_columns_have_no_order() -> None:
    with pytest.raises(Invalid, match="list"):
        RowOrder([OrderColumn(pa.list_(pa.int32()))])


@given(
    st.lists(st.tuples(st.integers(0, 80), st.text("a\0é", max_size=4)), max_size=40),
    st.booleans(),
)
def test_long_values_are_compared_by_rank(pairs: list[tuple[int, str]], descending: bool) -> None:
    # One value is so long that padding all to it would take far more bytes than they need.
    texts = ["x" * length + tail for length, tail in pairs] + ["x" * 3_000_000]
    column = OrderColumn(pa.string(), descending=descending)
    order = RowOrder([column])
    halves = [pa.array(texts[::2]), pa.array([*texts[1::2], *[""] * 30])]
    encoding = order.encoding([[half] for half in halves])
    assert encoding.long[0] is not None
    rows = np.concatenate([order.encode([half], encoding) for half in halves])
    assert rows.dtype.itemsize < 100
    values = [value.encode() for half in halves for value in half.to_pylist()]
    expected = sorted(range(len(values)), key=lambda i: values[i], reverse=descending)
    assert [values[i] for i in argsort(rows)] == [values[i] for i in expected]


def test_values_of_one_size_are_not_ranked() -> None:
    order = RowOrder([OrderColumn(pa.string())])
    assert order.encoding([[pa.array([f"{n:0200d}" for n in range(1000)])]]).long == (None,)


@given(st.lists(_INT32), st.sampled_from([np.int32, np.int64]))
def test_distinct_integers_ascend(values: list[int], dtype: type[np.signedinteger[Any]]) -> None:
    array = np.array(values + values[:3], dtype)
    distinct = sorted_distinct(array)
    assert distinct.dtype == dtype
    assert distinct.tolist() == sorted(set(values))
