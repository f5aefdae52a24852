"""Values of partitions that are moments, as Spark reads them: in the session's time zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import pyspark.sql.functions as sf
import pyspark.sql.types as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.spark.condition_text import is_moment
from headwater.storage.errors import Invalid
from headwater.storage.schema.table_schema import TableSchema

__all__ = ["in_session_zone", "moment_texts"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def in_session_zone(
    spark: SparkSession, schema: TableSchema, partition: Mapping[str, object]
) -> dict[str, object]:
    """A partition's values, where text of a TIMESTAMP_LTZ column is the moment that Spark reads.

    Args:
        spark: The session.
        schema: The table's.
        partition: Values by the names of columns; those of no column stay as they are.

    Raises:
        Invalid: Text is no moment.
    """
    return {
        name: _moment(spark, name, value)
        if isinstance(value, str) and is_moment(schema, name)
        else value
        for name, value in partition.items()
    }


def _moment(spark: SparkSession, name: str, text: str) -> dt.datetime:
    micros = sf.unix_micros(sf.lit(text).cast(st.TimestampType()))
    try:
        row = spark.range(1).select(micros).first()
    except PySparkException:
        row = None
    if row is None or row[0] is None:
        raise Invalid(f"'{text}' is no TIMESTAMP of partition column '{name}'")
    return _EPOCH + dt.timedelta(microseconds=row[0])


def moment_texts(spark: SparkSession, micros: Sequence[int]) -> list[str]:
    """Moments as Spark shows them, in the session's time zone.

    Args:
        spark: The session.
        micros: Microseconds since the epoch.
    """
    if not micros:
        return []
    numbers = sf.split(sf.lit(",".join(map(str, micros))), ",")
    texts = sf.transform(
        numbers, lambda each: sf.timestamp_micros(each.cast("long")).cast("string")
    )
    (row,) = spark.range(1).select(texts).collect()
    return list(row[0])
