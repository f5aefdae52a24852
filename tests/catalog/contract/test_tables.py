"""Tables and their schemas, over every catalog."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.table import Table
from headwater.storage.errors import (
    AlreadyExists,
    Invalid,
    NotFound,
    ResourceType,
    Unsupported,
)
from headwater.storage.files.layout import WAREHOUSE_MARKER
from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
)
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.data_type import DataField, RowType, parse_type


def _files(directory: Path) -> list[str]:
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def test_a_new_table_has_its_first_schema_file_and_nothing_else(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    info = catalog.tables.get(table)
    assert info.identifier == table
    assert not info.is_external
    assert info.path.startswith("file:///")
    assert _files(directory) == ["schema/schema-0"]
    on_disk = TableSchema.from_json((directory / "schema" / "schema-0").read_text())
    assert on_disk == info.schema
    assert info.schema.id == 0
    assert catalog.snapshots.latest(table) is None


def test_keys_may_stand_in_the_options(catalog: Catalog, orders_schema: Schema) -> None:
    catalog.databases.create("sales")
    keyless = replace(
        orders_schema,
        primary_keys=(),
        partition_keys=(),
        options={"bucket": "2", "primary-key": "dt,order_id", "partition": "dt"},
    )
    catalog.tables.create(Identifier("sales", "t"), keyless)
    schema = catalog.tables.get(Identifier("sales", "t")).schema
    assert schema.primary_keys == ("dt", "order_id")
    assert schema.partition_keys == ("dt",)
    assert schema.options == {"bucket": "2"}
    assert [str(column.type) for column in schema.fields] == [
        "BIGINT NOT NULL",
        "STRING NOT NULL",
        "INT",
    ]


def test_a_table_needs_a_database(
    catalog: Catalog, orders: Identifier, orders_schema: Schema
) -> None:
    with pytest.raises(NotFound) as error:
        catalog.tables.create(orders, orders_schema)
    assert error.value.resource_type is ResourceType.DATABASE


def test_a_second_table_of_a_name_is_refused(
    catalog: Catalog, table: Identifier, orders_schema: Schema
) -> None:
    before = catalog.tables.get(table)
    with pytest.raises(AlreadyExists) as error:
        catalog.tables.create(table, orders_schema)
    assert error.value.resource_type is ResourceType.TABLE
    catalog.tables.create(table, orders_schema, ignore_if_exists=True)
    assert catalog.tables.get(table) == before


def test_a_name_that_is_no_directory_is_refused(
    catalog: Catalog, orders_schema: Schema, subtests: pytest.Subtests
) -> None:
    catalog.databases.create("sales")
    for name in ("", ".", "..", "a/../../b", "a$snapshots", "a\x00b", "x " * 150):
        with subtests.test(name=name):
            with pytest.raises(Invalid):
                catalog.tables.create(Identifier("sales", name), orders_schema)
            assert list(catalog.tables.list("sales").items) == []


def test_a_schema_that_is_not_allowed_leaves_nothing(
    catalog: Catalog, orders: Identifier, orders_schema: Schema, tmp_path: Path
) -> None:
    catalog.databases.create("sales")
    with pytest.raises(Invalid, match="nowhere"):
        catalog.tables.create(orders, replace(orders_schema, primary_keys=("nowhere",)))
    assert list(catalog.tables.list("sales").items) == []
    assert _files(tmp_path / "lake") == [WAREHOUSE_MARKER]


def test_a_missing_table_is_named(catalog: Catalog, table: Identifier) -> None:
    for missing in (
        Identifier("sales", "none"),
        Identifier("none", "orders"),
        Identifier("sales", "orders$branch_none"),
        Identifier("sales", "orders$snapshots"),
    ):
        for action in (
            lambda name=missing: catalog.tables.get(name),
            lambda name=missing: catalog.tables.alter(name, [SetOption("a", "b")]),
            lambda name=missing: catalog.snapshots.latest(name),
        ):
            with pytest.raises(NotFound) as error:
                action()
            assert error.value.resource_type is ResourceType.TABLE
    with pytest.raises(NotFound) as error:
        catalog.tables.drop(Identifier("sales", "none"))
    assert error.value.resource_type is ResourceType.TABLE
    catalog.tables.drop(Identifier("sales", "none"), ignore_if_not_exists=True)


def test_a_change_makes_a_new_version(catalog: Catalog, table: Identifier, directory: Path) -> None:
    catalog.tables.alter(
        table, [AddColumn(("note",), parse_type("STRING")), SetOption("write-only", "true")]
    )
    schema = catalog.tables.get(table).schema
    assert schema.id == 1
    assert [column.name for column in schema.fields] == ["order_id", "dt", "amount", "note"]
    assert schema.options["write-only"] == "true"
    assert _files(directory) == ["schema/schema-0", "schema/schema-1"]
    assert TableSchema.from_json((directory / "schema" / "schema-1").read_text()) == schema


def test_properties_of_the_user_s_own_are_kept_changed_and_removed(
    catalog: Catalog, orders_schema: Schema
) -> None:
    catalog.databases.create("sales")
    orders = Identifier("sales", "orders")
    own = {"team.owner": "ann", "some-other-engine.key": "ä = 1"}
    options = orders_schema.options
    catalog.tables.create(orders, replace(orders_schema, options={**options, **own}))
    assert catalog.tables.get(orders).schema.options == {**options, **own}
    table = Table(catalog, catalog.tables.get(orders))
    table.write({"order_id": [1], "dt": ["a"], "amount": [10]})
    assert table.scan().to_arrow().num_rows == 1
    catalog.tables.alter(
        orders, [SetOption("team.owner", "bob"), RemoveOption("some-other-engine.key")]
    )
    moved = Identifier("sales", "moved")
    catalog.tables.rename(orders, moved)
    assert catalog.tables.get(moved).schema.options == {**options, "team.owner": "bob"}
    catalog.tables.alter(moved, [RemoveOption("team.owner")])
    assert catalog.tables.get(moved).schema.options == options


def test_changes_that_change_nothing_make_no_version(
    catalog: Catalog, table: Identifier, directory: Path
) -> None:
    # Paimon's clients may send no change at all, or an option that is set already.
    present = catalog.tables.get(table).schema
    bucket = present.options["bucket"]
    nothing: list[list[SchemaChange]] = [
        [],
        [SetOption("bucket", bucket)],
        [RemoveOption("none"), UpdateComment(None)],
    ]
    for changes in nothing:
        catalog.tables.alter(table, changes)
        assert catalog.tables.get(table).schema == present
    catalog.tables.alter(table, [SetOption("a", "b"), RemoveOption("a")])
    assert _files(directory) == ["schema/schema-0"]


def test_changes_are_made_all_or_none(catalog: Catalog, table: Identifier, directory: Path) -> None:
    before = catalog.tables.get(table)
    with pytest.raises(NotFound) as error:
        catalog.tables.alter(table, [SetOption("write-only", "true"), DropColumn(("none",))])
    assert error.value.resource_type is ResourceType.COLUMN
    assert catalog.tables.get(table) == before
    assert _files(directory) == ["schema/schema-0"]


def test_the_type_of_a_column_that_holds_data_changes_as_paimon_casts(
    catalog: Catalog, table: Identifier, snapshot: Callable[..., Snapshot]
) -> None:
    before = catalog.tables.get(table)
    assert catalog.snapshots.commit(table, before.id, snapshot(1), None, []).decided()
    for text in ("TINYINT", "STRING", "DATE", "TIMESTAMP(3)", "BIGINT", "DECIMAL(4, 2)"):
        catalog.tables.alter(table, [UpdateColumnType(("amount",), parse_type(text))])
        assert str(catalog.tables.get(table).schema.column("amount").type) == text


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (RenameColumn(("dt",), "day"), "Cannot rename partition column: [dt]"),
        (DropColumn(("dt",)), "Cannot drop partition key or primary key: [dt]"),
        (DropColumn(("order_id",)), "Cannot drop partition key or primary key: [order_id]"),
        (UpdateColumnNullability(("order_id",), True), "Cannot change nullability of primary key"),
    ],
)
def test_changes_of_keys_are_rejected_in_paimons_words(
    catalog: Catalog, table: Identifier, change: SchemaChange, sentence: str
) -> None:
    with pytest.raises(Invalid, match=re.escape(sentence)):
        catalog.tables.alter(table, [change])


def test_the_last_column_is_kept(catalog: Catalog, orders: Identifier) -> None:
    catalog.databases.create(orders.database)
    row = RowType((DataField(1, "inner", parse_type("INT")),))
    catalog.tables.create(orders, Schema((DataField(0, "outer", row),)))
    for path in (("outer",), ("outer", "inner")):
        with pytest.raises(Invalid, match="Cannot drop all fields in table"):
            catalog.tables.alter(orders, [DropColumn(path)])


@pytest.mark.parametrize(
    ("column", "new_type", "reason"),
    [
        ("order_id", "STRING", "Cannot update primary key"),
        ("dt", "INT", r"Cannot update partition column: \[dt\]"),
        (
            "amount",
            "DATE",
            r"Column type amount\[INT\] cannot be converted to DATE without losing "
            r"information\.",
        ),
        ("amount", "DATE", "no cast between"),
        ("amount", "BYTES", "no cast between"),
        ("amount", "BIGINT NOT NULL", "alter-column-null-to-not-null.disabled"),
    ],
)
def test_a_change_of_type_that_paimon_refuses_is_refused_with_its_reason(
    catalog: Catalog, table: Identifier, column: str, new_type: str, reason: str
) -> None:
    before = catalog.tables.get(table)
    with pytest.raises(Invalid, match=reason):
        catalog.tables.alter(table, [UpdateColumnType((column,), parse_type(new_type))])
    assert catalog.tables.get(table) == before


def test_casts_that_are_not_implicit_can_be_switched_off(
    catalog: Catalog, table: Identifier
) -> None:
    catalog.tables.alter(table, [SetOption("disable-explicit-type-casting", "true")])
    with pytest.raises(Invalid, match="'disable-explicit-type-casting' is true"):
        catalog.tables.alter(table, [UpdateColumnType(("amount",), parse_type("STRING"))])
    catalog.tables.alter(table, [UpdateColumnType(("amount",), parse_type("DOUBLE"))])
    assert str(catalog.tables.get(table).schema.column("amount").type) == "DOUBLE"


def test_a_renamed_table_keeps_its_files_and_history(
    catalog: Catalog, table: Identifier, snapshot: Callable[..., Snapshot]
) -> None:
    before = catalog.tables.get(table)
    first = snapshot(1)
    assert catalog.snapshots.commit(table, before.id, first, None, []).decided()
    catalog.databases.create("archive")
    moved = Identifier("archive", "old_orders")
    catalog.tables.rename(table, moved)
    after = catalog.tables.get(moved)
    assert (after.id, after.path, after.schema) == (before.id, before.path, before.schema)
    latest = catalog.snapshots.latest(moved)
    assert latest is not None
    assert latest.snapshot == first
    assert list(catalog.tables.list("sales").items) == []
    with pytest.raises(NotFound):
        catalog.tables.get(table)


def test_a_name_that_a_rename_freed_gets_a_fresh_directory(
    catalog: Catalog,
    table: Identifier,
    orders_schema: Schema,
    snapshot: Callable[..., Snapshot],
) -> None:
    moved = Identifier("sales", "old_orders")
    first = snapshot(1)
    assert catalog.snapshots.commit(table, None, first, None, []).decided()
    catalog.tables.rename(table, moved)
    catalog.tables.create(table, orders_schema)
    assert catalog.tables.get(table).path != catalog.tables.get(moved).path
    assert catalog.snapshots.latest(table) is None
    catalog.tables.drop(table)
    assert catalog.snapshots.get(moved, "LATEST") == first


def test_a_rename_onto_a_table_or_from_nothing_is_refused(
    catalog: Catalog, table: Identifier, orders_schema: Schema
) -> None:
    other = Identifier("sales", "other")
    catalog.tables.create(other, orders_schema)
    with pytest.raises(AlreadyExists) as taken:
        catalog.tables.rename(table, other)
    assert taken.value.resource_type is ResourceType.TABLE
    with pytest.raises(NotFound) as missing:
        catalog.tables.rename(Identifier("sales", "none"), Identifier("sales", "new"))
    assert missing.value.resource_type is ResourceType.TABLE
    assert list(catalog.tables.list("sales").items) == ["orders", "other"]


def test_a_dropped_table_leaves_nothing_to_find_again(
    catalog: Catalog,
    table: Identifier,
    orders_schema: Schema,
    directory: Path,
    snapshot: Callable[..., Snapshot],
) -> None:
    old = catalog.tables.get(table)
    assert catalog.snapshots.commit(table, old.id, snapshot(1), None, []).decided()
    catalog.tables.drop(table)
    assert not directory.exists()
    with pytest.raises(NotFound):
        catalog.tables.get(table)
    catalog.tables.create(table, orders_schema)
    new = catalog.tables.get(table)
    assert new.id != old.id
    assert catalog.snapshots.latest(table) is None
    with pytest.raises(NotFound) as error:
        catalog.snapshots.commit(table, old.id, snapshot(1), None, []).decided()
    assert error.value.resource_type is ResourceType.TABLE


def test_a_path_makes_a_table_external(
    catalog: Catalog, orders_schema: Schema, tmp_path: Path, snapshot: Callable[..., Snapshot]
) -> None:
    catalog.databases.create("sales")
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / "precious").write_text("data")
    table = Identifier("sales", "theirs")
    options = {**orders_schema.options, "path": str(place)}
    catalog.tables.create(table, replace(orders_schema, options=options))
    info = catalog.tables.get(table)
    assert info.is_external
    assert info.path == f"file://{place}"
    assert "path" not in info.schema.options
    with pytest.raises(Unsupported):
        catalog.snapshots.latest(table)
    with pytest.raises(Unsupported):
        catalog.snapshots.commit(table, info.id, snapshot(1), None, []).decided()
    catalog.tables.drop(table)
    assert _files(place) == ["precious", "schema/schema-0"]


def test_an_external_path_must_not_touch_the_warehouse(
    catalog: Catalog, table: Identifier, orders_schema: Schema, tmp_path: Path
) -> None:
    inner = catalog.tables.get(table).path
    for path in (inner, f"{inner}/x", str(tmp_path / "lake"), str(tmp_path)):
        with pytest.raises(Invalid, match="warehouse"):
            catalog.tables.create(
                Identifier("sales", "alias"), replace(orders_schema, options={"path": path})
            )


def test_lists_come_in_pages(catalog: Catalog, orders_schema: Schema) -> None:
    catalog.databases.create("sales")
    names = ["B", "a", "b", "c"]
    for name in names:
        catalog.tables.create(Identifier("sales", name), orders_schema)
    first = catalog.tables.list("sales", max_results=3)
    assert list(first.items) == names[:3]
    second = catalog.tables.list("sales", max_results=3, page_token=first.next_token)
    assert list(second.items) == names[3:]
    assert second.next_token is None
    assert list(catalog.tables.list("sales", pattern="b%").items) == ["b"]
