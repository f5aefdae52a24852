"""Commits with index files: which replace which, what conflicts, and what a crash leaves."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.dying_files import Killed, MortalFiles
from tests.interrupted import Racing

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Conflict, CorruptData, Invalid, Unavailable
from headwater.storage.index.index_file import (
    DELETION_VECTORS,
    HASH,
    DeletionVectorRange,
    IndexFileMeta,
    index_file_path,
    new_index_file,
)
from headwater.storage.index.manifest import index_entries
from headwater.storage.jobs.expire import delete_unreferenced_snapshot, expire_snapshots
from headwater.storage.jobs.orphans import remove_orphan_files
from headwater.storage.maintenance.expire import Retention
from headwater.storage.rows.binary_row import EMPTY_ROW
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.files import snapshot_file_ids
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot, SnapshotIdentity
from headwater.storage.snapshot.tag import Tag, delete_tag_file, list_tag_files, write_tag_file
from headwater.storage.write.table_writer import CommitMessage, TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("id", "BIGINT NOT NULL"), ("p", "STRING NOT NULL")]
KEYED = {"primary_keys": ["id"], "options": {"bucket": "2"}}
ONLY_LATEST = Retention(least=1, most=1, millis=0, limit=1000)


def committer(table: StoredTable) -> TableCommit:
    return TableCommit(table.storage, table.pointer, "me")


def append(table: StoredTable, *ids: int, p: str = "a") -> list[CommitMessage]:
    writer = TableWriter(
        table.storage, max_sequence_numbers={}, checked_snapshot=SnapshotIdentity(0)
    )
    writer.write(pa.table({"id": list(ids), "p": [p] * len(ids)}))
    messages = writer.finish()
    committer(table).commit(messages)
    return messages


def index_file(
    table: StoredTable, index_type: str = HASH, *data_files: str, bucket: int = 0
) -> IndexFileMeta:
    """An index file on the disk; what is in it does not matter to a commit."""
    name, path, _ = new_index_file(table.storage, EMPTY_ROW, bucket)
    table.storage.files.write(path, b"index")
    vectors = tuple(DeletionVectorRange(each, 1, 22, 1) for each in data_files)
    return IndexFileMeta(index_type, name, 5, 1, vectors if data_files else None)


def message(
    new: Sequence[IndexFileMeta] = (),
    deleted: Sequence[IndexFileMeta] = (),
    *,
    bucket: int = 0,
    partition: bytes = EMPTY_ROW,
) -> CommitMessage:
    return CommitMessage(
        partition, bucket, -1, new_index_files=tuple(new), deleted_index_files=tuple(deleted)
    )


def commit(table: StoredTable, *messages: CommitMessage) -> Snapshot:
    snapshot = committer(table).commit(messages)
    assert snapshot is not None
    return snapshot


def indexes(table: StoredTable) -> list[str]:
    names = index_entries(table.storage, table.pointer.latest())
    return sorted(entry.index_file.file_name for entry in names)


def data_files(table: StoredTable) -> list[str]:
    latest = table.pointer.latest()
    assert latest is not None
    return [entry.file.file_name for entry in live_entries(table.storage, latest)]


def on_disk(table: StoredTable) -> list[str]:
    return sorted(path.rsplit("/", 1)[-1] for path in table.files_below("index"))


# What a commit does ---------------------------------------------------------------------------


def test_later_commits_keep_the_indexes(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    one, two = index_file(table), index_file(table, bucket=1)
    first = commit(table, message([one]), message([two], bucket=1))
    assert first.commit_kind is CommitKind.COMPACT
    append(table, 1)
    latest = table.pointer.latest()
    assert latest is not None
    assert latest.index_manifest == first.index_manifest
    newer = index_file(table)
    commit(table, message([newer], [one]))
    assert indexes(table) == sorted([newer.file_name, two.file_name])


def test_deletion_vectors_make_an_overwrite_that_changes_no_files(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    append(table, 1, 2)
    (data,) = data_files(table)
    snapshot = commit(table, message([index_file(table, DELETION_VECTORS, data)]))
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert (snapshot.delta_record_count, snapshot.total_record_count) == (0, 2)
    assert data_files(table) == [data]


def test_an_overwrite_takes_the_indexes_of_its_partitions(new_table: NewTable) -> None:
    table = new_table(COLUMNS, partition_keys=["p"])
    (a,), (b,) = append(table, 1, p="a"), append(table, 2, p="b")
    of = {
        message.partition: index_file(table, DELETION_VECTORS, message.new_files[0].file_name)
        for message in (a, b)
    }
    commit(table, *(message([file], partition=partition) for partition, file in of.items()))
    replaced = PartitionFilter.static(table.storage, {"p": "a"})
    committer(table).overwrite([], replaced)
    assert indexes(table) == [of[b.partition].file_name]
    latest = committer(table).overwrite([], PartitionFilter.whole_table(table.storage))
    assert latest.index_manifest is None


def test_truncation_takes_all_indexes(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    commit(table, message([index_file(table)]))
    assert committer(table).truncate().index_manifest is None
    assert indexes(table) == []


# Conflicts ------------------------------------------------------------------------------------


def test_an_index_that_another_commit_replaced_is_a_conflict(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    first = index_file(table)
    commit(table, message([first]))
    mine, other = index_file(table), index_file(table)
    commit(table, message([other], [first]))
    before = table.files_below("manifest")
    with pytest.raises(Conflict, match="replaced by another commit"):
        commit(table, message([mine], [first]))
    # Neither does one that does not say what it was made from.
    with pytest.raises(Conflict, match="another commit added an index file"):
        commit(table, message([mine]))
    assert indexes(table) == [other.file_name]
    assert table.files_below("manifest") == before


def test_index_commits_that_race_are_checked_again(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    other = index_file(table)
    racing = Racing(table.pointer, lambda: commit(table, message([other])))
    with pytest.raises(Conflict, match="another commit added an index file"):
        TableCommit(table.storage, racing, "me").commit([message([index_file(table)])])
    assert indexes(table) == [other.file_name]
    another = index_file(table, bucket=1)
    racing.before = lambda: commit(table, message([index_file(table)], [other]))
    TableCommit(table.storage, racing, "me").commit([message([another], bucket=1)])
    assert len(indexes(table)) == 2
    assert another.file_name in indexes(table)
    assert other.file_name not in indexes(table)
    # One for each of three commits, and none of the tries that lost.
    assert sum("index-manifest" in path for path in table.files_below("manifest")) == 3


def test_no_deletion_of_rows_is_lost(new_table: NewTable) -> None:
    table = new_table(COLUMNS)
    append(table, 1, 2)
    (data,) = data_files(table)
    (old,) = live_entries(table.storage, table.storage.snapshot(1))
    rewritten = append(table, 9)[0].new_files[0]
    replacing = CommitMessage(
        EMPTY_ROW,
        0,
        -1,
        compact_before=(old.file,),
        compact_after=(replace(rewritten, file_name="x"),),
    )
    first = index_file(table, DELETION_VECTORS, data)
    commit(table, message([first]))
    with pytest.raises(Conflict, match="deleted rows of data file"):
        commit(table, message([index_file(table, DELETION_VECTORS, data)]))
    with pytest.raises(Conflict, match="which this one replaces"):
        commit(table, replacing)
    with pytest.raises(Invalid, match="would come back"):
        commit(table, message([], [first]))
    second = index_file(table, DELETION_VECTORS, data)
    commit(table, message([second], [first]))
    commit(table, replace(replacing, deleted_index_files=(second,)))
    assert indexes(table) == []
    with pytest.raises(Conflict, match="was deleted by another commit"):
        commit(table, message([index_file(table, DELETION_VECTORS, data)]))
    assert indexes(table) == []


# What is left behind --------------------------------------------------------------------------


def test_a_commit_killed_at_any_change_happened_or_did_not(new_table: NewTable) -> None:
    step = 0
    while True:
        table = new_table(COLUMNS, **KEYED)
        first = index_file(table)
        commit(table, message([first]))
        second = index_file(table)
        mortal = replace(table.storage, files=MortalFiles(left=step))
        try:
            TableCommit(mortal, table.pointer, "me").commit([message([second], [first])])
            killed = False
        except Killed:
            killed = True
        latest = table.pointer.latest()
        assert latest is not None
        assert indexes(table) == [(first if latest.id == 1 else second).file_name]
        if latest.id == 1:
            commit(table, message([second], [first]))
        assert indexes(table) == [second.file_name]
        table.clock.millis = 4_000_000_000_000
        remove_orphan_files(
            table.storage,
            table.references,
            partial(dict, main=table.storage.snapshot(2)),
            older_than_millis=0,
        )
        assert on_disk(table) == sorted([first.file_name, second.file_name])
        assert sum("index-manifest" in path for path in table.files_below("manifest")) == 2
        if not killed:
            break
        step += 1
    assert step >= 3


def test_a_commit_that_fails_at_any_change_leaves_no_index(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    failures = 0
    while True:
        broken = MortalFiles(left=failures, error=Unavailable("the disk is full"))
        failing = TableCommit(replace(table.storage, files=broken), table.pointer, "me")
        named = message([index_file(table)])
        try:
            failing.commit([named])
        except Unavailable:
            failures += 1
            broken.left = 10**9
            committer(table).abort([named])
            assert on_disk(table) == []
            assert table.pointer.latest() is None
        else:
            break
    assert failures >= 3
    committer(table).abort([named])
    assert on_disk(table) == indexes(table) == [named.new_index_files[0].file_name]


def test_abort_keeps_index_files_that_any_later_snapshot_had(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    first, second, third = index_file(table), index_file(table), index_file(table)
    mine = replace(message([first]), checked_snapshot=SnapshotIdentity(0))
    commit(table, mine)
    commit(table, message([second], [first]))
    committer(table).abort([mine, replace(message([third]), checked_snapshot=SnapshotIdentity(0))])
    assert on_disk(table) == sorted([first.file_name, second.file_name])


@pytest.mark.parametrize("beside_data", ["false", "true"])
def test_expiry_takes_the_indexes_that_nothing_names(new_table: NewTable, beside_data: str) -> None:
    options = {"bucket": "2", "index-file-in-data-file-dir": beside_data}
    table = new_table(COLUMNS, primary_keys=["id"], options=options)
    files = [index_file(table) for _ in range(4)]
    others = [index_file(table, bucket=1) for _ in range(2)]
    commit(table, message([files[0]]), message([others[0]], bucket=1))
    for before, after in itertools.pairwise(files):
        commit(table, message([after], [before]))
    commit(table, message([others[1]], [others[0]], bucket=1))
    tagged = Tag("keep", table.storage.snapshot(2))
    write_tag_file(table.storage.files, table.storage.layout, tagged)
    expire_snapshots(table.storage, table.pointer, table.references, ONLY_LATEST)
    assert snapshot_file_ids(table.storage.files, table.storage.layout) == [5]

    def there() -> set[str]:
        paths = {each: index_file_path(table.storage, EMPTY_ROW, 0, each) for each in files}
        paths |= {each: index_file_path(table.storage, EMPTY_ROW, 1, each) for each in others}
        return {each.file_name for each, path in paths.items() if table.storage.files.exists(path)}

    kept = {files[3].file_name, others[1].file_name}
    assert there() == {files[1].file_name, others[0].file_name, *kept}
    assert sum("index-manifest" in path for path in table.files_below("manifest")) == 2
    delete_tag_file(table.storage.files, table.storage.layout, "keep")
    assert list_tag_files(table.storage.files, table.storage.layout) == []
    delete_unreferenced_snapshot(table.storage, table.pointer, table.references, tagged.snapshot)
    assert there() == kept
    assert sum("index-manifest" in path for path in table.files_below("manifest")) == 1


def test_an_expiry_stops_where_it_is_not_known_what_is_needed(new_table: NewTable) -> None:
    table = new_table(COLUMNS, **KEYED)
    first, second = index_file(table), index_file(table)
    commit(table, message([first]))
    latest = commit(table, message([second], [first]))
    table.storage.files.delete(table.storage.layout.manifest(str(latest.index_manifest)))
    with pytest.raises(CorruptData, match="lacks its index manifest"):
        expire_snapshots(table.storage, table.pointer, table.references, ONLY_LATEST)
    assert on_disk(table) == sorted([first.file_name, second.file_name])
