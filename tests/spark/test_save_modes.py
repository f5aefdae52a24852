"""What a write of a frame replaces, which columns it may bring, and who writes beside it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from tests.spark.conftest import Numbered, data_source, rows

from headwater.spark import SchemaMerging, SparkLake
from headwater.spark.errors import own_errors
from headwater.storage.errors import Invalid, NotFound, Unsupported

pytestmark = [pytest.mark.spark, pytest.mark.modes]


def make(lake: SparkLake, name: str, df: DataFrame, **options: str) -> None:
    lake.create_table(name, df.schema, partition_keys=["part"], options={"bucket": "-1", **options})
    lake.write(df, name)


def ids(lake: SparkLake, name: str) -> list[int]:
    return sorted(row["id"] for row in lake.table(name).select("id").collect())


def test_replace_where_replaces_the_partitions_that_fulfil_it(
    lake: SparkLake, numbered: Numbered
) -> None:
    """Also those without new rows; rows outside of them are refused, and nothing is written."""
    make(lake, "db.t", numbered(0, 9))
    new = numbered(30, 31)  # of part 0
    writer = new.write.format("headwater").mode("overwrite").option("replaceWhere", "PART < '2'")
    writer.save("db.t")
    assert ids(lake, "db.t") == [2, 5, 8, 30]
    lake.write(numbered(33, 34), "db.t", "overwrite", replace_where="part = '0'")
    assert ids(lake, "db.t") == [2, 5, 8, 33]
    before = lake.catalog.table("db.t").snapshots()
    outside = numbered(0, 3)
    with pytest.raises(Invalid, match="rows lie outside partitions where"):
        lake.write(outside, "db.t", "overwrite", replace_where="part = '0'")
    writer = outside.write.format("headwater").mode("overwrite").option("replaceWhere", "part='0'")
    with pytest.raises(Invalid, match="rows lie outside partitions where"), own_errors():
        writer.save("db.t")
    assert lake.catalog.table("db.t").snapshots() == before


def test_a_partition_is_replaced_by_rows_without_its_column(
    lake: SparkLake, numbered: Numbered
) -> None:
    make(lake, "db.t", numbered(0, 9))
    writer = numbered(30, 32).drop("part").write.format("headwater").mode("overwrite")
    writer.option("partition", json.dumps({"PART": "0"})).save("db.t")
    rows = lake.table("db.t", where="part = '0'").select("id").collect()
    assert sorted(row["id"] for row in rows) == [30, 31]
    assert len(ids(lake, "db.t")) == 8


def test_replace_where_on_other_columns_reads_the_rows(lake: SparkLake, numbered: Numbered) -> None:
    make(lake, "db.t", numbered(0, 9))
    lake.write(numbered(40, 42), "db.t", "overwrite", replace_where="id > 3")
    assert ids(lake, "db.t") == [0, 1, 2, 3, 40, 41]
    assert len(lake.catalog.table("db.t").snapshots()) == 2
    with pytest.raises(Invalid, match="new rows do not fulfil the condition id > 50"):
        lake.write(numbered(0, 60), "db.t", "overwrite", replace_where="id > 50")
    writer = numbered(0, 1).write.format("headwater").mode("overwrite")
    with pytest.raises(Unsupported, match="'id > 3' is not on partition columns"), own_errors():
        writer.option("replaceWhere", "id > 3").save("db.t")
    assert ids(lake, "db.t") == [0, 1, 2, 3, 40, 41]


def test_what_is_replaced_is_said_once(lake: SparkLake, numbered: Numbered, folder: Path) -> None:
    make(lake, "db.t", numbered(0, 3))
    with pytest.raises(Invalid, match="replace_where says what to overwrite; the mode is append"):
        lake.write(numbered(0, 3), "db.t", replace_where="part = '0'")
    with pytest.raises(Invalid, match="replace_where and dynamic both say"):
        lake.write(numbered(0, 3), "db.t", "overwrite", replace_where="part = '0'", dynamic=True)
    options = {"replaceWhere": "part = '0'", "partition": json.dumps({"part": "0"})}
    with pytest.raises(Invalid, match="'partition' and 'replaceWhere' both say"):
        data_source(folder, "db.t", **options).writer(numbered(0, 1).schema, overwrite=True)
    with pytest.raises(Invalid, match="'replaceWhere' says what an overwrite replaces"):
        data_source(folder, "db.t", replaceWhere="part = '0'").writer(
            numbered(0, 1).schema, overwrite=False
        )


def test_modes_that_create_tables_are_refused(lake: SparkLake, numbered: Numbered) -> None:
    make(lake, "db.t", numbered(0, 3))
    for mode in ("error", "ignore"):
        writer = numbered(3, 4).write.format("headwater").mode(mode)
        with pytest.raises(AnalysisException, match='Please use either the "Append" or "Over'):
            writer.save("db.t")
        with pytest.raises(Invalid, match=f"one of append, overwrite, not '{mode}'"):
            lake.write(numbered(3, 4), "db.t", mode)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        numbered(3, 4).writeTo("db.t").append()
    assert ids(lake, "db.t") == [0, 1, 2]


def test_save_as_table_is_refused(lake: SparkLake, numbered: Numbered) -> None:
    make(lake, "db.t", numbered(0, 3))
    writer = numbered(3, 4).write.format("headwater").mode("append")
    with pytest.raises(Invalid, match="saveAsTable is for tables of Spark's own"), own_errors():
        writer.saveAsTable("t")
    assert not lake.spark.catalog.tableExists("t")


def test_new_columns_come_with_merge_schema_alone(lake: SparkLake, numbered: Numbered) -> None:
    make(lake, "db.t", numbered(0, 2))
    wide = numbered(2, 3).withColumn("extra", sf.lit(7)).withColumn("_ROW_KIND", sf.lit("+I"))
    with pytest.raises(Invalid, match=r"table db\.t has no column 'extra'"):
        lake.write(wide, "db.t")
    with pytest.raises(Invalid, match=r"table db\.t has no column 'extra'"), own_errors():
        wide.write.format("headwater").mode("append").save("db.t")
    writer = wide.write.format("headwater").mode("append").option("write.merge-schema", "true")
    writer.save("db.t")
    lake.write(
        numbered(3, 4).withColumn("more", sf.struct(sf.lit(1).alias("a"))),
        "db.t",
        merging=SchemaMerging(),
    )
    lake.write(
        numbered(4, 5).withColumn("more", sf.struct(sf.lit(2).alias("a"), sf.lit("x").alias("b"))),
        "db.t",
        merging=SchemaMerging(),
    )
    merged = lake.table("db.t").select("id", "extra", "more.a", "more.b")
    assert rows(merged) == [
        (0, None, None, None),
        (1, None, None, None),
        (2, 7, None, None),
        (3, None, 1, None),
        (4, None, 2, "x"),
    ]


def test_types_widen_only_where_that_is_asked_for(
    lake: SparkLake, spark: SparkSession, folder: Path
) -> None:
    lake.create_table("db.t", spark.createDataFrame([], "n int, s string").schema)
    lake.write(spark.createDataFrame([(1, "a")], "n int, s string"), "db.t")
    # None of its values is null, which says nothing of the columns' other values.
    big = spark.range(2**40, 2**40 + 1).selectExpr("id AS n", "'b' AS s", "struct(1 AS a) AS t")
    with pytest.raises(Invalid, match="column 'n'"), own_errors():
        lake.write(big, "db.t", merging=SchemaMerging())
    lake.write(big, "db.t", merging=SchemaMerging(widens=True))
    assert rows(lake.table("db.t")) == [(1, "a", None), (2**40, "b", (1,))]
    # A narrower type leaves the column as it is; another needs a cast that may lose values.
    lake.write(spark.createDataFrame([(3, "c")], "n int, s string"), "db.t",
               merging=SchemaMerging(widens=True))  # fmt: skip
    days = spark.createDataFrame([(4, "2026-01-01")], "n int, s string")
    days = days.withColumn("s", sf.to_date("s"))
    says = r"s\[STRING\] cannot be converted to DATE .*'write\.merge-schema\.explicit-cast'"
    with pytest.raises(Invalid, match=says):
        lake.write(days, "db.t", merging=SchemaMerging(widens=True))
    assert [field.dataType.simpleString() for field in lake.table("db.t").schema] == [
        "bigint",
        "string",
        "struct<a:int>",
    ]
    empty = spark.sql("SELECT 5L AS n, CAST(NULL AS STRUCT<a: INT>) AS t")
    null = spark.sql("SELECT 6L AS n, named_struct('a', CAST(NULL AS INT)) AS t")
    lake.write(empty.union(null), "db.t")
    options = {"write.merge-schema": "true", "write.merge-schema.explicit-cast": "true"}
    with pytest.raises(Invalid, match=r"explicit-cast' counts only with 'write\.merge-schema\.ty"):
        data_source(folder, "db.t", **options).writer(days.schema, overwrite=False)


def test_two_writers_of_dynamic_buckets_lose_nothing(lake: SparkLake, spark: SparkSession) -> None:
    """The one whom the other came before starts over, by `write` and by INSERT."""
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "50"}
    schema = spark.createDataFrame([], "id bigint not null, v int").schema
    lake.create_table("db.t", schema, primary_keys=["id"], options=options)

    def upsert(number: int) -> None:
        df = spark.range(number * 40, number * 40 + 80, 1, 1).selectExpr("id", f"{number} AS v")
        if number % 2:
            lake.write(df, "db.t")
        else:
            query = f"SELECT id, {number} AS v FROM range({number * 40}, {number * 40 + 80})"
            lake.sql(f"INSERT INTO db.t {query}")

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(upsert, number) for number in range(4)]:
            done.result()
    assert ids(lake, "db.t") == list(range(200))


def test_columns_that_do_not_fit_are_refused_before_any_task(
    lake: SparkLake, spark: SparkSession, numbered: Numbered, folder: Path
) -> None:
    make(lake, "db.t", numbered(0, 3))
    for given, says in (
        ("id BIGINT, nome STRING", "no column 'nome'"),
        ("id BIGINT, name ARRAY<INT>", "column 'name' is STRING"),
    ):
        empty = spark.createDataFrame([], given)
        with pytest.raises(Invalid, match=says):
            lake.write(empty, "db.t")
        with pytest.raises(Invalid, match=says), own_errors():
            empty.write.format("headwater").mode("append").save("db.t")
        with pytest.raises(Invalid, match=says):
            data_source(folder, "db.t").writer(empty.schema, overwrite=False)
    with pytest.raises(NotFound, match=r"table db\.none does not exist"):
        data_source(folder, "db.none").writer(numbered(0, 1).schema, overwrite=False)
    writer = (
        spark.createDataFrame([], "ID BIGINT, name STRING")
        .write.format("headwater")
        .mode("overwrite")
    )
    writer.option("partition", json.dumps({"part": "0"})).save("db.t")
    assert ids(lake, "db.t") == [1, 2]
