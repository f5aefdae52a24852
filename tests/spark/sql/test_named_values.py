"""Frames and values that a statement names in braces."""

from __future__ import annotations

import datetime as dt

import pyspark.sql.functions as sf
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.spark.session import is_connect
from headwater.storage.errors import HeadwaterError, Invalid


@pytest.mark.spark
def test_frames_columns_and_constants_stand_where_they_are_named(
    spark: SparkSession, lake: SparkLake
) -> None:
    news = spark.createDataFrame([(1, "a"), (2, "it's"), (3, None)], "k INT, `an x` STRING")
    lake.sql("CREATE TABLE db.t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k')")
    lake.sql("INSERT INTO db.t SELECT * FROM {news} WHERE k < {least}", news=news, least=3)
    assert rows(lake.sql("SELECT * FROM db.t")) == [(1, "a"), (2, "it's")]
    lake.sql(
        "MERGE INTO db.t USING {news} AS news ON t.k = news.k "
        "WHEN MATCHED AND t.v = {v} THEN DELETE WHEN NOT MATCHED THEN INSERT *",
        news=news.withColumnRenamed("an x", "v"), v="it's",
    )  # fmt: skip
    kept = lake.sql(
        "SELECT n.{news.k}, {news[an x]}, t.v, '{{}}' FROM {news} AS n LEFT JOIN {old} AS t "
        "ON n.k = t.k WHERE n.k >= :least",
        {"least": 2}, news=news, old=lake.table("db.t"),
    )  # fmt: skip
    assert rows(kept) == [(2, "it's", None, "{}"), (3, None, None, "{}")]
    # A frame made of views that are gone is read, however often, and two have their own names.
    assert kept.count() == 2
    both = lake.sql("SELECT k FROM {a} EXCEPT SELECT k FROM {b}", a=news, b=news.where("k > 1"))
    assert rows(both) == [(1,)]


@pytest.mark.spark
@pytest.mark.modes
def test_what_the_user_cached_stays_cached(spark: SparkSession, lake: SparkLake) -> None:
    if is_connect(spark):
        pytest.skip("the server of Spark Connect drops views, and forgets what is cached with them")
    lake.sql("CREATE TABLE db.t AS SELECT id FROM range(3)")
    own, table = spark.range(5).cache(), lake.table("db.t").cache()
    assert own.count() + table.count() == 8
    joined = lake.sql("SELECT * FROM {own} JOIN db.t USING (id)", own=own)
    assert rows(joined) == rows(lake.sql("SELECT * FROM db.t")) == [(0,), (1,), (2,)]
    lake.sql("INSERT INTO db.t SELECT id FROM {table} WHERE id IN (SELECT id FROM {own})",
             own=own, table=table)  # fmt: skip
    assert own.storageLevel.useMemory
    assert table.storageLevel.useMemory
    own.unpersist()
    table.unpersist()


@pytest.mark.spark
def test_frames_of_other_sessions_may_be_named(spark: SparkSession, lake: SparkLake) -> None:
    if is_connect(spark):
        pytest.skip("a frame belongs to its session on the server")
    other = spark.newSession()
    before = other.catalog.listTables()
    lake.sql("CREATE TABLE db.t AS SELECT id FROM {news}", news=other.range(3))
    assert rows(lake.sql("SELECT id FROM db.t JOIN {own} USING (id)", own=other.range(2))) == [
        (0,),
        (1,),
    ]
    assert other.catalog.listTables() == before


@pytest.mark.spark
@pytest.mark.modes
def test_no_view_stays(spark: SparkSession, lake: SparkLake) -> None:
    if is_connect(spark):
        pytest.skip("the server of Spark Connect reads the text again")
    before = spark.catalog.listTables()
    assert lake.sql("SELECT * FROM {f}", f=spark.range(3)).count() == 3
    assert spark.catalog.listTables() == before


@pytest.mark.spark
@pytest.mark.modes
def test_names_are_those_that_spark_gives(spark: SparkSession, lake: SparkLake) -> None:
    frame = spark.createDataFrame([(1, 4), (2, 4), (3, 6)], ["A", "a.b"])
    for text, values in (
        ("SELECT * FROM {f} WHERE {f.A} > 1", {"f": frame}),
        ("SELECT {x}, {f[`a.b`]} FROM {f}", {"f": frame, "x": sf.col("A")}),
        ("SELECT {n:.2f}, {n!r}, {s}, {d!s:.4} FROM {f}",
         {"f": frame, "n": 1.5, "s": "\\ ' \"", "d": dt.date(2024, 1, 1)}),
        ("WITH f AS (SELECT 9 AS A) SELECT * FROM f, {f} AS g", {"f": frame}),
    ):  # fmt: skip
        assert rows(lake.sql(text, **values)) == rows(spark.sql(text, **values))


@pytest.mark.spark
@pytest.mark.modes
def test_what_does_not_match_is_refused_and_no_view_stays(
    spark: SparkSession, lake: SparkLake
) -> None:
    frame = spark.range(3)
    before = spark.catalog.listTables()
    for text, values, says in (
        ("SELECT * FROM {other}", {"f": frame}, r"the statement names \{other\}, which has no"),
        ("SELECT * FROM {f}", {"f": frame, "n": 5}, r"n has a value, .* does not name it: \{n\}"),
        ("SELECT * FROM {}", {"f": frame}, r"has \{\} without a name"),
        ("SELECT * FROM {0}", {"f": frame}, r"has \{\} without a name"),
        ("SELECT * FROM {f", {"f": frame}, "the values in braces of the statement: "),
        ("SELECT {f.nope} FROM {f}", {"f": frame}, "nope"),
        ("SELECT {x} FROM {f}", {"f": frame, "x": sf.col("id") + 1}, r"\{x\} is a computed"),
        ("CREATE VIEW db.v AS SELECT * FROM {f}", {"f": frame}, "temporary view"),
    ):
        with pytest.raises((Invalid, AnalysisException, HeadwaterError), match=says):
            lake.sql(text, **values)
    with pytest.raises(AnalysisException, match="nope") as raised:
        lake.sql("SELECT nope FROM {f}", f=frame)
    assert "_pyspark_" not in str(raised.value)
    assert spark.catalog.listTables() == before
