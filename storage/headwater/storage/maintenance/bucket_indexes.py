"""Compare the hash indexes of dynamic buckets with the keys in their data files, and rebuild them.

An index holds the hash of every key of its bucket, and perhaps of keys that were deleted since. A
hash is in one bucket of its partition: else a writer could not tell where the key is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.storage.errors import CorruptData, HeadwaterError
from headwater.storage.index.hash_index import (
    Hashes,
    damaged_hash_index,
    read_hash_index,
    write_hash_index,
)
from headwater.storage.index.index_file import (
    HASH,
    IndexFileMeta,
    IndexManifestEntry,
    index_file_path,
)
from headwater.storage.index.manifest import index_entries
from headwater.storage.read.bucket_files import BucketFiles
from headwater.storage.read.split import read_split
from headwater.storage.rows.ordering import sorted_distinct
from headwater.storage.scan.plan import plan_snapshot
from headwater.storage.scan.split import Split
from headwater.storage.schema.table_schema import TableSchema
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.assign.dynamic import row_hashes
from headwater.storage.write.bucket_state import describe_partition
from headwater.storage.write.table_writer import CommitMessage

__all__ = [
    "IndexedPartition",
    "has_hash_indexes",
    "index_problems",
    "indexed_partitions",
    "rebuild_indexes",
]

_BATCH_ROWS = 65536
_EXAMPLES = 3
_NO_HASHES: Hashes = np.zeros(0, np.int32)


@dataclass(frozen=True)
class IndexedPartition:
    """The dynamic buckets of one partition; it pickles.

    Attributes:
        base: The snapshot.
        partition: Serialised partition values.
        splits: The data files of its buckets.
        indexes: The hash indexes of its buckets.
    """

    base: SnapshotIdentity
    partition: bytes
    splits: tuple[Split, ...]
    indexes: tuple[IndexManifestEntry, ...]

    @property
    def size(self) -> int:
        """Bytes of the data files."""
        return sum(split.size for split in self.splits)

    @property
    def buckets(self) -> list[int]:
        """The ids of buckets with files or an index, ascending."""
        with_files = {split.bucket for split in self.splits}
        return sorted(with_files | {entry.bucket for entry in self.indexes})

    def index(self, bucket: int) -> IndexManifestEntry | None:
        """The index of a bucket."""
        return next((entry for entry in self.indexes if entry.bucket == bucket), None)


def has_hash_indexes(schema: TableSchema) -> bool:
    """Whether the buckets of a table are found by hash indexes."""
    is_dynamic = bool(schema.primary_keys) and schema.table_options.bucket == -1
    return is_dynamic and not schema.crosses_partitions


def indexed_partitions(storage: TableStorage, snapshot: Snapshot) -> list[IndexedPartition]:
    """The partitions of a snapshot whose keys are found by hash indexes.

    Raises:
        Unsupported: The table cannot be read.
        CorruptData: A manifest is missing or damaged.
    """
    splits: dict[bytes, list[Split]] = {}
    for split in plan_snapshot(storage, snapshot, all_levels=True).splits:
        splits.setdefault(split.partition, []).append(split)
    indexes: dict[bytes, list[IndexManifestEntry]] = {}
    for entry in index_entries(storage, snapshot):
        if entry.index_file.index_type == HASH:
            indexes.setdefault(entry.partition, []).append(entry)
    return [
        IndexedPartition(
            snapshot.identity,
            partition,
            tuple(splits.get(partition, ())),
            tuple(indexes.get(partition, ())),
        )
        for partition in dict.fromkeys([*splits, *indexes])
    ]


# Checking -------------------------------------------------------------------------------------


def index_problems(storage: TableStorage, partition: IndexedPartition) -> Iterator[str]:
    """A sentence about each index that does not fit the keys of its bucket, and each doubled key.

    An index that cannot be read is left out: reading it raises the error.

    Raises:
        CorruptData: A data file is missing or damaged.
    """
    stored: dict[int, Hashes] = {}
    keys: dict[int, Hashes] = {}
    for bucket in partition.buckets:
        entry = partition.index(bucket)
        keys[bucket] = _key_hashes(storage, partition, bucket)
        if entry is None:
            yield f"table {storage.name}: {_without_index(storage, partition.partition, bucket)}"
            continue
        with suppress(CorruptData):
            stored[bucket] = read_hash_index(storage, entry)
            missing = _missing(storage, partition, bucket, stored[bucket], keys[bucket])
            if missing:
                path = index_file_path(storage, entry.partition, bucket, entry.index_file)
                why = f"lacks {missing} of the {len(keys[bucket])} keys of bucket {bucket}"
                yield damaged_hash_index(storage, path, why).message
    shared = _in_several(stored.values())
    if len(shared):
        buckets = [str(bucket) for bucket, own in stored.items() if np.isin(own, shared).any()]
        yield (
            f"table {storage.name}: the hash indexes of buckets {', '.join(buckets)} in "
            f"{describe_partition(storage, partition.partition)} share {len(shared)} hashes; run "
            f"'headwater table rebuild-bucket-indexes {storage.name}'"
        )
    live = _Live.read(storage, partition.splits, _in_several(keys.values()))
    if len(live.doubled):
        yield live.sentence(storage, partition.partition)


def _without_index(storage: TableStorage, partition: bytes, bucket: int) -> str:
    return (
        f"bucket {bucket} in {describe_partition(storage, partition)} has files but no hash index; "
        f"run 'headwater table rebuild-bucket-indexes {storage.name}'"
    )


def _missing(
    storage: TableStorage, partition: IndexedPartition, bucket: int, stored: Hashes, keys: Hashes
) -> int:
    """How many keys of a bucket its index lacks; those that are deleted do not count."""
    lacking = keys[~np.isin(keys, stored)]
    if not len(lacking):
        return 0
    own = [split for split in partition.splits if split.bucket == bucket]
    return len(_Live.read(storage, own, lacking).hashes.get(bucket, _NO_HASHES))


# Rebuilding -----------------------------------------------------------------------------------


def rebuild_indexes(storage: TableStorage, partition: IndexedPartition) -> list[CommitMessage]:
    """Write the indexes that are damaged, missing or do not fit the data files.

    Raises:
        CorruptData: A data file is missing or damaged, or a key has rows in several buckets.
    """
    keys = {bucket: _key_hashes(storage, partition, bucket) for bucket in partition.buckets}
    stored: dict[int, Hashes] = {}
    for bucket in partition.buckets:
        entry = partition.index(bucket)
        if entry is None:
            continue
        with suppress(CorruptData):
            own = read_hash_index(storage, entry)
            if not _missing(storage, partition, bucket, own, keys[bucket]):
                stored[bucket] = own
    hashes = _without_shared(storage, partition, {**keys, **stored}, keys)
    written: list[CommitMessage] = []
    names = frozenset(entry.index_file.file_name for entry in partition.indexes)
    try:
        for bucket, own in hashes.items():
            entry = partition.index(bucket)
            if bucket in stored and len(own) == len(stored[bucket]):
                continue
            added: tuple[IndexFileMeta, ...] = ()
            if len(own):
                added = (write_hash_index(storage, partition.partition, bucket, own),)
            message = CommitMessage(
                partition.partition,
                bucket,
                -1,
                new_index_files=added,
                deleted_index_files=() if entry is None else (entry.index_file,),
                looked_up_index=names,
                checked_snapshot=partition.base,
            )
            if added or entry is not None:
                written.append(message)
    except HeadwaterError:
        delete_new_indexes(storage, written)
        raise
    return written


def delete_new_indexes(storage: TableStorage, messages: Iterable[CommitMessage]) -> None:
    """Delete index files that will not be committed."""
    for message in messages:
        for file in message.new_index_files:
            # What cannot be deleted is an orphan that nothing refers to.
            with suppress(HeadwaterError):
                path = index_file_path(storage, message.partition, message.bucket, file)
                storage.files.delete(path)


def _without_shared(
    storage: TableStorage,
    partition: IndexedPartition,
    indexes: Mapping[int, Hashes],
    keys: Mapping[int, Hashes],
) -> dict[int, Hashes]:
    """Leave each hash to the bucket that has its key; raises CorruptData where several have."""
    shared = _in_several(indexes.values())
    # First those that only an index has: the keys were deleted, or it is damaged.
    left = {
        bucket: own[~np.isin(own, shared) | np.isin(own, keys[bucket])]
        for bucket, own in indexes.items()
    }
    shared = _in_several(left.values())
    if not len(shared):
        return left
    live = _Live.read(storage, partition.splits, shared)
    if len(live.doubled):
        raise CorruptData(live.sentence(storage, partition.partition))
    return {
        bucket: own[~np.isin(own, shared) | np.isin(own, live.hashes.get(bucket, _NO_HASHES))]
        for bucket, own in left.items()
    }


# Keys -----------------------------------------------------------------------------------------


def _in_several(buckets: Iterable[Hashes]) -> Hashes:
    """The hashes that are in several buckets, of each of which none is twice."""
    hashes, counts = np.unique(np.concatenate([_NO_HASHES, *buckets]), return_counts=True)
    return hashes[counts > 1]


def _key_hashes(storage: TableStorage, partition: IndexedPartition, bucket: int) -> Hashes:
    """The hashes of the keys in a bucket's data files, deleted ones included, ascending."""
    names = [field.name for field in storage.schema.key_fields]
    distinct = _NO_HASHES
    for split in partition.splits:
        if split.bucket != bucket:
            continue
        files = BucketFiles(storage, split.directory, split.partition_values)
        for file in split.files:
            batches = files.open(file).rows(names, None, _BATCH_ROWS)
            own = [sorted_distinct(row_hashes(storage, batch)) for batch in batches]
            distinct = sorted_distinct(np.concatenate([distinct, *own]))
    return distinct


