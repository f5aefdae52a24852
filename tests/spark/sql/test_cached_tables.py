"""CACHE TABLE of the catalog's tables: one snapshot for the queries of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.conftest import plan, rows
from tests.spark_sessions import kind_of_session

from headwater.spark import SparkLake
from headwater.storage.errors import NotFound, Unsupported

pytestmark = pytest.mark.spark


@pytest.fixture
def cached(lake: SparkLake) -> Iterator[SparkLake]:
    """A lake with a table of one row, whose snapshot is cached."""
    if kind_of_session() == "connect":
        pytest.skip("tables are not cached there")
    lake.sql("CREATE TABLE db.t (a INT, b STRING) TBLPROPERTIES ('row-tracking.enabled' = 'true')")
    lake.sql("INSERT INTO db.t VALUES (1, 'x')")
    assert rows(lake.sql("CACHE TABLE db.t").drop("note")) == [("db.t", 1)]
    yield lake
    lake.sql("CLEAR CACHE")


def is_cached(lake: SparkLake, query: str = "SELECT a FROM db.t") -> bool:
    return "InMemoryRelation" in plan(lake.sql(query))


def others_write(lake: SparkLake) -> None:
    lake.catalog.table("db.t").write({"a": [2], "b": ["y"]})


def test_queries_read_the_cached_snapshot(cached: SparkLake) -> None:
    lake = cached
    lake.sql("CREATE VIEW db.v AS SELECT a FROM db.t")
    others_write(lake)
    for query in ("SELECT a FROM db.t WHERE b >= 'a'", "TABLE db.v", "SELECT t.a FROM db.t AS t"):
        assert rows(lake.sql(query)) == [(1,)]
        assert is_cached(lake, query)
    assert [read.snapshot_id for read in lake.last_query] == [1]
    ((text,),) = rows(lake.sql("EXPLAIN SELECT a FROM db.t"))
    assert "db.t, snapshot 1\n  columns: a (1 of 2)\n  rows: those of CACHE TABLE\n" in str(text)
    # What is not cached is of the same snapshot, unless the query says another.
    assert rows(lake.sql("SELECT a, _SEQUENCE_NUMBER FROM db.t")) == [(1, 1)]
    with pytest.raises(Unsupported, match="input_file_name"):
        lake.sql("SELECT input_file_name() FROM db.t")
    assert rows(lake.sql("SELECT a FROM db.t VERSION AS OF 2")) == [(1,), (2,)]
    lake.sql("REFRESH TABLE db.t")
    assert rows(lake.sql("SELECT a FROM db.t")) == [(1,), (2,)]
    assert is_cached(lake)
    for text in ("UNCACHE TABLE db.t", "UNCACHE TABLE db.t", "UNCACHE TABLE IF EXISTS db.none"):
        lake.sql(text)
    assert not is_cached(lake)
    with pytest.raises(PySparkException):
        lake.sql("UNCACHE TABLE db.none")


SCRIPT = [
    "INSERT INTO db.t VALUES (2, 'y')",
    "INSERT OVERWRITE db.t VALUES (4, 'v'), (5, 'w')",
    "TRUNCATE TABLE db.t",
    "INSERT INTO db.t VALUES (7, 'z')",
    "ALTER TABLE db.t ADD COLUMNS (c INT)",
    "CACHE TABLE db.t",
    "CACHE LAZY TABLE db.t OPTIONS ('storageLevel' 'DISK_ONLY')",
    "REFRESH TABLE db.t",
    "INSERT INTO db.t VALUES (8, 'z', 8)",
]


def test_a_session_sees_its_own_changes_as_in_plain_spark(
    spark: SparkSession, cached: SparkLake, tmp_path: Path
) -> None:
    spark.sql(f"CREATE DATABASE db LOCATION '{tmp_path / 'plain'}'")
    try:
        spark.sql("CREATE TABLE db.t (a INT, b STRING) USING parquet")
        spark.sql("INSERT INTO db.t VALUES (1, 'x')")
        spark.sql("CACHE TABLE db.t")
        for text in SCRIPT:
            cached.sql(text)
            spark.sql(text)
            if text.startswith(("INSERT OVERWRITE", "TRUNCATE")):
                # Its cache would look for the files that are gone.
                spark.sql("UNCACHE TABLE db.t")
                spark.sql("REFRESH TABLE db.t")
                spark.sql("CACHE TABLE db.t")
            assert rows(cached.sql("SELECT * FROM db.t")) == rows(spark.sql("SELECT * FROM db.t"))
            assert is_cached(cached)
    finally:
        spark.sql("DROP DATABASE db CASCADE")


@pytest.mark.modes
@pytest.mark.parametrize(
    "text",
    [
        "UPDATE db.t SET b = 'new' WHERE a = 1",
        "DELETE FROM db.t WHERE a = 1",
        "MERGE INTO db.t USING (SELECT 1 AS a) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = 'q'",
        "CALL sys.rollback(table => 'db.t', snapshot => 2)",
        "CREATE OR REPLACE TABLE db.t AS SELECT 5 AS five",
    ],
)
def test_a_statement_that_changes_the_table_caches_it_again(cached: SparkLake, text: str) -> None:
    others_write(cached)
    before = rows(cached.sql("SELECT * FROM db.t"))
    cached.sql("INSERT INTO db.t VALUES (3, 'z')")
    cached.sql(text)
    assert rows(cached.sql("SELECT * FROM db.t")) != before or "rollback" in text
    now = rows(cached.sql("SELECT * FROM db.t /*+ OPTIONS('scan.mode' = 'latest') */"))
    assert rows(cached.sql("SELECT * FROM db.t")) == now
    assert is_cached(cached, "SELECT * FROM db.t")


def test_other_tables_and_frames_do_not_matter(spark: SparkSession, cached: SparkLake) -> None:
    lake = cached
    others_write(lake)
    lake.sql("CREATE TABLE db.u AS SELECT * FROM db.t")
    lake.sql("INSERT INTO db.u SELECT * FROM db.t")
    assert rows(lake.sql("SELECT a FROM db.u")) == [(1,), (1,)]
    assert rows(lake.sql("SELECT a FROM db.t")) == [(1,)]
    lake.write(spark.sql("SELECT 9 AS a, 'w' AS b"), "db.t")
    assert rows(lake.sql("SELECT a FROM db.t")) == [(1,), (2,), (9,)]
    lake.sql("DROP TABLE db.t")
    with pytest.raises(NotFound):
        lake.sql("SELECT a FROM db.t")
    lake.sql("CREATE TABLE db.t AS SELECT 4 AS a")
    assert rows(lake.sql("SELECT a FROM db.t")) == [(4,)]
    assert not is_cached(lake)


@pytest.mark.modes
def test_a_table_that_another_made_is_not_the_one_that_is_cached(cached: SparkLake) -> None:
    cached.catalog.drop_table("db.t")
    with pytest.raises(NotFound):
        cached.sql("SELECT a FROM db.t")
    cached.sql("CREATE TABLE db.t AS SELECT 4 AS a")
    assert rows(cached.sql("SELECT a FROM db.t")) == [(4,)]


def test_what_is_not_cached_is_rejected(spark: SparkSession, lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (a INT)")
    lake.sql("CREATE VIEW db.v AS SELECT 1 AS a")
    names = ["db.v", "db.t$snapshots"] + (["db.t"] if kind_of_session() == "connect" else [])
    for name in names:
        with pytest.raises(Unsupported, match="CACHE TABLE a_name AS SELECT"):
            lake.sql(f"CACHE TABLE {name}")
    with pytest.raises(NotFound):
        lake.sql("CACHE TABLE db.none")
    if kind_of_session() != "connect":
        with pytest.raises(PySparkException, match="NONSENSE"):
            lake.sql("CACHE TABLE db.t OPTIONS ('storageLevel' 'NONSENSE')")
        assert not is_cached(lake)
        assert not spark.catalog.listTables()
