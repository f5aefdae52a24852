"""The system tables of a snapshot's files: data files, manifests, partitions, buckets.

Source: ``FilesTable.java``, ``FileKeyRangesTable.java``, ``ManifestsTable.java``,
``PartitionsTable.java``, ``BucketsTable.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from headwater.storage.casts.cast import cast
from headwater.storage.errors import Invalid, Unsupported
from headwater.storage.files.location import shown_location
from headwater.storage.index.index_file import GlobalIndex, IndexFileMeta
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import DataFile, ManifestEntry, SimpleStats, epoch_millis
from headwater.storage.manifest.key_range import end_fields
from headwater.storage.manifest.manifest import read_manifest_list
from headwater.storage.rows.binary_row import deserialize_row
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.scan.expired_snapshots import naming_expired
from headwater.storage.scan.plan import live_entries
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.system_tables.tables import (
    BIGINT,
    INT,
    STRING,
    TIMESTAMP,
    from_records,
    required,
)
from headwater.storage.system_tables.texts import (
    list_text,
    local_times,
    map_text,
    objects_text,
    row_texts,
    shown_partitions,
)
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import DataField, to_arrow
from headwater.storage.types.values import StorageValue, object_text, storage_value

__all__ = [
    "BUCKETS",
    "FILES",
    "FILE_KEY_RANGES",
    "MANIFESTS",
    "TABLE_INDEXES",
    "buckets_table",
    "file_key_ranges_table",
    "files_table",
    "manifests_table",
    "table_indexes_table",
]

FILE_KEY_RANGES = pa.schema(
    [
        ("partition", STRING),
        required("bucket", INT),
        required("file_path", STRING),
        required("file_format", STRING),
        required("schema_id", BIGINT),
        required("level", INT),
        required("record_count", BIGINT),
        required("file_size_in_bytes", BIGINT),
        ("min_key", STRING),
        ("max_key", STRING),
        ("first_row_id", BIGINT),
    ]
)
FILES = pa.schema(
    [
        *list(FILE_KEY_RANGES)[:-1],
        required("null_value_counts", STRING),
        required("min_value_stats", STRING),
        required("max_value_stats", STRING),
        ("min_sequence_number", BIGINT),
        ("max_sequence_number", BIGINT),
        ("creation_time", TIMESTAMP),
        ("deleteRowCount", BIGINT),
        ("file_source", STRING),
        ("first_row_id", BIGINT),
        ("write_cols", pa.list_(STRING)),
    ]
)
MANIFESTS = pa.schema(
    [
        required("file_name", STRING),
        required("file_size", BIGINT),
        required("num_added_files", BIGINT),
        required("num_deleted_files", BIGINT),
        required("schema_id", BIGINT),
        ("min_partition_stats", STRING),
        ("max_partition_stats", STRING),
        ("min_row_id", BIGINT),
        ("max_row_id", BIGINT),
    ]
)
TABLE_INDEXES = pa.schema(
    [
        ("partition", STRING),
        required("bucket", INT),
        required("index_type", STRING),
        required("file_name", STRING),
        required("file_size", BIGINT),
        required("row_count", BIGINT),
        (
            "dv_ranges",
            pa.list_(
                pa.struct(
                    [
                        required("f0", STRING),
                        required("f1", INT),
                        required("f2", INT),
                        ("_CARDINALITY", BIGINT),
                    ]
                )
            ),
        ),
        ("row_range_start", BIGINT),
        ("row_range_end", BIGINT),
        ("index_field_id", INT),
        ("index_field_name", STRING),
    ]
)
BUCKETS = pa.schema(
    [
        ("partition", STRING),
        required("bucket", INT),
        required("record_count", BIGINT),
        required("file_size_in_bytes", BIGINT),
        required("file_count", BIGINT),
        ("last_update_time", TIMESTAMP),
    ]
)

# HadoopCompressionType.java
_CODECS = frozenset({"gz", "bz2", "deflate", "snappy", "lz4", "zst"})


# Data files -------------------------------------------------------------------------------------


def file_key_ranges_table(storage: TableStorage, snapshot: Snapshot | None) -> pa.Table:
    """`FILE_KEY_RANGES`: the data files of a snapshot, by partition, bucket, level and name.

    Args:
        storage: The table.
        snapshot: The snapshot; None for a table without one.
    """
    entries, partitions = _files(storage, snapshot)
    return from_records(
        FILE_KEY_RANGES,
        (
            (*_place_and_keys(storage, entry, partitions), entry.file.first_row_id)
            for entry in entries
        ),
    )


def files_table(storage: TableStorage, snapshot: Snapshot | None) -> pa.Table:
    """`FILES`: the data files of a snapshot, by partition, bucket, level and name.

    Args:
        storage: The table.
        snapshot: The snapshot; None for a table without one.
    """
    entries, partitions = _files(storage, snapshot)
    return from_records(FILES, (_file_record(storage, entry, partitions) for entry in entries))


def _files(
    storage: TableStorage, snapshot: Snapshot | None
) -> tuple[list[ManifestEntry], Mapping[bytes, str]]:
    entries = []
    if snapshot is not None:
        with naming_expired(storage, snapshot):
            entries = live_entries(storage, snapshot)
    partitions = shown_partitions(storage, (entry.partition for entry in entries))
    entries.sort(
        key=lambda entry: (
            partitions[entry.partition], entry.bucket, entry.file.level, entry.file.file_name
        )
    )  # fmt: skip
    return entries, partitions


def _place_and_keys(
    storage: TableStorage, entry: ManifestEntry, partitions: Mapping[bytes, str]
) -> tuple[object, ...]:
    file = entry.file
    directory = shown_location(bucket_directory(storage, entry.partition, entry.bucket))
    ends = end_fields(storage, file) or storage.schema_by_id(file.schema_id).fields
    return (
        partitions[entry.partition],
        entry.bucket,
        file.external_path or f"{directory}/{file.file_name}",
        _format_of(file.file_name),
        file.schema_id,
        file.level,
        file.row_count,
        file.file_size,
        _key_text(file.min_key, ends),
        _key_text(file.max_key, ends),
    )


def _format_of(file_name: str) -> str:
    rest, _, extension = file_name.rpartition(".")
    return rest.rpartition(".")[2] if extension in _CODECS else extension


def _arity(row: bytes) -> int:
    return int(struct.unpack_from(">i", row)[0]) if len(row) >= 4 else 0


def _key_text(key: bytes, fields: Sequence[DataField]) -> str | None:
    if _arity(key) <= 0:
        return None
    values = deserialize_row(key, [field.type for field in fields])
    return list_text(objects_text(values, fields))


def _file_record(
    storage: TableStorage, entry: ManifestEntry, partitions: Mapping[bytes, str]
) -> tuple[object, ...]:
    file = entry.file
    nulls, low, high = _value_statistics(storage, file)
    return (
        *_place_and_keys(storage, entry, partitions),
        map_text(nulls),
        map_text(low),
        map_text(high),
        file.min_sequence_number,
        file.max_sequence_number,
        file.creation_time,
        file.delete_row_count,
        None if file.file_source is None else file.file_source.name,
        file.first_row_id,
        None if file.write_cols is None else list(file.write_cols),
    )


def _value_statistics(
    storage: TableStorage, file: DataFile
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Null counts, minima and maxima of the present columns as text."""
    written = storage.schema_by_id(file.schema_id)
    stored = _statistics_by_id(file.value_stats, _statistics_fields(file, written))
    texts: tuple[dict[str, str], dict[str, str], dict[str, str]] = ({}, {}, {})
    present_in_file = {
        field.id
        for field in written.fields
        if file.write_cols is None or field.name in file.write_cols
    }
    for field in storage.schema.fields:
        nulls, low, high = stored.get(field.id, (None, None, None))
        if field.id not in present_in_file:
            # The file is older than the column: all null.
            nulls = file.row_count
        shown = partial(_shown, field, written.field_by_id.get(field.id), storage)
        texts[0][field.name] = "null" if nulls is None else str(nulls)
        texts[1][field.name] = shown(low)
        texts[2][field.name] = shown(high)
    return texts


