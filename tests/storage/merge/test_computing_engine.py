"""A merge engine that computes columns, from a line in the registry to compaction."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.merge.engine import MergeEngine, RowGroups
from headwater.storage.merge.registry import MERGE_ENGINES
from headwater.storage.merge.rules import MergeRules
from headwater.storage.merge.runs import merge_runs, needs_age
from headwater.storage.merge.sorted_run import SortedRun
from headwater.storage.options import MergeEngine as EngineName
from headwater.storage.schema.table_schema import Schema, TableSchema

_KEYS = ("k", "s")
_SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        pa.field("note", pa.string()),
        pa.field("amount", pa.int32()),
        pa.field("s", pa.string(), False),
    ]
)
_FILE_SCHEMA = pa.schema(
    [
        *(item.with_nullable(True) for item in _SCHEMA),
        pa.field("_SEQUENCE_NUMBER", pa.int64()),
        pa.field("_VALUE_KIND", pa.int8()),
    ]
)
_INSERT, _DELETE = 0, 3
# Compactions are steps of their own: each drops rows that retract.
_OPTIONS = {"merge-engine": "aggregation", "write-only": "true"}

_Key: TypeAlias = tuple[int, str]


class _Sum(MergeEngine):
    """The sum of ``amount``, whose retractions count against it, and the newest ``note``."""

    def inputs(self, columns: Sequence[str]) -> Sequence[str]:
        return columns

    def merge(self, groups: RowGroups, columns: Sequence[str]) -> pa.RecordBatch:
        assert not {*_KEYS, "_SEQUENCE_NUMBER", "_VALUE_KIND"} & set(columns)
        assert groups.sizes.min() > 1
        results: dict[str, pa.Array] = {}
        if "note" in columns:
            results["note"] = groups.gather(["note"]).column(0).take(pa.array(groups.lasts))
        if "amount" in columns:
            rows = groups.gather(["amount", "_VALUE_KIND"])
            amounts = rows.column(0).fill_null(0).to_numpy()
            signs = 1 - 2 * (rows.column(1).to_numpy().astype(np.int64) & 1)
            results["amount"] = pa.array(np.add.reduceat(amounts * signs, groups.firsts)).cast(
                pa.int32()
            )
        results["_VALUE_KIND"] = pa.repeat(pa.scalar(_INSERT, pa.int8()), len(groups.firsts))
        return pa.RecordBatch.from_arrays(list(results.values()), names=list(results))


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    """Have the engine in the place of Paimon's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MERGE_ENGINES, EngineName.AGGREGATION, lambda schema: _Sum())
        yield


@dataclasses.dataclass(frozen=True)
class _Row:
    """A row as the specification has it."""

    key: _Key
    note: str | None
    amount: int | None
    sequence: int
    kind: int = _INSERT

    @property
    def fields(self) -> dict[str, object]:
        """The row as it stands in a file."""
        return {
            "k": self.key[0],
            "s": self.key[1],
            "note": self.note,
            "amount": self.amount,
            "_SEQUENCE_NUMBER": self.sequence,
            "_VALUE_KIND": self.kind,
        }

    def merged(self, newer: _Row) -> _Row:
        """Both rows in one."""
        own, other = (
            (row.amount or 0) * (-1 if row.kind == _DELETE else 1) for row in (self, newer)
        )
        return _Row(self.key, newer.note, own + other, newer.sequence)


def _merged(rows: Sequence[_Row]) -> dict[_Key, _Row]:
    """The rows of each key in one, row by row."""
    found: dict[_Key, _Row] = {}
    for row in sorted(rows, key=lambda row: row.sequence):
        known = found.get(row.key)
        found[row.key] = row if known is None else known.merged(row)
    return found


_NOTES = st.none() | st.text("xyz", max_size=2)
_AMOUNTS = st.none() | st.integers(-100, 100)
_KINDS = st.sampled_from([_INSERT, _INSERT, _INSERT, _DELETE])
_KEY = st.tuples(st.integers(0, 4), st.sampled_from(["", "a", "bé"]))


@st.composite
def _runs(draw: st.DrawFn) -> list[list[_Row]]:
    keys = draw(st.lists(st.lists(_KEY, min_size=1, max_size=14, unique=True), max_size=5))
    total = sum(map(len, keys))
    numbers = range(total) if draw(st.booleans()) else draw(st.permutations(range(total)))
    left = iter(numbers)
    return [
        [_Row(key, draw(_NOTES), draw(_AMOUNTS), next(left), draw(_KINDS)) for key in sorted(run)]
        for run in keys
    ]


