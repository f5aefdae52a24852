"""The data files and the partitions of a table, as lists to look at."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.catalog.model.partitions import UNKNOWN, PartitionInfo
from headwater.storage.commit.entries import partition_statistics
from headwater.storage.manifest.data_file import ManifestEntry, epoch_millis
from headwater.storage.rows.partition import partition_spec, partition_values
from headwater.storage.scan.expired_snapshots import naming_expired
from headwater.storage.scan.format_partitions import find_partitions, measure_files
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.values import StorageValue

__all__ = ["FileInfo", "directories_of", "list_files", "objects_of", "partitions_of"]


@dataclass(frozen=True)
class FileInfo:
    """A data file of a table's snapshot.

    Attributes:
        partition: As in its directory's name, ``dt=2026-01-01/hour=7``; empty without partitions.
        bucket: Its bucket.
        level: Its level in the LSM tree.
        row_count: Rows, deletes included.
        delete_row_count: Rows that retract; None when the writer did not count them.
        file_size: Bytes.
        schema_id: The schema it was written with.
        min_sequence_number: Smallest sequence number.
        max_sequence_number: Greatest.
        created_at: Milliseconds since the epoch; None when not known.
        name: The file's name.
    """

    partition: str
    bucket: int
    level: int
    row_count: int
    delete_row_count: int | None
    file_size: int
    schema_id: int
    min_sequence_number: int
    max_sequence_number: int
    created_at: int | None
    name: str


def list_files(storage: TableStorage, snapshot: Snapshot) -> list[FileInfo]:
    """The data files of a snapshot, by partition, bucket, level and name."""
    found: list[FileInfo] = []
    with naming_expired(storage, snapshot):
        entries = live_entries(storage, snapshot)
    for entry in entries:
        file = entry.file
        spec = partition_spec(storage, entry.partition)
        found.append(
            FileInfo(
                "/".join(f"{name}={value}" for name, value in spec),
                entry.bucket,
                file.level,
                file.row_count,
                file.delete_row_count,
                file.file_size,
                file.schema_id,
                file.min_sequence_number,
                file.max_sequence_number,
                None if file.creation_time is None else epoch_millis(file.creation_time),
                file.file_name,
            )
        )
    return sorted(found, key=lambda file: (file.partition, file.bucket, file.level, file.name))


def objects_of(storage: TableStorage) -> pa.Table:
    """The rows of an object table: the files below its directory, by path.

    Returns:
        The columns of every object table (`OBJECT_FIELDS`). No file system tells of accesses and
        owners here: their times are 0, and their names null, as Paimon has them on local disks.
    """
    start = len(storage.layout.location.rstrip("/")) + 1
    files = sorted(storage.files.walk(storage.layout.location), key=lambda file: file.path)
    paths = pa.array([file.path[start:] for file in files], pa.string())
    return pa.table(
        {
            "path": paths,
            "name": pc.replace_substring_regex(paths, "^.*/", ""),
            "length": pa.array([file.size for file in files], pa.int64()),
            "mtime": pa.array([file.modified_millis for file in files], pa.int64()),
            "atime": pa.repeat(pa.scalar(0, pa.int64()), len(files)),
            "owner": pa.nulls(len(files), pa.string()),
        }
    )


def directories_of(storage: TableStorage) -> list[PartitionInfo]:
    """The partitions of a format table and their files, by name; nobody has counted the rows."""
    found: list[PartitionInfo] = []
    for partition in find_partitions(storage):
        files = measure_files(storage, partition.directory)
        newest = UNKNOWN if files.modified_millis is None else files.modified_millis
        found.append(
            PartitionInfo(
                partition.spec,
                file_size_in_bytes=files.size,
                file_count=files.count,
                last_file_creation_time=newest,
            )
        )
    return sorted(found, key=lambda partition: partition.name)


def partitions_of(
    storage: TableStorage, snapshot: Snapshot | None
) -> dict[tuple[StorageValue, ...], PartitionInfo]:
    """The partitions of a snapshot and their contents, from its manifests; by their values."""
    if snapshot is None:
        return {}
    with naming_expired(storage, snapshot):
        entries = live_entries(storage, snapshot)
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.partition, []).append(entry)
    found: dict[tuple[StorageValue, ...], PartitionInfo] = {}
    for partition, group in groups.items():
        (item,) = partition_statistics(storage, group)
        found[partition_values(storage, partition)] = PartitionInfo(
            spec=item.spec,
            record_count=item.record_count,
            file_size_in_bytes=item.file_size_in_bytes,
            file_count=item.file_count,
            last_file_creation_time=item.last_file_creation_time,
            total_buckets=item.total_buckets,
        )
    return found
