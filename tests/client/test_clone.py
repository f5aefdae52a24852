"""Clones: a table's snapshot as a table of its own, in this lake or in another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import NewSqlite

from headwater.catalog.table.table import Table
from headwater.client import Lake, connect
from headwater.client.connect import DATABASE_FILE
from headwater.storage.errors import AlreadyExists, CorruptData
from headwater.storage.files.local import local_path
from headwater.storage.schema.change import AddColumn
from headwater.storage.types.data_type import parse_type

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("dt", pa.string())])


@pytest.fixture
def lakes(tmp_path: Path, new_sqlite: NewSqlite) -> Iterator[tuple[Lake, Lake]]:
    for name in ("here", "there"):
        new_sqlite(tmp_path / name / DATABASE_FILE)
    with connect(tmp_path / "here") as here, connect(tmp_path / "there") as there:
        here.create_database("sales")
        there.create_database("archive")
        yield here, there


@pytest.fixture
def orders(lakes: tuple[Lake, Lake]) -> Table:
    table = lakes[0].create_table(
        "sales.orders",
        COLUMNS,
        primary_keys=["id", "dt"],
        partition_keys=["dt"],
        options={"bucket": "2", "changelog-producer": "input"},
    )
    for number in range(3):
        table.write(pa.table({"id": [number, 10], "dt": ["a", "b=/c"]}))
    return table


def rows(table: Table) -> list[tuple[object, ...]]:
    data = table.scan().to_arrow()
    return sorted(zip(*(column.to_pylist() for column in data.columns), strict=True))


def test_a_clone_is_a_table_of_its_own(lakes: tuple[Lake, Lake], orders: Table) -> None:
    _, there = lakes
    expected = rows(orders)
    clone = there.clone_table(orders, "archive.orders")
    assert rows(clone) == expected
    assert clone.schema.primary_keys == orders.schema.primary_keys
    assert [one.id for one in clone.snapshots()] == [orders.snapshots()[0].id]
    clone.write(pa.table({"id": [99], "dt": ["a"]}))
    clone.compact()
    assert rows(clone) == sorted([*expected, (99, "a")])
    assert rows(orders) == expected
    lakes[0].drop_table("sales.orders")
    assert rows(there.table("archive.orders")) == sorted([*expected, (99, "a")])
    assert clone.remove_orphan_files().files == ()


def test_a_clone_of_a_tag_and_of_older_schemas(lakes: tuple[Lake, Lake], orders: Table) -> None:
    here, _ = lakes
    orders.create_tag("first", 1)
    orders.alter(AddColumn(("more",), parse_type("INT")))
    orders.write(pa.table({"id": [7], "dt": ["a"], "more": [5]}))
    clone = here.clone_table(orders, "sales.first", tag="first")
    assert [field.name for field in clone.schema.fields] == ["id", "dt", "more"]
    assert rows(clone) == [(0, "a", None), (10, "b=/c", None)]
    again = here.clone_table(orders, "sales.third", snapshot_id=3)
    assert len(rows(again)) == 4
    whole = here.clone_table(orders, "sales.whole")
    assert rows(whole) == rows(orders)


def test_an_empty_table_is_cloned_without_a_snapshot(lakes: tuple[Lake, Lake]) -> None:
    here, there = lakes
    empty = here.create_table("sales.empty", COLUMNS)
    clone = there.clone_table(empty, "archive.empty")
    assert clone.latest_snapshot() is None
    clone.write(pa.table({"id": [1], "dt": ["x"]}))
    assert rows(clone) == [(1, "x")]


def test_what_is_there_is_not_cloned_over(lakes: tuple[Lake, Lake], orders: Table) -> None:
    here, _ = lakes
    with pytest.raises(AlreadyExists):
        here.clone_table(orders, "sales.orders")
    place = Path(local_path(orders.info.path)).parent / "other"
    place.mkdir()
    (place / "file").write_text("mine")
    clone = here.clone_table(orders, "sales.other")
    assert rows(clone) == rows(orders)
    here.drop_table("sales.other")
    assert (place / "file").read_text() == "mine"


def test_a_file_of_another_size_is_named(lakes: tuple[Lake, Lake], orders: Table) -> None:
    _, there = lakes
    path = next(Path(local_path(orders.info.path)).rglob("data-*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptData, match=path.name):
        there.clone_table(orders, "archive.orders")
    assert there.list_tables("archive") == []
    archive = Path(local_path(there.catalog.databases.get("archive").location))
    assert not list(archive.rglob("*"))
