"""The parts of a scan plan: splits, which are read independently of each other.

Source: ``DataSplit.java``, ``SnapshotReader.Plan``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.storage.index.deletion_files import DeletionFile
from headwater.storage.index.live_rows import LiveRows
from headwater.storage.manifest.data_file import DataFile, ManifestEntry
from headwater.storage.rows.partition import directory_of_values, partition_values
from headwater.storage.snapshot.snapshot import Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.types.values import StorageValue

__all__ = ["ScanPlan", "Split", "WantedSnapshot", "bucket_split"]


@dataclass(frozen=True)
class WantedSnapshot:
    """A snapshot that files are read of. It pickles.

    Attributes:
        branch: The branch.
        identity: The snapshot.
        changes: True if only its changes are read, which may outlive it.
    """

    branch: str
    identity: SnapshotIdentity
    changes: bool = False

    @staticmethod
    def of(storage: TableStorage, snapshot: Snapshot, *, changes: bool = False) -> WantedSnapshot:
        """A snapshot of a table's or branch's own."""
        return WantedSnapshot(storage.layout.branch, snapshot.identity, changes)


@dataclass(frozen=True)
class Split:
    """Files of one bucket that are read together. It pickles.

    Attributes:
        partition: Serialised partition values.
        partition_values: The same as storage values, in partition-key order.
        bucket: The bucket's number.
        total_buckets: Buckets of the partition; 0 for changes in files of several.
        directory: The URI of the bucket's directory.
        files: The files.
        needs_merge: True if rows of the files supersede or delete each other; if not, every row
            of the files is a row of the table.
        row_count: Rows of the files less those that deletion vectors are known to delete; with
            `needs_merge`, an upper bound of the rows read.
        streaming: True if the files hold changes: each row counts, none is merged. With `before`,
            the changes of an overwrite: rows of the files before went, then those of the files
            came.
        deletion_files: The places of the files' deletion vectors, by the names of the files.
        postponed: Files of rows that wait for a compaction, in the order of writing: those of the
            split's buckets are merged with its rows.
        buckets: With `postponed`, the buckets; the names of all files are whole paths then.
        before: The files of an earlier snapshot: wanted are the rows that differ; None for the
            rows themselves. Of a table without a primary key they are the same files, and the rows
            differ that one snapshot marks and the other does not.
        before_deletion_files: The places of these files' deletion vectors in that snapshot.
        branch: The branch by whose schema the files are read, where two are read as one table.
        is_marked: True if deletion vectors mark all rows that are superseded, so that none is
            merged. With `before` it is true of both snapshots: of a file of both, only rows count
            that one snapshot marks and the other does not.
        live_rows: By the names of files, the rows that a merge of all files picks of them, where
            that is known: then nothing is merged. All rows are live of files without an entry but
            for those that retract. None if it is not known.
        snapshots: The snapshots that the files are read of.
    """

    partition: bytes
    partition_values: tuple[StorageValue, ...]
    bucket: int
    total_buckets: int
    directory: str
    files: Sequence[DataFile]
    needs_merge: bool
    row_count: int
    streaming: bool = False
    before: tuple[DataFile, ...] | None = None
    before_deletion_files: Mapping[str, DeletionFile] = field(default_factory=dict, hash=False)
    deletion_files: Mapping[str, DeletionFile] = field(default_factory=dict, hash=False)
    postponed: tuple[DataFile, ...] = ()
    buckets: tuple[int, ...] = ()
    branch: str | None = None
    is_marked: bool = False
    live_rows: Mapping[str, LiveRows] | None = field(default=None, hash=False)
    snapshots: tuple[WantedSnapshot, ...] = field(default=(), compare=False)

    @property
    def is_counted(self) -> bool:
        """True if `row_count` is the number of rows read."""
        vectors = self.deletion_files.values()
        return not self.needs_merge and all(each.cardinality is not None for each in vectors)

    @property
    def is_raw(self) -> bool:
        """True if rows are read as they stand in the files, with no merge."""
        if self.before is not None or self.postponed:
            return False
        if self.live_rows is not None:
            return True
        return self.streaming or self.is_marked or not self.needs_merge

    @property
    def size(self) -> int:
        """Bytes of the files."""
        files = (*self.files, *self.postponed, *(self.before or ()))
        return sum(file.file_size for file in files)


@dataclass(frozen=True)
class ScanPlan:
    """The splits to read, and the counts of what was left out.

    Attributes:
        splits: To be read in any order, each independently.
        snapshot: The planned snapshot.
        manifests_read: Manifests looked into.
        manifests_skipped: Manifests left out.
        files_skipped: Files left out after looking into their manifests.
        files_skipped_by_index: Those of them that only their indexes told to hold no wanted rows.
        rows_skipped_by_index: The rows of these.
    """

    splits: tuple[Split, ...]
    snapshot: Snapshot
    manifests_read: int = 0
    manifests_skipped: int = 0
    files_skipped: int = 0
    files_skipped_by_index: int = 0
    rows_skipped_by_index: int = 0


def bucket_split(
    storage: TableStorage,
    snapshot: Snapshot,
    bucket: Sequence[ManifestEntry],
    files: Iterable[DataFile],
    needs_merge: bool,
    streaming: bool,
) -> Split:
    """A split of a snapshot's files of one bucket, before their deletion vectors are looked up."""
    first = bucket[0]
    chosen = tuple(files)
    values = partition_values(storage, first.partition)
    return Split(
        first.partition,
        values,
        first.bucket,
        first.total_buckets,
        directory_of_values(storage, values, first.bucket),
        chosen,
        needs_merge,
        sum(file.row_count for file in chosen),
        streaming,
        snapshots=(WantedSnapshot.of(storage, snapshot, changes=streaming),),
    )
