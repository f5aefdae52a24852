"""Tables whose columns are aggregated: written, compacted and read, beside a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Invalid, Unsupported

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        ("total", pa.int64()),
        ("top", pa.float64()),
        ("note", pa.string()),
        ("first", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)
OPTIONS = {
    "bucket": "2",
    "merge-engine": "aggregation",
    "fields.total.aggregate-function": "sum",
    "fields.top.aggregate-function": "max",
    "fields.first.aggregate-function": "first_value",
    "fields.tags.aggregate-function": "collect",
}
IGNORING = {"fields.top.ignore-retract": "true", "fields.first.ignore-retract": "true"}
REMOVING = {"aggregation.remove-record-on-delete": "true"}
KINDS = ("+I", "-U", "+U", "-D")


@dataclass(frozen=True)
class Row:
    """A row as it stands in a file."""

    kind: str
    total: int | None
    top: float | None
    note: str | None
    first: str | None
    tags: list[str] | None

    @property
    def values(self) -> tuple[object, ...]:
        """The row's values but for its key."""
        return self.total, self.top, self.note, self.first, self.tags


def _minus(left: Sequence[str], right: Sequence[str]) -> list[str]:
    gone, kept = list(right), []
    for tag in left:
        if tag in gone:
            gone.remove(tag)
        else:
            kept.append(tag)
    return kept


def _retracted(state: Row, row: Row) -> Row:
    total, tags = state.total, state.tags
    if row.total is not None:
        total = (total or 0) - row.total
    if tags is not None and row.tags is not None:
        tags = _minus(tags, row.tags)
    note = state.note if row.note is None else None
    return Row("+I", total, state.top, note, state.first, tags)


def _added(state: Row, row: Row, *, is_first: bool) -> Row:
    totals = [each for each in (state.total, row.total) if each is not None]
    tops = [each for each in (state.top, row.top) if each is not None]
    tags = [each for each in (state.tags, row.tags) if each is not None]
    return Row(
        "+I",
        sum(totals) if totals else None,
        max(tops, default=None),
        state.note if row.note is None else row.note,
        row.first if is_first else state.first,
        [tag for each in tags for tag in each] if tags else None,
    )


def _merged(rows: Sequence[Row], removes: bool) -> Row:
    """The rows of one key as Paimon makes one of them; a single one stays as it is."""
    if len(rows) == 1:
        return rows[0]
    state = Row("+I", None, None, None, None, None)
    had_first = False
    for row in rows:
        if removes and row.kind == "-D":
            state = row
        elif row.kind in ("-U", "-D"):
            state = _retracted(state, row)
        else:
            state = _added(state, row, is_first=not had_first)
            had_first = True
    return state


_TEXT = st.none() | st.sampled_from("abc")
_KEYED = st.tuples(
    st.integers(0, 3),
    st.builds(
        Row,
        st.sampled_from(["+I", "+I", "+U", "-U", "-D"]),
        st.none() | st.integers(-5, 5),
        st.none() | st.sampled_from([-1.5, 0.0, 2.5]),
        _TEXT,
        _TEXT,
        st.none() | st.lists(st.sampled_from("xyz"), max_size=3),
    ),
)
_STEPS = st.lists(
    st.one_of(st.lists(_KEYED, min_size=1, max_size=8), st.just("compact")), max_size=6
)


def _lake(folder: Path) -> Lake:
    lake = connect(folder)
    lake.create_database("d", ignore_if_exists=True)
    lake.drop_table("d.t", ignore_if_not_exists=True)
    return lake


def _table(folder: Path, options: Mapping[str, str], schema: pa.Schema = SCHEMA) -> Table:
    return _lake(folder).create_table(
        "d.t", schema, primary_keys=["k"], options={**OPTIONS, **options}
    )


def _write(table: Table, rows: Sequence[tuple[int, Row]]) -> None:
    data = pa.table(
        {
            "k": [key for key, _ in rows],
            **{name: [getattr(row, name) for _, row in rows] for name in SCHEMA.names[1:]},
        },
        schema=SCHEMA,
    )
    table.write(data, row_kinds=pa.array([KINDS.index(row.kind) for _, row in rows], pa.int8()))


@pytest.mark.modes
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(_STEPS, st.booleans(), st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
def test_each_column_is_what_its_function_makes_of_it(
    tmp_path: Path, steps: list[list[tuple[int, Row]] | str], removes: bool, columns: list[str]
) -> None:
    table = _table(tmp_path, REMOVING if removes else IGNORING)
    files: dict[int, list[Row]] = {}
    for step in [*steps, "compact"]:
        if isinstance(step, str):
            table.compact()
            merged = {key: _merged(rows, removes) for key, rows in files.items()}
            files = {key: [row] for key, row in merged.items() if row.kind not in ("-U", "-D")}
        else:
            kinds = [(key, replace(row, kind="+I") if removes and row.kind == "-U" else row)
                     for key, row in step]  # fmt: skip
            _write(table, kinds)
            for key in dict.fromkeys(key for key, _ in kinds):
                rows = [row for each, row in kinds if each == key]
                files.setdefault(key, []).append(_merged(rows, removes))
        merged = {key: _merged(rows, removes) for key, rows in files.items()}
        expected = {key: row.values for key, row in merged.items() if row.kind not in ("-U", "-D")}
        found = table.scan().to_arrow()
        assert {key: tuple(values) for key, *values in _rows(found)} == expected
        picked = table.scan(columns=columns).to_arrow()
        assert sorted(_rows(picked), key=repr) == sorted(_rows(found.select(columns)), key=repr)


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


def test_a_column_without_a_function_keeps_the_last_value_that_is_there(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), ("a", pa.int64()), ("b", pa.int64())])
    options = {"bucket": "1", "merge-engine": "aggregation", "sequence.field": "b"}
    table = _lake(tmp_path).create_table("d.t", schema, primary_keys=["k"], options=options)
    # The last is the one with the greatest `b`, which is not aggregated by any function.
    table.write({"k": [1], "a": [10], "b": [7]})
    table.write({"k": [1], "a": [20], "b": [5]})
    table.write({"k": [1], "a": [None], "b": [9]})
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "a": 10, "b": 9}]
    summed = table.with_options({"fields.default-aggregate-function": "sum"})
    assert summed.scan().to_arrow().to_pylist() == [{"k": 1, "a": 30, "b": 9}]


