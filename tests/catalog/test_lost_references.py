"""A check of a table warns of what may be lost although nothing refers to it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.catalog.databases import POSTGRESQL_IN_MODES

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.table.table import Table
from headwater.client import Lake
from headwater.storage.files.local import local_path
from headwater.storage.schema.change import RemoveOption

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string())])
CHANGELOGS = {
    "bucket": "1",
    "num-sorted-run.compaction-trigger": "100",
    "changelog-producer": "input",
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "changelog.num-retained.min": "1",
    "changelog.num-retained.max": "5",
}


def made(lake: Lake, name: str, writes: int, options: dict[str, str] | None = None) -> Table:
    lake.create_database("db", ignore_if_exists=True)
    keys = ["k"] if options else ()
    table = lake.create_table(f"db.{name}", SCHEMA, primary_keys=keys, options=options)
    for number in range(writes):
        table.write({"k": [number], "v": ["x"]})
    return lake.table(str(table.identifier))


@pytest.fixture
def catalog_lake(migrated_url: str, tmp_path: Path) -> Iterator[Lake]:
    opened = SqlCatalog.open(migrated_url, warehouse="main", location=str(tmp_path / "lake"))
    with Lake(opened) as lake:
        yield lake


def home(table: Table) -> Path:
    return Path(local_path(table.storage.layout.location))


@contextmanager
def without(*paths: Path) -> Iterator[None]:
    kept = {path: path.read_bytes() for path in paths}
    for path in paths:
        path.unlink()
    try:
        yield
    finally:
        for path, content in kept.items():
            path.write_bytes(content)


def warnings(table: Table) -> list[str]:
    check = table.check_files()
    assert check.damages == []
    assert check.feed_was_read
    return check.warnings


def test_a_tag_and_a_consumer_whose_files_are_gone(lake: Lake) -> None:
    table = made(lake, "t", 3)
    table.create_tag("audit", 2)
    table.consumer("billing").reset(2)
    assert warnings(table) == []
    with without(home(table) / "tag" / "tag-audit"):
        (warning,) = warnings(table)
        assert "tag-audit does not exist, though tag 'audit' of snapshot 2 was made" in warning
    with without(home(table) / "consumer" / "consumer-billing"):
        (warning,) = warnings(table)
        assert "consumer 'billing' was set to snapshot 2" in warning
    assert warnings(table) == []


def test_a_tag_that_was_renamed_and_replaced_is_known_by_its_last_name(lake: Lake) -> None:
    table = made(lake, "t", 3)
    table.create_tag("audit", 2)
    table.rename_tag("audit", "release")
    table.replace_tag("release", 3)
    assert warnings(table) == []
    with without(home(table) / "tag" / "tag-release"):
        (warning,) = warnings(table)
        assert "tag-release does not exist, though tag 'release' of snapshot 3 was made" in warning


def test_what_an_older_copy_of_storage_lacks(catalog_lake: Lake, tmp_path: Path) -> None:
    table = made(catalog_lake, "t", 1)
    shutil.copytree(home(table), tmp_path / "backup")
    table.write({"k": [1], "v": ["x"]})
    table.create_tag("audit", 1)
    # A snapshot that is given up takes its tags along, as a rollback does.
    table.create_tag("given-up", 2)
    shutil.rmtree(home(table))
    shutil.move(tmp_path / "backup", home(table))
    assert catalog_lake.reconcile(apply=True, accept_losses=True).refused == ()
    table = catalog_lake.table(str(table.identifier))
    assert [row["k"] for row in table.scan().to_arrow().to_pylist()] == [0]
    (warning,) = warnings(table)
    assert "tag 'audit' of snapshot 1 was made" in warning


def test_tags_that_are_gone_for_a_reason_are_not_lost(catalog_lake: Lake) -> None:
    table = made(catalog_lake, "t", 3)
    for name in ("deleted", "renamed", "later"):
        table.create_tag(name, 3)
    table.create_tag("kept", 1)
    table.create_tag("over", 1, retained=timedelta(milliseconds=1))
    table.consumer("deleted").reset(2)
    table.consumer("deleted").delete()
    table.create_branch("b", tag="kept")
    table.branch("b").create_tag("of-branch")
    table.delete_tag("deleted")
    table.rename_tag("renamed", "new-name")
    table.expire_tags()
    assert warnings(table) == []
    with without(home(table) / "branch" / "branch-b" / "tag" / "tag-of-branch"):
        (warning,) = warnings(table)
        assert "tag 'of-branch' of branch b of snapshot 1" in warning
    table.drop_branch("b")
    table.rollback(snapshot_id=1)
    assert [tag.name for tag in table.tags()] == ["kept"]
    assert warnings(table) == []
    with without(home(table) / "tag" / "tag-kept"):
        assert len(warnings(table)) == 1


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_ends_of_lines_that_are_gone(catalog_lake: Lake) -> None:
    table = made(catalog_lake, "t", 8, CHANGELOGS)
    # Snapshots 7 and 8, and the changelogs of those before, so far as they are kept.
    assert [each.id for each in table.snapshots()] == [8, 7]
    changelogs = sorted(int(path.name[10:]) for path in home(table).glob("changelog/changelog-*"))
    assert changelogs[-1] == 6
    assert warnings(table) == []
    with without(home(table) / "snapshot" / "snapshot-7"):
        (warning,) = warnings(table)
        assert "snapshot-7 does not exist (number 7)" in warning
    first, last = (home(table) / "changelog" / f"changelog-{n}" for n in (changelogs[0], 6))
    with without(first):
        (warning,) = warnings(table)
        assert f"{first.name} does not exist" in warning
    with without(last):
        (warning,) = warnings(table)
        assert "changelog-6 does not exist (number 6)" in warning
    with without(*home(table).glob("changelog/changelog-*")):
        (warning,) = warnings(table)
        assert f"numbers {changelogs[0]} to 6" in warning


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_an_expiry_of_all_changelogs_leaves_no_note_of_them(catalog_lake: Lake) -> None:
    table = made(catalog_lake, "t", 6, CHANGELOGS)
    assert (home(table) / "changelog" / "EARLIEST").exists()
    table.alter(*(RemoveOption(name) for name in CHANGELOGS if name.startswith("changelog.num")))
    catalog_lake.table(str(table.identifier)).write({"k": [9], "v": ["x"]})
    assert list(home(table).glob("changelog/changelog-*")) == []
    assert warnings(catalog_lake.table(str(table.identifier))) == []


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_a_lost_branch_is_a_damage(catalog_lake: Lake) -> None:
    table = made(catalog_lake, "t", 2)
    table.create_branch("b")
    table.branch("b").write({"k": [5], "v": ["b"]})
    shutil.rmtree(home(table) / "branch" / "branch-b")
    problems = [damage.problem for damage in table.check_files().damages]
    assert any("branch-b" in problem for problem in problems), problems


@pytest.mark.parametrize("migrated_url", POSTGRESQL_IN_MODES, indirect=True)
def test_snapshots_and_tags_are_compared_with_the_catalog(catalog_lake: Lake) -> None:
    table = made(catalog_lake, "t", 3)
    table.create_tag("audit", 1)
    assert table.check_files().is_whole
    for name in ("snapshot/snapshot-1", "tag/tag-audit"):
        path = home(table) / name
        text = path.read_bytes()
        changed = text.replace(b'"totalRecordCount" : 1', b'"totalRecordCount" : 3')
        changed = changed.replace(b'"totalRecordCount": 1', b'"totalRecordCount": 3')
        assert changed != text, text
        path.write_bytes(changed)
        (damage,) = table.check_files().damages
        assert path.name in damage.problem
        path.write_bytes(text)
    assert table.check_files().is_whole
