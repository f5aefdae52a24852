"""A lake that the suites of queries read, made once."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headwater.catalog.model.column import Column
from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewSchema
from headwater.spark import SparkLake, connect


@pytest.fixture(scope="package")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkLake:
    """Orders (a primary key, three snapshots, files to merge), items (append), and views."""
    lake = connect(spark, tmp_path_factory.mktemp("shop"))
    for database in ("db", "other"):
        lake.catalog.create_database(database)
    orders = spark.range(0, 30).selectExpr(
        "id", "concat('n', id) AS name", "CAST(id % 3 AS STRING) AS part"
    )
    lake.create_table(
        "db.orders",
        orders.schema,
        primary_keys=["part", "id"],
        partition_keys=["part"],
        options={"bucket": "1"},
    )
    lake.write(orders, "db.orders")
    lake.catalog.table("db.orders").create_tag("first", snapshot_id=1)
    lake.write(orders.where("part = '0'").selectExpr("id", "'new' AS name", "part"), "db.orders")
    items = spark.range(0, 20).selectExpr(
        "id",
        "id % 10 AS order_id",
        "id * 1.5D AS price",
        "date_add(DATE'2026-01-01', CAST(id AS INT)) AS day",
    )
    lake.create_table("db.items", items.schema)
    lake.write(items.where("id < 10").coalesce(1), "db.items")
    lake.write(items.where("id >= 10").coalesce(1), "db.items")
    lake.create_table("other.orders", items.schema)
    lake.write(items.where("id < 2"), "other.orders")
    views = lake.catalog.catalog.views

    def view(name: str, query: str, *columns: tuple[str, str]) -> None:
        listed = tuple(Column(at, label, kind) for at, (label, kind) in enumerate(columns))
        views.create(Identifier("db", name), ViewSchema(listed, query))

    names = ("number", "BIGINT"), ("label", "STRING")
    view("named", "WITH o AS (SELECT id, name FROM orders) SELECT * FROM o", *names)
    view("nested", "SELECT number FROM named WHERE number < 5", ("number", "BIGINT"))
    view("circle", "SELECT * FROM back")
    view("back", "SELECT * FROM circle")
    lake.sql("USE db")
    return lake
