"""Spark's own Parquet scan for the files that need no merging, or whose live rows are known.

It reads only the columns a query needs and pushes filters into row groups, which Spark does not do
for data sources in Python. It takes a file only when reading it so gives what Headwater's own
reader would give: the same columns by field id, in the same types.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import pyspark.sql.types as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from headwater.spark.live_rows import LiveRowsCache
from headwater.spark.names import quoted
from headwater.spark.source.live_filter import MOST_FILES, live_rows_of
from headwater.spark.source.projection import parquet_files, projected
from headwater.spark.types import spark_schema, spark_type
from headwater.storage.files.local import local_path
from headwater.storage.formats.parquet import PARQUET
from headwater.storage.formats.system_columns import KIND_FIELD
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.manifest.data_file import DataFile, FileSource
from headwater.storage.read.data_file_reader import missing_columns
from headwater.storage.read.positioned_rows import FILE_COLUMN, POSITION_COLUMN
from headwater.storage.rows.kinds import RowKind
from headwater.storage.scan.sections import key_sections
from headwater.storage.scan.split import Split
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.atomic_type import AtomicType, Root
from headwater.storage.types.data_type import DataField
from headwater.storage.types.values import arrow_scalar

__all__ = ["Division", "divide", "file_path", "native_frame"]

# Spark reads paths as patterns.
_PATTERN = frozenset("*?[]{}\\")
_SCHEME = "file:///"
# The name that Spark has for what it knows of files, unless a column has it.
_METADATA = "_metadata"
_ADDED = f"{RowKind.INSERT:d}, {RowKind.UPDATE_AFTER:d}"
# Each partition is a branch of Spark's plan.
_MOST_PARTITIONS = 128
_NO_LITERAL = {Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ, Root.BINARY, Root.VARBINARY}


@dataclass(frozen=True)
class Division:
    """The splits of a plan, divided between two readers.

    Attributes:
        native: Those that Spark's own Parquet scan reads.
        python: Those that Headwater's reader reads, in Python workers; with their live rows, if
            they would be merged and these are known.
        live_rows: The live rows of those files in `native` that have others, too, by their paths.
    """

    native: tuple[Split, ...]
    python: tuple[Split, ...]
    live_rows: Mapping[str, LiveRows] = dataclasses.field(default_factory=dict, repr=False)


def divide(
    storage: TableStorage,
    splits: Sequence[Split],
    columns: Sequence[str],
    live_rows: LiveRowsCache,
    *,
    selective: bool,
) -> Division:
    """Divide splits between the readers.

    Args:
        storage: The table.
        splits: From `plan_snapshot`.
        columns: The columns wanted.
        live_rows: Tells the live rows of splits that are not read as they are.
        selective: True if a condition leaves out rows of the partitions that are read. Workers
            find those that fulfil it sooner than Spark's own scan numbers all rows, and asks of
            each whether it is live.

    Raises:
        CorruptData: As `LiveRowsCache.find`.
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
    scannable = [
        split
        for split in splits
        if not split.postponed
        and split.before is None
        and all(_scannable(storage, split, file, columns) for file in split.files)
    ]
    native = {id(split) for split in scannable if _stands(storage, split)}
    others = [split for split in scannable if id(split) not in native]
    found: dict[str, LiveRows] = {}
    picked: dict[int, Split] = {}
    if selective:
        # Vectors are read by the workers themselves.
        merged = [split for split in others if not split.is_raw]
        for split, rows in zip(merged, live_rows.find(storage, merged), strict=True):
            if rows is not None:
                picked[id(split)] = dataclasses.replace(split, live_rows=rows)
    else:
        each = live_rows.find(storage, others, partial(_is_told_apart, storage))
        for split, rows in zip(others, each, strict=True):
            if rows is not None:
                native.add(id(split))
                found |= {
                    file_path(split, file): rows[file.file_name]
                    for file in split.files
                    if file.file_name in rows
                }
    return Division(
        tuple(split for split in splits if id(split) in native),
        tuple(picked.get(id(split), split) for split in splits if id(split) not in native),
        found,
    )


