"""Tables of the lake that follow a source's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.cdc.model.tables import SourceColumn, SourceTable, TableName
from headwater.cdc.sink.target_tables import check_existing, target_schema
from headwater.client import Lake, connect
from headwater.storage.errors import Invalid, NotFound
from headwater.storage.types.data_type import parse_type

ORDERS = SourceTable(
    TableName("shop", "orders"),
    (
        SourceColumn("id", "bigint(20) unsigned", parse_type("DECIMAL(20, 0) NOT NULL")),
        SourceColumn("note", "varchar(80)", parse_type("VARCHAR(80)"), comment="free text"),
    ),
    ("id",),
    "all orders",
)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(tmp_path / "lake") as lake:
        lake.create_database("copy")
        yield lake


def test_a_table_begins_with_the_columns_key_and_comments_of_the_source(lake: Lake) -> None:
    table = lake.create_table("copy.orders", target_schema(ORDERS, {"bucket": "1"}))
    assert [(field.name, str(field.type), field.description) for field in table.schema.fields] == [
        ("id", "DECIMAL(20, 0) NOT NULL", None),
        ("note", "VARCHAR(80)", "free text"),
    ]
    assert table.schema.primary_keys == ("id",)
    assert (table.schema.comment, table.schema.options["bucket"]) == ("all orders", "1")
    check_existing(lake, "copy.orders", ORDERS)


def test_an_existing_table_that_differs_is_rejected(lake: Lake) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("more", pa.string())])
    lake.create_table("copy.orders", schema)
    with pytest.raises(Invalid) as error:
        check_existing(lake, "copy.orders", ORDERS)
    for difference in (
        "column 'note' is missing",
        "column 'more' is not the source's",
        "column 'id' is BIGINT NOT NULL, and DECIMAL(20, 0) NOT NULL is needed",
        "its primary key is (), and (id) is needed",
    ):
        assert difference in error.value.message
    with pytest.raises(NotFound):
        check_existing(lake, "copy.nothing", ORDERS)


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"merge-engine": "aggregation"}, "merge-engine is aggregation, and deduplicate is needed"),
        ({"ignore-delete": "true"}, "ignore-delete keeps deleted rows"),
        ({"sequence.field": "note"}, "sequence.field is set"),
        ({"bucket": "2", "partition": "note"}, "its partition column 'note' is not in the primary"),
    ],
    ids=str,
)
def test_an_existing_table_that_drops_rows_is_rejected(
    lake: Lake, options: dict[str, str], difference: str
) -> None:
    lake.create_table("copy.orders", target_schema(ORDERS, options))
    for is_merged in (False, True):
        with pytest.raises(Invalid, match=difference):
            check_existing(lake, "copy.orders", ORDERS, is_merged=is_merged)
    other = {"bucket": "-1", "partition": "note", "changelog-producer": "lookup"}
    lake.create_table("copy.others", target_schema(ORDERS, other))
    check_existing(lake, "copy.others", ORDERS)
