"""The Avro records of manifests and manifest lists, with the schema that Paimon Java writes.

Fields are taken by name: unknown ones are skipped, missing optional ones are None.

Source: ``ManifestEntry.java``, ``DataFileMeta.java``, ``ManifestFileMeta.java``,
``AvroSchemaConverter.java``.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from headwater.storage.formats.avro_container import Record
from headwater.storage.manifest.data_file import (
    DataFile,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)
from headwater.storage.types.data_type import Json

__all__ = [
    "MANIFEST_LIST_SCHEMA",
    "MANIFEST_SCHEMA",
    "MANIFEST_VERSION",
    "ManifestFile",
    "entry_record",
    "manifest_file_record",
    "read_entry",
    "read_manifest_file",
    "read_names",
]

MANIFEST_VERSION = 2
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


_RECORD = "org.apache.paimon.avro.generated.record"


def _array(items: Json) -> Json:
    return {"type": "array", "items": items}


def _nullable(avro: Json) -> Json:
    return ["null", avro]


def _record(name: str, fields: Sequence[tuple[str, Json]]) -> dict[str, Json]:
    members: list[Json] = []
    for field, avro in fields:
        member: dict[str, Json] = {"name": field, "type": avro}
        if isinstance(avro, list):
            member["default"] = None
        members.append(member)
    return {"type": "record", "name": name, "fields": members}


def _stats_record(name: str) -> Json:
    return _record(
        name,
        [
            ("_MIN_VALUES", "bytes"),
            ("_MAX_VALUES", "bytes"),
            ("_NULL_COUNTS", _nullable(_array(_nullable("long")))),
        ],
    )


_FILE_SCHEMA = _record(
    f"{_RECORD}__FILE",
    [
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_ROW_COUNT", "long"),
        ("_MIN_KEY", "bytes"),
        ("_MAX_KEY", "bytes"),
        ("_KEY_STATS", _stats_record(f"{_RECORD}__FILE__KEY_STATS")),
        ("_VALUE_STATS", _stats_record(f"{_RECORD}__FILE__VALUE_STATS")),
        ("_MIN_SEQUENCE_NUMBER", "long"),
        ("_MAX_SEQUENCE_NUMBER", "long"),
        ("_SCHEMA_ID", "long"),
        ("_LEVEL", "int"),
        ("_EXTRA_FILES", _array("string")),
        ("_CREATION_TIME", _nullable({"type": "long", "logicalType": "timestamp-millis"})),
        ("_DELETE_ROW_COUNT", _nullable("long")),
        ("_EMBEDDED_FILE_INDEX", _nullable("bytes")),
        ("_FILE_SOURCE", _nullable("int")),
        ("_VALUE_STATS_COLS", _nullable(_array("string"))),
        ("_EXTERNAL_PATH", _nullable("string")),
        ("_FIRST_ROW_ID", _nullable("long")),
        ("_WRITE_COLS", _nullable(_array("string"))),
        ("_WRITE_COLS_SEQUENCES", _nullable(_array("long"))),
    ],
)
MANIFEST_SCHEMA = _record(
    _RECORD,
    [
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_TOTAL_BUCKETS", "int"),
        ("_FILE", _FILE_SCHEMA),
    ],
)
MANIFEST_LIST_SCHEMA = _record(
    _RECORD,
    [
        ("_VERSION", "int"),
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_NUM_ADDED_FILES", "long"),
        ("_NUM_DELETED_FILES", "long"),
        ("_PARTITION_STATS", _stats_record(f"{_RECORD}__PARTITION_STATS")),
        ("_SCHEMA_ID", "long"),
        ("_MIN_BUCKET", _nullable("int")),
        ("_MAX_BUCKET", _nullable("int")),
        ("_MIN_LEVEL", _nullable("int")),
        ("_MAX_LEVEL", _nullable("int")),
        ("_MIN_ROW_ID", _nullable("long")),
        ("_MAX_ROW_ID", _nullable("long")),
    ],
)


# Reading: a missing field is a KeyError, one of another type a TypeError ---


_Kind = TypeVar("_Kind")


def _take(record: Record, name: str, kind: type[_Kind]) -> _Kind:
    value = record[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}, not of type {kind.__name__}")
    return value


def _maybe(record: Record, name: str, kind: type[_Kind]) -> _Kind | None:
    return None if record.get(name) is None else _take(record, name, kind)


def _list(record: Record, name: str, kind: type[_Kind]) -> tuple[_Kind, ...]:
    items = _take(record, name, list)
    if not all(isinstance(item, kind) for item in items):
        raise TypeError(f"{name} is {items!r}, not a list of {kind.__name__}")
    return tuple(items)


def _maybe_list(record: Record, name: str, kind: type[_Kind]) -> tuple[_Kind, ...] | None:
    return None if record.get(name) is None else _list(record, name, kind)


def _stats(record: Record, name: str) -> SimpleStats:
    inner = _take(record, name, dict)
    minimum, maximum = _take(inner, "_MIN_VALUES", bytes), _take(inner, "_MAX_VALUES", bytes)
    counts = _maybe(inner, "_NULL_COUNTS", list)
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
    return _maybe(record, "_CREATION_TIME", int)


def read_entry(record: Record) -> ManifestEntry:
    """An entry from its record; KeyError, TypeError, ValueError or struct.error if malformed."""
    return ManifestEntry(
        kind=FileKind(_take(record, "_KIND", int)),
        partition=_take(record, "_PARTITION", bytes),
        bucket=_take(record, "_BUCKET", int),
        total_buckets=_take(record, "_TOTAL_BUCKETS", int),
        file=_data_file(_take(record, "_FILE", dict)),
    )


def read_names(record: Record) -> tuple[FileKind, list[str]]:
    """An entry's kind, and the names of its file and of those that belong to it; likewise."""
    file = _take(record, "_FILE", dict)
    names = [_take(file, "_FILE_NAME", str), *_list(file, "_EXTRA_FILES", str)]
    return FileKind(_take(record, "_KIND", int)), names


