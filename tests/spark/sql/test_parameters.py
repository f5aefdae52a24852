"""Parameters of statements: ``:name`` and ``?``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum

import numpy as np
import pandas as pd
import pyspark.sql.functions as sf
import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.spark.sql.constants import Constants
from headwater.spark.sql.parameters import with_arguments
from headwater.storage.errors import Invalid

CONSTANTS = Constants(keeps_escapes=False, prefers_local_times=False)
KEEPING = Constants(keeps_escapes=True, prefers_local_times=False)


class Colour(Enum):
    RED = "red"


def bound(text: str, arguments: object) -> str:
    assert isinstance(arguments, Mapping | Sequence)
    return with_arguments(text, arguments, CONSTANTS)


@pytest.mark.parametrize(
    ("written", "arguments", "read"),
    [
        ("SELECT * FROM t WHERE a=:a AND b > :b", {"a": 1, "b": "x"},
         "SELECT * FROM t WHERE a=1 AND b > 'x'"),
        ("SELECT :a, x :: INT, v:a, -:a", {"a": -2}, "SELECT  -2, x :: INT, v:a, - -2"),
        ("SELECT v:a, s.v:b, v[0]:c, CAST(x AS STRUCT<a: INT, b:INT>), :c", {"c": None},
         "SELECT v:a, s.v:b, v[0]:c, CAST(x AS STRUCT<a: INT, b:INT>), NULL"),
        ("SELECT ':a', `:a`, :a -- :b\n /* :c */ LIMIT :n", {"a": True, "n": 5},
         "SELECT ':a', `:a`, TRUE -- :b\n /* :c */ LIMIT 5"),
        ("SELECT ?, ?::STRING, '?' IN (?)", ["it's", 1.5, "?"],
         "SELECT 'it\\'s', 1.5D::STRING, '?' IN ('?')"),
        ("SELECT 1", {}, "SELECT 1"),
        ("SELECT 1", [], "SELECT 1"),
    ],
)  # fmt: skip
def test_constants_take_the_places_of_parameters(
    written: str, arguments: object, read: str
) -> None:
    assert bound(written, arguments) == read


def test_a_text_stays_a_text_whatever_it_holds() -> None:
    text = "\\'; DROP TABLE t; --"
    assert bound("SELECT :a", {"a": text}) == "SELECT '\\\\\\'; DROP TABLE t; --'"
    kept = with_arguments("SELECT ?", ["a\\b's"], KEEPING)
    assert kept == """SELECT 'a\\b' "'" 's'"""
    with pytest.raises(Invalid, match="of type str, for which SQL has no constant"):
        with_arguments("SELECT ?", [text], KEEPING)


@pytest.mark.parametrize(
    ("text", "arguments", "says"),
    [
        ("SELECT :a, :b", {"a": 1}, "args has no value for :b of the statement"),
        ("SELECT ?, ?", [1], r"args has no value for \? number 2"),
        ("SELECT :a", {"a": 1, "b": 2}, "args has a value for :b, which the statement has not"),
        ("SELECT ?", [1, 2], r"args has a value for \? number 2"),
        ("SELECT ?", {"a": 1}, "a dict of args has values for :name, and a list for"),
        ("SELECT :a", [1], "a dict of args has values for :name, and a list for"),
        ("SELECT :a", {"a": object()}, "the value of :a is <object .* of type object"),
        ("SELECT :a", {"a": {"b": 1}}, "of type dict, for which SQL has no constant"),
        ("SELECT :a", {"a": [1, pd.NaT]}, "the value of :a is NaT"),
        ("SELECT :a", {"a": Decimal("NaN")}, "of type Decimal, for which"),
        ("SELECT :a", {"a": 2**63}, "of type int, for which"),
        ("SELECT ?", "a", "a dict of values by name or a list of values is expected, not 'a'"),
    ],
)
def test_what_does_not_match_is_refused(text: str, arguments: object, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        bound(text, arguments)


VALUES: list[object] = [
    None,
    True,
    0,
    -7,
    2**31,
    -(2**63),
    1.5,
    -1e-9,
    float("inf"),
    np.float64(0.1),
    np.int64(5),
    np.int8(-3),
    np.int16(3),
    np.float32(0.1),
    np.bool_(False),
    Decimal("1.50"),
    Decimal("-12345678901234567890.123"),
    "",
    'it\'s "a\\b" \n\t 😀 %_',
    b"\x00\xff",
    Colour.RED,
    dt.date(2024, 2, 29),
    dt.date(1900, 1, 1),
    dt.datetime(2024, 3, 10, 2, 30, 0, 123456),
    dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
    dt.timedelta(days=-1, seconds=5, microseconds=7),
    dt.timedelta(hours=30),
    [1, 2],
    [],
    ["a", None],
]


@pytest.mark.spark
@pytest.mark.modes
@pytest.mark.parametrize("types", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
@pytest.mark.parametrize("keeps_escapes", ["false", "true"])
def test_constants_are_those_of_spark(
    spark: SparkSession, lake: SparkLake, types: str, keeps_escapes: str
) -> None:
    asked = "SELECT " + ", ".join("?, typeof(?)" for _ in VALUES)
    values = [value for value in VALUES for _ in range(2)]
    settings = {
        "spark.sql.timestampType": types,
        "spark.sql.parser.escapedStringLiterals": keeps_escapes,
        "spark.sql.session.timeZone": "America/New_York",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        columns = [
            column for value in VALUES for column in (sf.lit(value), sf.typeof(sf.lit(value)))
        ]
        expected = spark.range(1).select(*columns)
        actual = lake.sql(asked, args=values)
        assert rows(actual) == rows(expected)
        assert [kind for _, kind in actual.dtypes] == [kind for _, kind in expected.dtypes]
    finally:
        for key in settings:
            spark.conf.unset(key)


@pytest.mark.spark
def test_every_statement_takes_them(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE IDENTIFIER(:t) (k INT, v STRING, d DECIMAL(4, 2))", {"t": "db.t"})
    lake.sql(
        "INSERT INTO db.t VALUES (:k, :v, :d), (2, :v, -:d)",
        {"k": 1, "v": "it's", "d": Decimal("1.25")},
    )
    lake.sql("UPDATE db.t SET v = ? WHERE k = ?", ["x", 2])
    assert rows(lake.sql("SELECT * FROM db.t WHERE v = :v", {"v": "it's"})) == [
        (1, "it's", Decimal("1.25"))
    ]
    lake.sql("CALL sys.create_tag(table => :t, tag => :n, snapshot => :s)",
             {"t": "db.t", "n": "first", "s": 1})  # fmt: skip
    lake.sql("DELETE FROM db.t WHERE k IN (?, ?)", [1, 3])
    asked = "SELECT k FROM db.t VERSION AS OF :tag ORDER BY k LIMIT :n"
    assert rows(lake.sql(asked, {"tag": "first", "n": 1})) == [(1,)]
    assert rows(lake.sql("SELECT k FROM db.t")) == [(2,)]
    with pytest.raises(Invalid, match="args has no value for :k"):
        lake.sql("DELETE FROM db.t WHERE k = :k", {})
    assert rows(lake.sql("SELECT count(*) FROM db.t")) == [(1,)]


@pytest.mark.spark
@pytest.mark.modes
def test_a_statement_can_be_a_value(spark: SparkSession, lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (k BIGINT, v STRING)")
    lake.sql("EXECUTE IMMEDIATE 'INSERT INTO db.t VALUES (?, ?), (2, ?)' USING 1, 'a', 'it''s'")
    by_name = "EXECUTE IMMEDIATE 'SELECT k FROM ' || 'db.t WHERE v = :v' USING 'it\\'s' AS v"
    assert rows(lake.sql(by_name)) == [(2,)]
    lake.sql("DECLARE VARIABLE asked STRING DEFAULT 'SELECT max(k), min(v) FROM db.t WHERE k < ?'")
    lake.sql("DECLARE VARIABLE most BIGINT")
    lake.sql("DECLARE VARIABLE least STRING")
    try:
        lake.sql("EXECUTE IMMEDIATE asked INTO most, least USING (1 + 1)")
        assert rows(spark.sql("SELECT most, least")) == [(1, "a")]
        lake.sql("EXECUTE IMMEDIATE 'SELECT k, v FROM db.t WHERE k > most + 7' INTO most, least")
        assert rows(spark.sql("SELECT most, least")) == [(None, None)]
        for text, says in (
            ("EXECUTE IMMEDIATE 'SELECT k FROM db.t' INTO most", "more than one row"),
            ("EXECUTE IMMEDIATE 'SELECT 1, 2' INTO most", "1 variables are named, and .* 2"),
            ("EXECUTE IMMEDIATE 'USE db' INTO most", "gives no rows; leave INTO out"),
            ("EXECUTE IMMEDIATE 5", "a string is expected, and the value is of type int"),
            (
                "EXECUTE IMMEDIATE 'SELECT ?, :a' USING 1 AS a",
                "a dict of args has values for :name",
            ),
            ("EXECUTE IMMEDIATE 'SELECT :a' USING 1 AS a, 2", "each value has a name of its own"),
            ("EXECUTE IMMEDIATE 'SELECT 1; SELECT 2'", "one statement is expected"),
            ("EXECUTE IMMEDIATE", "where a string or an expression that gives one is expected"),
        ):
            with pytest.raises(Invalid, match=says):
                lake.sql(text)
    finally:
        for name in ("asked", "most", "least"):
            lake.sql(f"DROP TEMPORARY VARIABLE {name}")
