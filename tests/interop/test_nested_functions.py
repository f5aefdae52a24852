"""Aggregate functions over nested values beside Paimon's own, called one row after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from py4j.java_gateway import JavaGateway

from headwater.storage.merge.column_functions import ColumnFunction
from headwater.storage.merge.field_aggregates import GroupedColumn
from headwater.storage.options import TableOptions
from headwater.storage.schema.table_schema import Schema

_Row: TypeAlias = dict[str, Any]

ROW = pa.struct([("k", pa.int32()), ("l", pa.int32()), ("s", pa.int32()), ("t", pa.string())])
TABLE, MAP = pa.list_(ROW), pa.map_(pa.int32(), ROW)
KEYED = {"nested-key": "k,l"}
# Of each case: the function, its options, the column's type, and whether it takes values back.
CASES: Mapping[str, tuple[str, Mapping[str, str], pa.DataType, bool]] = {
    "whole": ("nested_update", {}, TABLE, True),
    "few": ("nested_update", {"count-limit": "3"}, TABLE, True),
    "keyed": ("nested_update", KEYED, TABLE, True),
    "keyed few": ("nested_update", {**KEYED, "count-limit": "2"}, TABLE, True),
    "ignoring": ("nested_update", {**KEYED, "nested-key-null-strategy": "ignore"}, TABLE, True),
    "sequence": ("nested_update", {**KEYED, "nested-sequence-field": "s,t"}, TABLE, True),
    "partial": ("nested_partial_update", {"nested-key": "k"}, TABLE, False),
    "timed": ("merge_map_with_keytime", {}, MAP, False),
    "timed by field": ("merge_map_with_keytime", {"ts-field": "t"}, MAP, False),
    "merged": ("merge_map", {}, MAP, True),
    "collected": ("collect", {}, TABLE, False),
    "distinct": ("collect", {"distinct": "true"}, TABLE, False),
}
FACTORIES = {
    "nested_update": "FieldNestedUpdateAggFactory",
    "nested_partial_update": "FieldNestedPartialUpdateAggFactory",
    "merge_map": "FieldMergeMapAggFactory",
    "merge_map_with_keytime": "FieldMergeMapWithKeyTimeAggFactory",
    "collect": "FieldCollectAggFactory",
}
# What came, or changed, after release 1.4: before it, the rows of a first value were not told apart
# by their key.
NEW = {"keyed", "partial", "keyed few", "ignoring", "sequence", "timed", "timed by field"}


class _Java:
    """Values and functions of Paimon's Java library."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway = gateway
        self._jvm: Any = gateway.jvm
        self._data: Any = gateway.jvm.org.apache.paimon.data

    def _array(self, values: Sequence[Any]) -> Any:
        array = self._gateway.new_array(self._jvm.java.lang.Object, len(values))
        for at, value in enumerate(values):
            array[at] = value
        return array

    def _row(self, row: _Row | None) -> Any:
        if row is None:
            return None
        text = None if row["t"] is None else self._data.BinaryString.fromString(row["t"])
        return self._data.GenericRow.of(self._array([row["k"], row["l"], row["s"], text]))

    def value(self, value: Any, arrow: pa.DataType) -> Any:
        """A value of a column."""
        if value is None:
            return None
        if not pa.types.is_map(arrow):
            return self._data.GenericArray(self._array([self._row(row) for row in value]))
        entries = self._jvm.java.util.HashMap()
        for key, row in value:
            entries.put(key, self._row(row))
        return self._data.GenericMap(entries)

    def plain(self, value: Any, arrow: pa.DataType) -> Any:
        """The value again."""
        if value is None:
            return None
        if not pa.types.is_map(arrow):
            return self._rows(value)
        keys = [value.keyArray().getInt(at) for at in range(value.size())]
        return list(zip(keys, self._rows(value.valueArray()), strict=True))

    def _rows(self, array: Any) -> list[_Row | None]:
        return [
            None if array.isNullAt(at) else self._fields(array.getRow(at, 4))
            for at in range(array.size())
        ]

    @staticmethod
    def _fields(row: Any) -> _Row:
        read: Sequence[Callable[[int], Any]] = [row.getInt, row.getInt, row.getInt, row.getString]
        values = [None if row.isNullAt(at) else get(at) for at, get in enumerate(read)]
        text = None if values[3] is None else values[3].toString()
        return dict(zip("klst", [*values[:3], text], strict=True))

    def function(self, name: str, options: Mapping[str, str], arrow: pa.DataType) -> Any:
        """A column's function."""
        types = self._jvm.org.apache.paimon.types.DataTypes
        kinds = self._gateway.new_array(self._jvm.org.apache.paimon.types.DataType, 4)
        for at, kind in enumerate((types.INT(), types.INT(), types.INT(), types.STRING())):
            kinds[at] = kind
        names = self._gateway.new_array(self._jvm.java.lang.String, 4)
        for at, letter in enumerate("klst"):
            names[at] = letter
        row = self._jvm.org.apache.paimon.types.RowType.of(kinds, names)
        column = types.MAP(types.INT(), row) if pa.types.is_map(arrow) else types.ARRAY(row)
        given = {f"fields.x.{key}": value for key, value in options.items()}
        core = self._jvm.org.apache.paimon.CoreOptions(given)
        factories = self._jvm.org.apache.paimon.mergetree.compact.aggregate.factory
        return getattr(factories, FACTORIES[name])().create(column, core, "x")


