"""Views, and tables that are made of queries."""

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.catalog.model.identifier import Identifier
from headwater.spark import SparkLake
from headwater.storage.errors import AlreadyExists, HeadwaterError, Invalid, NotFound, Unsupported

pytestmark = pytest.mark.spark

WRONG = "CAST(raise_error('wrong') AS STRING) AS b"


@pytest.fixture
def people(lake: SparkLake) -> SparkLake:
    """A lake with a table of people in the database that is in use."""
    lake.sql("USE db")
    lake.sql("CREATE TABLE people (id INT, name STRING, city STRING)")
    lake.catalog.table("db.people").write(
        {"id": [1, 2, 3], "name": ["ada", "bob", "eve"], "city": ["x", "y", "x"]}
    )
    return lake


def test_views_are_made_shown_and_dropped(people: SparkLake) -> None:
    lake = people
    lake.sql(
        "CREATE VIEW v (number COMMENT 'the id', label) COMMENT 'c' TBLPROPERTIES ('a' = 'b') "
        "AS SELECT id, upper(name) FROM people WHERE city = 'x'"
    )
    assert rows(lake.sql("SELECT * FROM v")) == [(1, "ADA"), (3, "EVE")]
    assert rows(lake.sql("SHOW VIEWS")) == [("db", "v", False)]
    assert rows(lake.sql("DESCRIBE v")) == [
        ("label", "string", None),
        ("number", "int", "the id"),
    ]
    assert rows(lake.sql("DESCRIBE QUERY SELECT count(*) AS n, max(label) AS m FROM v")) == [
        ("m", "string", None),
        ("n", "bigint", None),
    ]
    assert ("Comment", "c", "") in rows(lake.sql("DESCRIBE TABLE EXTENDED v"))
    assert rows(lake.sql("SHOW COLUMNS IN v")) == [("label",), ("number",)]
    assert rows(lake.sql("SHOW TBLPROPERTIES v")) == [("a", "b")]
    assert "View db.v does not have" in str(rows(lake.sql("SHOW TBLPROPERTIES v ('b')")))
    ((shown,),) = rows(lake.sql("SHOW CREATE TABLE v"))
    before = lake.catalog.catalog.views.get(Identifier("db", "v")).schema
    lake.sql("DROP VIEW v")
    lake.sql(str(shown))
    assert lake.catalog.catalog.views.get(Identifier("db", "v")).schema == before
    with pytest.raises(AlreadyExists):
        lake.sql("CREATE VIEW v AS SELECT 1")
    lake.sql("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS one")
    identity = lake.catalog.catalog.views.get(Identifier("db", "v")).id
    lake.sql("CREATE OR REPLACE VIEW db.v AS SELECT 1 AS one")
    assert rows(lake.sql("SELECT * FROM v")) == [(1,)]
    lake.sql("ALTER VIEW v RENAME TO w")
    lake.sql("ALTER VIEW w SET TBLPROPERTIES ('k' = 'v', 'comment' = 'kept')")
    lake.sql("ALTER VIEW w AS SELECT 2 AS two")
    view = lake.catalog.catalog.views.get(Identifier("db", "w"))
    # Whatever it says, it is the same view, with its owner and permissions.
    assert view.id == identity
    schema = view.schema
    assert (schema.comment, schema.options) == ("kept", {"k": "v"})
    assert rows(lake.sql("SELECT two FROM w")) == [(2,)]
    lake.sql("DROP VIEW IF EXISTS v")
    with pytest.raises(NotFound):
        lake.sql("DROP VIEW v")
    for text in ("INSERT INTO w VALUES (1)", "DELETE FROM w", "UPDATE w SET two = 1"):
        with pytest.raises(Invalid, match=r"db\.w is a view"):
            lake.sql(text)
    for text in (
        "DROP TABLE w", "DROP TABLE IF EXISTS w", "TRUNCATE TABLE w", "COMMENT ON TABLE w IS 'x'",
        "ALTER TABLE w SET TBLPROPERTIES ('bucket' = '2')", "ALTER TABLE w DROP PARTITION (a = 1)",
        "SHOW PARTITIONS w", "CREATE TABLE x LIKE w", "CALL sys.compact('w')",
        "ANALYZE TABLE w COMPUTE STATISTICS",
    ):  # fmt: skip
        with pytest.raises(Invalid, match=r"db\.w is a view, and this is for tables"):
            lake.sql(text)
    for text in ("DROP VIEW people", "DROP VIEW IF EXISTS people", "ALTER VIEW people AS SELECT 1"):
        with pytest.raises(Invalid, match=r"db\.people is a table, and this is for views"):
            lake.sql(text)
    for text in ("ALTER TABLE none$branch_b RENAME COLUMN a TO b", "TRUNCATE TABLE none$branch_b"):
        with pytest.raises(NotFound, match="none"):
            lake.sql(text)
    for text, error in {
        "CREATE VIEW people AS SELECT 1": AlreadyExists,
        "CREATE TABLE w (id INT)": AlreadyExists,
        "CREATE VIEW x (a, b) AS SELECT 1": Invalid,
        "CREATE VIEW x AS SELECT 1 AS a, 2 AS A": Invalid,
        "CREATE VIEW x AS": Invalid,
        "CREATE VIEW x AS SELECT * FROM none": NotFound,
    }.items():
        with pytest.raises(error):
            lake.sql(text)
    assert rows(lake.sql("SHOW VIEWS")) == [("db", "w", False)]


