"""The splits of partitions in which rows wait for a compaction to spread them over buckets.

Where ``postpone.merge-on-read`` asks for it, each such split reads the rows of some buckets and
those that wait for a place in them; `headwater.storage.read.postponed` merges them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.index.deletion_files import DeletionFile
from headwater.storage.manifest.data_file import DataFile, ManifestEntry
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.scan.sections import pack_in_order
from headwater.storage.scan.split import Split, bucket_split
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["postponed_splits"]


def postponed_splits(
    storage: TableStorage,
    snapshot: Snapshot,
    entries: Sequence[ManifestEntry],
    places: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]],
) -> Iterable[Split]:
    """The splits of partitions in which rows wait; each reads these rows of its buckets.

    As many buckets as fit are one split, so that the rows which wait are not read for each.
    """
    options = storage.schema.table_options
    partitions: dict[bytes, dict[int, list[ManifestEntry]]] = {}
    for entry in entries:
        partitions.setdefault(entry.partition, {}).setdefault(entry.bucket, []).append(entry)
    for buckets in partitions.values():
        waiting = buckets.pop(POSTPONE_BUCKET)
        # Without buckets there is nothing to tell rows apart by.
        total = max((each[0].total_buckets for each in buckets.values()), default=1)
        share = sum(entry.file.file_size for entry in waiting) // total
        weights = [
            share + sum(entry.file.file_size for entry in buckets.get(number, ()))
            for number in range(total)
        ]
        for numbers in pack_in_order(range(total), weights.__getitem__, options.split_target_size):
            real = {number: buckets[number] for number in numbers if number in buckets}
            yield _postponed_split(storage, snapshot, waiting, real, numbers, total, places)


def _postponed_split(
    storage: TableStorage,
    snapshot: Snapshot,
    waiting: list[ManifestEntry],
    real: Mapping[int, Sequence[ManifestEntry]],
    numbers: Sequence[int],
    total: int,
    places: Mapping[tuple[bytes, int], Mapping[str, DeletionFile]],
) -> Split:
    """The split of some buckets of a partition, and the rows of theirs that wait."""
    partition = waiting[0].partition
    entries = [entry for of_bucket in real.values() for entry in of_bucket]
    deleted = [places.get((partition, number), {}) for number in real]
    names = {entry.file.file_name for entry in entries}
    files = (_with_path(storage, entry) for entry in entries)
    split = bucket_split(storage, snapshot, waiting, files, True, False)
    return replace(
        split,
        bucket=numbers[0],
        total_buckets=total,
        row_count=split.row_count + sum(entry.file.row_count for entry in waiting),
        deletion_files={
            name: place for each in deleted for name, place in each.items() if name in names
        },
        postponed=tuple(
            _with_path(storage, entry)
            for entry in sorted(waiting, key=lambda entry: entry.file.creation_time or 0)
        ),
        buckets=tuple(numbers),
    )


def _with_path(storage: TableStorage, entry: ManifestEntry) -> DataFile:
    """A file that can be read without its bucket's directory."""
    if entry.file.external_path:
        return entry.file
    directory = bucket_directory(storage, entry.partition, entry.bucket)
    return replace(entry.file, external_path=f"{directory}/{entry.file.file_name}")
