"""The catalog's database or its storage is restored, moved or damaged, and both agree again."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.reconcile import Reconciliation, Step
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.client.moved_warehouse import move_warehouse
from headwater.storage.errors import (
    Conflict,
    CorruptData,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from headwater.storage.files.local import LocalFileAccess, local_path
from headwater.storage.schema.change import AddColumn
from headwater.storage.types.data_type import parse_type

pytestmark = pytest.mark.modes

KEYED = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An embedded catalog with a primary-key table of two snapshots."""
    with connect(tmp_path / "lake") as lake:
        lake.create_database("sales")
        table = lake.create_table(
            "sales.orders",
            KEYED,
            primary_keys=["k"],
            options={"bucket": "2", "write-only": "true", "commit.timeout": "50 ms"},
        )
        table.write({"k": [1, 2], "v": [10, 20]})
        table.write({"k": [2, 3], "v": [21, 30]})
    return tmp_path / "lake"


def copy_database(source: Path, target: Path) -> None:
    """Copy a catalog's database by SQLite's own backup."""
    for old in target.parent.glob(f"{target.name}*"):
        old.unlink()
    with closing(sqlite3.connect(source)) as begin, closing(sqlite3.connect(target)) as end:
        begin.backup(end)


def read(lake: Lake, name: str = "sales.orders") -> dict[int, int]:
    found = lake.table(name).scan().to_arrow()
    return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def put(lake: Lake, key: int, name: str = "sales.orders") -> None:
    lake.table(name).write({"k": [key], "v": [key * 10]})


def counts(lake: Lake) -> tuple[int, int]:
    """The rows in files of the latest snapshot, as its partitions say and as the catalog has it."""
    table = lake.table("sales.orders")
    info = table.catalog.snapshots.latest(table.identifier)
    assert info is not None
    return sum(each.record_count for each in table.partitions()), info.record_count


def told(found: Reconciliation) -> list[str]:
    assert found.refused == ()
    return [f"{each.step} {each}" for each in found.changes]


def agree(folder: Path, *names: str) -> None:
    """Both agree, and every table reads and commits as before."""
    with connect(folder) as lake:
        found = lake.reconcile()
        assert (found.changes, found.refused) == ((), ())
        for name in names:
            before = read(lake, name)
            put(lake, 1000, name)
            assert read(lake, name) == {**before, 1000: 10_000}
            lake.table(name).compact()
            assert read(lake, name) == {**before, 1000: 10_000}


def snapshot_directory(folder: Path) -> Path:
    return folder / "warehouse" / "sales.db" / "orders" / "snapshot"


def test_a_database_that_is_older_than_storage_takes_over_what_was_committed_since(
    folder: Path, tmp_path: Path
) -> None:
    copy_database(folder / "headwater.db", tmp_path / "backup.db")
    with connect(folder) as lake:
        put(lake, 4)
        lake.table("sales.orders").create_branch("b")
        put(lake, 5, "sales.orders$branch_b")
        lake.alter_table("sales.orders", AddColumn(("more",), parse_type("INT")))
        lake.table("sales.orders").write({"k": [6], "v": [60], "more": [1]})
        lake.create_database("ops")
        lake.create_table("ops.jobs", KEYED, primary_keys=["k"], options={"bucket": "1"})
        put(lake, 7, "ops.jobs")
        expected = read(lake), read(lake, "sales.orders$branch_b"), read(lake, "ops.jobs")
    copy_database(tmp_path / "backup.db", folder / "headwater.db")
    with connect(folder) as lake:
        # Nothing is committed beside what storage has.
        with pytest.raises((Conflict, Invalid)):
            put(lake, 99)
        steps = told(lake.reconcile())
        assert steps == [
            "adopt ops.*: database",
            "adopt ops.jobs: table",
            "adopt sales.orders: schema 1",
            "adopt sales.orders: snapshot 3",
            "adopt sales.orders: snapshot 4",
            "adopt sales.orders: branch b",
        ]
        assert told(lake.reconcile(apply=True)) == steps
        found = read(lake), read(lake, "sales.orders$branch_b"), read(lake, "ops.jobs")
        assert found == expected
    agree(folder, "ops.jobs", "sales.orders$branch_b")


