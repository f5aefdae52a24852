"""Replacing tables and registering those that are on storage, over every catalog."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.table import Table
from headwater.client import connect
from headwater.storage.errors import (
    AlreadyExists,
    CorruptData,
    Invalid,
    NotFound,
    ResourceType,
    Unsupported,
)
from headwater.storage.schema.change import AddColumn, SetOption
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.types.data_type import parse_type


@pytest.fixture
def handle(catalog: Catalog, table: Identifier) -> Table:
    """The table to write to and to read."""
    return Table(catalog, catalog.tables.get(table))


def _rows(*values: tuple[int, str, int]) -> pa.Table:
    names = ["order_id", "dt", "amount"]
    types = [pa.int64(), pa.string(), pa.int32()]
    columns = [
        pa.array(column, t) for column, t in zip(zip(*values, strict=True), types, strict=True)
    ]
    return pa.table(columns, names=names)


@pytest.fixture
def other_schema() -> Schema:
    columns = pa.schema([("order_id", pa.int64()), ("name", pa.string()), ("dt", pa.string())])
    return Schema.from_arrow(
        columns, primary_keys=["dt", "order_id"], partition_keys=["dt"], options={"bucket": "4"},
        comment="anew",
    )  # fmt: skip


def test_a_replaced_table_is_empty_and_keeps_its_history(
    catalog: Catalog, table: Identifier, handle: Table, other_schema: Schema
) -> None:
    handle.write(_rows((1, "a", 10), (2, "b", 20)))
    before = catalog.tables.get(table)
    catalog.tables.replace(table, other_schema)
    after = catalog.tables.get(table)
    assert (after.id, after.path) == (before.id, before.path)
    assert (after.schema.id, after.schema.options) == (1, {"bucket": "4"})
    assert after.schema.comment == "anew"
    assert [field.name for field in after.schema.fields] == ["order_id", "name", "dt"]
    # No column passes for one that was there before.
    assert [field.id for field in after.schema.fields] == [3, 4, 5]
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert (latest.snapshot.id, latest.record_count, latest.file_count) == (2, 0, 0)
    assert latest.file_size_in_bytes == 0
    assert latest.snapshot.commit_kind == "OVERWRITE"
    replaced = Table(catalog, after)
    assert replaced.scan().to_arrow().num_rows == 0
    new = pa.table({"order_id": [7], "name": ["x"], "dt": ["a"]})
    replaced.write(new)
    assert replaced.scan().to_arrow().to_pylist() == new.to_pylist()
    catalog.snapshots.rollback_to_snapshot(table, 1)
    restored = catalog.snapshots.latest(table)
    assert restored is not None
    assert (restored.record_count, restored.file_count) == (2, 2)


def test_a_table_without_data_is_replaced_without_a_snapshot(
    catalog: Catalog, table: Identifier, other_schema: Schema, directory: Path
) -> None:
    path = catalog.tables.get(table).path
    round_trip = replace(other_schema, options={**other_schema.options, "path": path})
    catalog.tables.replace(table, round_trip)
    assert catalog.snapshots.latest(table) is None
    schema = catalog.tables.get(table).schema
    assert schema.options == {"bucket": "4"}
    on_disk = (directory / "schema" / "schema-1").read_text()
    assert TableSchema.from_json(on_disk) == schema


def test_what_cannot_be_replaced_stays(
    catalog: Catalog, table: Identifier, handle: Table, other_schema: Schema, tmp_path: Path
) -> None:
    handle.write(_rows((1, "a", 10)))
    before = catalog.tables.get(table)
    retyped = (*other_schema.fields[:2], replace(other_schema.fields[2], type=parse_type("INT")))
    for schema, error, message in (
        (replace(other_schema, partition_keys=()), Unsupported, "partition keys"),
        (replace(other_schema, fields=retyped), Unsupported, "dt STRING"),
        (replace(other_schema, options={"type": "format-table"}, primary_keys=()),
         Unsupported, "format tables"),
        (replace(other_schema, options={"path": str(tmp_path / "x")}), Invalid, "stays at"),
        (replace(other_schema, primary_keys=("none",)), Invalid, "'none' is not among"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            catalog.tables.replace(table, schema)
    assert catalog.tables.get(table) == before
    latest = catalog.snapshots.latest(table)
    assert latest is not None
    assert latest.snapshot.id == 1
    with pytest.raises(NotFound) as missing:
        catalog.tables.replace(Identifier("sales", "none"), other_schema)
    assert missing.value.resource_type is ResourceType.TABLE
    files = Identifier("sales", "files")
    plain = replace(other_schema, primary_keys=(), options={"type": "format-table"})
    catalog.tables.create(files, plain)
    with pytest.raises(Unsupported, match="format tables"):
        catalog.tables.replace(files, other_schema)
    outside = Identifier("sales", "outside")
    catalog.tables.create(
        outside, replace(other_schema, options={"path": str(tmp_path / "outside")})
    )
    with pytest.raises(Unsupported, match="external"):
        catalog.tables.replace(outside, other_schema)


# Registering ----------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The directory of a table with two schemas and two snapshots, made by another catalog."""
    with closing(connect(tmp_path / "other")) as lake:
        lake.create_database("theirs")
        orders = lake.create_table("theirs.orders", schema=_rows((1, "a", 1)).schema,
                                   primary_keys=["dt", "order_id"], partition_keys=["dt"],
                                   options={"bucket": "1"})  # fmt: skip
        orders.write(_rows((1, "a", 10), (2, "b", 20)))
        lake.catalog.tables.alter(
            Identifier("theirs", "orders"), [AddColumn(("note",), parse_type("STRING"))]
        )
        orders.write(_rows((3, "b", 30)))
    return tmp_path / "other" / "warehouse" / "theirs.db" / "orders"


