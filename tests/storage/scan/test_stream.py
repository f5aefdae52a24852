"""Following a table: positions, plans, and snapshots that are gone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import CorruptData, Invalid, NotFound, ResourceType, Unsupported
from headwater.storage.manifest.data_file import ManifestEntry
from headwater.storage.predicate.filter import Predicate, parse_predicate
from headwater.storage.read.split import read_split
from headwater.storage.scan.plan import live_entries
from headwater.storage.scan.split import ScanPlan
from headwater.storage.scan.stream import (
    StreamPosition,
    after,
    check_history,
    from_consumer,
    from_snapshot,
    from_timestamp,
    latest,
    latest_full,
    next_plan,
)
from headwater.storage.scan.stream_batches import plans_before
from headwater.storage.snapshot.files import FileSnapshotPointer, write_latest_hint
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import CommitMessage, TableWriter


class _Clock(Protocol):
    millis: int


class _Table(Protocol):
    storage: TableStorage
    pointer: FileSnapshotPointer
    clock: _Clock

    def with_options(self, **options: str) -> _Table: ...


_NewTable: TypeAlias = Callable[..., _Table]
_Change: TypeAlias = tuple[str, int, int | None]
_COLUMNS = [("k", "BIGINT NOT NULL"), ("v", "INT")]


@pytest.fixture
def keyed(new_table: _NewTable) -> _Table:
    return new_table(_COLUMNS, primary_keys=["k"], options={"bucket": "2"})


def _messages(
    table: _Table, rows: Sequence[tuple[int, int | None]], kinds: Sequence[str] | None = None
) -> list[CommitMessage]:
    states = BucketStates(table.storage, table.pointer.latest())
    writer = TableWriter(table.storage, max_sequence_numbers=states)
    columns = list(zip(*rows, strict=True)) or [(), ()]
    data = pa.table(columns, schema=table.storage.schema.arrow)
    writer.write(data, None if kinds is None else pa.array(kinds, pa.string()))
    return writer.finish()


def _write(
    table: _Table, rows: Sequence[tuple[int, int | None]], kinds: Sequence[str] | None = None
) -> Snapshot:
    table.clock.millis += 1000
    commit = TableCommit(table.storage, table.pointer, "writer")
    snapshot = commit.commit(_messages(table, rows, kinds), allow_empty=True)
    assert snapshot is not None
    return snapshot


def _replace(
    table: _Table, rows: Sequence[tuple[int, int | None]], overwrite: bool
) -> Snapshot | None:
    """Put rows in the place of all files: as an overwrite, or as if it were a compaction."""
    newest = table.pointer.latest()
    assert newest is not None
    by_bucket: dict[int, list[ManifestEntry]] = {}
    for entry in live_entries(table.storage, newest):
        by_bucket.setdefault(entry.bucket, []).append(entry)
    written = {message.bucket: message for message in _messages(table, rows)}
    messages = []
    for bucket in by_bucket.keys() | written.keys():
        entries = by_bucket.get(bucket, [])
        message = written.get(bucket) or CommitMessage(b"", bucket, entries[0].total_buckets)
        new = tuple(file.at_level(0 if overwrite else 5) for file in message.new_files)
        messages.append(
            replace(
                message,
                partition=bytes(12),
                new_files=new if overwrite else (),
                compact_before=tuple(entry.file for entry in entries),
                compact_after=() if overwrite else new,
                changelog_files=(),
            )
        )
    commit = TableCommit(table.storage, table.pointer, "writer")
    return commit.commit(messages, kind=CommitKind.OVERWRITE if overwrite else None)


def _rows(table: _Table, plan: ScanPlan, predicate: Predicate | None = None) -> list[_Change]:
    found: list[_Change] = []
    for split in plan.splits:
        for batch in read_split(table.storage, split, predicate=predicate, row_kinds=True):
            found += [(r["_ROW_KIND"], r["k"], r["v"]) for r in batch.to_pylist()]
    return sorted(found)


def _follow(
    table: _Table, position: StreamPosition, where: str | None = None
) -> tuple[list[list[_Change]], StreamPosition]:
    """Everything from a position on, plan by plan, and the position after it."""
    predicate = None if where is None else parse_predicate(where, table.storage.schema)
    found: list[list[_Change]] = []
    while True:
        newest = table.pointer.latest()
        plan, position = next_plan(table.storage, position, newest, predicate=predicate)
        if plan is None:
            return found, position
        found.append(_rows(table, plan, predicate))


def test_all_rows_then_changes(keyed: _Table) -> None:
    assert latest_full(keyed.pointer.latest()) is None
    assert latest(keyed.pointer.latest()) == StreamPosition(1)
    _write(keyed, [(1, 1), (2, 2)])
    _write(keyed, [(1, 5)], ["+U"])
    start = latest_full(keyed.pointer.latest())
    assert start == StreamPosition(2, changes=False)
    found, position = _follow(keyed, start)
    assert found == [[("+I", 1, 5), ("+I", 2, 2)]]
    assert position == StreamPosition(3) == latest(keyed.pointer.latest()) == StreamPosition(3)
    assert next_plan(keyed.storage, position, keyed.pointer.latest()) == (None, position)
    _write(keyed, [(2, 2), (3, 3)], ["-D", "+I"])
    _write(keyed, [(4, 4)])
    found, position = _follow(keyed, position)
    assert found == [[("+I", 3, 3), ("-D", 2, 2)], [("+I", 4, 4)]]
    assert position.snapshot_id == 5


def test_compactions_overwrites_and_empty_commits_are_passed_over(keyed: _Table) -> None:
    _write(keyed, [(1, 1)])
    for overwrite, kind in ((False, CommitKind.COMPACT), (True, CommitKind.OVERWRITE)):
        snapshot = _replace(keyed, [(1, 1)], overwrite)
        assert snapshot is not None
        assert snapshot.commit_kind is kind
    _write(keyed, [])
    found, position = _follow(keyed, after(None))
    assert (found, position) == ([[("+I", 1, 1)]], StreamPosition(5))
    _write(keyed, [(2, 2)])
    assert _follow(keyed, position) == ([[("+I", 2, 2)]], StreamPosition(6))


def test_an_append_tables_overwrites_are_given_when_asked_for(new_table: _NewTable) -> None:
    table = new_table(_COLUMNS, options={"bucket": "-1"})
    _write(table, [(1, 1)])
    _replace(table, [(2, 2)], overwrite=True)
    assert _follow(table, after(None))[0] == [[("+I", 1, 1)]]
    asked = table.with_options(streaming_read_append_overwrite="true")
    assert _follow(asked, after(None))[0] == [[("+I", 1, 1)], [("+I", 2, 2)]]


def test_a_primary_key_tables_overwrites_are_given_when_asked_for(keyed: _Table) -> None:
    _write(keyed, [(1, 1), (2, 2)])
    _write(keyed, [(1, 10)])
    _replace(keyed, [(2, 2), (3, 3)], overwrite=True)
    assert _follow(keyed, StreamPosition(3)) == ([], StreamPosition(4))
    asked = keyed.with_options(streaming_read_overwrite="true")
    changes = [("+I", 2, 2), ("+I", 3, 3), ("-D", 1, 10), ("-D", 2, 2)]
    assert _follow(asked, StreamPosition(3)) == ([changes], StreamPosition(4))
    assert _follow(asked, StreamPosition(3), "v = 3")[0] == [[("+I", 3, 3)]]
    waiting = asked.with_options(streaming_read_overwrite="true", bucket="-2")
    newest = waiting.pointer.latest()
    with pytest.raises(Unsupported, match="streaming-read-overwrite"):
        list(plans_before(waiting.storage, StreamPosition(3), after(newest), newest))


def test_a_kept_changelog_is_what_is_followed(new_table: _NewTable) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    table = new_table(_COLUMNS, primary_keys=["k"], options=options)
    _write(table, [(1, 1), (1, 1), (1, 2)], ["+I", "-U", "+U"])
    _replace(table, [(1, 2)], overwrite=False)
    _write(table, [(1, 2)], ["-D"])
    # The data file holds the last of the three; the changelog all.
    found, position = _follow(table, after(None))
    assert found == [[("+I", 1, 1), ("+U", 1, 2), ("-U", 1, 1)], [("-D", 1, 2)]]
    assert position == StreamPosition(4)
    assert _follow(table, StreamPosition(1, changes=False))[0][0] == [("+I", 1, 2)]


@pytest.mark.parametrize(("producer", "level"), [("lookup", 1), ("full-compaction", 5)])
def test_what_is_still_to_become_a_changelog_is_not_read_twice(
    keyed: _Table, producer: str, level: int
) -> None:
    _write(keyed, [(1, 1)])
    _replace(keyed, [(1, 1)], overwrite=False)
    _write(keyed, [(2, 2)])
    table = keyed.with_options(changelog_producer=producer, num_levels="6")
    start = latest_full(table.pointer.latest())
    assert start is not None
    assert _follow(table, start)[0] == [[("+I", 1, 1)]]


def test_each_change_is_judged_for_itself(keyed: _Table) -> None:
    _write(keyed, [(1, 1), (2, 20)])
    _write(keyed, [(5, 1)])
    _write(keyed, [(2, 5), (3, 30)], ["+U", "+I"])
    found, position = _follow(keyed, after(None), "v > 10")
    assert (found, position) == ([[("+I", 2, 20)], [("+I", 3, 30)]], StreamPosition(4))


def test_starting_points(keyed: _Table) -> None:
    snapshots = [_write(keyed, [(k, k)]) for k in range(4)]
    newest = keyed.pointer.latest()
    storage = keyed.storage
    assert from_snapshot(storage, newest, 2) == StreamPosition(2)
    assert from_snapshot(storage, newest, 2, full=True) == StreamPosition(2, changes=False)
    assert from_snapshot(storage, newest, 5) == StreamPosition(5)
    assert from_consumer(storage, newest, StreamPosition(3)) == StreamPosition(3)
    for before, time, expected in ((0, -1, 1), (1, -1, 2), (1, 0, 2), (1, 1, 3), (3, 0, 4)):
        start = from_timestamp(storage, newest, snapshots[before].time_millis + time)
        assert start == StreamPosition(expected)
    assert from_timestamp(storage, newest, snapshots[3].time_millis + 1) == StreamPosition(5)
    assert from_timestamp(storage, None, 0) == StreamPosition(1)


def test_an_expired_snapshot_is_told_apart_from_one_to_come(keyed: _Table) -> None:
    for k in range(4):
        _write(keyed, [(k, k)])
    storage, newest = keyed.storage, keyed.pointer.latest()
    for gone in (1, 2):
        storage.files.delete(storage.layout.snapshot(gone))
    for attempt in (
        lambda: next_plan(storage, StreamPosition(2), newest),
        lambda: from_consumer(storage, newest, StreamPosition(1)),
        lambda: from_snapshot(storage, newest, 2),
    ):
        with pytest.raises(NotFound, match=r"has expired.*earliest snapshot is 3") as caught:
            attempt()
        assert caught.value.resource_type is ResourceType.SNAPSHOT
    assert _follow(keyed, StreamPosition(3))[1] == StreamPosition(5)
    for beyond in (6, 60):
        for attempt in (
            lambda n=beyond: next_plan(storage, StreamPosition(n), newest),
            lambda n=beyond: from_consumer(storage, newest, StreamPosition(n)),
        ):
            with pytest.raises(Invalid, match=f"snapshot {beyond} is wanted, but the latest is 4"):
                attempt()
    with pytest.raises(Invalid, match="start at 1"):
        from_snapshot(storage, newest, 0)


def test_a_snapshot_that_expires_while_it_is_planned_is_called_expired(keyed: _Table) -> None:
    first = _write(keyed, [(1, 1)])
    _write(keyed, [(2, 2)])
    storage, newest = keyed.storage, keyed.pointer.latest()
    storage.files.delete(storage.layout.manifest(first.delta_manifest_list))
    with pytest.raises(CorruptData, match=first.delta_manifest_list):
        next_plan(storage, StreamPosition(1), newest)

    class Vanishing:
        """The snapshot's file goes away right after it was read."""

        def __getattr__(self, name: str) -> Any:
            return getattr(keyed.storage.files, name)

        def read(self, path: str) -> bytes:
            data = keyed.storage.files.read(path)
            if path == storage.layout.snapshot(1):
                keyed.storage.files.delete(path)
            return data

    with pytest.raises(NotFound, match="has expired"):
        next_plan(replace(storage, files=Vanishing()), StreamPosition(1), newest)


