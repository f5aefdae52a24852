"""A user's own commits in a table's history.

A batch that is replayed may still be under way: its request may be decided after the replay has
looked for it. So each snapshot that comes in between is looked at before the replay builds on it
(``FileStoreCommitImpl.java``, ``tryCommitOnce``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from headwater.storage.errors import Conflict, NotFound
from headwater.storage.snapshot.snapshot import CommitKind, Snapshot, SnapshotIdentity
from headwater.storage.table_storage import (
    LongMemory,
    RememberedCommits,
    SnapshotPointer,
    TableStorage,
)

__all__ = ["BATCH_IDENTIFIER", "CommittedUpTo", "OwnHistory"]

BATCH_IDENTIFIER = 2**63 - 1
"""The identifier of a commit that is not one of a numbered row (``BatchWriteBuilder.java``)."""

# Snapshots that are read before the catalog is asked.
_READ_FIRST = 4


@dataclass(frozen=True)
class CommittedUpTo:
    """The last commit of a user that a table's history shows.

    Attributes:
        identifier: The user's last identifier; None when no snapshot is theirs.
        whole_history: Whether that holds for all of the table's history. When it is false and
            `identifier` is None, the user may have committed in snapshots that have expired.
        is_remembered: Whether the catalog remembers commits of expired snapshots, at least since it
            has the table. Set when that was looked up.
    """

    identifier: int | None
    whole_history: bool
    is_remembered: bool = False


@dataclass(frozen=True)
class _Found:
    identifier: int | None
    is_unnumbered: bool
    oldest: int

    def up_to(self) -> CommittedUpTo:
        if self.identifier is None and self.is_unnumbered:
            # Of a job that numbers its commits, such a one was made in its name by another.
            return CommittedUpTo(BATCH_IDENTIFIER, True)
        return CommittedUpTo(self.identifier, self.identifier is not None or self.oldest == 1)


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
        # The snapshot up to which the user's commits are known, and the last of their numbers.
        self._known: SnapshotIdentity | None = None
        self._last: int | None = None

    def up_to_now(self) -> CommittedUpTo:
        """The user's last commit, as far back as the snapshots or the catalog's memory reach."""
        latest = self._pointer.latest()
        self._known, self._last = SnapshotIdentity.of(latest), None
        if latest is None:
            return CommittedUpTo(None, True)
        last_commit = self._last_commit(latest)
        self._last = last_commit.identifier
        return last_commit

    def _last_commit(self, latest: Snapshot) -> CommittedUpTo:
        """The user's last commit up to a snapshot.

        A running job's is among the latest. A new one has none, and there may be very many
        snapshots: those that the catalog remembers are not read to find that out.
        """
        recent = self._search(islice(self._back_from(latest), _READ_FIRST), latest.id)
        if recent.identifier is not None or recent.oldest == 1:
            return recent.up_to()
        remembered = self._remembered()
        if remembered.since is not None and remembered.identifier is not None:
            return CommittedUpTo(remembered.identifier, True)
        oldest = min(recent.oldest, remembered.since or recent.oldest)
        earlier = self._search(self._down_from(oldest - 1), oldest)
        if earlier.identifier is None and earlier.oldest > 1 and remembered.identifier is not None:
            return CommittedUpTo(remembered.identifier, True)
        is_unnumbered = recent.is_unnumbered or remembered.is_unnumbered or earlier.is_unnumbered
        return replace(
            replace(earlier, is_unnumbered=is_unnumbered).up_to(),
            is_remembered=remembered.since is not None,
        )

    def _remembered(self) -> RememberedCommits:
        """What the catalog remembers of the user's commits; nothing if it does not."""
        if isinstance(self._pointer, LongMemory):
            return self._pointer.commits_of(self._user)
        return RememberedCommits()

    def _search(self, snapshots: Iterable[Snapshot], oldest: int) -> _Found:
        """The user's last numbered commit of some snapshots, the latest first.

        Args:
            snapshots: The snapshots.
            oldest: The oldest snapshot of which all is known already.
        """
        is_unnumbered = False
        for snapshot in snapshots:
            oldest = snapshot.id
            if snapshot.commit_user == self._user:
                if snapshot.commit_identifier != BATCH_IDENTIFIER:
                    return _Found(snapshot.commit_identifier, is_unnumbered, oldest)
                is_unnumbered = True
        return _Found(None, is_unnumbered, oldest)

    def repeated(self, base: Snapshot | None, identifier: int, kind: CommitKind) -> Snapshot | None:
        """A snapshot that has come since the last look and is the user's commit of that number.

        After a rollback all that is left is looked at: what was seen is not part of it any more.

        Args:
            base: The latest snapshot.
            identifier: The number; those of a user grow, so that a later one tells it, too.
            kind: New rows and a compaction may bear the same number.

        Raises:
            Conflict: It came, and has expired since; or snapshots have expired of which nothing
                tells whether it was among them.
        """
        known, self._known = self._known, SnapshotIdentity.of(base)
        if known is None or identifier == BATCH_IDENTIFIER:
            return None
        oldest = 1
        for snapshot in self._back_from(base):
            if snapshot.identity.is_same_commit(known):
                return None
            oldest = snapshot.id
            other = snapshot.commit_identifier
            if snapshot.commit_user != self._user or other == BATCH_IDENTIFIER:
                continue
            if other > identifier or (other == identifier and snapshot.commit_kind is kind):
                return snapshot
        if oldest > 1:
            self._check_expired(known, oldest, identifier)
        return None

    def _check_expired(self, known: SnapshotIdentity, oldest: int, identifier: int) -> None:
        """Check that no snapshot that came since the last look, and expired, is the user's commit.

        Args:
            known: The snapshot of the last look.
            oldest: The oldest snapshot that there is now.
            identifier: The number of the commit.

        Raises:
            Conflict: One is, or that cannot be known.
        """
        remembered = self._remembered()
        where = f"table {self._storage.name}: commit {identifier} of user {self._user!r}"
        if remembered.identifier is not None:
            if remembered.identifier >= identifier and remembered.identifier != self._last:
                raise Conflict(
                    f"{where} was made by another process meanwhile, and its snapshot has expired; "
                    "nothing is left to commit"
                )
        elif remembered.since is None or remembered.since > known.id + 1:
            raise Conflict(
                f"{where} may have been made meanwhile: snapshots {known.id + 1} to {oldest - 1} "
                "have expired, and the catalog does not remember their users; look for the commit "
                "and try again, and let 'snapshot.time-retained' be longer than any write takes"
            )

    def add(self, snapshot: Snapshot) -> None:
        """Take note of a commit of this process, which repeats none."""
        self._known = snapshot.identity
        if snapshot.commit_identifier != BATCH_IDENTIFIER:
            self._last = snapshot.commit_identifier

    def _back_from(self, latest: Snapshot | None) -> Iterator[Snapshot]:
        """The snapshots from the latest back to the oldest that has not expired."""
        if latest is not None:
            yield latest
            yield from self._down_from(latest.id - 1)

    def _down_from(self, number: int) -> Iterator[Snapshot]:
        """The same from an earlier one."""
        for snapshot_id in range(number, 0, -1):
            try:
                yield self._storage.snapshot(snapshot_id)
            except NotFound:
                return
