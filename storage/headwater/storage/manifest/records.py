"""The Avro records of manifests and manifest lists, with the schema that Paimon Java writes.

Fields are taken by name: unknown ones are skipped, missing optional ones are None.

Source: ``ManifestEntry.java``, ``DataFileMeta.java``, ``ManifestFileMeta.java``,
``AvroSchemaConverter.java``.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.formats.avro_container import Record
from headwater.storage.manifest.data_file import (
    DataFile,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from headwater.storage.manifest.record_fields import (
    RECORD_NAME,
    array_schema,
    maybe,
    maybe_list,
    nullable_schema,
    record_schema,
    take,
    take_list,
)
from headwater.storage.types.data_type import Json

__all__ = [
    "MANIFEST_LIST_SCHEMA",
    "MANIFEST_SCHEMA",
    "MANIFEST_VERSION",
    "ManifestFile",
    "check_versions",
    "converted",
    "entry_record",
    "manifest_file_record",
    "read_entry",
    "read_manifest_file",
    "read_names",
]

MANIFEST_VERSION = 2
_Item = TypeVar("_Item")
_Line = TypeVar("_Line")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class ManifestFile:
    """One line of a manifest list: a manifest and what its entries span.

    Attributes:
        file_name: The manifest's name in the manifest directory.
        file_size: Bytes.
        num_added_files: Entries that add a file.
        num_deleted_files: Entries that take one away.
        partition_stats: Of the entries' partition values, in full.
        schema_id: The greatest schema of the entries' files.
        min_bucket: Smallest bucket; None when an old writer did not keep it, as all that follow.
        max_bucket: Greatest bucket.
        min_level: Smallest level.
        max_level: Greatest level.
        min_row_id: Smallest row id of a row-tracking table; None when an entry has none.
        max_row_id: Greatest row id.
    """

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


def _stats_record(name: str) -> Json:
    return record_schema(
        name,
        [
            ("_MIN_VALUES", "bytes"),
            ("_MAX_VALUES", "bytes"),
            ("_NULL_COUNTS", nullable_schema(array_schema(nullable_schema("long")))),
        ],
    )


_FILE_SCHEMA = record_schema(
    f"{RECORD_NAME}__FILE",
    [
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_ROW_COUNT", "long"),
        ("_MIN_KEY", "bytes"),
        ("_MAX_KEY", "bytes"),
        ("_KEY_STATS", _stats_record(f"{RECORD_NAME}__FILE__KEY_STATS")),
        ("_VALUE_STATS", _stats_record(f"{RECORD_NAME}__FILE__VALUE_STATS")),
        ("_MIN_SEQUENCE_NUMBER", "long"),
        ("_MAX_SEQUENCE_NUMBER", "long"),
        ("_SCHEMA_ID", "long"),
        ("_LEVEL", "int"),
        ("_EXTRA_FILES", array_schema("string")),
        ("_CREATION_TIME", nullable_schema({"type": "long", "logicalType": "timestamp-millis"})),
        ("_DELETE_ROW_COUNT", nullable_schema("long")),
        ("_EMBEDDED_FILE_INDEX", nullable_schema("bytes")),
        ("_FILE_SOURCE", nullable_schema("int")),
        ("_VALUE_STATS_COLS", nullable_schema(array_schema("string"))),
        ("_EXTERNAL_PATH", nullable_schema("string")),
        ("_FIRST_ROW_ID", nullable_schema("long")),
        ("_WRITE_COLS", nullable_schema(array_schema("string"))),
        ("_WRITE_COLS_SEQUENCES", nullable_schema(array_schema("long"))),
    ],
)
MANIFEST_SCHEMA = record_schema(
    RECORD_NAME,
    [
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_TOTAL_BUCKETS", "int"),
        ("_FILE", _FILE_SCHEMA),
    ],
)
MANIFEST_LIST_SCHEMA = record_schema(
    RECORD_NAME,
    [
        ("_VERSION", "int"),
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_NUM_ADDED_FILES", "long"),
        ("_NUM_DELETED_FILES", "long"),
        ("_PARTITION_STATS", _stats_record(f"{RECORD_NAME}__PARTITION_STATS")),
        ("_SCHEMA_ID", "long"),
        ("_MIN_BUCKET", nullable_schema("int")),
        ("_MAX_BUCKET", nullable_schema("int")),
        ("_MIN_LEVEL", nullable_schema("int")),
        ("_MAX_LEVEL", nullable_schema("int")),
        ("_MIN_ROW_ID", nullable_schema("long")),
        ("_MAX_ROW_ID", nullable_schema("long")),
    ],
)


# Reading: a missing field is a KeyError, one of another type a TypeError ---


def _stats(record: Record, name: str) -> SimpleStats:
    inner = take(record, name, dict)
    minimum, maximum = take(inner, "_MIN_VALUES", bytes), take(inner, "_MAX_VALUES", bytes)
    counts = maybe(inner, "_NULL_COUNTS", list)
    if counts is None:
        (arity,) = struct.unpack_from(">i", minimum)
        counts = [None] * arity
    if not all(count is None or isinstance(count, int) for count in counts):
        raise TypeError(f"_NULL_COUNTS is {counts!r}")
    return SimpleStats(minimum, maximum, tuple(counts))


def _creation_time(record: Record) -> int | None:
    value = record.get("_CREATION_TIME")
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return (moment - _EPOCH) // dt.timedelta(milliseconds=1)
    return maybe(record, "_CREATION_TIME", int)


def read_entry(record: Record) -> ManifestEntry:
    """An entry from its record; KeyError, TypeError, ValueError or struct.error if malformed."""
    return ManifestEntry(
        kind=FileKind(take(record, "_KIND", int)),
        partition=take(record, "_PARTITION", bytes),
        bucket=take(record, "_BUCKET", int),
        total_buckets=take(record, "_TOTAL_BUCKETS", int),
        file=_data_file(take(record, "_FILE", dict)),
    )


def read_names(record: Record) -> tuple[FileKind, list[str]]:
    """An entry's kind, and the names of its file and of those that belong to it; likewise."""
    file = take(record, "_FILE", dict)
    names = [take(file, "_FILE_NAME", str), *take_list(file, "_EXTRA_FILES", str)]
    return FileKind(take(record, "_KIND", int)), names


