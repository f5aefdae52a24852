"""The rows of a table that conditions of Spark's can be true for, as Spark's optimiser tells them.

Mostly they only say which files need not be read: Spark itself reads and judges the conditions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyspark.sql.types as st
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession

from headwater.spark.char_columns import CharColumns
from headwater.spark.condition_text import is_read_alike
from headwater.spark.session import is_connect
from headwater.spark.source.needs import filter_of, needs_of, stand_in
from headwater.spark.types import spark_schema
from headwater.spark.write.join_condition import equal_columns
from headwater.storage.errors import Invalid, NotFound, Unsupported
from headwater.storage.predicate.char_columns import char_lengths
from headwater.storage.predicate.filter import Predicate, columns_of, parse_predicate
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField

__all__ = ["JoinNeeds", "columns_needed", "join_needs", "rows_told", "wanted_rows"]

# Spark puts the time of planning in their place, and another one when the change is run.
_CLOCK = re.compile(
    r"\b(current_date|curdate|current_timestamp|current_time|now|localtimestamp|unix_timestamp)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class JoinNeeds:
    """The rows of a merge's target that a row of the source can match.

    Attributes:
        pairs: Columns of the source by the target's columns that they equal in every pair.
        predicate: A condition that the target's rows fulfil; None for all rows.
    """

    pairs: dict[str, str] = field(default_factory=dict)
    predicate: Predicate | None = None


def wanted_rows(
    spark: SparkSession, storage: TableStorage, condition: Column | str | None, alias: str
) -> Predicate | None:
    """A predicate that is true for all rows of a table that a condition is true for.

    Args:
        spark: The session; one of Spark Connect shows no plans, so that only text is understood.
        storage: The table.
        condition: The condition, over the table's columns and, with row tracking, ``_ROW_ID``.
        alias: The table's name in it.

    Returns:
        None if nothing is known.
    """
    if condition is None or _tells_time(condition):
        return None
    if is_connect(spark):
        return _read(spark, storage, condition)
    schema = _schema(spark, _named_fields(storage))
    try:
        return _predicate(stand_in(spark, 0, schema).alias(alias).where(condition), storage, schema)
    except (PySparkException, Py4JError):
        return None  # Columns that are bound to a frame, or a mistake that Spark will tell of.


def rows_told(
    spark: SparkSession, storage: TableStorage, condition: str, alias: str
) -> Predicate | None:
    """A predicate that is true for the rows of a table that a condition is true for, and no others.

    Args:
        spark: The session, by whose settings the condition is read; as for `wanted_rows`.
        storage: The table.
        condition: The condition, as for `wanted_rows`.
        alias: The table's name in it.

    Returns:
        None where only Spark can tell the rows.
    """
    if _tells_time(condition):
        return None
    if is_connect(spark):
        return _read(spark, storage, condition)
    schema = _schema(spark, _named_fields(storage))
    try:
        need = filter_of(stand_in(spark, 0, schema).alias(alias).where(condition))
    except (PySparkException, Py4JError):
        return None  # A mistake that Spark will tell of.
    if need is None:
        return None
    filled = CharColumns.from_session(spark, storage.schema.fields).lengths
    return need.predicate(schema, storage.schema, _zone(spark), filled=filled, exact=True)


def join_needs(
    spark: SparkSession,
    storage: TableStorage,
    source: st.StructType,
    condition: Column | str,
    target_alias: str,
    source_alias: str,
) -> JoinNeeds:
    """The rows of a table that rows of a source can match by a condition.

    Args:
        spark: The session; as for `wanted_rows`.
        storage: The table.
        source: The source's columns.
        condition: The condition of a match.
        target_alias: The table's name in it.
        source_alias: The source's.
    """
    own = _schema(spark, _named_fields(storage))

    def pairs(text: str) -> dict[str, str]:
        return equal_columns(text, own, source, target_alias, source_alias)

    if is_connect(spark):
        return JoinNeeds(pairs(condition) if isinstance(condition, str) else {})
    target = stand_in(spark, 0, own).alias(target_alias)
    other = stand_in(spark, 1, source).alias(source_alias)
    # Text is not the name of a column here.
    crossed = target.crossJoin(other)
    try:
        joined = crossed.where(condition)
        analysed: Any = joined._jdf.queryExecution().analyzed()
        text = str(analysed.condition().sql())
        if _tells_time(condition):
            return JoinNeeds(pairs(text))
        return JoinNeeds(pairs(text), _predicate(joined, storage, own))
    except (PySparkException, Py4JError):
        return JoinNeeds(pairs(condition) if isinstance(condition, str) else {})


def columns_needed(
    spark: SparkSession,
    storage: TableStorage,
    places: Sequence[st.StructField],
    changes: Callable[[DataFrame], DataFrame],
) -> list[str]:
    """The table's columns that changes of its rows are made of, those of row tracking among them.

    Args:
        spark: The session; of Spark Connect, which shows no plans, all columns are.
        storage: The table.
        places: The columns that tell of the rows' places.
        changes: Makes the changes of a frame of rows with their places.
    """
    names = list(storage.schema.moved_columns)
    if is_connect(spark):
        return names
    schema = st.StructType([*spark_schema(_named_fields(storage)).fields, *places])
    target = CharColumns.from_session(spark, storage.schema.fields).of_target
    try:
        needs = needs_of(changes(target(stand_in(spark, 0, schema))), 1)
    except (PySparkException, Py4JError):
        return names  # Columns that are bound to a frame, or a mistake that Spark will tell of.
    return names if needs is None else [n for n in needs[0].names(schema) if n in names]


def _predicate(frame: DataFrame, storage: TableStorage, schema: st.StructType) -> Predicate | None:
    """The condition of the rows of placeholder relation 0 that a frame needs."""
    needs = needs_of(frame, 1)
    if needs is None:
        return None
    spark = frame.sparkSession
    filled = CharColumns.from_session(spark, storage.schema.fields).lengths
    return needs[0].predicate(schema, storage.schema, _zone(spark), filled=filled)


def _named_fields(storage: TableStorage) -> list[DataField]:
    """The columns that conditions and values may name."""
    return list(storage.schema.columns(storage.schema.moved_columns))


def _schema(spark: SparkSession, fields: Sequence[DataField]) -> st.StructType:
    """Columns as Spark knows them."""
    return CharColumns.from_session(spark, fields).schema(spark_schema(fields))


def _zone(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.sql.session.timeZone"))


def _read(spark: SparkSession, storage: TableStorage, condition: Column | str) -> Predicate | None:
    """A condition whose text Spark and Headwater read alike."""
    if not isinstance(condition, str):
        return None
    try:
        predicate = parse_predicate(condition, storage.schema)
    except (Invalid, NotFound, Unsupported):
        return None
    if char_lengths(storage.schema, columns_of(predicate)):
        return None
    return predicate if is_read_alike(condition, predicate, storage.schema) else None


def _tells_time(condition: Column | str) -> bool:
    return _CLOCK.search(str(condition)) is not None
