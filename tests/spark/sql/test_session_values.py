"""What a statement takes from its session: names in use, variables, settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound

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
