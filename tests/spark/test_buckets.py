"""Spark's tasks and the table agree on every row's bucket."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow.compute as pc
import pyspark.sql.types as st
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headwater.spark.types import spark_arrow_schema
from headwater.spark.write.bucket_expression import can_compute, with_bucket
from headwater.storage.rows.bucket import bucket_numbers
from headwater.storage.schema.table_schema import Schema
from headwater.storage.types.data_type import DataField, to_arrow

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


# So many buckets that different hashes hardly ever share one; for one key also as few as in tables.
CASES = [
    ([0], 1_000_003),
    ([1], 1_000_003),
    ([2], 1_000_003),
    ([3], 1_000_003),
    ([4], 1_000_003),
    ([5], 1_000_003),
    ([4, 2], 1_000_003),
    ([0, 1, 2, 3, 4, 5], 1_000_003),
    ([2], 1),
    ([2], 4),
    ([2], 7),
]


@pytest.mark.modes
def test_the_expression_is_the_tables_own_rule(spark: SparkSession) -> None:
    """For all keys in one job, as it costs more than what it computes."""
    names = [ddl.split()[0] for ddl, _ in KEYS]
    keys = spark.range(0, 1500).selectExpr(*[expression for _, expression in KEYS])
    frames = []
    for number, (chosen, buckets) in enumerate(CASES):
        fields = key_fields(chosen)
        assert can_compute(fields)
        placed = with_bucket(keys, fields, buckets, "bucket")
        frames.append(placed.select(sf.lit(number).alias("number"), *names, "bucket"))
    found = reduce(DataFrame.union, frames).toArrow()
    for number, (chosen, buckets) in enumerate(CASES):
        rows = found.filter(pc.field("number") == number)
        fields = key_fields(chosen)
        columns = [rows.column(field.name).cast(to_arrow(field.type)) for field in fields]
        expected = bucket_numbers(columns, [field.type for field in fields], buckets)
        assert len(expected) == 1500
        assert rows.column("bucket").to_pylist() == expected.tolist(), (chosen, buckets)


def key_fields(chosen: Sequence[int]) -> Sequence[DataField]:
    schema = struct(", ".join(KEYS[at][0] for at in chosen))
    return Schema.from_arrow(spark_arrow_schema(schema)).fields


def test_it_leaves_keys_that_it_does_not_know_to_the_rule() -> None:
    for ddl in ("a STRING NOT NULL", "a BIGINT", "a DOUBLE NOT NULL", "a TIMESTAMP NOT NULL"):
        schema = struct(ddl)
        assert not can_compute(Schema.from_arrow(spark_arrow_schema(schema)).fields)
