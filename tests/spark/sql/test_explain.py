"""EXPLAIN of statements that are not queries: they are checked and planned, and not run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.client.connect import DATABASE_FILE
from headwater.spark import SparkLake, connect
from headwater.storage.errors import AlreadyExists, HeadwaterError, Invalid, NotFound, Unsupported

pytestmark = [pytest.mark.spark, pytest.mark.modes]

_CHANGES = {
    "p": "merge-on-read: new versions of rows by primary key",
    "a": "copy-on-write: files of changed rows are rewritten",
    "v": "merge-on-read: deletion vectors mark old rows",
    "e": "data evolution: files of the columns name",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lake."""
    return tmp_path_factory.mktemp("explain")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, folder: Path) -> SparkLake:
    """Tables of several ways to change rows, each with two partitions of one row where it can."""
    lake = connect(spark, folder)
    lake.sql("CREATE DATABASE db")
    lake.sql("USE db")
    columns = "(id INT, name STRING, dt STRING)"
    lake.sql(
        f"CREATE TABLE p {columns} PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '1')"
    )
    lake.sql(f"CREATE TABLE a {columns} PARTITIONED BY (dt)")
    lake.sql(
        f"CREATE TABLE v {columns} PARTITIONED BY (dt) "
        "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')"
    )
    lake.sql(
        f"CREATE TABLE e {columns} PARTITIONED BY (dt) TBLPROPERTIES "
        "('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true')"
    )
    lake.sql(f"CREATE TABLE f {columns} USING csv PARTITIONED BY (dt)")
    for table in ("p", "a", "v", "e", "f"):
        lake.sql(f"INSERT INTO {table} VALUES (1, 'x', 'd1'), (2, 'y', 'd2')")
    lake.sql("CREATE VIEW w AS SELECT id FROM p")
    return lake


def _state(folder: Path) -> set[tuple[str, int]]:
    """The files of a lake and their sizes, without those of its database."""
    return {
        (str(path), path.stat().st_size)
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(DATABASE_FILE)
    }


def _plan(lake: SparkLake, statement: str, mode: str = "") -> str:
    [(text,)] = rows(lake.sql(f"EXPLAIN {mode} {statement}"))
    return str(text)


@pytest.mark.parametrize("table", _CHANGES)
def test_an_update_is_planned_over_the_files_it_reads(
    lake: SparkLake, folder: Path, table: str
) -> None:
    before = _state(folder)
    text = _plan(lake, f"UPDATE {table} SET name = 'z' WHERE dt = 'd1'")
    heading, line, plan = text.split("\n", 2)
    assert heading == "== Physical Plan =="
    assert line == f"Execute UPDATE db.{table} [{_CHANGES[table]}]"
    assert plan.startswith("+- ")
    tables = text.partition("== Tables ==\n")[2]
    assert tables.startswith(f"db.{table}, snapshot 1\n")
    assert "files: 1 of 2 " in tables
    assert [read.table for read in lake.last_query] == [f"db.{table}"]
    assert _state(folder) == before
    assert rows(lake.sql(f"SELECT name FROM {table} ORDER BY id")) == [("x",), ("y",)]
    assert len(lake.catalog.table(f"db.{table}").snapshots()) == 1


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("INSERT INTO p SELECT * FROM a WHERE dt = 'd1'", "INSERT INTO db.p [append]"),
        ("INSERT INTO f SELECT * FROM a WHERE dt = 'd1'", "INSERT INTO db.f [append]"),
        (
            "WITH q AS (SELECT * FROM a WHERE dt = 'd1') INSERT INTO v SELECT * FROM q",
            "INSERT INTO db.v [append]",
        ),
        (
            "INSERT OVERWRITE v SELECT * FROM a WHERE dt = 'd1'",
            "INSERT OVERWRITE db.v [overwrite of the table]",
        ),
        (
            "INSERT OVERWRITE v PARTITION (dt = 'd2') SELECT id, name FROM a WHERE dt = 'd1'",
            "INSERT OVERWRITE db.v [overwrite of the partition dt=d2]",
        ),
        (
            "INSERT OVERWRITE v /*+ OPTIONS('dynamic-partition-overwrite' = 'true') */ "
            "SELECT * FROM a WHERE dt = 'd1'",
            "INSERT OVERWRITE db.v [dynamic overwrite of the partitions that have new rows]",
        ),
        (
            "INSERT INTO v REPLACE WHERE dt = 'd1' SELECT * FROM a WHERE dt = 'd1'",
            f"INSERT INTO db.v [replace of rows by a condition, {_CHANGES['v']}]",
        ),
        (
            "DELETE FROM v WHERE id IN (SELECT id FROM a WHERE dt = 'd1')",
            f"DELETE FROM db.v [{_CHANGES['v']}]",
        ),
        (
            "MERGE INTO p USING (SELECT * FROM a WHERE dt = 'd1') s ON p.dt = s.dt AND p.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            f"MERGE INTO db.p [{_CHANGES['p']}]",
        ),
        (
            "CREATE TABLE n AS SELECT * FROM a WHERE dt = 'd1'",
            "CREATE TABLE db.n [append to a new table]",
        ),
        (
            "CREATE OR REPLACE TABLE v PARTITIONED BY (dt) AS SELECT * FROM a WHERE dt = 'd1'",
            "CREATE OR REPLACE TABLE db.v [overwrite of the table]",
        ),
        (
            "COPY INTO '/headwater/none' FROM (SELECT * FROM a WHERE dt = 'd1') "
            "FILE_FORMAT = (TYPE = CSV)",
            "COPY INTO '/headwater/none' [new files]",
        ),
    ],
)
def test_a_write_is_planned_with_the_query_that_it_reads(
    lake: SparkLake, folder: Path, statement: str, line: str
) -> None:
    before = _state(folder)
    text = _plan(lake, statement)
    assert text.startswith(f"== Physical Plan ==\nExecute {line}\n+- ")
    # The source is a query, or in a subquery, whose view is read as a whole.
    source = text.partition("== Tables ==\n")[2].partition("db.a, snapshot 1\n")[2]
    assert f"files: {2 if statement.startswith('DELETE') else 1} of 2 " in source
    assert _state(folder) == before
    assert rows(lake.sql("SHOW TABLES LIKE 'n'")) == []
    assert rows(lake.sql("SELECT id FROM v ORDER BY id")) == [(1,), (2,)]