def test_a_snapshot_file_that_is_still_to_be_written_is_waited_for(keyed: _Table) -> None:
    for k in range(3):
        _write(keyed, [(k, k)])
    storage, newest = keyed.storage, keyed.pointer.latest()
    path = storage.layout.snapshot(2)
    data = storage.files.read(path)
    storage.files.delete(path)
    assert next_plan(storage, StreamPosition(2), newest) == (None, StreamPosition(2))
    storage.files.write(path, data)
    assert _follow(keyed, StreamPosition(2))[1] == StreamPosition(4)


def test_positions_are_values_that_travel() -> None:
    for position in (StreamPosition(3), StreamPosition(7, changes=False)):
        assert StreamPosition.from_json(position.to_json()) == position
    assert StreamPosition(3, changes=False) < StreamPosition(3) < StreamPosition(4, changes=False)
    for bad in (None, {}, {"snapshotId": "3", "changes": True}, {"snapshotId": 0, "changes": True}):
        with pytest.raises(Invalid):
            StreamPosition.from_json(bad)


@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.one_of(
            st.lists(st.integers(0, 5), max_size=4, unique=True), st.sampled_from(["compact"])
        ),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
def test_a_range_of_a_stream_can_be_read_in_any_steps(
    new_table: _NewTable, commits: list[list[int] | str], data: st.DataObject
) -> None:
    table = new_table(_COLUMNS, primary_keys=["k"], options={"bucket": "2"})
    numbers = itertools.count()
    expected: list[_Change] = []
    for commit in commits:
        if isinstance(commit, str):
            if table.pointer.latest() is not None:
                _replace(table, [], overwrite=False)
        else:
            rows = [(k, next(numbers)) for k in commit]
            _write(table, rows)
            expected += sorted(("+I", k, v) for k, v in rows)
    newest = table.pointer.latest()
    last = 0 if newest is None else newest.id
    cuts = sorted(data.draw(st.sets(st.integers(1, last + 1))) | {1, last + 1})
    found: list[_Change] = []
    for start, end in itertools.pairwise(cuts):
        plans = plans_before(table.storage, StreamPosition(start), StreamPosition(end), newest)
        for plan in plans:
            assert start <= plan.snapshot.id < end
            found += _rows(table, plan)
    assert found == expected
    with pytest.raises(Invalid, match="not there yet"):
        list(plans_before(table.storage, after(None), StreamPosition(last + 2), newest))


