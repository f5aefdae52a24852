"""The merge engine ``partial-update`` beside Paimon's own, row by row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.modes import essential

from headwater.client import connect
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.merge.engine import RowGroups
from headwater.storage.merge.registry import merge_engine
from headwater.storage.schema.table_schema import Schema, TableSchema

_Value: TypeAlias = Any
_Values: TypeAlias = dict[str, _Value]
_SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), False),
        pa.field("a", pa.int32()),
        pa.field("s1", pa.int32()),
        pa.field("b", pa.string()),
        pa.field("c", pa.int32()),
        pa.field("s2", pa.string()),
        pa.field("d", pa.list_(pa.int32())),
        pa.field("s3", pa.int32()),
    ]
)
_INSERT, _BEFORE, _AFTER, _DELETE = range(4)


@dataclass(frozen=True)
class _Row:
    kind: int
    values: _Values


class _Function:
    """One column's function, as ``FieldAggregator.java`` has it."""

    def __init__(self, name: str, ignores: bool) -> None:
        self.name, self.ignores, self.begun = name, ignores, False

    def agg(self, there: _Value, new: _Value) -> _Value:
        match self.name:
            case "last_value":
                return new
            case "last_non_null_value":
                return there if new is None else new
            case "first_value":
                if self.begun:
                    return there
                self.begun = True
                return new
            case "first_non_null_value":
                if self.begun or new is None:
                    return there
                self.begun = True
                return new
        if there is None or new is None:
            return new if there is None else there
        match self.name:
            case "sum":
                return there + new
            case "max":
                return max(there, new)
            case "listagg":
                return f"{there},{new}"
            case "collect":
                return there + new
        raise AssertionError(self.name)

    def reversed(self, there: _Value, new: _Value) -> _Value:
        if self.name == "collect" and not self.ignores:
            return self.agg(there, new)
        return self.agg(new, there)

    def retract(self, there: _Value, gone: _Value) -> _Value:
        if self.ignores:
            return there
        match self.name:
            case "last_value":
                return None
            case "last_non_null_value":
                return there if gone is None else None
            case "sum":
                if there is None or gone is None:
                    return there if gone is None else -gone
                return there - gone
            case "collect":
                if there is None or gone is None:
                    return there
                left, kept = list(gone), []
                for element in there:
                    if element in left:
                        left.remove(element)
                    else:
                        kept.append(element)
                return kept
        raise AssertionError(self.name)


@dataclass(frozen=True)
class _Rules:
    """A table's options.

    Attributes:
        groups: The columns of each group by its sequence fields.
        functions: The name of each column's function, and whether it ignores retractions.
        removes: True if a ``-D`` row removes.
        removing: Sequence fields with which it does.
    """

    groups: Mapping[tuple[str, ...], tuple[str, ...]]
    functions: Mapping[str, tuple[str, bool]]
    removes: bool = False
    removing: tuple[str, ...] = ()

    @property
    def options(self) -> dict[str, str]:
        found = {"merge-engine": "partial-update", "bucket": "1"}
        for fields, columns in self.groups.items():
            found[f"fields.{','.join(fields)}.sequence-group"] = ",".join(columns)
        for column, (name, ignores) in self.functions.items():
            found[f"fields.{column}.aggregate-function"] = name
            if ignores:
                found[f"fields.{column}.ignore-retract"] = "true"
        if self.removes:
            found["partial-update.remove-record-on-delete"] = "true"
        if self.removing:
            found["partial-update.remove-record-on-sequence-group"] = ",".join(self.removing)
        return found


def _order(values: _Values, fields: Sequence[str]) -> list[tuple[bool, _Value]]:
    return [(values[name] is not None, values[name] or _ZEROS[name]) for name in fields]


_ZEROS: Mapping[str, _Value] = {"s1": 0, "s2": "", "s3": 0}


