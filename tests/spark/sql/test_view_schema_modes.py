"""The columns of views whose tables have changed, as those of plain Spark's views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import rows
from tests.spark_sessions import kind_of_session

from headwater.catalog.model.identifier import Identifier
from headwater.catalog.model.views import ViewSchema
from headwater.spark import SparkLake
from headwater.spark.sql.query.view_columns import can_up_cast
from headwater.storage.errors import HeadwaterError, Invalid, NotFound, Unsupported

pytestmark = pytest.mark.spark

MODES = ["BINDING", "COMPENSATION", "TYPE EVOLUTION", "EVOLUTION"]
ANSI = "spark.sql.ansi.enabled"
Run = Callable[[str], DataFrame]


@pytest.fixture
def plain(spark: SparkSession, tmp_path: Path) -> Iterator[Run]:
    """Runs a statement in plain Spark, in a database ``db`` of its own."""
    spark.sql(f"CREATE DATABASE db LOCATION '{tmp_path / 'plain'}'")
    yield spark.sql
    spark.sql("DROP DATABASE db CASCADE")


def outcome(run: Run, query: str) -> object:
    """The types and rows of a query, or that it fails."""
    try:
        frame = run(query)
        return frame.dtypes, rows(frame)
    except (HeadwaterError, PySparkException):
        return "fails"


def schema_of(lake: SparkLake, name: str) -> ViewSchema:
    return lake.catalog.catalog.views.get(Identifier("db", name)).schema


@pytest.fixture
def both(lake: SparkLake, plain: Run) -> Run:
    """Runs a statement in both; the lake's frame."""
    for run, using in ((lake.sql, ""), (plain, "USING parquet")):
        run(f"CREATE TABLE db.t (a INT, b STRING) {using}")
        run("INSERT INTO db.t VALUES (1, 'x')")

    def run_both(text: str) -> DataFrame:
        plain(text)
        return lake.sql(text)

    return run_both


def widen(lake: SparkLake, plain: Run) -> None:
    """Make column ``a`` a BIGINT, and add column ``c``."""
    lake.sql("ALTER TABLE db.t ALTER COLUMN a TYPE BIGINT")
    lake.sql("ALTER TABLE db.t ADD COLUMN c INT")
    plain("DROP TABLE db.t")
    plain("CREATE TABLE db.t (a BIGINT, b STRING, c INT) USING parquet")
    plain("INSERT INTO db.t VALUES (1, 'x', NULL)")
    for run in (lake.sql, plain):
        run("INSERT INTO db.t VALUES (5000000000, 'y', 7)")


QUERIES = ("SELECT * FROM db.v", "SELECT * FROM db.v WHERE b = 'x'", "SELECT b FROM db.v")


@pytest.mark.parametrize("mode", [*MODES, None])
def test_a_view_follows_its_tables_as_plain_sparks_does(
    lake: SparkLake, plain: Run, both: Run, mode: str | None
) -> None:
    clause = "" if mode is None else f"WITH SCHEMA {mode}"
    both(f"CREATE VIEW db.v COMMENT 'c' {clause} TBLPROPERTIES ('k' = 'v') AS SELECT * FROM db.t")
    before = [outcome(lake.sql, query) for query in QUERIES]
    assert before == [outcome(plain, query) for query in QUERIES]
    widen(lake, plain)
    after = [outcome(lake.sql, query) for query in QUERIES]
    assert after == [outcome(plain, query) for query in QUERIES]
    assert after[0] != before[0]
    shown = rows(lake.sql("DESCRIBE EXTENDED db.v"))
    assert ("View Schema Mode", mode or "COMPENSATION", "") in shown
    assert rows(lake.sql("SHOW TBLPROPERTIES db.v")) == [("k", "v")]
    assert [row for row in shown if row[0] in ("a", "b", "c")] == [
        row for row in rows(plain("DESCRIBE db.v")) if row[0] in ("a", "b", "c")
    ]
    ((text,),) = rows(lake.sql("SHOW CREATE TABLE db.v"))
    kept = schema_of(lake, "v")
    lake.sql("DROP VIEW db.v")
    lake.sql(str(text))
    again = schema_of(lake, "v")
    assert (again.query, again.options, again.comment) == (kept.query, kept.options, kept.comment)