def test_a_database_whose_latest_snapshot_has_expired_since_takes_over_the_latest_one(
    folder: Path, tmp_path: Path
) -> None:
    with connect(folder) as lake:
        lake.table("sales.orders").create_tag("before", 1)
    copy_database(folder / "headwater.db", tmp_path / "backup.db")
    with connect(folder) as lake:
        for key in range(10, 16):
            put(lake, key)
        lake.table("sales.orders").expire_snapshots(retain_min=2, retain_max=2)
        expected = read(lake)
    copy_database(tmp_path / "backup.db", folder / "headwater.db")
    with connect(folder) as lake:
        with pytest.raises((Conflict, CorruptData)):
            put(lake, 99)
        assert told(lake.reconcile(apply=True)) == ["adopt sales.orders: snapshot 8"]
        assert read(lake) == expected
        assert counts(lake) == (10, 10)
    agree(folder, "sales.orders")
    # What the snapshots between have changed is not known, and not guessed.
    with connect(folder) as lake:
        lake.table("sales.orders").rollback(tag="before")
        assert read(lake) == {1: 10, 2: 20}
        assert counts(lake) == (2, 2)


@pytest.mark.parametrize("commits", [1, 2, 3, 4])
def test_what_was_committed_after_a_rollback_is_not_written_over(
    folder: Path, tmp_path: Path, commits: int
) -> None:
    with connect(folder) as lake:
        for key in (4, 5):
            put(lake, key)
        backed_up = read(lake)
    copy_database(folder / "headwater.db", tmp_path / "backup.db")
    with connect(folder) as lake:
        lake.table("sales.orders").rollback(snapshot_id=1)
        for key in range(10, 10 + commits):
            put(lake, key)
    copy_database(tmp_path / "backup.db", folder / "headwater.db")
    files = {each: each.read_bytes() for each in snapshot_directory(folder).iterdir()}
    with connect(folder) as lake:
        for losses in (False, True):
            found = lake.reconcile(apply=True, accept_losses=losses)
            assert found.changes == ()
            (refused,) = found.refused
            assert "two histories" in str(refused)
            assert "move the files of snapshot 2 and later ones away" in str(refused)
        with pytest.raises((Conflict, CorruptData)):
            put(lake, 99)
    assert {each: each.read_bytes() for each in snapshot_directory(folder).iterdir()} == files
    for number in range(2, 2 + commits):
        (snapshot_directory(folder) / f"snapshot-{number}").unlink()
    with connect(folder) as lake:
        assert told(lake.reconcile(apply=True)) == [
            f"write sales.orders: snapshot {number}" for number in (2, 3, 4)
        ]
        assert read(lake) == backed_up
    agree(folder, "sales.orders")


def test_what_was_rolled_back_is_no_predecessor_of_what_came_then(
    folder: Path, tmp_path: Path
) -> None:
    with connect(folder) as lake:
        for key in (4, 5):
            put(lake, key)
    copy_database(folder / "headwater.db", tmp_path / "backup.db")
    with connect(folder) as lake:
        lake.table("sales.orders").rollback(snapshot_id=1)
        for key in range(10, 14):
            put(lake, key)
        lake.table("sales.orders").expire_snapshots(retain_min=1, retain_max=1)
        expected = read(lake)
    copy_database(tmp_path / "backup.db", folder / "headwater.db")
    assert [each.name for each in snapshot_directory(folder).glob("snapshot-*")] == ["snapshot-5"]
    with connect(folder) as lake:
        assert told(lake.reconcile(apply=True)) == ["adopt sales.orders: snapshot 5"]
        assert read(lake) == expected
        assert counts(lake) == (6, 6)
    agree(folder, "sales.orders")


def test_storage_that_is_older_than_the_database_is_gone_back_to_if_losses_are_accepted(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "warehouse", tmp_path / "backup")
    with connect(folder) as lake:
        expected = read(lake)
        put(lake, 4)
        put(lake, 5)
        lake.create_table("sales.late", KEYED, primary_keys=["k"], options={"bucket": "1"})
        put(lake, 1, "sales.late")
    shutil.rmtree(folder / "warehouse")
    with connect(folder) as lake, pytest.raises(Unavailable):
        lake.reconcile(apply=True, accept_losses=True)
    shutil.copytree(tmp_path / "backup", folder / "warehouse", dirs_exist_ok=True)
    with connect(folder) as lake:
        for apply in (False, True):
            found = lake.reconcile(apply=apply)
            assert found.changes == ()
            assert [(each.what, each.step) for each in found.refused] == [
                ("table", Step.GIVE_UP),
                ("snapshots 3 to 4", Step.GIVE_UP),
            ]
            assert "go back to snapshot 2" in str(found.refused[1])
        assert told(lake.reconcile(apply=True, accept_losses=True)) == [
            "give-up sales.late: table",
            "give-up sales.orders: snapshots 3 to 4",
        ]
        assert read(lake) == expected
        with pytest.raises(NotFound):
            lake.table("sales.late")
    agree(folder, "sales.orders")


