"""External tables: their own files tell and decide their schemas, whoever writes those."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.catalog.model.catalog import Catalog
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.permissions import (
    Access,
    ColumnSet,
    Grant,
    PermissionTarget,
    TargetType,
)
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
from headwater.storage.schema.change import (
    AddColumn,
    DropPrimaryKey,
    RenameColumn,
    SchemaChange,
    SetOption,
)
from headwater.storage.schema.table_schema import Schema, TableSchema
from headwater.storage.types.data_type import parse_type

NAME = Identifier("sales", "theirs")
THEIRS = Identifier("theirs", "orders")


class OtherEngine:
    """A catalog of its own on the same files; what it decides, it writes there."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.place = home / "warehouse" / "theirs.db" / "orders"

    def create(self, name: str) -> None:
        """Another table beside."""
        with closing(connect(self._home)) as lake:
            lake.create_table(f"{THEIRS.database}.{name}", schema=pa.schema([("id", pa.int64())]))

    @contextmanager
    def table(self) -> Iterator[Table]:
        with closing(connect(self._home)) as lake:
            yield lake.table(str(THEIRS))

    def alter(self, *changes: SchemaChange) -> None:
        with self.table() as table:
            table.alter(*changes)


@pytest.fixture
def engine(tmp_path: Path) -> OtherEngine:
    """What made a table, with a row in it."""
    home = tmp_path / "other"
    with closing(connect(home)) as lake:
        lake.create_database("theirs")
        columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
        table = lake.create_table(
            str(THEIRS), schema=columns, primary_keys=["id"], options={"bucket": "1"}
        )
        table.write(pa.table({"id": [1], "note": ["a"]}))
    return OtherEngine(home)


@pytest.fixture
def registered(catalog: Catalog, engine: OtherEngine) -> Identifier:
    """That table, registered here."""
    catalog.databases.create("sales")
    catalog.tables.register(NAME, str(engine.place))
    return NAME


def _add(name: str) -> AddColumn:
    return AddColumn((name,), parse_type("INT"))


def _columns(catalog: Catalog, name: Identifier = NAME) -> list[str]:
    return [field.name for field in catalog.tables.get(name).schema.fields]


def _schema_files(place: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((place / "schema").iterdir())}


