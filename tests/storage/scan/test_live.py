"""The files of a table with few, which a handle remembers from one commit to the next."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.jobs.compact import compact_table
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import SnapshotIdentity
from headwater.storage.write.bucket_state import BucketStates
from headwater.storage.write.table_writer import TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable


class ListedReads(LocalFileAccess):
    """Keeps the names of the manifests that are read, lists of them left out."""

    def __init__(self) -> None:
        self.manifests: list[str] = []

    def read(self, path: str) -> bytes:
        name = path.rpartition("/")[2]
        if name.startswith("manifest-") and not name.startswith("manifest-list"):
            self.manifests.append(name)
        return super().read(path)


def upsert(table: StoredTable, keys: list[int]) -> None:
    """Commit a row of each key, all of them in partitions of their last digit."""
    latest = table.pointer.latest()
    with TableWriter(
        table.storage,
        max_sequence_numbers=BucketStates(table.storage, latest),
        checked_snapshot=SnapshotIdentity.of(latest),
    ) as writer:
        writer.write({"k": keys, "p": [key % 10 for key in keys], "v": keys})
        messages = writer.finish()
    TableCommit(table.storage, table.pointer, "me").commit(messages)


@pytest.fixture
def table(new_table: NewTable) -> StoredTable:
    """A table whose manifests are merged when there are five."""
    return new_table(
        [("k", "BIGINT NOT NULL"), ("p", "BIGINT NOT NULL"), ("v", "BIGINT")],
        primary_keys=["k", "p"],
        partition_keys=["p"],
        options={"bucket": "1", "manifest.merge-min-count": "5"},
    )


@pytest.mark.modes
def test_what_is_remembered_is_what_the_manifests_say(table: StoredTable) -> None:
    for number in range(6):
        upsert(table, [number % 2, 3])
        if number % 3 == 2:
            compact_table(table.storage, table.pointer, LocalExecutor(1))
    whole = PartitionFilter.static(table.storage, {"p": 3})
    TableCommit(table.storage, table.pointer, "me").overwrite([], whole)
    latest = table.pointer.latest()
    assert latest is not None
    # In turns, so that what is known is sometimes older than what is asked for, sometimes newer.
    for number in [*range(1, latest.id + 1), *range(latest.id, 0, -2)]:
        snapshot = table.storage.snapshot(number)
        known, anew = (live_entries(table.storage, snapshot, anew=anew) for anew in (False, True))
        assert sorted(known, key=repr) == sorted(anew, key=repr)
        for partition in {entry.partition for entry in anew}:
            for level in (None, 0, 5):
                asked = {"partitions": [partition], "level": level}
                some = live_entries(table.storage, snapshot, **asked)  # type: ignore[arg-type]
                assert some == [
                    entry
                    for entry in known
                    if entry.partition == partition and level in (None, entry.file.level)
                ]


def test_a_handle_reads_a_manifest_once_and_another_s_commits_are_seen(table: StoredTable) -> None:
    table = table.with_options(manifest__merge_min_count="100")
    files = ListedReads()
    mine = replace(table, storage=replace(table.storage, files=files))
    for number in range(4):
        upsert(mine, [number])
        upsert(table, [number + 10])  # another process
    latest = mine.pointer.latest()
    assert latest is not None
    assert live_entries(mine.storage, latest) == live_entries(mine.storage, latest, anew=True)
    files.manifests.clear()
    live_entries(mine.storage, latest)
    assert files.manifests == []
    upsert(mine, [20])
    upsert(mine, [21])
    assert len(files.manifests) == len(set(files.manifests))


def test_a_handle_pickles_without_what_it_remembers(table: StoredTable) -> None:
    before = len(pickle.dumps(table.storage.recent))
    upsert(table, list(range(10)))
    upsert(table, list(range(10)))
    assert len(pickle.dumps(table.storage.recent)) == before
    latest = table.pointer.latest()
    assert latest is not None
    copy = pickle.loads(pickle.dumps(table.storage.recent))
    assert live_entries(replace(table.storage, recent=copy), latest)