def test_rows_that_a_function_cannot_take_back_are_not_written(tmp_path: Path) -> None:
    table = _table(tmp_path, {})
    row = Row("+I", 1, 1.0, "a", "a", ["x"])
    _write(table, [(1, row)])
    for kind in ("-U", "-D"):
        with pytest.raises(Invalid, match=r"'top' \(max\), 'first' \(first_value\)"):
            _write(table, [(1, replace(row, kind=kind)), (2, row)])
    assert table.scan().count() == 1
    removing = _table(tmp_path, REMOVING)
    with pytest.raises(Invalid, match="'top'"):
        _write(removing, [(1, replace(row, kind="-U"))])
    _write(removing, [(1, replace(row, kind="-D"))])
    assert removing.scan().count() == 0


def test_rows_of_kind_delete_end_those_of_their_keys(tmp_path: Path) -> None:
    row = Row("+I", 1, 1.0, "a", "a", ["x"])
    removing = _table(tmp_path, REMOVING)
    _write(removing, [(1, row), (2, row)])
    _write(removing, [(1, row)])
    _write(removing, [(1, replace(row, kind="-D"))])
    assert removing.scan(columns=["k"]).to_arrow().to_pylist() == [{"k": 2}]
    removing.compact()
    assert removing.scan(columns=["k"]).to_arrow().to_pylist() == [{"k": 2}]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"fields.note.aggregate-function": "sum"}, Invalid, "'note' of type STRING.*numbers"),
        ({"fields.total.aggregate-function": "listagg"}, Invalid, "'total' of type BIGINT"),
        ({"fields.total.aggregate-function": "bool_or"}, Invalid, "BOOLEAN"),
        ({"fields.top.aggregate-function": "rbm128"}, Unsupported, "aggregate-function=rbm128"),
        ({"fields.default-aggregate-function": "mean"}, Unsupported, "mean"),
        (
            {**REMOVING, "fields.top.ignore-retract": "true"},
            Invalid,
            "'fields.top.ignore-retract' and 'aggregation.remove-record-on-delete'",
        ),
    ],
)
def test_functions_that_a_column_cannot_have_are_refused_at_creation(
    tmp_path: Path, options: Mapping[str, str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        _table(tmp_path, options)
    with connect(tmp_path) as lake:
        assert not lake.table_exists("d.t")


def test_a_sum_that_its_type_cannot_hold_is_an_error_that_names_the_column(tmp_path: Path) -> None:
    table = _table(tmp_path, {})
    row = Row("+I", 2**62, None, None, None, None)
    _write(table, [(1, row)])
    _write(table, [(1, row)])
    with pytest.raises(Invalid, match="sum of column 'total' does not fit its type int64"):
        table.scan().to_arrow()
    assert table.scan(columns=["top"]).to_arrow().to_pylist() == [{"top": None}]


def test_values_that_are_all_taken_back_are_null(tmp_path: Path) -> None:
    table = _table(tmp_path, {**IGNORING, "bucket": "1"})
    row = Row("+I", 3, 2.5, "a", "a", ["x"])
    gone = replace(row, kind="-D")
    _write(table, [(1, row), (1, row), (2, gone), (2, gone), (3, row), (3, row)])
    found = {key: tuple(values) for key, *values in _rows(table.scan().to_arrow())}
    kept = (6, 2.5, "a", "a", ["x", "x"])
    assert found == {1: kept, 2: (-6, None, None, None, None), 3: kept}


def test_a_deleted_row_is_the_first_only_after_another(tmp_path: Path) -> None:
    table = _table(tmp_path, REMOVING)
    row = Row("+I", 1, None, None, "a", None)
    gone = Row("-D", 5, None, None, "b", None)
    later = replace(row, first="c")
    _write(table, [(1, gone), (2, row)])
    _write(table, [(1, later), (2, gone)])
    _write(table, [(2, later)])
    found = {key: (total, first) for key, total, _, _, first, _ in _rows(table.scan().to_arrow())}
    assert found == {1: (6, "c"), 2: (6, "b")}


def test_partition_columns_are_not_aggregated(tmp_path: Path) -> None:
    lake = connect(tmp_path)
    lake.create_database("db")
    schema = pa.schema([pa.field("p", pa.string(), False), *SCHEMA])
    table = lake.create_table(
        "db.t",
        schema,
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={**OPTIONS, "fields.default-aggregate-function": "sum"} | {
            f"fields.{name}.aggregate-function": "last_value" for name in ("top", "note")
        },
    )  # fmt: skip
    table.write({"p": ["a", "a", "b"], "k": [1, 1, 1], "total": [1, 2, 4], "note": ["x", "y", "z"]})
    table.write({"p": ["a"], "k": [1], "total": [8], "note": ["w"]})
    for _ in range(2):
        rows = table.scan(["p", "k", "total", "note"]).to_arrow().to_pylist()
        assert sorted(tuple(row.values()) for row in rows) == [("a", 1, 11, "w"), ("b", 1, 4, "z")]
        table.compact()