def test_a_position_of_a_history_that_was_rolled_back_is_noticed(keyed: _Table) -> None:
    """Also when another commit has the id of the snapshot that was read, or of the next one."""
    _write(keyed, [(1, 1)])
    _write(keyed, [(2, 2)])
    read = keyed.pointer.latest()
    _, position = next_plan(keyed.storage, latest_full(read) or latest(None), read)
    stored = StreamPosition.from_json(json.loads(json.dumps(position.to_json())))
    assert read is not None
    assert (stored, stored.known) == (StreamPosition(3), read.identity)
    files, layout = keyed.storage.files, keyed.storage.layout
    files.delete(layout.snapshot(2))
    write_latest_hint(files, layout, 1)
    for key in (3, 4, 5):
        for again in (position, stored):
            with pytest.raises(Invalid, match="snapshot 2, which the stream has read"):
                check_history(keyed.storage, again, keyed.pointer.latest())
            with pytest.raises(Invalid, match="rolled back"):
                list(plans_before(keyed.storage, StreamPosition(1), again, keyed.pointer.latest()))
        _write(keyed, [(key, key)])
    # One that was saved without what it had read says nothing of it.
    plan, following = next_plan(keyed.storage, StreamPosition(3), keyed.pointer.latest())
    assert plan is not None
    assert following == StreamPosition(4)
