"""One commit under way: what it wants, and what has been written for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.storage.commit.index_changes import IndexChanges
from headwater.storage.commit.late_rows import LateRows
from headwater.storage.manifest.data_file import ManifestEntry
from headwater.storage.manifest.manifest import ManifestFile
from headwater.storage.snapshot.snapshot import (
    CommitKind,
    CommitOperation,
    Snapshot,
    SnapshotIdentity,
)
from headwater.storage.write.table_writer import CommitMessage

__all__ = ["Attempt", "checked_snapshots"]

Changes = Callable[[Snapshot | None], Sequence[ManifestEntry]]


@dataclass
class Attempt:
    """One commit under way: what it wants, and the manifests written for it.

    Attributes:
        changes: The entries to commit on top of a snapshot.
        changelog: The entries of its changelog.
        identifier: The user's number of the commit.
        kind: The reason for the snapshot.
        watermark: Event time, milliseconds since the epoch.
        properties: Free properties of the snapshot.
        unchanged_since: The snapshot after which none may have changed rows of the same buckets.
        indexes: Its changes to the table's indexes.
        messages: The results of writers.
        read_from: A snapshot that it tells of.
        late_rows: Files of `messages` that were written again, for their rows came too late.
        statistics: The name of a new statistics file.
        operation: The statement that it is of.
        written: Names of manifests and lists to delete if the commit fails for certain.
        delta: The entries that `delta_files` hold.
        delta_files: Manifests of the changes.
        changelog_files: Manifests of the changelog.
    """

    changes: Changes
    changelog: Sequence[ManifestEntry]
    identifier: int
    kind: CommitKind
    watermark: int | None
    properties: Mapping[str, str]
    unchanged_since: SnapshotIdentity | None
    indexes: IndexChanges
    messages: Sequence[CommitMessage] = ()
    read_from: SnapshotIdentity | None = None
    late_rows: LateRows | None = None
    statistics: str | None = None
    operation: CommitOperation | None = None
    written: list[str] = field(default_factory=list)
    delta: Sequence[ManifestEntry] | None = None
    delta_files: list[ManifestFile] = field(default_factory=list)
    changelog_files: list[ManifestFile] | None = None

    @property
    def checked(self) -> Sequence[SnapshotIdentity]:
        """The snapshots that writers looked at, oldest first; none when one did not look."""
        return checked_snapshots(self.messages)

    @property
    def builds_on(self) -> set[SnapshotIdentity]:
        """The snapshots without which the changes are wrong: what goes was planned on them."""
        planned = {
            message.checked_snapshot
            for message in self.messages
            if message.compact_before or message.new_index_files or message.deleted_index_files
        }
        searched = {message.searched_snapshot for message in self.messages}
        searched |= {message.columns_of for message in self.messages}
        told = (self.unchanged_since, self.read_from)
        return {one for one in (*planned, *searched, *told) if one is not None}


def checked_snapshots(messages: Sequence[CommitMessage]) -> Sequence[SnapshotIdentity]:
    """The snapshots that the writers of messages looked at, oldest first; none if one did not."""
    seen = {message.checked_snapshot for message in messages}
    return () if None in seen else sorted((one for one in seen if one), key=lambda one: one.id)
