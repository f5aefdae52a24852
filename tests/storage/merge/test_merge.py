"""The deduplicate engine against a plain dictionary."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.storage.errors import CorruptData
from headwater.storage.merge.buffer import merge_rows
from headwater.storage.merge.key_ranges import key_ranges
from headwater.storage.merge.rules import MergeRules
from headwater.storage.merge.runs import WINDOW_BYTES, merge_runs, needs_age
from headwater.storage.merge.sorted_run import SortedRun
from headwater.storage.schema.table_schema import Schema, TableSchema

_INSERT, _BEFORE, _AFTER, _DELETE = 0, 1, 2, 3
_RETRACTING = (_BEFORE, _DELETE)


_Row: TypeAlias = dict[str, Any]


def _schema(
    options: dict[str, str] | None = None, keys: tuple[str, ...] = ("k", "s")
) -> TableSchema:
    arrow = pa.schema(
        [
            pa.field("k", pa.int64(), False),
            pa.field("s", pa.string(), False),
            pa.field("v", pa.string()),
            pa.field("q", pa.int32()),
        ]
    )
    wanted = Schema.from_arrow(arrow, primary_keys=keys, options=options or {})
    return TableSchema(0, wanted.fields, 3, (), keys, wanted.options, None, 0)


_ARROW = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        pa.field("s", pa.string(), False),
        pa.field("v", pa.string()),
        pa.field("q", pa.int32()),
        pa.field("_SEQUENCE_NUMBER", pa.int64(), False),
        pa.field("_VALUE_KIND", pa.int8(), False),
    ]
)


def _table(rows: list[_Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, _ARROW)


def _run(name: str, rows: list[_Row]) -> SortedRun:
    table = _table(rows)

    def read(batch_rows: int, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        # Small batches, whatever is asked for, so that key ranges are many.
        yield from table.to_batches(max_chunksize=3)

    numbers = [row["_SEQUENCE_NUMBER"] for row in rows]
    return SortedRun(name, read, len(rows), min(numbers), max(numbers))


def _key(row: _Row) -> tuple[int, bytes]:
    return (row["k"], row["s"].encode())


def _newness(row: _Row, age: int, rules: MergeRules, descending: bool) -> tuple[object, ...]:
    fields: tuple[tuple[bool, int], ...] = ()
    if rules.sequence_fields:
        sign = -1 if descending else 1
        fields = ((row["q"] is not None, sign * (row["q"] or 0)),)
    return (*fields, row["_SEQUENCE_NUMBER"], row["_VALUE_KIND"] not in _RETRACTING, age)


def _model(
    runs: list[list[_Row]], rules: MergeRules, descending: bool, keep_deletes: bool
) -> list[_Row]:
    """The rows that stay, sorted by key: the specification, row by row."""
    newest: dict[tuple[int, bytes], tuple[Any, _Row]] = {}
    for age, rows in enumerate(runs):
        for row in rows:
            if rules.ignore_delete and row["_VALUE_KIND"] in _RETRACTING:
                continue
            rank = _newness(row, age, rules, descending)
            if _key(row) not in newest or rank > newest[_key(row)][0]:
                newest[_key(row)] = (rank, row)
    kept = [row for _, row in newest.values()]
    if not keep_deletes:
        kept = [row for row in kept if row["_VALUE_KIND"] not in _RETRACTING]
    return sorted(kept, key=_key)


# A row is few draws from short lists: Hypothesis takes longer to draw one than merging takes, and
# runs with few keys in common leave little to merge.
_TEXTS = ["", "a", "b", "\0", "é", "a\0", "ab", "\0a", "\0\0", "éa"]
_ROWS = st.lists(
    st.tuples(
        st.sampled_from(list(itertools.product([0, 1, -2], _TEXTS))),
        st.sampled_from([None, "", "x", "y", "xy"]),
        st.sampled_from([None, 0, 1, -1, 2, -2]),
        st.sampled_from([0, 0, 0, 1, 2, 3]),
    ),
    min_size=1,
    max_size=14,
    unique_by=lambda row: row[0],
)
_RUNS = st.lists(_ROWS, min_size=1, max_size=4)


@st.composite
def _runs(draw: st.DrawFn, interleaved: bool) -> list[list[_Row]]:
    counter = itertools.count()
    runs: list[list[_Row]] = [
        [
            {
                "k": k,
                "s": s,
                "v": v,
                "q": q,
                "_SEQUENCE_NUMBER": next(counter),
                "_VALUE_KIND": kind,
            }
            for (k, s), v, q, kind in rows
        ]
        for rows in draw(_RUNS)
    ]
    if interleaved:
        numbers = draw(st.permutations(range(next(counter))))
        for row in itertools.chain(*runs):
            row["_SEQUENCE_NUMBER"] = numbers[row["_SEQUENCE_NUMBER"]]
    return [sorted(rows, key=_key) for rows in runs]


@pytest.mark.parametrize("interleaved", [pytest.param(False, marks=pytest.mark.modes), True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ignore-delete": "true"},
        {"sequence.field": "q"},
        {"sequence.field": "q", "sequence.field.sort-order": "descending"},
    ],
    ids=["plain", "ignore-delete", "sequence", "sequence-descending"],
)
@settings(max_examples=examples(50))
@given(data=st.data(), keep_deletes=st.booleans(), ordered=st.booleans())
def test_newest_rows_stay(
    options: dict[str, str],
    interleaved: bool,
    data: st.DataObject,
    keep_deletes: bool,
    ordered: bool,
) -> None:
    runs = data.draw(_runs(interleaved))
    rules = MergeRules.of(_schema(options))
    result = pa.Table.from_batches(
        merge_runs(
            data.draw(st.permutations([_run(f"run {i}", rows) for i, rows in enumerate(runs)])),
            rules,
            _ARROW.names,
            keep_deletes=keep_deletes,
            ordered=ordered,
        ),
        _ARROW,
    ).to_pylist()
    if not ordered:
        result = sorted(result, key=_key)
    descending = "sequence.field.sort-order" in options
    # Ages only break ties, and sequence numbers here are distinct.
    assert result == _model(runs, rules, descending, keep_deletes)


@pytest.mark.parametrize(
    "options", [{}, {"merge-engine": "first-row"}, {"sequence.field": "q"}], ids=str
)
@settings(max_examples=examples(50))
@given(data=st.data(), few=st.booleans(), keep_deletes=st.booleans())
def test_rows_that_are_not_wanted_change_none_of_the_others(
    options: dict[str, str], data: st.DataObject, few: bool, keep_deletes: bool
) -> None:
    runs = data.draw(_runs(interleaved=False))
    if options.get("merge-engine") == "first-row":
        runs = [[{**row, "_VALUE_KIND": _INSERT} for row in rows] for rows in runs]

    def is_wanted(row: _Row) -> bool:
        # Few rows are looked up, of many all keys are sorted.
        return row["v"] in ("x", "y") and (not few or row["k"] == 1)

    def wanted(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        return np.array([is_wanted(row) for row in batch.to_pylist()], np.bool_)

    def whole(rows: pa.Table, batch_rows: int, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        yield from rows.to_batches()

    def merged(**hint: Any) -> list[_Row]:
        parts = [
            replace(_run(f"run {at}", rows), read=partial(whole, _table(rows)))
            for at, rows in enumerate(runs)
        ]
        rules = MergeRules.of(_schema(options))
        batches = merge_runs(parts, rules, _ARROW.names, keep_deletes=keep_deletes, **hint)
        rows = pa.Table.from_batches(batches, _ARROW).to_pylist()
        return sorted(filter(is_wanted, rows), key=_key)

    assert merged(wanted=wanted) == merged()


def test_only_wanted_rows_are_picked() -> None:
    old, new = (
        [
            {"k": k, "s": "", "v": v, "q": 0, "_SEQUENCE_NUMBER": first + k, "_VALUE_KIND": 0}
            for k, v in rows
        ]
        for first, rows in (
            (0, [(1, "x"), (2, "x"), *((k, "y") for k in range(3, 41))]),
            (100, [(2, "y"), (3, "x"), *((k, "y") for k in range(4, 41))]),
        )
    )
    runs = [_run("old", old), _run("new", new)]
    found = merge_runs(
        runs,
        MergeRules.of(_schema()),
        ["k", "v"],
        wanted=lambda batch: np.array([v == "x" for v in batch.column("v").to_pylist()]),
    )
    picked = pa.Table.from_batches(found).to_pylist()
    assert picked == [{"k": 1, "v": "x"}, {"k": 3, "v": "x"}]


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(-2, 2), st.sampled_from([0, 2, 3])), max_size=30
    ),
    st.sampled_from([{}, {"sequence.field": "q"}, {"ignore-delete": "true"}]),
    st.data(),
)
def test_rows_in_any_order_become_a_sorted_run(
    triples: list[tuple[int, int, int]], options: dict[str, str], data: st.DataObject
) -> None:
    rows = [
        {"k": k, "s": "", "v": str(i), "q": q, "_SEQUENCE_NUMBER": i, "_VALUE_KIND": kind}
        for i, (k, q, kind) in enumerate(triples)
    ]
    rules = MergeRules.of(_schema(options))
    shuffled = data.draw(st.permutations(rows))
    batch = pa.RecordBatch.from_pylist(shuffled, _ARROW)
    result = merge_rows(batch, rules).to_pylist()
    assert result == _model([rows], rules, False, keep_deletes=True)


def test_rows_that_are_a_sorted_run_are_not_copied() -> None:
    rules = MergeRules.of(_schema(keys=("k",)))
    rows = [
        {"k": key, "s": "", "v": str(key), "_SEQUENCE_NUMBER": key, "_VALUE_KIND": _INSERT}
        for key in range(4)
    ]
    run = pa.RecordBatch.from_pylist(rows, _ARROW)
    places = [buffer.address for buffer in run.column("v").buffers() if buffer is not None]
    merged = merge_rows(run, rules)
    assert merged.equals(run)
    assert places == [each.address for each in merged.column("v").buffers() if each is not None]
    # Of a key's two rows, next to each other in order, the newer stays.
    twice = pa.RecordBatch.from_pylist([*rows, {**rows[-1], "_SEQUENCE_NUMBER": 4}], _ARROW)
    assert merge_rows(twice, rules)["_SEQUENCE_NUMBER"].to_pylist() == [0, 1, 2, 4]


@pytest.mark.parametrize("interleaved", [False, True])
@settings(max_examples=examples(50))
@given(data=st.data(), ordered=st.booleans())
def test_the_oldest_rows_stay_with_first_row(
    interleaved: bool, data: st.DataObject, ordered: bool
) -> None:
    """Lower ranks are older whatever their numbers, and of one run the keys alone take part."""
    runs = data.draw(_runs(interleaved))
    known = data.draw(st.lists(st.booleans(), min_size=len(runs), max_size=len(runs)))
    keys_only = data.draw(st.booleans())
    parts: list[SortedRun] = []
    oldest: dict[tuple[int, bytes], tuple[tuple[int, int], _Row]] = {}
    for at, rows in enumerate(runs):
        for row in rows:
            row["_VALUE_KIND"] = 0
        rank = 1 if known[at] else 2
        if keys_only and at == 0:
            rank = 0
        parts.append(replace(_run(f"run {at}", rows), rank=rank, keys_only=rank == 0))
        for row in rows:
            age = (rank, row["_SEQUENCE_NUMBER"])
            if _key(row) not in oldest or age < oldest[_key(row)][0]:
                oldest[_key(row)] = (age, row)
    rules = MergeRules.of(_schema({"merge-engine": "first-row"}))
    merged = merge_runs(data.draw(st.permutations(parts)), rules, _ARROW.names, ordered=ordered)
    result = pa.Table.from_batches(merged, _ARROW).to_pylist()
    expected = [row for (rank, _), row in oldest.values() if rank]
    assert (result if ordered else sorted(result, key=_key)) == sorted(expected, key=_key)


def test_small_runs_part_a_great_one_in_few_key_ranges() -> None:
    def sorted_run(name: str, keys: range) -> SortedRun:
        rows = pa.table({"k": pa.array(keys, pa.int64())})

        def read(batch_rows: int, batch_bytes: int) -> Iterator[pa.RecordBatch]:
            return iter(rows.to_batches(batch_rows))

        return SortedRun(name, read, len(keys), keys[0], keys[-1])

    runs = [sorted_run("great", range(100_000))]
    runs += [sorted_run(f"small {n}", range(n, 100_000, 10)) for n in (1, 2, 3)]
    rules = MergeRules.of(_schema(keys=("k",)))
    ranges = list(key_ranges(runs, rules, 13_000, WINDOW_BYTES))
    sizes = [sum(part.batch.num_rows for part in parts) for parts in ranges]
    assert sum(sizes) == 130_000
    assert max(sizes) <= 13_000, "no more are held than asked for"
    # Batches in proportion to the runs' rows would end at 40 different keys.
    assert len(ranges) < 34


@pytest.mark.parametrize("keys", [("s",), ("q", "k"), ("s", "k")])
@pytest.mark.parametrize("ordered", [False, True])
def test_keys_that_are_compared_as_integers(keys: tuple[str, ...], ordered: bool) -> None:
    def sorted_run(name: str, version: int, step: int) -> SortedRun:
        numbers = [n for n in range(3000) if n % step == version]
        rows = pa.table(
            {
                # A few are longer, and of other ranges than those before: no integer holds them.
                "k": pa.array([n * 2**50 if n > 2900 else -n for n in numbers], pa.int64()),
                "s": [f"order-{n:09d}" + "x" * (n > 2800) for n in numbers],
                "q": pa.array([n - 1500 for n in numbers], pa.int32()),
                "v": [f"{version} {n}" for n in numbers],
            }
        )

        def read(batch_rows: int, batch_bytes: int) -> Iterator[pa.RecordBatch]:
            return iter(rows.to_batches(batch_rows))

        return SortedRun(name, read, len(numbers), version * 3000, version * 3000 + 2999)

    runs = [sorted_run("great", 0, 1), sorted_run("one", 1, 7), sorted_run("two", 2, 5)]
    merged = pa.Table.from_batches(
        merge_runs(
            runs, MergeRules.of(_schema(keys=keys)), ["v", "q"], ordered=ordered, batch_rows=400
        )
    ).to_pylist()
    expected = [f"{2 if n % 5 == 2 else 1 if n % 7 == 1 else 0} {n}" for n in range(3000)]
    if not ordered:
        merged.sort(key=lambda row: row["q"])
    assert [row["v"] for row in merged] == expected


@pytest.mark.parametrize("keys", [("s",), ("k", "q")])
def test_an_unsorted_run_of_such_keys_is_refused_by_name(keys: tuple[str, ...]) -> None:
    def run(name: str, numbers: list[int]) -> SortedRun:
        return _run(
            name,
            [
                {"k": 1, "s": f"order-{n:09d}", "v": "", "q": n, "_SEQUENCE_NUMBER": i,
                 "_VALUE_KIND": 0}
                for i, n in enumerate(numbers)
            ],
        )  # fmt: skip

    runs = [run("bad.parquet", [1, 70_000, 3, 9]), run("good.parquet", [2, 100_000])]
    with pytest.raises(CorruptData, match=r"bad\.parquet"):
        list(merge_runs(runs, MergeRules.of(_schema(keys=keys)), ["v"]))


def test_newer_run_wins_without_looking_at_rows() -> None:
    old = _table([{"k": 1, "s": "", "v": "old", "q": 9, "_SEQUENCE_NUMBER": 5, "_VALUE_KIND": 0}])
    new = _table([{"k": 1, "s": "", "v": "new", "q": 1, "_SEQUENCE_NUMBER": 6, "_VALUE_KIND": 0}])
    rules = MergeRules.of(_schema())
    runs = [
        SortedRun("new", lambda n, size: iter(new.select(["k", "s", "v"]).to_batches()), 1, 6, 6),
        SortedRun("old", lambda n, size: iter(old.select(["k", "s", "v"]).to_batches()), 1, 5, 5),
    ]
    assert not needs_age(runs, rules)
    merged = pa.Table.from_batches(merge_runs(runs, rules, ["v"]))
    assert merged.to_pylist() == [{"v": "new"}]


def test_overlapping_sequence_ranges_need_the_numbers() -> None:
    rules = MergeRules.of(_schema())
    one = SortedRun("a", lambda n, size: iter(()), 1, 0, 5)
    assert needs_age([one, SortedRun("b", lambda n, size: iter(()), 1, 5, 9)], rules)
    assert not needs_age([SortedRun("b", lambda n, size: iter(()), 1, 6, 9), one], rules)
    assert needs_age([one], MergeRules.of(_schema({"sequence.field": "q"})))


def test_equal_sequence_numbers_prefer_the_added_row() -> None:
    row = {"k": 1, "s": "", "q": 0, "_SEQUENCE_NUMBER": 7}
    added = _run("added", [{**row, "v": "kept", "_VALUE_KIND": _INSERT}])
    deleted = _run("deleted", [{**row, "v": "gone", "_VALUE_KIND": _DELETE}])
    rules = MergeRules.of(_schema())
    for runs in ([added, deleted], [deleted, added]):
        merged = pa.Table.from_batches(merge_runs(runs, rules, ["v"]))
        assert merged.to_pylist() == [{"v": "kept"}]


def test_of_equally_new_rows_the_later_runs_stays() -> None:
    # Two writers that did not know of each other may give out the same numbers.
    row = {"k": 1, "s": "", "q": 0, "_SEQUENCE_NUMBER": 7, "_VALUE_KIND": _INSERT}
    runs = [_run(f"run {i}", [{**row, "v": f"from run {i}"}]) for i in range(3)]
    merged = pa.Table.from_batches(merge_runs(runs, MergeRules.of(_schema()), ["v"]))
    assert merged.to_pylist() == [{"v": "from run 2"}]


@pytest.mark.parametrize("keys", [[1, 2, 3, 3], [1, 5, 9, 2], [2, 1]])
def test_an_unsorted_run_is_refused_by_name(keys: list[int]) -> None:
    def rows(values: list[int]) -> list[_Row]:
        return [
            {"k": k, "s": "", "v": "", "q": 0, "_SEQUENCE_NUMBER": i, "_VALUE_KIND": 0}
            for i, k in enumerate(values)
        ]

    bad, good = _run("bad.parquet", rows(keys)), _run("good.parquet", rows([100, 200]))
    with pytest.raises(CorruptData, match=r"bad\.parquet"):
        list(merge_runs([bad, good], MergeRules.of(_schema()), ["v"]))


def test_long_keys_are_merged_in_small_pieces() -> None:
    rows = [
        {
            "k": 1,
            "s": f"{i:03d}" * (1 + 90 * (i == 7)),
            "v": "old",
            "q": 0,
            "_SEQUENCE_NUMBER": i,
            "_VALUE_KIND": 0,
        }
        for i in range(20)
    ]
    newer = [{**row, "v": "new", "_SEQUENCE_NUMBER": 50 + i} for i, row in enumerate(rows[5:9])]
    merged = pa.Table.from_batches(
        merge_runs(
            [_run("old", rows), _run("new", newer)],
            MergeRules.of(_schema()),
            ["s", "v"],
            ordered=True,
            window_bytes=512,
        )
    )
    expected = [(r["s"], "new" if 5 <= i < 9 else "old") for i, r in enumerate(rows)]
    assert [(r["s"], r["v"]) for r in merged.to_pylist()] == expected


@pytest.mark.parametrize("ordered", [pytest.param(False, marks=pytest.mark.modes), True])
def test_one_long_key_among_many_short_ones(ordered: bool) -> None:
    def rows(value: str, first: int, keys: list[str]) -> list[_Row]:
        return [
            {"k": 1, "s": key, "v": value, "q": 0, "_SEQUENCE_NUMBER": first + i, "_VALUE_KIND": 0}
            for i, key in enumerate(sorted(keys))
        ]

    # Padded to the longest, the keys of these runs would take 3 GB.
    long = [f"{n}" + "z" * 3_000_000 for n in (0, 9)]
    old = rows("old", 0, [*(f"{n:05d}" for n in range(500)), *long])
    new = rows("new", 20_000, [*(f"{n:05d}" for n in range(0, 1000, 2)), long[1]])
    merged = pa.Table.from_batches(
        merge_runs(
            [_run("old", old), _run("new", new)], MergeRules.of(_schema()), ["s", "v"],
            ordered=ordered,
        )
    ).to_pylist()  # fmt: skip
    expected = {row["s"]: row["v"] for row in [*old, *new]}
    assert {row["s"]: row["v"] for row in merged} == expected
    assert len(merged) == len(expected)
    if ordered:
        assert [row["s"] for row in merged] == sorted(expected)


def test_a_buffer_with_one_long_key() -> None:
    keys = ["b", "z" * 3_000_000, *(f"{n % 5000:05d}" for n in range(20_000)), "a"]
    rows = pa.RecordBatch.from_pylist(
        [
            {"k": 1, "s": key, "v": str(i), "q": 0, "_SEQUENCE_NUMBER": i, "_VALUE_KIND": 0}
            for i, key in enumerate(keys)
        ],
        _ARROW,
    )
    merged = merge_rows(rows, MergeRules.of(_schema())).to_pylist()
    newest = {key: str(i) for i, key in enumerate(keys)}
    assert [(row["s"], row["v"]) for row in merged] == sorted(newest.items())
