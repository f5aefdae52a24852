"""The choice of what runs a SQL statement."""

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import Numbered, rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound, Unsupported

pytestmark = pytest.mark.spark


def test_use_chooses_a_database(spark: SparkSession, lake: SparkLake) -> None:
    assert lake.sql("USE db;").columns == []
    with pytest.raises(NotFound, match="missing"):
        lake.sql("USE DATABASE missing")
    with pytest.raises(Invalid, match="where the end of the statement is expected"):
        lake.sql("USE db now")
    current = "SHOW CURRENT NAMESPACE"
    lake.sql("CREATE DATABASE `catalog`")
    for text, database in {
        "USE main.db": "db",
        "USE NAMESPACE main.db": "db",
        "USE catalog": "catalog",
        "USE main": None,
    }.items():
        lake.sql(text)
        assert rows(lake.sql(current)) == [("main", database)]
    lake.sql("CREATE DATABASE default")
    lake.sql("SET CATALOG main")
    assert rows(lake.sql(current)) == [("main", "default")]
    with pytest.raises(Unsupported, match="catalog 'other' is not the warehouse"):
        lake.sql("USE CATALOG other")
    assert rows(lake.sql("SHOW CATALOGS LIKE 'm*'")) == [("main",)]


def test_a_query_reads_tables_of_the_database_in_use(
    spark: SparkSession, lake: SparkLake, numbered: Numbered
) -> None:
    lake.create_table("db.t", numbered(0, 1).schema)
    lake.write(numbered(0, 10).coalesce(1), "db.t")
    lake.sql("USE db")
    frame = lake.sql("SELECT count(*), max(t.name) FROM t JOIN db.t AS u USING (id)")
    assert rows(frame) == [(10, "first-9")]


def test_texts_that_are_no_statement_are_refused(spark: SparkSession, lake: SparkLake) -> None:
    with pytest.raises(Invalid, match="there are 2"):
        lake.sql("USE db; USE db")
    with pytest.raises(Unsupported, match="FLY TO db"):
        lake.sql("FLY TO db")
