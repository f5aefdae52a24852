"""A table's rows in other libraries: Arrow streams for DuckDB, pandas and Polars, lazy frames."""

from __future__ import annotations

import datetime as dt
import math
import os
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.processes import run_function

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import CorruptData

Value: TypeAlias = int | float | Decimal | dt.date | dt.time | str | bytes
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        pa.field("p", pa.string(), False),
        ("small", pa.int8()),
        ("half", pa.float32()),
        ("real", pa.float64()),
        ("price", pa.decimal128(8, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("ms")),
        ("nanos", pa.timestamp("ns")),
        ("instant", pa.timestamp("us", "UTC")),
        ("clock", pa.time32("ms")),
        ("flag", pa.bool_()),
        ("note", pa.string()),
        ("raw", pa.binary()),
    ]
)
NOON = dt.datetime(2026, 1, 1, 12)
NANOS = 1_767_268_800_000_000_001
ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "p": "ab"[number % 2],
        "small": [None, -128, 0, 127][number % 4],
        "half": [None, 0.1, -0.0, math.nan, math.inf][number % 5],
        "real": [0.1, None, 0.0, -0.0, math.nan, -math.inf][number % 6],
        "price": [None, Decimal("1.10"), Decimal("-0.01")][number % 3],
        "day": [NOON.date(), None, dt.date(1969, 12, 31)][number % 3],
        "at": [NOON, None, NOON + dt.timedelta(milliseconds=1)][number % 3],
        "nanos": [NANOS, None, NANOS + 1][number % 3],
        "instant": [None, NOON.replace(tzinfo=dt.UTC)][number % 2],
        "clock": [dt.time(0), None, dt.time(12, 0, 0, 1000)][number % 3],
        "flag": [None, True, False][number % 3],
        "note": [None, "", "ab", "b"][number % 4],
        "raw": [None, b"", b"\xff"][number % 3],
    }
    for number in range(60)
]


def _filled(lake: Lake) -> Table:
    made = lake.create_table(
        "sales.t",
        COLUMNS,
        primary_keys=["p", "id"],
        partition_keys=["p"],
        options={"bucket": "1"},
    )
    for start in (0, 20):
        made.write(pa.Table.from_pylist(ROWS[start:], COLUMNS))
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("frames")


@pytest.fixture(scope="module")
def table(folder: Path) -> Table:
    lake = connect(str(folder))
    lake.create_database("sales")
    return _filled(lake)


def _query_by_duckdb(folder: str) -> None:
    import duckdb

    duckdb.sql("SET enable_progress_bar = false")
    table = connect(folder).table("sales.t")
    scan = table.scan(columns=["p", "id", "note"], where="id < 10")  # noqa: F841, found by its name
    for _ in range(2):  # A stream is read once; a scan as often as one likes.
        result = duckdb.sql("SELECT p, count(*), min(note) FROM scan GROUP BY p ORDER BY p")
        assert result is not None
        print(result.fetchall())


@pytest.mark.xdist_group("processes")
def test_duckdb_queries_a_scan(folder: Path, table: Table) -> None:
    # In a process of its own, as DuckDB ends by listing what it leaked.
    done = run_function(_query_by_duckdb, str(folder), folder=folder, variables=os.environ)
    assert done.stdout.splitlines() == ["[('a', 5, 'ab'), ('b', 5, '')]"] * 2, done.stderr


def test_what_takes_arrow_streams_takes_a_scan(table: Table) -> None:
    scan = table.scan(columns=["p", "id", "note"], where="id < 10")
    assert pl.DataFrame(scan).sort("id").equals(scan.to_polars().sort("id"))
    assert pa.table(scan).equals(scan.to_arrow())
    assert pa.RecordBatchReader.from_stream(scan).schema == scan.schema


def test_a_scan_can_be_written_to_another_table(table: Table, lake: Lake) -> None:
    copy = lake.create_table("sales.copy", COLUMNS)
    copy.write(table.scan())
    assert copy.scan().count() == len(ROWS)


def test_a_lazy_frame_reads_what_its_query_needs(table: Table) -> None:
    lazy = table.scan().lazy()
    assert lazy.collect_schema() == table.scan().to_polars().schema
    query = lazy.filter((pl.col("p") == "a") & (pl.col("note").str.len_chars() == 2))
    result = query.select("id", twice=pl.col("id") * 2).sort("id").collect()
    expected = [row["id"] for row in ROWS if row["p"] == "a" and row["note"] == "ab"]
    assert result.rows() == [(number, 2 * number) for number in expected]
    assert "sales.t" in lazy.explain()


