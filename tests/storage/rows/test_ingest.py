"""Coercing a caller's data to a table's schema: lossless or refused, never guessed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from headwater.storage.errors import Invalid
from headwater.storage.predicate.literal import comparison
from headwater.storage.predicate.tree import Comparison
from headwater.storage.rows.ingest import arrow_table, coerce
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField, Json, parse_type
from headwater.storage.types.local_time import utc
from headwater.storage.types.values import storage_value


def schema(*columns: tuple[str, Json], defaults: dict[str, str] | None = None) -> TableSchema:
    fields = tuple(
        DataField(i, name, parse_type(kind), default_value=(defaults or {}).get(name))
        for i, (name, kind) in enumerate(columns)
    )
    return TableSchema(0, fields, len(fields), (), (), {}, None, 0)


def one(kind: Json, values: pa.Array | pa.ChunkedArray) -> list[object]:
    """The values of a single column after coercion."""
    result = coerce(pa.table({"c": values}), schema(("c", kind)), "db.t", utc)
    assert result.schema == schema(("c", kind)).arrow
    result.validate(full=True)
    return list(result.column("c").to_pylist())


UTC = dt.UTC


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("BIGINT", pa.array([1, None], pa.int8()), [1, None]),
        ("TINYINT", pa.array([-128, 127], pa.int64()), [-128, 127]),
        ("INT", pa.array([1.0, None], pa.float64()), [1, None]),
        ("DOUBLE", pa.array([1, 2], pa.int32()), [1.0, 2.0]),
        ("FLOAT", pa.array([0.5, None], pa.float64()), [0.5, None]),
        ("DECIMAL(5, 2)", pa.array([999, -3], pa.int64()), [Decimal("999.00"), Decimal("-3.00")]),
        ("DECIMAL(5, 2)", pa.array([Decimal("1.5")], pa.decimal128(20, 1)), [Decimal("1.50")]),
        ("DECIMAL(2, 1)", pa.array([Decimal("1.500")], pa.decimal256(40, 3)), [Decimal("1.5")]),
        ("STRING", pa.array(["a", None], pa.large_string()), ["a", None]),
        ("STRING", pa.array(["a", "b"], pa.string_view()), ["a", "b"]),
        ("STRING", pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        ("VARCHAR(2)", pa.array(["äö"]), ["äö"]),
        ("BINARY(2)", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        ("BYTES", pa.array([b"ab"], pa.large_binary()), [b"ab"]),
        ("DATE", pa.array([dt.date(2024, 2, 29)], pa.date64()), [dt.date(2024, 2, 29)]),
        ("TIME(3)", pa.array([dt.time(1, 2, 3)], pa.time64("us")), [dt.time(1, 2, 3)]),
        (
            "TIMESTAMP(6)",
            pa.array([1_500], pa.timestamp("ms")),
            [dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)],
        ),
        ("TIMESTAMP(0)", pa.array([2], pa.timestamp("s")), [dt.datetime(1970, 1, 1, 0, 0, 2)]),
        (
            "TIMESTAMP(3) WITH LOCAL TIME ZONE",
            pa.array([0], pa.timestamp("us", tz="Asia/Tokyo")),
            [dt.datetime(1970, 1, 1, tzinfo=UTC)],
        ),
        ("BOOLEAN", pa.nulls(2), [None, None]),
        (
            {"type": "ARRAY", "element": "INT"},
            pa.array([[1, None], None, []]),
            [[1, None], None, []],
        ),
        (
            {"type": "ARRAY", "element": "INT"},
            pa.array([[9], [1, 2], None], pa.large_list(pa.int64())).slice(1),
            [[1, 2], None],
        ),
        (
            {"type": "MAP", "key": "STRING", "value": "INT"},
            pa.array([[("x", 9)], [("a", 1)], None], pa.map_(pa.string(), pa.int64())).slice(1),
            [[("a", 1)], None],
        ),
        (
            {
                "type": "ROW",
                "fields": [
                    {"id": 1, "name": "a", "type": "INT NOT NULL"},
                    {"id": 2, "name": "b", "type": "STRING"},
                    {"id": 3, "name": "c", "type": "INT"},
                ],
            },
            pa.array([{"b": "x", "a": 1}, None, {"b": None, "a": 2}]),
            [{"a": 1, "b": "x", "c": None}, None, {"a": 2, "b": None, "c": None}],
        ),
    ],
)
def test_a_value_is_cast_when_nothing_is_lost(
    kind: Json, values: pa.Array, expected: list[object]
) -> None:
    assert one(kind, values) == expected


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("TINYINT", pa.array([128])),
        ("INT", pa.array([1.5])),
        ("BIGINT", pa.array([float("nan")])),
        ("INT", pa.array(["1"])),
        ("INT", pa.array([True])),
        ("BOOLEAN", pa.array([1])),
        ("FLOAT", pa.array([0.1], pa.float64())),
        ("DOUBLE", pa.array([2**53 + 1])),
        ("DOUBLE", pa.array([Decimal("1.5")])),
        ("DECIMAL(5, 2)", pa.array([1000])),
        ("DECIMAL(5, 2)", pa.array([1.5])),
        ("DECIMAL(5, 2)", pa.array([Decimal("1.555")])),
        ("STRING", pa.array([1])),
        ("STRING", pa.array([b"a"])),
        ("BYTES", pa.array(["a"])),
        ("VARCHAR(1)", pa.array(["ab"])),
        ("BINARY(1)", pa.array([b"ab"])),
        ("DATE", pa.array([0], pa.timestamp("us"))),
        ("DATE", pa.array(["2024-01-01"])),
        ("TIME(0)", pa.array([1500], pa.time32("ms"))),
        ("TIMESTAMP(3)", pa.array([1], pa.timestamp("us"))),
        ("TIMESTAMP(5)", pa.array([1], pa.timestamp("us"))),
        ("TIMESTAMP(3)", pa.array([1], pa.timestamp("ms", tz="UTC"))),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", pa.array([1], pa.timestamp("ms"))),
        ({"type": "ARRAY", "element": "INT NOT NULL"}, pa.array([[1, None]])),
        ({"type": "ARRAY", "element": "INT"}, pa.array([["a"]])),
        ({"type": "ARRAY", "element": "INT"}, pa.array([1])),
        ({"type": "MAP", "key": "INT", "value": "INT"}, pa.array([{"a": 1}])),
        (
            {"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT NOT NULL"}]},
            pa.array([{"a": None}]),
        ),
        ({"type": "ROW", "fields": [{"id": 1, "name": "a", "type": "INT"}]}, pa.array([{"z": 1}])),
    ],
)
def test_a_loss_is_refused_and_names_the_column(kind: Json, values: pa.Array) -> None:
    with pytest.raises(Invalid, match=r"table db\.t, column 'c'"):
        one(kind, values)


def test_nan_survives_a_narrowing_that_loses_nothing() -> None:
    (value,) = one("FLOAT", pa.array([float("nan")]))
    assert isinstance(value, float)
    assert np.isnan(value)


def test_columns_are_put_in_order_and_missing_ones_filled() -> None:
    target = schema(("a", "INT NOT NULL"), ("b", "STRING"), ("c", "DATE"), defaults={"b": "'x y'"})
    result = coerce(pa.table({"a": pa.array([1, 2])}), target, "db.t", utc)
    assert result.to_pylist() == [
        {"a": 1, "b": "x y", "c": None},
        {"a": 2, "b": "x y", "c": None},
    ]


def test_nulls_become_default_values_unless_they_are_of_a_key_or_of_the_table() -> None:
    target = schema(
        ("k", "INT"), ("a", "DECIMAL(4, 1)"), ("b", "STRING"),
        ("c", {"type": "ARRAY", "element": "INT"}),
        defaults={"k": "7", "a": "2", "b": "x", "c": "[1]"},
    )  # fmt: skip
    target = replace(target, primary_keys=("k",))
    data = pa.table({"k": [None, 1], "b": ["y", None], "a": [None, Decimal("1.5")], "c": [[1], []]})
    result = coerce(data, target, "db.t", utc)
    assert result.select(["k", "a", "b"]).to_pylist() == [
        {"k": None, "a": Decimal("2.0"), "b": "y"},
        {"k": 1, "a": Decimal("1.5"), "b": "x"},
    ]
    kept = coerce(data, target, "db.t", utc, keeps_nulls=True)
    assert kept.select(["k", "a", "b"]).to_pylist() == [
        {"k": None, "a": None, "b": "y"},
        {"k": 1, "a": Decimal("1.5"), "b": None},
    ]
    nested = data.set_column(3, "c", pa.array([None, [2]], pa.list_(pa.int32())))
    assert coerce(nested, target, "db.t", utc)["c"].to_pylist() == [[1], [2]]


INTS: Json = {"type": "ARRAY", "element": "INT"}
TEXTS: Json = {"type": "ARRAY", "element": "STRING"}
MAP: Json = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}
ROW: Json = {
    "type": "ROW",
    "fields": [{"id": 8, "name": "a", "type": "INT"}, {"id": 9, "name": "b", "type": INTS}],
}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (INTS, "[1, 2,null,3]", [1, 2, None, 3]),
        (INTS, "'ARRAY( 1 )'", [1]),
        (INTS, "array()", []),
        (INTS, "[ ]", []),
        (TEXTS, "[a b, , c,,{d, e},]", ["a b", "", "c", "{d, e}"]),
        ({"type": "ARRAY", "element": INTS}, "[[1, 2], null, []]", [[1, 2], None, []]),
        (MAP, "{a -> 1, b->null, a -> 3}", [("a", 3), ("b", None)]),
        (MAP, "{}", []),
        (MAP, "map()", []),
        (MAP, "NULL", None),
        (ROW, " null ", None),
        (
            {"type": "MAP", "key": "INT NOT NULL", "value": INTS},
            "MAP(1, ARRAY(1, 2), 2, [])", [(1, [1, 2]), (2, [])],
        ),
        (ROW, "{1, [2, 3]}", {"a": 1, "b": [2, 3]}),
        (ROW, "struct(null, null)", {"a": None, "b": None}),
        (ROW, "{}", {"a": None, "b": None}),
    ],
)  # fmt: skip
def test_nested_default_values_are_read_as_paimon_reads_them(
    kind: Json, text: str, value: object
) -> None:
    target = schema(("a", "INT"), ("b", kind), defaults={"b": text})
    absent = coerce(pa.table({"a": [1, 2]}), target, "db.t", utc)
    assert absent["b"].to_pylist() == [value, value]
    own = absent.slice(0, 1).column("b")
    nulls = pa.chunked_array([pa.nulls(2, own.type), *own.chunks, pa.nulls(0, own.type)])
    filled = coerce(pa.table({"a": [1, 2, 3], "b": nulls}), target, "db.t", utc)
    assert filled["b"].to_pylist() == [value] * 3


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (INTS, "1, 2", "neither in \\[ and \\] nor the arguments of ARRAY"),
        (INTS, "[x]", "'x'"),
        (TEXTS, "['a']", "quotes"),
        (TEXTS, "ARRAY(a)", "means another thing to each engine"),
        (MAP, "{a}", "'a' is not a key"),
        (MAP, "MAP(a, 1)", "means another thing"),
        (MAP, "{null -> 1}", "null is no value of STRING NOT NULL"),
        ({"type": "MAP", "key": "INT", "value": "INT"}, "MAP(1)", "a key without a value"),
        (ROW, "{1}", "1 values for 2 fields"),
        (ROW, "1", "neither in"),
        ({"type": "MULTISET", "element": "INT"}, "{1 -> 2}", "makes none of text"),
    ],
)  # fmt: skip
def test_nested_default_values_that_are_none_are_refused(
    kind: Json, text: str, reason: str
) -> None:
    target = schema(("a", "INT"), ("b", kind), defaults={"b": text})
    with pytest.raises(Invalid, match=f"column 'b': the default '.*' is no value of .*{reason}"):
        coerce(pa.table({"a": [1]}), target, "db.t", utc)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("CHAR(3)", "a", "a  "),
        ("VARCHAR(2)", "'abc'", "ab"),
        ("INT", "1.5", 1),
        ("DECIMAL(4, 2)", "1.005", Decimal("1.01")),
        ("BOOLEAN", "y", True),
        ("DATE", "2024-2-3", dt.date(2024, 2, 3)),
        ("STRING", "__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"),
        (
            "TIMESTAMP(3) WITH LOCAL TIME ZONE",
            "2024-07-01 00:00:00",
            dt.datetime(2024, 7, 1, 4, tzinfo=dt.UTC),
        ),
    ],
)
def test_a_default_is_what_a_cast_of_its_text_gives(kind: str, text: str, value: object) -> None:
    target = schema(("a", "INT"), ("b", kind), defaults={"b": text})
    table = pa.table({"a": pa.array([1, 2])})
    result = coerce(table, target, "db.t", lambda: ZoneInfo("America/New_York"))
    assert result.column("b").to_pylist() == [value, value]
    result.validate(full=True)


def test_unknown_missing_and_doubled_columns_are_refused() -> None:
    target = schema(("a", "INT NOT NULL"), ("b", "STRING"))
    with pytest.raises(Invalid, match=r"no column 'z'; its columns are a, b"):
        coerce(pa.table({"a": [1], "z": [1]}), target, "db.t", utc)
    with pytest.raises(Invalid, match=r"lacks the NOT NULL column 'a'"):
        coerce(pa.table({"b": ["x"]}), target, "db.t", utc)
    with pytest.raises(Invalid, match=r"more than one column 'a'"):
        coerce(pa.table([[1], [2]], names=["a", "a"]), target, "db.t", utc)


def test_nulls_in_a_not_null_column_are_counted() -> None:
    with pytest.raises(Invalid, match=r"column 'a' is NOT NULL, but 2 of 3 rows are null"):
        coerce(
            pa.table({"a": pa.array([None, 1, None])}), schema(("a", "INT NOT NULL")), "db.t", utc
        )


EXPECTED = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


@pytest.mark.parametrize(
    "data",
    [
        pa.table({"a": [1, 2], "b": ["x", None]}),
        pa.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", None]}),
        pl.DataFrame({"a": [1, 2], "b": ["x", None]}),
        pl.LazyFrame({"a": [1, 2], "b": ["x", None]}),
        pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=[7, 8]),
        {"a": [1, 2], "b": ["x", None]},
        EXPECTED,
        pa.table({"a": [1, 2], "b": ["x", None]}).to_reader(),
    ],
    ids=["arrow", "batch", "polars", "lazy", "pandas", "columns", "rows", "stream"],
)
def test_every_shape_of_table_is_taken(data: object) -> None:
    table = arrow_table(data)
    assert coerce(table, schema(("a", "INT"), ("b", "STRING")), "db.t", utc).to_pylist() == EXPECTED


def test_rows_as_mappings_may_each_have_other_keys() -> None:
    rows: list[Mapping[str, object]] = [
        {"a": 1},
        {"b": "x"},
        MappingProxyType({"a": 3, "b": "y"}),
        {},
    ]
    expected = [(1, None), (None, "x"), (3, "y"), (None, None)]
    for given in (rows[:2], rows[2:], [dict(row) for row in rows]):
        table = arrow_table(given)
        found = list(zip(*(table[name].to_pylist() for name in ("a", "b")), strict=True))
        start = expected.index(found[0])
        assert found == expected[start : start + len(given)]
    assert arrow_table([]).num_rows == 0


@pytest.mark.parametrize("rows", [[{"a": 1}, None], [{"a": 1}, 2], [1, 2], [None], [{1: 2}]])
def test_a_row_that_is_no_mapping_is_refused(rows: object) -> None:
    with pytest.raises(Invalid):
        arrow_table(rows)


def test_a_named_index_becomes_columns_and_a_nameless_one_counts_rows() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert arrow_table(frame.set_index("a")).to_pydict() == {"a": [1, 2], "b": ["x", "y"]}
    assert arrow_table(frame.set_index(["b", "a"])).to_pydict() == {"b": ["x", "y"], "a": [1, 2]}
    assert arrow_table(frame.loc[[1]]).to_pydict() == {"a": [2], "b": ["y"]}
    both = frame.set_index("a", drop=False)
    half = frame.set_index(["a", pd.Index([7, 8])])
    for index in (both, half):
        with pytest.raises(Invalid, match="reset_index"):
            arrow_table(index)


@pytest.mark.parametrize(
    "data",
    [
        7,
        "text",
        pd.DataFrame({"a": [1, "x"]}),
        {"a": [1, "x"]},
        {"a": 7},
        # What Arrow itself answers with errors of Python, or of pandas.
        [{"a": 2**70}],
        pd.DataFrame({"a": [2**70]}),
        {"a": ["\ud800"]},
        {"a": [pd.NaT]},
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
    ],
)
def test_what_is_not_a_table_is_refused(data: object) -> None:
    with pytest.raises(Invalid, match="cannot"):
        arrow_table(data)


_DAY = dt.date(2024, 1, 1)
_NOON = dt.datetime(2024, 1, 1, 12)
_NANOSECOND = pd.Timestamp("2024-01-01 12:00:00.000000001")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([_DAY, _NOON], "dates and times"),
        ([_NOON, None, _NOON.replace(tzinfo=UTC)], "local times and moments"),
        ([_NOON.replace(tzinfo=UTC), _NOON], "local times and moments"),
        ([dt.time(1), dt.time(2, tzinfo=UTC)], "times of day with a time zone"),
        ([pd.NaT, _NANOSECOND], "nanoseconds"),
    ],
)
def test_times_that_arrow_would_cut_are_refused(values: list[object], words: str) -> None:
    with pytest.raises(Invalid, match=f"column 'a' holds {words}"):
        arrow_table({"a": values} if pd.NaT not in values else {"a": values[1:]})
    with pytest.raises(Invalid, match=f"column 'a' holds {words}"):
        arrow_table([{"a": value} for value in values if value is not pd.NaT])
    with pytest.raises(Invalid, match=f"column 'a' holds {words}"):
        arrow_table(pd.DataFrame({"a": pd.Series(values, dtype=object)}))


def test_times_of_one_kind_are_taken() -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    moments = [_NOON.replace(tzinfo=zone), None, _NOON.replace(tzinfo=UTC)]
    assert arrow_table({"a": moments})["a"].to_pylist() == moments
    assert arrow_table({"a": [_DAY, None]})["a"].to_pylist() == [_DAY, None]
    frame = pd.DataFrame({"a": [_NANOSECOND, pd.NaT]})
    assert arrow_table(frame)["a"].cast(pa.int64()).to_pylist() == [_NANOSECOND.value, None]
    assert storage_value(_NANOSECOND, AtomicType(Root.TIMESTAMP, precision=9)) == _NANOSECOND.value
    found = comparison(schema(("a", "TIMESTAMP(9)")), "a", "=", _NANOSECOND)
    assert found == Comparison("a", "=", _NANOSECOND.value)


@pytest.mark.parametrize("twice", ["a", "_ROW_KIND"])
def test_two_columns_of_one_name_are_refused(twice: str) -> None:
    with pytest.raises(Invalid, match=f"more than one column '{twice}'"):
        arrow_table(pa.table([[1], ["+I"], ["-D"]], names=["n", twice, twice]))
