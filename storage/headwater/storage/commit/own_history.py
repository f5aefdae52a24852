"""A user's own commits in a table's history.

A batch that is replayed may still be under way: its request may be decided after the replay has
looked for it. So each snapshot that comes in between is looked at before the replay builds on it
(``FileStoreCommitImpl.java``, ``tryCommitOnce``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.storage.errors import NotFound
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot, SnapshotIdentity
from headwater.storage.table_storage import LongMemory, SnapshotPointer, TableStorage

__all__ = ["BATCH_IDENTIFIER", "CommittedUpTo", "OwnHistory"]

BATCH_IDENTIFIER = 2**63 - 1
"""The identifier of a commit that is not one of a numbered row (``BatchWriteBuilder.java``)."""


@dataclass(frozen=True)
class CommittedUpTo:
    """The last commit of a user that a table's history shows.

    Attributes:
        identifier: The user's last identifier; None when no snapshot is theirs.
        whole_history: True if that holds for all of the table's history. When it is false and
            `identifier` is None, the user may have committed in snapshots that have expired.
    """

    identifier: int | None
    whole_history: bool


class OwnHistory:
    """Knows of a user's commits as far as it has looked.

    Args:
        storage: The table.
        pointer: The authority on the latest snapshot.
        user: The commit user.
    """

    def __init__(self, storage: TableStorage, pointer: SnapshotPointer, user: str) -> None:
        self._storage = storage
        self._pointer = pointer
        self._user = user
        # The snapshot up to which the user's commits are known.
        self._known: SnapshotIdentity | None = None

    def up_to_now(self) -> CommittedUpTo:
        """The user's last commit, as far back as the snapshots or the catalog's memory reach."""
        latest = self._pointer.latest()
        self._known = SnapshotIdentity.of(latest)
        oldest = 1
        unnumbered: int | None = None
        for snapshot in self._back_from(latest):
            if snapshot.commit_user == self._user:
                if snapshot.commit_identifier != BATCH_IDENTIFIER:
                    return CommittedUpTo(snapshot.commit_identifier, True)
                # Of a job that numbers its commits, such a one was made in its name by another.
                unnumbered = BATCH_IDENTIFIER
            oldest = snapshot.id
        if oldest > 1 and isinstance(self._pointer, LongMemory):
            remembered = self._pointer.last_identifier(self._user)
            if remembered is not None:
                return CommittedUpTo(remembered, True)
        return CommittedUpTo(unnumbered, oldest == 1 or unnumbered is not None)

    def repeated(self, base: Snapshot | None, identifier: int, kind: CommitKind) -> Snapshot | None:
        """A snapshot that has come since the last look and is the user's commit of that number.

        After a rollback all that is left is looked at: what was seen is not part of it any more.

        Args:
            base: The latest snapshot.
            identifier: The number; those of a user grow, so that a later one tells it, too.
            kind: New rows and a compaction may bear the same number.
        """
        known, self._known = self._known, SnapshotIdentity.of(base)
        if known is None or identifier == BATCH_IDENTIFIER:
            return None
        for snapshot in self._back_from(base):
            if snapshot.identity.is_same_commit(known):
                return None
            other = snapshot.commit_identifier
            if snapshot.commit_user != self._user or other == BATCH_IDENTIFIER:
                continue
            if other > identifier or (other == identifier and snapshot.commit_kind is kind):
                return snapshot
        return None

    def add(self, snapshot: Snapshot) -> None:
        """Take note of a commit of this process, which repeats none."""
        self._known = snapshot.identity

    def _back_from(self, latest: Snapshot | None) -> Iterator[Snapshot]:
        """The snapshots from the latest back to the oldest that has not expired."""
        snapshot = latest
        while snapshot is not None:
            yield snapshot
            if snapshot.id == 1:
                return
            try:
                snapshot = self._storage.snapshot(snapshot.id - 1)
            except NotFound:
                return
