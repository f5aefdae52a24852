"""Manifests and manifest lists: which files a commit added and took away.

Both are Avro files (`headwater.storage.manifest.records`).
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from headwater.storage.errors import CorruptData, Invalid, NotFound, Unsupported
from headwater.storage.formats.avro_blocks import varint
from headwater.storage.formats.avro_container import (
    Record,
    RecordBlock,
    read_avro,
    read_blocks,
    write_avro,
)
from headwater.storage.manifest.data_file import FileKind, ManifestEntry, SimpleStats
from headwater.storage.manifest.record_fields import take
from headwater.storage.manifest.records import (
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    MANIFEST_VERSION,
    ManifestFile,
    entry_record,
    manifest_file_record,
    read_entry,
    read_manifest_file,
)
from headwater.storage.manifest.statistics import StatisticsMode, column_statistics
from headwater.storage.rows.binary_row import deserialize_row
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import to_arrow

__all__ = [
    "EntryFilter",
    "ManifestFile",
    "check_counts",
    "check_versions",
    "converted",
    "manifest_content",
    "merge_entries",
    "read_manifest",
    "read_manifest_list",
    "write_manifest",
    "write_manifest_list",
    "write_manifests",
]


_VERSION_BYTES = varint(MANIFEST_VERSION)

# Reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EntryFilter:
    """The entries of a manifest that are wanted, told before they are decoded as a whole.

    Attributes:
        marks: Groups of byte strings: a wanted entry holds one of each group. Where none of a
            group is, nothing is decoded.
        partition: True for the serialised partitions of wanted entries.
    """

    marks: Sequence[Collection[bytes]]
    partition: Callable[[bytes], bool]

    def records(self, block: RecordBlock) -> list[Record]:
        """A block's records of wanted entries; raises CorruptData, KeyError or TypeError."""
        # An entry begins with its version; what another one means is not known.
        if block.rows.startswith(_VERSION_BYTES) and not all(
            any(mark in block.rows for mark in group) for group in self.marks
        ):
            return []
        records = block.records()
        return [each for each in records if self.partition(take(each, "_PARTITION", bytes))]


def read_manifest(
    storage: TableStorage,
    name: str,
    *,
    expected: ManifestFile | None = None,
    only: EntryFilter | None = None,
) -> list[ManifestEntry]:
    """The entries of a manifest, in order.

    Args:
        storage: The table.
        name: The manifest's name in the manifest directory.
        expected: Its entry in a manifest list. With it, a manifest that was cut off between
            two blocks is noticed too.
        only: Leave all other entries out.

    Raises:
        CorruptData: The manifest is missing, truncated or malformed; the message names its path.
        Unsupported: It has a format version of the future.
    """
    path = storage.layout.manifest(name)
    data = manifest_content(storage, name, None if expected is None else expected.file_size)
    if only is not None:
        return _read_some(data, path, only, expected)
    records = read_avro(data, path)
    check_versions(records, path)
    entries = converted(records, read_entry, path)
    if expected is not None:
        added = sum(entry.kind is FileKind.ADD for entry in entries)
        check_counts(path, added, len(entries) - added, expected)
    return entries


def _read_some(
    data: bytes, path: str, only: EntryFilter, expected: ManifestFile | None
) -> list[ManifestEntry]:
    entries: list[ManifestEntry] = []
    count = 0
    for block in read_blocks(data, path):
        count += block.block.row_count
        for records in converted([block], only.records, path):
            check_versions(records, path)
            entries += converted(records, read_entry, path)
    if expected is not None and count != expected.num_added_files + expected.num_deleted_files:
        raise CorruptData(
            f"{path} has {count} entries, but its manifest list says that it adds "
            f"{expected.num_added_files} and deletes {expected.num_deleted_files} files"
        )
    return entries


def check_counts(path: str, added: int, deleted: int, expected: ManifestFile) -> None:
    """Raise CorruptData unless a manifest has as many entries as a manifest list says."""
    said = (expected.num_added_files, expected.num_deleted_files)
    if (added, deleted) != said:
        raise CorruptData(
            f"{path} adds {added} and deletes {deleted} files, but its manifest list says "
            f"{said[0]} and {said[1]}"
        )


