"""Comparison of rows that no key tells apart: each that one side has more often is reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cdc.sink.test_comparison import SCHEMA, VALUES

from headwater.cdc.sink.multisets import MultisetComparison, RowDifference

NUMBERS = pa.schema([("n", pa.int64()), ("s", pa.string())])
FEWER, MORE = RowDifference.FEWER, RowDifference.MORE

rows = st.lists(st.tuples(st.none() | st.integers(0, 3), st.sampled_from(["", "a", "A", None])))
kinds = st.lists(st.sampled_from([1, 1, -1]))


def batch(contents: Sequence[tuple[Any, ...]], schema: pa.Schema = NUMBERS) -> pa.RecordBatch:
    columns = list(zip(*contents, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def weights(*values: int) -> pa.Array:
    return pa.array(values, pa.int64())


@given(source=rows, lake=rows, signs=kinds, memory_bytes=st.sampled_from([100, 1 << 20]))
@settings(max_examples=60, deadline=None)
def test_rows_that_occur_more_often_are_reported(
    source: list[tuple[Any, ...]],
    lake: list[tuple[Any, ...]],
    signs: list[int],
    memory_bytes: int,
) -> None:
    signs = (signs + [1] * len(lake))[: len(lake)]
    expected: Counter[tuple[Any, ...]] = Counter(source)
    for row, sign in zip(lake, signs, strict=True):
        expected[row] -= sign
    with MultisetComparison(NUMBERS, memory_bytes=memory_bytes) as comparison:
        for begin in range(0, len(source), 3):
            comparison.add_source(batch(source[begin : begin + 3]))
        for begin in range(0, len(lake), 4):
            part = slice(begin, begin + 4)
            comparison.add_lake(batch(lake[part]), weights(*signs[part]))
        result = comparison.differences()
        reported = {
            (row["n"], row["s"]): row["difference"]
            for part in result.batches()
            for row in part.to_pylist()
        }
    assert reported == {
        row: FEWER if count > 0 else MORE for row, count in expected.items() if count
    }
    assert (result.source_rows, result.lake_rows) == (len(source), sum(signs))
    assert result.counts == dict(Counter(map(RowDifference, reported.values())))


@given(row=st.tuples(*(st.none() | strategy for _, strategy in VALUES.values())))
@settings(max_examples=40, deadline=None)
def test_values_of_all_types_come_back(row: tuple[Any, ...]) -> None:
    contents = batch([(1, "x", *row), (2, "x", *row)], SCHEMA)
    with MultisetComparison(SCHEMA) as comparison:
        comparison.add_source(contents)
        comparison.add_lake(contents.slice(0, 1), weights(1))
        (part,) = comparison.differences().batches()
    assert str(part.drop_columns(["difference"])) == str(contents.slice(1))
    assert part.column("difference").to_pylist() == [FEWER]


@pytest.mark.parametrize(("distinct", "is_stored"), [(100, False), (40_000, True)])
def test_equal_rows_take_no_memory(tmp_path: Path, distinct: int, is_stored: bool) -> None:
    count, size, memory_bytes = 50, 10_000, 4 << 20
    same = batch([(7, "same")] * size)
    with MultisetComparison(
        NUMBERS, memory_bytes=memory_bytes, directory=str(tmp_path)
    ) as comparison:
        for number in range(count):
            comparison.add_source(same)
            others = np.arange(number * size, (number + 1) * size) % distinct
            comparison.add_source(
                pa.RecordBatch.from_arrays(
                    [pa.array(others), pa.repeat("other", size)], schema=NUMBERS
                )
            )
        stored = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
        for number in range(count):
            comparison.add_lake(same, weights(*[1] * size))
            others = np.arange(number * size, (number + 1) * size) % distinct
            comparison.add_lake(
                pa.RecordBatch.from_arrays(
                    [pa.array(others), pa.repeat("other", size)], schema=NUMBERS
                ),
                weights(*[1] * size),
            )
        comparison.add_lake(same.slice(0, 1), weights(-1))
        result = comparison.differences()
        (part,) = result.batches()
    assert (stored > 0) == is_stored
    assert part.to_pylist() == [{"n": 7, "s": "same", "difference": FEWER}]
    assert (result.source_rows, result.lake_rows) == (2 * count * size, 2 * count * size - 1)
    assert not list(tmp_path.iterdir())
