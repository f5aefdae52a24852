"""Reconciling: the catalog takes over what writers left on storage that did not ask it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.server.restricted import filter_policy, leaf

from headwater.catalog.model.permissions import (
    Access,
    ColumnSet,
    Grant,
    PermissionTarget,
    TargetType,
)
from headwater.catalog.model.reconcile import Reconciliation
from headwater.catalog.sql import SqlCatalog
from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import NotFound, OutcomeUnknown
from headwater.storage.files.local import LocalFileAccess, local_path
from headwater.storage.schema.change import AddColumn, DropColumn, RenameColumn, SetOption
from headwater.storage.types.data_type import parse_type

NUMBERS = pa.schema([pa.field("n", pa.int64()), pa.field("day", pa.string())])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    opened = connect(str(tmp_path / "lake"))
    opened.create_database("sales")
    return opened


@pytest.fixture
def other(tmp_path: Path) -> Lake:
    """A catalog for which the same tables are external: its commits are files alone."""
    opened = connect(str(tmp_path / "other"))
    opened.create_database("theirs")
    return opened


def make(lake: Lake, name: str = "sales.log") -> Table:
    return lake.create_table(name, NUMBERS, partition_keys=["day"], options={"write-only": "true"})


def around(other: Lake, table: Table) -> Table:
    """The same files, as a writer has them that does not ask the catalog."""
    name = f"theirs.{table.identifier.table}"
    return other.register_table(name, local_path(table.storage.layout.location))


def rows(*numbers: int) -> dict[str, list[object]]:
    return {"n": list(numbers), "day": [f"d{number % 2}" for number in numbers]}


def read(table: Table, **moment: object) -> list[int]:
    found: list[int] = table.scan(**moment).to_arrow()["n"].to_pylist()  # type: ignore[arg-type]
    return sorted(found)


def adopted(found: Reconciliation) -> list[str]:
    assert found.refused == ()
    return [str(each) for each in found.changes]


def directory(table: Table) -> Path:
    return Path(local_path(table.storage.layout.location))


def test_snapshots_and_schemas_that_others_committed_are_taken_over(
    lake: Lake, other: Lake
) -> None:
    table = make(lake)
    table.write(rows(1, 2))
    theirs = around(other, table)
    theirs.write(rows(3))
    theirs.alter(AddColumn(("more",), parse_type("INT")))
    theirs.write({**rows(4), "more": [40]})
    theirs.delete("n = 1")
    expected = ["sales.log: schema 1", *(f"sales.log: snapshot {n}" for n in (2, 3, 4))]
    files = sorted(directory(table).rglob("*"))
    assert adopted(lake.reconcile()) == expected
    assert table.refresh().latest_snapshot().id == 1  # type: ignore[union-attr]
    assert adopted(lake.reconcile(apply=True)) == expected
    assert sorted(directory(table).rglob("*")) == files
    assert adopted(lake.reconcile(apply=True)) == []
    table = lake.table("sales.log")
    assert read(table) == [2, 3, 4]
    assert read(table, snapshot_id=2) == [1, 2, 3]
    # Sizes are those of a table whose every commit was the catalog's.
    assert {p.name: p.record_count for p in table.partitions()} == {"day=d0": 2, "day=d1": 1}
    table.write({**rows(5), "more": [50]})
    assert table.latest_snapshot().id == 5  # type: ignore[union-attr]
    table.rollback(snapshot_id=2)
    assert read(lake.table("sales.log")) == [1, 2, 3]
    assert adopted(lake.reconcile("sales.log", apply=True)) == []


def test_permissions_on_columns_follow_what_others_renamed(lake: Lake, other: Lake) -> None:
    table = make(lake)
    columns = PermissionTarget(TargetType.COLUMN, "sales", "log")
    table = lake.alter_table("sales.log", SetOption("query-auth.enabled", "true"))
    lake.catalog.permissions.grant(Grant(columns, Access.SELECT, "ada", ColumnSet(excluded=("n",))))
    around(other, table).alter(RenameColumn(("n",), "number"))
    assert adopted(lake.reconcile(apply=True)) == ["sales.log: schema 2"]
    assert lake.catalog.permissions.list(columns).items[0].columns == ColumnSet(
        excluded=("number",)
    )


def test_tables_and_branches_that_others_made_are_taken_over(lake: Lake, tmp_path: Path) -> None:
    source = connect(str(tmp_path / "source"))
    source.create_database("sales")
    source.create_database("ops")
    made = make(source)
    made.write(rows(1, 2))
    made.create_tag("v1")
    made.create_branch("b", tag="v1").write(rows(7))
    make(source, "ops.jobs").write(rows(9))
    theirs, ours = tmp_path / "source" / "warehouse", tmp_path / "lake" / "warehouse"
    shutil.copytree(theirs / "sales.db" / "log", ours / "sales.db" / "log")
    shutil.copytree(theirs / "ops.db", ours / "ops.db")
    (ours / "sales.db" / "not-a-table").mkdir()
    expected = ["ops.*: database", "ops.jobs: table", "sales.log: table"]
    assert adopted(lake.reconcile()) == expected
    assert lake.list_databases() == ["sales"]
    assert adopted(lake.reconcile(apply=True)) == expected
    assert adopted(lake.reconcile(apply=True)) == []
    table = lake.table("sales.log")
    assert (read(table), read(table.branch("b"))) == ([1, 2], [1, 2, 7])
    assert read(table, tag="v1") == [1, 2]
    assert read(lake.table("ops.jobs")) == [9]
    table.branch("b").write(rows(8))
    # Branches of a table that is known, and snapshots of them.
    shutil.copytree(
        directory(made) / "branch" / "branch-b", directory(table) / "branch" / "branch-c"
    )
    assert adopted(lake.reconcile("sales.log", apply=True)) == ["sales.log: branch c"]
    assert lake.table("sales.log").branches() == ["b", "c"]
    assert adopted(lake.reconcile("sales", apply=True)) == []


def test_a_table_whose_first_snapshots_have_expired_is_taken_over(lake: Lake, other: Lake) -> None:
    table = make(lake)
    theirs = around(other, table)
    for number in range(4):
        theirs.write(rows(number))
    theirs.expire_snapshots(retain_min=2, retain_max=2)
    assert adopted(lake.reconcile("sales.log", apply=True)) == ["sales.log: snapshot 4"]
    assert read(table) == [0, 1, 2, 3]
    table.write(rows(4))
    assert adopted(lake.reconcile("sales.log", apply=True)) == []


def test_two_histories_are_not_joined(lake: Lake, other: Lake) -> None:
    table = make(lake)
    table.write(rows(1))
    theirs = around(other, table)
    theirs.write(rows(2))
    kept = {path: path.read_bytes() for path in (directory(table) / "snapshot").iterdir()}
    # The catalog's history goes on from its own second snapshot.
    moved = directory(table) / "snapshot" / "snapshot-2"
    text = moved.read_bytes()
    moved.unlink()
    table.write(rows(3))
    ours = table.latest_snapshot()
    assert ours is not None
    theirs.write(rows(4))
    moved.write_bytes(text)
    for apply in (False, True):
        found = lake.reconcile(apply=apply)
        assert found.changes == ()
        (refused,) = found.refused
        assert refused.what == "snapshot 3"
        message = str(refused)
        assert str(ours.uuid) in message
        assert json.loads(text)["uuid"] in message
        assert "two histories" in message
    assert read(table) == [1, 3]
    assert moved.read_bytes() == text
    assert kept.keys() <= set((directory(table) / "snapshot").iterdir())


class RacedFiles(LocalFileAccess):
    """The local disk, where somebody puts a second snapshot just before the catalog does."""

    foreign: bytes | None = None

    def write_if_absent(self, path: str, data: bytes) -> bool:
        if self.foreign is not None and path.endswith("snapshot-2"):
            foreign, self.foreign = self.foreign, None
            self.write(path, foreign)
        return super().write_if_absent(path, data)


def test_a_snapshot_that_was_decided_on_and_met_another_is_named(tmp_path: Path) -> None:
    files = RacedFiles()
    catalog = SqlCatalog.open(
        f"sqlite:///{tmp_path}/catalog.db",
        warehouse="main",
        location=str(tmp_path / "warehouse"),
        create=True,
        files=files,
    )
    with Lake(catalog) as lake:
        lake.create_database("sales")
        table = make(lake)
        table.write(rows(1))
        first = table.latest_snapshot()
        assert first is not None
        theirs = {**json.loads(first.to_json()), "id": 2, "uuid": "theirs", "commitUser": "else"}
        files.foreign = json.dumps(theirs).encode()
        with pytest.raises(OutcomeUnknown):
            table.write(rows(2))
        found = lake.reconcile(apply=True)
        assert found.changes == ()
        (refused,) = found.refused
        assert refused.what == "snapshot 2"
        assert "uuid theirs" in str(refused)
        assert str(refused).count("uuid") == 2
        # Once the other is moved away, the decision comes true.
        (directory(table) / "snapshot" / "snapshot-2").unlink()
        assert adopted(lake.reconcile(apply=True)) == []
        assert read(table) == [1, 2]


def test_what_nothing_leads_to_is_refused(lake: Lake, other: Lake) -> None:
    table = make(lake)
    table.write(rows(1))
    theirs = around(other, table)
    for number in (2, 3):
        theirs.write(rows(number))
    snapshots = directory(table) / "snapshot"
    (snapshots / "snapshot-2").rename(snapshots / "away")
    (refused,) = lake.reconcile(apply=True).refused
    assert "snapshot 2 is missing" in str(refused)
    (snapshots / "away").rename(snapshots / "snapshot-2")
    (snapshots / "snapshot-1").rename(snapshots / "away")
    assert [str(each.step) for each in lake.reconcile().changes] == ["write", "adopt", "adopt"]
    (snapshots / "away").rename(snapshots / "snapshot-1")
    document = json.loads((snapshots / "snapshot-2").read_text())
    lists = directory(table) / "manifest" / document["deltaManifestList"]
    lists.rename(lists.with_name("away"))
    found = lake.reconcile(apply=True)
    assert (found.changes, found.refused[0].what) == ((), "snapshot 2")
    assert "a manifest of snapshot 2" in str(found.refused[0])
    lists.with_name("away").rename(lists)
    assert adopted(lake.reconcile(apply=True)) == ["sales.log: snapshot 2", "sales.log: snapshot 3"]
    assert read(table) == [1, 2, 3]


def test_dropped_tables_do_not_come_back(lake: Lake, tmp_path: Path) -> None:
    table = make(lake)
    table.write(rows(1))
    copy = tmp_path / "copy"
    shutil.copytree(directory(table), copy)
    lake.drop_table("sales.log")
    shutil.copytree(copy, directory(table))
    assert adopted(lake.reconcile(apply=True)) == []
    with pytest.raises(NotFound):
        lake.reconcile("sales.log", apply=True)
    with pytest.raises(NotFound):
        lake.reconcile("sales.nope", apply=True)
    with pytest.raises(NotFound):
        lake.reconcile("nope", apply=True)


def test_a_schema_that_breaks_a_policy_is_not_taken_over(lake: Lake, other: Lake) -> None:
    table = lake.create_table("sales.log", NUMBERS, options={"query-auth.enabled": "true"})
    assert isinstance(lake.catalog, SqlCatalog)
    policy = filter_policy("ada", leaf("EQUAL", "day", "d1"))
    lake.catalog.policies.create(table.identifier, policy)
    around(other, table).alter(DropColumn(("day",)))
    (finding,) = lake.reconcile(apply=True).refused
    assert (finding.what, "ROW_FILTER:ada" in str(finding)) == ("schema 1", True)
    assert lake.table("sales.log").schema.id == 0


def test_a_schema_that_follows_a_lost_one_is_not_taken_over(lake: Lake, other: Lake) -> None:
    table = make(lake)
    theirs = around(other, table)
    theirs.alter(AddColumn(("one",), parse_type("INT")))
    theirs.alter(AddColumn(("two",), parse_type("INT")))
    (directory(table) / "schema" / "schema-1").unlink()
    (finding,) = lake.reconcile(apply=True).refused
    assert (finding.what, "schema 1 is missing" in str(finding)) == ("schema 2", True)
    assert lake.table("sales.log").schema.id == 0