def test_a_table_outside_the_warehouse_is_registered_as_external(
    catalog: Catalog, written: Path
) -> None:
    catalog.databases.create("sales")
    name = Identifier("sales", "orders")
    catalog.tables.register(name, str(written))
    info = catalog.tables.get(name)
    assert (info.is_external, info.path) == (True, f"file://{written}")
    assert info.schema.id == 1
    assert [field.name for field in info.schema.fields] == ["order_id", "dt", "amount", "note"]
    with pytest.raises(Unsupported, match="external"):
        catalog.snapshots.latest(name)
    with pytest.raises(AlreadyExists) as taken:
        catalog.tables.register(name, str(written))
    assert taken.value.resource_type is ResourceType.TABLE
    catalog.tables.drop(name)
    assert written.exists()


def test_columns_of_an_external_table_may_come_from_its_files(
    catalog: Catalog, written: Path
) -> None:
    catalog.databases.create("sales")
    name = Identifier("sales", "orders")
    catalog.tables.create(name, Schema((), options={"path": str(written), "bucket": "1"}))
    schema = catalog.tables.get(name).schema
    assert schema.id == 1
    assert [field.name for field in schema.fields] == ["order_id", "dt", "amount", "note"]
    assert schema.primary_keys == ("dt", "order_id")
    assert schema.options == {"bucket": "1"}


def test_a_table_inside_the_warehouse_becomes_the_catalogs_own(
    catalog: Catalog, written: Path, tmp_path: Path
) -> None:
    catalog.databases.create("sales")
    place = tmp_path / "lake" / "sales.db" / "moved"
    shutil.copytree(written, place)
    name = Identifier("sales", "orders")
    catalog.tables.register(name, f"file://{place}/")
    info = catalog.tables.get(name)
    assert (info.is_external, info.path, info.schema.id) == (False, f"file://{place}", 1)
    latest = catalog.snapshots.latest(name)
    assert latest is not None
    assert (latest.snapshot.id, latest.record_count, latest.file_count) == (2, 3, 3)
    assert [snapshot.id for snapshot in catalog.snapshots.list(name).items] == [2, 1]
    table = Table(catalog, info)
    assert table.scan().to_arrow().num_rows == 3
    table.write(_rows((4, "c", 40)).append_column("note", pa.array(["n"])))
    catalog.tables.alter(name, [SetOption("write-only", "true")])
    assert table.scan().to_arrow().num_rows == 4
    catalog.snapshots.rollback_to_snapshot(name, 1)
    restored = catalog.snapshots.latest(name)
    assert restored is not None
    assert (restored.snapshot.id, restored.record_count) == (1, 2)
    with pytest.raises(Invalid, match="place of another table"):
        catalog.tables.register(Identifier("sales", "again"), str(place))
    catalog.tables.drop(name)
    assert not place.exists()


def test_only_a_table_is_registered(
    catalog: Catalog, table: Identifier, written: Path, tmp_path: Path
) -> None:
    name = Identifier("sales", "other")
    inside = tmp_path / "lake" / "sales.db"
    (tmp_path / "lake" / "elsewhere" / "t" / "schema").mkdir(parents=True)
    for path, message in (
        (str(tmp_path / "nothing"), "no table at"),
        (str(inside / "nothing"), "no table at"),
        (str(tmp_path / "lake"), "must not overlap the warehouse"),
        (str(tmp_path), "must not overlap the warehouse"),
        (catalog.tables.get(table).path, "place of another table"),
        (str(tmp_path / "lake" / "elsewhere" / "t"), "lie directly in"),
        ("orders", "absolute path"),
        ("", "absolute path"),
    ):
        with pytest.raises(Invalid, match=message):
            catalog.tables.register(name, path)
    with pytest.raises(Unsupported, match="file access"):
        catalog.tables.register(name, "hdfs://somewhere/t")
    with pytest.raises(NotFound) as missing:
        catalog.tables.register(Identifier("none", "t"), str(written))
    assert missing.value.resource_type is ResourceType.DATABASE
    (written / "schema" / "schema-1").write_text("{")
    with pytest.raises(CorruptData, match="schema-1"):
        catalog.tables.register(name, str(written))
    assert list(catalog.tables.list("sales").items) == [table.name]


def test_branches_come_with_a_table_that_is_registered(
    catalog: Catalog, written: Path, tmp_path: Path
) -> None:
    catalog.databases.create("sales")
    place = tmp_path / "lake" / "sales.db" / "orders"
    shutil.copytree(written, place)
    branch = place / "branch" / "branch-b1"
    for kind in ("schema", "snapshot"):
        shutil.copytree(place / kind, branch / kind)
    (branch / "snapshot" / "snapshot-2").unlink()
    name = Identifier("sales", "orders")
    catalog.tables.register(name, str(place))
    assert list(catalog.branches.list(name)) == ["b1"]
    latest = catalog.snapshots.latest(Identifier("sales", "orders$branch_b1"))
    assert latest is not None
    assert (latest.snapshot.id, latest.record_count) == (1, 2)