def read_manifest_list(
    storage: TableStorage, name: str, *, size: int | None = None
) -> list[ManifestFile]:
    """The manifests of a manifest list, in order.

    Args:
        storage: The table.
        name: The list's name in the manifest directory.
        size: Its bytes, when the snapshot tells them.

    Raises:
        CorruptData: The list is missing, truncated or malformed; the message names its path.
        Unsupported: It has a format version of the future.
    """
    return converted(
        _records(storage, name, size), read_manifest_file, storage.layout.manifest(name)
    )


def _records(storage: TableStorage, name: str, size: int | None) -> list[Record]:
    path = storage.layout.manifest(name)
    records = read_avro(manifest_content(storage, name, size), path)
    check_versions(records, path)
    return records


def manifest_content(storage: TableStorage, name: str, size: int | None) -> bytes:
    """The bytes of a manifest or manifest list.

    Args:
        storage: The table.
        name: Its name in the manifest directory.
        size: The number of them, if known.

    Raises:
        CorruptData: It is missing, or of another size; the message names its path.
    """
    path = storage.layout.manifest(name)
    if "/" in name or not name:
        raise CorruptData(f"table {storage.name}: '{name}' is not the name of a manifest")
    try:
        data = storage.files.read(path)
    except NotFound as error:
        raise CorruptData(
            f"table {storage.name}: {path} does not exist; the snapshot that names it has expired, "
            "or the file was deleted by something else"
        ) from error
    if size is not None and size != len(data):
        raise CorruptData(f"{path} has {len(data)} bytes where {size} were written")
    return data


def check_versions(records: Iterable[Record], path: str) -> None:
    """Raise Unsupported for an entry of a format version of the future."""
    for record in records:
        if record.get("_VERSION") != MANIFEST_VERSION:
            raise Unsupported(
                f"{path} has format version {record.get('_VERSION')}; this Headwater reads "
                f"version {MANIFEST_VERSION}"
            )


_Item = TypeVar("_Item")
_Line = TypeVar("_Line")


def converted(
    records: Iterable[_Item], convert: Callable[[_Item], _Line], path: str
) -> list[_Line]:
    """Entries from their records; raises CorruptData for a malformed one."""
    try:
        return [convert(record) for record in records]
    except (KeyError, TypeError, ValueError, struct.error) as error:
        raise CorruptData(f"{path} holds a malformed entry: {error!r}") from error


# Writing --------------------------------------------------------------------------------------


def write_manifest(storage: TableStorage, entries: Sequence[ManifestEntry]) -> ManifestFile:
    """Write entries as one manifest, whatever its size.

    Raises:
        Invalid: There are no entries, or a partition is not of the table's partition columns.
    """
    name = f"manifest-{storage.runtime.new_uuid()}-0"
    return _put_manifest(storage, name, entries, _encode(storage, entries))


def write_manifests(
    storage: TableStorage, entries: Sequence[ManifestEntry], *, at_least: float | None = None
) -> list[ManifestFile]:
    """Write entries, in order, as manifests of about ``manifest.target-file-size`` at most.

    Args:
        storage: The table.
        entries: The entries.
        at_least: Let no manifest be smaller than so many times that size, if it can be helped.

    Returns:
        The manifests; none when there are no entries.

    Raises:
        Invalid: As `write_manifest`.
    """
    if not entries:
        return []
    uuid = storage.runtime.new_uuid()
    encoded = _encode(storage, entries)
    target = storage.schema.table_options.manifest_target_file_size
    if at_least is None:
        parts = math.ceil(len(encoded) / target)
    else:
        parts = math.floor(len(encoded) / (target * at_least))
    parts = min(len(entries), max(1, parts))
    if parts == 1:
        return [_put_manifest(storage, f"manifest-{uuid}-0", entries, encoded)]
    each = math.ceil(len(entries) / parts)
    manifests: list[ManifestFile] = []
    for start in range(0, len(entries), each):
        part = entries[start : start + each]
        name = f"manifest-{uuid}-{len(manifests)}"
        manifests.append(_put_manifest(storage, name, part, _encode(storage, part)))
    return manifests


