"""Statements about databases."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.spark.sql.conftest import Run

from headwater.spark.sql.context import SqlContext
from headwater.storage.errors import AlreadyExists, Invalid, NotFound, Unsupported


def test_databases_come_and_go(run: Run, context: SqlContext) -> None:
    run("CREATE DATABASE sales COMMENT 'what we sold' WITH DBPROPERTIES (team = 'a', 'n' = 3)")
    run("CREATE SCHEMA IF NOT EXISTS sales")
    with pytest.raises(AlreadyExists, match="sales"):
        run("CREATE NAMESPACE sales")
    assert run("SHOW DATABASES") == [("db",), ("sales",)]
    assert run("SHOW SCHEMAS LIKE 'S*|x'") == [("sales",)]
    assert run("SHOW NAMESPACES 'none*'") == []
    options = context.catalog.get_database("sales").options
    assert options == {"comment": "what we sold", "team": "a", "n": "3"}
    run("CREATE TABLE sales.t (id INT)")
    with pytest.raises(Invalid, match="cascade"):
        run("DROP DATABASE sales")
    run("USE sales")
    run("DROP DATABASE sales CASCADE")
    assert context.database is None
    run("DROP SCHEMA IF EXISTS sales RESTRICT")
    with pytest.raises(NotFound, match="sales"):
        run("DROP DATABASE sales")


def test_properties_of_a_database_change(run: Run, context: SqlContext) -> None:
    warehouse = context.catalog.warehouse
    run("ALTER DATABASE db SET DBPROPERTIES ('a' = '1', 'b' = '2')")
    run(f"ALTER NAMESPACE {warehouse}.db UNSET PROPERTIES ('a')")
    with pytest.raises(Invalid, match="has no property 'a'"):
        run("ALTER DATABASE db UNSET DBPROPERTIES ('a')")
    run("ALTER DATABASE db UNSET DBPROPERTIES IF EXISTS ('a')")
    run("COMMENT ON DATABASE db IS 'ours'")
    location = context.catalog.get_database("db").location
    expected = [
        ("Catalog Name", warehouse),
        ("Namespace Name", "db"),
        ("Comment", "ours"),
        ("Location", location),
    ]
    assert run("DESCRIBE DATABASE db") == expected
    assert run("DESC SCHEMA EXTENDED db") == [*expected, ("Properties", "((b,2))")]
    run("COMMENT ON SCHEMA db IS NULL")
    assert ("Comment", "ours") not in run("DESCRIBE DATABASE db")


REFUSED: list[tuple[str, type[Exception], str]] = [
    ("ALTER DATABASE db SET LOCATION '/x'", Unsupported, "stays"),
    ("ALTER DATABASE db RENAME TO b", Invalid, "SET DBPROPERTIES"),
    ("CREATE DATABASE a COMMENT 'x' COMMENT 'y'", Invalid, "COMMENT stands twice"),
    ("CREATE DATABASE a COMMENT 'x' WITH PROPERTIES (comment = 'y')", Invalid, "the same"),
    ("CREATE DATABASE a MANAGED BY b", Invalid, "COMMENT, LOCATION or WITH DBPROPERTIES"),
    ("CREATE DATABASE other.a", Invalid, "not a database of warehouse"),
    ("DROP DATABASE db NOW", Invalid, "end of the statement"),
]


def test_what_is_not_understood_changes_nothing(run: Run) -> None:
    for text, error, message in REFUSED:
        with pytest.raises(error, match=message):
            run(text)
        assert run("SHOW DATABASES") == [("db",)]


def test_the_columns_of_answers_are_sparks(answered: Callable[[str], pa.Table]) -> None:
    for text, names in {
        "SHOW DATABASES": ["namespace"],
        "SHOW TABLES": ["namespace", "tableName", "isTemporary"],
        "SHOW TABLE EXTENDED LIKE '*'": ["namespace", "tableName", "isTemporary", "information"],
        "SHOW VIEWS": ["namespace", "viewName", "isTemporary"],
        "SHOW USER FUNCTIONS": ["function"],
        "DESCRIBE DATABASE db": ["info_name", "info_value"],
        "SHOW CURRENT NAMESPACE": ["catalog", "namespace"],
    }.items():
        found = answered(text)
        assert found.column_names == names
