"""DESCRIBE … AS JSON: the keys and forms that Spark has for its own tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake, connect
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, Unsupported

pytestmark = pytest.mark.spark

_COLUMNS = """(
    a INT COMMENT 'first',
    s STRUCT<f: STRING COMMENT 'inner', g: DECIMAL(10, 2)>,
    m MAP<STRING, ARRAY<INT>>,
    t TIMESTAMP,
    n TIMESTAMP_NTZ,
    d DOUBLE DEFAULT 1.5,
    b BINARY,
    dt STRING
)"""


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkLake:
    """A table with two partitions, and a view of it."""
    lake = connect(spark, tmp_path_factory.mktemp("describe"))
    lake.sql("CREATE DATABASE db")
    lake.sql("USE db")
    lake.sql(
        f"CREATE TABLE t {_COLUMNS} PARTITIONED BY (dt) COMMENT 'about t' "
        "TBLPROPERTIES ('bucket' = '3', 'bucket-key' = 'a')"
    )
    lake.sql("INSERT INTO t (a, dt) VALUES (1, 'x'), (2, 'y')")
    lake.sql("CREATE VIEW v (q COMMENT 'of v', r) COMMENT 'about v' "
             "TBLPROPERTIES ('p' = '1') AS SELECT a, dt FROM t")  # fmt: skip
    return lake


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The same table and view as Spark's own."""
    folder = tmp_path_factory.mktemp("plain")
    spark.sql(f"CREATE DATABASE plain_json LOCATION '{folder}'")
    spark.sql(
        f"CREATE TABLE plain_json.t {_COLUMNS} USING parquet PARTITIONED BY (dt) "
        "CLUSTERED BY (a) INTO 3 BUCKETS COMMENT 'about t' TBLPROPERTIES ('k' = 'w')"
    )
    spark.sql("INSERT INTO plain_json.t (a, dt) VALUES (1, 'x'), (2, 'y')")
    spark.sql("CREATE VIEW plain_json.v (q COMMENT 'of v', r) COMMENT 'about v' "
              "TBLPROPERTIES ('p' = '1') AS SELECT a, dt FROM plain_json.t")  # fmt: skip
    yield spark
    spark.sql("DROP DATABASE plain_json CASCADE")


def _json(source: SparkLake | SparkSession, statement: str) -> dict[str, Any]:
    frame = source.sql(statement)
    assert frame.columns == ["json_metadata"]
    [(text,)] = rows(frame)
    document = json.loads(str(text))
    assert isinstance(document, dict)
    return document


def _info(lake: SparkLake, statement: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in lake.sql(statement).collect()}


def test_a_table_has_the_keys_of_spark(lake: SparkLake, plain: SparkSession) -> None:
    ours = _json(lake, "DESCRIBE EXTENDED t AS JSON")
    theirs = _json(plain, "DESCRIBE EXTENDED plain_json.t AS JSON")
    same = (
        "table_name", "columns", "num_buckets", "bucket_columns", "type", "comment",
        "partition_columns", "partition_provider", "collation",
    )  # fmt: skip
    assert {key: ours[key] for key in same} == {key: theirs[key] for key in same}
    assert ours["catalog_name"] == lake.catalog.warehouse
    assert (ours["namespace"], ours["schema_name"]) == (["db"], "db")
    assert ours["table_properties"] == {
        "bucket": "3", "bucket-key": "a", "comment": "about t", "partition": "dt",
    }  # fmt: skip
    assert ours["location"] == lake.catalog.table("db.t").info.path
    assert len(ours["created_time"]) == len(theirs["created_time"])
    assert ours["provider"] == "paimon"
    assert ours.keys() <= theirs.keys()
    assert _json(lake, "DESC TABLE FORMATTED db.t AS JSON") == ours


def test_a_partition_has_its_values(lake: SparkLake, plain: SparkSession) -> None:
    ours = _json(lake, "DESCRIBE EXTENDED t PARTITION (dt = 'x') AS JSON")
    theirs = _json(plain, "DESCRIBE EXTENDED plain_json.t PARTITION (dt = 'x') AS JSON")
    assert ours["partition_values"] == theirs["partition_values"] == {"dt": "x"}
    assert ours["partition_parameters"]["recordCount"] == "1"
    with pytest.raises(NotFound, match="no partition dt=z"):
        lake.sql("DESCRIBE EXTENDED t PARTITION (dt = 'z') AS JSON")


