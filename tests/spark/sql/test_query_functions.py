"""Functions of the catalog that read tables: their value or their rows are those of a query."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.catalog.model.identifier import Identifier
from headwater.spark import SparkLake
from headwater.storage.errors import Invalid, NotFound, Unsupported

pytestmark = pytest.mark.spark


@pytest.fixture
def staff(lake: SparkLake) -> SparkLake:
    """A lake with the tables ``dept`` and ``emp`` in the database ``db``, which is in use."""
    lake.sql("USE db")
    lake.sql("CREATE TABLE dept (id INT, name STRING)")
    lake.sql("CREATE TABLE emp (id INT, dept_id INT, pay INT) TBLPROPERTIES ('primary-key' = 'id')")
    lake.sql("INSERT INTO dept VALUES (1, 'shop'), (2, 'mill'), (3, 'farm')")
    lake.sql("INSERT INTO emp VALUES (1, 1, 10), (2, 1, 20), (3, 2, 35), (4, 2, 5), (5, 2, 60)")
    return lake


def test_a_query_gives_the_value_of_a_function(staff: SparkLake) -> None:
    staff.sql(
        "CREATE FUNCTION top_pay(dept INT, least INT DEFAULT 0) RETURNS INT "
        "RETURN SELECT max(pay) FROM emp WHERE dept_id = dept AND pay > top_pay.least"
    )
    assert rows(staff.sql("SELECT name, top_pay(id) AS top FROM dept")) == [
        ("farm", None),
        ("mill", 60),
        ("shop", 20),
    ]
    assert rows(staff.sql("SELECT db.top_pay(least => 30, dept => 1), db.TOP_PAY(2, 30)")) == [
        (None, 60)
    ]
    staff.sql("CREATE VIEW tops AS SELECT id, top_pay(id) AS top FROM dept WHERE top_pay(id) > 30")
    assert rows(staff.sql("SELECT * FROM tops")) == [(2, 60)]
    staff.sql("INSERT INTO emp VALUES (6, 1, 70)")
    assert rows(staff.sql("SELECT * FROM tops")) == [(1, 70), (2, 60)]


def test_subqueries_and_other_functions_in_an_expression(staff: SparkLake) -> None:
    staff.sql("CREATE FUNCTION people(d INT) RETURN (SELECT count(*) FROM emp WHERE dept_id = d)")
    staff.sql("CREATE FUNCTION label(d INT, t STRING) RETURN concat(t, ': ', people(d), '{}')")
    assert rows(staff.sql("SELECT label(id, name) FROM dept WHERE people(id) > 0")) == [
        ("mill: 3{}",),
        ("shop: 2{}",),
    ]
    staff.sql("UPDATE emp SET pay = pay + people(1) WHERE people(dept_id) = 3 AND id > 3")
    assert rows(staff.sql("SELECT id, pay FROM emp WHERE id > 3")) == [(4, 7), (5, 62)]
    staff.sql("DELETE FROM dept WHERE people(id) = 0")
    assert staff.sql("SELECT * FROM dept").count() == 2


def test_rows_of_a_table_function(staff: SparkLake) -> None:
    staff.sql(
        "CREATE FUNCTION earners(dept INT, least INT DEFAULT 0) RETURNS TABLE(who INT, pay BIGINT) "
        "READS SQL DATA RETURN SELECT id, pay FROM emp WHERE dept_id = dept AND pay > least"
    )
    staff.sql(
        "CREATE FUNCTION all_names() RETURNS TABLE RETURN SELECT name, upper(name) n FROM dept"
    )
    assert rows(staff.sql("SELECT * FROM earners(2, 10)")) == [(3, 35), (5, 60)]
    assert rows(staff.sql("SELECT earners.who FROM db.earners(least => 50, dept => 2)")) == [(5,)]
    assert rows(staff.sql("SELECT n FROM all_names() WHERE name < 'n'")) == [("FARM",), ("MILL",)]
    joined = "SELECT d.name, e.who FROM dept d, LATERAL earners(d.id, 15) AS e"
    assert rows(staff.sql(joined)) == [("mill", 3), ("mill", 5), ("shop", 2)]
    staff.sql("CREATE TABLE kept AS SELECT * FROM earners(1)")
    staff.sql("INSERT INTO kept SELECT * FROM earners(2) e JOIN earners(2) f USING (who, pay)")
    assert staff.sql("SELECT * FROM kept").count() == 5
    described = [row[0] for row in staff.sql("DESCRIBE FUNCTION EXTENDED earners").collect()]
    assert [line.split() for line in described[:6]] == [
        ["Function:", "db.earners"],
        ["Type:", "TABLE"],
        ["Input:", "dept", "INT"],
        ["least", "INT"],
        ["Returns:", "who", "INT"],
        ["pay", "BIGINT"],
    ]


def test_names_in_a_body_are_those_of_the_functions_database(staff: SparkLake) -> None:
    staff.sql("CREATE FUNCTION heads() RETURN (SELECT count(*) FROM emp)")
    staff.catalog.create_database("other")
    staff.sql("USE other")
    staff.sql("CREATE TABLE emp (id INT)")
    assert rows(staff.sql("SELECT db.heads(), (SELECT count(*) FROM emp)")) == [(5, 0)]


def test_only_the_files_that_a_function_needs_are_read(staff: SparkLake) -> None:
    staff.sql("CREATE TABLE days (day INT, n INT) PARTITIONED BY (day)")
    staff.sql("INSERT INTO days SELECT id % 5, id FROM range(50)")
    staff.sql("CREATE FUNCTION third() RETURNS INT RETURN SELECT sum(n) FROM days WHERE day = 3")
    assert rows(staff.sql("SELECT third()")) == [(255,)]
    assert [(read.files, read.files_of_table) for read in staff.last_query] in ([(1, 5)], [(5, 5)])


def test_equal_values_of_a_function_are_equal(staff: SparkLake) -> None:
    staff.sql("CREATE FUNCTION mean_pay() RETURN (SELECT avg(pay) FROM emp)")
    text = "SELECT pay > mean_pay() AS more, count(*) FROM emp GROUP BY pay > mean_pay()"
    assert rows(staff.sql(text)) == [(False, 3), (True, 2)]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("f() RETURN (SELECT max(id) FROM absent)", NotFound, "table db.absent does not exist"),
        ("f(a INT) RETURN (SELECT max(id) FROM dept WHERE b = a)", Invalid, "cannot be called"),
        ("f() RETURN (SELECT max(id) FROM seen)", Invalid, "temporary view of this session"),
        ("f() RETURN SELECT db.f()", Invalid, "calls itself: db.f -> db.f"),
        ("f() RETURNS TABLE (a INT, A INT) RETURN SELECT 1, 2", Invalid, "two columns of one name"),
        ("f() RETURNS TABLE (a INT) RETURN SELECT 1, 2", Invalid, "cannot be called"),
        ("f() CONTAINS SQL RETURN (SELECT max(id) FROM dept)", Invalid, "READS SQL DATA"),
        ("f() CONTAINS SQL READS SQL DATA RETURN 1", Invalid, "SQL DATA stands twice"),
        ("f(a INT) RETURN sum(a) OVER ()", Invalid, "window"),
    ],
)
def test_functions_that_could_not_be_called_are_rejected(
    spark: SparkSession, staff: SparkLake, text: str, kind: type[Exception], message: str
) -> None:
    spark.range(3).createOrReplaceTempView("seen")
    try:
        with pytest.raises(kind, match=message):
            staff.sql(f"CREATE FUNCTION {text}")
        with pytest.raises(NotFound):
            staff.sql("DROP FUNCTION db.f")
    finally:
        spark.catalog.dropTempView("seen")


def test_a_column_called_like_its_function_is_ambiguous(staff: SparkLake) -> None:
    staff.sql("CREATE TABLE st (id INT, f STRUCT<x: INT>)")
    with pytest.raises(Unsupported, match="may be the function or a column"):
        staff.sql("CREATE FUNCTION f(x INT) RETURN (SELECT count(*) FROM st WHERE f.x > 15)")
    staff.sql("CREATE FUNCTION f(y INT) RETURN (SELECT count(*) FROM st s WHERE s.f.x > y)")
    staff.sql("INSERT INTO st VALUES (1, named_struct('x', 10)), (2, named_struct('x', 20))")
    assert rows(staff.sql("SELECT f(15)")) == [(1,)]


def test_a_table_that_is_gone_is_named(staff: SparkLake) -> None:
    staff.sql("CREATE FUNCTION heads() RETURN (SELECT count(*) FROM emp)")
    staff.sql("DROP TABLE emp")
    with pytest.raises(NotFound, match=r"table db\.emp does not exist"):
        staff.sql("SELECT heads()")


def test_a_definition_for_sparks_scalars_is_not_one_of_a_table(staff: SparkLake) -> None:
    staff.sql("CREATE FUNCTION ids() RETURNS TABLE RETURN SELECT id FROM dept")
    staff.sql("CREATE FUNCTION one() RETURN SELECT max(id) FROM dept")
    functions = staff.catalog.catalog.functions
    assert set(functions.get(Identifier("db", "ids")).spec.definitions) == {"spark-table"}
    spec = functions.get(Identifier("db", "one")).spec
    assert set(spec.definitions) == {"spark"}
    assert spec.options["spark.sql-function.is-query"] == "true"
    change = '{"action": "dropDefinition", "name": "spark-table"}'
    staff.sql(f"CALL sys.alter_function('ids', '{change}')")
    with pytest.raises(Unsupported, match="has no definition for 'spark'"):
        staff.sql("SELECT * FROM ids()")