@pytest.mark.parametrize("before", MODES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.modes
def test_another_mode_counts_from_then_on(
    lake: SparkLake, plain: Run, both: Run, before: str, mode: str
) -> None:
    both(f"CREATE VIEW db.v WITH SCHEMA {before} AS SELECT * FROM db.t")
    widen(lake, plain)
    # Plain Spark keeps what a view's columns were when it was last read.
    for run in (lake.sql, plain):
        outcome(run, "SELECT * FROM db.v")
    both(f"ALTER VIEW db.v WITH SCHEMA {mode}")
    for query in QUERIES:
        assert outcome(lake.sql, query) == outcome(plain, query)
    both("ALTER VIEW db.v SET TBLPROPERTIES ('k' = 'v')")
    both("ALTER VIEW db.v AS SELECT *, 1 AS d FROM db.t")
    assert outcome(lake.sql, QUERIES[0]) == outcome(plain, QUERIES[0])
    assert ("View Schema Mode", mode, "") in rows(lake.sql("DESCRIBE EXTENDED db.v"))
    assert rows(lake.sql("SHOW TBLPROPERTIES db.v")) == [("k", "v")]


def test_named_columns_keep_their_names(lake: SparkLake, plain: Run, both: Run) -> None:
    both("CREATE VIEW db.v (x COMMENT 'k', b) WITH SCHEMA TYPE EVOLUTION AS SELECT * FROM db.t")
    widen(lake, plain)
    for query in QUERIES:
        assert outcome(lake.sql, query) == outcome(plain, query)
    assert rows(lake.sql("DESCRIBE db.v")) == rows(plain("DESCRIBE db.v"))
    with pytest.raises(Invalid, match="other names than those of its query"):
        lake.sql("ALTER VIEW db.v WITH SCHEMA EVOLUTION")
    lake.sql("ALTER VIEW db.v WITH SCHEMA BINDING")
    assert rows(lake.sql("DESCRIBE db.v")) == [("b", "string", None), ("x", "bigint", "k")]
    lake.sql("CREATE VIEW db.w (x) AS SELECT a FROM db.t")
    with pytest.raises(Invalid, match="other names than those of its query"):
        lake.sql("ALTER VIEW db.w WITH SCHEMA EVOLUTION")


def test_values_are_cast_exactly_whatever_the_session_does(
    spark: SparkSession, lake: SparkLake, plain: Run, both: Run
) -> None:
    both("CREATE VIEW db.v AS SELECT * FROM db.t")
    lake.sql("CREATE TABLE db.deep (l ARRAY<INT>)")
    lake.sql("CREATE VIEW db.lists AS SELECT * FROM db.deep")
    lake.sql("CREATE OR REPLACE TABLE db.deep (l ARRAY<BIGINT>)")
    widen(lake, plain)
    spark.conf.set(ANSI, "false")
    try:
        outcomes = [outcome(lake.sql, query) for query in QUERIES]
        assert outcomes == [outcome(plain, query) for query in QUERIES]
        assert outcomes[0] == "fails" != outcomes[1]
        with pytest.raises(Unsupported, match=r"cast only with spark\.sql\.ansi\.enabled = true"):
            lake.sql("SELECT * FROM db.lists")
    finally:
        spark.conf.unset(ANSI)
    assert lake.sql("SELECT * FROM db.lists").dtypes == [("l", "array<int>")]


@pytest.mark.modes
def test_views_over_views_have_their_own_modes(lake: SparkLake, plain: Run, both: Run) -> None:
    both("CREATE VIEW db.inner WITH SCHEMA EVOLUTION AS SELECT * FROM db.t")
    both("CREATE VIEW db.v WITH SCHEMA BINDING AS SELECT b, a FROM db.inner")
    both("CREATE VIEW db.w WITH SCHEMA TYPE EVOLUTION AS SELECT a + 1 AS n FROM db.inner")
    widen(lake, plain)
    for query in ("SELECT * FROM db.inner", "SELECT * FROM db.v", "SELECT n FROM db.w"):
        assert outcome(lake.sql, query) == outcome(plain, query)
    with pytest.raises(Invalid, match=r"view db\.v: its column 'a' is int, and the query's is b"):
        lake.sql("SELECT b FROM db.v JOIN db.t USING (b)")


@pytest.mark.modes
def test_what_is_no_mode_is_rejected(spark: SparkSession, lake: SparkLake, both: Run) -> None:
    for text, message in {
        "CREATE VIEW db.v WITH SCHEMA AS SELECT 1 AS a": "BINDING, COMPENSATION",
        "CREATE VIEW db.v WITH SCHEMA TYPE AS SELECT 1 AS a": "BINDING, COMPENSATION",
        "CREATE VIEW db.v WITH SCHEMA BINDING WITH SCHEMA BINDING AS SELECT 1 AS a": "stands twice",
        "CREATE VIEW db.v (a) WITH SCHEMA EVOLUTION AS SELECT 1 AS a": "leave the list of columns",
        "CREATE VIEW db.v TBLPROPERTIES ('view.schemaMode' = 'x') AS SELECT 1 AS a": "WITH SCHEMA",
    }.items():
        with pytest.raises(Invalid, match=message):
            lake.sql(text)
    lake.sql("CREATE VIEW db.v AS SELECT 1 AS a")
    for text in (
        "ALTER VIEW db.v SET TBLPROPERTIES ('view.schemaMode' = 'EVOLUTION')",
        "ALTER VIEW db.v UNSET TBLPROPERTIES ('view.schemaMode')",
        "ALTER VIEW db.t WITH SCHEMA BINDING",
    ):
        with pytest.raises(Invalid):
            lake.sql(text)
    with pytest.raises(NotFound):
        lake.sql("ALTER VIEW db.none WITH SCHEMA BINDING")
    spark.conf.set("spark.sql.legacy.viewSchemaCompensation", "false")
    spark.conf.set("spark.sql.legacy.viewSchemaBindingMode", "false")
    try:
        with pytest.raises(Unsupported, match=r"RESET spark\.sql\.legacy\.viewSchemaBin"):
            lake.sql("ALTER VIEW db.v WITH SCHEMA BINDING")
        lake.sql("CREATE VIEW db.w AS SELECT 1 AS a")
    finally:
        spark.conf.unset("spark.sql.legacy.viewSchemaCompensation")
        spark.conf.unset("spark.sql.legacy.viewSchemaBindingMode")
    assert schema_of(lake, "w").options == {"view.schemaMode": "BINDING"}
    assert schema_of(lake, "v").options == {}
    broken = ViewSchema((), "SELECT 1", {}, None, {"view.schemaMode": "LOOSE"})
    lake.catalog.catalog.views.create(Identifier("db", "broken"), broken)
    with pytest.raises(Invalid, match=r"'view\.schemaMode' is 'LOOSE', expected one of"):
        lake.sql("SELECT * FROM db.broken")
    lake.sql("ALTER VIEW db.broken WITH SCHEMA COMPENSATION")
    assert rows(lake.sql("SELECT * FROM db.broken")) == [(1,)]


TYPES = [
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary",
    "date", "timestamp", "timestamp_ntz", "decimal(3,0)", "decimal(5,0)", "decimal(10,0)",
    "decimal(20,0)", "decimal(10,2)", "decimal(38,18)", "time(3)", "variant", "void",
    "array<int>", "array<bigint>", "array<string>", "map<int,int>", "map<bigint,int>",
    "map<int,bigint>", "struct<a:int>", "struct<b:bigint>", "struct<a:int,b:int>",
]  # fmt: skip


def test_types_up_cast_as_sparks_do(spark: SparkSession, lake: SparkLake) -> None:
    if kind_of_session() == "connect":
        pytest.skip("Spark's rule is the JVM's")
    session: Any = spark
    rule = session._jvm.org.apache.spark.sql.catalyst.expressions.Cast.canUpCast
    nulls = ", ".join(f"CAST(NULL AS {text}) AS c{at}" for at, text in enumerate(TYPES))
    types = [field.dataType for field in spark.sql(f"SELECT {nulls}").schema]
    ours = {
        (str(one), str(other)): can_up_cast(one, other) for one, other in permutations(types, 2)
    }
    java = {str(one): session._jsparkSession.parseDataType(one.json()) for one in types}
    assert ours == {(one, other): rule(java[one], java[other]) for one, other in ours}
