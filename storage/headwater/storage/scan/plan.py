"""The planning of reads: the files of a snapshot, and the splits in which they are read.

What a scan costs grows with what is asked: manifests, then entries, then files are left out by
partition, bucket and statistics. A primary-key table's files are left out by the values of other
columns only together with all files that share their keys: else an old version of a row would
come back to light.

Source: ``AbstractFileStoreScan.java``, ``KeyValueFileStoreScan.java``, ``SnapshotReaderImpl.java``,
``AppendOnlySplitGenerator.java``, ``MergeTreeSplitGenerator.java``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headwater.storage.capabilities import Operation
from headwater.storage.errors import Unsupported
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.index.deletion_files import DeletionFile, deletion_files_by_bucket
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import DataFile, FileKind, ManifestEntry, epoch_millis
from headwater.storage.manifest.entries import DataFiles, Entries, merge_entries
from headwater.storage.manifest.manifest import read_entries, read_manifest_list
from headwater.storage.manifest.records import ManifestFile
from headwater.storage.options import TableOptions
from headwater.storage.predicate.filter import Predicate
from headwater.storage.rows.partition import directory_of_values, partition_values
from headwater.storage.scan.joined_splits import joined_splits
from headwater.storage.scan.live import entries_of_few, manifests_of
from headwater.storage.scan.postponed import postponed_splits
from headwater.storage.scan.pruning import Pruner
from headwater.storage.scan.sections import Section, key_sections, lacks_vectors, pack_in_order
from headwater.storage.scan.split import ScanPlan, Split, bucket_split
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = [
    "is_marked",
    "live_entries",
    "max_sequence_numbers",
    "plan_changelog",
    "plan_delta",
    "plan_snapshot",
]

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass
class _Found:
    """Entries on their way from the manifests, and what was left out."""

    entries: Entries
    read: int = 0
    skipped: int = 0
    files_skipped: int = 0
    indexed: list[DataFile] = field(default_factory=list)

    def only(self, wanted: Mask) -> None:
        """Leave out all other entries."""
        kept = self.entries.where(wanted)
        self.files_skipped += len(self.entries) - len(kept)
        self.entries = kept

    def matching(
        self, matches: Callable[[ManifestEntry], bool], excluded_by_index: Collection[str]
    ) -> None:
        """Leave out the files that do not match; some of them by their indexes."""
        entries = self.entries
        self.only(np.fromiter((matches(entry) for entry in entries), np.bool_, len(entries)))
        if excluded_by_index:
            self.indexed += [e.file for e in entries if e.file.file_name in excluded_by_index]


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
    return list(_live(storage, snapshot, pruner).entries)


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
    found = _live(storage, snapshot, pruner)
    if min_level:
        found.only(found.entries.numbers("level") >= min_level)
    if created_since is not None:
        created = (_created(entry.file) >= created_since for entry in found.entries)
        found.only(np.fromiter(created, np.bool_, len(found.entries)))
    places = _deletion_files(storage, snapshot, found.entries)
    if options.evolves_columns:
        splits = joined_splits(storage, _by_bucket(found.entries), pruner)
        return _plan(snapshot, [_with_deletion_files(split, places) for split in splits], found)
    if not keyed:
        splits = _packed(storage, snapshot, found.entries, streaming=False)
        return _plan(snapshot, [_with_deletion_files(split, places) for split in splits], found)
    splits = []
    buckets = _by_bucket(found.entries)
    waiting = {bucket[0].partition for bucket in buckets if bucket[0].bucket == POSTPONE_BUCKET}
    if merges and waiting:
        of_these = [entry for entry in found.entries if entry.partition in waiting]
        splits += postponed_splits(storage, snapshot, of_these, places)
    for bucket in buckets:
        if merges and bucket[0].partition in waiting:
            continue
        if bucket[0].bucket == POSTPONE_BUCKET:
            if with_postponed:
                files = sorted(
                    (entry.file for entry in bucket), key=lambda file: file.creation_time or 0
                )
                splits.append(bucket_split(storage, bucket, files, False, True))
        elif is_marked(storage, bucket):
            splits += _marked_splits(storage, snapshot, bucket, pruner, found)
        else:
            splits += _keyed_splits(storage, snapshot, bucket, pruner, found)
    return _plan(snapshot, [_with_deletion_files(split, places) for split in splits], found)


def plan_delta(
    storage: TableStorage, snapshot: Snapshot, *, predicate: Predicate | None = None
) -> ScanPlan:
    """Plan to read the rows that a snapshot's commit added, row by row, deletes included.

    Raises:
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
        CorruptData: As `plan_snapshot`.
        Unsupported: As `plan_snapshot`.
    """
    if snapshot.changelog_manifest_list is None:
        return ScanPlan((), snapshot)
    return _plan_changes(
        storage,
        snapshot,
        snapshot.changelog_manifest_list,
        "changelogManifestListSize",
        predicate,
    )


def _plan_changes(
    storage: TableStorage,
    snapshot: Snapshot,
    manifest_list: str,
    size_field: str,
    predicate: Predicate | None,
) -> ScanPlan:
    storage.refuse(Operation.STREAM)
    pruner = Pruner(storage, predicate)
    found = _collect(storage, _manifests(storage, snapshot, manifest_list, size_field), pruner)
    # An overwrite's deletes concern files of earlier commits.
    found.entries = _added(found.entries)
    if pruner.judges_files:
        found.matching(pruner.by_value, pruner.excluded_by_index)
    if storage.schema.table_options.bucket < 1 and not storage.schema.primary_keys:
        return _plan(snapshot, _packed(storage, snapshot, found.entries, streaming=True), found)
    splits: list[Split] = []
    for bucket in _by_bucket(found.entries):
        # One split: changes of one key must not overtake each other.
        files = [entry.file for entry in bucket]
        if snapshot.commit_kind is not CommitKind.COMPACT:
            # A compaction's changelog is sorted by key, whatever the rows' numbers.
            files = _as_written(files)
        splits.append(bucket_split(storage, bucket, files, False, True))
    return _plan(snapshot, splits, found)


def _plan(snapshot: Snapshot, splits: Iterable[Split], found: _Found) -> ScanPlan:
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


def _collect(storage: TableStorage, manifests: Iterable[ManifestFile], pruner: Pruner) -> _Found:
    wanted: list[ManifestFile] = []
    skipped = 0
    for manifest in manifests:
        if pruner.manifest(manifest):
            wanted.append(manifest)
        else:
            skipped += 1
    entries = read_entries(storage, wanted, pruner.entry_filter)
    listed = sum(each.num_added_files + each.num_deleted_files for each in wanted)
    return _Found(merge_entries(entries), len(wanted), skipped, listed - len(entries))


def _live(storage: TableStorage, snapshot: Snapshot, pruner: Pruner) -> _Found:
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


def _deletion_files(
    storage: TableStorage, snapshot: Snapshot, entries: Entries
) -> Mapping[tuple[bytes, int], Mapping[str, DeletionFile]]:
    """The places of deletion vectors, by bucket and file, whatever the table's options say now."""
    if snapshot.index_manifest is None or not len(entries):
        return {}
    buckets, _ = entries.buckets
    return deletion_files_by_bucket(storage, index_entries(storage, snapshot), set(buckets))


