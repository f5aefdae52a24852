"""Snapshots expire while others begin to need them: those hold them, or are told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from headwater.catalog.sql.catalog import SqlCatalog
from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.client.connect import database_of
from headwater.storage.errors import Conflict, CorruptData, NotFound
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.jobs.executor import LocalExecutor
from headwater.storage.jobs.expire import expire_snapshots
from headwater.storage.jobs.tags import delete_tag, rename_tag
from headwater.storage.maintenance.expire import Retention
from headwater.storage.maintenance.table_check import check_table
from headwater.storage.snapshot.tag import Tag, write_tag_file

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
Task = TypeVar("Task")
Result = TypeVar("Result")


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """Snapshots 1 to 4, each with another row in another file, and a tag of the last."""
    with connect(tmp_path) as lake:
        lake.create_database("db")
        made = lake.create_table("db.t", SCHEMA, options={"write-only": "true"})
        for number in range(1, 5):
            made.overwrite({"id": [number]})
        made.create_tag("last")
        yield made


@dataclass(frozen=True)
class Interrupted:
    """Deletes files after something else was done."""

    meanwhile: Callable[[], object]

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        self.meanwhile()
        yield from LocalExecutor().run(work, tasks)


class Killed(BaseException):
    """The process died."""


def die() -> None:
    raise Killed


def expire(table: Table, meanwhile: Callable[[], object] = lambda: None, *, kept: int = 1) -> None:
    table.expire_snapshots(
        retain_min=kept, retain_max=kept, retain=timedelta(0), executor=Interrupted(meanwhile)
    )


def ids(table: Table, tag: str | None = None) -> list[int]:
    found = table.scan(tag=tag).to_arrow().column("id").to_pylist()
    assert isinstance(found, list)
    return found


HOLDERS: dict[str, Callable[[Table], object]] = {
    "tag": lambda table: table.create_tag("t", 2),
    "replaced tag": lambda table: table.replace_tag("last", 2),
    "branch": lambda table: table.create_branch("b", snapshot_id=2),
    "rollback": lambda table: table.rollback(snapshot_id=2),
}
READS: dict[str, Callable[[Table], list[int]]] = {
    "tag": lambda table: ids(table, tag="t"),
    "replaced tag": lambda table: ids(table, tag="last"),
    "branch": lambda table: ids(table.branch("b")),
    "rollback": ids,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_nothing_holds_a_snapshot_that_is_going(table: Table, holder: str) -> None:
    def meanwhile() -> None:
        with pytest.raises((NotFound, Conflict)):
            HOLDERS[holder](table)

    expire(table, meanwhile)
    assert [snapshot.id for snapshot in table.snapshots()] == [4]
    assert ([tag.name for tag in table.tags()], table.branches()) == (["last"], [])
    assert ids(table, tag="last") == [4]
    assert table.check_files().is_whole


@pytest.mark.parametrize("holder", ["tag", "rollback"])
def test_nothing_holds_what_a_killed_expiry_has_begun_to_take(table: Table, holder: str) -> None:
    with pytest.raises(Killed):
        expire(table, die)
    with pytest.raises((NotFound, Conflict)):
        HOLDERS[holder](table)
    check = table.check_files()
    assert check.is_whole
    assert any("snapshots 1 to 3 are expiring" in warning for warning in check.warnings)
    expire(table)
    assert [snapshot.id for snapshot in table.snapshots()] == [4]
    assert table.check_files().warnings == []


@pytest.mark.parametrize("holder", ["tag", "replaced tag", "branch"])
def test_what_a_tag_holds_others_may_hold_too(table: Table, holder: str) -> None:
    table.create_tag("kept", 2)
    expire(table, lambda: HOLDERS[holder](table))
    table.delete_tag("kept")
    assert READS[holder](table) == [2]
    assert table.check_files().is_whole


@pytest.mark.parametrize("history", ["rollback", "branch"])
def test_another_history_is_not_taken_for_the_one_that_expires(table: Table, history: str) -> None:
    table.create_branch("b", snapshot_id=2)
    table.branch("b").overwrite({"id": [30]})
    table.create_tag("kept", 2)

    def meanwhile() -> None:
        if history == "branch":
            table.fast_forward("b")
        else:
            table.rollback(tag="kept")
            table.overwrite({"id": [30]})

    with pytest.raises(Conflict, match=r"db\.t was rolled back, replaced by a branch"):
        expire(table, meanwhile)
    assert [snapshot.id for snapshot in table.snapshots()][:2] == [3, 2]
    assert ids(table) == [30]
    assert table.check_files().is_whole


def test_a_killed_expiry_of_a_branch_stops_no_other(table: Table) -> None:
    table.create_branch("b", snapshot_id=4)
    branch = table.branch("b")
    for number in (50, 60):
        branch.overwrite({"id": [number]})
    second = branch.snapshots()[-2]
    with pytest.raises(Killed):
        expire(branch, die)
    # It came no further than to the first file that the table itself does not need.
    table.storage.files.delete(table.storage.layout.manifest(second.base_manifest_list))
    table.delete_tag("last")
    table.overwrite({"id": [5]})
    expire(table)
    table.remove_orphan_files(older_than=timedelta(0))
    assert (ids(table), ids(branch)) == ([5], [60])
    assert table.check_files().is_whole


@dataclass
class Overtaken(LocalFileAccess):
    """The local disk, where something else is done before a file is put."""

    meanwhile: Callable[[], object]

    def write_if_absent(self, path: str, data: bytes) -> bool:
        self.meanwhile()
        return super().write_if_absent(path, data)


def test_a_tag_that_is_deleted_meanwhile_is_not_renamed(table: Table) -> None:
    """What it alone kept is gone, and another name would keep nothing."""
    table.create_tag("kept", 2)
    expire(table)
    storage = replace(table.storage, files=Overtaken(lambda: table.delete_tag("kept")))
    with pytest.raises(NotFound, match="no tag 'kept'"):
        rename_tag(storage, "kept", "new")
    assert [tag.name for tag in table.tags()] == ["last"]
    assert table.check_files().is_whole


@dataclass
class Expiring(LocalFileAccess):
    """The local disk, where data is deleted once the first snapshot has been read."""

    meanwhile: Callable[[], object]
    done: bool = False

    def read(self, path: str) -> bytes:
        found = super().read(path)
        if path.endswith("/snapshot/snapshot-1") and not self.done:
            self.done = True
            self.meanwhile()
        return found


@dataclass(frozen=True)
class KilledAfterwards:
    """Deletes files, and dies."""

    def run(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        yield from LocalExecutor().run(work, tasks)
        die()


def test_what_expires_during_a_check_is_no_damage(table: Table) -> None:
    def meanwhile() -> None:
        with pytest.raises(Killed):
            table.expire_snapshots(
                retain_min=1, retain_max=1, retain=timedelta(0), executor=KilledAfterwards()
            )

    files = Expiring(meanwhile)
    check = check_table(replace(table.storage, files=files), lambda: {}, lambda _: {})
    assert files.done
    assert check.is_whole
    assert any("snapshots 1 to 3 are expiring" in warning for warning in check.warnings)


@dataclass
class Passed(LocalFileAccess):
    """The local disk, where something happens once after a file was looked for so often."""

    name: str
    times: int
    meanwhile: Callable[[], object]

    def read(self, path: str) -> bytes:
        try:
            return super().read(path)
        finally:
            self.times -= path.endswith(self.name)
            if self.times == 0:
                self.times = -1
                self.meanwhile()


@contextmanager
def other_process(place: Path, files: LocalFileAccess) -> Iterator[Table]:
    """The table as another process sees it, with other files."""
    url, location = database_of(str(place), None)
    with closing(SqlCatalog.open(url, warehouse="main", location=location, files=files)) as catalog:
        yield Lake(catalog).table("db.t")


def test_a_rollback_holds_its_snapshot_before_it_looks_for_an_expiry(
    table: Table, tmp_path: Path
) -> None:
    """The expiry sees nothing else of it in the catalog until it commits."""
    files = Passed("/snapshot/EARLIEST", 1, lambda: expire(table))
    with other_process(tmp_path, files) as other:
        other.rollback(snapshot_id=2)
    assert files.times < 0
    check_rolled_back(table)


def test_a_rollback_to_a_tag_holds_its_snapshot_before_it_looks(
    table: Table, tmp_path: Path
) -> None:
    table.create_tag("kept", 2)
    expire(table)
    # Once to find it, and once to see that it is there still.
    files = Passed(
        "/tag/tag-kept", 2, lambda: delete_tag(table.storage, "kept", table.pointer.latest())
    )
    with other_process(tmp_path, files) as other:
        other.rollback(tag="kept")
    assert files.times < 0
    check_rolled_back(table)


def check_rolled_back(table: Table) -> None:
    """It is at the second snapshot, and goes on from there."""
    assert ids(table) == [2]
    assert [tag.name for tag in table.tags()] == []
    assert table.check_files().is_whole
    table.overwrite({"id": [30]})
    expire(table)
    assert [snapshot.id for snapshot in table.snapshots()] == [3]
    assert table.check_files().is_whole


def test_an_expiry_that_comes_too_late_takes_its_note_back(table: Table) -> None:
    """Else the snapshots of the new history were taken for expiring ones later."""
    # The expiry has found out what it keeps, and is about to note it.
    files = Passed("/snapshot/EARLIEST", 2, lambda: table.rollback(snapshot_id=2))
    storage = replace(table.storage, files=files)
    with pytest.raises(Conflict, match="rolled back"):
        expire_snapshots(storage, table.pointer, Retention(1, 1, 0, 100))
    assert files.times < 0
    for number in (30, 40, 50):
        table.overwrite({"id": [number]})
    assert table.check_files().warnings == []
    table.create_tag("t", 2)
    assert ids(table, tag="t") == [2]


def test_a_tag_whose_maker_died_is_named_and_can_be_deleted(table: Table, tmp_path: Path) -> None:
    """It had written the tag of a snapshot that was expiring, and not looked for that yet."""
    snapshot = table.snapshot(2)
    expire(table)
    storage = table.storage
    write_tag_file(storage.files, storage.layout, Tag("t", snapshot))
    (damage,) = {each.needed_by for each in table.check_files().damages}
    assert damage == "tag t"
    with pytest.raises(CorruptData, match="tag/tag-t is there and needs it"):
        table.remove_orphan_files(older_than=timedelta(0), dry_run=True)
    table.delete_tag("t")
    table.remove_orphan_files(older_than=timedelta(0))
    assert table.check_files().is_whole
    assert ids(table) == [4]


def test_a_rollback_sets_the_note_of_changelogs_back(tmp_path: Path) -> None:
    options = {
        "bucket": "1",
        "changelog-producer": "input",
        "changelog.num-retained.min": "100",
        "changelog.num-retained.max": "100",
        "write-only": "true",
    }
    with connect(tmp_path) as lake:
        lake.create_database("db")
        table = lake.create_table("db.t", SCHEMA, primary_keys=["id"], options=options)
        for number in range(1, 7):
            table.write({"id": [number]})
        table.create_tag("t", 3)
        expire(table)
        with pytest.raises(Killed):
            table.expire_changelogs(retain_min=2, retain_max=2, executor=Interrupted(die))
        check = table.check_files()
        assert check.is_whole
        assert any("changelogs 1 to 4 are expiring" in warning for warning in check.warnings)
        table.rollback(tag="t")
        for number in range(4, 9):
            table.write({"id": [number * 10]})
        expire(table)
        changes = table.changes(3, 8).to_arrow().column("id").to_pylist()
        assert changes == [40, 50, 60, 70, 80]
        check = table.check_files()
        assert (check.damages, check.changelogs) == ([], 5)


def test_a_branch_whose_expiry_was_killed_is_forwarded_to_what_stays(table: Table) -> None:
    table.create_branch("b", snapshot_id=4)
    branch = table.branch("b")
    for number in (50, 60, 70):
        branch.overwrite({"id": [number]})
    with pytest.raises(Killed):
        expire(branch, die)
    going = branch.snapshots()[-2]
    branch.storage.files.delete(branch.storage.layout.manifest(going.base_manifest_list))
    table.fast_forward("b")
    assert [snapshot.id for snapshot in table.snapshots()] == [7]
    assert ids(table) == [70]
    assert table.check_files().is_whole
