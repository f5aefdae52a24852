"""Names as constant texts: ``IDENTIFIER('database.table')``."""

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.spark.sql.identifier_clauses import with_plain_names
from headwater.storage.errors import Invalid


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("SELECT * FROM IDENTIFIER('d.t') x", "SELECT * FROM `d`.`t` x"),
        ("DROP TABLE identifier ( 'd.' || '`a.``b`' )", "DROP TABLE `d`.`a.``b`"),
        ("FROM IDENTIFIER('t$files')", "FROM `t$files`"),
        ("SELECT IDENTIFIER('a'), IDENTIFIER(v)", "SELECT `a`, IDENTIFIER(v)"),
        ("SELECT identifier, a.identifier('x')", "SELECT identifier, a.identifier('x')"),
        ("SELECT 'IDENTIFIER', `identifier`('a')", "SELECT 'IDENTIFIER', `identifier`('a')"),
        ("SET a=IDENTIFIER('x'); USE IDENTIFIER('d')", "SET a=IDENTIFIER('x'); USE `d`"),
    ],
)  # fmt: skip
def test_constants_are_names(written: str, read: str) -> None:
    assert with_plain_names(written) == read


@pytest.mark.parametrize("constant", ["", "a b", "a.", ".a", "a..b", "`a", "a`b`"])
def test_a_constant_that_is_no_name_is_refused(constant: str) -> None:
    with pytest.raises(Invalid, match="there is no such name"):
        with_plain_names(f"SELECT * FROM IDENTIFIER('{constant}')")


@pytest.mark.spark
def test_every_statement_takes_them(spark: SparkSession, lake: SparkLake) -> None:
    lake.sql("CREATE TABLE IDENTIFIER('db.t') (k INT, v STRING)")
    lake.sql("INSERT INTO IDENTIFIER('db.' || 't') VALUES (1, 'a'), (2, 'b')")
    lake.sql("USE IDENTIFIER('db')")
    asked = "SELECT IDENTIFIER('v'), IDENTIFIER('max')(k) FROM IDENTIFIER('t') GROUP BY ALL"
    assert rows(lake.sql(asked)) == [("a", 1), ("b", 2)]
    assert rows(lake.sql("SELECT k FROM IDENTIFIER('db.t') VERSION AS OF 1 WHERE k = 2")) == [(2,)]
    lake.sql("CREATE VIEW v AS SELECT * FROM IDENTIFIER('t')")
    assert rows(lake.sql("SELECT count(*) FROM IDENTIFIER('v')")) == [(2,)]
    lake.sql("DROP TABLE IDENTIFIER('t')")
    assert not lake.catalog.table_exists("db.t")
