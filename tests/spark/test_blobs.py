"""Columns of type BLOB in Spark, where they are BINARY."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake

pytestmark = pytest.mark.spark


@pytest.mark.modes
def test_blobs_are_binary(spark: SparkSession, lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE db.t (id BIGINT, b BLOB, c BINARY COMMENT '__BLOB_FIELD; of the front') "
        "TBLPROPERTIES ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', "
        "'deletion-vectors.enabled' = 'true', 'blob.target-file-size' = '40 b')"
    )
    lake.sql("INSERT INTO db.t VALUES (1, X'0102', NULL), (2, NULL, X''), (3, X'03', X'04')")
    lake.write(spark.sql("SELECT id, CAST('x' AS BINARY) b, NULL c FROM range(4, 9)"), "db.t")
    found = lake.table("db.t")
    assert [field.dataType.simpleString() for field in found.schema] == [
        "bigint", "binary", "binary",
    ]  # fmt: skip
    expected = [(1, "0102", None), (2, None, ""), (3, "03", "04")]
    expected += [(each, "78", None) for each in range(4, 9)]
    assert rows(found.selectExpr("id", "hex(b)", "hex(c)")) == expected
    chosen = lake.sql("SELECT id, length(b) FROM db.t WHERE id > 7 OR b IS NULL")
    assert rows(chosen) == [(2, None), (8, 1)]
    lake.sql("DELETE FROM db.t WHERE id >= 2 AND id <= 7")
    assert rows(lake.sql("SELECT id FROM db.t")) == [(1,), (8,)]
    described = {row[0]: row[1] for row in rows(lake.sql("DESCRIBE db.t"))}
    assert (described["b"], described["c"]) == ("blob", "blob")
    lake.sql("UPDATE db.t SET b = X'AB' WHERE id = 1")
    source = "SELECT * FROM VALUES (8, X'08'), (9, X'09') AS s (id, c)"
    lake.sql(
        f"MERGE INTO db.t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET c = s.c "
        "WHEN NOT MATCHED THEN INSERT (id, c) VALUES (s.id, s.c)"
    )
    assert rows(lake.sql("SELECT id, hex(b), hex(c) FROM db.t")) == [
        (1, "AB", None), (8, "78", "08"), (9, None, "09"),
    ]  # fmt: skip


@pytest.mark.modes
@pytest.mark.parametrize("options", ["'bucket' = '2'", "'bucket' = '-1'"])
def test_blobs_of_a_table_with_a_key(spark: SparkSession, lake: SparkLake, options: str) -> None:
    lake.sql(
        "CREATE TABLE db.t (id BIGINT, s STRING, b BLOB) TBLPROPERTIES ('primary-key' = 'id', "
        f"{options})"
    )
    lake.sql("INSERT INTO db.t VALUES (1, 'a', X'0102'), (2, 'b', NULL), (3, 'c', X'')")
    lake.sql("INSERT INTO db.t SELECT id, 'new', CAST('x' AS BINARY) FROM range(3, 6)")
    lake.sql("UPDATE db.t SET s = 'up' WHERE id = 1")
    lake.sql("UPDATE db.t SET b = X'AB' WHERE id = 2")
    lake.sql("DELETE FROM db.t WHERE id = 4")
    source = "SELECT * FROM VALUES (5, X'08'), (9, X'09') AS s (id, b)"
    lake.sql(
        f"MERGE INTO db.t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET b = s.b "
        "WHEN NOT MATCHED THEN INSERT (id, b) VALUES (s.id, s.b)"
    )
    lake.sql("CALL sys.compact(table => 'db.t', compact_strategy => 'full')")
    expected = [
        (1, "up", "0102"), (2, "b", "AB"), (3, "new", "78"), (5, "new", "08"), (9, None, "09"),
    ]  # fmt: skip
    assert rows(lake.sql("SELECT id, s, hex(b) FROM db.t")) == expected
    assert rows(lake.sql("SELECT id, length(b) FROM db.t WHERE b IS NOT NULL AND id > 4")) == [
        (5, 1), (9, 1),
    ]  # fmt: skip
