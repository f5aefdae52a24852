"""The changes that a commit makes to a table's indexes, on top of whatever came before it.

Index files hold what the rows of data files alone do not say: which of them are deleted, which
bucket a key is in. Two commits that each replace the same index file would lose the changes of one,
so a commit names the files that it replaces, and is refused when they are not the latest any more.

Source: ``IndexManifestFileHandler.java``, ``ConflictDetection.java``,
``OverwriteChangesProvider.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from headwater.storage.commit.entries import PartitionFilter
from headwater.storage.errors import Conflict, HeadwaterError, Invalid
from headwater.storage.index.index_file import DELETION_VECTORS, HASH, IndexManifestEntry
from headwater.storage.index.manifest import (
    combined,
    has_one_file_a_bucket,
    index_entries,
    write_index_manifest,
)
from headwater.storage.manifest.data_file import FileKind, ManifestEntry
from headwater.storage.rows.by_bucket import Bucket
from headwater.storage.scan.plan import live_entries
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.bucket_state import describe_partition
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["IndexChanges"]

_REPEAT = "read the table again and repeat the operation"


@dataclass
class IndexChanges:
    """The changes of one commit to a table's indexes.

    Attributes:
        storage: The table.
        named: Index files added and deleted by the messages of writers.
        looked_up: The hash index files of partitions that writers found the buckets of keys by.
        replaced: Partitions that lose all their other indexes; None for none.
        written: The last index manifest written for the commit, and the list that it holds.
    """

    storage: TableStorage
    named: Sequence[IndexManifestEntry] = ()
    looked_up: Collection[tuple[bytes, frozenset[str]]] = ()
    replaced: PartitionFilter | None = None
    written: tuple[str, Sequence[IndexManifestEntry]] | None = None
    _present: tuple[str | None, list[IndexManifestEntry]] = field(default=(None, []))

    @staticmethod
    def from_messages(
        storage: TableStorage,
        messages: Sequence[CommitMessage],
        replaced: PartitionFilter | None = None,
    ) -> IndexChanges:
        """The changes in messages of writers."""
        deleted = [
            IndexManifestEntry(FileKind.DELETE, message.partition, message.bucket, file)
            for message in messages
            for file in message.deleted_index_files
        ]
        added = [
            IndexManifestEntry(FileKind.ADD, message.partition, message.bucket, file)
            for message in messages
            for file in message.new_index_files
        ]
        looked_up = {
            (message.partition, message.looked_up_index)
            for message in messages
            if message.looked_up_index is not None
        }
        return IndexChanges(storage, [*deleted, *added], looked_up, replaced)

    @property
    def deletes_rows(self) -> bool:
        """Whether deletion vectors are among the changes."""
        return any(entry.index_file.index_type == DELETION_VECTORS for entry in self.named)

    @property
    def hashed_buckets(self) -> set[Bucket]:
        """The buckets whose hash indexes are among the changes."""
        return {
            (entry.partition, entry.bucket)
            for entry in self.named
            if entry.index_file.index_type == HASH
        }

    def check(self, base: Snapshot | None, delta: Sequence[ManifestEntry]) -> None:
        """Check that the changes fit the index files and data files that are there.

        Args:
            base: The latest snapshot.
            delta: The data files that the same commit adds and deletes.

        Raises:
            Conflict: Another commit replaced an index file, deleted rows of a data file that this
                one deletes, or deleted a data file whose rows this one deletes.
            Invalid: The changes contradict themselves: rows that were deleted would come back.
        """
        deletes = any(entry.kind is FileKind.DELETE for entry in delta)
        has_none = base is None or base.index_manifest is None
        if not self.named and not self.looked_up and (not deletes or has_none):
            return
        present = self._files(base)
        self._check_looked_up(present)
        changes = self._changes(present)
        self._check_index_files(present, changes)
        self._check_vectors(base, present, changes, delta)

    def manifest(self, base: Snapshot | None) -> str | None:
        """The name of the new snapshot's index manifest, written now unless it is an old one.

        Returns:
            None for a snapshot without indexes.
        """
        before = None if base is None else base.index_manifest
        if not self.named and (self.replaced is None or before is None):
            return before
        present = self._files(base)
        changes = self._changes(present)
        if not changes:
            return before
        entries = combined(self.storage, present, changes)
        if self.written is not None and self.written[1] == entries:
            return self.written[0]
        self.discard()
        if not entries:
            return None
        self.written = write_index_manifest(self.storage, entries), entries
        return self.written[0]

    def discard(self) -> None:
        """Delete the index manifest of a commit that certainly did not happen."""
        if self.written is not None:
            # What cannot be deleted is an orphan that nothing refers to.
            with suppress(HeadwaterError):
                self.storage.files.delete(self.storage.layout.manifest(self.written[0]))
            self.written = None

    # The table's own ---------------------------------------------------------------------------

    def _files(self, base: Snapshot | None) -> list[IndexManifestEntry]:
        """The index files of the latest snapshot, read once for each index manifest."""
        name = None if base is None else base.index_manifest
        if name != self._present[0]:
            self._present = name, index_entries(self.storage, base)
        return self._present[1]

    def _changes(self, present: Sequence[IndexManifestEntry]) -> list[IndexManifestEntry]:
        if self.replaced is None:
            return list(self.named)
        old = [entry.deleted() for entry in present if self.replaced.includes(entry.partition)]
        return [*old, *self.named]

    # Checking ----------------------------------------------------------------------------------

    def _check_index_files(
        self, present: Sequence[IndexManifestEntry], changes: Sequence[IndexManifestEntry]
    ) -> None:
        left = {_identity(entry): entry for entry in present}
        for entry in changes:
            if entry.kind is FileKind.DELETE and left.pop(_identity(entry), None) is None:
                raise Conflict(
                    f"table {self.storage.name}: index file {entry.index_file.file_name} of bucket "
                    f"{entry.bucket} was replaced by another commit; {_REPEAT}"
                )
        taken = {entry.slot: entry for entry in left.values()}
        for entry in changes:
            if entry.kind is FileKind.DELETE:
                continue
            index_type = entry.index_file.index_type
            one = has_one_file_a_bucket(self.storage, index_type)
            if (one and entry.slot in taken) or _identity(entry) in left:
                raise Conflict(
                    f"table {self.storage.name}: another commit added an index file of type "
                    f"{index_type} to bucket {entry.bucket}; {_REPEAT}"
                )
            taken[entry.slot] = left[_identity(entry)] = entry

    def _check_looked_up(self, present: Sequence[IndexManifestEntry]) -> None:
        """No key has come to a bucket of its own meanwhile: it would be in two."""
        for partition, names in self.looked_up:
            there = {
                entry.index_file.file_name
                for entry in present
                if entry.partition == partition and entry.index_file.index_type == HASH
            }
            if there != names:
                raise Conflict(
                    f"table {self.storage.name}: another commit added keys to "
                    f"{describe_partition(self.storage, partition)}, perhaps the same to other "
                    f"buckets; {_REPEAT}"
                )

    def _check_vectors(
        self,
        base: Snapshot | None,
        present: Sequence[IndexManifestEntry],
        changes: Sequence[IndexManifestEntry],
        delta: Sequence[ManifestEntry],
    ) -> None:
        """No deletion is lost: neither one of this commit, nor one of another."""
        name = self.storage.name
        before = _vector_files(present)
        after: set[tuple[bytes, int, str]] = set()
        for marked in _vectors(combined(self.storage, present, changes)):
            if marked in after:
                raise Conflict(
                    f"table {name}: another commit deleted rows of data file {marked[2]}; {_REPEAT}"
                )
            after.add(marked)
        added = {_data_file(entry) for entry in delta if entry.kind is FileKind.ADD}
        gone = {_data_file(entry) for entry in delta if entry.kind is FileKind.DELETE} - added
        for marked in gone & after:
            raise Conflict(
                f"table {name}: another commit deleted rows of data file {marked[2]}, which this "
                f"one replaces; {_REPEAT}"
            )
        new = after - before - added
        lost = before - after - gone
        if not (new or lost):
            return
        partitions = list({partition for partition, _, _ in new | lost})
        live = set() if base is None else {
            _data_file(entry) for entry in live_entries(self.storage, base, partitions=partitions)
        }  # fmt: skip
        for marked in new - live:
            raise Conflict(
                f"table {name}: data file {marked[2]}, whose rows are to be deleted, was deleted "
                f"by another commit; {_REPEAT}"
            )
        for marked in lost & live:
            raise Invalid(
                f"table {name}: the deleted rows of data file {marked[2]} would come back: its "
                "deletion vector is removed, and the file stays"
            )


def _identity(entry: IndexManifestEntry) -> tuple[bytes, int, str, str]:
    return *entry.slot, entry.index_file.file_name


def _data_file(entry: ManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.file_name


def _vectors(entries: Iterable[IndexManifestEntry]) -> Iterable[tuple[bytes, int, str]]:
    for entry in entries:
        for vector in entry.index_file.vectors or ():
            yield entry.partition, entry.bucket, vector.data_file


def _vector_files(entries: Iterable[IndexManifestEntry]) -> set[tuple[bytes, int, str]]:
    return set(_vectors(entries))