def _statistics_fields(file: DataFile, written: TableSchema) -> Sequence[DataField]:
    names = file.write_cols if file.value_stats_cols is None else file.value_stats_cols
    if names is None:
        return written.fields
    by_name = written.field_by_name
    return [by_name[name] for name in names if name in by_name]


def _statistics_by_id(
    stats: SimpleStats, fields: Sequence[DataField]
) -> dict[int, tuple[int | None, StorageValue, StorageValue]]:
    arity = len(fields)
    if _arity(stats.min_values) != arity or _arity(stats.max_values) != arity:
        return {}  # some writers leave statistics out as rows without fields
    types = [field.type for field in fields]
    low, high = deserialize_row(stats.min_values, types), deserialize_row(stats.max_values, types)
    nulls = stats.null_counts if len(stats.null_counts) == arity else (None,) * arity
    rows = zip(fields, nulls, low, high, strict=True)
    return {field.id: (count, least, most) for field, count, least, most in rows}


def _shown(
    field: DataField, stored: DataField | None, storage: TableStorage, value: StorageValue
) -> str:
    """A bound as text, cast as the column's values are."""
    if value is None or stored is None or stored.type == field.type:
        return object_text(value, field.type)
    try:
        array = pa.array([value], to_arrow(stored.type))
        evolved = cast(array, stored.type, field.type, storage.runtime.time_zone)
    except (Invalid, Unsupported):
        return object_text(value, stored.type)
    return object_text(storage_value(evolved[0], field.type), field.type)


