"""Snapshots expire while something reads them: it says so, or goes on with a later one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interrupted import Overtaken

from headwater.catalog.table.scan import Rows
from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import CorruptData, NotFound, ResourceType
from headwater.storage.files.local import LocalFileAccess, local_path
from headwater.storage.jobs.analyze import analyze_table
from headwater.storage.jobs.deletion import delete_tag
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.jobs.orphans import remove_orphan_files
from headwater.storage.read.split import read_split
from headwater.storage.scan.plan import plan_changelog, plan_delta
from headwater.storage.scan.split import Split
from headwater.storage.scan.stream import StreamPosition, reading_from
from headwater.storage.scan.stream_batches import plans_before

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])


@pytest.fixture
def own_lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(tmp_path) as lake:
        lake.create_database("db")
        yield lake


@pytest.fixture
def table(own_lake: Lake) -> Table:
    """Snapshots 1 to 3, each with a row more, and 4, with none of theirs."""
    options = {"bucket": "1", "changelog-producer": "input"}
    table = own_lake.create_table("db.t", SCHEMA, primary_keys=["id"], options=options)
    for number in range(1, 4):
        table.write({"id": [number], "v": [number]})
    table.overwrite({"id": [4], "v": [4]})
    return table


def expire(table: Table) -> None:
    table.expire_snapshots(retain_min=1, retain_max=1, retain=timedelta(0))


def check_told(error: NotFound, number: int) -> None:
    assert error.resource_type is ResourceType.SNAPSHOT
    assert error.resource_name == str(number)


READS: Mapping[str, tuple[Callable[[Table], Rows], int]] = {
    "snapshot": (lambda table: table.scan(snapshot_id=2), 2),
    "time": (lambda table: table.scan(timestamp=table.snapshot(2).time_millis), 2),
    "tag": (lambda table: table.scan(tag="t"), 2),
    "difference": (lambda table: table.changes(2, 3, mode="diff"), 3),
    "changes": (lambda table: table.changes(1, 3), 2),
    "audit log": (lambda table: table.inspect.audit_log(since=1, until=3), 2),
}


@pytest.mark.parametrize("is_planned", [True, False])
@pytest.mark.parametrize("read", READS)
def test_a_read_says_that_its_snapshot_expired(table: Table, read: str, is_planned: bool) -> None:
    table.create_tag("t", 2)
    choose, number = READS[read]
    rows = choose(table)
    assert not is_planned or rows.splits
    expire(table)
    if read == "tag":
        assert rows.to_arrow().column("id").to_pylist() == [1, 2]
        rows = choose(table)
        assert not is_planned or rows.splits
    table.delete_tag("t")
    with pytest.raises(NotFound, match=rf"snapshot {number} (expired while|has expired)") as told:
        rows.to_arrow()
    check_told(told.value, number)


def test_plans_say_that_their_snapshot_expired(table: Table) -> None:
    snapshot = table.snapshot(2)
    expire(table)
    for plan in (plan_changelog, plan_delta):
        with pytest.raises(NotFound, match="snapshot 2 has expired") as told:
            plan(table.storage, snapshot)
        check_told(told.value, 2)


def test_a_stream_is_told_where_to_start_again(table: Table) -> None:
    start = StreamPosition(2, changes=False)
    (plan,) = plans_before(table.storage, start, start.following, table.pointer.latest())
    expire(table)
    with pytest.raises(NotFound, match=r"snapshot 2 has expired.*Start again from a full read"):
        read_from(table, start, plan.splits)


def read_from(table: Table, start: StreamPosition, splits: Sequence[Split]) -> None:
    with reading_from(table.storage, start):
        for split in splits:
            list(read_split(table.storage, split))


def paths_of(rows: Rows) -> set[str]:
    return {f"{each.directory}/{file.file_name}" for each in rows.splits for file in each.files}


def test_a_lost_file_is_damage_while_its_snapshot_is_there(table: Table) -> None:
    rows = table.scan(snapshot_id=2)
    (file,) = paths_of(rows) - paths_of(table.scan(snapshot_id=1))
    Path(local_path(file)).unlink()
    with pytest.raises(CorruptData, match=file.rpartition("/")[2]):
        rows.to_arrow()


def test_an_analysis_starts_over(table: Table) -> None:
    def meanwhile() -> None:
        table.overwrite({"id": [5, 6], "v": [5, 6]})
        expire(table)

    pointer = Overtaken(table.pointer, meanwhile)
    made = analyze_table(table.storage, pointer, LocalExecutor(), None)
    assert made is not None
    assert table.inspect.statistics().column("mergedRecordCount").to_pylist() == [2]


@dataclass
class Expiring(LocalFileAccess):
    """The local disk, where something happens once a certain file has been read."""

    name: str
    meanwhile: Callable[[], object]
    done: bool = False

    def read(self, path: str) -> bytes:
        content = super().read(path)
        if path.endswith(self.name) and not self.done:
            self.done = True
            self.meanwhile()
        return content


def test_a_clone_says_that_its_snapshot_expired(own_lake: Lake, table: Table) -> None:
    snapshot = table.snapshot(2)
    manifests = f"/{snapshot.base_manifest_list}"
    expiring = replace(table.storage, files=Expiring(manifests, lambda: expire(table)))
    table._storage = expiring
    with pytest.raises(NotFound, match="snapshot 2 expired while it was read") as told:
        own_lake.clone_table(table, "db.copy", snapshot_id=2)
    check_told(told.value, 2)
    assert own_lake.list_tables("db") == ["t"]


def test_a_tag_is_deleted_while_the_next_snapshot_expires(table: Table) -> None:
    """What later snapshots need stays, though the one that was looked at is gone."""
    table.create_tag("t", 1)
    table.rollback(snapshot_id=3)
    table.expire_snapshots(retain_min=2, retain_max=2, retain=timedelta(0))
    assert [snapshot.id for snapshot in table.snapshots()] == [3, 2]
    expiring = Expiring("/snapshot/snapshot-2", lambda: expire(table))
    storage = replace(table.storage, files=expiring)
    assert delete_tag(storage, table.pointer, table.references, "t")
    assert expiring.done
    assert table.scan().to_arrow().column("id").to_pylist() == [1, 2, 3]
    assert table.check_files().is_whole


def test_orphans_are_looked_for_while_snapshots_expire(table: Table) -> None:
    expiring = Expiring("/snapshot/snapshot-3", lambda: expire(table))
    latest = table.pointer.latest()
    assert latest is not None
    stray = f"{table.storage.layout.location}/manifest/manifest-stray"
    table.storage.files.write(stray, b"")
    os.utime(local_path(stray), (0, 0))
    removed = remove_orphan_files(
        replace(table.storage, files=expiring),
        table.references,
        lambda: {"main": latest},
        older_than_millis=0,
    )
    assert expiring.done
    assert stray in [file.path for file in removed.files]
    check = table.check_files()
    assert (check.is_whole, check.warnings) == (True, [])
