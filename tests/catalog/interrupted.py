"""Commits that others come before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.storage.snapshot.snapshot import Snapshot
from headwater.storage.table_storage import CommitAnswer, PartitionStatistics, SnapshotPointer


@dataclass
class Racing:
    """A pointer before whose next commit something else happens."""

    inner: SnapshotPointer
    before: Callable[[], object] | None
    offered: int = 0

    def latest(self) -> Snapshot | None:
        return self.inner.latest()

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        return self.inner.was_taken(snapshot)

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        self.offered += 1
        before, self.before = self.before, None
        if before is not None:
            before()
        return self.inner.commit(snapshot, base, statistics)


@dataclass
class Overtaken:
    """A pointer; at once after it has told the latest snapshot so often, something else happens."""

    inner: SnapshotPointer
    after: Callable[[], object]
    looks: int = 1

    def latest(self) -> Snapshot | None:
        found = self.inner.latest()
        self.looks -= 1
        if self.looks == 0:
            self.after()
        return found

    def was_taken(self, snapshot: Snapshot) -> bool | None:
        return self.inner.was_taken(snapshot)

    def commit(
        self, snapshot: Snapshot, base: Snapshot | None, statistics: Sequence[PartitionStatistics]
    ) -> CommitAnswer:
        return self.inner.commit(snapshot, base, statistics)
