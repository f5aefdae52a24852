"""Values that rows of the log leave out, against a model that goes through them one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cdc.pipeline.partial_rows import completed
from headwater.storage.rows.kinds import RowKind

_INSERT, _BEFORE, _AFTER, _DELETE = (
    RowKind.INSERT,
    RowKind.UPDATE_BEFORE,
    RowKind.UPDATE_AFTER,
    RowKind.DELETE,
)
# A kind, a key and the values of two columns; None is left out.
_Row = tuple[RowKind, tuple[int, str], tuple[int | None, int | None]]


def _completed(rows: Sequence[_Row]) -> list[tuple[int | None, int | None]]:
    kinds = np.array([kind for kind, _, _ in rows], np.int8)
    keys = [pa.array([key[0] for _, key, _ in rows]), pa.array([key[1] for _, key, _ in rows])]
    columns = [pa.array([values[index] for _, _, values in rows], pa.int64()) for index in (0, 1)]
    has = {name: ~np.asarray(column.is_null()) for name, column in zip("ab", columns, strict=True)}
    table = completed(pa.table(columns, ["a", "b"]), kinds, has, keys)
    for name in "ab":
        assert (has[name] == ~np.asarray(table.column(name).is_null())).all()
    return list(zip(*table.to_pydict().values(), strict=True))


def test_an_insert_and_an_update_of_one_key() -> None:
    rows: list[_Row] = [(_INSERT, (1, "x"), (10, 20)), (_AFTER, (1, "x"), (11, None))]
    assert _completed(rows) == [(10, 20), (11, 20)]


def test_a_key_that_changes() -> None:
    rows: list[_Row] = [
        (_INSERT, (1, "x"), (10, 20)),
        (_BEFORE, (1, "x"), (None, None)),
        (_AFTER, (2, "x"), (11, None)),
        (_AFTER, (2, "x"), (None, 30)),
    ]
    assert _completed(rows) == [(10, 20), (10, 20), (11, 20), (11, 30)]


def test_a_key_that_others_had_and_left() -> None:
    rows: list[_Row] = [
        (_INSERT, (1, "x"), (10, 20)),
        (_DELETE, (1, "x"), (None, None)),
        (_AFTER, (1, "x"), (11, None)),
        (_INSERT, (2, "x"), (10, 20)),
        (_BEFORE, (2, "x"), (None, None)),
        (_AFTER, (3, "x"), (None, None)),
        (_AFTER, (2, "x"), (11, None)),
    ]
    assert _completed(rows)[2] == _completed(rows)[6] == (11, None)
    assert _completed(rows)[5] == (10, 20)


def test_a_key_that_comes_twice_is_not_clear() -> None:
    rows: list[_Row] = [
        (_INSERT, (1, "x"), (10, 20)),
        (_INSERT, (1, "x"), (11, 21)),
        (_AFTER, (1, "x"), (12, None)),
    ]
    assert _completed(rows)[2] == (12, None)


@pytest.mark.parametrize("type_", [pa.string(), pa.binary(), pa.list_(pa.int8())])
def test_copies_of_a_long_value_are_limited(type_: pa.DataType) -> None:
    count, long = 200, pa.array([[1] * (1 << 20)] if pa.types.is_list(type_) else ["x" * (1 << 20)])
    column = pa.concat_arrays([long.cast(type_), pa.nulls(count, type_)])
    kinds = np.array([_INSERT, *[_AFTER] * count], np.int8)
    has = {"a": ~np.asarray(column.is_null())}
    table = completed(pa.table([column], ["a"]), kinds, has, [pa.array([1] * (count + 1))])
    assert 10 < has["a"].sum() < 100
    assert has["a"][: has["a"].sum()].all()
    assert table.nbytes < 100 << 20


_KEYS = st.tuples(st.integers(0, 2), st.sampled_from("xy"))
_VALUES = st.integers(0, 9)
_LEFT_OUT = st.tuples(st.booleans(), st.booleans())
_STEPS = st.lists(
    st.tuples(st.sampled_from("iudm"), _KEYS, _KEYS, _VALUES, _VALUES, _LEFT_OUT), max_size=30
)


@given(_STEPS)
def test_rows_are_as_the_source_has_left_them(
    steps: list[tuple[str, tuple[int, str], tuple[int, str], int, int, tuple[bool, bool]]],
) -> None:
    # What the source has of each key, and the part of it that the log had.
    source: dict[tuple[int, str], tuple[int, int]] = {
        (number, letter): (100 + number, 200) for number in range(3) for letter in "x"
    }
    seen: dict[tuple[int, str], list[int | None]] = {}
    rows: list[_Row] = []
    expected: list[list[int | None]] = []
    for action, key, other, a, b, left_out in steps:
        if action == "i" and key not in source:
            source[key] = a, b
            rows.append((_INSERT, key, (a, b)))
            expected.append([a, b])
            seen[key] = [a, b]
        elif action == "d" and key in source:
            rows.append((_DELETE, key, (None, None)))
            expected.append([None, None])
            seen.pop(key, None)
            del source[key]
        elif key in source and (action == "u" or (action == "m" and other not in source)):
            old, known = source.pop(key), seen.pop(key, [None, None])
            new = tuple(o if out else n for o, n, out in zip(old, (a, b), left_out, strict=True))
            values = tuple(None if out else n for n, out in zip(new, left_out, strict=True))
            if action == "m":
                rows.append((_BEFORE, key, (None, None)))
                expected.append(list(known))
            target = other if action == "m" else key
            rows.append((_AFTER, target, values))  # type: ignore[arg-type]
            filled = [k if v is None else v for k, v in zip(known, values, strict=True)]
            expected.append(filled)
            source[target], seen[target] = new, filled  # type: ignore[assignment]
    if rows:
        actual = [list(row) for row in _completed(rows)]
        for (kind, _, _), row, wanted in zip(rows, actual, expected, strict=True):
            assert kind == _DELETE or row == wanted
