"""Batches of a stream that are limited in size: nothing is left out, doubled or out of order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeAlias, cast

import pyarrow as pa
import pytest

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Invalid
from headwater.storage.files.access import FileAccess
from headwater.storage.jobs.write import WritePlan
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.read.split import read_split
from headwater.storage.scan.stream import StreamPosition, after, latest_full
from headwater.storage.scan.stream_batches import BatchLimits, StreamBatches
from headwater.storage.snapshot.files import FileSnapshotPointer
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.table_writer import CommitMessage


class _Table(Protocol):
    storage: TableStorage
    pointer: FileSnapshotPointer

    def with_options(self, **options: str) -> _Table: ...


_NewTable: TypeAlias = Callable[..., _Table]
_COLUMNS = [("k", "BIGINT NOT NULL"), ("v", "INT")]
_TABLES = {
    "append": ([], {"bucket": "-1"}),
    "buckets": ([], {"bucket": "2", "bucket-key": "k"}),
    "keyed": (["k"], {"bucket": "2"}),
}


@pytest.fixture(params=_TABLES)
def table(request: pytest.FixtureRequest, new_table: _NewTable) -> _Table:
    """Four commits, each of three flushes, of which every one has a file for each bucket."""
    keys, options = _TABLES[request.param]
    made = new_table(_COLUMNS, primary_keys=keys, options=options)
    for version in range(4):
        _commit(made, [(range(8), 10 * version + flush) for flush in range(3)])
    return made


def _commit(table: _Table, flushes: list[tuple[range, int]]) -> None:
    messages: list[CommitMessage] = []
    plan = WritePlan(table.storage).upon(table.pointer.latest())
    for number, (keys, value) in enumerate(flushes):
        with plan.writer(number << 10, is_alone=False) as writer:
            columns = [list(keys), [value] * len(keys)]
            writer.write(pa.table(columns, schema=table.storage.schema.arrow))
            messages += writer.finish()
    assert TableCommit(table.storage, table.pointer, "writer").commit(messages) is not None


def _newest(table: _Table) -> Snapshot:
    newest = table.pointer.latest()
    assert newest is not None
    return newest


def _batches(
    table: _Table, position: StreamPosition, limits: BatchLimits
) -> list[list[tuple[int, int]]]:
    """The rows of each batch; the query is started again, from what is stored, for each."""
    newest = _newest(table)
    found: list[list[tuple[int, int]]] = []
    while position < after(newest):
        batches = StreamBatches(table.storage, None)
        cap = after(newest) if position.changes else position.following
        end, rows = batches.end_within(position, cap, newest, limits)
        assert position < end
        end = StreamPosition.from_json(json.loads(json.dumps(end.to_json())))
        batch: list[tuple[int, int]] = []
        files = 0
        for again in (batches, StreamBatches(table.storage, None)):
            batch, files = [], 0
            for plan in again.plans(position, end, newest):
                for split in plan.splits:
                    files += len(split.files)
                    for each in read_split(table.storage, split):
                        columns = each.to_pydict()
                        batch += zip(columns["k"], columns["v"], strict=True)
        assert rows >= len(batch)
        assert limits.files is None or files <= limits.files or files == 1 or not position.changes
        found.append(batch)
        position = end
    return found


@pytest.mark.parametrize(
    ("limits", "least"),
    [
        (BatchLimits(), 1),
        (BatchLimits(files=1), 12),
        pytest.param(BatchLimits(files=4), 3, marks=pytest.mark.modes),
        pytest.param(BatchLimits(rows=1), 12, marks=pytest.mark.modes),
        (BatchLimits(rows=20), 4),
        (BatchLimits(size=1), 12),
        (BatchLimits(snapshots=1), 4),
        pytest.param(BatchLimits(snapshots=3, files=100), 2, marks=pytest.mark.modes),
    ],
)
def test_limited_batches_hold_what_one_batch_would(
    table: _Table, limits: BatchLimits, least: int
) -> None:
    (whole,) = _batches(table, StreamPosition(1), BatchLimits())
    found = _batches(table, StreamPosition(1), limits)
    assert len(found) >= least
    together = [row for batch in found for row in batch]
    assert Counter(together) == Counter(whole)
    assert len(together) == 4 * 3 * 8
    for key in range(8):
        values = [v for k, v in together if k == key]
        assert values == sorted(values)
    if limits.rows == 20:
        assert all(len(batch) <= 20 for batch in found)


def test_a_full_read_in_limited_batches_has_each_row_once(table: _Table) -> None:
    start = latest_full(_newest(table))
    assert start is not None
    (whole,) = _batches(table, start, BatchLimits())
    found = _batches(table, start, BatchLimits(files=1))
    assert Counter(row for batch in found for row in batch) == Counter(whole)
    assert len(found) > 1


def test_a_batch_does_not_go_on_among_other_parts(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, options={"bucket": "-1"})
    _commit(table, [(range(5 * part, 5 * part + 5), part) for part in range(4)])
    newest = _newest(table)
    limits = BatchLimits(files=2)
    end, rows = StreamBatches(table.storage, None).end_within(
        StreamPosition(1), after(newest), newest, limits
    )
    assert (end.snapshot_id, end.parts, rows) == (1, 2, 10)
    # Another condition leaves files out: to count would pass over rows.
    others = StreamBatches(table.storage, parse_predicate("k >= 5", table.storage.schema))
    with pytest.raises(Invalid, match="are not its first ones any more"):
        list(others.plans(end, after(newest), newest))
    with pytest.raises(Invalid, match="are not its first ones any more"):
        others.end_within(end, after(newest), newest, limits)
    for wrong in ({"parts": 2}, {"parts": 0, "digest": "x"}, {"parts": "2", "digest": "x"}):
        with pytest.raises(Invalid, match="is not a stream position"):
            StreamPosition.from_json({"snapshotId": 1, "changes": True, **wrong})


class _Counted:
    """File access that keeps the paths that are read."""

    def __init__(self, files: FileAccess) -> None:
        self._files = files
        self.paths: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._files, name)

    def read(self, path: str) -> bytes:
        self.paths.append(path)
        return self._files.read(path)


def test_a_snapshot_is_planned_once_while_a_batch_waits_for_more(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, options={"bucket": "-1"})
    counted = _Counted(table.storage.files)
    storage = replace(table.storage, files=cast(FileAccess, counted))
    batches = StreamBatches(storage, None)
    counts: list[int] = []
    for number in range(6):
        _commit(table, [(range(3), number)])
        newest = _newest(table)
        counted.paths.clear()
        for _ in range(5):
            _, rows = batches.end_within(
                StreamPosition(1), after(newest), newest, BatchLimits(files=100)
            )
            assert rows == 3 * (number + 1)
        counts.append(len(counted.paths))
    assert counts[0] > 0
    assert max(counts[1:]) <= counts[0] + 1  # and the file of the snapshot before


def test_a_batch_costs_the_same_however_long_the_history_is(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, options={"bucket": "-1"})
    counted = _Counted(table.storage.files)
    storage = replace(table.storage, files=cast(FileAccess, counted))
    counts: list[int] = []
    for number in range(40):
        _commit(table, [(range(3), number)])
        newest = _newest(table)
        counted.paths.clear()
        before = StreamPosition(newest.id, known=newest.identity)
        (plan,) = StreamBatches(storage, None).plans(before, after(newest), newest)
        assert sum(split.row_count for split in plan.splits) == 3
        counts.append(len(counted.paths))
    assert len(set(counts)) == 1
