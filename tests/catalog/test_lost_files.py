"""Data files that do not exist are taken out of a table, whose other rows can be read again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.files.local import local_path

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string()), ("day", pa.string())])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(tmp_path / "lake") as opened:
        opened.create_database("db")
        yield opened


def files_of(table: Table) -> set[str]:
    return {file.name for file in table.files()}


def lose(table: Table, *, since: set[str]) -> list[str]:
    """Delete the files that are not among some; their names."""
    lost = [file for file in table.files() if file.name not in since]
    for file in lost:
        (path,) = Path(local_path(table.storage.layout.location)).rglob(file.name)
        path.unlink()
    return [file.name for file in lost]


def keys(table: Table) -> list[int]:
    return sorted(table.scan(columns=["k"]).to_arrow()["k"].to_pylist())


def test_rows_of_files_that_are_there_can_be_read_again(lake: Lake) -> None:
    table = lake.create_table("db.t", SCHEMA, partition_keys=["day"])
    table.write({"k": [1, 2], "v": ["a", "b"], "day": ["x", "y"]})
    before = files_of(table)
    table.write({"k": [3, 4], "v": ["c", "d"], "day": ["x", "z"]})
    assert table.remove_unexisting_files() == []
    snapshot = table.latest_snapshot()
    lost = lose(table, since=before)
    with pytest.raises(CorruptData):
        keys(table)

    found = table.remove_unexisting_files(dry_run=True)
    assert sorted(Path(path).name for path in found) == sorted(lost)
    assert table.latest_snapshot() == snapshot

    assert table.maintenance.remove_unexisting_files() == found
    assert keys(table) == [1, 2]
    assert files_of(table) == before
    assert table.check_files().damage_count  # of the snapshot before
    table.write({"k": [5], "v": ["e"], "day": ["z"]})
    assert keys(table) == [1, 2, 5]
    assert table.remove_unexisting_files() == []


def test_older_versions_of_lost_rows_come_back(lake: Lake) -> None:
    options = {"bucket": "2"}
    table = lake.create_table("db.t", SCHEMA, primary_keys=["k"], options=options)
    table.write({"k": [1, 2], "v": ["a", "a"], "day": ["x", "x"]})
    before = files_of(table)
    table.write({"k": [2, 3], "v": ["b", "b"], "day": ["x", "x"]})
    lose(table, since=before)
    table.remove_unexisting_files()
    assert sorted(table.scan(columns=["k", "v"]).to_arrow().to_pylist(), key=str) == [
        {"k": 1, "v": "a"},
        {"k": 2, "v": "a"},
    ]


def test_deletion_vectors_go_with_their_files(lake: Lake) -> None:
    table = lake.create_table("db.t", SCHEMA, options={"deletion-vectors.enabled": "true"})
    table.write({"k": [1, 2], "v": ["a", "b"], "day": ["x", "x"]})
    kept = files_of(table)
    table.write({"k": [3, 4], "v": ["c", "d"], "day": ["x", "x"]})
    table.delete("k IN (2, 4)")
    lose(table, since=kept)
    assert len(table.remove_unexisting_files()) == 1
    assert keys(table) == [1]
    table.delete("k = 1")
    assert keys(table) == []


def test_rows_that_lost_some_of_their_columns_are_refused(lake: Lake) -> None:
    options = {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "deletion-vectors.enabled": "true",
    }
    table = lake.create_table("db.t", SCHEMA, options=options)
    table.write({"k": [1, 2], "v": ["a", "b"], "day": ["x", "x"]})
    whole = files_of(table)
    table.update({"v": "'new'"}, where="k = 1")
    snapshot = table.latest_snapshot()
    assert files_of(table) > whole
    (name,) = lose(table, since=whole)
    with pytest.raises(Unsupported, match=f"{name} does not exist, and holds some of the columns"):
        table.remove_unexisting_files()
    assert table.latest_snapshot() == snapshot
    lose(table, since={name})
    assert len(table.remove_unexisting_files()) == 2
    assert keys(table) == []


def test_an_empty_table_has_lost_nothing(lake: Lake) -> None:
    assert lake.create_table("db.t", SCHEMA).remove_unexisting_files() == []
