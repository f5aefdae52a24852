"""The lake's methods, embedded and served alike; what is wrong with a request is told."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.client import Lake, connect
from headwater.storage.errors import (
    AlreadyExists,
    CorruptData,
    HeadwaterError,
    Invalid,
    NotFound,
    ResourceType,
    Unsupported,
)
from headwater.storage.schema.change import AddColumn, DropColumn, SetOption
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField

SCHEMA = pa.schema([("order_id", pa.int64()), ("dt", pa.string()), ("amount", pa.int32())])


@pytest.fixture(params=["embedded", "served"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with connect(tmp_path / "lake") as embedded:
        if request.param == "embedded":
            yield embedded
            return
        serve: Callable[..., str] = request.getfixturevalue("serve")
        with connect(serve(embedded.catalog)) as served:
            yield served


@pytest.fixture
def orders(lake: Lake) -> str:
    """A primary-key table with three rows."""
    lake.create_database("sales")
    table = lake.create_table(
        "sales.orders",
        SCHEMA,
        primary_keys=["dt", "order_id"],
        partition_keys=["dt"],
        options={"bucket": "2"},
        comment="One row for each order.",
    )
    table.write(_rows([1, 2, 3], ["a", "a", "b"], [10, 20, 30]))
    return "sales.orders"


def test_a_table_that_could_not_be_written_is_created_for_another_engine_alone(
    lake: Lake,
) -> None:
    lake.create_database("sales")
    blob = DataField(1, "picture", AtomicType(Root.BLOB))
    keyed: dict[str, Any] = {"primary_keys": ["order_id"]}
    refused: list[tuple[str, pa.Schema | Schema, dict[str, Any]]] = [
        ("metadata.iceberg.storage=table-location", SCHEMA,
         keyed | {"options": {"bucket": "1", "metadata.iceberg.storage": "table-location"}}),
        ("file.format=csv", SCHEMA, {"options": {"file.format": "csv"}}),
        ("no codec 'lzo'", SCHEMA,
         {"options": {"file.format": "avro", "file.compression": "lzo"}}),
        ("Avro files cannot hold a field called 'a b'", pa.schema([("a b", pa.int32())]),
         {"options": {"file.format": "avro"}}),
        ("Avro files hold TIMESTAMP with 6", pa.schema([("at", pa.timestamp("ns"))]),
         {"options": {"file.format": "avro"}}),
        ("type=format-table", SCHEMA, {"options": {"type": "format-table"}}),
        ("blob-view-field", Schema((DataField(0, "id", AtomicType(Root.INT)), blob)),
         {"options": {"row-tracking.enabled": "true", "data-evolution.enabled": "true",
                      "blob-view-field": "picture"}}),
    ]  # fmt: skip
    for number, (word, schema, arguments) in enumerate(refused):
        name = f"sales.t{number}"
        with pytest.raises(Unsupported, match=f"{word}.*for_another_engine=True"):
            lake.create_table(name, schema, **arguments)
        assert not lake.table_exists(name)
        table = lake.create_table(name, schema, for_another_engine=True, **arguments)
        assert table.name == name
    with pytest.raises(Unsupported, match=r"metadata\.iceberg\.storage"):
        lake.table("sales.t0").write(_rows([1], ["a"], [1]))


def test_a_table_is_replaced_by_what_can_be_written_or_for_another_engine(
    lake: Lake, orders: str
) -> None:
    before = lake.table(orders)
    assert before.scan().count() == 3
    unwritable: dict[str, Any] = {"partition_keys": ["dt"], "options": {"file.format": "csv"}}
    with pytest.raises(Unsupported, match=r"file.format=csv.*for_another_engine=True"):
        lake.replace_table(orders, SCHEMA, **unwritable)
    with pytest.raises(Invalid, match=r"must be a pyarrow.Schema, not dict"):
        lake.replace_table(orders, {})
    assert lake.table(orders).scan().count() == 3
    table = lake.replace_table(orders, SCHEMA, partition_keys=["dt"], comment="anew")
    assert (table.info.id, table.schema.comment) == (before.info.id, "anew")
    assert table.schema.primary_keys == ()
    table.write(_rows([1, 1], ["a", "a"], [10, 20]))
    assert table.scan().count() == 2
    table = lake.replace_table(orders, SCHEMA, for_another_engine=True, **unwritable)
    assert table.schema.options["file.format"] == "csv"
    with pytest.raises(Unsupported, match=r"file\.format=csv"):
        table.write(_rows([1], ["a"], [10]))


def test_an_alteration_names_changes(lake: Lake, orders: str) -> None:
    table = lake.table(orders)
    for changes in ([], ["ADD COLUMN x INT"], [SetOption("a", "b"), None]):
        for alter in (table.alter, lambda *given: lake.alter_table(orders, *given)):
            with pytest.raises(Invalid, match="schema change"):
                alter(*changes)
    assert lake.table(orders).schema.id == 0
    assert table.alter(SetOption("bucket", "2")).schema.id == 0


def _rows(ids: list[int], dts: list[str], amounts: list[int]) -> pa.Table:
    return pa.table({"order_id": ids, "dt": dts, "amount": amounts}, schema=SCHEMA)


def _amounts(lake: Lake, name: str) -> dict[int, int]:
    read = lake.table(name).scan(columns=["order_id", "amount"]).to_arrow()
    return dict(zip(read["order_id"].to_pylist(), read["amount"].to_pylist(), strict=True))


def test_databases_live(lake: Lake) -> None:
    lake.create_database("sales", {"a": "1", "b": "2"})
    lake.create_database("sales", ignore_if_exists=True)
    with pytest.raises(AlreadyExists):
        lake.create_database("sales")
    lake.alter_database("sales", updates={"c": "3"}, removals=["a"])
    assert dict(lake.get_database("sales").options) == {"b": "2", "c": "3"}
    lake.create_table("sales.orders", SCHEMA)
    with pytest.raises(Invalid, match=r"sales\.orders"):
        lake.drop_database("sales")
    lake.drop_database("sales", cascade=True)
    assert lake.list_databases() == []
    lake.drop_database("sales", ignore_if_not_exists=True)
    with pytest.raises(NotFound) as error:
        lake.drop_database("sales")
    assert error.value.resource_type is ResourceType.DATABASE


def test_listings_are_whole(lake: Lake) -> None:
    for number in range(103):
        lake.create_database(f"d{number:03}")
    assert lake.list_databases() == [f"d{number:03}" for number in range(103)]
    assert lake.list_databases("d10%") == ["d100", "d101", "d102"]
    schema = Schema.from_arrow(SCHEMA)
    lake.create_table("d000.b", schema)
    lake.create_table("d000.a", schema)
    assert (lake.list_tables("d000"), lake.list_tables("d000", "b%")) == (["a", "b"], ["b"])


def test_a_table_lives(lake: Lake, orders: str) -> None:
    table = lake.table(orders)
    assert table.schema.primary_keys == ("dt", "order_id")
    assert table.schema.partition_keys == ("dt",)
    assert table.schema.comment == "One row for each order."
    assert lake.table_exists(orders)
    table.write(_rows([2, 4], ["a", "b"], [21, 40]))
    assert _amounts(lake, orders) == {1: 10, 2: 21, 3: 30, 4: 40}
    same = lake.create_table(orders, SCHEMA, ignore_if_exists=True)
    assert same.schema.primary_keys == ("dt", "order_id")
    with pytest.raises(AlreadyExists):
        lake.create_table(orders, SCHEMA)
    lake.create_database("archive")
    lake.rename_table(orders, "archive.old")
    assert not lake.table_exists(orders)
    assert _amounts(lake, "archive.old") == {1: 10, 2: 21, 3: 30, 4: 40}
    altered = lake.alter_table(
        "archive.old", AddColumn(("note",), AtomicType(Root.INT)), SetOption("write-only", "true")
    )
    assert [item.name for item in altered.schema.fields] == ["order_id", "dt", "amount", "note"]
    lake.drop_table("archive.old")
    lake.drop_table("archive.old", ignore_if_not_exists=True)
    with pytest.raises(NotFound) as error:
        lake.drop_table("archive.old")
    assert error.value.resource_type is ResourceType.TABLE


def test_headwaters_own_schema_is_taken_too(lake: Lake) -> None:
    lake.create_database("sales")
    schema = Schema.from_arrow(SCHEMA, primary_keys=["order_id"], options={"bucket": "1"})
    table = lake.create_table("sales.t", schema, options={"bucket": "3"}, comment="c")
    assert table.schema.primary_keys == ("order_id",)
    assert dict(table.schema.options) == {"bucket": "3"}
    assert table.schema.comment == "c"


@pytest.mark.parametrize("name", ["orders", "", ".", "a.", ".b", "sales."])
def test_a_name_without_a_database_is_refused(lake: Lake, name: str) -> None:
    for call in (lake.table, lake.table_exists, lake.drop_table, lake.alter_table):
        with pytest.raises(Invalid, match=r"database\.table"):
            call(name)


def test_what_is_not_there_is_told(lake: Lake, orders: str) -> None:
    def kind(call: Callable[[], object]) -> tuple[ResourceType | None, str | None]:
        with pytest.raises(NotFound) as error:
            call()
        return error.value.resource_type, error.value.resource_name

    table = lake.table(orders)
    assert kind(lambda: lake.table("sales.no")) == (ResourceType.TABLE, "sales.no")
    assert kind(lambda: lake.table("no.no")) == (ResourceType.TABLE, "no.no")
    assert kind(lambda: lake.list_tables("no")) == (ResourceType.DATABASE, "no")
    assert kind(lambda: lake.create_table("no.t", SCHEMA)) == (ResourceType.DATABASE, "no")
    assert kind(lambda: table.scan(columns=["no"]).to_arrow()) == (ResourceType.COLUMN, "no")
    assert kind(lambda: table.scan(where="no = 1").to_arrow()) == (ResourceType.COLUMN, "no")
    assert kind(lambda: lake.alter_table(orders, DropColumn(("no",)))) == (
        ResourceType.COLUMN,
        "no",
    )
    assert kind(lambda: table.scan(snapshot_id=9).to_arrow())[0] is ResourceType.SNAPSHOT
    assert kind(lambda: table.scan(tag="no").to_arrow())[0] is ResourceType.TAG
    assert not lake.table_exists("no.no")


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ({"order_id": [None], "dt": ["a"], "amount": [1]}, "order_id"),
        ({"order_id": [1], "dt": [None], "amount": [1]}, "dt"),
        ({"order_id": ["one"], "dt": ["a"], "amount": [1]}, "order_id"),
        ({"order_id": [1], "dt": ["a"], "amount": [2**40]}, "amount"),
        ({"order_id": [1], "dt": ["a"], "amount": [1], "extra": [1]}, "extra"),
        ({"order_id": [1], "amount": [1]}, "dt"),
    ],
)
def test_data_that_does_not_fit_changes_nothing(
    lake: Lake, orders: str, data: dict[str, list[object]], word: str
) -> None:
    table = lake.table(orders)
    with pytest.raises(HeadwaterError, match=word):
        table.write(pa.table(data))
    assert len(table.snapshots()) == 1
    assert _amounts(lake, orders) == {1: 10, 2: 20, 3: 30}


def test_a_schema_that_is_not_allowed_makes_no_table(lake: Lake) -> None:
    lake.create_database("sales")
    for schema, arguments in (
        (pa.schema([]), {}),
        (SCHEMA, {"primary_keys": ["no"]}),
        (SCHEMA, {"partition_keys": ["no"]}),
        (SCHEMA, {"options": {"bucket": "many"}}),
        ({"order_id": "int"}, {}),
    ):
        with pytest.raises((Invalid, NotFound)):
            lake.create_table("sales.t", schema, **arguments)
    with pytest.raises(Unsupported, match="uint64"):
        lake.create_table("sales.t", pa.schema([("a", pa.uint64())]))
    assert lake.list_tables("sales") == []


@pytest.mark.parametrize("what", ["data", "manifest"])
@pytest.mark.parametrize("how", ["missing", "truncated"])
def test_a_damaged_file_is_named(lake: Lake, orders: str, what: str, how: str) -> None:
    table = lake.table(orders)
    directory = Path(table.info.path.removeprefix("file://"))
    pattern = "dt=a/bucket-*/data-*" if what == "data" else "manifest/manifest-list-*"
    damaged = sorted(directory.glob(pattern))
    for file in damaged:
        if how == "missing":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(CorruptData) as error:
        lake.table(orders).scan().to_arrow()
    assert any(file.name in error.value.message for file in damaged)


def test_a_served_lake_pickles(tmp_path: Path, serve: Callable[..., str]) -> None:
    with connect(tmp_path) as embedded, connect(serve(embedded.catalog)) as lake:
        lake.create_database("sales")
        lake.create_table("sales.t", SCHEMA).write(_rows([1], ["a"], [1]))
        copy = pickle.loads(pickle.dumps(lake))
        assert isinstance(copy, Lake)
        assert copy.table("sales.t").scan().count() == 1
        copy.close()