@pytest.mark.modes
def test_a_view_reads_the_tables_of_its_own_database(people: SparkLake) -> None:
    people.sql("CREATE DATABASE other")
    people.sql("CREATE TABLE other.people (only INT)")
    people.sql("CREATE VIEW other.v AS SELECT * FROM people")
    assert people.sql("SELECT * FROM other.v").columns == ["only"]


@pytest.mark.modes
def test_a_view_reads_neither_itself_nor_temporary_views(people: SparkLake) -> None:
    people.sql("CREATE VIEW v AS SELECT id FROM people")
    people.sql("CREATE VIEW w AS SELECT id FROM v")
    people.sql("CREATE TEMPORARY VIEW people AS SELECT 7 AS id")
    for text, message in {
        "CREATE OR REPLACE VIEW v AS SELECT id FROM v": "db.v reads itself: db.v -> db.v",
        "ALTER VIEW v AS SELECT id FROM w": "db.v reads itself: db.v -> db.w -> db.v",
        "CREATE VIEW x AS SELECT id FROM people": "'people' is a temporary view",
    }.items():
        with pytest.raises(Invalid, match=message):
            people.sql(text)
    people.sql("CREATE VIEW x AS SELECT id FROM db.people")
    assert rows(people.sql("SELECT * FROM x")) == rows(people.sql("SELECT * FROM w"))
    people.sql("DROP VIEW people")


@pytest.mark.modes
def test_a_view_keeps_its_columns_when_those_of_its_tables_change(people: SparkLake) -> None:
    people.sql("CREATE VIEW v AS SELECT * FROM people WHERE id < 3")
    people.sql(
        "CREATE VIEW w (town, number, label) AS SELECT city, p.* EXCEPT (city) FROM people p"
    )
    people.sql("ALTER TABLE people ALTER COLUMN city FIRST")
    people.sql("ALTER TABLE people ADD COLUMN age INT AFTER city")
    assert rows(people.sql("SELECT * FROM v")) == [(1, "ada", "x"), (2, "bob", "y")]
    assert people.sql("SELECT * FROM v").columns == ["id", "name", "city"]
    assert rows(people.sql("SELECT label FROM w WHERE town = 'y' AND number = 2")) == [("bob",)]
    people.sql("ALTER VIEW v AS SELECT * FROM people")
    assert people.sql("SELECT * FROM v").columns == ["city", "age", "id", "name"]
    people.sql("ALTER TABLE people RENAME COLUMN name TO label")
    with pytest.raises(AnalysisException, match="name"):
        people.sql("SELECT * FROM v")


@pytest.mark.modes
def test_a_table_is_made_of_a_query(people: SparkLake) -> None:
    lake = people
    lake.sql(
        "CREATE TABLE made USING paimon PARTITIONED BY (city) "
        "TBLPROPERTIES ('primary-key' = 'city,id', bucket = 1) AS SELECT * FROM people"
    )
    schema = lake.catalog.table("db.made").schema
    assert (schema.primary_keys, schema.partition_keys) == (("city", "id"), ("city",))
    assert rows(lake.sql("SELECT * FROM made")) == rows(lake.sql("SELECT * FROM people"))
    lake.sql("CREATE TABLE IF NOT EXISTS made AS SELECT 1 AS one")
    with pytest.raises(AlreadyExists):
        lake.sql("CREATE TABLE made AS SELECT 1 AS one")
    assert lake.sql("SELECT * FROM made").count() == 3
    for text, error in {
        "CREATE TABLE x (a INT) AS SELECT 1 AS a": Invalid,
        "CREATE EXTERNAL TABLE x LOCATION '/x' AS SELECT 1 AS a": Unsupported,
        "CREATE TABLE x PARTITIONED BY (none) AS SELECT 1 AS a": NotFound,
    }.items():
        with pytest.raises(error):
            lake.sql(text)
    with pytest.raises(Exception, match="wrong"):
        lake.sql(f"CREATE TABLE x AS SELECT id, {WRONG} FROM people")
    assert rows(lake.sql("SHOW TABLES LIKE 'x'")) == []


@pytest.mark.modes
def test_a_table_is_replaced_by_a_query_over_itself(people: SparkLake, spark: SparkSession) -> None:
    lake = people
    table = lake.catalog.table("db.people")
    lake.sql("CREATE OR REPLACE TABLE people COMMENT 'new' AS SELECT id + 10 AS n FROM people")
    assert rows(lake.sql("SELECT * FROM people")) == [(11,), (12,), (13,)]
    assert lake.catalog.table("db.people").info.id == table.info.id
    before = lake.catalog.table("db.people").schema
    with pytest.raises(Exception, match="wrong"):
        lake.sql(f"CREATE OR REPLACE TABLE people AS SELECT {WRONG} FROM people")
    assert lake.catalog.table("db.people").schema == before
    assert rows(lake.sql("SELECT * FROM people")) == [(11,), (12,), (13,)]
    lake.sql("CREATE OR REPLACE TABLE fresh AS VALUES (1), (2)")
    assert rows(lake.sql("SELECT * FROM fresh")) == [(1,), (2,)]
    with pytest.raises(HeadwaterError):
        lake.sql("REPLACE TABLE none AS SELECT 1 AS a")
