"""Parts of a query that are equal: Spark knows them as equal, and computes them once."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import plan, rows
from tests.spark_sessions import calls_functions_here

from headwater.spark import SparkLake

pytestmark = pytest.mark.spark


@pytest.fixture
def sales(spark: SparkSession, lake: SparkLake) -> SparkLake:
    """A lake with a table of 100 rows in ten partitions; the database ``db`` is in use."""
    lake.sql("USE db")
    lake.sql(
        "CREATE TABLE sales (id BIGINT, day INT, amount INT) PARTITIONED BY (day) "
        "TBLPROPERTIES ('primary-key' = 'id,day', 'bucket' = '1')"
    )
    lake.write(spark.range(100).selectExpr("id", "id % 10 AS day", "id AS amount"), "db.sales")
    return lake


@pytest.mark.parametrize(
    "text",
    [
        "SELECT day IN (SELECT id FROM sales WHERE day < 3) AS few, count(*) FROM sales "
        "GROUP BY day IN (SELECT id FROM sales WHERE day < 3)",
        "SELECT amount > (SELECT avg(amount) FROM sales) AS large, count(*) FROM sales "
        "GROUP BY amount > (SELECT avg(amount) FROM sales)",
        "SELECT day, sum(amount) + (SELECT max(id) FROM v) AS total FROM v GROUP BY day, "
        "(SELECT max(id) FROM v) ORDER BY sum(amount) + (SELECT max(id) FROM v)",
    ],
)
def test_equal_subqueries_are_equal(spark: SparkSession, sales: SparkLake, text: str) -> None:
    sales.sql("CREATE VIEW v AS SELECT * FROM sales WHERE day > 5")
    spark.range(100).selectExpr(
        "id", "CAST(id % 10 AS INT) AS day", "CAST(id AS INT) AS amount"
    ).createOrReplaceTempView("plain_sales")
    plain = text.replace("sales", "plain_sales")
    plain = plain.replace("FROM v", "FROM (SELECT * FROM plain_sales WHERE day > 5)")
    try:
        assert rows(sales.sql(text)) == rows(spark.sql(plain))
    finally:
        spark.catalog.dropTempView("plain_sales")


@calls_functions_here
def test_equal_parts_are_computed_once(sales: SparkLake) -> None:
    day_sums = "(SELECT day, sum(amount) AS total FROM sales GROUP BY day)"
    joined = sales.sql(f"SELECT * FROM {day_sums} a JOIN {day_sums} b USING (day)")
    assert joined.count() == 10
    joined.collect()  # The plan of a query that ran shows what it took from another part.
    assert plan(joined).count("ReusedExchange") >= 1
    scalars = sales.sql(
        "SELECT id, (SELECT max(amount) FROM sales) AS m FROM sales "
        "WHERE amount < (SELECT max(amount) FROM sales)"
    )
    assert len(scalars.collect()) == 99
    assert "ReusedSubquery" in plan(scalars)


@calls_functions_here
def test_places_of_a_table_read_what_they_need_of_it(sales: SparkLake) -> None:
    joined = sales.sql(
        "SELECT * FROM sales a JOIN sales b ON a.amount = b.amount + 1 "
        "WHERE a.day = 4 AND b.day = 3"
    )
    assert [read.files for read in sales.last_query] == [1, 1]
    days = [str(read.where).partition("`day` = ")[2][:1] for read in sales.last_query]
    assert days == ["4", "3"]
    assert joined.count() == 10