# Manifests, partitions and buckets --------------------------------------------------------------


def manifests_table(storage: TableStorage, snapshot: Snapshot | None) -> pa.Table:
    """`MANIFESTS`: the manifests that a snapshot's lists name, those of changelogs last.

    Args:
        storage: The table.
        snapshot: The snapshot; None for a table without one.
    """
    if snapshot is None:
        return from_records(MANIFESTS, [])
    names = (
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
        snapshot.changelog_manifest_list,
    )
    found = [
        manifest
        for name in names
        if name is not None
        for manifest in read_manifest_list(storage, name)
    ]
    fields = storage.schema.partition_fields
    types = [field.type for field in fields]

    def texts(rows: Iterable[bytes]) -> list[str]:
        return row_texts(
            [deserialize_row(row, types) for row in rows], fields, storage.runtime.time_zone
        )

    low = texts(manifest.partition_stats.min_values for manifest in found)
    high = texts(manifest.partition_stats.max_values for manifest in found)
    return from_records(
        MANIFESTS,
        (
            (
                manifest.file_name,
                manifest.file_size,
                manifest.num_added_files,
                manifest.num_deleted_files,
                manifest.schema_id,
                least,
                most,
                manifest.min_row_id,
                manifest.max_row_id,
            )
            for manifest, least, most in zip(found, low, high, strict=True)
        ),
    )


def table_indexes_table(storage: TableStorage, snapshot: Snapshot | None) -> pa.Table:
    """`TABLE_INDEXES`: the index files of a snapshot (``TableIndexesTable.java``).

    Args:
        storage: The table.
        snapshot: The snapshot; None for a table without one.
    """
    entries = index_entries(storage, snapshot)
    partitions = shown_partitions(storage, (entry.partition for entry in entries))
    return from_records(
        TABLE_INDEXES,
        (
            (
                partitions[entry.partition],
                entry.bucket,
                entry.index_file.index_type,
                entry.index_file.file_name,
                entry.index_file.file_size,
                entry.index_file.row_count,
                _vector_ranges(entry.index_file),
                *_indexed_rows(storage, entry.index_file.global_index),
            )
            for entry in entries
        ),
    )


def _vector_ranges(file: IndexFileMeta) -> list[tuple[str, int, int, int | None]] | None:
    if file.vectors is None:
        return None
    return [(item.data_file, item.offset, item.length, item.cardinality) for item in file.vectors]


def _indexed_rows(
    storage: TableStorage, index: GlobalIndex | None
) -> tuple[int | None, int | None, int | None, str | None]:
    if index is None:
        return None, None, None, None
    fields = storage.schema.field_by_id
    ids = [index.field_id, *(index.extra_field_ids or ())]
    # A column may have been dropped since.
    names = ",".join(fields[number].name for number in ids) if set(ids) <= set(fields) else None
    return index.row_range_start, index.row_range_end, index.field_id, names


def buckets_table(storage: TableStorage, snapshot: Snapshot | None) -> pa.Table:
    """`BUCKETS`, by partition and bucket.

    Args:
        storage: The table.
        snapshot: The snapshot; None for a table without one.
    """
    entries, partitions = _files(storage, snapshot)
    groups: dict[tuple[str, int], list[DataFile]] = {}
    for entry in entries:
        groups.setdefault((partitions[entry.partition], entry.bucket), []).append(entry.file)
    newest = local_times(map(_newest, groups.values()), storage.runtime.time_zone)
    return from_records(
        BUCKETS,
        (
            (
                partition,
                bucket,
                sum(file.row_count for file in files),
                sum(file.file_size for file in files),
                len(files),
                time,
            )
            for ((partition, bucket), files), time in zip(groups.items(), newest, strict=True)
        ),
    )


def _newest(files: Sequence[DataFile]) -> int | None:
    times = [file.creation_time for file in files if file.creation_time is not None]
    return epoch_millis(max(times)) if times else None
