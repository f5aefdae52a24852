"""Tables of every type and place, over every catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.table.table import Table
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, Unsupported
from headwater.storage.schema.change import (
    AddColumn,
    DropColumn,
    SetOption,
    UpdateColumnComment,
    UpdateColumnType,
    UpdateComment,
)
from headwater.storage.schema.table_schema import Schema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.types.data_type import DataField, Json, parse_type, type_json

FOREIGN = ("format-table", "object-table", "lance-table", "iceberg-table")
NAME = Identifier("sales", "files")


@pytest.fixture
def plain() -> Schema:
    """A schema without keys."""
    return Schema.from_arrow(pa.schema([("id", pa.int64()), ("dt", pa.string())]))


def _typed(schema: Schema, table_type: str, **options: str) -> Schema:
    fields = () if table_type == "object-table" else schema.fields
    named = {key.replace("_", "-"): value for key, value in options.items()}
    return replace(schema, fields=fields, options={"type": table_type, **named})


@pytest.mark.parametrize("table_type", FOREIGN)
def test_a_table_of_a_foreign_type_has_a_place_and_no_files_of_ours(
    catalog: Catalog,
    plain: Schema,
    tmp_path: Path,
    snapshot: Callable[..., Snapshot],
    table_type: str,
) -> None:
    catalog.databases.create("sales")
    catalog.tables.create(NAME, _typed(plain, table_type, my_key="value"))
    info = catalog.tables.get(NAME)
    assert not info.is_external
    assert info.path == f"file://{tmp_path}/lake/sales.db/files"
    assert info.schema.options == {"type": table_type, "my-key": "value"}
    for refused in (
        lambda: catalog.snapshots.latest(NAME),
        lambda: catalog.snapshots.list(NAME),
        lambda: catalog.snapshots.commit(NAME, info.id, snapshot(1), None, []).decided(),
        lambda: catalog.tags.create(NAME, "v1"),
        lambda: catalog.snapshots.rollback_to_snapshot(NAME, 1),
    ):
        with pytest.raises(Unsupported, match=table_type):
            refused()
    # Its schema changes in the catalog alone.
    catalog.tables.alter(NAME, [SetOption("other", "x"), UpdateComment("theirs")])
    changed = catalog.tables.get(NAME).schema
    assert (changed.id, changed.options["other"], changed.comment) == (1, "x", "theirs")
    directory = tmp_path / "lake" / "sales.db" / "files"
    assert not list(directory.glob("*"))
    # What writes into an object table finds its directory.
    assert directory.exists() == (table_type == "object-table")
    # Its data is the catalog's all the same.
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "data.csv").write_text("1,2\n")
    catalog.tables.rename(NAME, Identifier("sales", "renamed"))
    catalog.tables.drop(Identifier("sales", "renamed"))
    assert not directory.exists()


@pytest.mark.parametrize("table_type", FOREIGN)
def test_a_foreign_table_may_be_external(
    catalog: Catalog, plain: Schema, tmp_path: Path, table_type: str
) -> None:
    catalog.databases.create("sales")
    place = tmp_path / "elsewhere" / "files"
    catalog.tables.create(NAME, _typed(plain, table_type, path=str(place)))
    info = catalog.tables.get(NAME)
    assert (info.is_external, info.path) == (True, f"file://{place}")
    catalog.tables.alter(NAME, [SetOption("other", "x")])
    assert catalog.tables.get(NAME).schema.options["other"] == "x"
    place.mkdir(parents=True)
    catalog.tables.drop(NAME)
    assert place.exists()


def test_an_object_table_has_the_columns_of_a_listing(catalog: Catalog, plain: Schema) -> None:
    catalog.databases.create("sales")
    catalog.tables.create(NAME, _typed(plain, "object-table"))
    schema = catalog.tables.get(NAME).schema
    assert [f"{field.name} {field.type}" for field in schema.fields] == [
        "path STRING NOT NULL",
        "name STRING NOT NULL",
        "length BIGINT NOT NULL",
        "mtime BIGINT NOT NULL",
        "atime BIGINT NOT NULL",
        "owner STRING",
    ]
    with pytest.raises(Invalid, match="columns cannot be changed"):
        catalog.tables.alter(NAME, [AddColumn(("more",), parse_type("INT"))])


def test_a_format_tables_columns_change(catalog: Catalog, plain: Schema) -> None:
    catalog.databases.create("sales")
    catalog.tables.create(NAME, replace(_typed(plain, "format-table"), partition_keys=("dt",)))
    catalog.tables.alter(NAME, [AddColumn(("rowkind",), parse_type("INT"))])
    schema = catalog.tables.get(NAME).schema
    assert [field.name for field in schema.fields] == ["id", "dt", "rowkind"]
    assert schema.partition_keys == ("dt",)
    with pytest.raises(Invalid, match="'type' cannot be changed"):
        catalog.tables.alter(NAME, [SetOption("type", "table")])
    with pytest.raises(Invalid, match="must not be empty"):
        catalog.tables.alter(
            NAME, [SetOption("file.format", "csv"), SetOption("csv.field-delimiter", "")]
        )
    assert catalog.tables.get(NAME).schema == schema


def test_a_format_tables_column_may_become_another_type(catalog: Catalog, plain: Schema) -> None:
    catalog.databases.create("sales")
    catalog.tables.create(NAME, _typed(plain, "format-table"))
    catalog.tables.alter(NAME, [UpdateColumnType(("id",), parse_type("DOUBLE"))])
    assert str(catalog.tables.get(NAME).schema.column("id").type) == "DOUBLE"


def test_declared_columns_of_an_object_table_are_passed_over(
    catalog: Catalog, plain: Schema
) -> None:
    catalog.databases.create("sales")
    catalog.tables.create(NAME, _typed(Schema(()), "object-table"))
    given = catalog.tables.get(NAME).schema.fields
    declared = Identifier("sales", "declared")
    catalog.tables.create(declared, _typed(plain, "object-table"))
    assert catalog.tables.get(declared).schema.fields == given


def test_an_empty_comment_stays_empty(catalog: Catalog, plain: Schema) -> None:
    catalog.databases.create("sales")
    for at, comment in enumerate((None, "", "of orders")):
        name = Identifier("sales", f"t{at}")
        catalog.tables.create(name, replace(plain, comment=comment))
        assert catalog.tables.get(name).schema.comment == comment


@pytest.mark.parametrize("kind", ["format-table", "object-table"])
def test_a_table_is_not_replaced_by_another_kind(
    catalog: Catalog, plain: Schema, kind: str
) -> None:
    catalog.databases.create("sales")
    catalog.tables.create(NAME, plain)
    words = f"replaceTable does not support {kind.replace('-', ' ')}s"
    with pytest.raises(Unsupported, match=words):
        catalog.tables.replace(NAME, _typed(plain, kind))
    of_that_kind = Identifier("sales", "other")
    catalog.tables.create(of_that_kind, _typed(plain, kind))
    with pytest.raises(Unsupported, match=words):
        catalog.tables.replace(of_that_kind, plain)


Refusal: TypeAlias = tuple[Mapping[str, str], tuple[str, ...], type[HeadwaterError], str]
REFUSED: Sequence[Refusal] = [
        ({"type": "some-table"}, (), Invalid, "'some-table' is not a table type"),
        ({"type": "format-table"}, ("id",), Invalid, "primary key"),
        ({"type": "format-table", "primary-key": "id"}, (), Invalid, "primary key"),
        ({"type": "format-table", "file.format": "xls"}, (), Unsupported, "not 'xls'"),
        ({"type": "format-table", "file.format": "csv", "quote": ""}, (), Invalid, "'quote'"),
        (
            {"type": "format-table", "file.format": "json", "json.line-delimiter": ""}, (),
            Invalid, "json.line-delimiter",
        ),
        (
            {"type": "format-table", "metastore.partitioned-table": "true",
             "format-table.implementation": "engine"}, (), Invalid, "directories",
        ),
        (
            {"type": "format-table", "metastore.partitioned-table": "true",
             "path": "/somewhere/else"}, (), Invalid, "leave option 'path'",
        ),
        ({"type": "object-table"}, ("id",), Invalid, "keys"),
        (
            {"changelog-producer": "input"}, (), Invalid,
            "Can not set changelog-producer on table without primary keys",
        ),
        ({"auto-create": "true"}, (), Invalid, "auto-create"),
        ({"target-file-row-num": "0"}, (), Invalid, "target-file-row-num"),
]  # fmt: skip


def test_what_a_type_does_not_have_is_refused(
    catalog: Catalog, plain: Schema, subtests: pytest.Subtests
) -> None:
    catalog.databases.create("sales")
    for options, keys, error, message in REFUSED:
        with subtests.test(options=options, keys=keys):
            with pytest.raises(error, match=message):
                catalog.tables.create(NAME, replace(plain, options=options, primary_keys=keys))
            with pytest.raises(NotFound):
                catalog.tables.get(NAME)


def test_a_table_without_columns_is_refused(catalog: Catalog) -> None:
    catalog.databases.create("sales")
    for table_type in ("table", "format-table", "iceberg-table"):
        with pytest.raises(Invalid, match="at least one column"):
            catalog.tables.create(NAME, Schema((), options={"type": table_type}))


def test_columns_that_other_engines_read_are_kept(catalog: Catalog, plain: Schema) -> None:
    catalog.databases.create("sales")
    document = DataField(2, "document", parse_type("GEOMETRY"))
    catalog.tables.create(NAME, replace(plain, fields=(*plain.fields, document)))
    info = catalog.tables.get(NAME)
    assert info.schema.fields[2] == document
    table = Table(catalog, info)
    assert table.scan(columns=["id"]).to_arrow().num_rows == 0
    rows = pa.table({"id": [1], "dt": ["a"], "document": ["{}"]})
    with pytest.raises(Unsupported, match="GEOMETRY"):
        table.write(rows)
    with pytest.raises(Unsupported, match="GEOMETRY"):
        table.scan().to_arrow()
    assert catalog.snapshots.latest(NAME) is None


def test_columns_of_every_type_are_created_told_and_changed(
    catalog: Catalog, plain: Schema
) -> None:
    catalog.databases.create("sales")
    written: dict[str, Json] = {
        "embedding": {"type": "VECTOR", "element": "FLOAT NOT NULL", "length": 768},
        "place": "GEOMETRY('4326')",
        "route": "GEOGRAPHY(OGC:CRS84, karney)",
        "document": "VARIANT",
    }
    fields = tuple(
        DataField(number, name, parse_type(document))
        for number, (name, document) in enumerate(written.items(), len(plain.fields))
    )
    catalog.tables.create(NAME, replace(plain, fields=(*plain.fields, *fields)))
    info = catalog.tables.get(NAME)
    assert [type_json(field.type) for field in info.schema.fields[2:]] == list(written.values())
    catalog.tables.alter(
        NAME, [AddColumn(("more",), parse_type(written["embedding"])), DropColumn(("place",))]
    )
    info = catalog.tables.get(NAME)
    assert [field.name for field in info.schema.fields] == [
        "id", "dt", "embedding", "route", "document", "more",
    ]  # fmt: skip
    assert catalog.tables.list_details("sales").items == (info,)
    table = Table(catalog, info)
    assert table.scan(columns=["id", "dt"], where="id > 1").to_arrow().num_rows == 0
    assert table.scan(columns=["embedding"]).to_arrow().schema.types == [
        pa.list_(pa.field("element", pa.float32(), False), 768)
    ]
    with pytest.raises(Unsupported, match="column 'route' is of type"):
        table.scan(columns=["id", "route"]).to_arrow()
    with pytest.raises(Unsupported, match="column 'route' is of type GEOGRAPHY"):
        table.write(pa.table({"id": [1], "dt": ["a"]}))
    with pytest.raises(Unsupported, match="column 'route' is of type GEOGRAPHY"):
        table.scan().to_arrow()
    with pytest.raises(Unsupported, match="column 'route' is of type GEOGRAPHY"):
        table.scan(columns=["id"], where="route = 'x'")


def test_a_directive_in_a_comment_makes_the_column_a_blob_or_a_vector(
    catalog: Catalog, plain: Schema
) -> None:
    catalog.databases.create("sales")
    evolution = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    picture = DataField(2, "picture", parse_type("BYTES"), "__BLOB_FIELD; of the front")
    asked = replace(plain, fields=(*plain.fields, picture), options=evolution)
    catalog.tables.create(NAME, asked)
    floats = parse_type({"type": "ARRAY", "element": "FLOAT"})
    catalog.tables.alter(NAME, [AddColumn(("embedding",), floats, "__VECTOR_FIELD;8")])
    schema = catalog.tables.get(NAME).schema
    assert [(str(item.type), item.description) for item in schema.fields[2:]] == [
        ("BLOB", "of the front"), ("VECTOR<FLOAT, 8>", None),
    ]  # fmt: skip
    assert schema.options == {**evolution, "blob-field": "picture", "vector-field": "embedding"}
    for change in (
        UpdateColumnComment(("id",), "__BLOB_FIELD"),
        AddColumn(("more",), parse_type("INT"), "__BLOB_FIELD"),
    ):
        with pytest.raises(Invalid, match="__BLOB_FIELD"):
            catalog.tables.alter(NAME, [change])
    catalog.tables.alter(NAME, [DropColumn(("picture",)), DropColumn(("embedding",))])
    assert catalog.tables.get(NAME).schema.options == evolution


def test_tracked_rows_have_no_primary_key_and_no_buckets(catalog: Catalog, plain: Schema) -> None:
    catalog.databases.create("sales")
    tracked = replace(plain, options={"row-tracking.enabled": "true"})
    with pytest.raises(Invalid, match="without a primary key"):
        catalog.tables.create(NAME, replace(tracked, primary_keys=("id",)))
    with pytest.raises(Invalid, match=r"needs option 'row-tracking\.enabled'"):
        catalog.tables.create(NAME, replace(plain, options={"data-evolution.enabled": "true"}))
    catalog.tables.create(NAME, tracked)
    with pytest.raises(Invalid, match="needs 'bucket' = '-1', not '4'"):
        catalog.tables.alter(NAME, [SetOption("bucket", "4"), SetOption("bucket-key", "id")])


def test_the_case_of_a_coordinate_reference_system_makes_no_difference(
    catalog: Catalog, plain: Schema
) -> None:
    catalog.databases.create("sales")
    place = DataField(2, "place", parse_type("GEOMETRY(epsg:4326)"))
    catalog.tables.create(NAME, replace(plain, fields=(*plain.fields, place)))
    catalog.tables.alter(NAME, [UpdateColumnType(("place",), parse_type("GEOMETRY(EPSG:4326)"))])
    with pytest.raises(Invalid):
        catalog.tables.alter(NAME, [UpdateColumnType(("place",), parse_type("GEOMETRY(EPSG:1)"))])
    assert str(catalog.tables.get(NAME).schema.column("place").type) == "GEOMETRY(EPSG:4326)"
