"""Dynamic buckets (``bucket`` = -1, with a primary key): a key stays in the bucket it came to.

The keys of a bucket are known by their hashes, which lie in its index file. A key whose hash is
there goes to that bucket; others fill the buckets up to ``dynamic-bucket.target-row-num`` hashes
each, then new ones. A commit is refused when the indexes of its partitions are not those any more
that keys were looked up in, so that two writers never put one key into two buckets.

With ``dynamic-bucket.initial-buckets`` new keys are spread over so many classes by their hashes,
and each class has buckets of its own: it is what Paimon does with so many assigners at a time. In
Spark the rows of a class come to one task, so that tasks need not know of each other.

The hashes of a partition are held in memory while it is written to: 6 bytes for each key.

Source: ``PartitionIndex.java``, ``HashBucketAssigner.java``, ``DynamicBucketIndexMaintainer.java``,
``BucketAssigner.java``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.storage.errors import CorruptData, HeadwaterError
from headwater.storage.index.hash_index import Hashes, read_hash_index, write_hash_index
from headwater.storage.index.index_file import (
    HASH,
    IndexFileMeta,
    IndexManifestEntry,
    index_file_path,
)
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import FileKind
from headwater.storage.options.assignment_options import AssignmentOptions
from headwater.storage.rows.bucket import hash_rows, key_hashes
from headwater.storage.rows.by_bucket import Bucket
from headwater.storage.rows.distribute import Codes, Numbers
from headwater.storage.rows.ordering import argsort, first_of_equal, sorted_distinct
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.assign.assigner import BucketIndex
from headwater.storage.write.assign.filling import classes_of, fill_buckets, share_buckets
from headwater.storage.write.bucket_state import BucketStates, describe_partition

__all__ = ["DynamicBuckets", "HashIndexes", "hash_indexes", "row_hashes"]

HashIndexes: TypeAlias = Mapping[bytes, Mapping[int, IndexFileMeta]]
"""The hash index file of each bucket, by serialised partition."""


@dataclass
class _Partition:
    """The keys of one partition.

    Attributes:
        hashes: Of all keys, ascending.
        buckets: The bucket of each.
        counts: The number of hashes in each bucket.
        files: The index file of each bucket before the write.
        changed: Buckets that have got keys.
    """

    hashes: Hashes = field(default_factory=lambda: np.zeros(0, np.int32))
    buckets: npt.NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, np.int16))
    counts: dict[int, int] = field(default_factory=dict)
    files: dict[int, IndexFileMeta] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)

    def find(self, hashes: Hashes) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.bool_]]:
        """The buckets of some hashes, and a mask of those that are not there.

        Args:
            hashes: The hashes, ascending: only then the search stays within the processor's caches.
        """
        if not len(self.hashes):
            return np.zeros(len(hashes), np.int16), np.ones(len(hashes), np.bool_)
        places = np.searchsorted(self.hashes, hashes)
        np.minimum(places, len(self.hashes) - 1, out=places)
        return self.buckets[places], self.hashes[places] != hashes

    def add(self, hashes: Hashes, buckets: npt.NDArray[np.int16]) -> None:
        """Add keys that were not there, ascending."""
        places = np.searchsorted(self.hashes, hashes)
        self.hashes = np.insert(self.hashes, places, hashes)
        self.buckets = np.insert(self.buckets, places, buckets)
        self.changed |= set(sorted_distinct(buckets).tolist())


@dataclass
class DynamicBuckets:
    """Finds the buckets of one writer's rows, and keeps the indexes of these buckets.

    Attributes:
        storage: The table.
        states: The buckets that rows are added to; None when their rows are replaced.
        indexes: The indexes that keys are looked up in; None is those of the states' snapshot.
        shared_rows: How many rows come to all writers that place new keys alike, see
            `share_buckets`; they leave the indexes to the caller. None is one writer alone.
    """

    storage: TableStorage
    states: BucketStates | None
    indexes: HashIndexes | None = None
    shared_rows: int | None = None
    _partitions: dict[bytes, _Partition] = field(default_factory=dict)
    _new: dict[Bucket, list[Hashes]] = field(default_factory=dict)
    _written: list[tuple[bytes, int, IndexFileMeta]] = field(default_factory=list)

    def expect(self, rows: pa.Table) -> None:
        """Nothing depends on what comes later."""

    def place(self, partitions: Sequence[bytes], codes: Codes, rows: pa.Table) -> Numbers:
        """Each key where it is, and new ones where a bucket is not full."""
        hashes = row_hashes(self.storage, rows)
        if len(partitions) == 1:
            return self._place(partitions[0], hashes).astype(np.int32)
        numbers = np.empty(len(hashes), np.int32)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(partitions)))
        for partition, own in zip(partitions, np.split(order, ends[:-1]), strict=True):
            numbers[own] = self._place(partition, hashes[own])
        return numbers

    def total_buckets(self, partition: bytes) -> int:
        """-1: it grows."""
        return -1

    def finished_index(self, partition: bytes, bucket: int) -> BucketIndex:
        """The index file of a bucket that rows were written to, written now if it has changed."""
        known = self._partitions[partition]
        if self.shared_rows is not None:
            return BucketIndex()
        looked_up = None
        if self.states is not None:
            looked_up = frozenset(file.file_name for file in known.files.values())
        if bucket not in known.changed:
            return BucketIndex(looked_up=looked_up)
        own = known.hashes[known.buckets == bucket]
        file = write_hash_index(self.storage, partition, bucket, own)
        self._written.append((partition, bucket, file))
        old = (known.files[bucket],) if bucket in known.files else ()
        return BucketIndex((file,), old, looked_up)

    def new_hashes(self) -> dict[Bucket, Hashes]:
        """The hashes of keys that were new in each bucket."""
        return {bucket: np.concatenate(parts) for bucket, parts in self._new.items()}

    def abort(self) -> None:
        """Delete the index files that were written."""
        for partition, bucket, file in self._written:
            # What cannot be deleted is an orphan that nothing refers to.
            with suppress(HeadwaterError):
                self.storage.files.delete(index_file_path(self.storage, partition, bucket, file))
        self._written.clear()

    # One partition -----------------------------------------------------------------------------

    def _place(self, partition: bytes, hashes: Hashes) -> npt.NDArray[np.int16]:
        if partition not in self._partitions:
            self._partitions[partition] = self._load(partition)
        known = self._partitions[partition]
        # Equal hashes stay in the order of the rows.
        rows = argsort(hashes.astype(np.int64))
        ordered = hashes[rows]
        firsts = np.flatnonzero(first_of_equal(ordered))
        keys = ordered[firsts]
        buckets, is_new = known.find(keys)
        if is_new.any():
            buckets[is_new] = self._assign_rows(partition, known, hashes, rows[firsts[is_new]])
            known.add(keys[is_new], buckets[is_new])
            if self.shared_rows is not None:
                for bucket in sorted_distinct(buckets[is_new]).tolist():
                    added = keys[is_new & (buckets == bucket)]
                    self._new.setdefault((partition, bucket), []).append(added)
        numbers = np.empty(len(hashes), np.int16)
        numbers[rows] = np.repeat(buckets, np.diff(np.append(firsts, len(hashes))))
        return numbers

    def _assign_rows(
        self, partition: bytes, known: _Partition, hashes: Hashes, rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int16]:
        """The buckets of new keys, by the first row of each.

        Keys are assigned in the order of the rows: the first ones fill the first buckets.
        """
        is_first = np.zeros(len(hashes), np.bool_)
        is_first[rows] = True
        buckets = np.empty(len(hashes), np.int16)
        buckets[is_first] = self._assign(partition, known, hashes[is_first])
        return buckets[rows]

    def _assign(self, partition: bytes, known: _Partition, hashes: Hashes) -> npt.NDArray[np.int16]:
        """The buckets of new keys."""
        classes = classes_of(AssignmentOptions(self.storage.schema.options))
        # BucketAssigner.computeAssigner, with as many channels as assigners.
        start = abs(int(np.fmod(_hash_of(partition), np.int32(classes))))
        own = (start + np.abs(np.fmod(hashes, np.int32(classes)))) % classes
        if self.shared_rows is None:
            return fill_buckets(self.storage, known.counts, own, hashes)
        # Where there are partitions, nobody knows how many of the rows each one gets.
        rows = 1 if self.storage.schema.partition_keys else self.shared_rows
        return share_buckets(self.storage, known.counts, own, hashes, rows)

    def _load(self, partition: bytes) -> _Partition:
        """The keys that a partition has."""
        if self.states is None:
            return _Partition()
        if self.indexes is None:
            self.indexes = hash_indexes(self.storage, self.states.snapshot)
        entries = [
            IndexManifestEntry(FileKind.ADD, partition, bucket, file)
            for bucket, file in self.indexes.get(partition, {}).items()
        ]
        self.states.load([partition])
        with_files = set(self.states.partitions[partition].max_sequence)
        missing = sorted(with_files - {entry.bucket for entry in entries})
        if missing:
            raise CorruptData(
                f"table {self.storage.name}: bucket {missing[0]} in "
                f"{describe_partition(self.storage, partition)} has files but no hash index, so "
                "that it is not known which keys are in it; run 'headwater table "
                f"rebuild-bucket-indexes {self.storage.name}'"
            )
        loaded = _Partition()
        if not entries:
            return loaded
        parts = [read_hash_index(self.storage, entry) for entry in entries]
        numbers = [
            np.full(len(part), entry.bucket, np.int16)
            for part, entry in zip(parts, entries, strict=True)
        ]
        hashes = np.concatenate(parts)
        order = np.argsort(hashes, kind="stable")
        loaded.hashes, loaded.buckets = hashes[order], np.concatenate(numbers)[order]
        shared = np.flatnonzero(loaded.hashes[1:] == loaded.hashes[:-1])
        if len(shared):
            first, second = sorted(loaded.buckets[shared[0] : shared[0] + 2].tolist())
            raise CorruptData(
                f"table {self.storage.name}: the hash indexes of buckets {first} and {second} in "
                f"{describe_partition(self.storage, partition)} share {len(shared)} hashes, so "
                "that it is not known which bucket these keys are in; run 'headwater table "
                f"rebuild-bucket-indexes {self.storage.name}'"
            )
        loaded.counts = {e.bucket: len(part) for part, e in zip(parts, entries, strict=True)}
        loaded.files = {entry.bucket: entry.index_file for entry in entries}
        return loaded


def hash_indexes(storage: TableStorage, snapshot: Snapshot | None) -> HashIndexes:
    """The hash indexes of a snapshot."""
    indexes: dict[bytes, dict[int, IndexFileMeta]] = {}
    for entry in index_entries(storage, snapshot):
        if entry.index_file.index_type == HASH:
            indexes.setdefault(entry.partition, {})[entry.bucket] = entry.index_file
    return indexes


def row_hashes(storage: TableStorage, rows: pa.Table | pa.RecordBatch) -> Hashes:
    """The hash of each row's key, partition columns left out, as an index holds it."""
    fields = storage.schema.key_fields
    columns = [rows.column(item.name) for item in fields]
    return key_hashes(columns, [item.type for item in fields])


def _hash_of(partition: bytes) -> np.int32:
    """``BinaryRow.hashCode`` of a serialised partition, whose first 4 bytes are its arity."""
    row = np.frombuffer(partition[4:], np.uint8)
    hashed: np.int32 = hash_rows(row, np.array([0, len(row)])).view(np.int32)[0]
    return hashed
