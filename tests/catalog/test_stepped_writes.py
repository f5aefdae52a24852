"""Commits whose rows this process and tasks elsewhere write, step after step."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Conflict, Invalid, Unavailable
from headwater.storage.files.local import local_path
from headwater.storage.jobs.stepped_write import SteppedWrite, TaskFiles, TaskWrite
from headwater.storage.snapshot.snapshot import CommitKind

SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), False), pa.field("p", pa.int64(), False), ("v", pa.int64())]
)
FEW = {"dynamic-bucket.target-row-num": "3"}
MODES: Mapping[str, Mapping[str, object]] = {
    "fixed buckets": {"options": {"bucket": "2"}},
    "dynamic buckets": {"options": {"bucket": "-1", **FEW}},
    "classes of keys": {"options": {"bucket": "-1", "dynamic-bucket.initial-buckets": "3", **FEW}},
    "few buckets": {"options": {"bucket": "-1", "dynamic-bucket.max-buckets": "2", **FEW}},
    "partitions": {
        "primary_keys": ["p", "k"], "partition_keys": ["p"], "options": {"bucket": "-1", **FEW},
    },
    "deletion vectors": {"options": {"bucket": "2", "deletion-vectors.enabled": "true"}},
}  # fmt: skip

# The rows of a step: those of each of its tasks, or of this process if there is one part.
Step = Sequence[Mapping[int, int]]


@pytest.fixture(params=MODES)
def table(request: pytest.FixtureRequest, lake: Lake) -> Table:
    """An empty table of each mode that tasks write to."""
    return new_table(lake, request.param)


def new_table(lake: Lake, mode: str, name: str = "sales.t") -> Table:
    arguments: dict[str, object] = {"primary_keys": ["k"], **MODES[mode]}
    return lake.create_table(name, SCHEMA, **arguments)  # type: ignore[arg-type]


def batch(rows: Mapping[int, int]) -> pa.RecordBatch:
    """Rows by key; each key is of one partition."""
    keys = list(rows)
    columns = [keys, [key % 2 for key in keys], list(rows.values())]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, pa.int64()) for column in columns], schema=SCHEMA
    )


def task(write: TaskWrite, rows: Mapping[int, int]) -> TaskFiles:
    """Run a task as another process would."""
    sent: TaskWrite = pickle.loads(pickle.dumps(write))
    files: TaskFiles = pickle.loads(pickle.dumps(sent.write([batch(rows)])))
    return files


def written(*steps: Step) -> Callable[[SteppedWrite], None]:
    """Writes steps; the tasks of each run in the reverse order."""

    def write(commit: SteppedWrite) -> None:
        for step in steps:
            if len(step) == 1:
                commit.write(batch(step[0]))
                continue
            writes = commit.tasks(len(step), sum(map(len, step)))
            for task_write, rows in reversed(list(zip(writes, step, strict=True))):
                commit.add(task(task_write, rows))

    return write


def stored(table: Table) -> dict[int, int]:
    rows = table.scan().to_arrow().to_pylist()
    values = {row["k"]: row["v"] for row in rows}
    assert len(values) == len(rows)
    return values


def files(table: Table) -> set[str]:
    """The names of all data files and index files."""
    folder = Path(local_path(table.storage.layout.location))
    return {path.name for kind in ("data-*", "index-*") for path in folder.rglob(kind)}


def test_later_steps_and_tasks_win(table: Table) -> None:
    table.write(batch({1: 0, 2: 0, 30: 0}))
    first = [{1: 1, 2: 1, 3: 1, 4: 1}, {3: 2, 4: 2, 5: 2}, {5: 3, 6: 3}]
    steps: list[Step] = [[{2: -1, 9: -1}], first, [{4: 7, 9: 7}, {10: 7}], [{6: 8, 11: 8}]]
    table.write_steps(written(*steps), commit_user="job", commit_identifier=1)
    expected = {1: 1, 2: 1, 3: 2, 4: 7, 5: 3, 6: 8, 9: 7, 10: 7, 11: 8, 30: 0}
    assert stored(table) == expected
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    assert snapshot.commit_identifier == 1
    # A writer that looks keys up as usual finds each where it is.
    changed = {key: 100 + key for key in expected}
    table.write(batch(changed))
    assert stored(table) == changed


def test_a_number_is_committed_once(table: Table) -> None:
    for value in (1, 2):
        table.write_steps(written([{1: value}, {2: value}]), commit_user="job", commit_identifier=1)
    assert stored(table) == {1: 1, 2: 1}
    kinds = [snapshot.commit_kind for snapshot in table.snapshots()]
    assert kinds.count(CommitKind.APPEND) == 1
    assert table.last_committed("job") == 1
    assert table.write_steps(lambda _: None, commit_user="job", commit_identifier=2) is not None
    assert table.write_steps(lambda _: None) is None


def test_nothing_is_left_of_what_fails(table: Table) -> None:
    table.write(batch({1: 1, 2: 2}))
    before = files(table)

    def fail(commit: SteppedWrite) -> None:
        written([{1: 5, 3: 5}, {4: 5}], [{5: 5}], [{6: 6}, {3: 6}])(commit)
        (first, _) = commit.tasks(2, 10)
        commit.add(task(first, {7: 7}))
        commit.write(batch({8: 8}))
        raise Unavailable("the second task was lost")

    with pytest.raises(Unavailable, match="was lost"):
        table.write_steps(fail)
    assert files(table) == before
    assert stored(table) == {1: 1, 2: 2}


def test_nothing_is_left_of_a_commit_that_comes_second(lake: Lake) -> None:
    table = new_table(lake, "dynamic buckets")
    table.write(batch({1: 1}))

    def write(commit: SteppedWrite) -> None:
        written([{2: 2, 3: 2}, {4: 4}])(commit)
        # The same new key, to a bucket of another's choice.
        table.write(batch({2: 0}))

    with pytest.raises(Conflict, match="another commit added keys"):
        table.write_steps(write)
    assert stored(table) == {1: 1, 2: 0}
    referenced = {file.name for file in table.files()}
    assert {name for name in files(table) if name.startswith("data-")} == referenced


@pytest.mark.parametrize(
    "arguments",
    [
        {"options": {}},
        {"primary_keys": ["k"], "options": {"bucket": "-2"}},
        {"primary_keys": ["k"], "partition_keys": ["p"], "options": {"bucket": "-1"}},
        {"primary_keys": ["k"], "options": {"bucket": "1", "changelog-producer": "input"}},
    ],
)
def test_tables_that_one_process_writes(lake: Lake, arguments: Mapping[str, object]) -> None:
    table = lake.create_table("sales.t", SCHEMA, **arguments)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="by tasks"):
        table.write_steps(written([{1: 1}, {2: 2}]))
    table.write_steps(written([{1: 1}], [{2: 2}]))
    if table.schema.table_options.bucket == -2:
        table.compact()
    assert stored(table) == {1: 1, 2: 2}


def test_tasks_fill_the_buckets_that_the_rows_need(lake: Lake) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "1000"}
    table = lake.create_table("sales.t", SCHEMA, primary_keys=["k"], options=options)
    for start in (0, 3000):
        step = [dict.fromkeys(range(start + part, start + 3000, 3), 0) for part in range(3)]
        table.write_steps(written(step))
    rows_of_buckets: dict[int, int] = {}
    for file in table.files():
        rows_of_buckets[file.bucket] = rows_of_buckets.get(file.bucket, 0) + file.row_count
    # Hashes are spread evenly, but not exactly.
    assert 6 <= len(rows_of_buckets) <= 8
    assert max(rows_of_buckets.values()) < 1200
    assert len(stored(table)) == 6000


_ROWS = st.dictionaries(st.integers(0, 40), st.integers(0, 9), max_size=8)
_STEPS = st.lists(st.lists(_ROWS, min_size=1, max_size=3), max_size=4)


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake for many tables."""
    with connect(tmp_path_factory.mktemp("lake")) as lake:
        lake.create_database("many")
        yield lake


@given(commits=st.lists(_STEPS, min_size=1, max_size=3), mode=st.sampled_from(list(MODES)))
def test_any_steps_are_as_rows_one_after_the_other(
    lakes: Lake, commits: Sequence[Sequence[Step]], mode: str
) -> None:
    table = new_table(lakes, mode, "many.t")
    try:
        model: dict[int, int] = {}
        for steps in commits:
            table.write_steps(written(*steps))
            for rows in (rows for step in steps for rows in step):
                model |= rows
            assert stored(table) == model
        table.write(batch(dict.fromkeys(range(41), -1)))
        assert stored(table) == dict.fromkeys(range(41), -1)
    finally:
        lakes.drop_table("many.t")
