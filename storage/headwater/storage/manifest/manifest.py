"""Manifests and manifest lists: which files a commit added and took away.

Both are Avro files (`headwater.storage.manifest.records`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import CorruptData, Invalid, NotFound
from headwater.storage.formats.avro_blocks import BlockReader, varint
from headwater.storage.formats.avro_container import (
    Record,
    RecordBlock,
    read_avro,
    read_blocks,
    write_avro,
)
from headwater.storage.manifest.data_file import FileKind, ManifestEntry, SimpleStats
from headwater.storage.manifest.entries import Entries
from headwater.storage.manifest.entry_decoding import decode_entries
from headwater.storage.manifest.partition_index import (
    PartitionIndex,
    by_partition,
    with_partition_index,
)
from headwater.storage.manifest.records import (
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    MANIFEST_VERSION,
    ManifestFile,
    check_versions,
    converted,
    entry_record,
    manifest_file_record,
    read_manifest_file,
)
from headwater.storage.manifest.statistics import column_statistics
from headwater.storage.options.statistics_mode import StatisticsMode
from headwater.storage.rows.binary_row import deserialize_row
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.data_type import to_arrow

__all__ = [
    "EntryFilter",
    "ManifestFile",
    "check_counts",
    "manifest_content",
    "read_entries",
    "read_manifest",
    "read_manifest_list",
    "write_manifest_list",
    "write_manifests",
]


_VERSION_BYTES = varint(MANIFEST_VERSION)
# Decompressed bytes that are decoded at once.
_DECODED_BYTES = 64 << 20

# Reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EntryFilter:
    """The entries of manifests that are wanted.

    Attributes:
        marks: Groups of byte strings: the partition of a wanted entry holds one of each group.
            Where none of a group is, nothing is decoded.
        wanted: A mask of the wanted among some entries.
        partition: True for the serialised partitions of wanted entries.
    """

    marks: Sequence[Collection[bytes]]
    wanted: Callable[[Entries], npt.NDArray[np.bool_]]
    partition: Callable[[bytes], bool] = lambda partition: True

    def blocks(self, data: bytes, path: str) -> Iterator[RecordBlock | int]:
        """The blocks of a manifest that may hold wanted entries, and the entries of others."""
        reader = BlockReader(data, path)
        index = PartitionIndex.of(reader, len(data), path)
        if index is None:
            for found in reader.blocks():
                block = RecordBlock(reader, found, path)
                yield block if self.may_be_in(block) else found.row_count
            return
        others = index.count
        for found in index.blocks(self._has_wanted_entries):
            others -= found.row_count
            yield RecordBlock(reader, found, path)
        yield others

    def _has_wanted_entries(self, partition: bytes) -> bool:
        return _is_marked(partition, self.marks) and self.partition(partition)

    def may_be_in(self, block: RecordBlock) -> bool:
        """True if a block may hold wanted entries; raises CorruptData."""
        # An entry begins with its version; what another one means is not known.
        return not block.rows.startswith(_VERSION_BYTES) or _is_marked(block.rows, self.marks)


def _is_marked(data: bytes, marks: Sequence[Collection[bytes]]) -> bool:
    return all(any(mark in data for mark in group) for group in marks)


def read_manifest(
    storage: TableStorage, name: str, *, expected: ManifestFile | None = None
) -> list[ManifestEntry]:
    """The entries of a manifest, in order.

    Args:
        storage: The table.
        name: The manifest's name in the manifest directory.
        expected: Its entry in a manifest list. With it, a manifest that was cut off between
            two blocks is noticed too.

    Raises:
        CorruptData: The manifest is missing, truncated or malformed; the message names its path.
        Unsupported: It has a format version of the future.
    """
    return list(_read_entries(storage, [(name, expected)], None))


def read_entries(
    storage: TableStorage, manifests: Sequence[ManifestFile], only: EntryFilter | None = None
) -> Entries:
    """The entries of manifests, in order.

    Args:
        storage: The table.
        manifests: The manifests, as a manifest list has them.
        only: Leave all other entries out.

    Raises:
        CorruptData: A manifest is missing, truncated or malformed; the message names its path.
        Unsupported: One has a format version of the future.
    """
    return _read_entries(storage, [(each.file_name, each) for each in manifests], only)


def _read_entries(
    storage: TableStorage,
    manifests: Sequence[tuple[str, ManifestFile | None]],
    only: EntryFilter | None,
) -> Entries:
    found: list[Entries] = []
    waiting: list[tuple[int, RecordBlock]] = []
    size = 0
    # Of each manifest: its entries, those of them that delete files, and those not looked at.
    counts = np.zeros((len(manifests), 3), np.int64)

    def decode() -> None:
        entries = decode_entries([block for _, block in waiting])
        owners = np.repeat(
            [number for number, _ in waiting], [block.block.row_count for _, block in waiting]
        )
        deletes = owners[entries.numbers("kind") == FileKind.DELETE]
        counts[:, 1] += np.bincount(deletes, minlength=len(manifests))
        found.append(entries if only is None else entries.where(only.wanted(entries)))
        waiting.clear()

    for number, (name, expected) in enumerate(manifests):
        path = storage.layout.manifest(name)
        data = manifest_content(storage, name, None if expected is None else expected.file_size)
        for block in read_blocks(data, path) if only is None else only.blocks(data, path):
            if isinstance(block, int):
                counts[number] += (block, 0, block)
                continue
            counts[number, 0] += block.block.row_count
            waiting.append((number, block))
            size += len(block.rows)
            if size >= _DECODED_BYTES:
                decode()
                size = 0
    if waiting:
        decode()
    for (name, expected), (count, deleted, others) in zip(manifests, counts.tolist(), strict=True):
        if expected is None:
            continue
        path = storage.layout.manifest(name)
        if not others:
            check_counts(path, count - deleted, deleted, expected)
        elif count != expected.num_added_files + expected.num_deleted_files:
            raise CorruptData(
                f"{path} has {count} entries, but its manifest list says that it adds "
                f"{expected.num_added_files} and deletes {expected.num_deleted_files} files"
            )
    return Entries.concat(found)


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


# Writing --------------------------------------------------------------------------------------


def write_manifests(
    storage: TableStorage, entries: Sequence[ManifestEntry], *, at_least: float | None = None
) -> list[ManifestFile]:
    """Write entries, those of each partition in order, as manifests.

    These have about ``manifest.target-file-size`` at most.

    Args:
        storage: The table.
        entries: The entries.
        at_least: Let no manifest be smaller than so many times that size, if it can be helped.

    Returns:
        The manifests; none when there are no entries.

    Raises:
        Invalid: A partition is not of the table's partition columns.
    """
    if not entries:
        return []
    uuid = storage.runtime.new_uuid()
    entries = by_partition(entries)
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
    data = write_avro(MANIFEST_SCHEMA, [entry_record(entry) for entry in entries], codec)
    return with_partition_index(data, entries)


def _put_manifest(
    storage: TableStorage, name: str, entries: Sequence[ManifestEntry], data: bytes
) -> ManifestFile:
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
