"""Columns of type VECTOR in Spark, where they are arrays."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake

pytestmark = pytest.mark.spark

FLOATS = "array(CAST({0} AS FLOAT), CAST(0 AS FLOAT), CAST(-1 AS FLOAT))"


def test_vectors_are_arrays(spark: SparkSession, lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE db.t (id BIGINT, v VECTOR<FLOAT, 3> COMMENT 'of the title', "
        "w ARRAY<INT> COMMENT '__VECTOR_FIELD;2; counts') "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    )
    one, two = FLOATS.format(1), FLOATS.format(2)
    lake.sql(f"INSERT INTO db.t VALUES (1, {one}, array(1, 2)), (2, NULL, NULL)")
    lake.write(spark.sql(f"SELECT 2L id, {two} v, array(3, 4) w"), "db.t")
    expected = [(1, [1.0, 0.0, -1.0], [1, 2]), (2, [2.0, 0.0, -1.0], [3, 4])]
    found = lake.table("db.t")
    assert [field.dataType.simpleString() for field in found.schema] == [
        "bigint", "array<float>", "array<int>",
    ]  # fmt: skip
    assert rows(found) == expected
    lake.compact("db.t")
    assert rows(lake.sql("SELECT id, v, w FROM db.t WHERE v[0] >= 1")) == expected
    described = {row[0]: (row[1], row[2]) for row in rows(lake.sql("DESCRIBE db.t"))}
    assert described["v"] == ("vector<float,3>", "of the title")
    assert described["w"] == ("vector<int,2>", "counts")
    ((shown,),) = rows(lake.sql("SHOW CREATE TABLE db.t"))
    statement = str(shown)
    assert "v VECTOR<FLOAT, 3>" in statement.replace("`", "")
    lake.sql("DROP TABLE db.t")
    lake.sql(statement)
    assert str(lake.catalog.table("db.t").schema.column("w").type) == "VECTOR<INT, 2>"
    with pytest.raises(Exception, match="another length than 3"):
        lake.sql("INSERT INTO db.t VALUES (1, array(CAST(1 AS FLOAT)), NULL)")