def write_manifest_list(storage: TableStorage, files: Sequence[ManifestFile]) -> tuple[str, int]:
    """Write a manifest list (an empty one is a file too); its name, and its size in bytes."""
    name = f"manifest-list-{storage.runtime.new_uuid()}-0"
    records = [manifest_file_record(file) for file in files]
    codec = storage.schema.table_options.manifest_compression
    data = write_avro(MANIFEST_LIST_SCHEMA, records, codec)
    storage.files.write(storage.layout.manifest(name), data)
    return name, len(data)


def _encode(storage: TableStorage, entries: Sequence[ManifestEntry]) -> bytes:
    codec = storage.schema.table_options.manifest_compression
    return write_avro(MANIFEST_SCHEMA, [entry_record(entry) for entry in entries], codec)


def _put_manifest(
    storage: TableStorage, name: str, entries: Sequence[ManifestEntry], data: bytes
) -> ManifestFile:
    if not entries:
        raise Invalid("a manifest needs at least one entry")
    partition_stats = _partition_stats(storage, entries)
    storage.files.write(storage.layout.manifest(name), data)
    added = sum(entry.kind is FileKind.ADD for entry in entries)
    buckets = [entry.bucket for entry in entries]
    levels = [entry.file.level for entry in entries]
    starts = [entry.file.first_row_id for entry in entries]
    known = [start for start in starts if start is not None]
    ends = [
        start + entry.file.row_count - 1
        for start, entry in zip(starts, entries, strict=True)
        if start is not None
    ]
    tracked = len(known) == len(entries)
    return ManifestFile(
        file_name=name,
        file_size=len(data),
        num_added_files=added,
        num_deleted_files=len(entries) - added,
        partition_stats=partition_stats,
        schema_id=max(entry.file.schema_id for entry in entries),
        min_bucket=min(buckets),
        max_bucket=max(buckets),
        min_level=min(levels),
        max_level=max(levels),
        min_row_id=min(known) if tracked else None,
        max_row_id=max(ends) if tracked else None,
    )


def _partition_stats(storage: TableStorage, entries: Sequence[ManifestEntry]) -> SimpleStats:
    fields = storage.schema.partition_fields
    types = [field.type for field in fields]
    counts = Counter(entry.partition for entry in entries)
    try:
        rows = [deserialize_row(row, types) for row in counts]
    except CorruptData as error:
        raise Invalid(
            f"a file's partition does not fit the partition columns of table {storage.name}: "
            f"{error.message}"
        ) from error
    columns = [
        pa.array([row[position] for row in rows], to_arrow(data_type))
        for position, data_type in enumerate(types)
    ]
    table = pa.table(columns, [field.name for field in fields])
    distinct = column_statistics(table, fields, StatisticsMode.parse("full"))
    # Nulls count once for each entry, not for each partition.
    weights = list(counts.values())
    nulls = tuple(
        sum(w for row, w in zip(rows, weights, strict=True) if row[position] is None)
        for position in range(len(types))
    )
    return replace(distinct, null_counts=nulls)


# Merging --------------------------------------------------------------------------------------


def merge_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The entries left when each delete takes away the add before it (``FileEntry.mergeEntries``).

    Args:
        entries: In the order in which they were committed.

    Returns:
        Adds, and deletes whose add is not among the entries, in their order.

    Raises:
        CorruptData: A file is added or deleted twice.
    """
    merged: dict[object, ManifestEntry] = {}
    for entry in entries:
        before = merged.get(entry.identity)
        if before is None:
            merged[entry.identity] = entry
        elif before.kind is FileKind.ADD and entry.kind is FileKind.DELETE:
            del merged[entry.identity]
        else:
            raise CorruptData(
                f"data file {entry.file.file_name} of bucket {entry.bucket} is "
                f"{_DONE[before.kind]} and then {_DONE[entry.kind]} by the table's manifests"
            )
    return list(merged.values())


_DONE: Mapping[FileKind, str] = {FileKind.ADD: "added", FileKind.DELETE: "deleted"}
