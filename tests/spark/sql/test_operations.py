"""The statements that made snapshots, as Paimon names them from release 2.0 on."""

from __future__ import annotations

import pytest

from headwater.spark import SparkLake

pytestmark = pytest.mark.spark


def operations(lake: SparkLake, name: str) -> list[str | None]:
    found = lake.sql(f"SELECT operation FROM db.`{name}$snapshots` ORDER BY snapshot_id")
    return [row[0] for row in found.collect()]


@pytest.mark.modes
@pytest.mark.parametrize(
    "options",
    [
        "'bucket' = '-1'",
        "'primary-key' = 'id', 'bucket' = '1'",
        "'deletion-vectors.enabled' = 'true'",
    ],
)
def test_snapshots_tell_of_what_statement_they_are(lake: SparkLake, options: str) -> None:
    lake.sql("USE db")
    lake.sql(f"CREATE TABLE t (id INT, name STRING) TBLPROPERTIES ({options})")
    for statement in (
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "INSERT OVERWRITE t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "UPDATE t SET name = 'u' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "MERGE INTO t USING (VALUES (3, 'm'), (4, 'n') AS v(id, name)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "INSERT INTO t REPLACE WHERE id = 1 SELECT 1, 'q'",
        "TRUNCATE TABLE t",
    ):
        lake.sql(statement)
    told = [each for each in operations(lake, "t") if each is not None]
    assert told == ["WRITE", "OVERWRITE", "UPDATE", "DELETE", "MERGE", "OVERWRITE", "TRUNCATE"]


def test_tables_of_queries_tell_it_too(lake: SparkLake) -> None:
    lake.sql("USE db")
    lake.sql("CREATE TABLE c AS SELECT 1 AS id")
    for create in ("CREATE OR ", "CREATE OR ", ""):
        lake.sql(f"{create}REPLACE TABLE r AS SELECT 1 AS id")
    assert operations(lake, "c") == ["CREATE_TABLE_AS_SELECT"]
    assert operations(lake, "r") == [
        "CREATE_OR_REPLACE_TABLE_AS_SELECT",
        "TRUNCATE",
        "CREATE_OR_REPLACE_TABLE_AS_SELECT",
        "TRUNCATE",
        "REPLACE_TABLE_AS_SELECT",
    ]
    table = lake.catalog.table("db.c")
    table.write({"id": [1, 2]})
    table.delete("id = 1")
    table.update({"id": 3}, where="id = 2")
    table.overwrite({"id": [4]})
    table.truncate()
    assert operations(lake, "c")[1:] == ["WRITE", "DELETE", "UPDATE", "OVERWRITE", "TRUNCATE"]
    lake.sql("CREATE TABLE k (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    lake.write(lake.spark.sql("SELECT 1 AS id, 2 AS v"), "db.k")
    lake.delete("db.k", keys=lake.spark.sql("SELECT 1 AS id"))
    assert operations(lake, "k") == ["WRITE", "DELETE"]
