"""Commit outcomes: the one place that decides them, and the one retry.

The catalog answers each try with taken, refused, not sent or unknown. A commit
goes on until it is taken or refused, for as long as the option ``commit.timeout`` says after the
first try without an answer. Then it has failed for certain if no try was ever sent; once one was,
and its answer was lost, nothing that a later try is told but the table's history can undo that.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.storage.errors import (
    HeadwaterError,
    NotFound,
    OutcomeUnknown,
    ResourceType,
    Unavailable,
)
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import (
    DEFAULT_TIMEOUT_MILLIS,
    CommitAnswer,
    Fate,
    PartitionStatistics,
    SnapshotPointer,
    TableStorage,
)

__all__ = ["DEFAULT_TIMEOUT_MILLIS", "Patience", "commit_snapshot"]


class Patience:
    """Waits between the tries of one commit: longer each time, and not for ever.

    Args:
        storage: The table, whose options say how long.
        seconds: The time in all; None for no end.
    """

    def __init__(self, storage: TableStorage, seconds: float | None) -> None:
        self._runtime = storage.runtime
        self._least, self._most = storage.schema.table_options.commit_retry_wait
        self._end = None if seconds is None else self._runtime.monotonic() + seconds
        self._waits = 0

    @staticmethod
    def without_answer(storage: TableStorage) -> Patience:
        """As long as a catalog that does not answer is tried."""
        millis = storage.schema.table_options.commit_timeout
        return Patience(storage, (storage.patience_millis if millis is None else millis) / 1000)

    @staticmethod
    def with_others(storage: TableStorage) -> Patience:
        """As long as a commit gives way to others that come first."""
        millis = storage.schema.table_options.commit_timeout
        return Patience(storage, None if millis is None else millis / 1000)

    def wait(self, at_least: float = 0.0) -> bool:
        """Wait before another try; False, without waiting, when the time is over.

        Args:
            at_least: Seconds that the other side asked for; no more than are left are waited.
        """
        ceiling = min(self._most, self._least << min(self._waits, 20))
        # Not as long as others do, or they meet again.
        share = int(self._runtime.new_uuid()[:8], 16) / 0xFFFFFFFF
        seconds = max((ceiling + share * ceiling) / 2000, at_least)
        if self._end is not None:
            left = self._end - self._runtime.monotonic()
            if left <= 0:
                return False
            seconds = min(seconds, left)
        self._waits += 1
        self._runtime.sleep(seconds)
        return True


def commit_snapshot(
    storage: TableStorage,
    pointer: SnapshotPointer,
    snapshot: Snapshot,
    base: Snapshot | None,
    statistics: Sequence[PartitionStatistics],
) -> bool:
    """Commit a snapshot; find out whether it was taken.

    Only ever the same snapshot is tried again: as long as it may have been taken, another one with
    the same rows could double them.

    Args:
        storage: The table.
        pointer: Decides which snapshot is the latest.
        snapshot: The snapshot.
        base: The snapshot that it builds on.
        statistics: The changes to the statistics of partitions.

    Returns:
        False when another commit came first.

    Raises:
        Unavailable: It was not sent, however often it was tried: nothing was committed.
        OutcomeUnknown: It may have been committed. Ask `TableCommit.filter_committed` later, or
            look for the commit's user and identifier.
        HeadwaterError: It was refused for another reason: nothing was committed.
    """
    patience: Patience | None = None
    is_uncertain = False
    while True:
        try:
            answer = pointer.commit(snapshot, base, statistics)
        except HeadwaterError as error:
            # Refused now, but a try whose answer was lost may have been taken.
            if not is_uncertain:
                raise
            answer, is_last = CommitAnswer.unknown(error), True
        else:
            is_last = False
        if answer.fate is Fate.TAKEN:
            return True
        is_uncertain = is_uncertain or answer.fate is Fate.UNKNOWN
        if is_uncertain or answer.fate is Fate.NOT_SENT:
            # Before the look, which may wait for a catalog out of reach to sign a request.
            patience = patience or Patience.without_answer(storage)
        problem: HeadwaterError | None = answer.problem
        if is_uncertain:
            try:
                taken = _is_in_history(storage, pointer, snapshot)
            except HeadwaterError as error:
                problem = problem or error
            else:
                # Refused, and in no history: what it builds on is gone, so it never will be.
                if taken is not None or answer.fate is Fate.REFUSED:
                    return bool(taken)
        elif answer.fate is Fate.REFUSED:
            return False
        assert patience is not None
        if is_last or not patience.wait(answer.retry_after or 0.0):
            assert problem is not None
            raise _failure(storage, snapshot, problem, is_uncertain=is_uncertain) from problem


def _is_in_history(
    storage: TableStorage, pointer: SnapshotPointer, snapshot: Snapshot
) -> bool | None:
    """Whether it was taken, by the catalog or else by its file; None while that is open."""
    try:
        return pointer.was_taken(snapshot)
    except HeadwaterError as error:
        try:
            stored = storage.snapshot(snapshot.id)
        except HeadwaterError:
            raise error from None
        if stored.is_same_commit(snapshot):
            return True
        # The catalog has gone on, and no longer has the snapshot of this id. Where it has said
        # nothing at all, a file that something else wrote there proves nothing.
        if isinstance(error, NotFound) and error.resource_type is ResourceType.SNAPSHOT:
            return False
        raise


def _failure(
    storage: TableStorage, snapshot: Snapshot, problem: HeadwaterError, *, is_uncertain: bool
) -> Unavailable:
    if not is_uncertain:
        return Unavailable(problem.message)
    return OutcomeUnknown(
        f"table {storage.name}: whether snapshot {snapshot.id} by {snapshot.commit_user} with "
        f"identifier {snapshot.commit_identifier} was committed is not known: {problem.message}. "
        "Its files are kept; look at the table's snapshots before writing the rows again"
    )
