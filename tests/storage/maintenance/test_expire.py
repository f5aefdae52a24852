"""Expiry: what goes, what stays, and being killed at any point."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.dying_files import Killed, MortalFiles
from tests.modes import essential

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.compaction.plan import plan_compaction
from headwater.storage.compaction.rewrite import run_compaction
from headwater.storage.errors import CorruptData, Invalid
from headwater.storage.files.access import FileStatus
from headwater.storage.files.layout import TableLayout
from headwater.storage.files.local import LocalFileAccess, local_path
from headwater.storage.jobs.expire import delete_unreferenced_snapshot, expire_snapshots
from headwater.storage.maintenance.expire import ExpireResult, Retention
from headwater.storage.maintenance.reachable import live_paths, manifest_names
from headwater.storage.maintenance.table_check import check_table
from headwater.storage.manifest.manifest import read_manifest_list
from headwater.storage.read.split import read_split
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.snapshot.consumer import Consumer, list_consumer_files, write_consumer_file
from headwater.storage.snapshot.files import (
    hinted_earliest,
    read_snapshot_file,
    snapshot_file_ids,
    write_earliest_hint,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.snapshot.tag import Tag, delete_tag_file, list_tag_files, write_tag_file
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import CommitMessage, TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("id", "BIGINT NOT NULL"), ("v", "INT")]
HOUR = 3_600_000
ALL = Retention(least=1, most=1, millis=0, limit=1000)


@pytest.fixture
def table(new_table: NewTable) -> StoredTable:
    options = {"bucket": "1", "changelog-producer": "input"}
    return new_table(COLUMNS, primary_keys=["id"], options=options)


def upsert(table: StoredTable, *ids: int) -> Snapshot:
    base = table.pointer.latest()
    writer = TableWriter(table.storage, max_sequence_numbers=BucketStates(table.storage, base))
    writer.write(pa.table({"id": list(ids), "v": [table.clock.millis % 1000] * len(ids)}))
    snapshot = TableCommit(table.storage, table.pointer, "me").commit(writer.finish())
    assert snapshot is not None
    return snapshot


def compact(table: StoredTable) -> Snapshot:
    base = latest(table)
    done = [run_compaction(table.storage, task) for task in plan_compaction(table.storage, base)]
    messages = [message for message in done if message is not None]
    snapshot = TableCommit(table.storage, table.pointer, "me").commit(messages)
    assert snapshot is not None
    return snapshot


def overwrite(table: StoredTable, *ids: int) -> Snapshot:
    writer = TableWriter(table.storage, max_sequence_numbers={})
    writer.write(pa.table({"id": list(ids)}))
    whole = PartitionFilter.whole_table(table.storage)
    return TableCommit(table.storage, table.pointer, "me").overwrite(writer.finish(), whole)


def latest(table: StoredTable) -> Snapshot:
    snapshot = table.pointer.latest()
    assert snapshot is not None
    return snapshot


def expire(
    table: StoredTable, retention: Retention | None = ALL, *, dry_run: bool = False
) -> ExpireResult:
    return expire_snapshots(
        table.storage, table.pointer, table.references, retention, dry_run=dry_run
    )


def ids_at(table: StoredTable, snapshot: Snapshot) -> list[int]:
    ids: list[int] = []
    for split in plan_snapshot(table.storage, snapshot).splits:
        for batch in read_split(table.storage, split, columns=["id"]):
            ids += batch.column(0).to_pylist()
    return sorted(ids)


def tag(table: StoredTable, name: str, snapshot: Snapshot) -> None:
    assert write_tag_file(table.storage.files, table.storage.layout, Tag(name, snapshot))


def consumer(table: StoredTable, name: str, position: int) -> None:
    write_consumer_file(table.storage.files, table.storage.layout, Consumer(name, position))


def kept_ids(table: StoredTable) -> list[int]:
    return snapshot_file_ids(table.storage.files, table.storage.layout)


def all_snapshots(table: StoredTable, *layouts: TableLayout) -> list[Snapshot]:
    """The snapshots and tags of the table and of other branches."""
    files = table.storage.files
    snapshots: list[Snapshot] = []
    for layout in (table.storage.layout, *layouts):
        for number in snapshot_file_ids(files, layout):
            snapshot = read_snapshot_file(files, layout, number)
            assert snapshot is not None
            snapshots.append(snapshot)
        snapshots += [tag_file.snapshot for tag_file in list_tag_files(files, layout)]
    return snapshots


def check_exactly_what_is_needed_is_there(table: StoredTable, *layouts: TableLayout) -> None:
    """Every snapshot and tag is whole, and no file is there that none of them needs."""
    needed: set[str] = set()
    location = table.storage.layout.location
    for snapshot in all_snapshots(table, *layouts):
        ids_at(table, snapshot)
        needed |= {
            path.removeprefix(location + "/") for path in live_paths(table.storage, snapshot)
        }
        needed |= {f"manifest/{name}" for name in manifest_names(table.storage, snapshot)}
        if snapshot.changelog_manifest_list is not None and snapshot.id in kept_ids(table):
            for manifest in read_manifest_list(table.storage, snapshot.changelog_manifest_list):
                assert table.storage.files.exists(table.storage.layout.manifest(manifest.file_name))
    there = {p for p in table.files_below() if p.startswith(("bucket-", "manifest/"))}
    changelogs = {p for p in there if "/changelog-" in p}
    assert needed <= there
    assert there - changelogs - needed == set()
    lines = [(layout, snapshot_file_ids(table.storage.files, layout))
             for layout in (table.storage.layout, *layouts)]  # fmt: skip
    with_changelog = {
        snapshot.changelog_manifest_list
        for layout, ids in lines
        for snapshot in (read_snapshot_file(table.storage.files, layout, number) for number in ids)
        if snapshot is not None and snapshot.changelog_manifest_list is not None
    }
    assert len(changelogs) == len(with_changelog)


def history(table: StoredTable) -> dict[int, list[int]]:
    """A varied history of 11 snapshots, one an hour; the ids in each."""
    steps: Sequence[Callable[[], Snapshot]] = [
        lambda: upsert(table, 1, 2),
        lambda: upsert(table, 3),
        lambda: compact(table),
        lambda: upsert(table, 2, 4),
        lambda: upsert(table, 5),
        lambda: overwrite(table, 6, 7),
        lambda: upsert(table, 8),
        lambda: compact(table),
        lambda: upsert(table, 6, 9),
        lambda: compact(table),
        lambda: upsert(table, 10),
    ]
    ids_by_snapshot: dict[int, list[int]] = {}
    for step in steps:
        table.clock.millis += HOUR
        snapshot = step()
        ids_by_snapshot[snapshot.id] = ids_at(table, snapshot)
    assert list(ids_by_snapshot) == list(range(1, 12))
    return ids_by_snapshot


@pytest.mark.parametrize("end", essential(range(2, 12), {2, 5, 8, 11}))
def test_what_is_kept_is_whole_and_nothing_else_is_left(table: StoredTable, end: int) -> None:
    expected = history(table)
    result = expire(table, Retention(12 - end, 12 - end, 0, 1000))
    assert result.expired == tuple(range(1, end))
    assert result.earliest == end
    assert kept_ids(table) == list(range(end, 12))
    for number in kept_ids(table):
        assert ids_at(table, table.storage.snapshot(number)) == expected[number]
    check_exactly_what_is_needed_is_there(table)
    assert table.storage.files.read(table.storage.layout.earliest_hint) == str(end).encode()
    assert expire(table, Retention(12 - end, 12 - end, 0, 1000)).expired == ()


@pytest.mark.parametrize(
    "tagged", essential([(1,), (3,), (5,), (1, 4, 9), (2, 3), (6, 11)], {(5,), (1, 4, 9), (2, 3)})
)
def test_tags_keep_their_files_and_no_more(table: StoredTable, tagged: Sequence[int]) -> None:
    expected = history(table)
    for number in tagged:
        tag(table, f"t{number}", table.storage.snapshot(number))
    expire(table, Retention(8, 8, 0, 1000))
    check_exactly_what_is_needed_is_there(table)
    expire(table)
    check_exactly_what_is_needed_is_there(table)
    for tag_file in list_tag_files(table.storage.files, table.storage.layout):
        assert ids_at(table, tag_file.snapshot) == expected[tag_file.snapshot.id]


@pytest.mark.parametrize(
    "order",
    essential(
        [(1, 4, 9), (9, 4, 1), (4, 1, 9), (4, 5), (5, 4), (4, 5, 2, 1)],
        {(4, 1, 9), (5, 4), (4, 5, 2, 1)},
    ),
)
def test_a_deleted_tag_gives_back_what_it_alone_kept(
    table: StoredTable, order: Sequence[int]
) -> None:
    history(table)
    tags = {number: table.storage.snapshot(number) for number in order}
    for number, snapshot in tags.items():
        tag(table, f"t{number}", snapshot)
    tag(table, "again", tags[order[-1]])
    expire(table)
    for number in order:
        delete_tag_file(table.storage.files, table.storage.layout, f"t{number}")
        delete_unreferenced_snapshot(table.storage, table.pointer, table.references, tags[number])
        check_exactly_what_is_needed_is_there(table)
    delete_tag_file(table.storage.files, table.storage.layout, "again")
    before = table.files_below()
    delete_unreferenced_snapshot(table.storage, table.pointer, table.references, tags[order[-1]])
    assert len(table.files_below()) < len(before)
    check_exactly_what_is_needed_is_there(table)


def test_the_tag_of_a_snapshot_that_exists_keeps_nothing_alone(table: StoredTable) -> None:
    history(table)
    before = table.files_below()
    delete_unreferenced_snapshot(
        table.storage, table.pointer, table.references, table.storage.snapshot(4)
    )
    assert table.files_below() == before
    check_exactly_what_is_needed_is_there(table)


# How much goes --------------------------------------------------------------------------------


def test_options_say_what_stays(new_table: NewTable) -> None:
    options = {"snapshot.num-retained.min": "3", "snapshot.time-retained": "5 h"}
    table = new_table(COLUMNS, options=options)
    for number in range(11):
        table.clock.millis += HOUR
        upsert(table, number)
    table.clock.millis += HOUR // 2
    # Snapshot 6 was the present one until 4.5 hours ago, snapshot 5 until 5.5.
    assert expire(table, None).expired == (1, 2, 3, 4, 5)
    table.clock.millis += 100 * HOUR
    assert expire(table, None).expired == (6, 7, 8)
    assert kept_ids(table) == [9, 10, 11]


@pytest.mark.parametrize(
    ("retention", "first"),
    [
        (Retention(1, 1000, 0, 1000), 11),
        (Retention(4, 1000, 0, 1000), 8),
        (Retention(1, 1000, 0, 3), 4),
        (Retention(1, 1000, 1000 * HOUR, 1000), 1),
        (Retention(1, 4, 1000 * HOUR, 1000), 8),
        (Retention(1, 1000, 3 * HOUR, 1000), 8),
        (Retention(100, 1000, 0, 1000), 1),
    ],
)
def test_the_limits_work_together(table: StoredTable, retention: Retention, first: int) -> None:
    history(table)
    table.clock.millis += 1
    before = table.files_below()
    planned = expire(table, retention, dry_run=True)
    assert planned.dry_run
    assert table.files_below() == before
    done = expire(table, retention)
    assert replace(planned, dry_run=False) == done
    assert kept_ids(table)[0] == first
    gone = len(before) - len(table.files_below())
    assert gone == len(done.expired) + done.data_files + done.metadata_files


def test_a_snapshot_s_time_begins_when_the_next_one_comes(table: StoredTable) -> None:
    upsert(table, 1)
    table.clock.millis += 100 * HOUR
    upsert(table, 2)
    table.clock.millis += HOUR
    assert expire(table, Retention(1, 1000, HOUR, 1000)).expired == ()
    table.clock.millis += 1
    assert expire(table, Retention(1, 1000, HOUR, 1000)).expired == (1,)


def test_a_file_that_only_moved_up_stays(table: StoredTable) -> None:
    upsert(table, 1)
    compact(table)
    upsert(table, 2)
    expire(table)
    assert ids_at(table, latest(table)) == [1, 2]
    check_exactly_what_is_needed_is_there(table)


@pytest.mark.parametrize(
    "retention",
    [Retention(0, 1, 0, 1), Retention(3, 2, 0, 1), Retention(1, 1, -1, 1), Retention(1, 1, 0, 0)],
)
def test_limits_that_contradict_each_other_are_refused(
    table: StoredTable, retention: Retention
) -> None:
    upsert(table, 1)
    with pytest.raises(Invalid):
        expire(table, retention)


@dataclass(frozen=True)
class ListedFiles(LocalFileAccess):
    """Notes the directories that are listed."""

    listed: list[str] = field(default_factory=list)

    def list(self, directory: str) -> list[FileStatus]:
        self.listed.append(directory)
        return super().list(directory)


def test_the_snapshots_are_listed_once_when_none_is_due(table: StoredTable) -> None:
    files = ListedFiles()
    listed = table.storage.layout.snapshot_directory
    watched = replace(table.storage, files=files)
    keep = Retention(least=10, most=100, millis=HOUR, limit=10)
    for number in range(3):
        upsert(table, number)
        # As writers do after each commit.
        result = expire_snapshots(watched, table.pointer, table.references, keep, yields=True)
        assert (result.earliest, result.expired) == (1, ())
    assert files.listed.count(listed) <= 1
    table.clock.millis += 2 * HOUR
    upsert(table, 9)
    assert expire_snapshots(
        watched, table.pointer, table.references, replace(keep, least=1)
    ).expired == (1, 2)


def test_a_wrong_hint_of_the_earliest_snapshot_deletes_nothing(table: StoredTable) -> None:
    for number in range(4):
        upsert(table, number)
    keep = Retention(least=10, most=100, millis=HOUR, limit=10)
    files, layout = table.storage.files, table.storage.layout
    for wrong in (99, 3):
        write_earliest_hint(files, layout, wrong)
        assert expire(table, keep).earliest == 1
    assert kept_ids(table) == [1, 2, 3, 4]
    assert expire(table, Retention(1, 2, 0, 10)).expired == (1, 2)
    assert hinted_earliest(files, layout) == 3


def test_an_empty_table_has_nothing_to_expire(table: StoredTable) -> None:
    assert expire(table) == ExpireResult(dry_run=False)


def test_consumers_hold_back_what_they_have_not_read(table: StoredTable) -> None:
    history(table)
    consumer(table, "fast", 9)
    consumer(table, "slow", 4)
    result = expire(table)
    assert (result.expired, result.held_back_by) == ((1, 2, 3), "slow")
    consumer(table, "slow", 12)
    result = expire(table)
    assert (result.earliest, result.held_back_by) == (9, "fast")
    consumer(table, "fast", 12)
    assert expire(table).earliest == 11


def test_an_idle_consumer_holds_back_no_more(table: StoredTable) -> None:
    history(table)
    consumer(table, "asleep", 2)
    (written,) = list_consumer_files(table.storage.files, table.storage.layout)
    assert written.updated_at is not None
    sleepy = table.with_options(consumer__expiration_time="2 h")
    table.clock.millis = written.updated_at + HOUR
    assert expire(sleepy).earliest == 2
    table.clock.millis += 2 * HOUR
    assert expire(sleepy, dry_run=True).earliest == 11
    assert len(list_consumer_files(table.storage.files, table.storage.layout)) == 1
    assert expire(sleepy).earliest == 11
    assert list_consumer_files(table.storage.files, table.storage.layout) == []


def test_consumers_of_changelogs_alone_hold_back_no_snapshot(table: StoredTable) -> None:
    history(table)
    consumer(table, "slow", 2)
    alone = table.with_options(consumer__changelog_only="true")
    # Without changelogs of their own, there is nothing else to hold back.
    assert expire(alone).held_back_by == "slow"
    assert expire(alone.with_options(changelog__time_retained="3 d")).earliest == 11


# Branches and rollbacks -----------------------------------------------------------------------


def branch(table: StoredTable, name: str, start: int) -> StoredTable:
    """A branch as Paimon makes it: the schema and a snapshot are copied."""
    files, main = table.storage.files, table.storage.layout
    layout = replace(main, branch=name)
    files.write(layout.schema(0), files.read(main.schema(0)))
    files.write(layout.snapshot(start), files.read(main.snapshot(start)))
    return replace(
        table,
        storage=replace(table.storage, layout=layout),
        pointer=replace(table.pointer, layout=layout),
    )


def test_branches_keep_the_files_they_share(table: StoredTable) -> None:
    expected = history(table)
    side = branch(table, "side", 5)
    expire(table)
    assert ids_at(side, latest(side)) == expected[5]
    check_exactly_what_is_needed_is_there(table, side.storage.layout)
    compact(side)
    upsert(side, 100)
    assert ids_at(side, latest(side)) == sorted([*expected[5], 100])
    expire(side)
    assert ids_at(table, latest(table)) == expected[11]
    assert ids_at(side, latest(side)) == sorted([*expected[5], 100])


def test_a_branch_s_tags_keep_files_too(table: StoredTable) -> None:
    expected = history(table)
    side = branch(table, "side", 5)
    tag(side, "old", table.storage.snapshot(4))
    compact(side)
    expire(side)
    expire(table)
    (kept,) = list_tag_files(side.storage.files, side.storage.layout)
    assert ids_at(side, kept.snapshot) == expected[4]
    assert ids_at(side, latest(side)) == expected[5]


def test_a_branch_s_expiry_spares_what_main_has(table: StoredTable) -> None:
    upsert(table, 1)
    upsert(table, 2)
    side = branch(table, "side", 2)
    compact(side)
    upsert(side, 3)
    expire(side)
    assert ids_at(table, latest(table)) == [1, 2]
    assert ids_at(table, table.storage.snapshot(1)) == [1]
    assert ids_at(side, latest(side)) == [1, 2, 3]


def bring_back(table: StoredTable, old: Snapshot) -> Snapshot:
    """Another engine may roll back by a new snapshot that adds the old files again."""
    (again,) = plan_snapshot(table.storage, old).splits
    message = CommitMessage(again.partition, again.bucket, 1, new_files=tuple(again.files))
    commit = TableCommit(table.storage, table.pointer, "other")
    return commit.overwrite([message], PartitionFilter.whole_table(table.storage))


def test_a_file_that_a_rollback_brought_back_stays(table: StoredTable) -> None:
    old = upsert(table, 1)
    overwrite(table, 2)
    upsert(table, 3)
    bring_back(table, old)
    assert ids_at(table, latest(table)) == [1]
    expire(table, Retention(2, 2, 0, 1000))
    assert ids_at(table, latest(table)) == [1]
    expire(table)
    assert ids_at(table, latest(table)) == [1]


# Being killed ---------------------------------------------------------------------------------


def test_an_expiry_killed_at_any_change_is_finished_by_the_next(new_table: NewTable) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    table = new_table(COLUMNS, primary_keys=["id"], options=options)
    expected = history(table)
    tag(table, "t4", table.storage.snapshot(4))
    place = Path(local_path(table.storage.layout.location))
    whole = place.rename(place.with_name("whole"))
    step = 0
    while True:
        shutil.copytree(whole, place)
        mortal = replace(table, storage=replace(table.storage, files=MortalFiles(step)))
        try:
            expire(mortal, Retention(4, 4, 0, 1000))
        except Killed:
            pass
        else:
            break
        # Whatever is still called a snapshot from the first kept one on can be read.
        for number in range(8, 12):
            assert ids_at(table, table.storage.snapshot(number)) == expected[number]
        upsert(table, 11)
        expire(table, Retention(2, 2, 0, 1000))
        assert kept_ids(table) == [11, 12]
        assert ids_at(table, table.storage.snapshot(11)) == expected[11]
        (kept,) = list_tag_files(table.storage.files, table.storage.layout)
        assert ids_at(table, kept.snapshot) == expected[4]
        check_exactly_what_is_needed_is_there(table)
        shutil.rmtree(place)
        step += 3
    assert step > 20


@pytest.mark.modes
@pytest.mark.parametrize("option", ["changelog-producer=input", "deletion-vectors.enabled=true"])
def test_an_expiry_that_keeps_more_finishes_one_that_was_killed(
    new_table: NewTable, option: str
) -> None:
    name, value = option.split("=")
    options = {"bucket": "1", name: value}
    step = 1
    while True:
        table = new_table(COLUMNS, primary_keys=["id"], options=options)
        for number in range(1, 8):
            upsert(table, 1, number + 100)
            compact(table)
        expected = ids_at(table, table.storage.snapshot(12))
        mortal = replace(table, storage=replace(table.storage, files=MortalFiles(step)))
        try:
            expire(mortal, Retention(3, 3, 0, 1000))
        except Killed:
            pass
        else:
            break
        check = check_table(table.storage, lambda: {}, lambda _: {})
        assert check.damages == []
        expire(table, Retention(8, 8, 0, 1000))
        assert kept_ids(table) == [12, 13, 14]
        assert ids_at(table, table.storage.snapshot(12)) == expected
        check_exactly_what_is_needed_is_there(table)
        step += 3
    assert step > 20


def test_what_cannot_be_read_stops_the_expiry(table: StoredTable) -> None:
    history(table)
    tag(table, "t4", table.storage.snapshot(4))
    path = table.storage.layout.manifest(table.storage.snapshot(6).delta_manifest_list)
    table.storage.files.write(path, b"not Avro")
    before = table.files_below()
    with pytest.raises(CorruptData, match=path):
        expire(table)
    assert table.files_below() == before
