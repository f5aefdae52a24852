"""The refusal of commits after others changed the same partitions, by a table's option.

Source: ``StrictModeChecker.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headwater.storage.commit.attempt import Attempt
from headwater.storage.commit.own_history import BATCH_IDENTIFIER
from headwater.storage.errors import Conflict, CorruptData, NotFound
from headwater.storage.index.manifest import index_entries
from headwater.storage.manifest.data_file import ManifestEntry
from headwater.storage.manifest.manifest import read_manifest, read_manifest_list
from headwater.storage.snapshot.history import is_in_history
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot, SnapshotIdentity
from headwater.storage.table_storage import TableStorage
from headwater.storage.write.bucket_state import describe_partition

__all__ = ["StrictMode"]

_OPTION = "commit.strict-mode.last-safe-snapshot"
_ADVICE = (
    "read the table again and repeat the operation with the snapshot that was read as this option, "
    "or without it"
)


class StrictMode:
    """Looks at what others have committed since a snapshot that is known to be safe.

    A compaction or an overwrite of a partition that a commit changes refuses it, and new rows there
    refuse an overwrite. What came before the user's own last commit has been looked at then.

    Args:
        storage: The table.
        user: The commit user.
        last_safe: The snapshot up to which others may have done anything; -1 is the last one before
            the user's first commit, which is not checked.
    """

    def __init__(self, storage: TableStorage, user: str, last_safe: int) -> None:
        self._storage = storage
        self._user = user
        self._last_safe = last_safe
        # The user's last commit by this object.
        self._own: SnapshotIdentity | None = None

    @staticmethod
    def of(storage: TableStorage, user: str) -> StrictMode | None:
        """The checks of a user's commits by a table's options; None where they ask for none."""
        last_safe = storage.schema.table_options.last_safe_snapshot
        return None if last_safe is None else StrictMode(storage, user, last_safe)

    def check(
        self, attempt: Attempt, base: Snapshot | None, delta: Collection[ManifestEntry]
    ) -> None:
        """Check a commit.

        Args:
            attempt: The commit.
            base: The latest snapshot.
            delta: The changes of the commit on top of it.

        Raises:
            Conflict: Another user changed the same partitions, or that cannot be found out.
        """
        changed = {entry.partition for entry in delta}
        changed |= {entry.partition for entry in attempt.indexes.named}
        for snapshot in self._others(base, attempt.identifier):
            self._check_snapshot(snapshot, attempt.kind, changed)

    def add(self, snapshot: Snapshot) -> None:
        """Take note of the user's own commit."""
        self._own = snapshot.identity

    def _others(self, base: Snapshot | None, identifier: int) -> Sequence[Snapshot]:
        """The snapshots to look at: those after the last safe one, and the user's last commit."""
        safe, own = self._last_safe, self._own
        # A commit that was rolled back says nothing.
        if own is not None and is_in_history(self._storage, own, base):
            safe = max(safe, own.id)
        elif safe < 0 and identifier == BATCH_IDENTIFIER:
            return ()
        found: list[Snapshot] = []
        snapshot = base
        while snapshot is not None and snapshot.id > safe:
            if snapshot.commit_user == self._user:
                return found
            found.append(snapshot)
            number = snapshot.id - 1
            try:
                snapshot = self._storage.snapshot(number) if number > max(safe, 0) else None
            except NotFound:
                if safe < 0:
                    break
                raise Conflict(
                    f"table {self._storage.name}: snapshot {number} has expired, and '{_OPTION}' "
                    f"is set, which asks what it changed; {_ADVICE}"
                ) from None
        return found if safe >= 0 else ()

    def _check_snapshot(
        self, snapshot: Snapshot, kind: CommitKind, changed: Collection[bytes]
    ) -> None:
        if snapshot.commit_kind in (CommitKind.COMPACT, CommitKind.OVERWRITE):
            found = self._changed(snapshot)
        elif snapshot.commit_kind is CommitKind.APPEND and kind is CommitKind.OVERWRITE:
            found = {entry.partition for entry in self._entries(snapshot) if entry.bucket >= 0}
        else:
            return
        for partition in sorted(found.intersection(changed)):
            raise Conflict(
                f"table {self._storage.name}: snapshot {snapshot.id} of kind {snapshot.commit_kind}"
                f", by the user {snapshot.commit_user}, changed "
                f"{describe_partition(self._storage, partition)}, which this commit changes, too, "
                f"and '{_OPTION}' is set; {_ADVICE}"
            )

    def _changed(self, snapshot: Snapshot) -> set[bytes]:
        """The partitions whose files or indexes a snapshot changed."""
        changed = {entry.partition for entry in self._entries(snapshot)}
        # Indexes of columns change no rows.
        evolves = self._storage.schema.table_options.evolves_columns
        if snapshot.commit_kind is CommitKind.COMPACT and evolves:
            return changed
        try:
            before = self._storage.snapshot(snapshot.id - 1) if snapshot.id > 1 else None
        except NotFound:
            before = None
        if before is not None and before.index_manifest == snapshot.index_manifest:
            return changed
        old, new = (
            {(entry.partition, entry.bucket, entry.index_file.file_name) for entry in entries}
            for entries in (
                index_entries(self._storage, before),
                index_entries(self._storage, snapshot),
            )
        )
        return changed | {partition for partition, _, _ in old ^ new}

    def _entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        try:
            return [
                entry
                for manifest in read_manifest_list(self._storage, snapshot.delta_manifest_list)
                for entry in read_manifest(self._storage, manifest.file_name, expected=manifest)
            ]
        except (NotFound, CorruptData) as error:
            raise Conflict(
                f"table {self._storage.name}: snapshot {snapshot.id} expires, or is damaged "
                f"({error.message}), and '{_OPTION}' asks what it changed; {_ADVICE}"
            ) from error
