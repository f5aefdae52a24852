"""The files in which two snapshots of a table differ.

Only files that one of the two snapshots has alone are read, and with them those of both whose key
ranges they overlap: so every value is the one that the snapshot shows. Paimon reads the former
alone, and takes rows for changed that are not.

Where deletion vectors mark all rows that are superseded, a row of both snapshots' files differs
only if one of them marks it: these rows, and those of files that one has alone, are all that is
read. Paimon leaves out files of both whatever their vectors say, and misses the rows that are gone.

Source: ``SnapshotReaderImpl.readIncrementalDiff``, ``IncrementalDiffStartingScanner.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from headwater.storage.capabilities import Operation, unsupported_mode
from headwater.storage.errors import Invalid
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.index.deletion_files import (
    DeletionFile,
    deletion_files_by_bucket,
    read_deletion_vector,
)
from headwater.storage.index.hash_index import read_hash_index
from headwater.storage.index.index_file import HASH
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import DataFile, ManifestEntry
from headwater.storage.predicate.filter import Predicate
from headwater.storage.rows.by_bucket import Bucket, by_bucket
from headwater.storage.scan.bucket_splits import is_marked
from headwater.storage.scan.expired_snapshots import naming_expired
from headwater.storage.scan.plan import live_entries
from headwater.storage.scan.sections import key_sections
from headwater.storage.scan.split import ScanPlan, Split, WantedSnapshot, bucket_split
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["plan_difference"]


def plan_difference(
    storage: TableStorage,
    before: Snapshot,
    after: Snapshot,
    *,
    predicate: Predicate | None = None,
) -> ScanPlan:
    """Plan to read the rows that a snapshot has otherwise than an earlier one.

    Args:
        storage: The table.
        before: The earlier snapshot.
        after: The later one.
        predicate: The condition for wanted rows.

    Raises:
        NotFound: One of the snapshots expired meanwhile.
        CorruptData: A manifest list or manifest is missing or malformed; the message names it.
        Invalid: Rows of a key may have lain in another bucket.
        Unsupported: The table has no primary key, and files of the earlier snapshot were rewritten
            since; or keys of the table are unique across partitions.
    """
    storage.refuse(Operation.READ)
    if storage.schema.table_options.evolves_columns:
        raise unsupported_mode(
            "difference of column files",
            f"table {storage.name} has 'data-evolution.enabled' = 'true'",
        )
    if storage.schema.crosses_partitions:
        raise unsupported_mode(
            "difference across partitions",
            f"table {storage.name} has keys that are unique across partitions",
        )
    with naming_expired(storage, before, after):
        splits = _splits(storage, before, after, predicate)
    return ScanPlan(tuple(splits), after)


def _splits(
    storage: TableStorage, before: Snapshot, after: Snapshot, predicate: Predicate | None
) -> list[Split]:
    _check_buckets(storage, before, after)
    old = _by_bucket(storage, before, predicate)
    new = _by_bucket(storage, after, predicate)
    _check_partitions(storage, before, after, old, new)
    buckets = list(dict.fromkeys([*old, *new]))
    vectors = [
        deletion_files_by_bucket(storage, index_entries(storage, snapshot), buckets)
        for snapshot in (before, after)
    ]
    splits: list[Split] = []
    for bucket in buckets:
        earlier, later = (
            _Side(storage, snapshot, side.get(bucket, ()), places.get(bucket, {}))
            for snapshot, side, places in zip((before, after), (old, new), vectors, strict=True)
        )
        splits += (_keyed if storage.schema.primary_keys else _appended)(earlier, later)
    return splits


def _check_buckets(storage: TableStorage, before: Snapshot, after: Snapshot) -> None:
    numbers = [
        storage.schema_by_id(snapshot.schema_id).table_options.bucket
        for snapshot in (before, after)
    ]
    if numbers[0] != numbers[1]:
        raise Invalid(
            f"table {storage.name}: it had {numbers[0]} buckets in snapshot {before.id} and "
            f"{numbers[1]} in snapshot {after.id}; their difference cannot be read bucket by "
            "bucket. Read the changes between them instead (mode delta or changelog)"
        )


def _check_partitions(
    storage: TableStorage,
    before: Snapshot,
    after: Snapshot,
    old: Mapping[Bucket, Sequence[ManifestEntry]],
    new: Mapping[Bucket, Sequence[ManifestEntry]],
) -> None:
    """No key has moved to another bucket of its partition, which an overwrite may have done."""
    totals = {partition: entries[0].total_buckets for (partition, _), entries in old.items()}
    moved = any(
        totals.get(partition, entries[0].total_buckets) != entries[0].total_buckets
        for (partition, _), entries in new.items()
    )
    if storage.schema.primary_keys and storage.schema.table_options.bucket == -1:
        moved = _keys_moved(storage, before, after, {partition for partition, _ in new})
    if moved:
        raise Invalid(
            f"table {storage.name}: between snapshots {before.id} and {after.id} rows of a "
            "partition were spread over other buckets; their difference cannot be read bucket by "
            "bucket. Read the changes between them instead (mode delta or changelog)"
        )


def _keys_moved(
    storage: TableStorage, before: Snapshot, after: Snapshot, partitions: Collection[bytes]
) -> bool:
    """True if a dynamic bucket has lost a key while its partition still has rows."""
    old, new = (
        {
            (entry.partition, entry.bucket): entry
            for entry in index_entries(storage, snapshot)
            if entry.index_file.index_type == HASH and entry.partition in partitions
        }
        for snapshot in (before, after)
    )
    for bucket, entry in old.items():
        later = new.get(bucket)
        if later is not None and later.index_file == entry.index_file:
            continue
        if later is None:
            return True
        hashes = read_hash_index(storage, later)
        if not np.isin(read_hash_index(storage, entry), hashes).all():
            return True
    return False


def _by_bucket(
    storage: TableStorage, snapshot: Snapshot, predicate: Predicate | None
) -> dict[Bucket, list[ManifestEntry]]:
    schema = storage.schema
    least = 1 if schema.primary_keys and schema.table_options.hides_level_zero else 0
    return by_bucket(
        entry
        for entry in live_entries(storage, snapshot, predicate=predicate)
        if entry.bucket != POSTPONE_BUCKET and entry.file.level >= least
    )


@dataclass(frozen=True)
class _Side:
    """A bucket as one of the two snapshots has it."""

    storage: TableStorage
    snapshot: Snapshot
    entries: Sequence[ManifestEntry]
    vectors: Mapping[str, DeletionFile]

    @cached_property
    def files(self) -> dict[str, DataFile]:
        return {entry.file.file_name: entry.file for entry in self.entries}

    @cached_property
    def is_marked(self) -> bool:
        return is_marked(self.storage, self.entries)

    def vectors_of(self, files: Iterable[DataFile]) -> dict[str, DeletionFile]:
        names = (file.file_name for file in files)
        return {name: self.vectors[name] for name in names if name in self.vectors}

    def positions(self, name: str) -> npt.NDArray[np.int64]:
        place = self.vectors.get(name)
        if place is None:
            return np.empty(0, np.int64)
        return read_deletion_vector(self.storage.files, place).positions


def _keyed(earlier: _Side, later: _Side) -> Iterator[Split]:
    # A file that only changed its level holds the same rows.
    differing = (earlier.files.keys() ^ later.files.keys()) | _remarked(earlier, later)
    marked = earlier.is_marked and later.is_marked
    wanted = differing
    if not marked:
        wanted = {
            file.file_name
            for section in key_sections(later.storage, {**earlier.files, **later.files}.values())
            if any(file.file_name in differing for file in section.files)
            for file in section.files
        }
    if wanted:
        yield replace(_compared(earlier, later, wanted), is_marked=marked)


def _appended(earlier: _Side, later: _Side) -> Iterator[Split]:
    gone = earlier.files.keys() - later.files.keys()
    if gone:
        raise unsupported_mode(
            "rewritten files in a difference",
            f"table {later.storage.name}: {min(gone)} of snapshot {earlier.snapshot.id} is not in "
            f"snapshot {later.snapshot.id} any more",
        )
    added = tuple(file for name, file in later.files.items() if name not in earlier.files)
    if added:
        split = bucket_split(later.storage, later.snapshot, later.entries, added, False, True)
        wanted = (WantedSnapshot.of(later.storage, later.snapshot),)
        yield replace(split, deletion_files=later.vectors_of(added), snapshots=wanted)
    remarked = _remarked(earlier, later)
    if remarked:
        yield replace(_compared(earlier, later, remarked), is_marked=True)


def _compared(earlier: _Side, later: _Side, names: Collection[str]) -> Split:
    """A split of the rows in which some files differ."""
    files, before = (
        tuple(file for name, file in side.files.items() if name in names)
        for side in (later, earlier)
    )
    entries = [*earlier.entries, *later.entries]
    split = bucket_split(later.storage, later.snapshot, entries, files, True, False)
    return replace(
        split,
        row_count=split.row_count + sum(file.row_count for file in before),
        deletion_files=later.vectors_of(files),
        before=before,
        before_deletion_files=earlier.vectors_of(before),
        snapshots=(*split.snapshots, WantedSnapshot.of(earlier.storage, earlier.snapshot)),
    )


def _remarked(earlier: _Side, later: _Side) -> set[str]:
    """The files of both snapshots of which these do not mark the same rows as deleted."""
    return {
        name
        for name in earlier.files.keys() & later.files.keys()
        if _marks_differ(name, earlier, later)
    }


def _marks_differ(name: str, earlier: _Side, later: _Side) -> bool:
    """True if two snapshots do not mark the same rows of a file as deleted.

    Index files are written anew when any vector in them changes; so the same vector may lie
    elsewhere.
    """
    one, other = earlier.vectors.get(name), later.vectors.get(name)
    if one == other:
        return False
    counts = {None if place is None else place.cardinality for place in (one, other)}
    if len(counts) > 1 and None not in counts:
        return True
    return not np.array_equal(earlier.positions(name), later.positions(name))
