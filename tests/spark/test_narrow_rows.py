"""Writes whose batches Spark does not measure take rows of any width all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.udtf import UserDefinedTableFunction
from tests.spark.conftest import Numbered, data_files, named_files, rows
from tests.spark_sessions import kind_of_session

from headwater.spark import SparkLake
from headwater.spark.write.narrow_rows import with_wide_marked
from headwater.storage.errors import Invalid

pytestmark = pytest.mark.spark

KEYED = (
    "CREATE TABLE db.t (id BIGINT NOT NULL, name STRING, part STRING) "
    "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"
)


def upper(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


classic = pytest.mark.skipif(
    kind_of_session() == "connect", reason="Spark Connect has no copies of sessions"
)


class Twice:
    def eval(self, number: int) -> Iterator[tuple[int]]:
        yield (2 * number,)


twice = UserDefinedTableFunction(Twice, returnType="twice BIGINT")


def marked(df: DataFrame) -> DataFrame:
    found = with_wide_marked(df)
    assert found is not None
    return found


@classic
def test_wide_rows_are_marked_and_their_values_left_out(spark: SparkSession) -> None:
    texts = spark.range(0, 4).select(
        "id",
        sf.expr("IF(id = 2, repeat('é', 20000), 'short')").alias("a.b"),
        sf.expr("IF(id = 3, CAST(repeat('x', 40000) AS BINARY), NULL)").alias("bytes"),
        sf.expr("IF(id = 1, sequence(1, 3000), array())").alias("numbers"),
    )
    found = [tuple(row) for row in marked(texts).orderBy("id").collect()]
    assert found == [
        (0, "short", None, [], False),
        (1, None, None, None, True),
        (2, None, None, None, True),
        (3, None, None, None, True),
    ]


@classic
@pytest.mark.parametrize(
    "change",
    [
        lambda df: df.mapInArrow(upper, df.schema),
        lambda df: df.withColumn("name", sf.array("name")),
        lambda df: df.localCheckpoint(),
        lambda df: df.toDF("id", "name", "NAME"),
        lambda df: df.withColumn("_headwater_wide", sf.lit(True)),
        lambda df: df.lateralJoin(twice(sf.col("id").outer())),
        lambda df: df.where(sf.udf(lambda name: name != "x", "boolean")("name")),
    ],
    ids=[
        "function",
        "list of text",
        "rows of elsewhere",
        "alike names",
        "the mark",
        "table function",
        "udf",
    ],
)
def test_spark_measures_where_rows_may_be_wide_unseen(numbered: Numbered, change: object) -> None:
    assert callable(change)
    assert with_wide_marked(change(numbered(0, 5))) is None


@classic
def test_the_limit_of_a_user_holds(spark: SparkSession, numbered: Numbered) -> None:
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    spark.conf.set(name, "1000000")
    try:
        assert with_wide_marked(numbered(0, 5)) is None
    finally:
        spark.conf.unset(name)
    assert with_wide_marked(numbered(0, 5)) is not None


def test_who_observes_the_rows_is_told(lake: SparkLake, numbered: Numbered) -> None:
    lake.sql(KEYED)
    seen = Observation()
    lake.write(numbered(0, 20).observe(seen, sf.count("*").alias("rows")), "db.t")
    assert seen.get["rows"] >= 20


@pytest.mark.modes
@classic
def test_tables_are_rows_whose_width_is_seen(lake: SparkLake, numbered: Numbered) -> None:
    lake.sql(KEYED)
    for start in (0, 5):
        lake.write(numbered(start, start + 10), "db.t")
    assert with_wide_marked(lake.table("db.t")) is not None


def test_a_write_with_a_wide_row_is_written_once(
    lake: SparkLake, numbered: Numbered, folder: Path
) -> None:
    lake.sql(KEYED)
    wide = sf.expr("IF(id = 77, repeat(name, 10000), name)")
    frame = numbered(0, 100).withColumn("name", wide)
    lake.write(frame, "db.t")
    assert rows(lake.table("db.t")) == rows(frame)
    assert len(lake.catalog.table("db.t").snapshots()) == 1
    # What the first tasks had written is gone.
    assert data_files(folder) == named_files(lake, "db.t")


@pytest.mark.modes
def test_rows_change_beside_wide_ones(lake: SparkLake, numbered: Numbered) -> None:
    lake.sql("CREATE TABLE db.t (id BIGINT, name STRING, part STRING)")
    wide = sf.expr("IF(id % 10 = 7, repeat(name, 10000), name)")
    frame = numbered(0, 40).withColumn("name", wide)
    lake.write(frame, "db.t")
    lake.sql("UPDATE db.t SET part = 'new' WHERE id >= 30")
    lake.sql("DELETE FROM db.t WHERE id = 17")
    part = sf.expr("IF(id >= 30, 'new', part)")
    assert rows(lake.table("db.t")) == rows(frame.where("id != 17").withColumn("part", part))


@pytest.mark.modes
def test_what_is_wrong_with_a_wide_row_is_named(
    lake: SparkLake, numbered: Numbered, folder: Path
) -> None:
    lake.sql(KEYED)
    frame = numbered(0, 10).withColumn("name", sf.expr("repeat(name, 10000)"))
    with pytest.raises(Invalid, match="'id' is NOT NULL, but 1 of"):
        lake.write(frame.withColumn("id", sf.expr("nullif(id, 3)")), "db.t")
    assert data_files(folder) == []


@pytest.mark.modes
def test_a_column_may_have_the_name_of_the_mark(lake: SparkLake, spark: SparkSession) -> None:
    lake.sql("CREATE TABLE db.t (id BIGINT, _headwater_wide BOOLEAN)")
    frame = spark.range(3).selectExpr("id", "id = 1 AS _headwater_wide")
    lake.write(frame, "db.t")
    assert rows(lake.table("db.t")) == rows(frame)
