"""Restores of tables of every kind: rows, row ids, BLOBs, vectors, branches and tags come back."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.test_restore import copy_database

from headwater.catalog.labels import Entity, EntityType, Label
from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import Conflict, CorruptData, Invalid
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, parse_type

ID = DataField(0, "id", parse_type("BIGINT NOT NULL"))
TEXT = DataField(1, "text", parse_type("STRING"))
BLOB = DataField(1, "blob", parse_type("BLOB"))
VECTOR = DataField(1, "vector", parse_type({"type": "VECTOR", "element": "FLOAT", "length": 3}))
TRACKED = {"row-tracking.enabled": "true"}
MARKED = {"deletion-vectors.enabled": "true"}
Kind = tuple[DataField, list[str], Mapping[str, str]]
KINDS: Mapping[str, Kind] = {
    "tracked": (TEXT, [], {**TRACKED}),
    "marked": (TEXT, [], {**TRACKED, **MARKED}),
    "blobs": (BLOB, [], {**TRACKED, **MARKED, "data-evolution.enabled": "true"}),
    "vectors": (VECTOR, ["id"], {"bucket": "1", **MARKED}),
    "changelog": (TEXT, ["id"], {"bucket": "2", "changelog-producer": "lookup"}),
    "dynamic": (TEXT, ["id"], {}),
}


def rows(kind: str, *ids: int) -> dict[str, list[Any]]:
    column = KINDS[kind][0]
    values: Mapping[str, list[Any]] = {
        "text": [f"t{i}" for i in ids],
        "blob": [None if i % 3 == 2 else bytes([i]) * (i * 11 % 90) for i in ids],
        "vector": [None if i % 3 == 2 else [i, -i, 0.5] for i in ids],
    }
    return {"id": list(ids), column.name: values[column.name]}


def contents(table: Table, **moment: Any) -> list[dict[str, Any]]:
    """All rows, with the ids and versions that tracked ones have."""
    columns = list(table.schema.field_by_name)
    if table.schema.options.get("row-tracking.enabled") == "true":
        columns += ["_ROW_ID", "_SEQUENCE_NUMBER"]
    found: list[dict[str, Any]] = table.scan(columns, **moment).to_arrow().to_pylist()
    return sorted(found, key=lambda row: int(row["id"]))


def everything(lake: Lake) -> Mapping[str, object]:
    """What every table, its branches, tags and changes tell, by name."""
    found: dict[str, object] = {}
    for name in KINDS:
        table = lake.table(f"sales.{name}")
        found[name] = contents(table)
        for tag in table.tags():
            found[f"{name} {tag.name}"] = contents(table, tag=tag.name)
        for branch in table.branches():
            found[f"{name} {branch}"] = contents(table.branch(branch))
        if name == "changelog":
            found["changes"] = table.changes(since=0).to_arrow().to_pylist()
    return found


def more(lake: Lake) -> None:
    """Commits of each kind: writes, deletions by vectors, branches, tags, compactions."""
    for name in KINDS:
        table = lake.table(f"sales.{name}")
        table.write(rows(name, 10, 11, 12))
        table.delete("id = 11")
        table.create_tag("late")
        table.create_branch("b", tag="late").write(rows(name, 20))
        table.write(rows(name, 13))
    lake.table("sales.vectors").compact(full=True)


def go_on(lake: Lake) -> None:
    """Every table is whole, takes commits, and numbers its rows on from where they were."""
    found = lake.reconcile()
    assert (found.changes, found.refused) == ((), ())
    for name in KINDS:
        table = lake.table(f"sales.{name}")
        check = table.check_files(deep=True)
        assert check.damages == [], name
        before = contents(table)
        table.write(rows(name, 30))
        after = contents(table)
        assert [row["id"] for row in after] == [*(row["id"] for row in before), 30]
        numbers = [row["_ROW_ID"] for row in after if "_ROW_ID" in row]
        assert len(set(numbers)) == len(numbers)
        table.delete("id = 30")
        assert contents(table) == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A catalog with a table of each kind, all with a tag and a label."""
    with connect(tmp_path / "lake") as lake:
        lake.create_database("sales")
        for name, (column, keys, options) in KINDS.items():
            schema = Schema((ID, column), primary_keys=tuple(keys), options=options)
            table = lake.create_table(f"sales.{name}", schema)
            table.write(rows(name, 1, 2, 3))
            table.delete("id = 2")
            table.create_tag("early")
            entity = Entity(EntityType.TABLE, f"sales.{name}")
            lake.catalog.labels.set(entity, Label("domain", name))
    return tmp_path / "lake"


def labels(lake: Lake, name: str) -> list[tuple[str, str]]:
    found = lake.catalog.labels.list(Entity(EntityType.TABLE, f"sales.{name}")).items
    return [(each.key, each.value) for each in found]


@pytest.mark.modes
def test_a_database_older_than_storage_takes_over_all_kinds(folder: Path, tmp_path: Path) -> None:
    copy_database(folder / "headwater.db", tmp_path / "backup.db")
    with connect(folder) as lake:
        more(lake)
        lake.catalog.labels.set(
            Entity(EntityType.TABLE, "sales.tracked"), Label("domain", "of later")
        )
        expected = everything(lake)
        assert len(expected) == len(KINDS) * 4 + 1
    copy_database(tmp_path / "backup.db", folder / "headwater.db")
    with connect(folder) as lake:
        with pytest.raises((Conflict, CorruptData, Invalid)):
            lake.table("sales.blobs").write(rows("blobs", 99))
        assert lake.reconcile(apply=True).refused == ()
        assert everything(lake) == expected
        # What is in the database alone is as the backup has it.
        assert {name: labels(lake, name) for name in KINDS} == {
            name: [("domain", name)] for name in KINDS
        }
        go_on(lake)


@pytest.mark.modes
def test_storage_older_than_the_database_goes_back_with_all_kinds(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "warehouse", tmp_path / "backup")
    with connect(folder) as lake:
        expected = everything(lake)
        more(lake)
    shutil.rmtree(folder / "warehouse")
    shutil.copytree(tmp_path / "backup", folder / "warehouse")
    with connect(folder) as lake:
        assert lake.reconcile(apply=True).refused != ()
        assert lake.reconcile(apply=True, accept_losses=True).refused == ()
        # Branches that are younger than storage begin anew; the rest is as storage has it.
        begun: dict[str, object] = {f"{name} b": [] for name in KINDS}
        assert everything(lake) == {**expected, **begun}
        assert labels(lake, "blobs") == [("domain", "blobs")]
        go_on(lake)


@pytest.mark.modes
def test_a_lost_database_is_made_again_from_all_kinds(folder: Path, tmp_path: Path) -> None:
    with connect(folder) as lake:
        more(lake)
        expected = everything(lake)
    for lost in folder.glob("headwater.db*"):
        lost.unlink()
    with connect(folder) as lake:
        assert lake.reconcile(apply=True).refused == ()
        assert everything(lake) == expected
        # Nothing on storage tells of labels.
        assert [labels(lake, name) for name in KINDS] == [[]] * len(KINDS)
        go_on(lake)