def test_storage_without_any_snapshot_lets_the_table_begin_anew(
    folder: Path, tmp_path: Path
) -> None:
    home = folder / "warehouse" / "sales.db" / "orders"
    for lost in ("snapshot", "manifest", "bucket-0", "bucket-1"):
        shutil.rmtree(home / lost)
    with connect(folder) as lake:
        (refused,) = lake.reconcile(apply=True).refused
        assert (refused.what, refused.step) == ("snapshot 2", Step.GIVE_UP)
        assert told(lake.reconcile(apply=True, accept_losses=True)) == [
            "give-up sales.orders: snapshot 2"
        ]
        assert read(lake) == {}
    agree(folder, "sales.orders")


def test_files_that_the_database_knows_are_written_again(folder: Path) -> None:
    home = folder / "warehouse" / "sales.db" / "orders"
    with connect(folder) as lake:
        lake.alter_table("sales.orders", AddColumn(("more",), parse_type("INT")))
        expected = read(lake)
    (home / "snapshot" / "snapshot-2").unlink()
    (home / "snapshot" / "LATEST").write_text("1")
    (home / "schema" / "schema-1").unlink()
    with connect(folder) as lake:
        # A commit on top of what storage does not have would cut the history of other readers.
        with pytest.raises((Conflict, CorruptData)):
            lake.table("sales.orders").write({"k": [9], "v": [90], "more": [1]})
        steps = ["write sales.orders: schema 1", "write sales.orders: snapshot 2"]
        assert told(lake.reconcile()) == steps
        assert told(lake.reconcile(apply=True)) == steps
        assert read(lake) == expected
    assert (home / "snapshot" / "LATEST").read_text() == "2"
    with connect(folder) as lake:
        lake.table("sales.orders").write({"k": [9], "v": [90], "more": [1]})
        assert read(lake) == {**expected, 9: 90}


def test_data_that_is_gone_is_told_and_not_hidden(folder: Path) -> None:
    home = folder / "warehouse" / "sales.db" / "orders"
    lost = next(iter(home.glob("bucket-*/data-*")))
    lost.unlink()
    with connect(folder) as lake:
        for losses in (False, True):
            found = lake.reconcile(apply=True, accept_losses=losses)
            assert found.changes == ()
            (refused,) = found.refused
            assert refused.what == "snapshot 2"
            assert lost.name in str(refused)


def test_an_index_file_that_is_gone_is_told(folder: Path) -> None:
    with connect(folder) as lake:
        schema, options = pa.schema([("k", pa.int64())]), {"deletion-vectors.enabled": "true"}
        table = lake.create_table("sales.marked", schema, options=options)
        table.write({"k": [1, 2, 3]})
        table.delete("k = 3")
        assert lake.reconcile().refused == ()
        (lost,) = (folder / "warehouse" / "sales.db" / "marked" / "index").iterdir()
        lost.unlink()
        (refused,) = lake.reconcile(apply=True).refused
        assert lost.name in str(refused)


def test_a_file_that_cannot_be_read_keeps_no_other_table_from_being_compared(folder: Path) -> None:
    with connect(folder) as lake:
        lake.create_table("sales.second", KEYED, primary_keys=["k"], options={"bucket": "1"})
        put(lake, 1, "sales.second")
    (snapshot_directory(folder) / "snapshot-2").write_text("{")
    (folder / "warehouse" / "sales.db" / "second" / "snapshot" / "snapshot-1").unlink()
    with connect(folder) as lake:
        found = lake.reconcile(apply=True)
        assert [str(each) for each in found.changes] == ["sales.second: snapshot 1"]
        assert [each.what for each in found.refused] == ["files"]
        assert read(lake, "sales.second") == {1: 10}


class NoSnapshots(LocalFileAccess):
    """The local disk, which refuses to write the files of snapshots while it is told to."""

    refuses = False

    def write_if_absent(self, path: str, data: bytes) -> bool:
        if self.refuses and "/snapshot-" in path:
            raise Unavailable("the disk is away")
        return super().write_if_absent(path, data)

    def delete(self, path: str) -> None:
        if self.refuses and "/snapshot-" in path:
            raise Unavailable("the disk is away")
        super().delete(path)


def unfollowed(folder: Path) -> tuple[SqlCatalog, NoSnapshots]:
    files = NoSnapshots()
    url, place = f"sqlite:///{folder}/headwater.db", str(folder / "warehouse")
    return SqlCatalog.open(url, warehouse="main", location=place, files=files), files


