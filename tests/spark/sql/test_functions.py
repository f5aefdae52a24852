"""Functions of the catalog: made, shown, described, called and dropped."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from tests.spark.conftest import rows

from headwater.catalog.model.identifier import Identifier
from headwater.spark import SparkLake
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, Unsupported

pytestmark = [pytest.mark.spark, pytest.mark.modes]


def test_functions_of_sql_are_kept_and_called(lake: SparkLake) -> None:
    lake.sql("USE db")
    lake.sql(
        "CREATE FUNCTION area(width DOUBLE, height DOUBLE COMMENT 'up') RETURNS DOUBLE "
        "COMMENT 'of a hall' RETURN width * height"
    )
    lake.sql("CREATE FUNCTION IF NOT EXISTS area(x INT) RETURN x")
    with pytest.raises(AlreadyExists):
        lake.sql("CREATE FUNCTION area(x INT) RETURN x")
    lake.sql("CREATE FUNCTION `volume`(w DOUBLE, h DOUBLE) RETURN db.area(w, h) * 2")
    lake.sql("CREATE FUNCTION more(x INT, y INT DEFAULT 10) RETURN x + y")
    assert lake.sql("SELECT db.more(1), db.more(1, 1)").collect()[0][:] == (11, 2)
    lake.sql("CREATE FUNCTION told(x INT, told STRUCT<y: INT>) RETURN x + told.y")
    lake.sql("CREATE FUNCTION named(x INT) RETURN Named.X + `named` . x")
    assert rows(lake.sql("SELECT told(1, named_struct('y', 2)), named(4)")) == [(3, 8)]
    lake.sql("DROP FUNCTION told")
    lake.sql("DROP FUNCTION named")
    lake.sql("DROP FUNCTION more")
    lake.sql("CREATE TABLE halls (id INT, w DOUBLE)")
    lake.sql("INSERT INTO halls VALUES (1, 2.0), (2, 3.0)")
    lake.sql("CREATE FUNCTION floor(x DOUBLE) RETURN -1")
    short = lake.sql(
        "SELECT area(max(w), floor(1.5D)) FROM halls WHERE (id) IN (1) OR volume(w, 1) > 9"
    )
    assert rows(short) == [(2.0,)]
    lake.sql("DROP FUNCTION floor")
    frame = lake.sql("SELECT id, db.area(w, 2D), main.db.volume(w, 1D) AS v FROM halls")
    assert frame.columns[1].startswith("db.area(")
    assert rows(frame) == [(1, 4.0, 4.0), (2, 6.0, 6.0)]
    lake.sql("UPDATE halls r SET w = db.area(r.w, 10) WHERE db.area(r.w, 1) > 2.5")
    assert rows(lake.table("db.halls")) == [(1, 2.0), (2, 30.0)]
    lake.sql("CREATE VIEW big AS SELECT id FROM halls WHERE db.area(w, 1) > 10")
    assert rows(lake.sql("SELECT * FROM big")) == [(2,)]
    lake.sql("CREATE OR REPLACE FUNCTION area(w DOUBLE, h DOUBLE) RETURNS DOUBLE RETURN w + h")
    assert rows(lake.sql("SELECT db.volume(3, 4)")) == [(14.0,)]
    described = [row[0] for row in lake.sql("DESCRIBE FUNCTION EXTENDED area").collect()]
    assert described == [
        "Function:      db.area",
        "Type:          SCALAR",
        "Input:         w DOUBLE",
        "               h DOUBLE",
        "Returns:       DOUBLE",
        "Deterministic: true",
        "Body:          w + h",
    ]
    assert rows(lake.sql("SHOW USER FUNCTIONS")) == [("db.area",), ("db.volume",)]
    assert rows(lake.sql("SHOW FUNCTIONS LIKE 'ar*a|volume|array_max'")) == [
        ("array_max",),
        ("db.area",),
        ("db.volume",),
    ]
    assert rows(lake.sql("SELECT AREA(1, 2), DB.Area(1, 2)")) == [(3.0, 3.0)]
    with pytest.raises(AnalysisException, match="`areas` among Spark's functions and those of the"):
        lake.sql("SELECT areas(1, 2)")
    lake.sql("DROP FUNCTION area")
    with pytest.raises(NotFound):
        lake.sql("DROP FUNCTION area")
    lake.sql("DROP FUNCTION IF EXISTS area")


def test_a_function_keeps_the_meaning_that_its_makers_session_gave_it(lake: SparkLake) -> None:
    lake.sql("CREATE FUNCTION db.part(x INT) RETURNS DOUBLE RETURN 1 / x")
    made = lake.catalog.catalog.functions.get(Identifier("db", "part")).spec
    assert made.options["sqlConfig.spark.sql.ansi.enabled"] == "true"
    lake.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(Unsupported, match=r"SET spark\.sql\.ansi\.enabled = true to call it"):
            lake.sql("SELECT db.part(0)")
        lake.sql("CREATE FUNCTION db.lax(x INT) RETURNS DOUBLE RETURN 1 / x")
        assert rows(lake.sql("SELECT db.lax(0)")) == [(None,)]
    finally:
        lake.spark.conf.unset("spark.sql.ansi.enabled")
    assert rows(lake.sql("SELECT db.part(2)")) == [(0.5,)]


def test_max_pt_is_the_greatest_partition_with_files(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, day DATE, p INT) PARTITIONED BY (day, p)")
    with pytest.raises(NotFound, match=r"no partition of table db\.t has files"):
        lake.sql("SELECT sys.max_pt('db.t')")
    lake.sql(
        "INSERT INTO db.t VALUES (1, DATE'2026-01-09', 1), (2, DATE'2026-01-10', 3), (3, NULL, 9)"
    )
    lake.sql("USE db")
    assert rows(lake.sql("SELECT sys.max_pt('t')")) == [("2026-01-10",)]
    wanted = "SELECT id FROM t WHERE day = main.sys.MAX_PT('main.db.t') AND p > 0"
    assert rows(lake.sql(wanted)) == [(2,)]
    lake.sql("CREATE TABLE n (id INT, p INT) PARTITIONED BY (p)")
    lake.sql("INSERT INTO n VALUES (1, 9), (2, 10)")
    lake.sql("DELETE FROM n WHERE p = sys.max_pt('n')")
    assert rows(lake.sql("TABLE n")) == [(1, 9)]
    for text, kind, message in (
        ("sys.max_pt(id)", Invalid, "one table's name in quotes"),
        ("sys.max_pt('nowhere')", NotFound, "nowhere"),
        ("sys.descriptor_to_string(id)", Unsupported, "sys.max_pt alone; BLOB columns"),
    ):
        with pytest.raises(kind, match=message):
            lake.sql(f"SELECT {text} FROM n")


def test_functions_that_queries_cannot_call_are_refused_by_name(lake: SparkLake) -> None:
    lake.sql("USE db")
    lake.sql("CREATE FUNCTION up AS 'com.example.Up' USING JAR '/tmp/up.jar', JAR '/tmp/b.jar'")
    described = [row[0] for row in lake.sql("DESC FUNCTION EXTENDED db.up").collect()]
    assert described[1:] == [
        "Class:          com.example.Up", "File Resources: /tmp/up.jar, /tmp/b.jar"
    ]  # fmt: skip
    with pytest.raises(Unsupported, match=r"db\.up is in files, written in JAVA"):
        lake.sql("SELECT db.up('a')")
    refused = {
        "CREATE FUNCTION q(x INT) RETURNS INT RETURN SELECT max(id) FROM t": NotFound,
        "CREATE FUNCTION q(x INT) RETURNS TABLE (a INT) RETURN x": Invalid,
        "CREATE FUNCTION q(x INT, X INT) RETURN x": Invalid,
        "CREATE FUNCTION q(x INT) RETURN y": Invalid,
        "CREATE FUNCTION q(x INT) RETURN db.q(x)": Invalid,
        "CREATE FUNCTION q(x INT) SQL SECURITY INVOKER RETURN x": Invalid,
        "CREATE FUNCTION q(x INT)": Invalid,
    }
    for text, kind in refused.items():
        with pytest.raises(kind):
            lake.sql(text)
    lake.sql("CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN x * 2")
    try:
        assert rows(lake.sql("SELECT twice(4)")) == [(8,)]
    finally:
        lake.sql("DROP TEMPORARY FUNCTION twice")
    assert rows(lake.sql("SHOW USER FUNCTIONS")) == [("db.up",)]
