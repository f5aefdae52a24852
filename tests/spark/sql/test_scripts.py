"""SQL scripts: ``BEGIN … END``, with plain Spark as the judge."""

from __future__ import annotations

from dataclasses import replace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import rows, stored

from headwater.spark import SparkLake
from headwater.spark.sql.context import SqlContext
from headwater.spark.sql.parameters import Arguments
from headwater.spark.sql.script import run_script
from headwater.spark.sql.script.parser import parse_script
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, Unsupported

pytestmark = [pytest.mark.spark, pytest.mark.modes]

EQUAL = (
    "BEGIN END",
    "BEGIN NOT ATOMIC SELECT 1; SHOW DATABASES; END;",
    "BEGIN DECLARE a, b INT DEFAULT 3; DECLARE VARIABLE c = a + b; SELECT a, b, c; END",
    "BEGIN DECLARE x INT = 5; SET x = 6; SET (x) = (SELECT x + 100); SELECT x; END",
    "BEGIN DECLARE x, y INT = 1; SET x = 2, y = x + 5; SELECT x, y; END",
    "BEGIN DECLARE x INT DEFAULT 3; SET x = 4; SET x = DEFAULT; SELECT x; END",
    "BEGIN DECLARE x INT = 1; BEGIN DECLARE x INT = x + 1; SET x = x + 5; END; SELECT x; END",
    "BEGIN DECLARE x INT = 1; BEGIN DECLARE x STRING = 'in'; SELECT X; END; END",
    "BEGIN a: BEGIN DECLARE x INT = 1; b: BEGIN DECLARE x INT = 2; SET a.x = 10; "
    "SELECT a.x, b.x, x, A.X; END b; END A; END",
    "BEGIN l: BEGIN DECLARE x INT = 1; SELECT l.x FROM (SELECT 7 AS x) AS l; END; END",
    "BEGIN l: BEGIN DECLARE x INT = 1; SELECT l.x FROM (SELECT "
    "named_struct('x', 8) AS l); END; END",
    "BEGIN DECLARE l STRUCT<x: INT> = named_struct('x', 9); l: BEGIN DECLARE x INT = 1; "
    "SELECT l.x, l; END; END",
    "BEGIN DECLARE x INT = 1; SELECT x FROM (SELECT 7 AS x); END",
    "BEGIN DECLARE `my var` INT = 3; SET `My Var` = 4; SELECT `my var`; END",
    "BEGIN DECLARE n INT = 2; SELECT * FROM range(5) LIMIT n; END",
    "BEGIN DECLARE x INT; IF x > 1 THEN SELECT 1; ELSEIF x IS NULL THEN SELECT 2; ELSE SELECT 3; "
    "END IF; END",
    "BEGIN IF CAST(NULL AS BOOLEAN) THEN SELECT 1; ELSE SELECT 3; END IF; END",
    "BEGIN IF (SELECT id > 0 FROM range(0)) THEN SELECT 1; ELSE SELECT 3; END IF; END",
    "BEGIN CASE 1 WHEN '2' THEN SELECT 'two'; WHEN '1' THEN SELECT 'one'; END CASE; END",
    "BEGIN CASE NULL WHEN NULL THEN SELECT 'null'; ELSE SELECT 'else'; END CASE; END",
    "BEGIN CASE WHEN false THEN SELECT 1; WHEN true THEN SELECT 2; END CASE; END",
    "BEGIN DECLARE i INT = 0; w: WHILE i < 5 DO SET i = i + 1; IF i = 2 THEN ITERATE w; END IF; "
    "IF i = 4 THEN LEAVE w; END IF; SELECT i; END WHILE w; END",
    "BEGIN DECLARE i INT = 0; REPEAT SET i = i + 1; UNTIL i > 3 END REPEAT; SELECT i; END",
    "BEGIN DECLARE i INT = 0; l: LOOP SET i = i + 1; IF i > 3 THEN LEAVE l; END IF; END LOOP; "
    "SELECT i; END",
    "BEGIN DECLARE s STRING = ''; FOR r AS SELECT id, id * 2 AS d FROM range(3) ORDER BY id DESC "
    "DO SET s = s || r.id || ':' || D || ' '; END FOR; SELECT s; END",
    "BEGIN FOR SELECT 1 AS a, 2 AS b DO SET a = 5; SELECT a, b; END FOR; END",
    "BEGIN DECLARE x ARRAY<INT> = array(1, 2); FOR r AS SELECT explode(x) v DO "
    "SET x = array(r.v); END FOR; SELECT x; END",
    "BEGIN FOR r AS SELECT TIMESTAMP'2026-10-25 02:30:00' t, INTERVAL '1-2' YEAR TO MONTH i, "
    "map('a', named_struct('b', 1.50)) m DO SELECT r.t, CAST(i AS STRING) AS i, m; END FOR; END",
    "BEGIN `a b`: BEGIN DECLARE x INT = 3; SELECT `a b`.x; LEAVE `A B`; SELECT 9; END; END",
    "BEGIN DECLARE x INT = 1; EXECUTE IMMEDIATE 'SELECT ?' INTO x USING x + 1; SELECT x; END",
    "BEGIN DECLARE q STRING = 'SELECT 5'; EXECUTE IMMEDIATE q; END",
    "BEGIN EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \\'SELECT 1\\''; END",
    "BEGIN DECLARE EXIT HANDLER FOR DIVIDE_BY_ZERO SELECT 'h'; SELECT 1/0; SELECT 2; END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLSTATE '22012' SELECT 's'; "
    "DECLARE EXIT HANDLER FOR divide_by_zero SELECT 'c'; SELECT 1/id FROM range(3); END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'e'; "
    "DECLARE EXIT HANDLER FOR SQLSTATE VALUE '22012' SELECT 's'; SELECT 1/id FROM range(3); END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION, NOT FOUND SELECT 'x'; SELECT nowhere; END",
    "BEGIN DECLARE EXIT HANDLER FOR UNRESOLVED_COLUMN SELECT 'x'; SELECT nowhere; END",
    "BEGIN DECLARE EXIT HANDLER FOR INVALID_BOOLEAN_STATEMENT SELECT 'b'; IF 1 THEN SELECT 1; "
    "END IF; END",
    "BEGIN DECLARE x INT = 1; DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SELECT x; END; "
    "BEGIN DECLARE x INT = 2; SELECT 1/0; END; END",
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'outer'; BEGIN DECLARE x INT = 1/0; "
    "DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'inner'; END; END",
    "BEGIN BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'h'; SELECT 1/0; END; "
    "SELECT 'after'; END",
    "BEGIN l: BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN LEAVE l; END; SELECT 1/0; END; "
    "SELECT 'after'; END",
)
ALSO_EQUAL = (
    "BEGIN DECLARE i INT = 0; DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET i = i + 1; "
    "BEGIN DECLARE i INT = 50; SELECT 1/0; SET i = i + 1; END; SELECT i; END",
    "BEGIN DECLARE i INT = 0; DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET i = i + 100; "
    "WHILE 1/0 = 1 DO SELECT 1; END WHILE; IF 1/0 = 1 THEN SELECT 1; ELSE SELECT 2; END IF; "
    "CASE 1/0 WHEN 1 THEN SELECT 1; ELSE SELECT 2; END CASE; REPEAT SET i = i + 1; "
    "UNTIL 1/0 = 1 END REPEAT; FOR SELECT 1/0 AS a DO SELECT 1; END FOR; SELECT i; END",
    "BEGIN DECLARE x INT; DECLARE total INT = 0; DECLARE done BOOLEAN = false; "
    "DECLARE c CURSOR FOR SELECT id FROM range(5); "
    "DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = true; OPEN c; "
    "REPEAT FETCH c INTO x; IF NOT done THEN SET total = total + x; END IF; "
    "UNTIL done END REPEAT; CLOSE c; SELECT total; END",
    "BEGIN DECLARE x INT; DECLARE c CURSOR FOR SELECT id FROM range(1); OPEN c; "
    "FETCH NEXT FROM c INTO x; FETCH FROM c INTO x; SELECT x; END",
    "BEGIN DECLARE x INT = 2; l: BEGIN DECLARE c CURSOR FOR SELECT x; SET x = 3; OPEN l.c; "
    "SET x = 4; FETCH l.c INTO x; SELECT x; END; END",
    "BEGIN DECLARE x STRUCT<a: INT, b: STRING>; DECLARE c CURSOR FOR SELECT 1, 'z'; OPEN c; "
    "FETCH c INTO x; SELECT x; END",
    "BEGIN DECLARE x INT; DECLARE c INSENSITIVE CURSOR FOR SELECT ? + 1 FOR READ ONLY; "
    "OPEN c USING 5; FETCH c INTO x; SELECT x; END",
    "BEGIN DECLARE x INT; DECLARE c CURSOR FOR SELECT :p + 1; OPEN c USING (5 AS p); "
    "FETCH c INTO x; CLOSE c; OPEN c USING 7 AS p; FETCH c INTO x; SELECT x; END",
)
"""Scripts of what plain Spark has with two more settings."""
FAILING = (
    ("BEGIN DECLARE x INT; BEGIN DECLARE y INT = 3; END; SELECT y; END", "42703"),
    ("BEGIN l: BEGIN DECLARE y INT = 3; END; SELECT l.y; END", "42703"),
    ("BEGIN DECLARE x INT = 1; EXECUTE IMMEDIATE 'SELECT x'; END", "42703"),
    ("BEGIN DECLARE x INT; SET nowhere = 1; END", "42883"),
    ("BEGIN DECLARE x INT; SET x = 'abc'; END", "22018"),
    ("BEGIN SET spark.sql.shuffle.partitions = 3; END", "42883"),
    ("BEGIN DECLARE EXIT HANDLER FOR NOT FOUND SELECT 1; SELECT nowhere; END", "42703"),
    ("BEGIN DECLARE my CONDITION FOR SQLSTATE '42703'; DECLARE EXIT HANDLER FOR my SELECT 1; "
     "SELECT nowhere; END", "42703"),
)  # fmt: skip
REFUSED = (
    ("BEGIN SELECT 1 END", "the statement ends where ;"),
    ("BEGIN DECLARE x INT = 1; DECLARE X INT; END", "variable X cannot be declared"),
    ("BEGIN DECLARE a, A INT; END", "a name stands twice"),
    ("BEGIN DECLARE OR REPLACE x INT; END", "DECLARE OR REPLACE"),
    ("BEGIN DECLARE session.x INT; END", "without a qualifier"),
    ("BEGIN SELECT 1; DECLARE x INT; END", "DECLARE is only allowed at the beginning"),
    ("BEGIN IF true THEN DECLARE x INT; END IF; END", "DECLARE is only allowed at the beginning"),
    ("BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 1; DECLARE x INT; END", "before cursors"),
    ("BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 3; DECLARE c CURSOR FOR SELECT 1; END",
     "before handlers"),
    ("BEGIN DECLARE EXIT HANDLER FOR NO_SUCH_CONDITION SELECT 1; END", "NO_SUCH_CONDITION"),
    ("BEGIN DECLARE EXIT HANDLER FOR SQLSTATE '42' SELECT 1; END", "must be five letters"),
    ("BEGIN DECLARE EXIT HANDLER FOR SQLSTATE 'XX000' SELECT 1; END", "01 or XX"),
    ("BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION, DIVIDE_BY_ZERO SELECT 1; END", "other conditi"),
    ("BEGIN DECLARE EXIT HANDLER FOR DIVIDE_BY_ZERO, divide_by_zero SELECT 1; END", "the same con"),
    ("BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 1; "
     "DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 2; END", "two handlers"),
    ("BEGIN DECLARE my CONDITION; DECLARE my CONDITION; END", "MY is declared twice"),
    ("BEGIN l: BEGIN SELECT 1; END m; END", "'m' does not match the label 'l'"),
    ("BEGIN BEGIN SELECT 1; END m; END", "'m' has no label at the beginning"),
    ("BEGIN a: BEGIN a: BEGIN SELECT 1; END; END; END", "'a' exists around this statement"),
    ("BEGIN a: FOR a AS SELECT 1 x DO SELECT 1; END FOR; END", "'a' exists around"),
    ("BEGIN system: BEGIN SELECT 1; END; END", "'system' cannot be the name of a label"),
    ("BEGIN LEAVE a; END", "LEAVE a: no statement around it"),
    ("BEGIN a: BEGIN ITERATE a; END; END", "the label must be a loop's"),
    ("BEGIN DECLARE x INT; DROP TEMPORARY VARIABLE x; END", "DROP TEMPORARY VARIABLE"),
    ("BEGIN RESET; END", "RESET is not allowed in scripts"),
    ("BEGIN FOR r AS SHOW TABLES DO SELECT 1; END FOR; END", "where a query is expected"),
    ("BEGIN FOR r AS SELECT 1 a, 2 a DO SELECT 1; END FOR; END", "column a stands twice"),
    ("BEGIN IF 'true' THEN SELECT 1; END IF; END", "its type is string, expected BOOLEAN"),
    ("BEGIN EXECUTE IMMEDIATE 'BEGIN SELECT 1; END'; END", "EXECUTE IMMEDIATE cannot run a script"),
)  # fmt: skip
UNSUPPORTED = (
    ("BEGIN ATOMIC SELECT 1; END", "BEGIN ATOMIC is not supported"),
    ("BEGIN SIGNAL SQLSTATE '45000'; END", "SIGNAL is not supported in scripts"),
    ("BEGIN RESIGNAL; END", "RESIGNAL is not supported"),
    ("BEGIN DECLARE x INT; GET DIAGNOSTICS x = ROW_COUNT; END", "GET is not supported"),
)