# Splits ---------------------------------------------------------------------------------------


def _by_bucket(entries: Entries) -> list[list[ManifestEntry]]:
    """The entries of each bucket, in order."""
    buckets, numbers = entries.buckets
    grouped: list[list[ManifestEntry]] = [[] for _ in buckets]
    for entry, number in zip(entries, numbers.tolist(), strict=True):
        grouped[number].append(entry)
    return grouped


def _as_written(files: Sequence[DataFile]) -> list[DataFile]:
    """The files of one commit in the order in which their rows were written.

    Flushes follow each other in sequence numbers. The files that one flush rolled into are sorted
    by key and share its range: they stay in the order of the manifest, which is that of writing.
    """
    groups: list[list[int]] = []
    last = -1
    for at in sorted(range(len(files)), key=lambda at: files[at].min_sequence_number):
        if groups and files[at].min_sequence_number <= last:
            groups[-1].append(at)
        else:
            groups.append([at])
        last = max(last, files[at].max_sequence_number)
    return [files[at] for group in groups for at in sorted(group)]


def _packed(
    storage: TableStorage, snapshot: Snapshot, entries: Entries, *, streaming: bool
) -> list[Split]:
    """The splits of files that each answer for themselves: by bucket, the oldest first."""
    options = storage.schema.table_options
    buckets, numbers = entries.buckets
    oldest = (entries.numbers("max_sequence_number"), entries.numbers("min_sequence_number"))
    order = np.lexsort((*oldest, numbers))
    sizes = np.maximum(entries.numbers("file_size"), options.split_open_file_cost)[order]
    target = options.split_target_size
    sums: list[int] = [0, *np.cumsum(sizes).tolist()]
    rows: list[int] = [0, *np.cumsum(entries.numbers("row_count")[order]).tolist()]
    ends: list[int] = np.cumsum(np.bincount(numbers, minlength=len(buckets))).tolist()
    totals = entries.numbers("total_buckets")
    splits: list[Split] = []
    first = 0
    for (partition, bucket), end in zip(buckets, ends, strict=True):
        values = partition_values(storage, partition)
        directory = directory_of_values(storage, values, bucket)
        total_buckets = int(totals[order[first:end].min()])
        while first < end:
            # As many as are within the target, but one at least.
            fitting = bisect_right(sums, sums[first] + target, first, end + 1)
            last = max(first + 1, fitting - 1)
            splits.append(
                Split(
                    partition,
                    values,
                    bucket,
                    total_buckets,
                    directory,
                    DataFiles(entries, order[first:last]),
                    False,
                    rows[last] - rows[first],
                    streaming,
                )
            )
            first = last
    return splits


