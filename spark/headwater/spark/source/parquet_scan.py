"""Spark's own Parquet scan for the files that need no merging.

It reads only the columns a query needs and pushes filters into row groups, which Spark does not do
for data sources in Python. It takes a file only when reading it so gives what Headwater's own
reader would give: the same columns by field id, in the same types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pyspark.sql.types as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from headwater.spark.names import quoted
from headwater.spark.source.projection import parquet_files, projected
from headwater.spark.types import spark_schema, spark_type
from headwater.storage.formats.parquet import PARQUET
from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.manifest.data_file import DataFile
from headwater.storage.read.data_file_reader import missing_columns
from headwater.storage.read.positioned_rows import FILE_COLUMN, POSITION_COLUMN
from headwater.storage.rows.kinds import RowKind
from headwater.storage.scan.sections import key_sections
from headwater.storage.scan.split import Split
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField
from headwater.storage.types.values import arrow_scalar

__all__ = ["Division", "divide", "native_frame"]

# Spark reads paths as patterns.
_PATTERN = frozenset("*?[]{}\\")
_SCHEME = "file:///"
_ADDED = f"{RowKind.INSERT:d}, {RowKind.UPDATE_AFTER:d}"
# Each partition is a branch of Spark's plan.
_MOST_PARTITIONS = 128
_NO_LITERAL = {Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.BINARY, Root.VARBINARY}


@dataclass(frozen=True)
class Division:
    """The splits of a plan, divided between two readers.

    Attributes:
        native: Those that Spark's own Parquet scan reads.
        python: Those that Headwater's reader reads, in Python workers.
    """

    native: tuple[Split, ...]
    python: tuple[Split, ...]


def divide(storage: TableStorage, splits: Sequence[Split], columns: Sequence[str]) -> Division:
    """Divide splits between the readers, in the same way on the driver and elsewhere.

    Args:
        storage: The table.
        splits: From `plan_snapshot`.
        columns: The columns wanted.
    """
    schema = storage.schema
    folded = [name.casefold() for name in schema.field_by_name]
    if (
        not columns
        or schema.table_options.evolves_columns
        or any(name in schema.tracking_fields for name in columns)
        or len(set(folded)) < len(folded)
        or len({split.partition for split in splits}) > _MOST_PARTITIONS
        or any(
            not isinstance(field.type, AtomicType) or field.type.root in _NO_LITERAL
            for field in schema.partition_fields
        )
    ):
        return Division((), tuple(splits))
    native = {
        id(split)
        for split in splits
        if not split.deletion_files
        and _distinct(storage, split)
        and all(_scannable(storage, split, file, columns) for file in split.files)
    }
    return Division(
        tuple(split for split in splits if id(split) in native),
        tuple(split for split in splits if id(split) not in native),
    )


def native_frame(
    spark: SparkSession,
    storage: TableStorage,
    splits: Sequence[Split],
    columns: Sequence[str],
    *,
    positioned: bool = False,
) -> DataFrame:
    """The rows of `Division.native`, with the columns wanted.

    Args:
        spark: The session.
        storage: The table.
        splits: At least one.
        columns: The columns wanted.
        positioned: Append the columns of `headwater.storage.read.positioned_rows`.
    """
    groups: dict[tuple[bytes, int], list[tuple[Split, DataFile]]] = {}
    for split in splits:
        for file in split.files:
            groups.setdefault((split.partition, file.schema_id), []).append((split, file))
    frames = [_scan(spark, storage, files, columns, positioned) for files in groups.values()]
    return reduce(DataFrame.unionByName, frames)


def _distinct(storage: TableStorage, split: Split) -> bool:
    """True if no key occurs twice in the split's files."""
    if split.postponed:
        return False
    if not split.needs_merge:
        return True
    return all(len(section.runs) == 1 for section in key_sections(storage, split.files))


def _path(split: Split, file: DataFile) -> str:
    return file.external_path or f"{split.directory}/{file.file_name}"


def _scannable(storage: TableStorage, split: Split, file: DataFile, columns: Sequence[str]) -> bool:
    path = _path(split, file)
    if (
        not path.startswith(_SCHEME)
        or not path.endswith(f".{PARQUET.name}")
        or _PATTERN & set(path)
    ):
        return False
    written = storage.schema_by_id(file.schema_id)
    if missing_columns(file, written):
        return False
    for field in storage.schema.columns(columns):
        stored = written.field_by_id.get(field.id)
        if stored is not None and not _same(field, stored):
            return False
    return True


def _same(wanted: DataField, stored: DataField) -> bool:
    kind = wanted.type
    if not isinstance(kind, AtomicType) or not isinstance(stored.type, AtomicType):
        return False
    if kind.root in (Root.TIME, Root.BLOB) or (
        kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and kind.precision > 6
    ):
        return False
    return str(kind).removesuffix(" NOT NULL") == str(stored.type).removesuffix(" NOT NULL")


def _is_floating(field: DataField) -> bool:
    """True for columns on which no condition may reach the files.

    Writers other than Java's leave NaN out of the ranges in a file's footer. To Spark it is the
    greatest number, so it would skip row groups for a condition that only their NaN meets. Spark
    takes no condition through `nanvl`, which gives each value back as it is.
    """
    return isinstance(field.type, AtomicType) and field.type.root in (Root.FLOAT, Root.DOUBLE)


def _scan(
    spark: SparkSession,
    storage: TableStorage,
    files: Sequence[tuple[Split, DataFile]],
    columns: Sequence[str],
    positioned: bool,
) -> DataFrame:
    """Files of one partition and one schema."""
    split, first = files[0]
    written = storage.schema_by_id(first.schema_id)
    partition = dict(zip(storage.schema.partition_keys, split.partition_values, strict=True))
    stored: list[DataField] = []
    selected: list[tuple[str, str | Column | st.DataType]] = []
    for field in storage.schema.columns(columns):
        source = written.field_by_id.get(field.id)
        column: str | Column | st.DataType
        if field.name in partition:
            # Not from the file: a migrated one lacks it, and Spark prunes by a constant.
            value = arrow_scalar(partition[field.name], field.type).as_py()
            column = sf.lit(value).cast(spark_type(field.type))
        elif source is None:
            column = spark_type(field.type)
        else:
            stored.append(source)
            column = quoted(source.name)
            if _is_floating(source):
                column = f"nanvl({column}, {column})"
        selected.append((field.name, column))
    if positioned:
        selected.append((FILE_COLUMN, "_metadata.file_name"))
        selected.append((POSITION_COLUMN, "_metadata.row_index"))
    schema = spark_schema(stored)
    keyed = bool(storage.schema.primary_keys)
    if keyed:
        schema = st.StructType([*schema.fields, st.StructField(KIND_FIELD.name, st.ByteType())])
    reader = (
        spark.read.schema(schema)
        .option("mergeSchema", "false")
        .option("datetimeRebaseMode", "CORRECTED")
        .option("ignoreCorruptFiles", "false")
        .option("ignoreMissingFiles", "false")
    )
    frame = parquet_files(reader, spark, [_path(each, file) for each, file in files])
    if keyed:
        # A file may hold deletes, whatever its writer said of it.
        frame = frame.where(f"{quoted(KIND_FIELD.name)} IN ({_ADDED})")
    return projected(frame, selected)
