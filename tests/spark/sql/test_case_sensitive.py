"""Fields whose names differ in case alone, in sessions that tell them apart."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.storage.errors import AlreadyExists, Invalid

pytestmark = [pytest.mark.spark, pytest.mark.modes]


@pytest.fixture
def strict(lake: SparkLake) -> Iterator[SparkLake]:
    """A lake in a session that minds the case of names."""
    lake.spark.conf.set("spark.sql.caseSensitive", "true")
    yield lake
    lake.spark.conf.unset("spark.sql.caseSensitive")


def test_fields_keep_their_own_values(strict: SparkLake) -> None:
    strict.sql("CREATE TABLE db.t (id INT, s STRUCT<x: BIGINT, X: BIGINT>)")
    strict.sql("INSERT INTO db.t BY NAME SELECT named_struct('X', 4, 'x', 3) AS s, 1 AS id")
    assert rows(strict.sql("SELECT id, s.x, s.X FROM db.t WHERE s.X = 4")) == [(1, 3, 4)]
    strict.sql("UPDATE db.t SET s.X = s.x + 6 WHERE id = 1")
    assert rows(strict.sql("SELECT s.x, s.X FROM db.t")) == [(3, 9)]
    strict.sql(
        "MERGE INTO db.t USING (SELECT 1 AS id, named_struct('X', 8, 'x', 7) AS s) n "
        "ON t.id = n.id WHEN MATCHED THEN UPDATE SET *"
    )
    assert rows(strict.sql("SELECT s.x, s.X FROM db.t")) == [(7, 8)]


def test_each_column_of_a_source_stands_for_one(strict: SparkLake) -> None:
    strict.catalog.create_table(
        "db.t", pa.schema([(name, pa.int32()) for name in ("id", "a", "A")])
    )
    strict.sql("INSERT INTO db.t VALUES (1, 2, 3)")
    merge = (
        "INTO db.t USING (SELECT 1 AS id, 7 AS a) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )
    with pytest.raises(Invalid, match="the source lacks the columns A"):
        strict.sql(f"MERGE {merge}")
    strict.sql(f"MERGE WITH SCHEMA EVOLUTION {merge}")
    assert rows(strict.sql("SELECT * FROM db.t")) == [(1, 7, 3)]


def test_columns_that_differ_in_case_are_not_dropped(strict: SparkLake) -> None:
    strict.sql("CREATE TABLE db.t (id INT, a INT)")
    with pytest.raises(Invalid, match="column 'A' and column 'a' differ only in case"):
        strict.sql(
            "MERGE WITH SCHEMA EVOLUTION INTO db.t USING (SELECT 1 AS id, 7 AS a, 8 AS A) s "
            "ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
        )
    strict.sql("CREATE TABLE db.u (id INT, s STRUCT<x: INT, X: INT>)")
    strict.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO db.u USING "
        "(SELECT 1 AS id, named_struct('X', 2, 'x', 1, 'y', 3) AS s) n ON u.id = n.id "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(strict.sql("SELECT s.x, s.X, s.y FROM db.u")) == [(1, 2, 3)]


def test_columns_whose_names_differ_in_case_are_created_by_sql(strict: SparkLake) -> None:
    strict.sql("CREATE TABLE db.t (id INT, a INT, A INT) PARTITIONED BY (A)")
    strict.sql("ALTER TABLE db.t ADD COLUMNS (ID INT)")
    strict.sql("INSERT INTO db.t (ID, A, a, id) VALUES (4, 3, 2, 1)")
    assert rows(strict.sql("SELECT id, a, A, ID FROM db.t WHERE A = 3")) == [(1, 2, 3, 4)]
    strict.sql("CREATE TABLE db.u AS SELECT a, A FROM db.t")
    assert rows(strict.sql("SELECT A, a FROM db.u")) == [(3, 2)]
    with pytest.raises(AlreadyExists, match="column 'a' exists"):
        strict.sql("ALTER TABLE db.u ADD COLUMNS (a INT)")
    strict.spark.conf.unset("spark.sql.caseSensitive")
    with pytest.raises(Invalid, match="two columns 'a'; the case of names does not matter"):
        strict.sql("CREATE TABLE db.v (a INT, A INT)")
    with pytest.raises(Invalid, match="two columns 'x' in 'l'"):
        strict.sql("CREATE TABLE db.v (l MAP<STRING, STRUCT<x: INT, X: INT>>)")
    with pytest.raises(AlreadyExists, match="column 'B' exists"):
        strict.sql("ALTER TABLE db.u ADD COLUMNS (b INT, B INT)")


def test_names_that_differ_in_case_are_of_two_tables(strict: SparkLake) -> None:
    strict.sql("USE db")
    for name, value in (("t", 1), ("T", 2), ("v", 3)):
        strict.sql(f"CREATE TABLE {name} (id INT, x INT)")
        strict.sql(f"INSERT INTO {name} VALUES (0, {value})")
    strict.sql("CREATE TEMPORARY VIEW V AS SELECT 0 AS id, 4 AS x")
    for text, wanted in {
        "SELECT db.T.x, db.t.x FROM db.T JOIN db.t ON db.T.id = db.t.id": (2, 1),
        "SELECT T.x, t.x FROM T JOIN t ON T.id = t.id": (2, 1),
        "WITH T AS (SELECT 9 AS x) SELECT T.x, t.x FROM t, T": (9, 1),
        "SELECT v.x, V.x FROM v JOIN V ON v.id = V.id": (3, 4),
    }.items():
        assert rows(strict.sql(text)) == [wanted], text
    strict.sql("DROP VIEW V")
