"""The aggregate functions over nested values and states beside Paimon's own, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap
from tests.examples import examples
from tests.modes import essential

from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.merge.column_functions import ColumnFunction
from headwater.storage.merge.field_aggregates import GroupedColumn
from headwater.storage.options import TableOptions
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField

_Value: TypeAlias = Any
_Nested: TypeAlias = dict[str, Any]
_Step: TypeAlias = Callable[[_Value, _Value, bool], _Value]

_ROW = pa.struct([("k", pa.int32()), ("l", pa.string()), ("s", pa.int32()), ("v", pa.int32())])
_TABLE = pa.list_(_ROW)
_TIMED = pa.map_(pa.string(), pa.struct([("v", pa.int32()), ("t", pa.string())]))


def _field(arrow: pa.DataType) -> DataField:
    return Schema.from_arrow(pa.schema([("x", arrow)])).fields[0]


def _function(arrow: pa.DataType, name: str, options: Mapping[str, str]) -> ColumnFunction:
    given = {f"fields.x.{key}": value for key, value in options.items()}
    return ColumnFunction.of(_field(arrow), name, TableOptions(given))


def _nested_update(
    key: tuple[str, ...] = (),
    sequence: tuple[str, ...] = (),
    limit: int = 2**31 - 1,
    ignore: bool = False,
) -> _Step:
    """``FieldNestedUpdateAgg.java``."""

    def known(row: _Nested) -> tuple[_Value, ...] | None:
        found = tuple(row[name] for name in key)
        return None if ignore and None in found else found

    def age(row: _Nested) -> list[tuple[bool, int]]:
        return [(row[name] is not None, row[name] or 0) for name in sequence]

    def put(rows: dict[_Value, _Nested], row: _Nested | None, most: int) -> None:
        if row is None or (at := known(row)) is None:
            return
        there = rows.get(at)
        if there is not None:
            if age(row) >= age(there):
                rows[at] = row
        elif len(rows) < most:
            rows[at] = row

    def step(there: _Value, new: _Value, retracts: bool) -> _Value:
        if new is None or (retracts and there is None):
            return there
        if not key:
            if retracts:
                return [row for row in there if row not in new]
            kept = [] if there is None else list(there)
            return kept + [row for row in new if row is not None][: max(0, limit - len(kept))]
        rows: dict[_Value, _Nested] = {}
        for row in there or ():
            put(rows, row, 2**31)
        for row in new:
            if not retracts:
                put(rows, row, limit)
            elif row is not None:
                rows.pop(known(row), None)
        return list(rows.values())

    return step


def _nested_partial_update(there: _Value, new: _Value, _: bool) -> _Value:
    """``FieldNestedPartialUpdateAgg.java``, with the key ``k``."""
    if new is None:
        return there
    rows: dict[_Value, _Nested] = {}
    for row in [*(there or ()), *new]:
        if row is not None:
            held = rows.setdefault(row["k"], dict.fromkeys(row))
            held.update({name: value for name, value in row.items() if value is not None})
    return list(rows.values())


def _keytime(there: _Value, new: _Value, _: bool) -> _Value:
    """``FieldMergeMapWithKeyTimeAgg.java``."""
    if there is None or new is None:
        return new if there is None else there
    rows = dict(there)
    for key, row in new:
        if row is None:
            rows.pop(key, None)
        elif row["t"] is not None:
            held = rows.get(key)
            if held is None or held["t"] is None or row["t"] > held["t"]:
                rows[key] = row
    return list(rows.items())


def _collect(distinct: bool) -> _Step:
    def step(there: _Value, new: _Value, retracts: bool) -> _Value:
        if new is None or (retracts and there is None):
            return there
        kept = list(there or ())
        if not retracts:
            return kept + [
                row for at, row in enumerate(new)
                if not distinct or (row not in kept and row not in new[:at])
            ]  # fmt: skip
        gone = list(new)
        left = []
        for row in kept:
            if row in gone:
                gone.remove(row)
            else:
                left.append(row)
        return left

    return step


_NUMBER = st.none() | st.integers(0, 2)
_ROWS = st.lists(
    st.none()
    | st.fixed_dictionaries({"k": _NUMBER, "l": st.sampled_from("ab"), "s": _NUMBER, "v": _NUMBER}),
    max_size=3,
)
_ENTRIES = st.dictionaries(
    st.sampled_from("ab"),
    st.none() | st.fixed_dictionaries({"v": _NUMBER, "t": st.none() | st.sampled_from("123")}),
    max_size=2,
).map(lambda found: list(found.items()))
_KEYED = {"nested-key": "k, l"}

_CASES: Mapping[str, tuple[pa.DataType, str, Mapping[str, str], st.SearchStrategy[_Value], _Step]]
_CASES = {
    "whole rows": (_TABLE, "nested_update", {}, _ROWS, _nested_update()),
    "whole rows, few": (
        _TABLE, "nested_update", {"count-limit": "2"}, _ROWS, _nested_update(limit=2)
    ),
    "keyed": (_TABLE, "nested_update", _KEYED, _ROWS, _nested_update(("k", "l"))),
    "keyed, ignoring": (
        _TABLE, "nested_update", {**_KEYED, "nested-key-null-strategy": "IGNORE"}, _ROWS,
        _nested_update(("k", "l"), ignore=True),
    ),
    "keyed, few": (
        _TABLE, "nested_update", {**_KEYED, "count-limit": "2"}, _ROWS,
        _nested_update(("k", "l"), limit=2),
    ),
    "in sequence": (
        _TABLE, "nested_update", {**_KEYED, "nested-sequence-field": "s,v"}, _ROWS,
        _nested_update(("k", "l"), ("s", "v")),
    ),
    "in sequence, few": (
        _TABLE, "nested_update", {"nested-key": "k", "nested-sequence-field": "s",
                                  "count-limit": "1"}, _ROWS,
        _nested_update(("k",), ("s",), 1),
    ),
    "partial": (
        _TABLE, "nested_partial_update", {"nested-key": "k"}, _ROWS, _nested_partial_update
    ),
    "timed": (_TIMED, "merge_map_with_keytime", {}, _ENTRIES, _keytime),
    "collected": (_TABLE, "collect", {}, _ROWS, _collect(False)),
    "collected once": (_TABLE, "collect", {"distinct": "true"}, _ROWS, _collect(True)),
}  # fmt: skip
_ALWAYS = ("in sequence, few", "timed")


def _plain(value: _Value) -> _Value:
    """A nested value whose elements and fields are in an order."""
    if isinstance(value, dict):
        return sorted(value.items())
    if isinstance(value, tuple):
        return value[0], _plain(value[1])
    if value is None:
        return None
    return sorted((_plain(each) for each in value), key=repr)


@pytest.mark.parametrize(
    "case",
    essential(_CASES, _ALWAYS),
)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_groups_become_what_their_rows_do_one_after_another(case: str, data: st.DataObject) -> None:
    arrow, name, options, values, step = _CASES[case]
    function = _function(arrow, name, options).function
    retracts = st.booleans() if function.takes_retractions else st.just(False)
    row = st.tuples(st.none() | values, retracts)
    groups = data.draw(st.lists(st.lists(row, min_size=1, max_size=5), min_size=1, max_size=4))
    rows = [each for group in groups for each in group]
    mask = np.array([retracting for _, retracting in rows])
    column = GroupedColumn(
        pa.array([value for value, _ in rows], arrow),
        np.cumsum([0, *(len(group) for group in groups[:-1])]),
        mask if mask.any() else None,
    )
    expected = []
    for group in groups:
        there = None
        for value, retracting in group:
            there = step(there, value, retracting)
        expected.append(there)
    merged = function.merge(column)
    merged.validate(full=True)
    assert merged.type == arrow
    assert [_plain(value) for value in merged.to_pylist()] == [_plain(each) for each in expected]


def test_a_null_in_a_nested_key_may_be_an_error() -> None:
    function = _function(
        _TABLE, "nested_update", {"nested-key": "k", "nested-key-null-strategy": "error"}
    ).function
    rows = [[{"k": None, "l": "a", "s": 1, "v": 1}], [{"k": 1, "l": "a", "s": 1, "v": 1}]]
    with pytest.raises(Invalid, match=r"column 'x': 1 nested rows hold null in their key \(k\)"):
        function.merge(GroupedColumn(pa.array(rows, _TABLE), np.array([0])))


@pytest.mark.parametrize(
    ("arrow", "name", "options", "words"),
    [
        (_TABLE, "nested_update", {"nested-key": "z"}, "names 'z', which is no field"),
        (_TABLE, "nested_update", {"nested-sequence-field": "s"}, r"needs 'fields\.x\.nested-key'"),
        (_TABLE, "nested_update", {"nested-key-null-strategy": "merge"}, "needs 'fields.x.nested"),
        (_TABLE, "nested_update", {"nested-key": "k", "nested-key-null-strategy": "?"}, "one of"),
        (_TABLE, "nested_partial_update", {}, r"needs 'fields\.x\.nested-key'"),
        (pa.list_(pa.int32()), "nested_update", {}, "for ARRAY of ROW"),
        (_TIMED, "merge_map_with_keytime", {"ts-field": "z"}, "names 'z', which is no field"),
        (_TIMED, "merge_map_with_keytime", {"ts-field": "v"}, "compares times as text"),
        (pa.map_(pa.string(), pa.int32()), "merge_map_with_keytime", {}, "for MAP of ROW"),
        (pa.string(), "rbm32", {}, "for VARBINARY"),
        (pa.string(), "hll_sketch", {}, "for VARBINARY"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    arrow: pa.DataType, name: str, options: Mapping[str, str], words: str
) -> None:
    with pytest.raises(Invalid, match=words):
        _function(arrow, name, options)


def _bitmap(values: Sequence[int]) -> bytes:
    return bytes(BitMap(values).serialize())


def _theta(values: Sequence[int]) -> bytes:
    sketch = datasketches.update_theta_sketch()
    for value in values:
        sketch.update(value)
    return bytes(sketch.compact().serialize())


def _hll(values: Sequence[int]) -> bytes:
    sketch = datasketches.hll_sketch(12)
    for value in values:
        sketch.update(value)
    return bytes(sketch.serialize_compact())


_STATES: Mapping[str, tuple[Callable[[Sequence[int]], bytes], Callable[[bytes], float]]] = {
    "rbm32": (_bitmap, lambda state: len(BitMap.deserialize(state))),
    "theta_sketch": (
        _theta, lambda state: datasketches.compact_theta_sketch.deserialize(state).get_estimate()
    ),
    "hll_sketch": (_hll, lambda state: datasketches.hll_sketch.deserialize(state).get_estimate()),
}  # fmt: skip


@pytest.mark.parametrize("name", _STATES)
def test_states_are_united_by_their_library(name: str) -> None:
    make, count = _STATES[name]
    function = _function(pa.binary(), name, {}).function
    alone = make([7])
    values = [make(range(10)), None, make(range(5, 20)), make([30]), None, None, alone, b"\1"]
    column = GroupedColumn(pa.array(values, pa.binary()), np.array([0, 4, 5, 7]))
    first, nothing, single, damaged = function.merge(column).to_pylist()
    assert count(first) == pytest.approx(21, rel=1e-3)
    # What is alone is not looked at.
    assert (nothing, single, damaged) == (None, alone, b"\1")
    broken = GroupedColumn(pa.array([alone, b"\1"], pa.binary()), np.array([0]))
    with pytest.raises(Invalid, match="column 'x' holds bytes that are no state"):
        function.merge(broken)


def test_sketches_need_their_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.storage.merge.field_sketches.find_spec", lambda name: None)
    for name in ("theta_sketch", "hll_sketch"):
        with pytest.raises(Unsupported, match=r"install headwater\[sketches\]"):
            _function(pa.binary(), name, {})