def _sorted_run(name: str, rows: Sequence[_Row], all_kinds: bool) -> SortedRun:
    table = pa.Table.from_pylist([row.fields for row in rows], _FILE_SCHEMA)
    if not all_kinds and not pc.any(pc.equal(table["_VALUE_KIND"], _DELETE)).as_py():
        # As of files that cannot hold rows that retract.
        table = table.drop_columns(["_VALUE_KIND"])
    numbers = [row.sequence for row in rows]

    def read(batch_rows: int, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        # Small batches, whatever is asked for: the rows of a key are in different ones.
        yield from table.to_batches(max_chunksize=2)

    return SortedRun(name, read, len(rows), min(numbers), max(numbers))


@given(
    _runs(),
    st.lists(st.sampled_from(["note", "amount", *_KEYS]), min_size=1, unique=True),
    st.booleans(),
    st.booleans(),
)
def test_runs_are_merged_into_computed_rows(
    runs: list[list[_Row]], columns: list[str], keep_deletes: bool, ordered: bool
) -> None:
    wanted = Schema.from_arrow(_SCHEMA, primary_keys=_KEYS, options=_OPTIONS)
    schema = TableSchema(0, wanted.fields, 3, (), _KEYS, wanted.options, None, 0)
    if keep_deletes:
        columns = [*columns, "_SEQUENCE_NUMBER", "_VALUE_KIND"]
    rules = MergeRules.of(schema)
    sorted_runs = [_sorted_run(f"run {at}", rows, True) for at, rows in enumerate(runs)]
    if not keep_deletes and not needs_age(sorted_runs, rules):
        sorted_runs = [_sorted_run(f"run {at}", rows, False) for at, rows in enumerate(runs)]
    batches = merge_runs(
        sorted_runs,
        rules,
        columns,
        keep_deletes=keep_deletes,
        ordered=ordered,
    )
    found = [row for batch in batches for row in batch.to_pylist()]
    expected = [
        {name: row.fields[name] for name in columns}
        for _, row in sorted(_merged([row for run in runs for row in run]).items())
        if keep_deletes or row.kind != _DELETE
    ]
    if not ordered:
        found.sort(key=repr)
        expected.sort(key=repr)
    assert found == expected


_Step: TypeAlias = "list[tuple[_Key, str | None, int | None, int]] | str"
_STEPS: st.SearchStrategy[list[_Step]] = st.lists(
    st.one_of(
        st.lists(st.tuples(_KEY, _NOTES, _AMOUNTS, _KINDS), min_size=1, max_size=12),
        st.just("compact"),
    ),
    max_size=6,
)


@pytest.mark.modes
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    _STEPS,
    st.sampled_from([{}, {"write-buffer-size": "64 b"}]),
    st.lists(st.sampled_from(_SCHEMA.names), min_size=1, unique=True),
    st.integers(-150, 150),
)
def test_a_table_is_written_read_and_compacted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[_Step],
    options: dict[str, str],
    columns: list[str],
    least: int,
) -> None:
    monkeypatch.setattr("headwater.storage.read.bucket_files._WINDOWS_IN_BUFFER", 1 << 20)
    table = _table(tmp_path, options)
    model: dict[_Key, _Row] = {}
    numbers = itertools.count()
    for step in [*steps, "compact"]:
        if isinstance(step, str):
            table.compact()
            model = {key: row for key, row in model.items() if row.kind != _DELETE}
        else:
            rows = [
                _Row(key, note, amount, next(numbers), kind) for key, note, amount, kind in step
            ]
            data = pa.Table.from_pylist([row.fields for row in rows], _FILE_SCHEMA)
            table.write(data.select(_SCHEMA.names), row_kinds=data["_VALUE_KIND"])
            model = _merged([*model.values(), *rows])
        expected = [row for _, row in sorted(model.items()) if row.kind != _DELETE]
        _same_rows(table.scan().to_arrow(), expected, _SCHEMA.names)
        _same_rows(table.scan(columns=columns).to_arrow(), expected, columns)
        _same_rows(
            table.scan(where=f"amount >= {least}").to_arrow(),
            [row for row in expected if row.amount is not None and row.amount >= least],
            _SCHEMA.names,
        )
        assert table.scan().count() == len(expected)


def _table(folder: Path, options: dict[str, str]) -> Table:
    lake = connect(str(folder))
    lake.create_database("d", ignore_if_exists=True)
    lake.drop_table("d.t", ignore_if_not_exists=True)
    return lake.create_table(
        "d.t", _SCHEMA, primary_keys=_KEYS, options={**_OPTIONS, "bucket": "2", **options}
    )


def _same_rows(found: pa.Table, expected: Sequence[_Row], columns: Sequence[str]) -> None:
    rows = [{name: row.fields[name] for name in columns} for row in expected]
    assert sorted(found.to_pylist(), key=repr) == sorted(rows, key=repr)
    assert found.column_names == list(columns)