def test_a_lazy_filter_leaves_files_alone(lake: Lake) -> None:
    table = _filled(lake)
    lazy = table.scan().lazy()
    for split in table.scan(where="p = 'b'").splits:
        for file in split.files:
            table.storage.files.delete(f"{split.directory}/{file.file_name}")
    assert lazy.filter(pl.col("p") == "a").select("id").collect().height == 30
    with pytest.raises(CorruptData, match="is missing"):
        lazy.select("id").collect()


def test_limits_are_counted_before_filters_that_follow_them(table: Table) -> None:
    whole = table.scan().to_polars()
    lazy = table.scan().to_polars(lazy=True)
    assert lazy.head(7).collect().equals(whole.head(7))
    late = pl.col("id") >= 5
    assert lazy.head(9).filter(late).collect().equals(whole.head(9).filter(late))
    assert lazy.filter(late).head(9).collect().equals(whole.filter(late).head(9))
    assert lazy.select(pl.len()).collect().item() == len(ROWS)


def _calls_python(limit: int) -> pl.Expr:
    """A filter by a function that cannot be pickled."""
    lock = threading.Lock()

    def above(value: int) -> bool:
        with lock:
            return hash(value) >= limit

    return pl.col("id").map_elements(above, return_dtype=pl.Boolean)


_QUERIES: dict[str, Callable[[pl.LazyFrame, pl.Expr], pl.LazyFrame]] = {
    "alone": lambda lazy, call: lazy.filter(call),
    "in a conjunction": lambda lazy, call: lazy.filter(call & (pl.col("p") == "a")),
    "in a disjunction": lambda lazy, call: lazy.filter(call | (pl.col("p") == "a")),
    "after a filter": lambda lazy, call: lazy.filter(pl.col("p") == "a").filter(call),
    "before a filter": lambda lazy, call: lazy.filter(call).filter(pl.col("p") == "a"),
    "after a projection": lambda lazy, call: lazy.select("id").filter(call),
    "before a projection": lambda lazy, call: lazy.filter(call).select("p"),
    "after a limit": lambda lazy, call: lazy.head(45).filter(call),
    "before a limit": lambda lazy, call: lazy.filter(call).head(3),
    "after a new column": lambda lazy, call: lazy.with_columns(twice=pl.col("id") * 2).filter(call),
    "of a new column": lambda lazy, call: lazy.with_columns(late=call).filter("late").drop("late"),
    "in batches": lambda lazy, _: lazy.filter(
        pl.col("id").map_batches(lambda ids: ids > ids.mean(), return_dtype=pl.Boolean)
    ),
    "in a join": lambda lazy, call: lazy.join(lazy.filter(call), on="id", how="semi"),
    "under an aggregate": lambda lazy, call: (
        lazy.filter(call).group_by("p").agg(pl.col("id").sum()).sort("p")
    ),
    "counted": lambda lazy, call: lazy.filter(call).select(pl.len()),
}


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("name", _QUERIES)
def test_lazy_filters_call_python(
    table: Table, name: str, engine: Literal["in-memory", "streaming"]
) -> None:
    query = _QUERIES[name]
    expected = query(table.scan().to_polars().lazy(), _calls_python(40)).collect()
    result = query(table.scan().lazy(), _calls_python(40)).collect(engine=engine)
    assert result.equals(expected)
    assert 0 < result.height < len(ROWS)


def test_the_rest_of_a_filter_that_calls_python_leaves_files_alone(lake: Lake) -> None:
    table = _filled(lake)
    for split in table.scan(where="p = 'b'").splits:
        for file in split.files:
            table.storage.files.delete(f"{split.directory}/{file.file_name}")
    lazy = table.scan().lazy().filter(_calls_python(40) & (pl.col("p") == "a"))
    assert sorted(lazy.collect()["id"]) == list(range(40, 60, 2))


def test_changes_are_lazy_too(table: Table) -> None:
    changes = table.changes(since=0)
    lazy = changes.lazy().filter(pl.col("_ROW_KIND") == "+I", pl.col("id") < 3)
    assert sorted(lazy.select("id", "_ROW_KIND").collect().rows()) == [
        (0, "+I"),
        (1, "+I"),
        (2, "+I"),
    ]


