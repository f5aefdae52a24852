"""Spark's own Parquet scan for the files that need no merging, or whose live rows are known.

It reads only the columns a query needs and pushes filters into row groups, which Spark does not do
for data sources in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyspark.sql.types as st
from pyspark.sql import Column, DataFrame, SparkSession

from headwater.spark.file_frames import FileFrames
from headwater.spark.literal import literal
from headwater.spark.names import quoted
from headwater.spark.projection import projected
from headwater.spark.source.division import file_path, is_scannable
from headwater.spark.source.live_filter import MOST_FILES, live_rows_of
from headwater.spark.types import spark_schema, spark_type
from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.manifest.data_file import DataFile, FileSource
from headwater.storage.read.positioned_rows import FILE_COLUMN, POSITION_COLUMN
from headwater.storage.rows.kinds import RowKind
from headwater.storage.scan.split import Split
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField
from headwater.storage.types.values import StorageValue, arrow_scalar

__all__ = [
    "ADDED_KINDS",
    "FileGroup",
    "Selected",
    "columns_of_group",
    "file_groups",
    "native_frame",
]

Selected = tuple[str, str | Column | st.DataType]
"""A column's name, and what it stands for, as `projected` takes it."""

ADDED_KINDS = f"{RowKind.INSERT:d}, {RowKind.UPDATE_AFTER:d}"
"""The kinds of rows that do not retract."""


def native_frame(
    spark: SparkSession,
    kept: FileFrames,
    storage: TableStorage,
    splits: Sequence[Split],
    columns: Sequence[str],
    live_rows: Mapping[str, LiveRows],
    *,
    positioned: bool = False,
) -> DataFrame:
    """The rows of `Division.native`, with the columns wanted.

    Args:
        spark: The session.
        kept: Its frames of files.
        storage: The table.
        splits: At least one.
        columns: The columns wanted.
        live_rows: `Division.live_rows`.
        positioned: Append the columns of `headwater.storage.read.positioned_rows`.
    """
    frames: list[DataFrame] = []
    for group in file_groups(storage, splits, live_rows):
        for files in _told_apart(group.files, live_rows):
            paths = [path for path, _ in files]
            schema, selected = columns_of_group(storage, group, columns, pushes=True)
            frame = kept.frame(spark, paths, schema)
            if positioned:
                selected.append((FILE_COLUMN, "_metadata.file_name"))
                selected.append((POSITION_COLUMN, "_metadata.row_index"))
            if group.may_retract:
                frame = frame.where(f"{quoted(KIND_FIELD.name)} IN ({ADDED_KINDS})")
            bitmaps = [
                (file.file_size, live_rows[path]) for path, file in files if path in live_rows
            ]
            if bitmaps:
                frame = live_rows_of(frame, bitmaps)
            frames.append(projected(frame, selected))
    return reduce(DataFrame.unionByName, frames)


@dataclass(frozen=True)
class FileGroup:
    """Files that are read alike.

    Attributes:
        partition: The values of their partition, in partition-key order.
        schema_id: Their schema.
        may_retract: True if rows that retract must be looked for.
        files: The files with their URIs.
    """

    partition: tuple[StorageValue, ...]
    schema_id: int
    may_retract: bool
    files: Sequence[tuple[str, DataFile]]


def file_groups(
    storage: TableStorage, splits: Sequence[Split], live_rows: Mapping[str, LiveRows]
) -> list[FileGroup]:
    """The files of splits that Spark's own scan can read, in groups."""
    keyed = bool(storage.schema.primary_keys)
    groups: dict[tuple[bytes, int, bool], list[tuple[str, DataFile]]] = {}
    partitions = {split.partition: split.partition_values for split in splits}
    for split in splits:
        for file in split.files:
            path = file_path(split, file)
            # A merge has left out what retracts.
            merged = not split.is_raw and path in live_rows
            may_retract = keyed and not merged and _may_retract(file)
            key = (split.partition, file.schema_id, may_retract)
            groups.setdefault(key, []).append((path, file))
    return [
        FileGroup(partitions[partition], schema_id, may_retract, files)
        for (partition, schema_id, may_retract), files in groups.items()
    ]


def columns_of_group(
    storage: TableStorage, group: FileGroup, columns: Sequence[str], *, pushes: bool
) -> tuple[st.StructType, list[Selected]]:
    """The columns of a group's files that Spark can read, and what the ones wanted are of them.

    Spark reads those that are selected. That all are there lets it tell how much of the files
    these are, and makes one frame of files do for all queries.

    Args:
        storage: The table.
        group: The group.
        columns: The columns wanted.
        pushes: True if Spark may skip row groups by conditions on the columns.
    """
    written = storage.schema_by_id(group.schema_id)
    partition = dict(zip(storage.schema.partition_keys, group.partition, strict=True))
    selected: list[Selected] = []
    for field in storage.schema.columns(columns):
        source = written.field_by_id.get(field.id)
        column: str | Column | st.DataType
        if field.name in partition:
            # Not from the file: a migrated one lacks it, and Spark prunes by a constant.
            value = arrow_scalar(partition[field.name], field.type)
            column = literal(value, spark_type(field.type))
        elif source is None:
            column = spark_type(field.type)
        else:
            column = quoted(source.name)
            if pushes and _is_floating(source):
                column = f"nanvl({column}, {column})"
        selected.append((field.name, column))
    schema = spark_schema([field for field in written.fields if is_scannable(field.type)])
    if group.may_retract:
        schema = st.StructType([*schema.fields, st.StructField(KIND_FIELD.name, st.ByteType())])
    return schema, selected


def _told_apart(
    files: Iterable[tuple[str, DataFile]], live_rows: Mapping[str, LiveRows]
) -> list[list[tuple[str, DataFile]]]:
    """Files in parts: those without bitmaps, and such whose bitmaps one condition tells apart."""
    plain: list[tuple[str, DataFile]] = []
    parts: list[dict[int, tuple[str, DataFile]]] = []
    for path, file in files:
        if path not in live_rows:
            plain.append((path, file))
            continue
        free = (each for each in parts if file.file_size not in each and len(each) < MOST_FILES)
        part = next(free, None)
        if part is None:
            part = {}
            parts.append(part)
        part[file.file_size] = (path, file)
    return [*([plain] if plain else []), *(list(part.values()) for part in parts)]


def _may_retract(file: DataFile) -> bool:
    """True if a row of a primary-key table's file may retract, whatever its writer said of it.

    What a compaction says is so. Others count 0 in files of level 0 that hold deletes, and such a
    file may have gone up as it is.
    """
    counted = file.file_source is FileSource.COMPACT and file.level > 0
    return not counted or file.delete_row_count != 0


def _is_floating(field: DataField) -> bool:
    """True for columns on which no condition may reach the files.

    Writers other than Java's leave NaN out of the ranges in a file's footer. To Spark it is the
    greatest number, so it would skip row groups for a condition that only their NaN meets. Spark
    takes no condition through `nanvl`, which gives each value back as it is.
    """
    return isinstance(field.type, AtomicType) and field.type.root in (Root.FLOAT, Root.DOUBLE)
