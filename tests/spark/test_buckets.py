"""Spark's tasks and the table agree on every row's bucket."""

from __future__ import annotations

import pyspark.sql.types as st
import pytest
from pyspark.sql import SparkSession

from headwater.spark.types import spark_arrow_schema
from headwater.spark.write.bucket_expression import can_compute, with_bucket
from headwater.storage.rows.bucket import bucket_numbers
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import to_arrow

pytestmark = pytest.mark.spark

KEYS = [
    ("tiny TINYINT NOT NULL", "CAST(id % 256 - 128 AS TINYINT) AS tiny"),
    ("small SMALLINT NOT NULL", "CAST(xxhash64(id) % 32768 AS SMALLINT) AS small"),
    ("whole INT NOT NULL", "CAST(xxhash64(id) % 2147483648 AS INT) AS whole"),
    ("day DATE NOT NULL", "date_from_unix_date(CAST(id AS INT) - 700) AS day"),
    ("big BIGINT NOT NULL", "xxhash64(id) AS big"),
    ("edge BIGINT NOT NULL", "IF(id % 2 = 0, -9223372036854775808, 9223372036854775807) AS edge"),
]


def struct(ddl: str) -> st.StructType:
    schema = st.StructType.fromDDL(ddl)
    assert isinstance(schema, st.StructType)
    return schema


COMBINATIONS = [[0], [1], [2], [3], [4], [5], [4, 2], [0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize("chosen", COMBINATIONS, ids=str)
@pytest.mark.parametrize("buckets", [1, 4, 7])
def test_the_expression_is_the_tables_own_rule(
    spark: SparkSession, chosen: list[int], buckets: int
) -> None:
    schema = struct(", ".join(KEYS[at][0] for at in chosen))
    fields = Schema.from_arrow(spark_arrow_schema(schema)).fields
    assert can_compute(fields)
    keys = spark.range(0, 1500).selectExpr(*[KEYS[at][1] for at in chosen])
    found = with_bucket(keys, fields, buckets, "bucket").toArrow()
    columns = [found.column(field.name).cast(to_arrow(field.type)) for field in fields]
    expected = bucket_numbers(columns, [field.type for field in fields], buckets)
    assert found.column("bucket").to_pylist() == expected.tolist()


def test_it_leaves_keys_that_it_does_not_know_to_the_rule() -> None:
    for ddl in ("a STRING NOT NULL", "a BIGINT", "a DOUBLE NOT NULL", "a TIMESTAMP NOT NULL"):
        schema = struct(ddl)
        assert not can_compute(Schema.from_arrow(spark_arrow_schema(schema)).fields)
