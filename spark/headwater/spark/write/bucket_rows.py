"""Bring the rows of one bucket together, sorted, before they are written.

Each bucket is then written by one task of a commit, in one sorted run however large it is: Spark
sorts within memory and spills, which no writer in a Python worker has to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyspark.sql.types as st
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from headwater.spark.names import quoted
from headwater.spark.write.bucket_expression import can_compute, with_bucket
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.options import BucketFunction
from headwater.storage.options.assignment_options import AssignmentOptions
from headwater.storage.read.positioned_rows import BUCKET_COLUMN, PARTITION_COLUMN
from headwater.storage.rows.bucket import bucket_numbers, key_hashes
from headwater.storage.rows.ingest import ROW_KIND_COLUMN
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField, DataType, to_arrow
from headwater.storage.write.assign.filling import classes_of

__all__ = ["cluster", "cluster_stored", "has_fixed_buckets"]

_BUCKET = "_headwater_bucket"
# The tasks at most that leave rows to be spread over buckets later.
_PARTS_OF_POSTPONED = 1024


def cluster(df: DataFrame, storage: TableStorage) -> DataFrame:
    """The frame with each bucket's rows in one partition, in the order files have.

    A table without buckets and partitions is left as it is: any task may add a file to it.
    """
    schema = storage.schema
    buckets = schema.table_options.bucket
    partition = [sf.col(quoted(name)) for name in schema.partition_keys]
    key = schema.bucket_key_fields
    if buckets < 1 and not schema.primary_keys:
        return df.repartition(*partition).sortWithinPartitions(*partition) if partition else df
    if buckets == POSTPONE_BUCKET:
        # Partitions have numbers of buckets of their own: rows of one key are brought together.
        keys = [sf.col(quoted(field.name)) for field in key]
        placed = df.repartition(*partition, *keys)
        return placed.sortWithinPartitions(*partition, *_key_order(df, storage))
    if buckets < 1:
        return _by_class(df, storage, partition)
    placed = _with_fixed_bucket(df, storage)
    key_order = _key_order(df, storage) if schema.primary_keys else []
    if partition:
        # Without a number, so that Spark joins what is small.
        placed = placed.repartition(*partition, sf.col(_BUCKET))
        return placed.sortWithinPartitions(*partition, sf.col(_BUCKET), *key_order).drop(_BUCKET)
    placed = placed.repartitionById(buckets, sf.col(_BUCKET)).drop(_BUCKET)
    # Each task has one bucket: sorted by a single number, Spark compares no rows.
    return placed.sortWithinPartitions(*key_order) if key_order else placed


def cluster_stored(df: DataFrame, storage: TableStorage, *, adds: bool) -> DataFrame:
    """Changes with each bucket's in one partition, by key.

    Args:
        df: Changes with the columns of `headwater.storage.read.positioned_rows.bucketed_rows`, the
            place of a row that changes; they are null where a row is added.
        storage: The table.
        adds: Whether rows are added.
    """
    schema = storage.schema
    order = _key_order(df, storage)
    if schema.crosses_partitions:
        # A row may move to a bucket of another partition, where one writer alone can place it.
        places = [sf.col(PARTITION_COLUMN), sf.col(BUCKET_COLUMN)]
        return df.repartition(1).sortWithinPartitions(*places, *order)
    partition = [sf.col(quoted(name)) for name in schema.partition_keys]
    placed = _with_number(df, storage) if adds else df.withColumn(_BUCKET, sf.lit(0))
    placed = placed.withColumn(_BUCKET, sf.coalesce(sf.col(BUCKET_COLUMN), sf.col(_BUCKET)))
    buckets = schema.table_options.bucket
    if buckets > 0 and not partition:
        placed = placed.repartitionById(buckets, sf.pmod(sf.col(_BUCKET), sf.lit(buckets)))
    else:
        placed = placed.repartition(*partition, sf.col(_BUCKET))
    return placed.sortWithinPartitions(*partition, sf.col(_BUCKET), *order).drop(_BUCKET)


def has_fixed_buckets(storage: TableStorage) -> bool:
    """Whether a key's bucket follows from the key alone."""
    return storage.schema.table_options.bucket > 0


