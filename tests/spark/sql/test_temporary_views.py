"""Temporary views: made, changed, shown and dropped as plain Spark does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound, Unsupported

pytestmark = pytest.mark.spark

Run = Callable[[str], DataFrame]


@pytest.fixture
def people(lake: SparkLake) -> Iterator[SparkLake]:
    """A lake with a table in the database in use; the session's temporary views go afterwards."""
    lake.sql("USE db")
    lake.sql("CREATE TABLE people (id INT COMMENT 'number', name STRING)")
    lake.catalog.table("db.people").write({"id": [1, 2], "name": ["ada", "bob"]})
    yield lake
    for name in ("v", "w"):
        lake.spark.catalog.dropTempView(name)
        lake.spark.catalog.dropGlobalTempView(name)


SCRIPT = [
    "CREATE TEMP VIEW v (number COMMENT 'k', label) COMMENT 'c' AS SELECT id, name FROM {t}",
    "DESCRIBE v",
    "DESC EXTENDED v",
    "DESCRIBE v number",
    "SHOW COLUMNS IN v",
    "SHOW TBLPROPERTIES v",
    "SHOW CREATE TABLE v",
    "CREATE GLOBAL TEMP VIEW v AS SELECT name FROM {t}",
    "SELECT v.name, global_temp.v.name FROM global_temp.v",
    "SELECT number FROM v JOIN global_temp.v AS g ON v.label = g.name",
    "DESCRIBE global_temp.v",
    "SHOW COLUMNS FROM v IN global_temp",
    "SHOW TABLES IN global_temp",
    "SHOW VIEWS FROM global_temp LIKE 'v'",
    "ALTER VIEW v AS SELECT upper(name) AS shout FROM {t}",
    "SELECT * FROM v",
    "ALTER VIEW global_temp.v AS SELECT count(*) AS n FROM {t}",
    "SELECT * FROM global_temp.v",
    "ALTER VIEW v RENAME TO db.w",
    "ALTER VIEW v RENAME TO w",
    "ALTER VIEW global_temp.v RENAME TO w",
    "SELECT shout, n FROM w, global_temp.w",
    "ALTER VIEW w SET TBLPROPERTIES ('a' = 'b')",
    "ALTER VIEW w WITH SCHEMA BINDING",
    "DROP VIEW global_temp.v",
    "DROP VIEW IF EXISTS global_temp.v",
    "DROP VIEW global_temp.w",
    "DROP VIEW w",
    "SHOW VIEWS IN global_temp",
]


def test_statements_about_temporary_views_are_plain_sparks(
    spark: SparkSession, people: SparkLake
) -> None:
    people.sql("SELECT * FROM people").createOrReplaceTempView("copy")

    def outcome(run: Run, text: str) -> object:
        try:
            frame = run(text)
            return [name for name, _ in frame.dtypes], rows(frame.drop("namespace"))
        except (AnalysisException, ParseException):
            return "fails"

    try:
        plain = [outcome(spark.sql, text.format(t="copy")) for text in SCRIPT]
        ours = [outcome(people.sql, text.format(t="people")) for text in SCRIPT]
    finally:
        spark.catalog.dropTempView("copy")
    assert dict(zip(SCRIPT, ours, strict=True)) == dict(zip(SCRIPT, plain, strict=True))
    assert plain.count("fails") == 5


@pytest.mark.modes
def test_temporary_views_go_before_tables_in_all_statements(people: SparkLake) -> None:
    people.sql("CREATE TEMP VIEW people AS SELECT 7 AS seven")
    try:
        assert rows(people.sql("DESCRIBE people")) == [("seven", "int", None)]
        assert rows(people.sql("DESCRIBE db.people"))[0] == ("id", "int", "number")
        people.sql("ALTER VIEW people AS SELECT max(id) AS most FROM db.people")
        assert rows(people.sql("SELECT * FROM people")) == [(2,)]
    finally:
        people.sql("DROP VIEW people")
    assert people.sql("SELECT * FROM people").columns == ["id", "name"]


def test_temporary_views_of_files_are_sparks(
    spark: SparkSession, people: SparkLake, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("1,ada\n3,eve\n")
    using = f"USING csv OPTIONS (path '{tmp_path / 'rows.csv'}')"
    people.sql(f"CREATE TEMP VIEW v (id INT, name STRING COMMENT 'x') {using}")
    assert rows(people.sql("SELECT v.name FROM v JOIN people USING (id)")) == [("ada",)]
    assert rows(people.sql("DESCRIBE v")) == [("id", "int", None), ("name", "string", "x")]
    people.sql(f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW w {using}")
    assert rows(people.sql("SELECT * FROM global_temp.w")) == [("1", "ada"), ("3", "eve")]
    for provider in ("paimon", "headwater"):
        with pytest.raises(Unsupported, match=rf"USING {provider} .* AS SELECT \* FROM database"):
            people.sql(f"CREATE TEMP VIEW w (id INT) USING {provider} OPTIONS (path 'db.people')")


@pytest.mark.modes
def test_what_temporary_views_do_not_keep_is_rejected(people: SparkLake) -> None:
    for clause in ("TBLPROPERTIES ('a' = 'b')", "WITH SCHEMA BINDING"):
        with pytest.raises(Unsupported, match=clause[:12]):
            people.sql(f"CREATE TEMP VIEW v COMMENT 'c' {clause} AS SELECT 1 AS a")
    with pytest.raises(Invalid, match="COMMENT stands twice"):
        people.sql("CREATE TEMP VIEW v COMMENT 'c' COMMENT 'd' AS SELECT 1 AS a")
    with pytest.raises(NotFound, match=r"cannot alter view global_temp\.v"):
        people.sql("ALTER VIEW global_temp.v AS SELECT 1 AS a")


@pytest.mark.modes
def test_the_database_of_global_views_is_sparks(people: SparkLake) -> None:
    for text in ("CREATE DATABASE global_temp", "CREATE SCHEMA Global_Temp", "USE global_temp"):
        with pytest.raises(Invalid, match="Spark's database of global temporary views"):
            people.sql(text)
    people.catalog.create_database("global_temp")
    people.sql(f"CREATE TABLE {people.catalog.warehouse}.global_temp.v (id INT)")
    people.sql("CREATE GLOBAL TEMP VIEW v AS SELECT 8 AS eight")
    assert rows(people.sql("SELECT * FROM global_temp.v")) == [(8,)]
    warehouse = people.catalog.warehouse
    assert people.sql(f"SELECT * FROM {warehouse}.global_temp.v").columns == ["id"]
    with pytest.raises(Invalid, match=r"view db\.x: 'global_temp.v' is a temporary view"):
        people.sql("CREATE VIEW x AS SELECT * FROM global_temp.v")