def test_a_decision_whose_outbox_was_lost_is_followed(folder: Path) -> None:
    catalog, files = unfollowed(folder)
    with Lake(catalog) as lake:
        expected = {**read(lake), 4: 40}
        files.refuses = True
        with pytest.raises(OutcomeUnknown):
            put(lake, 4)
    with closing(sqlite3.connect(folder / "headwater.db")) as database:
        assert database.execute("DELETE FROM hw_outbox").rowcount == 1
        database.commit()
    with connect(folder) as lake:
        assert told(lake.reconcile(apply=True)) == ["write sales.orders: snapshot 3"]
        assert read(lake) == expected
    agree(folder, "sales.orders")


def test_an_open_commit_of_a_restored_database_puts_nothing_back(
    folder: Path, tmp_path: Path
) -> None:
    catalog, files = unfollowed(folder)
    with Lake(catalog) as lake:
        files.refuses = True
        with pytest.raises(OutcomeUnknown):
            put(lake, 4)
        copy_database(folder / "headwater.db", tmp_path / "backup.db")
        files.refuses = False
        for key in range(10, 16):
            put(lake, key)
        lake.table("sales.orders").expire_snapshots(retain_min=1, retain_max=1)
        expected = read(lake)
    copy_database(tmp_path / "backup.db", folder / "headwater.db")
    with connect(folder) as lake:
        snapshots = snapshot_directory(folder)
        assert [each.name for each in snapshots.glob("snapshot-*")] == ["snapshot-9"]
        assert (snapshots / "LATEST").read_text() == "9"
        steps = ["forget sales.orders: snapshot 3", "adopt sales.orders: snapshot 9"]
        assert told(lake.reconcile()) == steps
        assert told(lake.reconcile(apply=True)) == steps
        assert read(lake) == expected
    agree(folder, "sales.orders")


def test_an_open_rollback_of_a_restored_database_deletes_nothing(
    folder: Path, tmp_path: Path
) -> None:
    catalog, files = unfollowed(folder)
    with Lake(catalog) as lake:
        files.refuses = True
        with pytest.raises(OutcomeUnknown):
            lake.table("sales.orders").rollback(snapshot_id=1)
        copy_database(folder / "headwater.db", tmp_path / "backup.db")
        files.refuses = False
        for key in (7, 8):
            put(lake, key)
        expected = read(lake)
    assert expected == {1: 10, 2: 20, 7: 70, 8: 80}
    copy_database(tmp_path / "backup.db", folder / "headwater.db")
    with connect(folder) as lake:
        assert told(lake.reconcile(apply=True)) == [
            "forget sales.orders: rollback 1",
            "adopt sales.orders: snapshot 2",
            "adopt sales.orders: snapshot 3",
        ]
        assert read(lake) == expected
    agree(folder, "sales.orders")


def test_a_catalog_that_was_copied_works_on_its_own_files(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder / "warehouse", copy / "warehouse")
    copy_database(folder / "headwater.db", copy / "headwater.db")
    # It would work on the files that it was copied from.
    with pytest.raises(Invalid, match="--moved-from"):
        connect(copy)
    before = f"file://{folder}/warehouse"
    assert move_warehouse(str(copy), moved_from=before) == 2
    assert move_warehouse(str(copy), moved_from=before, apply=True) == 2
    with connect(folder) as lake:
        expected = read(lake)
        shutil.rmtree(tmp_path / "lake" / "warehouse" / "sales.db")
    agree(copy, "sales.orders")
    with connect(copy) as lake:
        table: Table = lake.table("sales.orders")
        assert Path(local_path(table.storage.layout.location)).is_relative_to(copy)
        assert read(lake) == {**expected, 1000: 10_000}
        lake.create_table("sales.more", KEYED, primary_keys=["k"], options={"bucket": "1"})
        lake.drop_table("sales.more")


class NoDeletions(LocalFileAccess):
    """The local disk, which deletes no directory."""

    def delete_tree(self, directory: str) -> None:
        raise Unavailable(f"{directory}: the disk is away")


def test_a_drop_that_storage_has_yet_to_follow_moves_with_its_warehouse(
    folder: Path, tmp_path: Path
) -> None:
    url, place = f"sqlite:///{folder}/headwater.db", str(folder / "warehouse")
    opened = SqlCatalog.open(url, warehouse="main", location=place, files=NoDeletions())
    with closing(opened) as catalog, pytest.raises(OutcomeUnknown):
        catalog.tables.drop(Identifier("sales", "orders"))
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    move_warehouse(str(copy), moved_from=f"file://{place}", apply=True)
    with connect(copy) as lake:
        assert told(lake.reconcile(apply=True)) == []
        assert isinstance(lake.catalog, SqlCatalog)
        assert lake.catalog.operation.sweep().repaired.failures == ()
    left = [at / "warehouse" / "sales.db" / "orders" for at in (folder, copy)]
    assert [each.exists() for each in left] == [True, False]
