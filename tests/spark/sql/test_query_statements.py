"""Statements about queries: EXPLAIN, temporary views, caches, the session."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, Unsupported

pytestmark = [pytest.mark.spark, pytest.mark.modes]


def test_explain_tells_what_of_each_table_is_read(shop: SparkLake) -> None:
    query = "SELECT name FROM orders JOIN items i USING (id) WHERE part = '0' AND i.id < 5"
    [(text,)] = rows(shop.sql(f"EXPLAIN {query}"))
    assert "== Physical Plan ==" in str(text)
    tables = str(text).partition("== Tables ==\n")[2]
    assert tables.startswith("db.orders, snapshot 2\n  columns: id, name, part (3 of 3)\n")
    assert "condition: " in tables
    assert "files: 2 of 4 (0 by Spark's Parquet scan, 2 by Python workers)" in tables
    assert "rows: 20 of 40, before merging and filters" in tables
    assert "db.items, snapshot 2\n  columns: id (1 of 4)" in tables
    assert "rows: 10 of 20, before merging and filters" in tables
    assert "files: 1 of 2 (1 by Spark's Parquet scan, 0 by Python workers)" in tables
    assert "row groups: 2 of 2, by their statistics\ndb.items" in tables
    assert tables.endswith("row groups: 1 of 1, by their statistics\n")
    for mode, heading in (
        ("EXTENDED", "== Parsed Logical Plan =="),
        ("FORMATTED", "== Tables =="),
        ("COST", "== Optimized Logical Plan =="),
        ("CODEGEN", "WholeStageCodegen"),
    ):
        [(text,)] = rows(shop.sql(f"EXPLAIN {mode} SELECT id FROM items"))
        assert heading in str(text)


def test_describe_query_gives_its_columns(shop: SparkLake) -> None:
    expected = [("a", "string", None), ("id", "bigint", None)]
    assert rows(shop.sql("DESCRIBE QUERY SELECT id, name AS a FROM orders")) == expected
    assert rows(shop.sql("DESC SELECT id, name AS a FROM orders")) == expected


def test_temporary_views_hold_queries_over_the_lake(spark: SparkSession, shop: SparkLake) -> None:
    shop.sql("CREATE TEMPORARY VIEW cheap (item COMMENT 'its id', cost) AS "
             "SELECT id, price FROM items WHERE price < 3")  # fmt: skip
    try:
        assert rows(shop.sql("SELECT item, cost FROM cheap")) == [(0, 0.0), (1, 1.5)]
        assert rows(spark.sql("SELECT max(item) FROM cheap")) == [(1,)]
        with pytest.raises(AnalysisException, match="exists"):
            shop.sql("CREATE TEMP VIEW cheap AS SELECT 1")
        shop.sql("CREATE TEMP VIEW IF NOT EXISTS cheap AS SELECT 1")
        assert shop.sql("SELECT * FROM cheap").columns == ["item", "cost"]
        shop.sql("CREATE OR REPLACE TEMP VIEW cheap AS SELECT count(*) AS n FROM orders")
        assert rows(shop.sql("TABLE cheap")) == [(30,)]
        with pytest.raises(Invalid, match=r"temporary view db\.cheap: .* a name of one part"):
            shop.sql("CREATE TEMPORARY VIEW db.cheap AS SELECT 1")
        with pytest.raises(Invalid, match="2 columns are named"):
            shop.sql("CREATE OR REPLACE TEMP VIEW cheap (a, b) AS SELECT 1")
        shop.sql("CREATE GLOBAL TEMPORARY VIEW all_items AS SELECT id FROM items")
        assert rows(shop.sql("SELECT count(*) FROM global_temp.all_items")) == [(20,)]
    finally:
        spark.catalog.dropTempView("cheap")
        spark.catalog.dropGlobalTempView("all_items")


def test_cache_keeps_the_rows_of_a_query(spark: SparkSession, shop: SparkLake) -> None:
    shop.sql("CACHE LAZY TABLE kept AS SELECT id FROM items WHERE id < 4")
    try:
        assert spark.catalog.isCached("kept")
        assert rows(shop.sql("SELECT count(*) FROM kept")) == [(4,)]
        shop.sql("UNCACHE TABLE kept")
        assert not spark.catalog.isCached("kept")
    finally:
        spark.catalog.dropTempView("kept")


def test_statements_about_the_session_are_sparks(spark: SparkSession, shop: SparkLake) -> None:
    shop.sql("SET spark.headwater.test = 7")
    assert spark.conf.get("spark.headwater.test") == "7"
    shop.sql("RESET spark.headwater.test")
    assert spark.conf.get("spark.headwater.test", None) is None
    assert rows(shop.sql("SHOW FUNCTIONS LIKE 'abs'")) == [("abs",)]
    for key in ("spark.paimon.scan.snapshot-id", "spark.paimon.*.db.orders.scan.snapshot-id"):
        shop.sql(f"SET {key}=1")
        try:
            assert rows(shop.sql("SELECT name FROM orders WHERE id = 3")) == [("n3",)]
            assert rows(shop.sql(f"SET {key}")) == [(key, "1")]
        finally:
            shop.sql(f"RESET {key};")
    assert rows(shop.sql("SELECT name FROM orders WHERE id = 3")) == [("new",)]


def test_what_would_write_after_with_is_refused(shop: SparkLake) -> None:
    with pytest.raises(Unsupported, match="begin with"):
        shop.sql("WITH x AS (SELECT 1) UPDATE orders SET name = 'x'")
