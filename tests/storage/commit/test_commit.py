"""Commits: what a snapshot says, races, lost answers, conflicts, and what is left behind."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.fate import DEFAULT_TIMEOUT_MILLIS
from headwater.storage.commit.table_commit import OutcomeUnknown, TableCommit
from headwater.storage.errors import (
    Conflict,
    CorruptData,
    Forbidden,
    HeadwaterError,
    Invalid,
    NotFound,
    Unavailable,
)
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.manifest.manifest import read_manifest, read_manifest_list
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.files import write_latest_hint
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot, SnapshotIdentity
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics, SnapshotPointer
from headwater.storage.write.bucket_state import BucketStates, partition_states
from headwater.storage.write.table_writer import CommitMessage, TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("id", "BIGINT NOT NULL"), ("p", "STRING"), ("v", "INT")]
KEYED = {"primary_keys": ["id"], "options": {"bucket": "1"}}


def write(table: StoredTable, rows: Mapping[str, Sequence[object]]) -> list[CommitMessage]:
    base = table.pointer.latest()
    writer = TableWriter(
        table.storage,
        max_sequence_numbers=BucketStates(table.storage, base),
        checked_snapshot=SnapshotIdentity.of(base),
    )
    writer.write(pa.table({name: list(values) for name, values in rows.items()}))
    return writer.finish()


def committer(
    table: StoredTable, user: str = "me", pointer: SnapshotPointer | None = None
) -> TableCommit:
    return TableCommit(table.storage, pointer or table.pointer, user)


def append(table: StoredTable, *ids: int, user: str = "me") -> Snapshot:
    snapshot = committer(table, user).commit(write(table, {"id": ids}))
    assert snapshot is not None
    return snapshot


def live_files(table: StoredTable) -> set[str]:
    latest = table.pointer.latest()
    assert latest is not None
    return {entry.file.file_name for entry in live_entries(table.storage, latest)}


def referenced_manifests(table: StoredTable) -> set[str]:
    """Everything in the manifest directory that some snapshot names."""
    latest = table.pointer.latest()
    names: set[str] = set()
    for number in range(1, (latest.id if latest else 0) + 1):
        snapshot = table.storage.snapshot(number)
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        if snapshot.changelog_manifest_list:
            lists.append(snapshot.changelog_manifest_list)
        for name in lists:
            names.add(name)
            names |= {m.file_name for m in read_manifest_list(table.storage, name)}
    return names


def manifests_on_disk(table: StoredTable) -> set[str]:
    return {path.rsplit("/", 1)[-1] for path in table.files_below("manifest")}


@dataclass
class Interfering:
    """A real pointer with something happening around its commits.

    Attributes:
        inner: Who decides.
        before: What happens before each commit that is passed on, in turn; it may answer instead.
        after: Likewise after it.
        latest_fails: How many reads of the history fail once a commit was offered.
        latest_error: How they fail.
    """

    inner: SnapshotPointer
    before: list[Callable[[], object]] = field(default_factory=list)
    after: list[Callable[[], object]] = field(default_factory=list)
    latest_fails: int = 0
    latest_error: type[HeadwaterError] = Unavailable
    offered: list[Snapshot] = field(default_factory=list)

    def latest(self) -> Snapshot | None:
        self._fail()
        return self.inner.latest()

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        self._fail()
        return self.inner.was_taken(snapshot)

    def _fail(self) -> None:
        if self.offered and self.latest_fails:
            self.latest_fails -= 1
            raise self.latest_error("the catalog does not answer")

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        self.offered.append(snapshot)
        instead = self.before.pop(0)() if self.before else None
        if isinstance(instead, CommitAnswer):
            return instead
        answer = self.inner.commit(snapshot, base, statistics)
        instead = self.after.pop(0)() if self.after else None
        return instead if isinstance(instead, CommitAnswer) else answer


def unavailable() -> CommitAnswer:
    return CommitAnswer.unknown(Unavailable("the answer was lost"))


def out_of_reach() -> CommitAnswer:
    return CommitAnswer.not_sent(Unavailable("the catalog cannot be reached"))


def forbidden() -> None:
    raise Forbidden("the token has expired")


def nothing() -> None:
    return None


def test_the_first_snapshot_says_all_that_paimon_wants(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    messages = write(table, {"id": [1, 2, 2]})
    snapshot = committer(table).commit(
        messages, identifier=7, watermark=123, properties={"why": "test"}
    )
    assert snapshot is not None
    document = dict(snapshot.document)
    assert document.pop("writerVersion").startswith("headwater")  # type: ignore[union-attr]
    assert document == {
        "version": 3,
        "uuid": snapshot.uuid,
        "id": 1,
        "schemaId": 0,
        "baseManifestList": snapshot.base_manifest_list,
        "baseManifestListSize": table.storage.files.size(
            table.storage.layout.manifest(snapshot.base_manifest_list)
        ),
        "deltaManifestList": snapshot.delta_manifest_list,
        "deltaManifestListSize": table.storage.files.size(
            table.storage.layout.manifest(snapshot.delta_manifest_list)
        ),
        "commitUser": "me",
        "commitIdentifier": 7,
        "commitKind": "APPEND",
        "timeMillis": table.clock.millis,
        "totalRecordCount": 2,
        "deltaRecordCount": 2,
        "watermark": 123,
        "properties": {"why": "test"},
        "operation": "WRITE",
    }
    assert table.storage.snapshot(1) == snapshot == table.pointer.latest()
    assert live_files(table) == {messages[0].new_files[0].file_name}
    assert read_manifest_list(table.storage, snapshot.base_manifest_list) == []


def test_properties_that_are_null_are_none(new_table: NewTable) -> None:
    snapshot = append(new_table(COLUMNS), 1)
    told = Snapshot({**snapshot.document, "properties": {"why": "test", "who": None}})
    assert told.properties == {"why": "test"}
    assert Snapshot({**snapshot.document, "properties": None}).properties == {}


def test_each_snapshot_builds_on_the_one_before(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    first = append(table, 1, 2)
    committer(table).commit(write(table, {"id": [3]}), watermark=50)
    third = committer(table).commit(write(table, {"id": [4]}), watermark=20)
    assert third is not None
    assert (third.id, third.total_record_count, third.delta_record_count) == (3, 4, 1)
    assert third.watermark == 50
    second = table.storage.snapshot(2)
    before = [
        manifest
        for name in (second.base_manifest_list, second.delta_manifest_list)
        for manifest in read_manifest_list(table.storage, name)
    ]
    assert read_manifest_list(table.storage, third.base_manifest_list) == before
    assert first.time_millis <= second.time_millis <= third.time_millis
    assert len(live_files(table)) == 3


def test_a_clock_that_goes_back_does_not_take_snapshots_along(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    first = append(table, 1)
    table.clock.millis -= 60_000
    assert append(table, 2).time_millis == first.time_millis


def test_changelog_files_have_their_own_list(new_table: NewTable) -> None:
    table = new_table(
        COLUMNS, primary_keys=["id"], options={"bucket": "1", "changelog-producer": "input"}
    )
    snapshot = append(table, 1, 1, 2)
    assert (snapshot.delta_record_count, snapshot.changelog_record_count) == (2, 3)
    assert snapshot.changelog_manifest_list is not None
    (manifest,) = read_manifest_list(table.storage, snapshot.changelog_manifest_list)
    (entry,) = read_manifest(table.storage, manifest.file_name)
    assert entry.file.file_name.startswith("changelog-")


def test_nothing_to_commit_is_no_snapshot_unless_asked(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    assert committer(table).commit([]) is None
    assert table.pointer.latest() is None
    assert table.files_below("manifest") == []
    snapshot = committer(table).commit([], identifier=3, allow_empty=True)
    assert snapshot is not None
    assert (snapshot.id, snapshot.delta_record_count) == (1, 0)
    assert live_files(table) == set()


def test_a_slower_commit_lands_on_top_of_a_faster_one(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    append(table, 1)
    mine = write(table, {"id": [2]})
    racing = Interfering(
        table.pointer,
        before=[lambda: append(table, 3, user="other"), lambda: append(table, 4, user="other")],
    )
    snapshot = committer(table, pointer=racing).commit(mine)
    assert snapshot is not None
    assert (snapshot.id, snapshot.total_record_count) == (4, 4)
    assert len(live_files(table)) == 4
    assert len({offer.uuid for offer in racing.offered}) == 3
    assert manifests_on_disk(table) == referenced_manifests(table)


def test_a_commit_that_always_loses_gives_up_and_cleans_up(new_table: NewTable) -> None:
    table = new_table(COLUMNS).with_options(commit__max_retries="3")
    mine = write(table, {"id": [2]})
    racing = Interfering(
        table.pointer, before=[lambda: append(table, 3, user="other") for _ in range(9)]
    )
    with pytest.raises(Conflict, match="came first 4 times"):
        committer(table, pointer=racing).commit(mine)
    assert len(racing.offered) == 4
    assert len(table.clock.slept) == 3
    assert max(table.clock.slept) <= 0.1
    assert manifests_on_disk(table) == referenced_manifests(table)
    committer(table).abort(mine)
    assert len(table.files_below("bucket-0")) == 4


@pytest.mark.parametrize("failures", [1, 3])
def test_an_answer_lost_after_the_commit_is_found_out(new_table: NewTable, failures: int) -> None:
    table = new_table(COLUMNS)
    lossy = Interfering(table.pointer, after=[unavailable] * failures)
    snapshot = committer(table, pointer=lossy).commit(write(table, {"id": [1]}))
    assert snapshot == table.pointer.latest()
    assert snapshot is not None
    assert snapshot.id == 1
    assert {offer.uuid for offer in lossy.offered} == {snapshot.uuid}
    assert manifests_on_disk(table) == referenced_manifests(table)


def test_a_commit_that_never_arrived_is_offered_again_unchanged(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    lossy = Interfering(table.pointer, before=[unavailable, unavailable])
    snapshot = committer(table, pointer=lossy).commit(write(table, {"id": [1]}))
    assert snapshot is not None
    assert [offer.uuid for offer in lossy.offered] == [snapshot.uuid] * 3
    assert table.pointer.latest() == snapshot


def test_a_lost_answer_is_found_out_behind_later_commits(new_table: NewTable) -> None:
    table = new_table(COLUMNS)

    def overtaken_and_lost() -> CommitAnswer:
        append(table, 5, user="other")
        append(table, 6, user="other")
        return unavailable()

    lossy = Interfering(table.pointer, after=[overtaken_and_lost])
    snapshot = committer(table, pointer=lossy).commit(write(table, {"id": [1]}))
    assert snapshot is not None
    assert snapshot.id == 1
    latest = table.pointer.latest()
    assert latest is not None
    assert (latest.id, latest.total_record_count) == (3, 3)


def test_when_another_took_the_place_the_commit_starts_over(new_table: NewTable) -> None:
    table = new_table(COLUMNS)

    def overtaken_and_lost() -> CommitAnswer:
        append(table, 5, user="other")
        return unavailable()

    lossy = Interfering(table.pointer, before=[overtaken_and_lost])
    snapshot = committer(table, pointer=lossy).commit(write(table, {"id": [1]}))
    assert snapshot is not None
    assert (snapshot.id, snapshot.total_record_count) == (2, 2)
    assert len({offer.uuid for offer in lossy.offered}) == 2
    assert manifests_on_disk(table) == referenced_manifests(table)


@pytest.mark.parametrize("error", [Unavailable, Forbidden, NotFound, CorruptData])
def test_an_outcome_that_cannot_be_known_keeps_every_file(
    new_table: NewTable, error: type[HeadwaterError]
) -> None:
    table = new_table(COLUMNS)
    silent = Interfering(
        table.pointer, before=[unavailable] * 99, latest_fails=99, latest_error=error
    )
    with pytest.raises(OutcomeUnknown, match="not known"):
        committer(table, pointer=silent).commit(write(table, {"id": [1]}), identifier=4)
    assert {offer.uuid for offer in silent.offered} == {silent.offered[0].uuid}
    # It may still come.
    assert table.pointer.commit(silent.offered[0], None, []).decided()
    assert len(live_files(table)) == 1
    assert committer(table).filter_committed([3, 4, 5]) == [5]


@pytest.mark.parametrize("error", [Unavailable, Forbidden, NotFound, CorruptData])
def test_a_commit_whose_file_is_there_was_taken_whatever_the_catalog_says(
    new_table: NewTable, error: type[HeadwaterError]
) -> None:
    table = new_table(COLUMNS)
    silent = Interfering(
        table.pointer, after=[unavailable] * 99, latest_fails=99, latest_error=error
    )
    snapshot = committer(table, pointer=silent).commit(write(table, {"id": [1]}))
    assert snapshot == table.pointer.latest()
    assert len(silent.offered) == 1


@pytest.mark.parametrize("error", [Unavailable, Forbidden, NotFound, CorruptData])
def test_the_file_of_another_commit_proves_nothing_while_the_catalog_does_not_answer(
    new_table: NewTable, error: type[HeadwaterError]
) -> None:
    table = new_table(COLUMNS)

    def overtaken_and_lost() -> CommitAnswer:
        append(table, 5, user="other")
        return unavailable()

    silent = Interfering(
        table.pointer,
        before=[overtaken_and_lost, *[unavailable] * 99],
        latest_fails=99,
        latest_error=error,
    )
    with pytest.raises(OutcomeUnknown, match="not known"):
        committer(table, pointer=silent).commit(write(table, {"id": [1]}))
    assert {offer.uuid for offer in silent.offered} == {silent.offered[0].uuid}


def test_a_commit_that_was_never_sent_did_not_happen_and_leaves_nothing(
    new_table: NewTable,
) -> None:
    table = new_table(COLUMNS)
    append(table, 7)
    before = table.files_below()
    gone = Interfering(table.pointer, before=[out_of_reach] * 99)
    messages = write(table, {"id": [1]})
    commit = committer(table, pointer=gone)
    with pytest.raises(Unavailable, match=r"nothing was committed.*cannot be reached") as error:
        commit.commit(messages)
    assert not isinstance(error.value, OutcomeUnknown)
    assert {offer.uuid for offer in gone.offered} == {gone.offered[0].uuid}
    assert sum(table.clock.slept) == pytest.approx(DEFAULT_TIMEOUT_MILLIS / 1000, abs=0.05)
    # Nobody has to be asked whether the files may go.
    gone.latest_fails = 99
    commit.abort(messages)
    assert table.files_below() == before


def test_a_try_that_was_not_sent_does_not_undo_one_that_was(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    gone = Interfering(
        table.pointer, before=[out_of_reach, unavailable, *[out_of_reach] * 99], latest_fails=99
    )
    messages = write(table, {"id": [1]})
    commit = committer(table, pointer=gone)
    with pytest.raises(OutcomeUnknown):
        commit.commit(messages)
    files = table.files_below()
    commit.abort(messages)
    assert table.files_below() == files


def test_a_catalog_that_comes_back_in_time_takes_the_commit(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    back = Interfering(table.pointer, before=[out_of_reach] * 4)
    snapshot = committer(table, pointer=back).commit(write(table, {"id": [1]}))
    assert snapshot == table.pointer.latest()
    assert len(back.offered) == 5


def test_files_that_were_committed_before_stay_though_the_catalog_is_gone(
    new_table: NewTable,
) -> None:
    table = new_table(COLUMNS)
    messages = write(table, {"id": [1]})
    committer(table).commit(messages)
    gone = Interfering(table.pointer, before=[out_of_reach] * 99)
    commit = committer(table, pointer=gone)
    gone.offered.append(append(table, 2))
    gone.latest_fails = 99
    with pytest.raises(Unavailable, match="nothing was committed"):
        commit.commit(messages)
    commit.abort(messages)
    assert len(live_files(table)) == 2
    assert len(table.files_below("bucket-0")) == 2


def test_a_commit_gives_way_to_others_for_as_long_as_it_may(new_table: NewTable) -> None:
    table = new_table(COLUMNS).with_options(commit__timeout="20 ms", commit__max_retries="99")
    mine = write(table, {"id": [2]})
    racing = Interfering(
        table.pointer, before=[lambda: append(table, 3, user="other") for _ in range(99)]
    )
    with pytest.raises(Conflict, match=r"commit\.timeout"):
        committer(table, pointer=racing).commit(mine)
    assert 2 <= len(racing.offered) <= 5


def test_a_refusal_after_a_lost_answer_proves_nothing(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    pointer = Interfering(
        table.pointer, before=[unavailable, forbidden], after=[nothing], latest_fails=99
    )
    with pytest.raises(OutcomeUnknown):
        committer(table, pointer=pointer).commit(write(table, {"id": [1]}))
    assert table.files_below("manifest") != []


def test_a_plain_refusal_is_certain_and_leaves_no_manifest(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    pointer = Interfering(table.pointer, before=[forbidden])
    messages = write(table, {"id": [1]})
    with pytest.raises(Forbidden):
        committer(table, pointer=pointer).commit(messages)
    assert table.files_below("manifest") == []
    committer(table).abort(messages)
    assert table.files_below("bucket-0") == []


def test_files_stay_when_the_table_cannot_be_asked(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    messages = write(table, {"id": [1]})
    deaf = Interfering(table.pointer, latest_fails=1)
    deaf.offered.append(append(table, 2))
    committer(table, pointer=deaf).abort(messages)
    assert len(table.files_below("bucket-0")) == 2
    committer(table, pointer=deaf).abort(messages)
    assert len(table.files_below("bucket-0")) == 1


def test_filter_committed_reads_the_user_s_own_history(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    assert committer(table).filter_committed([0, 1]) == [0, 1]
    for number in (0, 1, 2):
        committer(table).commit(write(table, {"id": [number]}), identifier=number)
    append(table, 9, user="other")
    assert committer(table).filter_committed([1, 2, 3, 4]) == [3, 4]
    assert committer(table, "stranger").committed_up_to().whole_history
    for number in (1, 2, 3):
        table.storage.files.delete(table.storage.layout.snapshot(number))
    gone = committer(table).committed_up_to()
    assert (gone.identifier, gone.whole_history) == (None, False)


# Conflicts ------------------------------------------------------------------------------------


def compaction(
    before: Sequence[DataFile], after: Sequence[DataFile], *, buckets: int = 1
) -> list[CommitMessage]:
    return [
        CommitMessage(
            EMPTY_ROW, 0, buckets, compact_before=tuple(before), compact_after=tuple(after)
        )
    ]


def rewritten(table: StoredTable, *ids: int) -> DataFile:
    """A file on the highest level that no snapshot has yet."""
    (message,) = write(table, {"id": ids})
    return message.new_files[0].at_level(5)


def files_of(table: StoredTable) -> list[DataFile]:
    latest = table.pointer.latest()
    assert latest is not None
    return [entry.file for entry in live_entries(table.storage, latest)]


def test_a_compaction_leaves_files_that_came_meanwhile(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    append(table, 1)
    append(table, 2)
    before = files_of(table)
    after = rewritten(table, 1, 2)
    append(table, 3)
    snapshot = committer(table).commit(compaction(before, [after]))
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert snapshot.delta_record_count == 0
    names = live_files(table)
    assert after.file_name in names
    assert names.isdisjoint(file.file_name for file in before)
    assert len(names) == 2


def test_new_files_and_compactions_are_not_mixed(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    append(table, 1)
    mixed = [*write(table, {"id": [2]}), *compaction(files_of(table), [rewritten(table, 1)])]
    with pytest.raises(Invalid, match="separately"):
        committer(table).commit(mixed)
    with pytest.raises(Invalid, match="of kind OVERWRITE"):
        committer(table).commit(mixed, kind=CommitKind.COMPACT)


def test_files_compacted_by_another_are_a_conflict(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    append(table, 1)
    before = files_of(table)
    mine, theirs = rewritten(table, 1), rewritten(table, 1)
    committer(table, "other").commit(compaction(before, [theirs]))
    stored = manifests_on_disk(table)
    with pytest.raises(Conflict, match="deleted meanwhile"):
        committer(table).commit(compaction(before, [mine]))
    assert manifests_on_disk(table) == stored
    assert live_files(table) == {theirs.file_name}


def test_overlapping_runs_on_one_level_are_a_conflict(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    append(table, 1, 5)
    append(table, 3, 9)
    first, second = files_of(table)
    committer(table, "other").commit(compaction([first], [rewritten(table, 1, 5)]))
    for keys in ((3, 9), (5, 9), (0, 1), (0, 9), (2, 2)):
        with pytest.raises(Conflict, match="same keys on level 5"):
            committer(table).commit(compaction([second], [rewritten(table, *keys)]))
    committer(table).commit(compaction([second], [rewritten(table, 6, 9)]))


def test_a_compaction_that_raced_is_checked_again(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    append(table, 1)
    before = files_of(table)
    theirs, mine = rewritten(table, 1), rewritten(table, 1)
    racing = Interfering(
        table.pointer,
        before=[lambda: committer(table, "other").commit(compaction(before, [theirs]))],
    )
    with pytest.raises(Conflict, match="deleted meanwhile"):
        committer(table, pointer=racing).commit(compaction(before, [mine]))
    assert live_files(table) == {theirs.file_name}
    assert manifests_on_disk(table) == referenced_manifests(table)


@pytest.mark.parametrize("options", [KEYED, {}])
def test_messages_are_committed_once(new_table: NewTable, options: dict[str, object]) -> None:
    table = new_table(COLUMNS, **options)
    append(table, 1)
    messages = write(table, {"id": [2]})
    committer(table).commit(messages)
    with pytest.raises(Conflict, match="committed already"):
        committer(table).commit(messages)
    # What failed is the second commit; the first one's files are the table's.
    committer(table).abort(messages)
    (file,) = messages[0].new_files
    assert any(path.endswith(file.file_name) for path in table.files_below("bucket-0"))
    with pytest.raises(Conflict, match="committed already"):
        committer(table).commit(compaction([], [file]), kind=CommitKind.OVERWRITE)
    twice = rewritten(table, 3)
    with pytest.raises(Conflict, match="committed already"):
        committer(table).commit(compaction([], [twice, twice]), kind=CommitKind.OVERWRITE)
    assert table.pointer.latest() == table.storage.snapshot(2)


def test_a_partition_keeps_its_number_of_buckets(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    stale = write(table, {"id": [1]})
    wider = table.with_options(bucket="2")
    committer(wider, "other").commit(write(wider, {"id": [1, 2, 3]}))
    with pytest.raises(Conflict, match="in 2 and in 1 buckets"):
        committer(table).commit(stale)
    with pytest.raises(Invalid, match="has 2 buckets, but the option 'bucket' says 1"):
        write(table, {"id": [1]})


def test_buckets_that_changed_in_the_schema_are_noticed_at_once(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    messages = write(table, {"id": [1]})
    changed = table.with_options(bucket="4").storage.schema
    text = changed.to_json().replace('"id": 0,', '"id": 1,', 1)
    table.storage.files.write(table.storage.layout.schema(1), text.encode())
    with pytest.raises(Conflict, match="'bucket' changed from 1 to 4"):
        committer(table).commit(messages)


def test_a_commit_takes_the_latest_schema(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    text = table.storage.schema.to_json().replace('"id": 0,', '"id": 1,', 1)
    messages = write(table, {"id": [1]})
    table.storage.files.write(table.storage.layout.schema(1), text.encode())
    snapshot = committer(table).commit(messages)
    assert snapshot is not None
    assert snapshot.schema_id == 1


def test_rows_changed_since_they_were_read_are_a_conflict(new_table: NewTable) -> None:
    table = new_table(COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    read = append(table, 1)
    messages = write(table, {"id": [1]})
    committer(table, "other").commit(compaction(files_of(table), [rewritten(table, 1)]))
    assert committer(table).commit(messages, unchanged_since=read.identity) is not None
    with pytest.raises(Conflict, match="snapshot 3 changed bucket 0"):
        committer(table).commit(write(table, {"id": [1]}), unchanged_since=read.identity)


def test_a_bucket_s_last_sequence_number_is_that_of_all_its_files(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    append(table, 1, 2)
    append(table, 3)
    latest = table.pointer.latest()
    assert latest is not None
    entries = live_entries(table.storage, latest)
    for order in (entries, entries[::-1]):
        state = partition_states(order)[EMPTY_ROW]
        assert (state.total_buckets, state.max_sequence) == (1, {0: 2})


# Overwriting ----------------------------------------------------------------------------------


PARTITIONED = {"partition_keys": ["p"]}


def test_an_overwrite_replaces_what_it_says_and_no_more(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **PARTITIONED)
    commit = committer(table)
    commit.commit(write(table, {"id": [1, 2, 3], "p": ["a", "b", None]}))
    one = PartitionFilter.static(table.storage, {"p": "a"})
    snapshot = commit.overwrite(write(table, {"id": [4], "p": ["a"]}), one)
    assert (snapshot.commit_kind, snapshot.total_record_count) == (CommitKind.OVERWRITE, 3)
    with pytest.raises(Invalid, match="rows lie outside"):
        commit.overwrite(write(table, {"id": [4], "p": ["b"]}), one)
    dynamic = write(table, {"id": [5, 6, 7], "p": ["b", "b", None]})
    snapshot = commit.overwrite(dynamic, PartitionFilter.from_messages(table.storage, dynamic))
    assert snapshot.total_record_count == 4
    assert snapshot.delta_record_count == 1
    whole = PartitionFilter.whole_table(table.storage)
    snapshot = commit.overwrite([], whole)
    assert snapshot.total_record_count == 0
    assert live_files(table) == set()


def test_an_overwrite_takes_along_what_came_meanwhile(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    append(table, 1)
    mine = write(table, {"id": [2]})
    racing = Interfering(table.pointer, before=[lambda: append(table, 3, user="other")])
    whole = PartitionFilter.whole_table(table.storage)
    snapshot = committer(table, pointer=racing).overwrite(mine, whole)
    assert snapshot.total_record_count == 1
    assert live_files(table) == {mine[0].new_files[0].file_name}
    assert manifests_on_disk(table) == referenced_manifests(table)


def test_overwritten_keys_need_no_merge(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    append(table, 1)
    whole = PartitionFilter.whole_table(table.storage)
    committer(table).overwrite(write(table, {"id": [4, 5]}), whole)
    assert [file.level for file in files_of(table)] == [5]


def test_an_overwrite_with_deletes_is_merged_by_readers(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    messages = write(table, {"id": [4, 5], "_ROW_KIND": ["+I", "-D"]})
    committer(table).overwrite(messages, PartitionFilter.whole_table(table.storage))
    assert [file.level for file in files_of(table)] == [0]


def test_overwritten_keys_in_two_files_are_merged_by_readers(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    twice = [*write(table, {"id": [4, 5]}), *write(table, {"id": [5, 6]})]
    committer(table).overwrite(twice, PartitionFilter.whole_table(table.storage))
    assert [file.level for file in files_of(table)] == [0, 0]


def test_an_overwrite_may_change_the_number_of_buckets(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    append(table, 1)
    wider = table.with_options(bucket="2")
    writer = TableWriter(wider.storage, max_sequence_numbers={})
    writer.write(pa.table({"id": list(range(10))}))
    whole = PartitionFilter.whole_table(wider.storage)
    committer(wider).overwrite(writer.finish(), whole)
    append(wider, 11)
    with pytest.raises(Invalid, match="is not a partition column"):
        PartitionFilter.static(wider.storage, {"id": 1})


# Manifests ------------------------------------------------------------------------------------


def test_small_manifests_are_merged(new_table: NewTable) -> None:
    table = new_table(COLUMNS, options={"manifest.merge-min-count": "4"})
    for number in range(10):
        append(table, number)
        latest = table.pointer.latest()
        assert latest is not None
        assert len(read_manifest_list(table.storage, latest.base_manifest_list)) < 4
    assert len(live_files(table)) == 10


def test_a_manifest_of_many_files_is_not_written_again_every_few_commits(
    new_table: NewTable,
) -> None:
    table = new_table(COLUMNS, options={"manifest.merge-min-count": "4"})
    (message,) = write(table, {"id": [0]})
    names = [f"data-{hashlib.sha256(bytes([n, 1])).hexdigest()}.parquet" for n in range(250)]
    files = tuple(replace(message.new_files[0], file_name=name) for name in names)
    committer(table).commit([replace(message, new_files=files)])
    seen = []
    for number in range(12):
        append(table, number)
        latest = table.pointer.latest()
        assert latest is not None
        base = read_manifest_list(table.storage, latest.base_manifest_list)
        assert len(base) < 4
        seen.append(base[0].file_name)
    assert len(set(seen)) == 1
    assert len(live_files(table)) == 262


def test_manifests_are_merged_up_to_their_target_size(new_table: NewTable) -> None:
    table = new_table(COLUMNS, options={"manifest.target-file-size": "4 kb"})
    for number in range(10):
        append(table, number)
    latest = table.pointer.latest()
    assert latest is not None
    base = read_manifest_list(table.storage, latest.base_manifest_list)
    assert len(base) < 9
    assert sum(manifest.num_added_files for manifest in base) == 9
    assert len(live_files(table)) == 10


def test_deletes_are_applied_when_manifests_grow(new_table: NewTable) -> None:
    options = {"bucket": "1", "manifest.full-compaction-threshold-size": "1 b"}
    table = new_table(COLUMNS, primary_keys=["id"], options=options)
    for number in range(5):
        append(table, number)
        whole = PartitionFilter.whole_table(table.storage)
        committer(table).overwrite(write(table, {"id": [number]}), whole)
    snapshot = append(table, 99)
    base = read_manifest_list(table.storage, snapshot.base_manifest_list)
    assert sum(manifest.num_deleted_files for manifest in base) == 0
    assert sum(manifest.num_added_files for manifest in base) == 1
    assert len(live_files(table)) == 2


# Many at once ---------------------------------------------------------------------------------


def test_eight_committers_lose_nothing_and_double_nothing(new_table: NewTable) -> None:
    table = new_table(COLUMNS).with_options(commit__max_retries="1000")
    failures: list[HeadwaterError] = []

    def work(number: int) -> None:
        try:
            for step in range(5):
                commit = committer(table, f"user-{number}")
                commit.commit(write(table, {"id": [number * 100 + step]}), identifier=step)
        except HeadwaterError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    latest = table.pointer.latest()
    assert latest is not None
    assert (latest.id, latest.total_record_count) == (40, 40)
    history = [table.storage.snapshot(number) for number in range(1, 41)]
    assert len({(s.commit_user, s.commit_identifier) for s in history}) == 40
    assert len(live_files(table)) == 40
    assert manifests_on_disk(table) == referenced_manifests(table)


def roll_back(table: StoredTable, to: int) -> None:
    """What a rollback does to the files."""
    latest = table.pointer.latest()
    assert latest is not None
    for number in range(latest.id, to, -1):
        table.storage.files.delete(table.storage.layout.snapshot(number))
    write_latest_hint(table.storage.files, table.storage.layout, to)


def as_of_an_old_client(table: StoredTable, snapshot: Snapshot) -> Snapshot:
    """The latest snapshot, without the uuid that Paimon before 2.0 does not give."""
    plain = {name: value for name, value in snapshot.document.items() if name != "uuid"}
    old = Snapshot.from_document(plain)
    path = table.storage.layout.snapshot(snapshot.id)
    table.storage.files.write(path, old.to_json().encode())
    return old


def test_snapshots_without_uuids_are_told_apart(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    append(table, 1)
    read = as_of_an_old_client(table, append(table, 2))
    messages = write(table, {"id": [1]})
    assert committer(table).commit(messages, unchanged_since=read.identity) is not None
    messages = write(table, {"id": [2]})
    roll_back(table, 1)
    as_of_an_old_client(table, append(table, 3))
    append(table, 4)
    with pytest.raises(Conflict, match=r"snapshot 2, which .* no longer part of the table's"):
        committer(table).commit(messages, unchanged_since=read.identity)


def test_a_compaction_brings_no_row_back_that_a_rollback_did_not(new_table: NewTable) -> None:
    """A file that had gone is there again, and one that took its absence for granted is late."""
    table = new_table(COLUMNS, **KEYED)
    first = append(table, 1)
    messages = compaction(files_of(table), [rewritten(table, 1)])
    base = table.pointer.latest()
    seen = [replace(one, checked_snapshot=SnapshotIdentity.of(base)) for one in messages]
    roll_back(table, 0)
    table.storage.files.write(table.storage.layout.snapshot(1), again(first).to_json().encode())
    with pytest.raises(Conflict, match="rolled back or replaced"):
        committer(table).commit(seen)


def again(snapshot: Snapshot) -> Snapshot:
    """Another commit of the same files."""
    return Snapshot.from_document({**snapshot.document, "uuid": "another"})