def _with_number(df: DataFrame, storage: TableStorage) -> DataFrame:
    """The frame with a number for each new row: rows that one writer must place have the same."""
    schema = storage.schema
    buckets = schema.table_options.bucket
    key = schema.bucket_key_fields
    if buckets == POSTPONE_BUCKET:
        hashed = sf.hash(*[sf.col(quoted(field.name)) for field in key])
        return df.withColumn(_BUCKET, sf.pmod(hashed, sf.lit(_PARTS_OF_POSTPONED)))
    if buckets < 1:
        return df.withColumn(_BUCKET, _class_column(schema, schema.key_fields, _classes(storage)))
    return _with_fixed_bucket(df, storage)


def _with_fixed_bucket(df: DataFrame, storage: TableStorage) -> DataFrame:
    options, key = storage.schema.table_options, storage.schema.bucket_key_fields
    buckets, function = options.bucket, options.bucket_function
    if function is BucketFunction.DEFAULT and can_compute(key):
        return with_bucket(df, key, buckets, _BUCKET)
    return df.withColumn(_BUCKET, _bucket_column(storage.schema, buckets, function))


def _key_order(df: DataFrame, storage: TableStorage) -> list[Column]:
    """By key; rows of one key so that the last counts."""
    schema = storage.schema
    names = (
        schema.primary_keys if schema.crosses_partitions else [f.name for f in schema.key_fields]
    )
    order = [sf.col(quoted(name)) for name in names]
    if ROW_KIND_COLUMN in df.columns and ROW_KIND_COLUMN not in schema.field_by_name:
        # What takes a row of the same key back comes before what puts one in its place.
        kind = sf.col(ROW_KIND_COLUMN)
        textual = isinstance(df.schema[ROW_KIND_COLUMN].dataType, st.StringType)
        retracts = sf.upper(kind).isin("-U", "-D") if textual else kind % 2 == 1
        order.append(retracts.desc())
    return order


def _by_class(df: DataFrame, storage: TableStorage, partition: list[Column]) -> DataFrame:
    """Dynamic buckets: each task has all rows of some classes of keys, with their own buckets."""
    schema = storage.schema
    classes = _classes(storage)
    fields = schema.key_fields
    if schema.crosses_partitions:
        # A key's rows come together, whichever partitions they name.
        partition, fields = [], schema.columns(schema.primary_keys)
    order = [*partition, *_key_order(df, storage)]
    if classes == 1:
        placed = df.repartition(*partition) if partition else df.repartition(1)
        return placed.sortWithinPartitions(*order)
    placed = df.withColumn(_BUCKET, _class_column(schema, fields, classes))
    if partition:
        placed = placed.repartition(*partition, sf.col(_BUCKET))
    else:
        placed = placed.repartitionById(classes, sf.col(_BUCKET))
    return placed.sortWithinPartitions(*order).drop(_BUCKET)


def _classes(storage: TableStorage) -> int:
    return classes_of(AssignmentOptions(storage.schema.options))


def _class_column(schema: TableSchema, key: Sequence[DataField], classes: int) -> Column:
    if classes == 1:
        return sf.lit(0)
    return _key_column(
        schema,
        key,
        lambda columns, types: np.abs(np.fmod(key_hashes(columns, types), np.int32(classes))),
    )


def _bucket_column(schema: TableSchema, buckets: int, function: BucketFunction) -> Column:
    return _key_column(
        schema,
        schema.bucket_key_fields,
        lambda columns, types: bucket_numbers(columns, types, buckets, function),
    )


def _key_column(
    schema: TableSchema,
    key: Sequence[DataField],
    numbers: Callable[[list[pa.Array], list[DataType]], npt.NDArray[np.int32]],
) -> Column:
    """A column of numbers that follow from a key."""
    types = [field.type for field in key]
    arrow = [to_arrow(item) for item in types]

    def number(*columns: pa.Array) -> pa.Array:
        whole = [column.cast(kind) for column, kind in zip(columns, arrow, strict=True)]
        return pa.array(numbers(whole, types))

    arguments = [sf.col(quoted(field.name)) for field in key]
    column: Column = arrow_udf(number, "int", ArrowUDFType.SCALAR)(*arguments)
    return column