def _with_deletion_files(
    split: Split, places: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]]
) -> Split:
    if split.postponed:
        return split
    of_bucket = places.get((split.partition, split.bucket))
    if not of_bucket:
        return split
    names = [file.file_name for file in split.files if file.file_name in of_bucket]
    own = {name: of_bucket[name] for name in names}
    if not own:
        return split
    deleted = sum(place.cardinality or 0 for place in own.values())
    return replace(split, deletion_files=own, row_count=split.row_count - deleted)


def is_marked(storage: TableStorage, bucket: Sequence[ManifestEntry]) -> bool:
    """True if deletion vectors mark all superseded rows of a bucket's files."""
    files = [entry.file for entry in bucket]
    return (
        storage.schema.table_options.marks_superseded_rows
        and all(file.level for file in files)
        and not lacks_vectors(storage, files)
    )


def _marked_splits(
    storage: TableStorage,
    snapshot: Snapshot,
    bucket: list[ManifestEntry],
    pruner: Pruner,
    found: _Found,
) -> list[Split]:
    """The splits of files whose superseded rows are marked: each file answers for itself."""
    options = storage.schema.table_options
    matching = [entry for entry in bucket if pruner.by_value(entry)]
    found.files_skipped += len(bucket) - len(matching)
    return [
        replace(
            split,
            needs_merge=any(_may_delete(file, options) for file in split.files),
            is_marked=True,
        )
        for split in _packed(storage, snapshot, Entries(matching), streaming=False)
    ]


def _keyed_splits(
    storage: TableStorage,
    snapshot: Snapshot,
    bucket: list[ManifestEntry],
    pruner: Pruner,
    found: _Found,
) -> list[Split]:
    options = storage.schema.table_options
    cost = options.split_open_file_cost
    matching = {entry.file.file_name for entry in bucket if pruner.by_value(entry)}
    kept: list[list[DataFile]] = []
    merged: set[str] = set()
    for section in key_sections(storage, (entry.file for entry in bucket)):
        files = _worth_reading(section, matching, options)
        left_out = [file for file in section.files if file not in files]
        found.files_skipped += len(left_out)
        found.indexed += [f for f in left_out if f.file_name in pruner.excluded_by_index]
        if len(section.runs) > 1 or any(_may_delete(file, options) for file in files):
            merged.update(file.file_name for file in files)
        if files and len(section.runs) > 1:
            kept.append(files)
        else:
            kept.extend([file] for file in files)
    bins = pack_in_order(
        kept,
        lambda files: max(sum(file.file_size for file in files), cost),
        options.split_target_size,
    )
    return [
        bucket_split(
            storage,
            bucket,
            (file for files in each for file in files),
            any(file.file_name in merged for files in each for file in files),
            False,
        )
        for each in bins
    ]


def _worth_reading(
    section: Section, matching: Collection[str], options: TableOptions
) -> list[DataFile]:
    """The section's files, unless no version of its rows matches.

    In one run every key occurs once, so each file answers for itself. With more runs a file that
    does not match may supersede one that does, and values may be computed that match where those
    of no file do.
    """
    files = section.files
    if len(section.runs) == 1:
        return [file for file in files if file.file_name in matching]
    if options.computes_rows:
        return files
    return files if any(file.file_name in matching for file in files) else []


def _may_delete(file: DataFile, options: TableOptions) -> bool:
    """True if a file may hold retracting rows.

    Some writers say 0 of files of level 0 that hold them. Old ones do not count, but the highest
    level never holds any.
    """
    if file.level == 0:
        return True
    if file.delete_row_count is None:
        return file.level < options.highest_level
    return file.delete_row_count > 0
