"""Collations: Spark's own in queries, rejected by name where a table would have to keep one."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.storage.errors import Unsupported

pytestmark = pytest.mark.spark

DEFINITIONS = [
    "CREATE TABLE db.x (a STRING COLLATE {c})",
    "CREATE TABLE db.x (a STRING COLLATE SYSTEM.BUILTIN.{c} NOT NULL)",
    "CREATE TABLE db.x (a INT, b VARCHAR(5) COLLATE {c} COMMENT 'x')",
    "CREATE TABLE db.x (a ARRAY<STRUCT<f: MAP<INT, STRING COLLATE {c}>>>)",
    "CREATE TABLE db.x (a STRING) COMMENT 'x' DEFAULT COLLATION {c} TBLPROPERTIES ('k' = 'v')",
    "CREATE TABLE db.x DEFAULT COLLATION {c} AS SELECT 'a' AS a",
    "CREATE OR REPLACE TABLE db.t (a STRING) DEFAULT COLLATION {c}",
    "ALTER TABLE db.t ADD COLUMNS (c STRING COLLATE {c})",
    "ALTER TABLE db.t ALTER COLUMN a TYPE STRING COLLATE {c}",
    "ALTER TABLE db.t DEFAULT COLLATION {c}",
    "CREATE VIEW db.x DEFAULT COLLATION {c} AS SELECT 'a' AS a",
    "CREATE DATABASE x COMMENT 'x' DEFAULT COLLATION {c}",
    "ALTER DATABASE db DEFAULT COLLATION {c}",
    "CREATE FUNCTION db.x(a STRING COLLATE {c}) RETURNS INT RETURN 1",
    "CREATE FUNCTION db.x(a INT) RETURNS STRING COLLATE {c} RETURN 'a'",
    "CREATE FUNCTION db.x(a INT) RETURNS INT DEFAULT COLLATION {c} RETURN 1",
]


@pytest.fixture
def lake(lake: SparkLake) -> SparkLake:
    """A lake with a table of two strings."""
    lake.sql("CREATE TABLE db.t (a STRING, n INT)")
    lake.sql("INSERT INTO db.t VALUES ('Ada', 1), ('ada', 2)")
    return lake


@pytest.mark.parametrize("text", DEFINITIONS)
def test_definitions_have_no_collation(lake: SparkLake, text: str) -> None:
    message = "UTF8_LCASE is not supported: Paimon's STRING has no collation"
    with pytest.raises(Unsupported, match=message):
        lake.sql(text.format(c="UTF8_LCASE"))


@pytest.mark.modes
def test_the_collation_of_tables_may_be_written(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE db.x (a STRING COLLATE utf8_binary NOT NULL) DEFAULT COLLATION UTF8_BINARY"
    )
    assert rows(lake.sql("DESCRIBE db.x")) == [("a", "string", None)]
    lake.sql("ALTER TABLE db.x DEFAULT COLLATION UTF8_BINARY")
    lake.sql("ALTER DATABASE db DEFAULT COLLATION UTF8_BINARY")


def test_queries_collate_as_sparks_do(spark: SparkSession, lake: SparkLake) -> None:
    lake.sql("SELECT * FROM db.t").createOrReplaceTempView("plain")
    lake.sql(
        "CREATE VIEW db.v AS SELECT a COLLATE UTF8_LCASE AS a, count(*) AS n FROM db.t "
        "GROUP BY a COLLATE UTF8_LCASE"
    )
    try:
        for query in (
            "SELECT n FROM {t} WHERE a COLLATE UTF8_LCASE = 'ADA'",
            "SELECT count(DISTINCT CAST(a AS STRING COLLATE UTF8_LCASE)) FROM {t}",
            "SELECT max(n) FROM {t} GROUP BY a COLLATE UNICODE_CI",
        ):
            ours, plain = (run.format(t=t) for run, t in ((query, "db.t"), (query, "plain")))
            assert rows(lake.sql(ours)) == rows(spark.sql(plain))
    finally:
        spark.catalog.dropTempView("plain")
    assert rows(lake.sql("SELECT n FROM db.v WHERE a = 'aDa'")) == [(2,)]


@pytest.mark.parametrize("column", ["a COLLATE UTF8_LCASE", "array(a COLLATE UTF8_LCASE)"])
def test_a_table_of_a_query_has_no_collation(lake: SparkLake, column: str) -> None:
    with pytest.raises(Unsupported, match="column 'c' has the collation UTF8_LCASE"):
        lake.sql(f"CREATE TABLE db.x AS SELECT {column} AS c FROM db.t")
    lake.sql(
        "CREATE TABLE db.x AS SELECT (a COLLATE UTF8_LCASE) COLLATE UTF8_BINARY AS c FROM db.t"
    )
    assert rows(lake.sql("SELECT count(*) FROM db.x WHERE c = 'ada'")) == [(1,)]