def test_a_view_has_its_query(lake: SparkLake, plain: SparkSession) -> None:
    ours = _json(lake, "DESCRIBE EXTENDED v AS JSON")
    theirs = _json(plain, "DESCRIBE EXTENDED plain_json.v AS JSON")
    for document in (ours, theirs):
        for column in document["columns"]:
            # A partition column of a table with partitions has no null.
            del column["nullable"]
    same = ("table_name", "columns", "type", "comment", "table_properties")
    assert {key: ours[key] for key in same} == {key: theirs[key] for key in same}
    assert ours["view_text"] == ours["view_original_text"] == "SELECT a, dt FROM t"
    assert ours["view_catalog_and_namespace"] == f"{lake.catalog.warehouse}.db"
    assert ours["view_query_output_columns"] == ["q", "r"]
    assert ours.keys() <= theirs.keys()


def test_statistics_are_shown_once_there_are_any(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE counted (a INT, b STRING)")
    lake.sql("INSERT INTO counted VALUES (1, 'x'), (4, NULL)")
    assert "statistics" not in _json(lake, "DESCRIBE EXTENDED counted AS JSON")
    names = ("min", "max", "num_nulls", "distinct_count", "avg_col_len", "max_col_len", "histogram")
    unknown = dict.fromkeys(names, "NULL")
    column = {"col_name": "a", "data_type": "int", "comment": "NULL"}
    assert _info(lake, "DESCRIBE EXTENDED counted a") == column | unknown
    lake.sql("ANALYZE TABLE counted COMPUTE STATISTICS FOR ALL COLUMNS")
    assert _json(lake, "DESCRIBE EXTENDED counted AS JSON")["statistics"]["num_rows"] == 2
    assert _info(lake, "DESCRIBE EXTENDED counted a") == column | unknown | {
        "min": "1", "max": "4", "num_nulls": "0", "distinct_count": "2", "avg_col_len": "4",
        "max_col_len": "4",
    }  # fmt: skip
    assert _info(lake, "DESCRIBE counted a") == column


def test_types_that_spark_lacks_have_their_names(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE types (c CHAR(3), v VARCHAR(4), f VECTOR<FLOAT, 3>, u MULTISET<INT>, "
        "x BINARY(2), t TIME(3))"
    )
    types = {
        column["name"]: column["type"]
        for column in _json(lake, "DESCRIBE EXTENDED types AS JSON")["columns"]
    }
    assert types == {
        "c": {"name": "char", "length": 3},
        "v": {"name": "varchar", "length": 4},
        "f": {
            "name": "vector",
            "element_type": {"name": "float"},
            "element_nullable": True,
            "length": 3,
        },
        "u": {"name": "multiset", "element_type": {"name": "int"}, "element_nullable": True},
        "x": {"name": "binary(2)"},
        "t": {"name": "time(3)"},
    }
    assert _json(lake, "DESCRIBE EXTENDED t$tags AS JSON")["columns"][0]["name"] == "tag_name"


def test_a_temporary_view_goes_before_a_table(spark: SparkSession, lake: SparkLake) -> None:
    lake.sql("CREATE TEMPORARY VIEW t AS SELECT 1 AS one")
    try:
        for statement in ("DESCRIBE t", "DESCRIBE EXTENDED t AS JSON", "SHOW COLUMNS IN t"):
            assert rows(lake.sql(statement)) == rows(spark.sql(statement))
        assert _json(lake, "DESCRIBE EXTENDED db.t AS JSON")["catalog_name"] != "system"
    finally:
        spark.catalog.dropTempView("t")


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("DESCRIBE t AS JSON", Invalid, "write DESCRIBE EXTENDED db.t AS JSON"),
        ("DESCRIBE t PARTITION (dt = 'x') AS JSON", Invalid, "DESCRIBE EXTENDED db.t AS JSON"),
        ("DESCRIBE EXTENDED t a AS JSON", Unsupported, "leave the column out"),
        ("DESCRIBE EXTENDED none AS JSON", NotFound, "db.none does not exist"),
        ("DESCRIBE EXTENDED t AS XML", Invalid, "'XML' where the end of the statement"),
        ("DESCRIBE DATABASE EXTENDED db AS JSON", Invalid, "'AS JSON' where the end"),
    ],
)
def test_what_spark_rejects_is_rejected(
    spark: SparkSession,
    plain: SparkSession,
    lake: SparkLake,
    statement: str,
    error: type[HeadwaterError],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        lake.sql(statement)
    theirs = statement.replace(" t", " plain_json.t").replace(" db ", " plain_json ")
    with pytest.raises(Exception, match=r"JSON|XML|'AS'|NOT_FOUND"):
        plain.sql(theirs)
