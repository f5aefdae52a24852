"""The choice of what runs a SQL statement."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from tests.spark.conftest import Numbered, rows

from headwater.spark import SparkLake
from headwater.spark.session import is_connect
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


def test_the_database_default_is_in_use_from_the_beginning(lake: SparkLake) -> None:
    lake.catalog.create_database("default")
    lake.catalog.create_table("default.t", pa.schema([("id", pa.int32())]))
    assert rows(lake.sql("SELECT count(*) FROM t")) == [(0,)]
    assert rows(lake.sql("SHOW CURRENT NAMESPACE")) == [("main", "default")]
    lake.sql("USE db")
    with pytest.raises(NotFound, match=r"table db\.t does not exist"):
        lake.sql("SELECT count(*) FROM t")


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


@pytest.mark.modes
def test_any_name_may_stand_in_backquotes(lake: SparkLake) -> None:
    for text in (
        "CREATE DATABASE `my-d`",
        "CREATE TABLE `my-d`.`t 1` (`a b` INT, `select` STRING, `t``k` INT, `p.p` STRING) "
        "PARTITIONED BY (`p.p`)",
        "INSERT INTO `main`.`my-d`.`t 1` (`a b`, `select`, `t``k`, `p.p`) "
        "VALUES (1, 's', 3, 'u'), (2, 't', 4, 'v')",
        "UPDATE `my-d`.`t 1` SET `t``k` = `t``k` + 1, `a b` = 9 WHERE `select` = 's'",
        "DELETE FROM `my-d`.`t 1` WHERE `p.p` = 'v' AND `t``k` = 4",
        "MERGE INTO `my-d`.`t 1` AS `T-T` USING (SELECT 9 AS `k-k`) `s s` ON `T-T`.`a b` = "
        "`s s`.`k-k` WHEN MATCHED THEN UPDATE SET `T-T`.`select` = concat(`s s`.`k-k`, '!')",
        "CREATE VIEW `my-d`.`v-v` (`q q`) AS SELECT `t``k` FROM `t 1`",
        "CREATE FUNCTION `my-d`.`f-f`(`x x` INT) RETURNS INT RETURN `x x` + 1",
        "USE `my-d`",
        "CALL `sys`.`compact`(`table` => 'my-d.t 1')",
    ):
        lake.sql(text)
    read = (
        "SELECT `t 1`.`a b`, `my-d`.`t 1`.`select`, `p.p`, `f-f`(`t``k`), `t 1`.`__paimon_bucket` "
    )
    frame = lake.sql(read + "FROM `my-d`.`t 1` WHERE `p.p` = sys.max_pt('`t 1`')")
    assert rows(frame) == [(9, "9!", "u", 5, 0)]
    assert rows(lake.sql("SELECT `v-v`.`q q` FROM `v-v`")) == [(4,)]
    assert rows(lake.sql("SHOW PARTITIONS `t 1`")) == [("p.p=u",)]
    made = str(lake.sql("SHOW CREATE TABLE `t 1`").collect()[0][0])
    lake.sql(made.replace("`t 1`", "`t 2`"))
    assert lake.sql("DESCRIBE `t 2`").count() == lake.sql("DESCRIBE `t 1`").count()


@pytest.mark.spark
def test_times_are_in_the_zone_of_a_lakes_own_session(spark: SparkSession, lake: SparkLake) -> None:
    """Whichever session this thread used last."""
    if is_connect(spark):
        pytest.skip("a client of Spark Connect has one session")
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    noon = "TIMESTAMP '2026-01-01 12:00:00'"
    lake.sql("CREATE TABLE db.t (id INT, at TIMESTAMP)")
    lake.sql(f"INSERT INTO db.t VALUES (1, {noon}), (2, {noon} + INTERVAL 1 HOUR)")
    try:
        other.createDataFrame([(1,)], "id INT")
        assert rows(lake.sql(f"SELECT id FROM db.t WHERE at = {noon}")) == [(1,)]
        assert rows(lake.table("db.t", where=sf.expr(f"at > {noon}")).select("id")) == [(2,)]
        other.createDataFrame([(1,)], "id INT")
        lake.sql(f"DELETE FROM db.t WHERE at = {noon}")
        assert rows(lake.sql("SELECT id FROM db.t")) == [(2,)]
    finally:
        spark.createDataFrame([(1,)], "id INT")
