"""Names in statements that differ in case from the names of the catalog."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from headwater.spark import SparkLake
from headwater.storage.errors import AlreadyExists, HeadwaterError, Invalid, NotFound

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int32())])


@pytest.fixture
def shop(lake: SparkLake) -> Iterator[SparkLake]:
    """A database with capitals, in use, and a table, a view and a function in it."""
    lake.catalog.create_database("Shop")
    lake.catalog.create_table("Shop.Orders", SCHEMA).write(pa.table({"id": [1, 2]}, SCHEMA))
    lake.sql("USE Shop")
    lake.sql("CREATE VIEW Large AS SELECT id FROM Orders WHERE id > 1")
    lake.sql("CREATE FUNCTION Twice(n INT) RETURN 2 * n")
    yield lake
    lake.spark.conf.unset("spark.sql.caseSensitive")


def values(lake: SparkLake, text: str) -> list[object]:
    return [row[0] for row in lake.sql(text).collect()]


def test_queries_find_names_in_any_case(shop: SparkLake) -> None:
    assert values(shop, "SELECT ORDERS.id FROM orders ORDER BY Orders.ID") == [1, 2]
    assert values(shop, "SELECT shop.orders.id FROM SHOP.ORDERS WHERE id IN (TABLE large)") == [2]
    assert values(shop, "SELECT twice(id) + SHOP.TWICE(id) FROM Orders WHERE id = 1") == [4]
    assert values(shop, "SELECT count(*) FROM `orders$SNAPSHOTS`") == [1]
    assert values(shop, "TABLE large UNION ALL (TABLE shop.LARGE) ORDER BY id") == [2, 2]


def test_statements_find_names_in_any_case(shop: SparkLake) -> None:
    shop.sql("INSERT INTO shop.ORDERS VALUES (3)")
    shop.sql("UPDATE orders SET id = orders.id + 10 WHERE shop.orders.id = 3")
    shop.sql("ALTER TABLE orders ADD COLUMN note STRING")
    assert values(shop, "SELECT id FROM Orders ORDER BY id") == [1, 2, 13]
    assert "note" in values(shop, "DESCRIBE orders")
    with pytest.raises(AlreadyExists):
        shop.sql("CREATE TABLE orders (id INT)")
    shop.sql("DROP VIEW LARGE")
    shop.sql("DROP FUNCTION twice")
    shop.sql("CALL sys.create_tag('ORDERS', 'v1')")
    shop.sql("DROP TABLE orders")
    assert shop.catalog.list_tables("Shop") == []


def test_names_that_differ_in_case_only_are_not_mixed_up(shop: SparkLake) -> None:
    shop.spark.conf.set("spark.sql.caseSensitive", "true")
    shop.sql("CREATE TABLE ORDERS (id INT)")
    with pytest.raises((AnalysisException, NotFound)):
        shop.sql("SELECT * FROM orders")
    with pytest.raises(HeadwaterError):
        shop.sql("DELETE FROM orders")
    shop.spark.conf.unset("spark.sql.caseSensitive")
    assert values(shop, "SELECT count(*) FROM Orders") == [2]
    assert values(shop, "SELECT count(*) FROM ORDERS") == [0]
    with pytest.raises(Invalid, match="'orders' may be any of ORDERS, Orders, which differ in"):
        shop.sql("SELECT * FROM orders")
    with pytest.raises(Invalid, match="'orders' may be any of ORDERS, Orders"):
        shop.sql("DROP TABLE orders")
