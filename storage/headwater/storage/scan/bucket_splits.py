"""The splits of buckets: which of their files are read together, and which need no merge.

A primary-key table's files are left out by the values of columns other than the key only together
with all files that share their keys: else an old version of a row would come back to light.

Source: ``AppendOnlySplitGenerator.java``, ``MergeTreeSplitGenerator.java``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from headwater.storage.index.deletion_files import DeletionFile
from headwater.storage.manifest.data_file import DataFile, ManifestEntry
from headwater.storage.manifest.entries import DataFiles, Entries
from headwater.storage.options import TableOptions
from headwater.storage.rows.partition import directory_of_values, partition_values
from headwater.storage.scan.found_entries import FoundEntries
from headwater.storage.scan.pruning import Pruner
from headwater.storage.scan.sections import Section, key_sections, lacks_vectors, pack_in_order
from headwater.storage.scan.split import Split, WantedSnapshot, bucket_split
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = [
    "in_order_of_writing",
    "is_marked",
    "keyed_splits",
    "marked_splits",
    "packed_splits",
    "with_deletion_files",
]


def in_order_of_writing(files: Sequence[DataFile]) -> list[DataFile]:
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


def packed_splits(
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
    wanted = (WantedSnapshot.of(storage, snapshot, changes=streaming),)
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
                    snapshots=wanted,
                )
            )
            first = last
    return splits


def with_deletion_files(
    split: Split, places: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]]
) -> Split:
    """A split with the places of its files' deletion vectors, by bucket and file."""
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


def marked_splits(
    storage: TableStorage,
    snapshot: Snapshot,
    bucket: list[ManifestEntry],
    pruner: Pruner,
    found: FoundEntries,
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
        for split in packed_splits(storage, snapshot, Entries(matching), streaming=False)
    ]


def keyed_splits(
    storage: TableStorage,
    snapshot: Snapshot,
    bucket: list[ManifestEntry],
    pruner: Pruner,
    found: FoundEntries,
) -> list[Split]:
    """The splits of files that may share keys: those that do are read together."""
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
            snapshot,
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
    level never holds any but in a chain table, where they retract rows of earlier partitions.
    """
    if file.level == 0:
        return True
    if file.delete_row_count is None:
        return file.level < options.highest_level or options.is_chain_table
    return file.delete_row_count > 0
