"""Changes that come sorted by key, part by part, beside a model and with what is held counted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as hs
from tests.examples import examples

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Invalid
from headwater.storage.maintenance.key_rewrite import plan_key_rewrite, rewrite_keys
from headwater.storage.maintenance.sorted_changes import KeyChanges, SortedChanges
from headwater.storage.snapshot.snapshot import CommitKind

Key = int | str | float

KEYS: dict[str, tuple[pa.DataType, hs.SearchStrategy[Key]]] = {
    "integers": (pa.int64(), hs.integers(-20, 20)),
    "text": (pa.string(), hs.sampled_from(["", "a", "a\0", "ab", "b", "é", "😀", "z" * 70])),
    "floats": (pa.float64(), hs.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf])),
}
ENGINES = {
    "sum": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "first": {"merge-engine": "first-row"},
    "partial": {"merge-engine": "partial-update"},
}


def _exact(key: Key) -> object:
    return (key, math.copysign(1, key)) if isinstance(key, float) else key


def _order(key: Key) -> bytes | float:
    """As Spark sorts: by bytes, and signs of zero in any order."""
    return key.encode() if isinstance(key, str) else key


def _merged(engine: str, old: int | None, new: int) -> int:
    if old is None or engine == "partial":
        return new
    return old + new if engine == "sum" else old


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, Iterator[int]]]:
    with connect(tmp_path_factory.mktemp("sorted")) as lake:
        lake.create_database("db")
        yield lake, count()


def _table(lake: Lake, number: int, kind: pa.DataType, engine: str) -> Table:
    schema = pa.schema([pa.field("k", kind, False), ("n", pa.int64())])
    options = {"bucket": "1", "write-only": "true", **ENGINES[engine]}
    return lake.create_table(f"db.t{number}", schema, primary_keys=["k"], options=options)


def _rows(kind: pa.DataType, rows: Sequence[tuple[Key, int]]) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([key for key, _ in rows], kind),
            "n": pa.array([n for _, n in rows], pa.int64()),
        },
        pa.schema([pa.field("k", kind, False), ("n", pa.int64())]),
    )


def _parts(kind: pa.DataType, changes: list[tuple[Key, int | None]], size: int) -> list[KeyChanges]:
    return [
        KeyChanges(
            _rows(kind, [(key, n or 0) for key, n in changes[start : start + size]]),
            np.array([n is None for _, n in changes[start : start + size]]),
        )
        for start in range(0, len(changes), size)
    ]


def _compact(table: Table) -> None:
    table.with_options({"write-only": "false"}).compact(full=True)


def _rewrite(table: Table, parts: Iterator[KeyChanges]) -> None:
    base = table.latest_snapshot()
    assert base is not None
    (task,) = plan_key_rewrite(table.storage, base, None)
    changes = SortedChanges(table.storage, parts)
    message = rewrite_keys(table.storage, task, changes)
    changes.finish()
    if message is not None:
        commit = TableCommit(table.storage, table.pointer, table.storage.runtime.new_uuid())
        commit.commit([message], kind=CommitKind.OVERWRITE, unchanged_since=base.identity)


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(hs.sampled_from(list(KEYS)), hs.sampled_from(list(ENGINES)), hs.integers(1, 3), hs.data())
def test_changed_rows_are_those_of_a_model_and_later_rows_are_merged_with_them(
    lakes: tuple[Lake, Iterator[int]], keys: str, engine: str, size: int, data: hs.DataObject
) -> None:
    lake, numbers = lakes
    kind, of_key = KEYS[keys]
    table = _table(lake, next(numbers), kind, engine)
    model: dict[object, tuple[Key, int]] = {}

    def write() -> None:
        rows = hs.lists(hs.tuples(of_key, hs.integers(0, 9)), min_size=1, unique_by=_first)
        for key, n in (written := data.draw(rows)):
            old = model.get(_exact(key))
            model[_exact(key)] = key, _merged(engine, None if old is None else old[1], n)
        table.write(_rows(kind, written))

    def _first(row: tuple[Key, int]) -> object:
        return _exact(row[0])

    for _ in range(data.draw(hs.integers(1, 3))):
        write()
    if data.draw(hs.booleans()):
        _compact(table)
        write()
    if engine == "first":
        # Only then rows are part of the table.
        _compact(table)
    changed = data.draw(hs.lists(hs.sampled_from(list(model)), unique=True))
    changes: list[tuple[Key, int | None]] = [
        (model[key][0], data.draw(hs.none() | hs.integers(-9, -1))) for key in changed
    ]
    changes.sort(key=lambda change: _order(change[0]))
    _rewrite(table, iter(_parts(kind, changes, size)))
    for key, n in changes:
        if n is None:
            del model[_exact(key)]
        else:
            model[_exact(key)] = key, n
    write()
    if engine == "first":
        _compact(table)
    found = table.scan().to_arrow().to_pylist()
    assert {_exact(row["k"]): row["n"] for row in found} == {
        key: n for key, (_, n) in model.items()
    }
    assert len(found) == len(model)


def test_changes_are_held_as_rows_come_and_not_all_at_once(
    lakes: tuple[Lake, Iterator[int]],
) -> None:
    lake, numbers = lakes
    table = _table(lake, next(numbers), pa.int64(), "sum")
    batches, size, own = 6, 1000, 250
    matched: list[int] = []
    changes = [(number, -number) for number in range(batches * size)]
    drawn = 0

    def parts() -> Iterator[KeyChanges]:
        nonlocal drawn
        for part in _parts(pa.int64(), list(changes), own):
            drawn += 1
            yield part

    held = SortedChanges(table.storage, parts())
    for at in range(batches):
        rows = _rows(pa.int64(), changes[at * size : (at + 1) * size]).to_batches()[0]
        found = held.match(rows)
        assert found.added is not None
        matched += found.added.column("n").to_pylist()
        # One more part tells that no more are of these rows.
        assert drawn <= (at + 1) * size // own + 1
    held.finish()
    assert matched == [-number for number in range(batches * size)]


@pytest.mark.parametrize("missing", [-1, 5, 99])
def test_a_change_of_a_row_that_there_is_not_is_refused(
    lakes: tuple[Lake, Iterator[int]], missing: int
) -> None:
    lake, numbers = lakes
    table = _table(lake, next(numbers), pa.int64(), "sum")
    table.write(_rows(pa.int64(), [(number, 0) for number in range(0, 20, 2)]))
    with pytest.raises(Invalid, match=f"row with k = {missing} is to change"):
        _rewrite(table, iter(_parts(pa.int64(), [(missing, 1)], 1)))


def test_changes_of_both_zeros_may_come_in_any_order(lakes: tuple[Lake, Iterator[int]]) -> None:
    lake, numbers = lakes
    table = _table(lake, next(numbers), pa.float64(), "sum")
    parts = [KeyChanges(_rows(pa.float64(), [(key, 1)]), np.array([False])) for key in (0.0, -0.0)]
    changes = SortedChanges(table.storage, iter(parts))
    for zero in (-0.0, 0.0):
        found = changes.match(_rows(pa.float64(), [(zero, 0)]).to_batches()[0])
        assert found.added is not None
        assert str(found.added.column("k").to_pylist()) == str([zero])
    changes.finish()
