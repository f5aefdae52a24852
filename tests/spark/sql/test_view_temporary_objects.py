"""Views of the catalog name no temporary functions and no variables, as plain Spark's do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid

pytestmark = pytest.mark.spark

Run = Callable[[str], DataFrame]

QUERIES = [
    "SELECT twice(a) AS x FROM db.t",
    "SELECT session.twice(a) AS x FROM db.t",
    "SELECT system.session.twice(a) AS x FROM db.t",
    "SELECT 1 AS x WHERE EXISTS (SELECT twice(1))",
    "WITH q AS (SELECT twice(1) AS x) SELECT * FROM q",
    "SELECT abs(a) AS x FROM db.t",
    "SELECT a FROM db.t",
    "SELECT v AS x FROM db.t",
    "SELECT `v` + 1 AS x FROM db.t",
    "SELECT session.v AS x",
    "SELECT system.session.v AS x",
    "SELECT `odd one` AS x",
    "SELECT (SELECT max(v) FROM db.t) AS x",
    "WITH q AS (SELECT v AS x) SELECT * FROM q",
    "SELECT a FROM db.t WHERE a IN (SELECT v)",
    "SELECT a FROM db.t ORDER BY v",
    "SELECT a FROM db.t LIMIT v",
    "SELECT IDENTIFIER('v') AS x FROM db.t",
    "SELECT transform(array(1), v -> v + 1) AS x",
    "SELECT v FROM (SELECT 1 AS v)",
    "SELECT named_struct('v', 1).v AS x",
    "SELECT 'v' AS x, a AS v FROM db.t",
    # Spark shows no more than 25 columns of a plan.
    f"SELECT {', '.join(f'a + {at} AS c{at}' for at in range(30))}, v AS x FROM db.t",
]


@pytest.fixture
def objects(spark: SparkSession) -> Iterator[None]:
    """Temporary functions and variables of the session."""
    for name in ("twice", "abs"):
        spark.sql(f"CREATE TEMPORARY FUNCTION {name}(x INT) RETURNS INT RETURN x * 2")
    for name in ("v", "a", "`odd one`"):
        spark.sql(f"DECLARE VARIABLE {name} INT DEFAULT 7")
    yield
    for name in ("twice", "abs"):
        spark.sql(f"DROP TEMPORARY FUNCTION {name}")
    for name in ("v", "a", "`odd one`"):
        spark.sql(f"DROP TEMPORARY VARIABLE {name}")


@pytest.mark.usefixtures("objects")
def test_views_name_no_temporary_objects(
    spark: SparkSession, lake: SparkLake, tmp_path: Path
) -> None:
    lake.sql("CREATE TABLE db.t (a INT)")
    lake.sql("CREATE VIEW db.kept AS SELECT 1 AS x")
    spark.sql(f"CREATE DATABASE db LOCATION '{tmp_path / 'plain'}'")
    spark.sql("CREATE TABLE db.t (a INT) USING parquet")

    def is_rejected(run: Run, text: str) -> bool:
        try:
            run(text)
        except Invalid:
            return True
        except AnalysisException as error:
            return error.getCondition() == "INVALID_TEMP_OBJ_REFERENCE"
        return False

    try:
        creates = [f"CREATE OR REPLACE VIEW db.v AS {query}" for query in QUERIES]
        plain = [is_rejected(spark.sql, text) for text in creates]
        ours = [is_rejected(lake.sql, text) for text in creates]
    finally:
        spark.sql("DROP DATABASE db CASCADE")
    assert dict(zip(QUERIES, ours, strict=True)) == dict(zip(QUERIES, plain, strict=True))
    assert plain.count(False) == 6
    for query, message in {
        "SELECT twice(1) AS x": "'twice' is a temporary function of this session",
        "SELECT `odd one` AS x": "its query names 'odd one', a variable of this session",
        "SELECT v AS x": "its query names 'v', a variable of this session",
    }.items():
        with pytest.raises(Invalid, match=message):
            lake.sql(f"ALTER VIEW db.kept AS {query}")
    assert rows(lake.sql("SELECT * FROM db.kept")) == [(1,)]
    lake.sql("CREATE TEMP VIEW mine AS SELECT twice(v) AS x")
    assert rows(lake.sql("SELECT * FROM mine")) == [(14,)]
    lake.sql("DROP VIEW mine")


@pytest.mark.modes
def test_a_view_calls_the_catalogs_function_whatever_the_session_has(
    spark: SparkSession, lake: SparkLake
) -> None:
    lake.sql("CREATE FUNCTION db.twice(x INT) RETURNS INT RETURN x + x")
    lake.sql("CREATE VIEW db.v AS SELECT twice(4) AS x")
    spark.sql("CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN -1")
    try:
        assert rows(lake.sql("SELECT * FROM db.v")) == [(8,)]
        lake.sql("USE db")
        assert rows(lake.sql("SELECT twice(4)")) == [(-1,)]
    finally:
        spark.sql("DROP TEMPORARY FUNCTION twice")