def _data_file(record: Record) -> DataFile:
    source = _maybe(record, "_FILE_SOURCE", int)
    return DataFile(
        file_name=_take(record, "_FILE_NAME", str),
        file_size=_take(record, "_FILE_SIZE", int),
        row_count=_take(record, "_ROW_COUNT", int),
        min_key=_take(record, "_MIN_KEY", bytes),
        max_key=_take(record, "_MAX_KEY", bytes),
        key_stats=_stats(record, "_KEY_STATS"),
        value_stats=_stats(record, "_VALUE_STATS"),
        min_sequence_number=_take(record, "_MIN_SEQUENCE_NUMBER", int),
        max_sequence_number=_take(record, "_MAX_SEQUENCE_NUMBER", int),
        schema_id=_take(record, "_SCHEMA_ID", int),
        level=_take(record, "_LEVEL", int),
        extra_files=_list(record, "_EXTRA_FILES", str),
        creation_time=_creation_time(record),
        delete_row_count=_maybe(record, "_DELETE_ROW_COUNT", int),
        embedded_file_index=_maybe(record, "_EMBEDDED_FILE_INDEX", bytes),
        file_source=None if source is None else FileSource(source),
        value_stats_cols=_maybe_list(record, "_VALUE_STATS_COLS", str),
        external_path=_maybe(record, "_EXTERNAL_PATH", str),
        first_row_id=_maybe(record, "_FIRST_ROW_ID", int),
        write_cols=_maybe_list(record, "_WRITE_COLS", str),
        write_cols_sequences=_maybe_list(record, "_WRITE_COLS_SEQUENCES", int),
    )


def read_manifest_file(record: Record) -> ManifestFile:
    """A line of a manifest list from its record; errors as of `read_entry`."""
    return ManifestFile(
        file_name=_take(record, "_FILE_NAME", str),
        file_size=_take(record, "_FILE_SIZE", int),
        num_added_files=_take(record, "_NUM_ADDED_FILES", int),
        num_deleted_files=_take(record, "_NUM_DELETED_FILES", int),
        partition_stats=_stats(record, "_PARTITION_STATS"),
        schema_id=_take(record, "_SCHEMA_ID", int),
        min_bucket=_maybe(record, "_MIN_BUCKET", int),
        max_bucket=_maybe(record, "_MAX_BUCKET", int),
        min_level=_maybe(record, "_MIN_LEVEL", int),
        max_level=_maybe(record, "_MAX_LEVEL", int),
        min_row_id=_maybe(record, "_MIN_ROW_ID", int),
        max_row_id=_maybe(record, "_MAX_ROW_ID", int),
    )


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
