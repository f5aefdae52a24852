"""The rows that are committed last are the newest, whenever their writer began."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.storage.commit.table_commit import OutcomeUnknown, TableCommit
from headwater.storage.compaction.plan import plan_compaction
from headwater.storage.compaction.rewrite import run_compaction
from headwater.storage.errors import Conflict, Unavailable
from headwater.storage.read.split import read_split
from headwater.storage.scan.plan import live_entries, plan_changelog, plan_delta, plan_snapshot
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import CommitMessage, TableWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("k", "INT NOT NULL"), ("v", "INT")]


class _Job:
    """A writer that has begun and not yet committed."""

    def __init__(self, table: StoredTable) -> None:
        base = table.pointer.latest()
        self.table = table
        self.writer = TableWriter(
            table.storage,
            max_sequence_numbers=BucketStates(table.storage, base),
            checked_snapshot=SnapshotIdentity.of(base),
        )
        self.rows: list[tuple[int, int]] = []

    def write(self, rows: Sequence[tuple[int, int]]) -> None:
        schema = self.table.storage.schema.arrow
        self.writer.write(pa.table(list(zip(*rows, strict=True)), schema=schema))
        self.rows += rows

    def commit(self) -> Snapshot | None:
        messages = self.writer.finish()
        return TableCommit(self.table.storage, self.table.pointer, "job").commit(messages)


def _rows(table: StoredTable) -> dict[int, int]:
    latest = table.pointer.latest()
    assert latest is not None
    found: dict[int, int] = {}
    for split in plan_snapshot(table.storage, latest).splits:
        for batch in read_split(table.storage, split):
            found |= dict(zip(batch["k"].to_pylist(), batch["v"].to_pylist(), strict=True))
    return found


def _replayed(table: StoredTable) -> dict[int, int]:
    """The table as its streams tell it."""
    latest = table.pointer.latest()
    assert latest is not None
    found: dict[int, int] = {}
    keeps_changelog = "changelog-producer" in table.storage.schema.options
    for number in range(1, latest.id + 1):
        snapshot = table.storage.snapshot(number)
        plan = (plan_changelog if keeps_changelog else plan_delta)(table.storage, snapshot)
        for split in plan.splits:
            for batch in read_split(table.storage, split):
                found |= dict(zip(batch["k"].to_pylist(), batch["v"].to_pylist(), strict=True))
    return found


def _files(table: StoredTable) -> tuple[set[str], set[str]]:
    """The data files on storage, and those of the latest snapshot."""
    latest = table.pointer.latest()
    assert latest is not None
    live = {entry.file.file_name for entry in live_entries(table.storage, latest)}
    return {path.rsplit("/", 1)[1] for path in table.files_below("") if "/data-" in path}, live


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.integers(0, 2), st.lists(st.integers(0, 5), min_size=1, max_size=4)),
            st.tuples(st.integers(0, 2), st.just("commit")),
        ),
        max_size=20,
    ),
    options=st.sampled_from([{}, {"changelog-producer": "input"}]),
)
def test_the_last_commit_wins_and_streams_agree(
    new_table: NewTable,
    steps: list[tuple[int, list[int] | str]],
    options: dict[str, str],
) -> None:
    table = new_table(COLUMNS, primary_keys=["k"], options={"bucket": "2", **options})
    jobs: dict[int, _Job] = {}
    expected: dict[int, int] = {}
    value = 0
    for who, step in [*steps, *((who, "commit") for who in range(3))]:
        if isinstance(step, str):
            job = jobs.pop(who, None)
            if job is not None:
                assert job.commit() is not None
                expected |= dict(job.rows)
        else:
            rows = [(key, value + at) for at, key in enumerate(step)]
            value += len(rows)
            jobs.setdefault(who, _Job(table)).write(rows)
    if expected:
        assert _rows(table) == expected
        assert _replayed(table) == expected
        on_storage, live = _files(table)
        assert on_storage == live


def test_a_late_row_does_not_replace_a_first_one(new_table: NewTable) -> None:
    options = {"bucket": "1", "merge-engine": "first-row"}
    table = new_table(COLUMNS, primary_keys=["k"], options=options)
    late = _Job(table)
    late.write([(1, 1), (2, 2)])
    early = _Job(table)
    early.write([(1, 10), (3, 10)])
    early.commit()
    late.commit()
    latest = table.pointer.latest()
    assert latest is not None
    messages = [run_compaction(table.storage, t) for t in plan_compaction(table.storage, latest)]
    kept = [message for message in messages if message is not None]
    TableCommit(table.storage, table.pointer, "job").commit(kept)
    assert _rows(table) == {1: 10, 2: 2, 3: 10}


class _Between:
    """A pointer that lets something happen before it decides, and then answers."""

    def __init__(self, table: StoredTable, before: Callable[[], CommitAnswer | None]) -> None:
        self._table = table
        self._before = before

    def latest(self) -> Snapshot | None:
        return self._table.pointer.latest()

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        return self._table.pointer.was_taken(snapshot)

    def commit(
        self,
        snapshot: Snapshot,
        base: Snapshot | None,
        statistics: Sequence[PartitionStatistics],
    ) -> CommitAnswer:
        answer = self._before()
        return self._table.pointer.commit(snapshot, base, statistics) if answer is None else answer


def _late_messages(table: StoredTable) -> list[CommitMessage]:
    late = _Job(table)
    late.write([(1, 0), (2, 0)])
    messages = late.writer.finish()
    early = _Job(table)
    early.write([(1, 1)])
    early.commit()
    return messages


def test_commits_that_come_in_between_make_no_more_work(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    messages = _late_messages(table)
    seen: list[set[str]] = []

    def another() -> None:
        seen.append(_files(table)[0])
        if len(seen) < 3:
            job = _Job(table)
            job.write([(1, 10 + len(seen))])
            job.commit()

    TableCommit(table.storage, _Between(table, another), "job").commit(messages)
    assert _rows(table) == {1: 0, 2: 0}
    assert len(seen) == 3
    # Each try finds one more file: that of the commit that came in between.
    assert [len(files) for files in seen] == [3, 4, 5]
    on_storage, live = _files(table)
    assert on_storage == live


def test_a_commit_that_fails_leaves_what_its_writer_wrote(new_table: NewTable) -> None:
    table = new_table(
        COLUMNS, primary_keys=["k"], options={"bucket": "1", "commit.max-retries": "0"}
    )
    messages = _late_messages(table)
    before = _files(table)[0]
    refusing = _Between(table, lambda: CommitAnswer.of(False))
    commit = TableCommit(table.storage, refusing, "job")
    with pytest.raises(Conflict):
        commit.commit(messages)
    assert _files(table)[0] == before
    commit.abort(messages)
    on_storage, live = _files(table)
    assert on_storage == live


def test_an_unknown_outcome_keeps_every_file(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    messages = _late_messages(table)
    before = _files(table)[0]
    unknown = _Between(table, lambda: CommitAnswer.unknown(Unavailable("lost")))
    with pytest.raises(OutcomeUnknown):
        TableCommit(table.storage, unknown, "job").commit(messages)
    assert _files(table)[0] > before
