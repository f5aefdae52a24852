"""Functions of the catalog: made, shown, described, called and dropped."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.catalog.model.identifier import Identifier
from headwater.spark import SparkLake
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, Unsupported
from headwater.storage.formats.blob_descriptor import descriptor

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
        ("sys.none(id)", Unsupported, "unknown function sys.none; there are sys.max_pt, "),
        (
            "sys.descriptor_to_presigned_url('db.t', id, INTERVAL '5' MINUTE)",
            Unsupported,
            "sys.descriptor_to_presigned_url is not supported: Headwater signs no URLs",
        ),
        ("sys.bucket(2, id)", Unsupported, "__paimon_bucket"),
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


def test_functions_are_shown_by_kind_and_name(spark: SparkSession, lake: SparkLake) -> None:
    lake.sql("USE db")
    lake.sql("CREATE FUNCTION absolute(x INT) RETURN abs(x)")
    for statement in (
        "SHOW SYSTEM FUNCTIONS LIKE 'abs*'",
        "SHOW FUNCTIONS abs",
        "SHOW FUNCTIONS LIKE abs",
        "SHOW COLLATIONS LIKE 'UNICODE'",
    ):
        assert rows(lake.sql(statement)) == rows(spark.sql(statement))
    assert rows(lake.sql("SHOW SYSTEM FUNCTIONS IN db LIKE 'abs*'")) == [("abs",)]
    assert rows(lake.sql("SHOW ALL FUNCTIONS LIKE 'abs*'")) == [("abs",), ("db.absolute",)]
    assert rows(lake.sql("SHOW FUNCTIONS db.absolute")) == [("db.absolute",)]
    assert rows(lake.sql("SHOW USER FUNCTIONS absolute")) == [("db.absolute",)]
    with pytest.raises(Invalid, match="where a name is expected"):
        lake.sql("SHOW FUNCTIONS LIKE")


def test_descriptors_of_blobs_are_made_and_shown(lake: SparkLake) -> None:
    lake.sql("USE db")
    lake.sql("CREATE TABLE paths (id INT, path STRING)")
    lake.sql("INSERT INTO paths VALUES (1, 'file:///tmp/größe'), (2, ''), (3, NULL)")
    made = lake.sql("SELECT id, sys.path_to_descriptor(path) AS d FROM paths")
    assert {row["id"]: row["d"] and bytes(row["d"]) for row in made.collect()} == {
        1: descriptor("file:///tmp/größe", 0, -1),
        2: descriptor("", 0, -1),
        3: None,
    }
    shown = "SELECT id, sys.descriptor_to_string(sys.path_to_descriptor(path)) FROM paths"
    text = "BlobDescriptor{{version=2, uri='{}', offset=0, length=-1}}"
    assert rows(lake.sql(shown)) == [
        (1, text.format("file:///tmp/größe")),
        (2, text.format("")),
        (3, None),
    ]
    other = descriptor("s3://b/it's", 1 << 40, 300)
    former = b"\x01" + other[9:]
    for value, version in ((other, 2), (former, 1)):
        [(line,)] = rows(lake.sql(f"SELECT SYS.Descriptor_To_String(X'{value.hex()}')"))
        assert line == (
            f"BlobDescriptor{{version={version}, uri='s3://b/it's', offset={1 << 40}, length=300}}"
        )
    names = rows(lake.sql("SHOW USER FUNCTIONS IN sys"))
    assert names == [("sys.descriptor_to_string",), ("sys.max_pt",), ("sys.path_to_descriptor",)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "it is empty"),
        (b"\x03" + descriptor("a", 0, 1)[1:], "its version is later than 2"),
        (b"\x02" + b"x" * 40, "it lacks the magic number"),
        (descriptor("abc", 0, 1)[:-1], "it is cut short"),
        (descriptor("abc", 0, 1)[:12], "it is cut short"),
        (descriptor("", 0, 1)[:9] + b"\xff" * 30, "the length of its URI is negative"),
    ],
)
def test_what_is_not_a_descriptor_is_refused(lake: SparkLake, value: bytes, message: str) -> None:
    with pytest.raises(SparkRuntimeException, match=message):
        lake.sql(f"SELECT sys.descriptor_to_string(X'{value.hex()}')").collect()


def test_descriptors_of_values_in_a_table_are_shown(lake: SparkLake) -> None:
    lake.sql("USE db")
    lake.sql(
        "CREATE TABLE blobs (id INT, b BLOB) TBLPROPERTIES "
        "('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')"
    )
    lake.sql("INSERT INTO blobs VALUES (1, X'0102')")
    lake.sql("CREATE TABLE q (id INT, p STRING) PARTITIONED BY (p)")
    lake.sql("INSERT INTO q VALUES (1, 'p1')")
    shown = lake.sql(
        "SELECT sys.descriptor_to_string(b) FROM blobs "
        "/*+ OPTIONS('blob-as-descriptor' = 'true') */"
    )
    [(text,)] = rows(shown)
    assert str(text).startswith("BlobDescriptor{version=2, uri='")
    assert str(text).endswith(", length=2}")
    with pytest.raises(Invalid, match="a value is a descriptor"):
        lake.sql("INSERT INTO blobs VALUES (2, sys.path_to_descriptor('file:///tmp/x'))")
    lake.sql("CREATE TABLE places (d BINARY)")
    lake.sql("INSERT INTO places VALUES (sys.path_to_descriptor('file:///tmp/x'))")
    lake.sql("UPDATE places SET d = sys.path_to_descriptor(concat('file:///', sys.max_pt('q')))")
    assert rows(lake.sql("SELECT sys.descriptor_to_string(d) FROM places")) == [
        ("BlobDescriptor{version=2, uri='file:///p1', offset=0, length=-1}",)
    ]
