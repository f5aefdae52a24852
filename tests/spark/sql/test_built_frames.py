"""Frames that functions make of tables read what queries read."""

from __future__ import annotations

import itertools

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from tests.spark.conftest import rows
from tests.spark_sessions import kind_of_session

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound, Unsupported

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        kind_of_session() == "connect", reason="Spark Connect shows no plans: everything is read"
    ),
]


def read(lake: SparkLake) -> list[tuple[str, int, int]]:
    """The columns, files, and files of the whole table of each place of the last query."""
    return [(",".join(each.columns), each.files, each.files_of_table) for each in lake.last_query]


def test_filters_on_frames_leave_out_columns_and_files(shop: SparkLake) -> None:
    found = shop.query(lambda t: t.where(sf.col("part") == "1").select("name"), "db.orders")
    assert read(shop) == [("name,part", 1, 4)]
    assert rows(found) == rows(shop.sql("SELECT name FROM db.orders WHERE part = '1'"))

    def joined(items: DataFrame, orders: DataFrame) -> DataFrame:
        cheap = items.where(items.id < 3).select("order_id")
        return orders.where("part <> '0'").join(cheap, orders.id == cheap.order_id).select("name")

    found = shop.query(joined, "db.items", "db.orders")
    assert read(shop) == [("id,order_id", 1, 2), ("id,name,part", 2, 4)]
    text = (
        "SELECT name FROM db.orders o JOIN db.items i ON o.id = i.order_id "
        "WHERE i.id < 3 AND part <> '0'"
    )
    assert rows(found) == rows(shop.sql(text))
    in_bucket = shop.query(
        lambda t: t.where("__paimon_bucket > 0 AND part = '1'").select("id"),
        "db.orders",
        metadata_columns=["__paimon_bucket"],
    )
    assert read(shop) == [("id,part,__paimon_bucket", 0, 4)]
    assert rows(in_bucket) == []


@pytest.mark.modes
def test_a_condition_may_be_a_column(shop: SparkLake) -> None:
    found = shop.table("db.items", ["price", "day"], sf.col("id") == 3)
    assert read(shop) == [("id,price,day", 1, 2)]
    assert found.columns == ["price", "day"]
    assert rows(found) == rows(shop.table("db.items", ["price", "day"], "id = 3"))
    at = shop.table("db.orders", ["id", "__paimon_bucket"], sf.col("__paimon_bucket") == 0)
    assert at.columns == ["id", "__paimon_bucket"]
    assert at.count() == shop.table("db.orders").count()
    shop.sql("CREATE TABLE db.kept (x INT) TBLPROPERTIES ('row-tracking.enabled' = 'true')")
    shop.catalog.table("db.kept").write({"x": [7, 8]})
    assert rows(shop.table("db.kept", ["_ROW_ID"], sf.col("x") > 7)) == [(1,)]
    shop.sql("DROP TABLE db.kept")
    with pytest.raises(NotFound, match="none"):
        shop.table("db.items", ["none"], sf.col("id") == 3)


@pytest.mark.modes
def test_what_differs_between_calls_leaves_out_nothing(shop: SparkLake) -> None:
    numbers = itertools.count(1)
    found = shop.query(lambda t: t.where(f"id = {next(numbers)}").select("id"), "db.items")
    assert read(shop) == [("id,order_id,price,day", 2, 2)]
    assert rows(found) == [(3,)]
    shop.query(lambda t: t.where("day < current_date() AND id = 3").select("id"), "db.items")
    assert read(shop) == [("id,day", 2, 2)]


def test_a_function_makes_a_frame_and_runs_none(shop: SparkLake) -> None:
    with pytest.raises(Invalid, match="may not run the frames"):
        shop.query(lambda t: t.where(sf.col("id") > t.count()), "db.items")
    with pytest.raises(Invalid, match="must give a DataFrame, and gave int"):
        shop.query(lambda t: 1, "db.items")  # type: ignore[arg-type, return-value]
    with pytest.raises(NotFound, match=r"db\.none"):
        shop.query(lambda t: t, "db.none")
    shop.sql("CREATE VIEW db.of_items AS SELECT 1 AS one")
    with pytest.raises(Unsupported, match="is a view"):
        shop.query(lambda t: t, "db.of_items")
    shop.sql("DROP VIEW db.of_items")