_NANOS = pl.lit(NANOS).cast(pl.Datetime("ns"))
_CLOSED: tuple[Literal["both", "left", "right", "none"], ...] = ("both", "left", "right", "none")
_EDGES = [
    *(pl.col("small").is_between(0, 127, closed=closed) for closed in _CLOSED),
    pl.col("nanos") == _NANOS,
    pl.col("nanos") > _NANOS,
    ~(pl.col("nanos") <= _NANOS),
    pl.col("half") == pl.lit(0.1, pl.Float64),
    pl.col("half") == pl.lit(0.1, pl.Float32),
    pl.col("at") == pl.lit(NOON, pl.Datetime("ms")),
    pl.col("note").is_in(["ab", None]),
    ~pl.col("note").is_in(["ab", None]),
    pl.col("note").is_in(["ab", None], nulls_equal=True),
    pl.col("note").eq_missing("ab"),
    ~pl.col("note").eq_missing("ab"),
    ~(pl.col("flag") & (pl.col("note").str.len_chars() == 1)),
    pl.col("id") == pl.col("small"),
    pl.any_horizontal(pl.col("flag"), pl.col("id") > 50),
]


@pytest.mark.parametrize("condition", _EDGES, ids=range(len(_EDGES)))
def test_a_lazy_filter_selects_no_less_than_polars(table: Table, condition: pl.Expr) -> None:
    expected = table.scan().to_polars().filter(condition)
    result = table.scan().lazy().filter(condition).collect()
    assert sorted(result["id"]) == sorted(expected["id"])
    assert len(ROWS) > expected.height


_VALUES: dict[str, st.SearchStrategy[Value]] = {
    "id": st.integers(-1, 60),
    "p": st.sampled_from(["a", "b", ""]),
    "small": st.sampled_from([-129, -128, 0, 3, 127, 128, 2.5]),
    "half": st.sampled_from([0.1, 0.0, -0.0, math.nan, math.inf, 1]),
    "real": st.sampled_from([0.1, 0.0, -0.0, math.nan, -math.inf, 2**53 + 1]),
    "price": st.sampled_from([Decimal("1.1"), Decimal("1.100"), Decimal("1.101"), 1, 1.1]),
    "day": st.sampled_from([NOON.date(), dt.date(1969, 12, 31), NOON]),
    "at": st.sampled_from([NOON, NOON + dt.timedelta(microseconds=1), NOON.date()]),
    "instant": st.sampled_from([NOON.replace(tzinfo=dt.UTC)]),
    "clock": st.sampled_from([dt.time(0), dt.time(12), dt.time(12, 0, 0, 1000)]),
    "note": st.sampled_from(["", "a", "ab", "c"]),
    "raw": st.sampled_from([b"", b"\xff", b"a"]),
}
_COMPARISONS = (pl.Expr.eq, pl.Expr.ne, pl.Expr.lt, pl.Expr.le, pl.Expr.gt, pl.Expr.ge)


@st.composite
def _condition(draw: st.DrawFn) -> pl.Expr:
    name = draw(st.sampled_from(sorted(_VALUES)))
    column, values = pl.col(name), _VALUES[name]
    match draw(st.integers(0, 8)):
        case 0:
            return column.is_null()
        case 1:
            return column.is_not_null()
        case 2:
            closed = draw(st.sampled_from(_CLOSED))
            return column.is_between(draw(values), draw(values), closed=closed)
        case 3:
            first = draw(values)
            members = draw(st.lists(values.filter(lambda value: type(value) is type(first))))
            return column.is_in([first, *members, *draw(st.sampled_from([[], [None]]))])
        case 4:
            return pl.col("note").str.starts_with(draw(st.sampled_from(["", "a", "ab"])))
        case 5:
            return pl.col("flag")
        case 6:
            return pl.lit(draw(values)) < column
        case _:
            compare: Callable[[pl.Expr, Value], pl.Expr] = draw(st.sampled_from(_COMPARISONS))
            return compare(column, draw(values))


_CONDITIONS = st.recursive(
    _condition(),
    lambda inner: st.one_of(
        inner.map(lambda one: ~one),
        st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] ^ two[1]),
    ),
    max_leaves=4,
)


@pytest.mark.modes
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(_CONDITIONS)
def test_a_lazy_filter_selects_what_polars_selects(table: Table, condition: pl.Expr) -> None:
    try:
        expected = table.scan().to_polars().lazy().filter(condition).collect()
    except pl.exceptions.PolarsError:
        return  # It does not fit the columns.
    result = table.scan().lazy().filter(condition).collect()
    assert sorted(result["id"]) == sorted(expected["id"])