def test_each_insert_after_from_has_a_plan(lake: SparkLake) -> None:
    text = _plan(lake, "FROM a INSERT INTO p SELECT * WHERE dt = 'd1' INSERT INTO v SELECT *")
    assert text.count("== Physical Plan ==") == 2
    assert "Execute INSERT INTO db.p [append]" in text
    assert "Execute INSERT INTO db.v [append]" in text
    assert text.count("db.a, snapshot 1") == 2


def test_modes_keep_the_form_of_spark(lake: SparkLake) -> None:
    statement = "INSERT INTO a SELECT * FROM p"
    line = "Execute INSERT INTO db.a [append]\n"
    extended = _plan(lake, statement, "EXTENDED")
    assert extended.startswith("== Parsed Logical Plan ==")
    assert f"== Physical Plan ==\n{line}+- " in extended
    formatted = _plan(lake, statement, "FORMATTED")
    assert formatted.startswith(f"== Physical Plan ==\n{line}+- ")
    assert "\n\n(1) " in formatted
    assert "== Optimized Logical Plan ==" in _plan(lake, statement, "COST")
    assert _plan(lake, statement, "CODEGEN").startswith(f"{line}Found ")
    with pytest.raises(Unsupported, match="instead: EXPLAIN EXTENDED"):
        _plan(lake, statement, "LOGICAL")


