"""Keys as integers compare as their rows do, or are not encoded so."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.storage.rows.narrow_order import NarrowOrder
from headwater.storage.rows.ordering import OrderColumn, RowOrder

_LONG = st.integers(-(2**63), 2**63 - 1)
_NUMBERS = st.one_of(_LONG, st.integers(-5, 5), st.integers(10**12, 10**12 + 9))
_TEXT = st.one_of(
    st.integers(0, 10**6).map(lambda n: f"order-{n:09d}"),
    st.integers(0, 99).map(lambda n: f"{n:02d}\0\0é☃\0{n % 3}"),
    st.text("ab", max_size=9),
)


def _order(*types: pa.DataType) -> RowOrder:
    return RowOrder([OrderColumn(item) for item in types])


@given(st.data())
def test_runs_compare_as_by_the_general_encoding(data: st.DataObject) -> None:
    types = data.draw(
        st.sampled_from(
            [
                (pa.string(),),
                (pa.binary(),),
                (pa.string(), pa.int64()),
                (pa.int64(), pa.int64()),
                (pa.int32(), pa.int64(), pa.int16()),
            ]
        )
    )
    values = {
        pa.string(): _TEXT,
        pa.binary(): _TEXT.map(str.encode),
        pa.int64(): _NUMBERS,
        pa.int32(): st.integers(-(2**31), 2**31 - 1) | st.integers(0, 9),
        pa.int16(): st.integers(-(2**15), 2**15 - 1),
    }
    rows = st.lists(st.tuples(*(values[item] for item in types)), min_size=1, max_size=12)
    runs = [sorted(data.draw(rows)) for _ in range(3)]
    order = _order(*types)
    narrow = NarrowOrder.of(order)
    assert narrow is not None

    def arrays(some: list[tuple[object, ...]]) -> list[pa.Array]:
        # A slice, since batches are.
        return [
            pa.array([column[0], *column], item).slice(1)
            for column, item in zip(zip(*some, strict=True), types, strict=True)
        ]

    parts = [arrays(run) for run in runs]
    spans = [narrow.span(part) for part in parts]
    encoding = narrow.encoding(spans)
    if encoding is None:
        return
    assert all(span is not None and encoding.holds(span) for span in spans)
    keys = np.concatenate([encoding.encode(part) for part in parts])
    general = order.encode(arrays([row for run in runs for row in run]))
    assert np.array_equal(np.less.outer(keys, keys), np.less.outer(general, general))
    assert np.array_equal(np.equal.outer(keys, keys), np.equal.outer(general, general))


def _text(*values: str | None) -> list[pa.Array]:
    return [pa.array(values, pa.string())]


@pytest.mark.parametrize(
    "arrays",
    [
        _text("order-0001", "order-00002"),
        _text("order-0001", "other-0001", "order-0002"),
        _text("abc-000001", "abd-500000", "abc-999999"),
        _text(
            "region-1-order-0000000001", "region-2-order-0000000001", "region-1-order-0000000002"
        ),
        _text("0123456789abcdef", "f123456789abcdef"),
        _text("order-0001", None),
        _text(),
    ],
    ids=[
        "lengths",
        "unsorted",
        "unsorted, little in common",
        "unsorted, much in common",
        "nothing in common",
        "null",
        "no rows",
    ],
)
def test_text_that_is_not_encoded(arrays: list[pa.Array]) -> None:
    narrow = NarrowOrder.of(_order(pa.string()))
    assert narrow is not None
    assert narrow.span(arrays) is None


def test_an_encoding_holds_what_begins_alike() -> None:
    narrow = NarrowOrder.of(_order(pa.string()))
    assert narrow is not None
    encoding = narrow.encoding([narrow.span(_text("order-00000001", "order-00000009"))])
    assert encoding is not None
    for later, held in (("order-99999999", True), ("orders-0000009", False)):
        span = narrow.span(_text(later))
        assert span is not None
        assert encoding.holds(span) is held


@pytest.mark.parametrize(
    "types", [(pa.int64(),), (pa.date32(),), (pa.float64(), pa.int32()), (pa.int32(), pa.string())]
)
def test_columns_that_have_another_encoding(types: tuple[pa.DataType, ...]) -> None:
    assert NarrowOrder.of(_order(*types)) is None


def test_days_and_moments_fit_together() -> None:
    narrow = NarrowOrder.of(_order(pa.date32(), pa.timestamp("us")))
    assert narrow is not None
    day = dt.date(2026, 1, 1)
    moments = [dt.datetime(2026, 1, 1, hour) for hour in (1, 2)]
    arrays = [pa.array([day, day], pa.date32()), pa.array(moments, pa.timestamp("us"))]
    encoding = narrow.encoding([narrow.span(arrays)])
    assert encoding is not None
    assert np.all(np.diff(encoding.encode(arrays).astype(np.int64)) == 3_600_000_000)