def shown(frame: DataFrame) -> tuple[str, list[str]]:
    return frame.schema.simpleString(), [str(row) for row in frame.collect()]


@pytest.mark.parametrize("script", EQUAL)
def test_a_script_gives_what_it_gives_in_spark(
    script: str, spark: SparkSession, lake: SparkLake
) -> None:
    assert shown(lake.sql(script)) == shown(spark.sql(script))


@pytest.mark.parametrize("script", ALSO_EQUAL)
def test_continue_handlers_and_cursors_give_what_they_give_in_spark(
    script: str, spark: SparkSession, lake: SparkLake
) -> None:
    settings = [f"spark.sql.scripting.{name}Enabled" for name in ("continueHandler", "cursor")]
    for setting in settings:
        spark.conf.set(setting, "true")
    judged = shown(spark.sql(script))
    for setting in settings:
        spark.conf.unset(setting)
    assert shown(lake.sql(script)) == judged


@pytest.mark.parametrize(("script", "state"), FAILING)
def test_an_error_without_a_handler_ends_the_script(
    script: str, state: str, spark: SparkSession, lake: SparkLake
) -> None:
    for run in (spark.sql, lake.sql):
        with pytest.raises((PySparkException, Py4JJavaError), match=f"SQLSTATE: {state}"):
            run(script)