def test_a_change_is_the_next_schema_file(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    before = _schema_files(engine.place)
    uuid = catalog.tables.get(registered).id
    catalog.tables.alter(registered, [_add("amount"), RenameColumn(("note",), "remark")])
    info = catalog.tables.get(registered)
    assert (info.id, info.schema.id, info.is_external) == (uuid, 1, True)
    assert _columns(catalog) == ["id", "remark", "amount"]
    files = _schema_files(engine.place)
    assert files.pop("schema-1") == info.schema.to_json()
    assert files == before
    assert catalog.tables.list_details("sales").items == (info,)
    # Whoever writes there goes on with it.
    table = Table(catalog, info)
    table.write(pa.table({"id": [2], "remark": ["b"], "amount": [7]}))
    rows = table.scan().to_arrow().sort_by("id").to_pydict()
    assert rows == {"id": [1, 2], "remark": ["a", "b"], "amount": [None, 7]}


def test_permissions_on_columns_follow_a_change(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    columns = PermissionTarget(TargetType.COLUMN, "sales", "theirs")

    def excluded() -> ColumnSet | None:
        return catalog.permissions.list(columns).items[0].columns

    engine.alter(SetOption("query-auth.enabled", "true"))
    assert _columns(catalog) == ["id", "note"]
    catalog.permissions.grant(Grant(columns, Access.SELECT, "ada", ColumnSet(excluded=("note",))))
    engine.alter(RenameColumn(("note",), "remark"))
    assert _columns(catalog) == ["id", "remark"]
    assert excluded() == ColumnSet(excluded=("remark",))
    catalog.tables.alter(registered, [RenameColumn(("remark",), "comment")])
    assert excluded() == ColumnSet(excluded=("comment",))


def test_a_change_by_another_engine_is_seen(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    engine.alter(_add("amount"))
    engine.alter(_add("price"))
    info = catalog.tables.get(registered)
    assert (info.schema.id, _columns(catalog)) == (2, ["id", "note", "amount", "price"])
    assert catalog.tables.get_by_id(info.id) == info
    assert catalog.tables.list_details("sales").items == (info,)
    on_disk = TableSchema.from_json(_schema_files(engine.place)["schema-2"])
    assert info.schema == on_disk
    assert info.updated_at == on_disk.time_millis


def test_a_change_is_of_what_another_engine_made_of_it(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    engine.alter(_add("amount"))
    theirs = _schema_files(engine.place)
    catalog.tables.alter(registered, [_add("price")])
    ours = _schema_files(engine.place)
    assert _columns(catalog) == ["id", "note", "amount", "price"]
    assert {name: ours[name] for name in theirs} == theirs
    with pytest.raises(AlreadyExists) as taken:
        catalog.tables.alter(registered, [_add("amount")])
    assert taken.value.resource_type is ResourceType.COLUMN
    assert _schema_files(engine.place) == ours


def test_no_change_is_lost_among_many(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    def alter(number: int) -> None:
        if number % 3:
            catalog.tables.alter(registered, [_add(f"c{number}")])
        else:
            engine_alter(number)

    def engine_alter(number: int) -> None:
        # As Paimon without a catalog: whoever puts the next file first.
        directory = engine.place / "schema"
        while True:
            latest = max(int(path.name.split("-")[1]) for path in directory.glob("schema-*"))
            document = json.loads((directory / f"schema-{latest}").read_text())
            document["id"] = latest + 1
            document["highestFieldId"] += 1
            field = {"id": document["highestFieldId"], "name": f"c{number}", "type": "INT"}
            document["fields"].append(field)
            try:
                with (directory / f".tmp-{number}").open("w") as file:
                    file.write(json.dumps(document))
                (directory / f"schema-{latest + 1}").hardlink_to(directory / f".tmp-{number}")
            except FileExistsError:
                continue
            return

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(alter, range(9)))
    info = catalog.tables.get(registered)
    assert info.schema.id == 9
    assert sorted(_columns(catalog)) == sorted(["id", "note", *(f"c{n}" for n in range(9))])
    ids = [field.id for field in info.schema.fields]
    assert sorted(ids) == list(range(11))


def test_a_schema_that_was_taken_back_is_gone(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    catalog.tables.alter(registered, [_add("amount")])
    later = engine.place / "schema" / "schema-1"
    document = json.loads(later.read_text())
    later.unlink()
    assert (catalog.tables.get(registered).schema.id, _columns(catalog)) == (0, ["id", "note"])
    document["fields"][2]["name"] = "other"
    later.write_text(json.dumps(document))
    assert (catalog.tables.get(registered).schema.id, _columns(catalog)) == (
        1,
        ["id", "note", "other"],
    )


def test_the_rules_of_changes_are_those_of_every_table(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    files = _schema_files(engine.place)
    for change, error in (
        (SetOption("path", str(engine.place)), Invalid),
        (SetOption("merge-engine", "aggregation"), Invalid),
        (DropPrimaryKey(), Invalid),
        (RenameColumn(("none",), "some"), NotFound),
    ):
        with pytest.raises(error):
            catalog.tables.alter(registered, [change])
    assert _schema_files(engine.place) == files


def test_a_file_that_is_no_schema_is_said_to_be(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    (engine.place / "schema" / "schema-1").write_text("{")
    for ask in (
        lambda: catalog.tables.get(registered),
        lambda: catalog.tables.alter(registered, [_add("amount")]),
    ):
        with pytest.raises(CorruptData, match="schema-1"):
            ask()
    assert (engine.place / "schema" / "schema-1").read_text() == "{"


def test_a_branch_is_told_by_its_files(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    with engine.table() as table:
        table.catalog.branches.create(THEIRS, "dev")
    engine.alter(_add("amount"))
    branch = Identifier("sales", "theirs$branch_dev")
    info = catalog.tables.get(branch)
    assert (info.identifier, info.id) == (branch, catalog.tables.get(registered).id)
    assert _columns(catalog, branch) == ["id", "note"]
    catalog.tables.alter(branch, [_add("price")])
    assert _columns(catalog, branch) == ["id", "note", "price"]
    assert _columns(catalog) == ["id", "note", "amount"]
    with pytest.raises(NotFound) as missing:
        catalog.tables.get(Identifier("sales", "theirs$branch_none"))
    assert missing.value.resource_type is ResourceType.TABLE


def test_a_branchs_name_does_not_lead_out_of_the_table(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    engine.create("other")
    place = engine.place.with_name("other")
    files = _schema_files(place)
    for name in ("x/../../../other", "../../../other"):
        outside = Identifier(registered.database, f"{registered.table}$branch_{name}")
        with pytest.raises(NotFound):
            catalog.tables.get(outside)
        with pytest.raises(NotFound):
            catalog.tables.alter(outside, [_add("amount")])
    assert _schema_files(place) == files


def test_a_new_table_has_its_first_schema_file(
    catalog: Catalog, orders_schema: Schema, tmp_path: Path
) -> None:
    catalog.databases.create("sales")
    place = tmp_path / "elsewhere"
    options = {**orders_schema.options, "path": str(place)}
    catalog.tables.create(NAME, replace(orders_schema, options=options))
    info = catalog.tables.get(NAME)
    assert _schema_files(place) == {"schema-0": info.schema.to_json()}
    # Whoever lost the file finds it again with the next change.
    (place / "schema" / "schema-0").unlink()
    assert catalog.tables.get(NAME).schema == info.schema
    catalog.tables.alter(NAME, [_add("price")])
    assert sorted(_schema_files(place)) == ["schema-0", "schema-1"]
    assert catalog.tables.get(NAME).schema.id == 1


def test_a_table_that_is_there_is_created_as_it_is(catalog: Catalog, engine: OtherEngine) -> None:
    catalog.databases.create("sales")
    engine.alter(_add("amount"))
    with engine.table() as table:
        theirs = table.schema
    files = _schema_files(engine.place)
    given = {**theirs.options, "path": str(engine.place)}
    catalog.tables.create(NAME, replace(theirs.to_schema(), options=given))
    assert catalog.tables.get(NAME).schema == theirs
    assert _schema_files(engine.place) == files
    other = Identifier("sales", "other")
    for asked in (
        replace(theirs.to_schema(), fields=theirs.fields[:2], options=given),
        replace(theirs.to_schema(), primary_keys=("note",), options=given),
        replace(theirs.to_schema(), options={**given, "mine": "yes"}),
    ):
        with pytest.raises(Invalid, match="the existing table"):
            catalog.tables.create(other, asked)
    with pytest.raises(NotFound):
        catalog.tables.get(other)


def test_a_name_that_is_taken_is_said_to_be_whatever_is_asked_for(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    asked = catalog.tables.get(registered).schema.to_schema()
    asked = replace(asked, options={**asked.options, "path": str(engine.place)})
    engine.alter(_add("amount"))
    nowhere = Schema(fields=(), options={"path": str(engine.place / "nothing")})
    for schema in (asked, nowhere):
        catalog.tables.create(registered, schema, ignore_if_exists=True)
        with pytest.raises(AlreadyExists) as taken:
            catalog.tables.create(registered, schema)
        assert taken.value.resource_type is ResourceType.TABLE
    assert _columns(catalog) == ["id", "note", "amount"]


def test_what_the_files_decide_is_not_the_catalogs(
    catalog: Catalog, registered: Identifier, engine: OtherEngine
) -> None:
    refused: list[Callable[[], object]] = [
        lambda: catalog.snapshots.latest(registered),
        lambda: catalog.snapshots.list(registered),
        lambda: catalog.snapshots.get(registered, "1"),
        lambda: catalog.snapshots.rollback_to_snapshot(registered, 1),
        lambda: catalog.snapshots.rollback_to_tag(registered, "v"),
        lambda: catalog.snapshots.rollback_schema(registered, 0),
        lambda: catalog.tags.create(registered, "v"),
        lambda: catalog.tags.list(registered),
        lambda: catalog.tags.delete(registered, "v"),
        lambda: catalog.consumers.list(registered),
        lambda: catalog.consumers.reset(registered, "c", 1),
        lambda: catalog.branches.create(registered, "b"),
        lambda: catalog.branches.list(registered),
        lambda: catalog.branches.drop(registered, "b"),
        lambda: catalog.partitions.list(registered),
        lambda: catalog.tables.replace(
            registered, catalog.tables.get(registered).schema.to_schema()
        ),
    ]
    for ask in refused:
        with pytest.raises(Unsupported, match="external"):
            ask()
    files = sorted(path.name for path in engine.place.rglob("*") if path.is_file())
    catalog.tables.rename(registered, Identifier("sales", "renamed"))
    assert _columns(catalog, Identifier("sales", "renamed")) == ["id", "note"]
    catalog.tables.drop(Identifier("sales", "renamed"))
    assert sorted(path.name for path in engine.place.rglob("*") if path.is_file()) == files