def native_frame(
    spark: SparkSession,
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
        storage: The table.
        splits: At least one.
        columns: The columns wanted.
        live_rows: `Division.live_rows`.
        positioned: Append the columns of `headwater.storage.read.positioned_rows`.
    """
    groups = _groups(storage, splits, live_rows)
    frames = [
        _scan(spark, storage, files, columns, positioned, group.may_retract, live_rows)
        for group, files in groups.items()
    ]
    return reduce(DataFrame.unionByName, frames)


@dataclass(frozen=True)
class _Group:
    """The common ground of the files of one relation.

    Attributes:
        partition: Their partition.
        schema_id: Their schema.
        may_retract: True if rows that retract must be looked for.
        number: Tells groups of files apart whose live rows one condition cannot tell; None for
            files of which all rows are live.
    """

    partition: bytes
    schema_id: int
    may_retract: bool
    number: int | None


def _groups(
    storage: TableStorage, splits: Sequence[Split], live_rows: Mapping[str, LiveRows]
) -> dict[_Group, list[tuple[Split, DataFile]]]:
    keyed = bool(storage.schema.primary_keys)
    groups: dict[_Group, list[tuple[Split, DataFile]]] = {}
    sizes: dict[_Group, set[int]] = {}
    for split in splits:
        merged = not split.is_raw
        for file in split.files:
            has_bitmap = file_path(split, file) in live_rows
            # A merge has left out what retracts.
            may_retract = keyed and not (merged and has_bitmap) and _may_retract(file)
            group = _Group(split.partition, file.schema_id, may_retract, None)
            number = 0
            while has_bitmap:
                group = _Group(split.partition, file.schema_id, may_retract, number)
                taken = sizes.setdefault(group, set())
                if file.file_size not in taken and len(taken) < MOST_FILES:
                    taken.add(file.file_size)
                    break
                number += 1
            groups.setdefault(group, []).append((split, file))
    return groups


def _may_retract(file: DataFile) -> bool:
    """True if a row of a primary-key table's file may retract, whatever its writer said of it.

    What a compaction says is so. Others count 0 in files of level 0 that hold deletes, and such a
    file may have gone up as it is.
    """
    counted = file.file_source is FileSource.COMPACT and file.level > 0
    return not counted or file.delete_row_count != 0


def _stands(storage: TableStorage, split: Split) -> bool:
    """True if all rows of the split's files are live but for those that retract."""
    if split.deletion_files:
        return False
    if split.is_raw:
        return True
    return all(len(section.runs) == 1 for section in key_sections(storage, split.files))


def _is_told_apart(storage: TableStorage, split: Split) -> bool:
    """True if Spark can tell the rows of the split's files by their sizes and positions.

    What is not as its metadata says, Headwater's reader looks into.
    """
    for file in split.files:
        written = storage.schema_by_id(file.schema_id)
        if any(field.name.casefold() == _METADATA for field in written.fields):
            return False
        try:
            size = os.stat(local_path(file_path(split, file))).st_size
        except OSError:
            return False
        if size != file.file_size:
            return False
    return True


def file_path(split: Split, file: DataFile) -> str:
    """The URI of a split's file."""
    return file.external_path or f"{split.directory}/{file.file_name}"


def _scannable(storage: TableStorage, split: Split, file: DataFile, columns: Sequence[str]) -> bool:
    path = file_path(split, file)
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
    may_retract: bool,
    live_rows: Mapping[str, LiveRows],
) -> DataFrame:
    """The rows of one group of files."""
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
    if may_retract:
        schema = st.StructType([*schema.fields, st.StructField(KIND_FIELD.name, st.ByteType())])
    reader = (
        spark.read.schema(schema)
        .option("mergeSchema", "false")
        .option("datetimeRebaseMode", "CORRECTED")
        .option("ignoreCorruptFiles", "false")
        .option("ignoreMissingFiles", "false")
    )
    frame = parquet_files(reader, spark, [file_path(each, file) for each, file in files])
    if may_retract:
        frame = frame.where(f"{quoted(KIND_FIELD.name)} IN ({_ADDED})")
    bitmaps = [
        (file.file_size, live_rows[path])
        for each, file in files
        if (path := file_path(each, file)) in live_rows
    ]
    if bitmaps:
        frame = live_rows_of(frame, bitmaps)
    return projected(frame, selected)
