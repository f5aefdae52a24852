"""The data that is measured with: orders of 7 columns with a BIGINT key, and upserts to them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

KEY = "order_id"
COLUMNS = (KEY, "customer", "status", "ordered_at", "amount", "quantity", "product_id")
_STATUS = ("new", "paid", "packed", "shipped", "delivered", "returned")
_START = 1_735_689_600_000_000


def orders(spark: SparkSession, rows: int) -> DataFrame:
    """`rows` orders with the keys 0 to rows - 1, in an order that is not that of the keys."""
    # 7,919 is a prime that divides no power of ten, so this permutes the keys.
    shuffled = spark.range(0, rows, 1, 4).select((sf.col("id") * 7919 % rows).alias(KEY))
    return _with_values(shuffled, version=0)


def upserts(spark: SparkSession, rows: int, version: int) -> DataFrame:
    """New versions of a tenth of the orders, scattered over all keys, another tenth each time."""
    keys = spark.range(0, rows // 10, 1, 4).select((sf.col("id") * 10 + version).alias(KEY))
    return _with_values(keys, version)


def changes(spark: SparkSession, rows: int) -> DataFrame:
    """New versions of a hundredth of the orders, scattered over all keys."""
    keys = spark.range(0, rows // 100, 1, 4).select((sf.col("id") * 100 + 7).alias(KEY))
    return _with_values(keys, version=9)


def _with_values(keys: DataFrame, version: int) -> DataFrame:
    def number(salt: int, below: int) -> Column:
        return sf.pmod(sf.xxhash64(sf.col(KEY), sf.lit(salt + 100 * version)), sf.lit(below))

    status = sf.array(*[sf.lit(text) for text in _STATUS])
    return keys.select(
        KEY,
        sf.concat(sf.lit("customer-"), number(1, 50_000).cast("string")).alias("customer"),
        sf.element_at(status, (number(2, len(_STATUS)) + 1).cast("int")).alias("status"),
        sf.timestamp_micros(number(3, 31_536_000) * 1_000_000 + _START).alias("ordered_at"),
        (number(4, 1_000_000) / 100).cast("double").alias("amount"),
        number(5, 100).cast("int").alias("quantity"),
        number(6, 10_000_000).alias("product_id"),
    )


def aggregate(df: DataFrame) -> tuple[object, ...]:
    """One row of aggregates that needs every row and every column."""
    row = df.agg(
        sf.count("*"),
        sf.sum(KEY),
        sf.sum(sf.length("customer")),
        sf.max("customer"),
        sf.count_if(sf.col("status") == "paid"),
        sf.min("ordered_at"),
        sf.max("ordered_at"),
        sf.round(sf.sum("amount"), 2),
        sf.sum("quantity"),
        sf.sum("product_id"),
    ).first()
    assert row is not None
    return tuple(row)
