"""Compaction of manifests: the same files, in order, and plans that look into few of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.dying_files import Killed, MortalFiles

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.commit.manifest_compaction import compact_manifests
from headwater.storage.commit.table_commit import TableCommit
from headwater.storage.errors import Conflict, CorruptData
from headwater.storage.maintenance.reachable import manifest_names
from headwater.storage.manifest.manifest import read_manifest_list
from headwater.storage.predicate.filter import parse_predicate
from headwater.storage.scan.plan import live_entries, plan_snapshot
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics
from headwater.storage.write.table_writer import TableWriter

if TYPE_CHECKING:
    from tests.storage.conftest import NewTable, StoredTable

COLUMNS = [("id", "BIGINT NOT NULL"), ("p", "STRING")]
# Nothing is merged by the commits themselves.
OPTIONS = {"manifest.merge-min-count": "1000"}


@pytest.fixture
def table(new_table: NewTable) -> StoredTable:
    made = new_table(COLUMNS, partition_keys=["p"], options=OPTIONS)
    for number in range(8):
        append(made, [None if n == 7 else f"p{n}" for n in range(8)], number)
    return made


def append(table: StoredTable, partitions: Sequence[str | None], number: int = 0) -> Snapshot:
    writer = TableWriter(table.storage, max_sequence_numbers={})
    writer.write(pa.table({"id": [number] * len(partitions), "p": list(partitions)}))
    snapshot = TableCommit(table.storage, table.pointer, "me").commit(writer.finish())
    assert snapshot is not None
    return snapshot


def latest(table: StoredTable) -> Snapshot:
    found = table.pointer.latest()
    assert found is not None
    return found


def live(table: StoredTable) -> set[object]:
    return {entry.identity for entry in live_entries(table.storage, latest(table))}


def test_the_same_files_are_listed_in_the_order_of_partitions(table: StoredTable) -> None:
    TableCommit(table.storage, table.pointer, "me").overwrite(
        [], PartitionFilter.static(table.storage, {"p": "p3"})
    )
    before, files = latest(table), live(table)
    predicate = parse_predicate("p = 'p5'", table.storage.schema)
    assert plan_snapshot(table.storage, before, predicate=predicate).manifests_read == 8
    table = table.with_options(manifest__target_file_size="512 b")
    done = compact_manifests(table.storage, table.pointer)
    assert done == latest(table)
    assert done is not None
    assert live(table) == files
    assert (done.id, done.commit_kind, done.delta_record_count) == (10, CommitKind.COMPACT, 0)
    assert done.total_record_count == before.total_record_count == 56
    assert read_manifest_list(table.storage, done.delta_manifest_list) == []
    manifests = read_manifest_list(table.storage, done.base_manifest_list)
    assert len(manifests) > 2
    assert sum(manifest.num_deleted_files for manifest in manifests) == 0
    for name in ("p1", "p5"):
        one = parse_predicate(f"p = '{name}'", table.storage.schema)
        plan = plan_snapshot(table.storage, done, predicate=one)
        assert plan.manifests_read <= 2
        assert sum(len(split.files) for split in plan.splits) == 8
    assert compact_manifests(table.storage, table.pointer) is None
    # Later commits leave them as they are.
    following = append(table, ["p0"])
    kept = read_manifest_list(table.storage, following.base_manifest_list)
    assert [one.file_name for one in kept] == [one.file_name for one in manifests]


def test_a_table_without_snapshots_or_partitions_has_nothing_to_sort(new_table: NewTable) -> None:
    empty = new_table(COLUMNS)
    assert compact_manifests(empty.storage, empty.pointer) is None
    append(empty, ["a"])
    assert compact_manifests(empty.storage, empty.pointer) is None
    append(empty, ["a"])
    assert compact_manifests(empty.storage, empty.pointer) is not None
    assert len(live(empty)) == 2


def test_deletions_alone_are_reason_enough(new_table: NewTable) -> None:
    small = {"manifest.target-file-size": "1 b"}  # so that there are never too many manifests
    table = new_table(COLUMNS, options={**OPTIONS, **small})
    append(table, ["a"])
    append(table, ["a"])
    assert compact_manifests(table.storage, table.pointer) is None
    TableCommit(table.storage, table.pointer, "me").overwrite(
        [], PartitionFilter.static(table.storage, {})
    )
    append(table, ["a"])
    done = compact_manifests(table.storage, table.pointer)
    assert done is not None
    manifests = read_manifest_list(table.storage, done.base_manifest_list)
    listed = [(manifest.num_added_files, manifest.num_deleted_files) for manifest in manifests]
    assert listed == [(1, 0)]
    assert compact_manifests(table.storage, table.pointer) is None


@dataclass(frozen=True)
class Busy:
    """Lets another commit come first, some times."""

    table: StoredTable
    times: list[int] = field(default_factory=list)
    most: int = 1

    def latest(self) -> Snapshot | None:
        return self.table.pointer.latest()

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        if len(self.times) < self.most:
            self.times.append(1)
            append(self.table, ["late"], 99)
        return self.table.pointer.commit(snapshot, base, statistics)

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        return self.table.pointer.was_taken(snapshot)


def manifest_files(table: StoredTable) -> set[str]:
    return set(table.files_below("manifest"))


def test_what_others_commit_meanwhile_stays(table: StoredTable) -> None:
    files = live(table)
    done = compact_manifests(table.storage, Busy(table))
    assert done is not None
    assert done.id == 10
    assert len(live(table) - files) == 1
    assert files < live(table)


def test_a_compaction_that_others_always_beat_leaves_no_file(table: StoredTable) -> None:
    beaten = table.with_options(commit__max_retries="2")
    with pytest.raises(Conflict, match="3 times"):
        compact_manifests(beaten.storage, Busy(table, most=10))
    named = {
        f"manifest/{name}"
        for number in range(1, 12)
        for name in manifest_names(table.storage, table.storage.snapshot(number))
    }
    assert manifest_files(table) == named


def test_a_compaction_that_dies_changes_nothing(table: StoredTable) -> None:
    files, before = live(table), latest(table)
    for step in range(3):
        mortal = replace(table.storage, files=MortalFiles(step))
        with pytest.raises(Killed):
            compact_manifests(mortal, table.pointer)
        assert latest(table) == before
        assert live(table) == files


def test_a_damaged_manifest_is_named(table: StoredTable) -> None:
    (manifest, *_) = read_manifest_list(table.storage, latest(table).base_manifest_list)
    path = table.storage.layout.manifest(manifest.file_name)
    table.storage.files.write(path, table.storage.files.read(path)[:-40])
    with pytest.raises(CorruptData, match=manifest.file_name):
        compact_manifests(table.storage, table.pointer)