def _merged(rows: Sequence[_Row], rules: _Rules) -> _Row:
    """The rows of one key in one, as ``PartialUpdateMergeFunction.java`` merges them."""
    columns = _SCHEMA.names[1:]
    group_of = {
        name: fields for fields, others in rules.groups.items() for name in (*fields, *others)
    }
    functions = {name: _Function(*each) for name, each in rules.functions.items()}
    there: _Values = dict.fromkeys(columns)
    inserted = filled = deleted = False
    for row in rows:
        deleted = False
        if row.kind in (_BEFORE, _DELETE):
            if not filled:
                there = dict(row.values)
                filled = True
            if rules.groups:
                removes = False
                seen: set[tuple[str, ...]] = set()
                for name in columns:
                    fields = group_of.get(name)
                    if fields is None or (name in fields and fields in seen):
                        continue
                    if all(row.values[field] is None for field in fields):
                        continue
                    if _order(row.values, fields) < _order(there, fields):
                        if name in functions and name not in fields:
                            there[name] = functions[name].retract(there[name], row.values[name])
                        continue
                    if name in fields:
                        seen.add(fields)
                        if row.kind == _DELETE and set(fields) & set(rules.removing):
                            removes = True
                            break
                        for field in fields:
                            there[field] = row.values[field]
                    elif name in functions:
                        there[name] = functions[name].retract(there[name], row.values[name])
                    else:
                        there[name] = None
                if removes:
                    deleted = True
                    there = dict(row.values)
                continue
            assert rules.removes
            if row.kind == _DELETE:
                deleted = True
                there = dict(row.values)
            continue
        seen = set()
        for name in columns:
            fields = group_of.get(name)
            new = row.values[name]
            if fields is None:
                if new is not None:
                    there[name] = new
                continue
            if name in fields and fields in seen:
                continue
            if all(row.values[field] is None for field in fields):
                continue
            if _order(row.values, fields) >= _order(there, fields):
                if name in fields:
                    seen.add(fields)
                    for field in fields:
                        there[field] = row.values[field]
                elif name in functions:
                    there[name] = functions[name].agg(there[name], new)
                else:
                    there[name] = new
            elif name in functions and name not in fields:
                there[name] = functions[name].reversed(there[name], new)
        inserted = filled = True
    return _Row(_DELETE if deleted or not inserted else _INSERT, there)


_Groups: TypeAlias = Mapping[tuple[str, ...], tuple[str, ...]]
_GROUPED: _Groups = {("s1",): ("a", "b")}
_TWO: _Groups = {("s1", "s3"): ("a", "b"), ("s2",): ("c", "d")}
_THREE: _Groups = {("s1",): ("a",), ("s2",): ("b", "c"), ("s3",): ("d",)}
_RETRACTABLE = {"a": ("sum", False), "c": ("last_non_null_value", False), "d": ("collect", False)}
_IGNORING = {
    "a": ("first_non_null_value", True),
    "b": ("listagg", True),
    "c": ("first_value", True),
    "d": ("collect", True),
}
_CASES: Mapping[str, tuple[_Rules, Sequence[int]]] = {
    "plain": (_Rules({}, {}), (_INSERT, _AFTER)),
    "removing": (_Rules({}, {}, removes=True), (_INSERT, _BEFORE, _AFTER, _DELETE)),
    "grouped": (_Rules(_GROUPED, {}), range(4)),
    "two groups": (_Rules(_TWO, {}), range(4)),
    "functions": (_Rules(_TWO, _RETRACTABLE), range(4)),
    "last value": (
        _Rules(_TWO, {"a": ("last_value", False), "b": ("last_non_null_value", False)}), range(4)
    ),
    "ignoring": (_Rules(_TWO, _IGNORING), range(4)),
    "only added": (_Rules(_THREE, {**_RETRACTABLE, "a": ("max", False), "b": ("listagg", False)}),
                   (_INSERT, _AFTER)),
    "one removes": (_Rules(_TWO, _RETRACTABLE, removing=("s3",)), range(4)),
    "one removes, ignoring": (_Rules(_TWO, _IGNORING, removing=("s2",)), range(4)),
    "two remove": (_Rules(_THREE, _RETRACTABLE, removing=("s1", "s2")), range(4)),
    "all remove, ignoring": (_Rules(_THREE, _IGNORING, removing=("s1", "s2", "s3")), range(4)),
}  # fmt: skip

