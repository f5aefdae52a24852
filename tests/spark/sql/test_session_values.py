"""What a statement takes from its session: names in use, variables, settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound, Unsupported

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(spark: SparkSession, lake: SparkLake) -> Iterator[SparkLake]:
    """A lake with the table ``db.t`` of two rows, and session variables."""
    lake.sql("USE db")
    lake.sql("CREATE TABLE t (id INT, name STRING)")
    lake.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    spark.sql("DECLARE OR REPLACE VARIABLE wanted STRING DEFAULT 'db.t'")
    spark.sql("DECLARE OR REPLACE VARIABLE least INT DEFAULT 2")
    yield lake
    spark.sql("DROP TEMPORARY VARIABLE wanted")
    spark.sql("DROP TEMPORARY VARIABLE least")


def test_the_names_in_use_are_the_lakes(shop: SparkLake) -> None:
    frame = shop.sql("SELECT current_catalog(), current_database(), Current_Schema() AS s")
    assert frame.columns == ["current_catalog()", "current_database()", "s"]
    assert rows(frame) == [("main", "db", "db")]
    shop.catalog.create_database("other")
    shop.sql("CREATE VIEW v AS SELECT concat(current_schema(), '!') AS here")
    shop.sql("USE other")
    assert rows(shop.sql("SELECT * FROM db.v WHERE current_database() = 'other'")) == [("other!",)]
    shop.sql("DELETE FROM db.t WHERE name <> current_database() AND id = 1")
    assert rows(
        shop.sql("SELECT id, VALUE FROM db.t, (VALUES (current_catalog())) AS w(value)")
    ) == [(2, "main")]


@pytest.mark.parametrize(
    "values",
    [
        "CAST(NULL AS INT), CAST(NULL AS STRING), NULL",
        "TIMESTAMP_NTZ '2026-01-02 03:04:05.678', TIMESTAMP '2026-01-02 03:04', DATE '2026-01-02'",
        "INTERVAL '1-2' YEAR TO MONTH, INTERVAL '-1 02:03:04.5' DAY TO SECOND, INTERVAL '7' HOUR",
        "MAP('k', 1, 'l', 2), MAP(1, ARRAY(1.5BD)), ARRAY(CAST(NULL AS DATE))",
        "NAMED_STRUCT('a', 1Y, 'b', 'x'), STRUCT(ARRAY('c'), X'1F'), ARRAY(1, NULL)",
        "5L, 5S, CAST(1.5 AS FLOAT)",
        "CAST(1.5 AS DECIMAL(20, 4)), 1e100, double('NaN')",
        "true, 'x' || 'y', ARRAY(ARRAY(1), NULL)",
    ],
)
def test_values_of_execute_immediate_keep_their_types(
    spark: SparkSession, shop: SparkLake, values: str
) -> None:
    shown = ", ".join(f"typeof(:{name}), to_json(named_struct(''v'', :{name}))" for name in "abc")
    text = f"EXECUTE IMMEDIATE 'SELECT {shown}' USING {_named(values)}"
    assert rows(shop.sql(text)) == rows(spark.sql(text))


def _named(values: str) -> str:
    """Three expressions with commas between them, named a, b and c."""
    parts: list[str] = []
    depth = start = 0
    for at, character in enumerate(values):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(values[start:at])
            start = at + 1
    parts.append(values[start:])
    return ", ".join(f"{part} AS {name}" for part, name in zip(parts, "abc", strict=True))


def test_variables_are_values_by_their_names(spark: SparkSession, shop: SparkLake) -> None:
    by_name = "EXECUTE IMMEDIATE 'SELECT :least + 1, :x' USING least, 5 AS x"
    in_order = "EXECUTE IMMEDIATE 'SELECT ? + 1, ?' USING least AS x, session.least"
    for text in (by_name, in_order):
        assert rows(shop.sql(text)) == rows(spark.sql(text))
    assert rows(
        shop.sql("EXECUTE IMMEDIATE 'SELECT id FROM t WHERE id >= :least' USING least")
    ) == [(2,)]
    with pytest.raises(Invalid, match="each value has a name of its own"):
        shop.sql("EXECUTE IMMEDIATE 'SELECT :a' USING least + 1")


def test_names_can_be_values_of_expressions(shop: SparkLake) -> None:
    assert rows(shop.sql("SELECT id FROM IDENTIFIER(wanted) WHERE IDENTIFIER('i' || 'd') > 1")) == [
        (2,)
    ]
    shop.sql("CREATE TABLE IDENTIFIER(concat(wanted, '2')) (id INT)")
    shop.sql(
        "INSERT INTO IDENTIFIER(wanted || '2') SELECT a.id FROM t a, IDENTIFIER(upper(wanted)) b "
        "WHERE a.id = b.id AND IDENTIFIER(lower('ABS'))(a.id) < 2"
    )
    assert rows(shop.sql("SELECT * FROM db.t2")) == [(1,)]
    shop.sql("CREATE FUNCTION twice(x INT) RETURN x * 2")
    assert rows(shop.sql("SELECT IDENTIFIER(concat('db.', 'twice'))(4)")) == [(8,)]
    with pytest.raises(NotFound):
        shop.sql("SELECT * FROM IDENTIFIER(wanted || '3')")
    with pytest.raises(Invalid, match="there is no such name"):
        shop.sql("SELECT * FROM IDENTIFIER(wanted || '..')")


def test_what_is_computed_before_a_statement_knows_the_lake(
    spark: SparkSession, shop: SparkLake
) -> None:
    shop.catalog.create_database("default")
    shop.sql("CREATE TABLE default.t (id INT, name STRING)")
    shop.sql("INSERT INTO IDENTIFIER(current_database() || '.t') VALUES (7, 'c')")
    assert shop.sql("SELECT * FROM IDENTIFIER(builtin.current_schema() || '.t')").count() == 3
    assert shop.sql("SELECT * FROM default.t").count() == 0
    assert rows(shop.sql("EXECUTE IMMEDIATE 'SELECT ?' USING current_database()")) == [("db",)]
    text = "EXECUTE IMMEDIATE 'SELECT count(*) FROM ' || current_database() || '.t'"
    assert rows(shop.sql(text)) == [(3,)]
    shop.sql("CREATE FUNCTION here(x STRING DEFAULT current_database()) RETURN x")
    assert rows(shop.sql("SELECT here(), system.builtin.current_database()")) == [("db", "db")]
    shop.sql("DECLARE OR REPLACE VARIABLE used STRING DEFAULT current_database()")
    try:
        assert rows(spark.sql("SELECT used")) == [("db",)]
    finally:
        spark.sql("DROP TEMPORARY VARIABLE used")
    shop.sql("DROP TABLE IDENTIFIER(current_database() || '.t')")
    assert shop.catalog.table_exists("default.t")
    assert not shop.catalog.table_exists("db.t")


def test_names_that_are_kept_are_not_of_this_session(shop: SparkLake) -> None:
    for definition in (
        "VIEW kept AS SELECT * FROM IDENTIFIER(wanted)",
        "FUNCTION kept(wanted STRING) RETURN (SELECT count(*) FROM IDENTIFIER(wanted))",
    ):
        with pytest.raises(Unsupported, match="IDENTIFIER of an expression"):
            shop.sql(f"CREATE {definition}")


def test_values_are_not_texts_of_settings(spark: SparkSession, shop: SparkLake) -> None:
    spark.conf.set("my.v", "SUBST")
    try:
        written = "a ${my.v} 'b' ${my.w}"
        assert rows(shop.sql("SELECT :x AS x", args={"x": written})) == [(written,)]
        shop.sql("INSERT INTO t VALUES (3, :x)", args={"x": written})
        assert rows(shop.sql("SELECT name FROM t WHERE name = ?", args=[written])) == [(written,)]
        text = "EXECUTE IMMEDIATE 'SELECT ?' USING concat('$', '{my.v}')"
        assert rows(shop.sql(text)) == [("${my.v}",)]
    finally:
        spark.conf.unset("my.v")


def test_values_within_others_keep_their_types(spark: SparkSession, shop: SparkLake) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for text in (
            "'SELECT CAST(?[0] AS STRING)' USING array(TIMESTAMP_NTZ '2020-03-08 02:30:00')",
            "'SELECT ?[0]' USING array(TIME '10:00:00')",
            "'SELECT \\'A\\' = ?, typeof(?)' USING 'a' COLLATE UTF8_LCASE, 'b' COLLATE UTF8_LCASE",
            "'SELECT ?' USING (5) + 1",
        ):
            assert rows(shop.sql(f"EXECUTE IMMEDIATE {text}")) == rows(
                spark.sql(f"EXECUTE IMMEDIATE {text}")
            )
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    for value in ("array(parse_json('1'))", "make_interval(1, 2)"):
        with pytest.raises(Invalid, match="SQL has no constant of"):
            shop.sql(f"EXECUTE IMMEDIATE 'SELECT ?' USING {value}")


def test_settings_are_put_into_statements(spark: SparkSession, shop: SparkLake) -> None:
    spark.conf.set("my.table", "${my.name}")
    spark.conf.set("my.name", "t")
    try:
        settings = "SELECT '${my.name} ${spark:my.name} ${unknown} ${env:NO_SUCH} ${env:PATH}' AS s"
        ((expected,),) = rows(spark.sql(settings))
        assert rows(shop.sql(f"{settings} FROM ${{my.table}} WHERE id = 1")) == [(expected,)]
        spark.conf.set("my.name", "${my.table}")
        with pytest.raises(Invalid, match="names itself"):
            shop.sql("SELECT * FROM ${my.table}")
        spark.conf.set("spark.sql.variable.substitute", "false")
        assert rows(shop.sql("SELECT '${my.name}'")) == [("${my.name}",)]
    finally:
        for name in ("my.table", "my.name", "spark.sql.variable.substitute"):
            spark.conf.unset(name)
