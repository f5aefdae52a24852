"""MAP columns that files hold by their keys, in Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import rows

from headwater.spark import SparkLake

pytestmark = pytest.mark.spark


@pytest.mark.modes
def test_maps_are_written_changed_and_read(
    spark: SparkSession, lake: SparkLake, folder: Path
) -> None:
    lake.sql(
        "CREATE TABLE db.t (id BIGINT NOT NULL, m MAP<STRING, BIGINT>) TBLPROPERTIES ("
        "'primary-key' = 'id', 'bucket' = '2', "
        "'fields.m.map.storage-layout' = 'shared-shredding', "
        "'fields.m.map.shared-shredding.max-columns' = '2')"
    )
    lake.sql("INSERT INTO db.t VALUES (1, map('a', 1, 'b', 2, 'c', 3)), (2, map()), (3, NULL)")
    lake.sql("UPDATE db.t SET m = map_concat(m, map('d', id)) WHERE id < 3")
    lake.sql(
        "MERGE INTO db.t USING (SELECT 3L id UNION ALL SELECT 4L) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET m = map('e', NULL) "
        "WHEN NOT MATCHED THEN INSERT (id, m) VALUES (s.id, map('a', 4))"
    )
    expected = [
        (1, {"a": 1, "b": 2, "c": 3, "d": 1}), (2, {"d": 2}), (3, {"e": None}), (4, {"a": 4}),
    ]  # fmt: skip
    for _ in range(2):
        assert rows(lake.table("db.t")) == expected
        by_key = lake.sql(
            "SELECT id, m['d'] FROM db.t WHERE m['a'] = 1 OR map_contains_key(m, 'e')"
        )
        assert rows(by_key) == [(1, 1), (3, None)]
        assert rows(spark.read.format("headwater").load("db.t").select("id")) == [
            (1,), (2,), (3,), (4,),
        ]  # fmt: skip
        lake.compact("db.t", full=True)
    fields = {pq.read_schema(path).field("m").type[0].name for path in folder.rglob("data-*")}
    assert fields == {"__field_mapping"}
