"""The changes that an overwrite of a primary-key table made: rows that went, and rows that came.

Source: ``SnapshotReaderImpl.readChanges``, ``IncrementalChangelogReadProvider.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from headwater.storage.errors import NotFound
from headwater.storage.files.layout import POSTPONE_BUCKET
from headwater.storage.index.deletion_files import DeletionFile, deletion_files_by_bucket
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import DataFile, FileKind, ManifestEntry
from headwater.storage.rows.partition import bucket_directory
from headwater.storage.scan.bucket_splits import in_order_of_writing
from headwater.storage.scan.expired_snapshots import expired
from headwater.storage.scan.plan import changed_files, plan_of
from headwater.storage.scan.pruning import Pruner
from headwater.storage.scan.split import ScanPlan, Split, WantedSnapshot, bucket_split
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage

__all__ = ["plan_overwritten"]

_Bucket = tuple[bytes, int]


def plan_overwritten(
    storage: TableStorage, snapshot: Snapshot, min_level: int, pruner: Pruner
) -> ScanPlan:
    """Plan to read what an overwrite changed: first all rows that went, then those that came.

    Where a key's bucket may be another one since, the buckets of a partition are one split.

    Args:
        storage: The table.
        snapshot: The overwrite's snapshot.
        min_level: Only files of this LSM level and above: those on lower ones are told of by
            changelogs to come.
        pruner: Leaves partitions out.

    Raises:
        NotFound: The snapshot before has expired, which had the rows that went.
        CorruptData: A manifest is missing or malformed.
    """
    found = changed_files(storage, snapshot, pruner)
    found.entries = found.entries.where(
        (found.entries.numbers("level") >= min_level)
        & (found.entries.numbers("bucket") != POSTPONE_BUCKET)
    )
    changes = _Changes(storage, snapshot, _without_moved(found.entries))
    return plan_of(snapshot, changes.splits(), found)


def _without_moved(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The entries but for those of files that stay, on another level."""
    every = list(entries)
    names = [
        {entry.file.file_name for entry in every if entry.kind is kind}
        for kind in (FileKind.ADD, FileKind.DELETE)
    ]
    moved = names[0] & names[1]
    return [entry for entry in every if entry.file.file_name not in moved]


@dataclass(frozen=True)
class _Changes:
    """The files that an overwrite added and deleted."""

    storage: TableStorage
    snapshot: Snapshot
    entries: Sequence[ManifestEntry]

    def splits(self) -> list[Split]:
        """The splits."""
        partitions: dict[bytes, list[ManifestEntry]] = {}
        for entry in self.entries:
            partitions.setdefault(entry.partition, []).append(entry)
        gone = [entry for entry in self.entries if entry.kind is FileKind.DELETE]
        came = [entry for entry in self.entries if entry.kind is FileKind.ADD]
        before = self._vectors(self.before, gone) if gone else {}
        after = self._vectors(self.snapshot, came)
        splits: list[Split] = []
        for entries in partitions.values():
            splits += [self._split(group, before, after) for group in self._groups(entries)]
        return splits

    def _groups(self, entries: Sequence[ManifestEntry]) -> list[list[ManifestEntry]]:
        """The entries of a partition that are read together."""
        if self._moves_buckets(entries):
            return [list(entries)]
        buckets: dict[int, list[ManifestEntry]] = {}
        for entry in entries:
            buckets.setdefault(entry.bucket, []).append(entry)
        return list(buckets.values())

    def _moves_buckets(self, entries: Sequence[ManifestEntry]) -> bool:
        """True if a key that went from a bucket of a partition may have come to another one."""
        totals = {entry.total_buckets for entry in entries}
        return len(totals) > 1 or self.storage.schema.table_options.bucket < 0

    def _split(
        self,
        entries: Sequence[ManifestEntry],
        before: Mapping[_Bucket, Mapping[str, DeletionFile]],
        after: Mapping[_Bucket, Mapping[str, DeletionFile]],
    ) -> Split:
        gone = [entry for entry in entries if entry.kind is FileKind.DELETE]
        came = [entry for entry in entries if entry.kind is FileKind.ADD]
        files = in_order_of_writing([self._wholly_named(entry) for entry in came])
        split = bucket_split(self.storage, self.snapshot, entries, files, bool(gone), True)
        if not gone:
            # Rows beside what was overwritten, which may take others back.
            return split
        return replace(
            split,
            # Other changes of the partition are not to be read at the same time.
            total_buckets=0 if self._moves_buckets(entries) else split.total_buckets,
            before=tuple(map(self._wholly_named, gone)),
            row_count=sum(entry.file.row_count for entry in entries),
            before_deletion_files=_of(gone, before),
            deletion_files=_of(came, after),
            snapshots=(*split.snapshots, WantedSnapshot.of(self.storage, self.before)),
        )

    def _wholly_named(self, entry: ManifestEntry) -> DataFile:
        """The file with its whole path, as those of several buckets are read together."""
        directory = bucket_directory(self.storage, entry.partition, entry.bucket)
        path = entry.file.external_path or f"{directory}/{entry.file.file_name}"
        return replace(entry.file, external_path=path)

    @cached_property
    def before(self) -> Snapshot:
        """The snapshot that had the rows which went; raises NotFound."""
        try:
            return self.storage.snapshot(self.snapshot.id - 1)
        except NotFound:
            raise expired(self.storage, self.snapshot.id) from None

    def _vectors(
        self, snapshot: Snapshot, entries: Sequence[ManifestEntry]
    ) -> Mapping[_Bucket, Mapping[str, DeletionFile]]:
        buckets = list(dict.fromkeys((entry.partition, entry.bucket) for entry in entries))
        indexes = index_entries(self.storage, snapshot)
        return deletion_files_by_bucket(self.storage, indexes, buckets)


def _of(
    entries: Iterable[ManifestEntry], vectors: Mapping[_Bucket, Mapping[str, DeletionFile]]
) -> dict[str, DeletionFile]:
    found: dict[str, DeletionFile] = {}
    for entry in entries:
        place = vectors.get((entry.partition, entry.bucket), {}).get(entry.file.file_name)
        if place is not None:
            found[entry.file.file_name] = place
    return found