_NUMBER = st.none() | st.integers(0, 4)
_TEXT = st.none() | st.sampled_from("xyz")
_VALUES = st.fixed_dictionaries(
    {
        "a": _NUMBER,
        "s1": _NUMBER,
        "b": _TEXT,
        "c": _NUMBER,
        "s2": _TEXT,
        "d": st.none() | st.lists(st.integers(0, 2), max_size=2),
        "s3": _NUMBER,
    }
)


def _schema(options: Mapping[str, str]) -> TableSchema:
    wanted = Schema.from_arrow(_SCHEMA, primary_keys=["k"], options=options)
    return TableSchema(0, wanted.fields, 7, (), ("k",), wanted.options, None, 0)


_ALWAYS = ("removing", "functions", "two remove")


@pytest.mark.parametrize(
    "case",
    essential(_CASES, _ALWAYS),
)
@settings(max_examples=examples(50), deadline=None)
@given(data=st.data())
def test_rows_become_what_paimon_makes_of_them_one_after_another(
    case: str, data: st.DataObject
) -> None:
    rules, kinds = _CASES[case]
    row = st.builds(_Row, st.sampled_from(kinds), _VALUES)
    groups = data.draw(st.lists(st.lists(row, min_size=1, max_size=6), min_size=1, max_size=4))
    columns = data.draw(st.lists(st.sampled_from(_SCHEMA.names[1:]), min_size=1, unique=True))
    rows = [each for group in groups for each in group]
    table = pa.RecordBatch.from_pylist(
        [{"k": 0, **each.values, "_VALUE_KIND": each.kind} for each in rows],
        _SCHEMA.append(pa.field("_VALUE_KIND", pa.int8())),
    )
    engine = merge_engine(_schema(rules.options))
    needed = {*engine.inputs(columns), "_VALUE_KIND"}

    def gather(names: Sequence[str]) -> pa.RecordBatch:
        assert needed.issuperset(names)
        return table.select(list(names))

    firsts = np.cumsum([0, *(len(group) for group in groups[:-1])])
    merged = engine.merge(RowGroups(len(rows), firsts, gather), columns)
    assert isinstance(merged, pa.RecordBatch)
    merged.validate(full=True)
    expected = [_merged(group, rules) for group in groups]
    assert merged.select(columns).to_pylist() == [
        {name: each.values[name] for name in columns} for each in expected
    ]
    assert merged.column("_VALUE_KIND").to_pylist() == [each.kind for each in expected]
    assert merged.select(columns).schema.types == [_SCHEMA.field(name).type for name in columns]


_STEPS = st.lists(
    st.one_of(
        st.lists(
            st.tuples(st.integers(0, 2), st.sampled_from(range(4)), _VALUES),
            min_size=1,
            max_size=8,
        ),
        st.just("compact"),
    ),
    max_size=5,
)


@pytest.mark.modes
@pytest.mark.parametrize("case", ["removing", "functions", "ignoring", "two remove"])
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=_STEPS,
    columns=st.lists(st.sampled_from(_SCHEMA.names), min_size=1, unique=True),
    least=st.integers(-2, 6),
)
def test_a_table_is_written_read_and_compacted(
    tmp_path: Path, case: str, steps: Sequence[_Value], columns: list[str], least: int
) -> None:
    rules, _ = _CASES[case]
    with connect(tmp_path) as lake:
        lake.create_database("d", ignore_if_exists=True)
        lake.drop_table("d.t", ignore_if_not_exists=True)
        table = lake.create_table("d.t", _SCHEMA, primary_keys=["k"], options=rules.options)
    files: dict[int, list[_Row]] = {}
    for step in [*steps, "compact"]:
        if step == "compact":
            table.compact()
            states = {key: _in_one(rows, rules) for key, rows in files.items()}
            files = {key: [row] for key, row in states.items() if row.kind & 1 == 0}
        else:
            rows = [{"k": key, **values} for key, _, values in step]
            kinds = pa.array([kind for _, kind, _ in step], pa.int8())
            table.write(pa.Table.from_pylist(rows, _SCHEMA), row_kinds=kinds)
            for key in {key for key, _, _ in step}:
                new = [_Row(kind, values) for each, kind, values in step if each == key]
                files.setdefault(key, []).append(_in_one(new, rules))
        states = {key: _in_one(rows, rules) for key, rows in files.items()}
        expected = [{"k": key, **row.values} for key, row in states.items() if row.kind & 1 == 0]
        _same(table.scan().to_arrow(), expected, _SCHEMA.names)
        _same(table.scan(columns=columns).to_arrow(), expected, columns)
        matching = [row for row in expected if row["a"] is not None and row["a"] >= least]
        _same(table.scan(where=f"a >= {least}").to_arrow(), matching, _SCHEMA.names)


