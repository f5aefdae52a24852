"""A commit of a numbered batch that is replayed while its first attempt is still under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import OutcomeUnknown, TableCommit
from headwater.storage.errors import Unavailable
from headwater.storage.read.split import read_split
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.snapshot.files import write_latest_hint
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics, SnapshotPointer
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import CommitMessage, TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

USER, BATCH = "query", 7


@dataclass
class Meddled:
    """A pointer that does something before a snapshot is decided, or before one is looked for.

    Attributes:
        inner: Who decides.
        before_commit: Done before the next decisions, in turn; it may answer instead.
        before_latest: Likewise before the next looks at the latest snapshot.
        held: The requests, as they were sent.
    """

    inner: SnapshotPointer
    before_commit: list[Callable[[], CommitAnswer | None]] = field(default_factory=list)
    before_latest: list[Callable[[], object]] = field(default_factory=list)
    held: list[Callable[[], CommitAnswer]] = field(default_factory=list)

    def latest(self) -> Snapshot | None:
        if self.before_latest:
            self.before_latest.pop(0)()
        return self.inner.latest()

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        self.held.append(lambda: self.inner.commit(snapshot, base, statistics))
        if self.before_commit:
            answer = self.before_commit.pop(0)()
            if answer is not None:
                return answer
        return self.inner.commit(snapshot, base, statistics)

    def arrive(self) -> None:
        """Have the first request decided, though nobody hears of it."""
        self.held[0]()

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        return self.inner.was_taken(snapshot)


@pytest.fixture(params=[False, True], ids=["append", "keyed"])
def table(request: pytest.FixtureRequest, new_table: NewTable) -> StoredTable:
    columns = [("id", "BIGINT NOT NULL")]
    made = (
        new_table(columns, primary_keys=["id"], options={"bucket": "1"})
        if request.param
        else new_table(columns, options={"commit.max-retries": "3"})
    )
    append(made, 1, user="other")
    return made


def write(table: StoredTable, *ids: int) -> list[CommitMessage]:
    base = table.pointer.latest()
    writer = TableWriter(table.storage, max_sequence_numbers=BucketStates(table.storage, base))
    writer.write(pa.table({"id": list(ids)}))
    return writer.finish()


def append(table: StoredTable, *ids: int, user: str) -> None:
    TableCommit(table.storage, table.pointer, user).commit(write(table, *ids))


def committed_files(table: StoredTable) -> list[str]:
    """The data files on the disk; they must be those that the table has, and no others."""
    latest = table.pointer.latest()
    assert latest is not None
    splits = plan_snapshot(table.storage, latest).splits
    named = sorted(file.file_name for split in splits for file in split.files)
    assert sorted(path.rsplit("/")[-1] for path in table.files_below("bucket-0")) == named
    return named


def rows(table: StoredTable) -> list[int]:
    latest = table.pointer.latest()
    assert latest is not None
    found: list[int] = []
    for split in plan_snapshot(table.storage, latest).splits:
        for batch in read_split(table.storage, split, columns=["id"]):
            found += batch.column(0).to_pylist()
    return sorted(found)


def by_user(table: StoredTable) -> list[int]:
    """The snapshots of the batch."""
    latest = table.pointer.latest()
    assert latest is not None
    every = [table.storage.snapshot(number) for number in range(1, latest.id + 1)]
    return [one.id for one in every if one.commit_user == USER]


def lost() -> CommitAnswer:
    return CommitAnswer.unknown(Unavailable("no answer came"))


def test_a_request_that_is_decided_while_the_replay_is_under_way(table: StoredTable) -> None:
    """Its answer was lost and so was the query; what was sent arrives all the same."""
    first = Meddled(table.pointer, before_commit=[lost] * 100)
    with pytest.raises(OutcomeUnknown):
        TableCommit(table.storage, first, USER).commit(write(table, 2), identifier=BATCH)
    again = Meddled(table.pointer)
    replay = TableCommit(table.storage, again, USER)
    assert replay.filter_committed([BATCH]) == [BATCH]
    again.before_commit.append(first.arrive)
    made = replay.commit(write(table, 2), identifier=BATCH)
    assert by_user(table) == [2]
    assert made == table.storage.snapshot(2)
    assert rows(table) == [1, 2]
    committed_files(table)


def test_a_request_that_is_decided_before_the_replay_looks_for_its_base(
    table: StoredTable,
) -> None:
    first = Meddled(table.pointer, before_commit=[lost] * 100)
    with pytest.raises(OutcomeUnknown):
        TableCommit(table.storage, first, USER).commit(write(table, 2), identifier=BATCH)
    again = Meddled(table.pointer)
    replay = TableCommit(table.storage, again, USER)
    assert replay.filter_committed([BATCH]) == [BATCH]
    again.before_latest += [first.arrive]
    replay.commit(write(table, 2), identifier=BATCH)
    assert by_user(table) == [2]
    assert rows(table) == [1, 2]
    committed_files(table)


def test_a_first_attempt_that_goes_on_after_its_replay_is_done(table: StoredTable) -> None:
    def replayed() -> None:
        replay = TableCommit(table.storage, table.pointer, USER)
        assert replay.filter_committed([BATCH]) == [BATCH]
        replay.commit(write(table, 2), identifier=BATCH)
        # The query has gone on meanwhile.
        replay.commit(write(table, 4), identifier=BATCH + 1)

    first = Meddled(table.pointer, before_commit=[replayed])
    TableCommit(table.storage, first, USER).commit(write(table, 2), identifier=BATCH)
    assert by_user(table) == [2, 3]
    assert rows(table) == [1, 2, 4]
    committed_files(table)


def test_files_that_the_first_attempt_committed_stay(table: StoredTable) -> None:
    """The same process offers the same files again."""
    messages = write(table, 2)
    first = Meddled(table.pointer, before_commit=[lost] * 100)
    commit = TableCommit(table.storage, first, USER)
    with pytest.raises(OutcomeUnknown):
        commit.commit(messages, identifier=BATCH)
    first.before_commit = [first.arrive]
    commit.commit(messages, identifier=BATCH)
    assert by_user(table) == [2]
    assert rows(table) == [1, 2]
    committed_files(table)


def test_an_overwrite_is_not_repeated_over_what_came_after_it(table: StoredTable) -> None:
    everything = PartitionFilter.static(table.storage, {})

    def replayed() -> None:
        replay = TableCommit(table.storage, table.pointer, USER)
        replay.overwrite(write(table, 2), everything, identifier=BATCH)
        append(table, 3, user="other")

    first = Meddled(table.pointer, before_commit=[replayed])
    TableCommit(table.storage, first, USER).overwrite(write(table, 2), everything, identifier=BATCH)
    assert by_user(table) == [2]
    assert rows(table) == [2, 3]


def test_commits_without_a_number_are_never_taken_for_a_replay(table: StoredTable) -> None:
    def another() -> None:
        append(table, 3, user=USER)

    first = Meddled(table.pointer, before_commit=[another])
    TableCommit(table.storage, first, USER).commit(write(table, 2))
    assert rows(table) == [1, 2, 3]


def test_several_commits_of_one_number_are_kept_apart(table: StoredTable) -> None:
    commit = TableCommit(table.storage, table.pointer, USER)
    assert commit.filter_committed([BATCH]) == [BATCH]
    for number in (2, 3):
        commit.commit(write(table, number), identifier=BATCH)
    assert rows(table) == [1, 2, 3]


def test_a_batch_that_was_repeated_after_a_rollback_is_found(table: StoredTable) -> None:
    layout, files = table.storage.layout, table.storage.files
    first = TableCommit(table.storage, table.pointer, USER)
    first.committed_up_to()
    first.commit(write(table, 2), identifier=BATCH)
    files.delete(layout.snapshot(2))
    write_latest_hint(files, layout, 1)
    again = TableCommit(table.storage, table.pointer, USER)
    assert again.filter_committed([BATCH]) == [BATCH]
    again.commit(write(table, 2), identifier=BATCH)
    done = first.commit(write(table, 2), identifier=BATCH)
    assert done is not None
    assert done.id == 2
    assert rows(table) == [1, 2]