def _data_file(record: Record) -> DataFile:
    source = maybe(record, "_FILE_SOURCE", int)
    return DataFile(
        file_name=take(record, "_FILE_NAME", str),
        file_size=take(record, "_FILE_SIZE", int),
        row_count=take(record, "_ROW_COUNT", int),
        min_key=take(record, "_MIN_KEY", bytes),
        max_key=take(record, "_MAX_KEY", bytes),
        key_stats=_stats(record, "_KEY_STATS"),
        value_stats=_stats(record, "_VALUE_STATS"),
        min_sequence_number=take(record, "_MIN_SEQUENCE_NUMBER", int),
        max_sequence_number=take(record, "_MAX_SEQUENCE_NUMBER", int),
        schema_id=take(record, "_SCHEMA_ID", int),
        level=take(record, "_LEVEL", int),
        extra_files=take_list(record, "_EXTRA_FILES", str),
        creation_time=_creation_time(record),
        delete_row_count=maybe(record, "_DELETE_ROW_COUNT", int),
        embedded_file_index=maybe(record, "_EMBEDDED_FILE_INDEX", bytes),
        file_source=None if source is None else FileSource(source),
        value_stats_cols=maybe_list(record, "_VALUE_STATS_COLS", str),
        external_path=maybe(record, "_EXTERNAL_PATH", str),
        first_row_id=maybe(record, "_FIRST_ROW_ID", int),
        write_cols=maybe_list(record, "_WRITE_COLS", str),
        write_cols_sequences=maybe_list(record, "_WRITE_COLS_SEQUENCES", int),
    )


