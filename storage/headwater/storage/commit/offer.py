"""Offer a snapshot to whoever decides, until its fate is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.storage.errors import HeadwaterError, OutcomeUnknown, Unavailable
from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import PartitionStatistics, SnapshotPointer, TableStorage

__all__ = ["Offer", "OutcomeUnknown", "wait"]

# How often an offer without an answer is repeated.
_OFFERS = 6


def wait(storage: TableStorage, retries: int) -> None:
    """Wait before another try: longer each time, and not as long as others do."""
    least, most = storage.schema.table_options.commit_retry_wait
    ceiling = min(most, least << min(retries, 20))
    share = int(storage.runtime.new_uuid()[:8], 16) / 0xFFFFFFFF
    storage.runtime.sleep((ceiling + share * ceiling) / 2000)


@dataclass(frozen=True)
class Offer:
    """A snapshot on offer.

    Attributes:
        storage: The table.
        pointer: Who decides.
        snapshot: The snapshot. Only ever the same one is offered again: as long as it is open
            whether it was taken, another one with the same rows could double them.
        base: What it builds on.
    """

    storage: TableStorage
    pointer: SnapshotPointer
    snapshot: Snapshot
    base: Snapshot | None

    def settle(self, statistics: Sequence[PartitionStatistics]) -> bool:
        """True if the snapshot was taken; False when another commit came first.

        Raises:
            OutcomeUnknown: It could not be found out. Ask `TableCommit.filter_committed` later, or
                look for the commit's user and identifier.
        """
        lost_answer: Unavailable | None = None
        for offer in range(_OFFERS):
            if offer:
                wait(self.storage, offer)
                fate = self._fate()
                if fate is not None:
                    return fate
            try:
                accepted = self.pointer.commit(self.snapshot, self.base, statistics)
            except Unavailable as error:
                lost_answer = error
                continue
            except HeadwaterError as error:
                if lost_answer is None:
                    raise
                raise self._unknown() from error
            if accepted or lost_answer is None:
                return accepted
            # Refused now: perhaps because an earlier offer was taken and built upon.
            fate = self._fate()
            if fate is not None:
                return fate
        raise self._unknown() from lost_answer

    def _fate(self) -> bool | None:
        """True if the snapshot was taken; None while that is open.

        Its id decides: once another snapshot bears it, ours can never be taken.
        """
        try:
            found = self.pointer.latest()
            if found is None or found.id < self.snapshot.id:
                return None
            if found.id > self.snapshot.id:
                found = self.storage.snapshot(self.snapshot.id)
        except HeadwaterError:
            # Who is refused an answer, or finds the history damaged, knows no more than before.
            return None
        return found.uuid == self.snapshot.uuid

    def _unknown(self) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"table {self.storage.name}: whether snapshot {self.snapshot.id} by "
            f"{self.snapshot.commit_user} with identifier {self.snapshot.commit_identifier} was "
            "committed is not known; its files are kept. Look at the table's snapshots before "
            "trying again"
        )
