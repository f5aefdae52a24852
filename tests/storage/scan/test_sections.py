"""Files by key range: sections, runs, and packing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from hypothesis import given
from hypothesis import strategies as st

from headwater.storage.files.layout import TableLayout
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.manifest.data_file import DataFile, SimpleStats
from headwater.storage.rows.binary_row import EMPTY_ROW, serialize_row
from headwater.storage.scan.sections import FileRun, key_sections, pack_in_order
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField, parse_type


class _Ranged(Protocol):
    @property
    def files(self) -> Sequence[DataFile]: ...


_TYPE = parse_type("BIGINT NOT NULL")
_SCHEMA = TableSchema(0, (DataField(0, "k", _TYPE),), 0, (), ("k",), {}, None, 0)
_STORAGE = TableStorage("db.t", TableLayout("file:///nowhere"), LocalFileAccess(), _SCHEMA)
_NO_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


def _file(number: int, low: int, high: int, level: int, first: int, last: int) -> DataFile:
    return DataFile(
        f"data-{number}.parquet",
        100,
        1,
        serialize_row([low], [_TYPE]),
        serialize_row([high], [_TYPE]),
        _NO_STATS,
        _NO_STATS,
        first,
        last,
        0,
        level,
    )


def _names(files: _Ranged) -> list[int]:
    return [int(file.file_name[5:-8]) for file in files.files]


def test_touching_key_ranges_hang_together() -> None:
    files = [_file(0, 1, 5, 0, 0, 9), _file(1, 5, 7, 0, 10, 19), _file(2, 8, 9, 0, 20, 29)]
    sections = key_sections(_STORAGE, files)
    assert [_names(section) for section in sections] == [[0, 1], [2]]
    assert [len(section.runs) for section in sections] == [2, 1]


def test_a_level_is_one_run_and_disjoint_flushes_are_one() -> None:
    files = [
        _file(0, 0, 40, 5, 0, 40),
        _file(1, 41, 99, 5, 0, 40),
        # One flush in two files, whose sequence numbers interleave.
        _file(2, 10, 19, 0, 50, 69),
        _file(3, 20, 29, 0, 51, 68),
        # The next, of other keys, and one of the same keys.
        _file(4, 30, 45, 0, 70, 79),
        _file(5, 15, 25, 0, 80, 89),
    ]
    (section,) = key_sections(_STORAGE, reversed(files))
    assert [_names(run) for run in section.runs] == [[0, 1], [2, 3, 4], [5]]


def test_files_of_one_level_that_share_a_key_are_different_runs() -> None:
    for level in (0, 3):
        files = [_file(0, 1, 5, level, 0, 9), _file(1, 5, 7, level, 5, 19)]
        (section,) = key_sections(_STORAGE, files)
        assert [_names(run) for run in section.runs] == [[0], [1]]


def test_floats_are_ordered_as_java_orders_them() -> None:
    double = parse_type("DOUBLE NOT NULL")
    schema = TableSchema(0, (DataField(0, "k", double),), 0, (), ("k",), {}, None, 0)
    storage = _STORAGE.with_schema(schema)
    nan = float("nan")
    values = [-1.0, -0.0, 0.0, 2.0, float("inf"), nan]
    files = [
        DataFile(
            f"data-{i}.parquet", 1, 1, serialize_row([v], [double]), serialize_row([v], [double]),
            _NO_STATS, _NO_STATS, 0, 0, 0, 0,
        )
        for i, v in enumerate(values)
    ]  # fmt: skip
    sections = key_sections(storage, reversed(files))
    assert [_names(section) for section in sections] == [[0], [1], [2], [3], [4], [5]]


_FILES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 8), st.integers(0, 3), st.integers(0, 50)),
    max_size=12,
)


@given(_FILES)
def test_no_key_is_in_two_sections_nor_twice_in_a_run(
    drawn: list[tuple[int, int, int, int]],
) -> None:
    files = [
        _file(i, low, low + width, level, first, first + width)
        for i, (low, width, level, first) in enumerate(drawn)
    ]
    spans = {i: range(low, low + width + 1) for i, (low, width, _, _) in enumerate(drawn)}
    sections = key_sections(_STORAGE, files)
    assert sorted(n for section in sections for n in _names(section)) == sorted(spans)

    def disjoint(groups: Sequence[FileRun] | Sequence[_Ranged]) -> bool:
        keys = [{key for n in _names(group) for key in spans[n]} for group in groups]
        return sum(map(len, keys)) == len(set().union(*keys))

    assert disjoint(sections)
    for section in sections:
        for run in section.runs:
            assert disjoint([FileRun((file,)) for file in run.files])
            lows = [spans[n][0] for n in _names(run)]
            assert lows == sorted(lows)


@given(st.lists(st.integers(1, 20)), st.integers(1, 30))
def test_packing_keeps_order_and_fills_bins(weights: list[int], target: int) -> None:
    bins = pack_in_order(weights, lambda w: w, target)
    assert [w for each in bins for w in each] == weights
    for each, following in pairwise(bins):
        assert sum(each) <= target or len(each) == 1
        assert sum(each) + following[0] > target