def test_a_change_of_columns_comes_before_the_rows(spark: SparkSession, lake: SparkLake) -> None:
    spark.conf.set("spark.paimon.write.merge-schema", "true")
    try:
        text = _plan(lake, "INSERT INTO a BY NAME SELECT *, 1 AS more FROM p")
    finally:
        spark.conf.unset("spark.paimon.write.merge-schema")
    assert "Execute INSERT INTO db.a [after columns of the table are changed]\n+- " in text
    assert lake.table("db.a").columns == ["id", "name", "dt"]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE p ADD COLUMNS (c INT)",
        "ALTER TABLE p DROP PARTITION (dt = 'd1')",
        "ALTER TABLE p CREATE TAG first",
        "ALTER TABLE p RENAME TO q",
        "ALTER VIEW w AS SELECT 1",
        "ANALYZE TABLE p COMPUTE STATISTICS",
        "CACHE TABLE kept AS SELECT * FROM p",
        "CALL sys.compact(table => 'p')",
        "CALL sys.remove_orphan_files(table => 'db.*')",
        "COMMENT ON TABLE p IS 'x'",
        "CREATE DATABASE other",
        "CREATE FUNCTION g(a INT) RETURN a + 1",
        "CREATE OR REPLACE VIEW w AS SELECT 1",
        "CREATE TABLE IF NOT EXISTS p (a INT)",
        "CREATE TABLE n (a INT)",
        "CREATE TEMPORARY VIEW kept AS SELECT * FROM p",
        "DESCRIBE EXTENDED p",
        "DROP DATABASE db CASCADE",
        "DROP TABLE IF EXISTS none",
        "DROP TABLE p",
        "DROP VIEW w",
        "EXECUTE IMMEDIATE 'DROP TABLE p'",
        "REFRESH TABLE p",
        "SHOW PARTITIONS p",
        "TRUNCATE TABLE f",
        "TRUNCATE TABLE p",
        "USE db",
    ],
)
def test_a_command_is_named_and_not_run(lake: SparkLake, folder: Path, statement: str) -> None:
    before = _state(folder), rows(lake.sql("SHOW TABLES")), rows(lake.sql("DESCRIBE EXTENDED p"))
    heading, line, text, _ = _plan(lake, statement).split("\n")
    assert heading == "== Physical Plan =="
    command = line.removeprefix("Execute ")
    assert command != line
    assert statement.startswith(command)
    assert text == f"   +- {statement}"
    after = _state(folder), rows(lake.sql("SHOW TABLES")), rows(lake.sql("DESCRIBE EXTENDED p"))
    assert after == before
    assert rows(lake.sql("SHOW DATABASES")) == [("db",)]
    assert rows(lake.sql("SELECT * FROM w ORDER BY id")) == [(1,), (2,)]
    assert rows(lake.sql("SHOW USER FUNCTIONS")) == []
    assert rows(lake.sql("SHOW TAGS p")) == []
    assert not lake.spark.catalog.tableExists("kept")


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("UPDATE none SET name = 'x'", NotFound, "table db.none does not exist"),
        ("UPDATE p SET none = 'x'", NotFound, "no column 'none'"),
        ("INSERT INTO p SELECT 1", Invalid, "too few columns"),
        ("DELETE FROM f", Unsupported, "db.f"),
        ("DROP TABLE none", NotFound, "table db.none does not exist"),
        ("DROP VIEW none", NotFound, "view db.none does not exist"),
        ("DROP FUNCTION none", NotFound, "function db.none does not exist"),
        ("DROP DATABASE none", NotFound, "database none does not exist"),
        ("DROP DATABASE db", Invalid, "database db has tables"),
        ("CREATE DATABASE db", AlreadyExists, "database db exists already"),
        ("CREATE TABLE p (a INT)", AlreadyExists, "table db.p exists already"),
        ("CREATE TABLE p AS SELECT 1", AlreadyExists, "table db.p exists already"),
        ("CREATE TABLE n (a INT) TBLPROPERTIES ('primary-key' = 'b')", Invalid, "'b' is not"),
        ("CREATE VIEW w AS SELECT 1", AlreadyExists, "view db.w exists already"),
        ("REPLACE TABLE none AS SELECT 1 AS a", NotFound, "table db.none does not exist"),
        ("ALTER TABLE p ADD COLUMNS (name INT)", AlreadyExists, "column 'name' exists already"),
        ("ALTER TABLE p DROP COLUMN none", NotFound, "column 'none' does not exist"),
        ("ALTER TABLE p SET TBLPROPERTIES ('bucket' = 'x')", Invalid, "'bucket' must be"),
        ("ALTER TABLE p RENAME TO a", AlreadyExists, "table db.a exists already"),
        ("ALTER TABLE p DROP PARTITION (dt = 'd9')", NotFound, "no partition dt=d9"),
        ("ALTER TABLE p DELETE TAG none", NotFound, "no tag 'none'"),
        ("CALL sys.compact(table => 'none')", NotFound, "table db.none does not exist"),
        ("CALL sys.compact(tables => 'p')", Invalid, "no argument is called 'tables'"),
        ("SHOW PARTITIONS w", Invalid, "is a view"),
        ("USE none", NotFound, "none does not exist"),
        ("DROP", Unsupported, "does not know the statement"),
        ("", Invalid, "where a statement is expected"),
    ],
)
def test_what_is_refused_when_run_is_refused(
    lake: SparkLake, statement: str, error: type[HeadwaterError], message: str
) -> None:
    with pytest.raises(error, match=message):
        _plan(lake, statement)
    if statement:
        with pytest.raises(error, match=message):
            lake.sql(statement)


def test_unknown_columns_are_errors_of_spark(lake: SparkLake) -> None:
    for statement in ("UPDATE p SET name = none", "CREATE TABLE n AS SELECT none FROM p"):
        with pytest.raises(AnalysisException, match="`none` cannot be resolved"):
            _plan(lake, statement)


def test_statements_of_the_session_have_the_plan_of_spark(
    spark: SparkSession, lake: SparkLake
) -> None:
    statement = "SET spark.headwater.test = 7"
    assert _plan(lake, statement) == rows(spark.sql(f"EXPLAIN {statement}"))[0][0]
    assert spark.conf.get("spark.headwater.test", None) is None