@pytest.mark.parametrize(("script", "says"), REFUSED)
def test_a_script_that_spark_does_not_run_is_not_run(
    script: str, says: str, spark: SparkSession, lake: SparkLake
) -> None:
    with pytest.raises((PySparkException, Py4JJavaError)):
        spark.sql(script)
    with pytest.raises(HeadwaterError, match=says):
        lake.sql(script)


@pytest.mark.parametrize(("script", "says"), UNSUPPORTED)
def test_what_spark_has_not_is_refused_by_name(script: str, says: str) -> None:
    with pytest.raises(Unsupported, match=says):
        parse_script(script)


def test_deep_nesting_is_refused_before_anything_runs() -> None:
    for depth in (70, 200, 5000):
        script = "BEGIN " * depth + "SELECT 1; " + "END; " * (depth - 1) + "END"
        if depth == 70:
            parse_script(script)
            continue
        with pytest.raises(Invalid, match="nested more than 80 deep"):
            parse_script(script)


def test_statements_of_a_script_change_tables_of_the_catalog(lake: SparkLake) -> None:
    frame = lake.sql(
        """
        BEGIN
            DECLARE least INT DEFAULT 2;
            DECLARE most INT;
            CREATE DATABASE other;
            USE db;
            CREATE TABLE t (id INT, name STRING) TBLPROPERTIES ('primary-key' = 'id');
            INSERT INTO t SELECT id, 'n' || id FROM range(6);
            UPDATE t SET name = 'least ' || least WHERE id = least;
            DELETE FROM db.t WHERE id > least + 2;
            SET most = (SELECT max(id) FROM t);
            IF EXISTS (SELECT 1 FROM t WHERE id = most) THEN
                FOR row AS SELECT id, name FROM t WHERE id >= most DO
                    MERGE INTO t USING (SELECT row.id AS id) s ON t.id = s.id
                    WHEN MATCHED THEN UPDATE SET name = row.name || '!';
                END FOR;
            END IF;
            SELECT id, name, least FROM t WHERE id >= least;
        END
        """
    )
    # The frame keeps the rows of when the query ran, as Spark's does.
    lake.sql("DELETE FROM db.t")
    assert sorted(rows(frame)) == [(2, "least 2", 2), (3, "n3", 2), (4, "n4!", 2)]


