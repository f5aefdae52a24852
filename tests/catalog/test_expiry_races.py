"""Snapshots expire while others begin to need them: these keep them, or are rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import Conflict, CorruptData, NotFound
from headwater.storage.files.local import LocalFileAccess
from headwater.storage.jobs.executor import LocalExecutor
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
    rows = table.scan(tag=tag).to_arrow().column("id").to_pylist()
    assert isinstance(rows, list)
    return rows


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


@pytest.mark.parametrize("holder", HOLDERS)
def test_the_next_deletion_finishes_one_that_was_killed(table: Table, holder: str) -> None:
    with pytest.raises(Killed):
        expire(table, die)
    assert [snapshot.id for snapshot in table.snapshots()] == [4]
    with pytest.raises(NotFound):
        HOLDERS[holder](table)
    check = table.check_files()
    assert (check.is_whole, check.warnings) == (True, [])
    left = files_below(table)
    expire(table)
    assert len(files_below(table)) < len(left)
    # Not even the list of what was to be deleted is left.
    assert table.remove_orphan_files(older_than=timedelta(0), dry_run=True).files == ()
    assert ids(table) == [4]


@pytest.mark.parametrize("next_deletion", ["delete a tag", "remove orphans", "expire a branch"])
def test_any_deletion_of_the_table_finishes_one_that_was_killed(
    table: Table, next_deletion: str
) -> None:
    branch = table.create_branch("b", snapshot_id=4)
    for number in (50, 60):
        branch.overwrite({"id": [number]})
    table.create_tag("second", 2)
    with pytest.raises(Killed):
        expire(table, die)
    if next_deletion == "delete a tag":
        table.delete_tag("second")
    elif next_deletion == "remove orphans":
        table.remove_orphan_files(older_than=timedelta(days=1))
    else:
        expire(branch)
    assert table.remove_orphan_files(older_than=timedelta(0), dry_run=True).files == ()
    assert (ids(table), ids(branch)) == ([4], [60])
    assert table.check_files().is_whole


def test_a_process_that_was_overtaken_finishes_what_a_successor_has_finished(table: Table) -> None:
    table.create_tag("second", 2)
    expire(table, lambda: table.delete_tag("second"))
    assert [snapshot.id for snapshot in table.snapshots()] == [4]
    assert table.remove_orphan_files(older_than=timedelta(0), dry_run=True).files == ()
    assert table.check_files().is_whole


def test_a_lost_list_of_files_leaves_orphans(table: Table) -> None:
    with pytest.raises(Killed):
        expire(table, die)
    (path,) = [path for path in files_below(table) if "/manifest/deletion-" in path]
    table.storage.files.delete(path)
    expire(table)
    assert table.check_files().is_whole
    assert len(table.remove_orphan_files(older_than=timedelta(0)).files) > 3
    assert ids(table) == [4]


def files_below(table: Table) -> list[str]:
    return sorted(file.path for file in table.storage.files.walk(table.storage.layout.location))


@pytest.mark.parametrize("holder", ["tag", "replaced tag", "branch"])
def test_what_a_tag_holds_others_may_hold_too(table: Table, holder: str) -> None:
    table.create_tag("kept", 2)
    expire(table, lambda: HOLDERS[holder](table))
    table.delete_tag("kept")
    assert READS[holder](table) == [2]
    assert table.check_files().is_whole


@pytest.mark.parametrize("history", ["rollback", "branch"])
def test_another_history_goes_on_beside_an_expiry(table: Table, history: str) -> None:
    table.create_branch("b", snapshot_id=2)
    table.branch("b").overwrite({"id": [30]})
    table.create_tag("kept", 2)
    expire(table, lambda: begin_history(table, history))
    # Snapshot 2 has expired; the rollback brings it back from its tag.
    assert [snapshot.id for snapshot in table.snapshots()] == HISTORY[history]
    assert ids(table) == [30]
    assert table.check_files().is_whole


@pytest.mark.parametrize("history", ["rollback", "branch"])
def test_another_history_has_ids_of_snapshots_that_a_killed_expiry_took(
    table: Table, history: str
) -> None:
    table.create_branch("b", snapshot_id=2)
    table.branch("b").overwrite({"id": [30]})
    table.create_tag("kept", 2)
    with pytest.raises(Killed):
        expire(table, die)
    begin_history(table, history)
    expire(table, kept=2)
    # Snapshot 2 has expired; the rollback brings it back from its tag.
    assert [snapshot.id for snapshot in table.snapshots()] == HISTORY[history]
    assert ids(table) == [30]
    assert table.check_files().is_whole


HISTORY = {"rollback": [3, 2], "branch": [3]}


def begin_history(table: Table, history: str) -> None:
    """Make the table hold snapshots 2 and 3, the latter with the row 30."""
    if history == "branch":
        table.fast_forward("b")
    else:
        table.rollback(tag="kept")
        table.overwrite({"id": [30]})


def test_a_killed_expiry_of_a_branch_stops_no_other(table: Table) -> None:
    table.create_branch("b", snapshot_id=4)
    branch = table.branch("b")
    for number in (50, 60):
        branch.overwrite({"id": [number]})
    with pytest.raises(Killed):
        expire(branch, die)
    table.delete_tag("last")
    table.overwrite({"id": [5]})
    expire(table)
    assert table.remove_orphan_files(older_than=timedelta(0)).files == ()
    assert (ids(table), ids(branch)) == ([5], [60])
    assert table.check_files().is_whole


@dataclass
class Expiring(LocalFileAccess):
    """The local disk, where data is deleted once the first snapshot has been read."""

    meanwhile: Callable[[], object]
    done: bool = False

    def read(self, path: str) -> bytes:
        content = super().read(path)
        if path.endswith("/snapshot/snapshot-1") and not self.done:
            self.done = True
            self.meanwhile()
        return content


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
    assert (check.is_whole, check.warnings) == (True, [])


def test_a_tag_of_another_engine_on_an_expired_snapshot_is_named(table: Table) -> None:
    """It was written on storage after the expiry had looked at the tags."""
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


def test_a_rollback_has_the_hints_of_changelogs_follow(tmp_path: Path) -> None:
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
        assert (check.is_whole, check.warnings) == (True, [])
        table.rollback(tag="t")
        for number in range(4, 9):
            table.write({"id": [number * 10]})
        expire(table)
        changes = table.changes(3, 8).to_arrow().column("id").to_pylist()
        assert changes == [40, 50, 60, 70, 80]
        check = table.check_files()
        # The tag kept none of snapshot 3.
        assert (check.damages, check.warnings, check.changelogs) == ([], [], 4)


def test_a_branch_whose_expiry_was_killed_is_forwarded_to_what_stays(table: Table) -> None:
    table.create_branch("b", snapshot_id=4)
    branch = table.branch("b")
    for number in (50, 60, 70):
        branch.overwrite({"id": [number]})
    with pytest.raises(Killed):
        expire(branch, die)
    table.fast_forward("b")
    assert [snapshot.id for snapshot in table.snapshots()] == [7]
    assert ids(table) == [70]
    assert table.check_files().is_whole
