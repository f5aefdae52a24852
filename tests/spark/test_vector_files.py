"""Files of vectors alone in Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake
from headwater.storage.errors import HeadwaterError

pytestmark = pytest.mark.spark


@pytest.mark.modes
def test_vectors_lie_apart(spark: SparkSession, lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE db.t (id BIGINT, s STRING, v VECTOR<FLOAT, 2>) TBLPROPERTIES ("
        "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', "
        "'deletion-vectors.enabled' = 'true', 'vector.file.format' = 'parquet')"
    )
    lake.write(spark.sql("SELECT id, 'a' s, array(float(id), 0.5f) v FROM range(6)"), "db.t")
    lake.sql("UPDATE db.t SET s = 'b' WHERE id < 2")
    lake.sql("DELETE FROM db.t WHERE id = 3")
    lake.sql(
        "MERGE INTO db.t USING (SELECT 4L id, 'm' s UNION ALL SELECT 9L, 'n') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET s = s.s WHEN NOT MATCHED THEN INSERT (id, s) VALUES (id, s)"
    )
    expected = [
        (0, "b", 0.0), (1, "b", 1.0), (2, "a", 2.0), (4, "m", 4.0), (5, "a", 5.0), (9, "n", None),
    ]  # fmt: skip
    assert rows(lake.sql("SELECT id, s, v[0] FROM db.t")) == expected
    assert rows(lake.sql("SELECT id FROM db.t WHERE s = 'b'")) == [(0,), (1,)]
    names = rows(lake.sql("SELECT DISTINCT file_path LIKE '%.vector.parquet' FROM db.`t$files`"))
    assert names == [(False,), (True,)]
    with pytest.raises(HeadwaterError, match="'v' lies in files of vectors alone"):
        lake.sql("UPDATE db.t SET v = array(1.0f, 2.0f) WHERE id = 1")