def test_handlers_know_the_conditions_of_the_catalog(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT)")
    for statement, condition in (
        ("SELECT * FROM db.nowhere", "TABLE_OR_VIEW_NOT_FOUND"),
        ("DROP TABLE db.nowhere", "SQLSTATE '42P01'"),
        ("CREATE TABLE db.t (id INT)", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("CREATE TABLE db.t (id INT)", "SQLSTATE '42P07'"),
        ("CREATE DATABASE db", "SCHEMA_ALREADY_EXISTS"),
        ("USE nowhere", "SCHEMA_NOT_FOUND"),
        ("CALL sys.nowhere()", "SQLEXCEPTION"),
        ("SET x = (SELECT id FROM db.nowhere)", "SQLSTATE '42P01'"),
    ):
        script = (
            f"BEGIN DECLARE x INT; DECLARE EXIT HANDLER FOR {condition} SELECT 'caught'; "
            f"{statement}; SELECT 'no error'; END"
        )
        assert rows(lake.sql(script)) == [("caught",)], statement
    with pytest.raises(NotFound):
        lake.sql("BEGIN DECLARE EXIT HANDLER FOR NOT FOUND SELECT 1; SELECT * FROM db.no; END")
    assert stored(lake, "db.t") == []


def test_loops_go_on_from_one_chunk_of_rows_to_the_next(
    lake: SparkLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.spark.sql.script.rows._CHUNK", 2)
    script = (
        "BEGIN DECLARE s STRING = ''; FOR SELECT id FROM range(5) ORDER BY id DESC DO "
        "SET s = s || id; END FOR; SELECT s; END"
    )
    assert rows(lake.sql(script)) == [("43210",)]


def test_a_view_of_the_catalog_has_no_local_variables(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT)")
    with pytest.raises(AnalysisException, match="`x` cannot be resolved"):
        lake.sql("BEGIN DECLARE x INT = 1; CREATE VIEW db.v AS SELECT id, x AS y FROM db.t; END")
    script = "BEGIN DECLARE id INT = 1; CREATE VIEW db.v AS SELECT id FROM db.t; SELECT id; END"
    assert rows(lake.sql(script)) == [(1,)]
    assert rows(lake.sql("SELECT * FROM db.v")) == []


def test_no_handler_is_for_a_query_that_somebody_cancels(
    spark: SparkSession, context: SqlContext
) -> None:
    context = replace(context, session=replace(context.session, spark=spark))
    script = "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 1; SELECT 2; END"

    def run(state: str) -> list[str]:
        texts: list[str] = []

        def fail(text: str, arguments: Arguments | None) -> None:
            texts.append(text)
            if text == "SELECT 2":
                raise PySparkException(f"SQLSTATE: {state}")

        run_script(script, fail, context)
        return texts

    assert run("22012") == ["SELECT 2", "SELECT 1"]
    with pytest.raises(PySparkException, match="HY008"):
        run("HY008")


def test_variables_of_the_session_are_as_they_were(spark: SparkSession, lake: SparkLake) -> None:
    spark.sql("DECLARE OR REPLACE VARIABLE kept STRING DEFAULT 'default'")
    spark.sql("SET VARIABLE kept = 'value'")
    script = (
        "BEGIN DECLARE kept INT = 1; SET kept = kept + 1; SET session.kept = session.kept || '!'; "
        "BEGIN DECLARE kept DATE = DATE'2026-01-01'; SELECT kept; END; "
        "EXECUTE IMMEDIATE 'SELECT kept'; {} END"
    )
    assert rows(lake.sql(script.format(""))) == [("value!",)]
    with pytest.raises(PySparkException):
        lake.sql(script.format("SELECT nowhere;"))
    assert rows(lake.sql("SELECT kept, typeof(kept)")) == [("value!!", "string")]
    lake.sql("SET VARIABLE kept = DEFAULT")
    assert rows(lake.sql("SELECT kept")) == [("default",)]
    lake.sql("DROP TEMPORARY VARIABLE kept")
    lake.sql("BEGIN DECLARE kept INT = 1; SELECT kept; END")
    with pytest.raises(AnalysisException):
        lake.sql("SELECT kept").collect()


def test_variables_of_the_session_take_rows_of_the_catalog(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, name STRING)")
    lake.sql("INSERT INTO db.t VALUES (1, 'a'), (2, 'b')")
    lake.sql("DECLARE OR REPLACE VARIABLE first, most INT")
    lake.sql("DECLARE OR REPLACE named STRING = 'x'")
    lake.sql(
        "SET VARIABLE first = (SELECT min(id) FROM db.t), most = 1 + (SELECT max(id) FROM db.t)"
    )
    lake.sql("SET VAR (named) = (SELECT name FROM db.t WHERE id = first)")
    assert rows(lake.sql("SELECT first, most, named")) == [(1, 3, "a")]
    lake.sql("SET VAR (first, named) = (SELECT id, name FROM db.t WHERE id > 5)")
    assert rows(lake.sql("SELECT first, most, named")) == [(None, 3, None)]
    with pytest.raises((PySparkException, Py4JJavaError), match="ROW_SUBQUERY_TOO_MANY_ROWS"):
        lake.sql("SET VAR (first) = (SELECT id FROM db.t)")
    with pytest.raises(Invalid, match="no query in the default of a variable"):
        lake.sql("DECLARE OR REPLACE first INT DEFAULT (SELECT max(id) FROM db.t)")
    for name in ("first", "most", "named"):
        lake.sql(f"DROP TEMPORARY VARIABLE {name}")