def _in_one(rows: Sequence[_Row], rules: _Rules) -> _Row:
    """A single row stays as it is."""
    return rows[0] if len(rows) == 1 else _merged(rows, rules)


def _same(found: pa.Table, rows: Sequence[_Values], columns: Sequence[str]) -> None:
    expected = [{name: row[name] for name in columns} for row in rows]
    assert sorted(found.to_pylist(), key=repr) == sorted(expected, key=repr)


def test_a_late_row_comes_after_one_that_was_taken_back() -> None:
    rules = _Rules({("s1",): ("a",)}, {"a": ("last_value", False)})
    rows = [
        _Row(kind, dict.fromkeys(_SCHEMA.names[1:]) | {"a": a, "s1": s1})
        for kind, a, s1 in [(_INSERT, 1, None), (_BEFORE, 7, 3), (_INSERT, 2, 1)]
    ]
    assert _merged(rows, rules).values["a"] is None
    batch = pa.RecordBatch.from_pylist(
        [{"k": 0, **row.values, "_VALUE_KIND": row.kind} for row in rows],
        _SCHEMA.append(pa.field("_VALUE_KIND", pa.int8())),
    )
    groups = RowGroups(3, np.array([0]), lambda names: batch.select(list(names)))
    merged = merge_engine(_schema(rules.options)).merge(groups, ["a", "s1"])
    assert isinstance(merged, pa.RecordBatch)
    assert merged.to_pylist() == [{"a": None, "s1": 3, "_VALUE_KIND": _INSERT}]


def test_a_column_in_two_groups_has_no_rule() -> None:
    options = {"merge-engine": "partial-update"}
    shared = {"fields.s1.sequence-group": "a", "fields.s1,s3.sequence-group": "b"}
    with pytest.raises(Unsupported, match="'s1' is in two sequence groups"):
        merge_engine(_schema({**options, **shared}))


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({}, _BEFORE, "'ignore-delete'.*'partial-update.remove-record-on-delete'.*sequence-group"),
        ({}, _DELETE, "'ignore-delete'"),
        (
            {"fields.s1.sequence-group": "a", "fields.a.aggregate-function": "max"},
            _DELETE,
            "'a'.*max.*ignore-retract",
        ),
    ],
)
def test_rows_that_cannot_be_merged_are_refused(
    options: Mapping[str, str], kind: int, words: str
) -> None:
    engine = merge_engine(_schema({"merge-engine": "partial-update", **options}))
    assert engine.refused_kinds(np.array([_INSERT, _AFTER], np.int8)) is None
    assert re.search(words, engine.refused_kinds(np.array([_INSERT, kind], np.int8)) or "")
    row = dict.fromkeys(_SCHEMA.names[1:], 1) | {"k": 0, "b": "x", "s2": "x", "d": [1]}
    rows = pa.RecordBatch.from_pylist(
        [{**row, "_VALUE_KIND": _INSERT}, {**row, "_VALUE_KIND": kind}],
        _SCHEMA.append(pa.field("_VALUE_KIND", pa.int8())),
    )
    groups = RowGroups(2, np.array([0]), lambda names: rows.select(list(names)))
    with pytest.raises(Invalid, match=words):
        engine.merge(groups, ["a"])
