"""Names of columns that differ in case alone, and reserved names of columns and partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from tests.spark.conftest import rows

from headwater.client import connect
from headwater.spark import SparkLake
from headwater.storage.errors import AlreadyExists, Invalid
from headwater.storage.files.local import local_path

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


def test_no_column_gets_a_reserved_name(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE db.t (id INT, v STRING)")
    lake.sql("INSERT INTO db.t VALUES (1, 'a')")
    merging = lake.spark.sql("SELECT 2 AS id, 'b' AS v, 1 AS _Headwater_x").write
    for name in ("_ROW_KIND", "_row_kind", "__paimon_bucket", "_headwater_x", "rowkind"):
        for statement in (
            f"CREATE TABLE db.n (id INT, {name} STRING)",
            f"CREATE TABLE db.n AS SELECT id, v AS {name} FROM db.t",
            f"CREATE OR REPLACE TABLE db.t AS SELECT id, v AS {name} FROM db.t",
            f"ALTER TABLE db.t ADD COLUMN {name} STRING",
            f"ALTER TABLE db.t RENAME COLUMN v TO {name}",
        ):
            with pytest.raises(Invalid, match=f"'{name}' is reserved"):
                lake.sql(statement)
    with pytest.raises(PySparkException, match="'_Headwater_x' is reserved"):
        merging.format("headwater").mode("append").option("write.merge-schema", "true").save("db.t")
    lake.sql("ALTER TABLE db.t ADD COLUMN _FILE_NAME STRING")
    lake.sql("UPDATE db.t SET _file_name = 'x' WHERE id = 1")
    assert rows(lake.sql("SELECT * FROM db.t WHERE _FILE_NAME = 'x'")) == [(1, "a", "x")]


def test_a_column_with_the_name_of_the_row_kinds_is_not_hidden(
    lake: SparkLake, tmp_path: Path
) -> None:
    """Only another engine makes such a table."""
    other = connect(tmp_path / "other")
    other.create_database("db")
    made = other.create_table("db.t", pa.schema([("id", pa.int32()), ("kind", pa.string())]))
    location = local_path(made.storage.layout.location)
    written = Path(location, "schema", "schema-0")
    written.write_text(written.read_text().replace('"kind"', '"_ROW_KIND"'))
    lake.catalog.register_table("db.theirs", location)
    lake.sql("INSERT INTO db.theirs VALUES (1, 'x')")
    assert rows(lake.sql("SELECT * FROM db.theirs")) == [(1, "x")]
    reader = lake.spark.readStream.format("headwater")
    assert reader.load("db.theirs").columns == ["id", "_ROW_KIND"]
    with pytest.raises(PySparkException, match="own column '_ROW_KIND' has the name of theirs"):
        reader.option("include-row-kind", "true").load("db.theirs")


def test_no_partition_gets_the_name_of_the_null_partition(lake: SparkLake) -> None:
    name = "__DEFAULT_PARTITION__"
    lake.sql("CREATE TABLE db.t (id INT, p STRING) PARTITIONED BY (p)")
    lake.sql("INSERT INTO db.t VALUES (1, NULL), (2, 'x')")
    named = lake.spark.sql(f"SELECT 3 AS id, '{name}' AS p")
    for write in (
        lambda: lake.sql(f"INSERT INTO db.t VALUES (3, 'y'), (4, '{name}')"),
        lambda: lake.sql(f"UPDATE db.t SET p = '{name}' WHERE id = 2"),
        lambda: lake.write(named, "db.t", "overwrite"),
    ):
        with pytest.raises(Invalid, match="cannot be a value of partition column 'p'"):
            write()
    lake.sql(f"INSERT OVERWRITE db.t PARTITION (p = '{name}') VALUES (5)")
    assert rows(lake.sql("SELECT * FROM db.t")) == [(2, "x"), (5, None)]