def _values(random: Random, arrow: pa.DataType, nulls: float) -> Any:
    def number(most: int, nulls: float = 0.2) -> int | None:
        return None if random.random() < nulls else random.randint(0, most)

    def row() -> _Row | None:
        if random.random() < nulls:
            return None
        text = None if random.random() < 0.2 else random.choice("123")
        return {"k": number(2), "l": number(1), "s": number(3), "t": text}

    if random.random() < 0.15:
        return None
    if pa.types.is_map(arrow):
        return [(key, row()) for key in range(4) if random.random() < 0.6]
    return [row() for _ in range(random.randint(0, 3))]


def _sorted(value: Any) -> Any:
    """A nested value without the order of its elements."""
    return None if value is None else sorted(map(repr, value))


@pytest.mark.interop_java
@pytest.mark.parametrize("case", CASES)
def test_functions_over_nested_values_are_those_of_java(
    java_gateway: JavaGateway, java_version: str, case: str
) -> None:
    if java_version.startswith("1.") and case in NEW:
        pytest.skip("the function or its option came with release 2.0")
    name, options, arrow, takes_back = CASES[case]
    java = _Java(java_gateway)
    random = Random(11)
    # Java fails where it compares a null with a row.
    nulls = 0 if case == "distinct" else 0.1
    theirs = java.function(name, options, arrow)
    field = Schema.from_arrow(pa.schema([("x", arrow)])).fields[0]
    given = {f"fields.x.{key}": value for key, value in options.items()}
    ours = ColumnFunction.of(field, name, TableOptions(given)).function
    values: list[Any] = []
    retracts: list[bool] = []
    expected: list[Any] = []
    firsts = [0]
    for _ in range(25):
        theirs.reset()
        held = None
        for _ in range(random.randint(2, 5)):
            value, gone = _values(random, arrow, nulls), takes_back and random.random() < 0.3
            step = theirs.retract if gone else theirs.agg
            held = step(held, java.value(value, arrow))
            values.append(value)
            retracts.append(gone)
        firsts.append(len(values))
        expected.append(_sorted(java.plain(held, arrow)))
    column = GroupedColumn(
        pa.array(values, arrow),
        np.array(firsts[:-1]),
        np.array(retracts) if any(retracts) else None,
    )
    assert [_sorted(value) for value in ours.merge(column).to_pylist()] == expected
