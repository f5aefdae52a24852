"""Jobs that come back after long, and must know what they have committed."""

from __future__ import annotations

import pyarrow as pa
from tests.catalog.conftest import Clock

from headwater.client import Lake
from headwater.storage.commit.table_commit import BATCH_IDENTIFIER, TableCommit
from headwater.storage.jobs.compact import compact_since
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.jobs.write import WritePlan, write_rows
from headwater.storage.snapshot.snapshot import CommitKind, SnapshotIdentity


def test_a_batch_is_known_to_be_committed_though_its_snapshot_expired(
    lake: Lake, clock: Clock
) -> None:
    table = lake.create_table("sales.log", pa.schema([("id", pa.int64())]))
    job = TableCommit(table.storage, table.pointer, "spark-a/b c")
    for number in range(3):
        assert job.commit([], identifier=number, allow_empty=True) is not None
    for number in range(4):
        clock.turn(hours=1)
        table.write(pa.table({"id": [number]}))
    table.expire_snapshots(retain_min=1, retain_max=1)
    assert [snapshot.id for snapshot in table.snapshots()] == [7]
    replay = TableCommit(table.storage, table.pointer, "spark-a/b c")
    assert replay.filter_committed([2, 3]) == [3]
    # Whoever is not known may have anything to commit.
    other = TableCommit(table.storage, table.pointer, "other")
    assert other.filter_committed([0, 1]) == [0, 1]


def test_a_compaction_for_others_does_not_pass_for_a_commit_of_theirs(lake: Lake) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}
    table = lake.create_table("sales.keyed", schema, primary_keys=["id"], options=options)
    for number in range(3):
        plan = WritePlan(table.storage).upon(table.pointer.latest())
        messages = write_rows(plan, pa.table({"id": [number]}, schema=schema))
        job = TableCommit(table.storage, table.pointer, "job")
        assert job.commit(messages, identifier=number) is not None
    # As of a writer whose own commits came before these.
    since = SnapshotIdentity.of(table.snapshot(1))
    compacted = compact_since(table.storage, table.pointer, LocalExecutor(), since)
    assert compacted is not None
    assert compacted.commit_kind is CommitKind.COMPACT
    assert TableCommit(table.storage, table.pointer, "job").filter_committed([2, 3, 4]) == [3, 4]


def test_a_commit_without_a_number_hides_no_numbered_one(lake: Lake) -> None:
    table = lake.create_table("sales.log", pa.schema([("id", pa.int64())]))
    job = TableCommit(table.storage, table.pointer, "job")
    assert job.commit([], allow_empty=True) is not None
    assert job.filter_committed([BATCH_IDENTIFIER]) == []
    assert job.commit([], identifier=4, allow_empty=True) is not None
    assert job.commit([], allow_empty=True) is not None
    assert job.filter_committed([4, 5]) == [5]