def read_manifest_file(record: Record) -> ManifestFile:
    """A line of a manifest list from its record; errors as of `read_entry`."""
    return ManifestFile(
        file_name=take(record, "_FILE_NAME", str),
        file_size=take(record, "_FILE_SIZE", int),
        num_added_files=take(record, "_NUM_ADDED_FILES", int),
        num_deleted_files=take(record, "_NUM_DELETED_FILES", int),
        partition_stats=_stats(record, "_PARTITION_STATS"),
        schema_id=take(record, "_SCHEMA_ID", int),
        min_bucket=maybe(record, "_MIN_BUCKET", int),
        max_bucket=maybe(record, "_MAX_BUCKET", int),
        min_level=maybe(record, "_MIN_LEVEL", int),
        max_level=maybe(record, "_MAX_LEVEL", int),
        min_row_id=maybe(record, "_MIN_ROW_ID", int),
        max_row_id=maybe(record, "_MAX_ROW_ID", int),
    )


def check_versions(records: Iterable[Record], path: str) -> None:
    """Raise Unsupported for an entry of a format version of the future."""
    for record in records:
        if record.get("_VERSION") != MANIFEST_VERSION:
            raise Unsupported(
                f"{path} has format version {record.get('_VERSION')}; this Headwater reads "
                f"version {MANIFEST_VERSION}"
            )


def converted(
    records: Iterable[_Item], convert: Callable[[_Item], _Line], path: str
) -> list[_Line]:
    """Entries from their records; raises CorruptData for a malformed one."""
    try:
        return [convert(record) for record in records]
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise CorruptData(f"{path} holds a malformed entry: {error!r}") from error


# Writing ---


def _stats_value(stats: SimpleStats) -> Record:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": list(stats.null_counts),
    }


def _optional_list(items: tuple[object, ...] | None) -> list[object] | None:
    return None if items is None else list(items)


def entry_record(entry: ManifestEntry) -> Record:
    """The record of an entry."""
    file = entry.file
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": file.file_name,
            "_FILE_SIZE": file.file_size,
            "_ROW_COUNT": file.row_count,
            "_MIN_KEY": file.min_key,
            "_MAX_KEY": file.max_key,
            "_KEY_STATS": _stats_value(file.key_stats),
            "_VALUE_STATS": _stats_value(file.value_stats),
            "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
            "_SCHEMA_ID": file.schema_id,
            "_LEVEL": file.level,
            "_EXTRA_FILES": list(file.extra_files),
            "_CREATION_TIME": file.creation_time,
            "_DELETE_ROW_COUNT": file.delete_row_count,
            "_EMBEDDED_FILE_INDEX": file.embedded_file_index,
            "_FILE_SOURCE": None if file.file_source is None else int(file.file_source),
            "_VALUE_STATS_COLS": _optional_list(file.value_stats_cols),
            "_EXTERNAL_PATH": file.external_path,
            "_FIRST_ROW_ID": file.first_row_id,
            "_WRITE_COLS": _optional_list(file.write_cols),
            "_WRITE_COLS_SEQUENCES": _optional_list(file.write_cols_sequences),
        },
    }


def manifest_file_record(file: ManifestFile) -> Record:
    """The record of a line of a manifest list."""
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_NUM_ADDED_FILES": file.num_added_files,
        "_NUM_DELETED_FILES": file.num_deleted_files,
        "_PARTITION_STATS": _stats_value(file.partition_stats),
        "_SCHEMA_ID": file.schema_id,
        "_MIN_BUCKET": file.min_bucket,
        "_MAX_BUCKET": file.max_bucket,
        "_MIN_LEVEL": file.min_level,
        "_MAX_LEVEL": file.max_level,
        "_MIN_ROW_ID": file.min_row_id,
        "_MAX_ROW_ID": file.max_row_id,
    }