@dataclass(frozen=True)
class _Live:
    """Rows of the table whose keys have some hashes.

    Attributes:
        hashes: The hashes that are there, by bucket.
        rows: The primary keys of the rows, by bucket.
    """

    hashes: Mapping[int, Hashes]
    rows: Mapping[int, Sequence[pa.RecordBatch]]

    @staticmethod
    def read(storage: TableStorage, splits: Sequence[Split], among: Hashes) -> _Live:
        """Look for some hashes in buckets of a partition."""
        hashes: dict[int, Hashes] = {}
        rows: dict[int, list[pa.RecordBatch]] = {}
        for split in splits if len(among) else ():
            for batch in read_split(storage, split, columns=list(storage.schema.primary_keys)):
                own = row_hashes(storage, batch)
                is_wanted = np.isin(own, among)
                before = hashes.get(split.bucket, _NO_HASHES)
                hashes[split.bucket] = sorted_distinct(np.concatenate([before, own[is_wanted]]))
                rows.setdefault(split.bucket, []).append(batch.filter(pa.array(is_wanted)))
        return _Live(hashes, rows)

    @property
    def doubled(self) -> Hashes:
        """The hashes that are in several buckets."""
        return _in_several(self.hashes.values())

    def sentence(self, storage: TableStorage, partition: bytes) -> str:
        """What is wrong with doubled keys, and what to do."""
        doubled = self.doubled
        examples = [
            f"{', '.join(f'{name}={value}' for name, value in row.items())} in bucket {bucket}"
            for bucket, batches in sorted(self.rows.items())
            for batch in batches
            for row in batch.filter(pa.array(np.isin(row_hashes(storage, batch), doubled)))
            .slice(0, _EXAMPLES)
            .to_pylist()
        ]
        return (
            f"table {storage.name}: keys of {len(doubled)} hashes have rows in several buckets of "
            f"{describe_partition(storage, partition)}, such as "
            f"{'; '.join(examples[: 2 * _EXAMPLES])}; nothing tells which row is right: delete the "
            "rows of these keys, run 'headwater table rebuild-bucket-indexes "
            f"{storage.name}', and write the right rows again"
        )
