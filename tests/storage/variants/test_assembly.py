"""Shredded variants are put together as they were before."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.storage.types.data_type import parse_type
from headwater.storage.variants.assembly import assembled

from .reference import Value, dictionary, group, meaning, names_of, put_apart, variant

VARIANT = parse_type("VARIANT")
NAMES = ["a", "b", "é", "☃", "long" * 20, ""]
SCALARS: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-200, 200),
    st.floats(allow_nan=False),
    st.decimals(-(10**17), 10**17, places=2),
    st.text(max_size=5),
    st.text("x", min_size=60, max_size=300),
    st.binary(max_size=5),
    st.dates(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    ),
    max_leaves=12,
)
KINDS: st.SearchStrategy[pa.DataType] = st.recursive(
    st.sampled_from(
        [pa.null(), pa.int8(), pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.bool_(),
         pa.decimal128(19, 2), pa.date32()]
    ),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3).map(
            lambda fields: pa.struct(list(fields.items()))
        ),
    ),
    max_leaves=5,
)  # fmt: skip


def shredded(rows: list[Value | None], kind: pa.DataType, *, is_null: list[bool]) -> pa.Array:
    made = []
    for row, missing in zip(rows, is_null, strict=True):
        names = sorted(names_of(row), reverse=True)
        ids = {name: at for at, name in enumerate(names)}
        own = {"metadata": dictionary(names), **put_apart(row, kind, ids)}
        made.append(None if missing else own)
    columns = [pa.field("metadata", pa.binary(), False), *group(kind)]
    return pa.array(made, pa.struct(columns))


def read(array: pa.Array) -> list[object]:
    return [
        None if row is None else meaning(row["value"], row["metadata"])
        for row in assembled(array, VARIANT).to_pylist()
    ]


@pytest.mark.modes
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(VALUES, st.sampled_from([False, False, True])), max_size=6),
    KINDS.filter(lambda kind: not pa.types.is_null(kind)),
    st.integers(0, 2),
)
def test_values_are_what_they_were(
    rows: list[tuple[Value, bool]], kind: pa.DataType, skipped: int
) -> None:
    array = shredded([r for r, _ in rows], kind, is_null=[n for _, n in rows])
    expected = []
    for row, missing in rows:
        ids = {name: at for at, name in enumerate(sorted(names_of(row)))}
        expected.append(None if missing else meaning(variant(row, ids), dictionary(list(ids))))
    assert read(array) == expected
    assert read(array.slice(skipped)) == expected[skipped:]


def test_large_objects_and_arrays() -> None:
    many: dict[str, object] = {f"k{number}": number for number in range(300)}
    rows: list[Value] = [many, list(range(300)), {"a": "x" * 70000}, {"a": ["y" * 300] * 300}]
    for kind in (
        pa.struct([("k7", pa.int32()), ("a", pa.string())]),
        pa.list_(pa.int16()),
        pa.struct([("a", pa.list_(pa.string()))]),
    ):
        array = shredded(rows, kind, is_null=[False] * len(rows))
        whole = [(variant(r, {n: i for i, n in enumerate(names_of(r))}), names_of(r)) for r in rows]
        assert read(array) == [meaning(v, dictionary(list(n))) for v, n in whole]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1.5], pa.float32()), b"\x38\x00\x00\xc0\x3f"),
        (pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us")),
         variant(dt.datetime(1969, 12, 31, 23, 59, 59, 999999), {})),
        (pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("ms", "UTC")),
         variant(dt.datetime(2024, 1, 1, tzinfo=dt.UTC), {})),
        (pa.array([1], pa.timestamp("ns")), b"\x4c" + (1).to_bytes(8, "little")),
        (pa.array([1], pa.timestamp("ns", "UTC")), b"\x48" + (1).to_bytes(8, "little")),
        (pa.array([dt.time(0, 0, 0, 5)], pa.time64("us")), b"\x44" + (5).to_bytes(8, "little")),
        (pa.array([UUID(int=7).bytes], pa.binary(16)), variant(UUID(int=7), {})),
        (pa.array([Decimal("-1.5")], pa.decimal128(38, 10)), variant(Decimal("-1.5000000000"), {})),
        (pa.array([Decimal(10**37)], pa.decimal128(38, 0)), variant(Decimal(10**37), {})),
        # The last values of each size, and the first of the next.
        *(
            (pa.array([Decimal(sign * number)], pa.decimal128(38, 0)),
             variant(Decimal(sign * number), {}))
            for number in (10**9 - 1, 10**9, 10**18 - 1, 10**18)
            for sign in (1, -1)
        ),
        *(
            (pa.array([number], pa.int64()), variant(number, {}))
            for bits in (7, 15, 31)
            for number in ((1 << bits) - 1, 1 << bits, -(1 << bits), -(1 << bits) - 1)
        ),
        *((pa.array(["x" * count]), variant("x" * count, {})) for count in (0, 63, 64)),
    ],
)  # fmt: skip
def test_scalars_of_every_type(column: pa.Array, expected: bytes) -> None:
    row = pa.StructArray.from_arrays(
        [pa.array([dictionary([])]), column], ["metadata", "typed_value"]
    )
    (found,) = assembled(row, VARIANT).to_pylist()
    assert found["value"] == expected


def test_the_rest_of_an_object_has_values_of_every_type() -> None:
    values: list[Value] = [
        None, True, 1, 200, 70_000, 1 << 40, 1.5, Decimal("1.5"), Decimal(10**10), Decimal(10**30),
        dt.date(2024, 1, 1), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        b"x", "x", "x" * 100, UUID(int=7), [1, [2]], {"b": {}},
    ]  # fmt: skip
    row: Value = {"a": 1, "rest": [values, values], "b": values}
    names = sorted(names_of(row))
    for value in (row, *({"a": 1, "b": value, "rest": 1} for value in values)):
        ids = {name: at for at, name in enumerate(names)}
        own = {"metadata": dictionary(names), **put_apart(value, OBJECT, ids)}
        array = pa.array([own], pa.struct([pa.field("metadata", pa.binary()), *group(OBJECT)]))
        (found,) = assembled(array, VARIANT).to_pylist()
        assert found["value"] == variant(value, ids)


@pytest.mark.modes
def test_objects_may_have_more_than_16_mib() -> None:
    row: Value = {"a": 1, "b": ["x" * (1 << 24), 2]}
    own = {"metadata": BOTH, **put_apart(row, OBJECT, IDS)}
    array = pa.array([own], pa.struct([pa.field("metadata", pa.binary()), *group(OBJECT)]))
    (found,) = assembled(array, VARIANT).to_pylist()
    assert found["value"] == variant(row, IDS)


def test_a_missing_element_is_null() -> None:
    kind = pa.list_(pa.int8())
    own = {"metadata": dictionary([]), **put_apart([1, 2], kind, {})}
    own["typed_value"][1] = {"value": None, "typed_value": None}  # type: ignore[index]
    array = pa.array([own], pa.struct([pa.field("metadata", pa.binary()), *group(kind)]))
    assert read(array) == [meaning(variant([1, None], {}), dictionary([]))]


def test_a_variant_without_metadata_is_an_error() -> None:
    kind = pa.struct(
        [("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int8())]
    )
    array = pa.array([None, {"metadata": None, "typed_value": 1}], kind)
    with pytest.raises(ValueError, match="no metadata"):
        assembled(array, VARIANT)


def test_what_is_missing_is_null() -> None:
    kind = pa.struct(
        [("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int8())]
    )
    array = pa.array([{"metadata": dictionary([])}, None], kind)
    assert read(array) == [("NoneType", None), None]


OBJECT = pa.struct([("a", pa.int8())])
IDS = {"a": 0, "b": 1}
ONE, BOTH, ABC = dictionary(["a"]), dictionary(["a", "b"]), dictionary(["a", "b", "c"])
ROW = put_apart({"a": 1}, OBJECT, IDS)


@pytest.mark.parametrize(
    ("metadata", "row", "problem"),
    [
        (dictionary(["b"]), ROW, "lacks the name 'a'"),
        (b"", ROW, "metadata is empty"),
        (b"\x02\x00\x00", ROW, "another version"),
        (ONE[:-2], ROW, "cut off"),
        (ONE[:-1], ROW, "cut off"),
        (b"\x01\x02\x00\x02\x01ab", ROW, "offsets fall"),
        (ONE, put_apart({"a": 1, "b": 2}, OBJECT, IDS), "that its metadata lacks"),
        (BOTH, {**ROW, "value": b"\x00"}, "no object"),
        (BOTH, {**ROW, "value": b""}, "no bytes"),
        (BOTH, {**ROW, "value": variant({"a": 2}, IDS)}, "two fields"),
        (BOTH, {**ROW, "value": variant({"b": 2}, IDS)[:-1]}, "outside"),
        (BOTH, {**ROW, "value": b"\x02\x05\x00"}, "cut off"),
        (dictionary(["a", "a"]), {**ROW, "value": variant({"a": 2}, IDS)}, "two fields"),
        (BOTH, {**ROW, "value": b"\x02\x01\x01\x00\x01" + bytes([25 << 2])}, "not known"),
        # Of two whole numbers of a byte the second begins in the first.
        (ABC, {**ROW, "value": b"\x02\x02\x01\x02\x00\x01\x03\x0c\x0c\x07"}, "overlap"),
        (ONE, {"typed_value": {"a": {"value": b"\x00", "typed_value": 1}}}, "both"),
    ],
)
def test_what_is_no_variant_is_an_error(
    metadata: bytes, row: dict[str, object], problem: str
) -> None:
    columns = [pa.field("metadata", pa.binary(), False), *group(OBJECT)]
    with pytest.raises(ValueError, match=problem):
        assembled(pa.array([{"metadata": metadata, **row}], pa.struct(columns)), VARIANT)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40), st.binary(max_size=12), st.booleans())
def test_any_bytes_are_variants_or_an_error(value: bytes, metadata: bytes, is_valid: bool) -> None:
    columns = [pa.field("metadata", pa.binary(), False), *group(OBJECT)]
    known = dictionary(["a", "b"]) if is_valid else b"\x01" + metadata
    row = {"metadata": known, "value": b"\x02" + value, "typed_value": {"a": {"typed_value": 1}}}
    try:
        made = assembled(pa.array([row], pa.struct(columns)), VARIANT)
    except ValueError:
        return
    made.validate(full=True)
