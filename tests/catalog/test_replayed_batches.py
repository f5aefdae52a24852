"""Jobs that come back after long, and must know what they have committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from tests.catalog.conftest import Clock

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.client.connect import DATABASE_FILE
from headwater.storage.commit.table_commit import BATCH_IDENTIFIER, TableCommit
from headwater.storage.files.local import LocalFileAccess, local_path
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


class WatchedFiles(LocalFileAccess):
    """Notes which snapshots are read."""

    def __init__(self) -> None:
        self.read_snapshots: list[str] = []

    def read(self, path: str) -> bytes:
        if "/snapshot/snapshot-" in path:
            self.read_snapshots.append(path.rpartition("-")[2])
        return super().read(path)


def committed_up_to(table: Table, user: str) -> tuple[int | None, bool, list[str]]:
    """A user's last number, if that is all there is to know, and the snapshots read for it."""
    files = WatchedFiles()
    job = TableCommit(replace(table.storage, files=files), table.pointer, user)
    found = job.committed_up_to()
    return found.identifier, found.whole_history, files.read_snapshots


def test_a_new_job_reads_no_snapshots_of_an_old_table(lake: Lake) -> None:
    table = lake.create_table("sales.log", pa.schema([("id", pa.int64())]))
    job = TableCommit(table.storage, table.pointer, "old")
    for number in range(12):
        assert job.commit([], identifier=number, allow_empty=True) is not None
    assert committed_up_to(table, "old") == (11, True, [])
    assert committed_up_to(table, "new") == (None, True, ["11", "10", "9"])
    for number in range(8):
        other = TableCommit(table.storage, table.pointer, "other")
        assert other.commit([], identifier=number, allow_empty=True) is not None
    assert committed_up_to(table, "old") == (11, True, ["19", "18", "17"])
    # Nothing is remembered of what was rolled back.
    table.rollback(snapshot_id=6)
    assert committed_up_to(table, "old") == (5, True, [])
    assert committed_up_to(table, "other") == (None, True, ["5", "4", "3"])


def test_of_a_table_that_was_adopted_earlier_snapshots_are_read(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    with connect(tmp_path / "lake") as before:
        before.create_database("sales")
        table = before.create_table("sales.log", schema)
        for number, user in enumerate(["early", "early", *["other"] * 5]):
            job = TableCommit(table.storage, table.pointer, user)
            assert job.commit([], identifier=number, allow_empty=True) is not None
    # Another catalog on the same storage knows of the latest snapshot alone.
    for file in (tmp_path / "lake").glob(f"{DATABASE_FILE}*"):
        file.unlink()
    with connect(tmp_path / "lake") as after:
        after.reconcile(apply=True)
        table = after.table("sales.log")
        job = TableCommit(table.storage, table.pointer, "late")
        assert job.commit([], identifier=0, allow_empty=True) is not None
        for number in range(4):
            job = TableCommit(table.storage, table.pointer, "later")
            assert job.commit([], identifier=number, allow_empty=True) is not None
        recent = ["11", "10", "9"]
        assert committed_up_to(table, "late") == (0, True, recent)
        assert committed_up_to(table, "other") == (6, True, recent)
        assert committed_up_to(table, "early") == (1, True, [*recent, "6", "5", "4", "3", "2"])
        numbers = [str(number) for number in range(6, 0, -1)]
        assert committed_up_to(table, "new") == (None, True, [*recent, *numbers])


def test_a_catalog_that_missed_commits_has_its_latest_snapshots_read(tmp_path: Path) -> None:
    """What it remembers from before is told if no later snapshot is the user's."""
    schema = pa.schema([("id", pa.int64())])
    with connect(tmp_path / "lake") as lake, connect(tmp_path / "other") as beside:
        for each in (lake, beside):
            each.create_database("sales")
        table = lake.create_table("sales.log", schema)
        assert TableCommit(table.storage, table.pointer, "job").commit(
            [], identifier=7, allow_empty=True
        )
        theirs = beside.register_table("sales.log", local_path(table.storage.layout.location))
        for number in range(4):
            made = TableCommit(theirs.storage, theirs.pointer, "spark").commit(
                [], identifier=number, allow_empty=True
            )
            assert made is not None
        theirs.expire_snapshots(retain_min=1, retain_max=2)
        lake.reconcile(apply=True)
        table = lake.table("sales.log")
        assert next(each.id for each in table.snapshots()) == 5
        assert committed_up_to(table, "spark") == (3, True, [])
        assert committed_up_to(table, "job") == (7, True, ["4", "3"])
        assert committed_up_to(table, "new") == (None, False, ["4", "3", "3"])
