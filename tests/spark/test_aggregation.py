"""Tables whose columns are aggregated, written and read by Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from tests.spark.conftest import rows

from headwater.spark import SparkLake

pytestmark = pytest.mark.spark


def test_columns_are_aggregated_by_every_writer(spark: SparkSession, lake: SparkLake) -> None:
    first = spark.range(100).select(
        sf.col("id"), sf.lit(1).alias("total"), sf.lit("a").alias("note")
    )
    lake.create_table(
        "db.t",
        first.schema,
        primary_keys=["id"],
        options={
            "bucket": "2",
            "merge-engine": "aggregation",
            "fields.total.aggregate-function": "sum",
            "fields.note.aggregate-function": "listagg",
        },
    )
    lake.write(first, "db.t")
    lake.write(first.where("id >= 40").withColumn("note", sf.lit("b")), "db.t")
    lake.write(first.where("id >= 90"), "db.t")
    expected = [
        (key, 3, "a,b,a") if key >= 90 else (key, 2, "a,b") if key >= 40 else (key, 1, "a")
        for key in range(100)
    ]
    assert sorted(rows(lake.table("db.t"))) == expected
    # A filter on what is computed is applied to what is computed.
    assert sorted(rows(lake.table("db.t", where="total = 3"))) == expected[90:]
    lake.compact("db.t")
    assert sorted(rows(lake.table("db.t"))) == expected
