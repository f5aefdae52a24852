"""The planning of reads: the files of a snapshot, and the splits in which they are read.

What a scan costs grows with what is asked: manifests, then entries, then files are left out by
partition, bucket and statistics.

Source: ``AbstractFileStoreScan.java``, ``KeyValueFileStoreScan.java``, ``SnapshotReaderImpl.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from headwater.storage.capabilities import Operation
from headwater.storage.errors import CorruptData, Unsupported
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.index.deletion_files import DeletionFile, deletion_files_by_bucket
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import DataFile, FileKind, ManifestEntry, epoch_millis
from headwater.storage.manifest.entries import Entries, merge_entries
from headwater.storage.manifest.manifest import read_entries, read_manifest_list
from headwater.storage.manifest.records import ManifestFile
from headwater.storage.predicate.filter import Predicate
from headwater.storage.scan.appended_rows import first_new_row_id, is_appended
from headwater.storage.scan.bucket_splits import (
    in_order_of_writing,
    is_marked,
    keyed_splits,
    marked_splits,
    packed_splits,
    with_deletion_files,
)
from headwater.storage.scan.expired_snapshots import (
    expired,
    is_complete,
    lost_its_changes,
    naming_expired,
)
from headwater.storage.scan.found_entries import FoundEntries
from headwater.storage.scan.joined_splits import joined_splits
from headwater.storage.scan.live import entries_of_few, manifests_of
from headwater.storage.scan.postponed import postponed_splits
from headwater.storage.scan.pruning import Pruner
from headwater.storage.scan.split import ScanPlan, Split, WantedSnapshot, bucket_split
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = [
    "changed_files",
    "deletion_files_of",
    "find_live",
    "live_entries",
    "max_sequence_numbers",
    "plan_changelog",
    "plan_delta",
    "plan_of",
    "plan_snapshot",
]


def live_entries(
    storage: TableStorage,
    snapshot: Snapshot,
    *,
    predicate: Predicate | None = None,
    partitions: Collection[bytes] | None = None,
    bucket: int | None = None,
    level: int | None = None,
    anew: bool = False,
) -> list[ManifestEntry]:
    """The files that a snapshot holds.

    Args:
        storage: The table.
        snapshot: The snapshot.
        predicate: Leave out files without matching rows: by all statistics in an append table, by
            partition, bucket and key alone in a primary-key table.
        partitions: Only these, serialised.
        bucket: Only this bucket.
        level: Only this LSM level.
        anew: Read every manifest, also those that were read before: an upkeep of manifests is to
            notice a damaged one.

    Raises:
        CorruptData: A manifest list or manifest is missing or malformed; the message names it.
    """
    if predicate is None and bucket is None and not anew:
        few = entries_of_few(storage, manifests_of(storage, snapshot))
        if few is not None:
            return [
                entry
                for entry in few
                if (partitions is None or entry.partition in partitions)
                and (level is None or entry.file.level == level)
            ]
    pruner = Pruner(storage, predicate, partitions, bucket, level)
    return list(find_live(storage, snapshot, pruner).entries)


def max_sequence_numbers(entries: Iterable[ManifestEntry]) -> dict[tuple[bytes, int], int]:
    """The greatest sequence number of each (partition, bucket)."""
    found: dict[tuple[bytes, int], int] = {}
    for entry in entries:
        bucket = (entry.partition, entry.bucket)
        last = entry.file.max_sequence_number
        found[bucket] = max(found.get(bucket, last), last)
    return found


def plan_snapshot(
    storage: TableStorage,
    snapshot: Snapshot,
    *,
    predicate: Predicate | None = None,
    min_level: int = 0,
    with_postponed: bool = False,
    created_since: int | None = None,
    with_level_zero: bool = False,
    all_levels: bool = False,
    merges_postponed: bool = False,
) -> ScanPlan:
    """Plan to read a snapshot's rows.

    Files of level 0 are left out where rows are part of the table only when a compaction has taken
    them up: with merge engine first-row, and with deletion vectors that are not merged on read.

    Args:
        storage: The table.
        snapshot: The snapshot.
        predicate: The condition for wanted rows; files that cannot hold any are left out. Reading
            a split filters its rows exactly.
        min_level: Only files of this LSM level and above: the table as it was when they were
            compacted.
        with_postponed: Also the rows that wait for a compaction to spread them over buckets, in
            `streaming` splits of their own.
        created_since: Only files made at or after this moment, milliseconds since the epoch.
        with_level_zero: Read level 0 of a table with deletion vectors, too: for a stream, which
            nothing else tells of its rows, and for what changes rows by reading them.
        all_levels: True to read level 0 of any table, whose rows may not be part of it yet.
        merges_postponed: True to follow ``postpone.merge-on-read``, as reads of the table's rows
            as a whole do: rows that wait for a compaction are merged with those of the buckets.

    Raises:
        NotFound: The snapshot expired meanwhile.
        CorruptData: A manifest list or manifest is missing or malformed; the message names it.
        Unsupported: The table has options that are not supported.
    """
    storage.refuse(Operation.READ)
    options = storage.schema.table_options
    keyed = bool(storage.schema.primary_keys)
    merges = merges_postponed and not min_level and options.merges_postponed_rows and keyed
    if merges and created_since is not None:
        raise Unsupported(
            f"table {storage.name}: with 'postpone.merge-on-read' only whole snapshots are read, "
            "not the files of a time; read with 'postpone.merge-on-read' = 'false'"
        )
    if options.evolves_columns and created_since is not None:
        raise Unsupported(
            f"table {storage.name}: with data evolution only whole snapshots are read, not the "
            "files of a time, which may hold some of the columns of their rows"
        )
    hides = keyed and options.hides_level_zero and not (all_levels or merges)
    if hides and not (with_level_zero and options.marks_superseded_rows):
        min_level = max(min_level, 1)
    pruner = Pruner(storage, predicate)
    with naming_expired(storage, snapshot):
        found = find_live(storage, snapshot, pruner)
        if min_level:
            found.only(found.entries.numbers("level") >= min_level)
        if created_since is not None:
            created = (_created(entry.file) >= created_since for entry in found.entries)
            found.only(np.fromiter(created, np.bool_, len(found.entries)))
        places = deletion_files_of(storage, snapshot, found.entries)
    if options.evolves_columns:
        splits = joined_splits(storage, snapshot, _by_bucket(found.entries), pruner)
    elif keyed:
        splits = _splits_of_keys(storage, snapshot, pruner, found, places, with_postponed, merges)
    else:
        splits = packed_splits(storage, snapshot, found.entries, streaming=False)
    return plan_of(snapshot, [with_deletion_files(split, places) for split in splits], found)


def _splits_of_keys(
    storage: TableStorage,
    snapshot: Snapshot,
    pruner: Pruner,
    found: FoundEntries,
    places: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]],
    with_postponed: bool,
    merges_postponed: bool,
) -> list[Split]:
    """The splits of a table with a primary key, bucket by bucket; see `plan_snapshot`."""
    splits: list[Split] = []
    buckets = _by_bucket(found.entries)
    waiting = {bucket[0].partition for bucket in buckets if bucket[0].bucket == POSTPONE_BUCKET}
    if merges_postponed and waiting:
        of_these = [entry for entry in found.entries if entry.partition in waiting]
        splits += postponed_splits(storage, snapshot, of_these, places)
    for bucket in buckets:
        if merges_postponed and bucket[0].partition in waiting:
            continue
        if bucket[0].bucket == POSTPONE_BUCKET:
            if with_postponed:
                files = sorted(
                    (entry.file for entry in bucket), key=lambda file: file.creation_time or 0
                )
                split = bucket_split(storage, snapshot, bucket, files, False, True)
                wanted = (WantedSnapshot.of(storage, snapshot),)
                splits.append(replace(split, snapshots=wanted))
        elif is_marked(storage, bucket):
            splits += marked_splits(storage, snapshot, bucket, pruner, found)
        else:
            splits += keyed_splits(storage, snapshot, bucket, pruner, found)
    return splits


def plan_delta(
    storage: TableStorage, snapshot: Snapshot, *, predicate: Predicate | None = None
) -> ScanPlan:
    """Plan to read the rows that a snapshot's commit added, row by row, deletes included.

    Raises:
        NotFound: The snapshot's changes expired meanwhile.
        CorruptData: As `plan_snapshot`.
        Unsupported: As `plan_snapshot`.
    """
    return _plan_changes(
        storage, snapshot, snapshot.delta_manifest_list, "deltaManifestListSize", predicate
    )


def plan_changelog(
    storage: TableStorage, snapshot: Snapshot, *, predicate: Predicate | None = None
) -> ScanPlan:
    """Plan to read the changelog files of a snapshot's commit, row by row; none, if it has none.

    Raises:
        NotFound: The changelog expired meanwhile; or a branch begins with the snapshot, and the
            table's expiry has taken its changelog.
        CorruptData: As `plan_snapshot`.
        Unsupported: As `plan_snapshot`.
    """
    changelog = snapshot.changelog_manifest_list
    if changelog is None:
        return ScanPlan((), snapshot)
    is_lost = lost_its_changes(storage, snapshot)
    try:
        plan = _plan_changes(storage, snapshot, changelog, "changelogManifestListSize", predicate)
    except CorruptData as error:
        if is_lost:
            raise expired(storage, snapshot.id) from error
        raise
    if is_lost and not is_complete(storage, plan.splits):
        raise expired(storage, snapshot.id)
    return plan


def _plan_changes(
    storage: TableStorage,
    snapshot: Snapshot,
    manifest_list: str,
    size_field: str,
    predicate: Predicate | None,
) -> ScanPlan:
    storage.refuse(Operation.STREAM)
    pruner = Pruner(storage, predicate)
    with naming_expired(storage, snapshot, changes=True):
        found = _collect(storage, _manifests(storage, snapshot, manifest_list, size_field), pruner)
    # An overwrite's deletes concern files of earlier commits.
    found.entries = _added(found.entries)
    if storage.schema.table_options.evolves_columns:
        return _plan_appended(storage, snapshot, found, pruner)
    if pruner.judges_files:
        found.matching(pruner.by_value, pruner.excluded_by_index)
    if storage.schema.table_options.bucket < 1 and not storage.schema.primary_keys:
        return plan_of(
            snapshot, packed_splits(storage, snapshot, found.entries, streaming=True), found
        )
    splits: list[Split] = []
    for bucket in _by_bucket(found.entries):
        # One split: changes of one key must not overtake each other.
        files = [entry.file for entry in bucket]
        if snapshot.commit_kind is not CommitKind.COMPACT:
            # A compaction's changelog is sorted by key, whatever the rows' numbers.
            files = in_order_of_writing(files)
        splits.append(bucket_split(storage, snapshot, bucket, files, False, True))
    return plan_of(snapshot, splits, found)


def _plan_appended(
    storage: TableStorage, snapshot: Snapshot, found: FoundEntries, pruner: Pruner
) -> ScanPlan:
    """The rows that a commit added; new values of columns of older rows are passed over."""
    if len(found.entries):
        first_new = first_new_row_id(storage, snapshot)
        appended = (is_appended(entry, first_new) for entry in found.entries)
        found.only(np.fromiter(appended, np.bool_, len(found.entries)))
    splits = joined_splits(storage, snapshot, _by_bucket(found.entries), pruner)
    wanted = (WantedSnapshot.of(storage, snapshot, changes=True),)
    splits = [replace(split, streaming=True, snapshots=wanted) for split in splits]
    return plan_of(snapshot, splits, found)


def plan_of(snapshot: Snapshot, splits: Iterable[Split], found: FoundEntries) -> ScanPlan:
    """The plan of a snapshot whose files were found so, with what was left out."""
    return ScanPlan(
        tuple(splits),
        snapshot,
        found.read,
        found.skipped,
        found.files_skipped,
        len(found.indexed),
        sum(file.row_count for file in found.indexed),
    )


# Manifests ------------------------------------------------------------------------------------


def _manifests(
    storage: TableStorage, snapshot: Snapshot, name: str, size_field: str
) -> list[ManifestFile]:
    size = snapshot.document.get(size_field)
    return read_manifest_list(storage, name, size=size if isinstance(size, int) else None)


def _collect(
    storage: TableStorage, manifests: Iterable[ManifestFile], pruner: Pruner
) -> FoundEntries:
    wanted: list[ManifestFile] = []
    skipped = 0
    for manifest in manifests:
        if pruner.manifest(manifest):
            wanted.append(manifest)
        else:
            skipped += 1
    entries = read_entries(storage, wanted, pruner.entry_filter)
    listed = sum(each.num_added_files + each.num_deleted_files for each in wanted)
    return FoundEntries(merge_entries(entries), len(wanted), skipped, listed - len(entries))


def changed_files(storage: TableStorage, snapshot: Snapshot, pruner: Pruner) -> FoundEntries:
    """The files that a snapshot's commit added and deleted; raises CorruptData."""
    manifests = _manifests(storage, snapshot, snapshot.delta_manifest_list, "deltaManifestListSize")
    return _collect(storage, manifests, pruner)


def find_live(storage: TableStorage, snapshot: Snapshot, pruner: Pruner) -> FoundEntries:
    """The files of a snapshot that a pruner does not leave out; raises CorruptData."""
    manifests = [
        *_manifests(storage, snapshot, snapshot.base_manifest_list, "baseManifestListSize"),
        *_manifests(storage, snapshot, snapshot.delta_manifest_list, "deltaManifestListSize"),
    ]
    found = _collect(storage, manifests, pruner)
    found.entries = _added(found.entries)
    # Of a row whose columns lie in several files, none tells by itself.
    if pruner.judges_files and not storage.schema.table_options.evolves_columns:
        matches = pruner.by_key if storage.schema.primary_keys else pruner.by_value
        found.matching(matches, pruner.excluded_by_index)
    return found


def _added(entries: Entries) -> Entries:
    return entries.where(entries.numbers("kind") == FileKind.ADD)


def _created(file: DataFile) -> int:
    return 0 if file.creation_time is None else epoch_millis(file.creation_time)


def deletion_files_of(
    storage: TableStorage, snapshot: Snapshot, entries: Entries
) -> Mapping[tuple[bytes, int], Mapping[str, DeletionFile]]:
    """The places of deletion vectors, by bucket and file, whatever the table's options say now."""
    if snapshot.index_manifest is None or not len(entries):
        return {}
    buckets, _ = entries.buckets
    return deletion_files_by_bucket(storage, index_entries(storage, snapshot), set(buckets))


def _by_bucket(entries: Entries) -> list[list[ManifestEntry]]:
    """The entries of each bucket, in order."""
    buckets, numbers = entries.buckets
    grouped: list[list[ManifestEntry]] = [[] for _ in buckets]
    for entry, number in zip(entries, numbers.tolist(), strict=True):
        grouped[number].append(entry)
    return grouped
